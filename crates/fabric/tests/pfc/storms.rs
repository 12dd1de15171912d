//! Hosts that pause their links for ever, and pause frames that are lost.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Ecn, Flow, FlowId, Memory, NodeId, Packet, PacketId, PortCall, Time,
    topology,
};
use flowloom_fabric::{Aim, AimedFault, Fault, PacketKind, Sim, SimSetup};
use flowloom_transports::disciplines::DropTail;
use flowloom_transports::pfc::{Pfc, PfcPort, Setting};
use flowloom_transports::tcp::{self, Dctcp};

use crate::common::blast::{Header, Kind};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, in_order, setup, watch_aimed};
use crate::{Greedy, OverPfc, drops, setting};

type Inner = PfcPort<DropTail>;

/// The port of a host that stops all classes of its link before it sends anything else, and never lets them go on.
struct Stormy {
    inner: Inner,
    storms: bool,
}

impl Discipline<Header<()>> for Stormy {
    type Shared = <Inner as Discipline<Header<()>>>::Shared;
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<()>, Self::Shared>, packet: PacketId) {
        self.inner.enqueue(call, packet);
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<()>, Self::Shared>) -> Dequeue {
        if !std::mem::take(&mut self.storms) {
            return self.inner.dequeue(call);
        }
        Dequeue::Packet(call.pool.insert(Packet {
            flow: FlowId(0),
            src: NodeId(2),
            dst: NodeId::LINK,
            size_bytes: 84,
            payload_bytes: 0,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            offset: Bytes::new(u64::MAX), // all classes, and bits that mean nothing
            header: Header { kind: Kind::Other, extra: () },
        }))
    }
    fn handle_link_frame(&mut self, call: &mut PortCall<'_, Header<()>, Self::Shared>, packet: PacketId) {
        self.inner.handle_link_frame(call, packet);
    }
}

/// Host 2 stops its link with its first packet. Flows to it stop, and a flow of the same host stops behind them; others end, and nothing is lost.
#[test]
fn a_host_that_pauses_for_ever_stops_those_that_send_to_it() {
    let memory = Memory::PerPort(Bytes::new(20_000));
    let network = topology::single_switch(5, gbps(10), HOP_DELAY, STORE);
    let size = 1_000_000;
    let flows: Vec<Flow> = [(0, 2), (2, 3), (0, 3), (4, 3)]
        .into_iter()
        .zip(0..)
        .map(|((src, dst), id)| flow(id, src, dst, size, Time::ZERO))
        .collect();
    let setup = SimSetup { memory, ..setup(network) };
    let mut sim = Sim::<Greedy, Stormy, ()>::with_ports(&setting(Pfc::default(), memory), setup, flows, (), |inner, site| {
        Stormy { inner, storms: site.network.link(site.link).from == NodeId(2) }
    });
    while sim.step(1 << 20) {}
    let (report, ()) = sim.finish().expect("conservation");
    let ended: Vec<bool> = report.records.iter().map(|record| record.acknowledged < Time::MAX).collect();
    // The answer to host 2's own flow waits at its stopped link, so host 2 does not know that all was delivered.
    assert_eq!(ended, [false, false, false, true]);
    assert_eq!(report.records[1].delivered_bytes, size);
    assert_eq!(drops(&report), 0);
    // What host 0 could send before the switch was full: its port's memory of 20 kB, and less than 200 packets at once.
    assert!(report.records[0].delivered_bytes < 20_000);
}

/// Pause frames are lost on the way to two hosts, and so are acknowledgements, which TCP survives. Packets overflow where a stop was lost, and a link stays stopped where the
/// leave to go on was. The bytes are conserved, and whoever is not stopped ends.
#[test]
fn lost_pause_frames_break_nothing_but_flows() {
    let memory = Memory::PerPort(Bytes::new(9_000));
    let network = topology::single_switch(6, gbps(10), HOP_DELAY, STORE);
    let flows: Vec<Flow> = (0..5).map(|host| flow(host, host, 5, 300_000, Time::ZERO)).collect();
    let setting = Setting { transport: tcp::Config::default(), pfc: Pfc::default(), memory };
    let (mut overflows, mut stuck) = (0, 0);
    for seed in 0..20 {
        let setup = SimSetup { memory, seed, time_limit: Time::from_ps(2_000_000_000_000), ..setup(network.clone()) };
        // Links 1 and 3 lead from the switch to the hosts 0 and 1.
        let faults = |link: u32| {
            let aim = Aim { packets: PacketKind::Control, flow: None };
            if link == 1 || link == 3 { vec![AimedFault { fault: Fault::Loss(0.3), aim }] } else { Vec::new() }
        };
        let (report, ()) = watch_aimed::<OverPfc<Dctcp>, ()>(&setting, setup, flows.clone(), (), faults);
        overflows += report.ports.iter().map(|port| port.dropped_packets[0]).sum::<u64>();
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let ends = record.acknowledged < Time::MAX;
            assert!(ends || flow.id.0 < 2, "{seed}: {flow:?} meets no fault");
            stuck += u32::from(!ends);
        }
    }
    assert!(overflows > 0 && stuck > 0, "both happened: {overflows}, {stuck}");
}

/// Data packets are lost, damaged, copied and held back on every link, and links go down; pause frames are not struck. If an account leaked or a wake-up
/// was lost, a link would stay stopped and its flows would not end.
#[test]
fn flows_survive_every_fault_that_spares_pause_frames() {
    let network = topology::leaf_spine(3, 3, 2, gbps(10), gbps(10), HOP_DELAY, STORE);
    let random = [Fault::Loss(0.02), Fault::Corrupt(0.02), Fault::Duplicate(0.02), Fault::Reorder(0.02, Duration::from_us(30))];
    let data = |fault| AimedFault { fault, aim: Aim { packets: PacketKind::Data, flow: None } };
    for (seed, memory) in (0..12).zip(
        [Memory::PerPort(Bytes::new(12_000)), Memory::PerSwitch { bytes: Bytes::new(60_000), alpha: 1.0 }].into_iter().cycle(),
    ) {
        let mut dice = Dice::new(seed);
        let flows = (0..40).map(|_| {
            let src = dice.below(9);
            let (dst, size) = ((src + 1 + dice.below(8)) % 9, 1 + dice.below(200_000));
            flow(0, src as u32, dst as u32, size, Time::ZERO + Duration::from_ns(dice.below(300_000)))
        });
        let flows = in_order(flows.collect());
        let down = Fault::Down(Time::ZERO + Duration::from_us(100), Time::ZERO + Duration::from_us(400));
        let faults = |link: u32| random.into_iter().map(data).chain(link.is_multiple_of(7).then(|| down.into())).collect();
        let setting = Setting { transport: tcp::Config::default(), pfc: Pfc::default(), memory };
        let setup = SimSetup { memory, seed, ..setup(network.clone()) };
        let (report, ()) = watch_aimed::<OverPfc<Dctcp>, ()>(&setting, setup, flows, (), faults);
        assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX), "{seed}");
        let struck = |why: DropReason| report.ports.iter().map(|port| port.dropped_packets[why as usize]).sum::<u64>();
        assert!(
            struck(DropReason::Lost) > 0 && struck(DropReason::Corrupted) > 0 && struck(DropReason::LinkDown) > 0,
            "{seed}"
        );
    }
}
