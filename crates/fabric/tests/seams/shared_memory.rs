//! A switch's memory that its ports share under dynamic thresholds, and its accounting with fault injection.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Ecn, Effects, FlowId, LinkId, Memory, Network, Nic, NodeId, NodeKind,
    Packet, Pool, PortCall, PortNumber, PortSite, Rate, Time, WireProfile, topology,
};
use flowloom_fabric::{Fault, Faulty, Report, SimSetup};
use flowloom_transports::disciplines::{EcnConfig, EcnPriority, Marking, SharedMemory};

use crate::common::blast::{Blast, Header, Scheme};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, run, setup, watch_faulty};

enum Commodity {}

impl Scheme for Commodity {
    const NIC: Nic = Nic::Queued;
    type Config = EcnConfig;
    type Extra = ();
    type Port = EcnPriority;
    fn port(config: &EcnConfig, site: &PortSite<'_>) -> EcnPriority {
        EcnPriority::new(config, 8, site)
    }
}

const MEMORY: u64 = 600 * 1500;

/// One switch. Each port to a receiver (host 4 or 5) gets packets from two hosts, twice what it can send.
fn two_to_each(receivers: &[u32], alpha: f64) -> (SimSetup, Vec<flowloom_core::Flow>) {
    let network = topology::single_switch(6, gbps(10), HOP_DELAY, STORE);
    let setup = SimSetup { memory: Memory::PerSwitch { bytes: Bytes::new(MEMORY), alpha }, ..setup(network) };
    let senders = receivers.iter().flat_map(|to| [(2 * (to - 4), *to), (2 * (to - 4) + 1, *to)]);
    (setup, (0..).zip(senders).map(|(id, (from, to))| flow(id, from, to, 600 * 1460, Time::ZERO)).collect())
}

fn peak(report: &Report, host: u32) -> u64 {
    let port = report.network.ports(NodeId(host))[0].reverse();
    report.ports[port.index()].peak_bytes
}

#[test]
fn the_queues_of_overflowing_ports_follow_the_closed_form() {
    for alpha in [0.25, 1.0, 8.0] {
        for receivers in [&[4][..], &[4, 5]] {
            let (setup, flows) = two_to_each(receivers, alpha);
            let report = run::<Blast<Commodity>>(&EcnConfig::default(), setup, flows);
            let expected = alpha * MEMORY as f64 / (1.0 + receivers.len() as f64 * alpha);
            // Of packets that arrive at the same time, those of one port may be counted before those of the other. A packet moves the threshold
            // by alpha packets. So the longer of two queues grows on as long as the other is less than half of this below the expected length.
            let chance = 2.0 + if receivers.len() > 1 { alpha / 2.0 } else { 0.0 };
            for host in receivers {
                let found = peak(&report, *host) as f64;
                assert!((found - expected).abs() <= chance * 1500.0, "alpha {alpha}, {receivers:?}: {found}, not {expected}");
            }
        }
    }
}

/// Each sender puts as many bytes as the memory holds into its own port's queue at once. A shared memory's threshold would admit only a
/// part.
#[test]
fn hosts_do_not_share_memory() {
    let (setup, flows) = two_to_each(&[4], 1.0);
    let report = run::<Blast<Commodity>>(&EcnConfig::default(), setup, flows);
    let drops = |kind: NodeKind| -> u64 {
        let of = |link: &usize| report.network.node(report.network.links()[*link].from).kind == kind;
        (0..report.ports.len()).filter(of).map(|link| report.ports[link].drops()).sum()
    };
    assert_eq!(drops(NodeKind::Host), 0);
    assert!(drops(NodeKind::Switch) > 0);
}

const EVERY_FAULT: [Fault; 5] = [
    Fault::Loss(0.05),
    Fault::Corrupt(0.05),
    Fault::Duplicate(0.2),
    Fault::Reorder(0.2, Duration::from_us(30)),
    Fault::Down(Time::from_ps(100_000_000), Time::from_ps(150_000_000)),
];

/// The end of a run checks the conservation of each flow's bytes. The port and the memory assert that they never release more than was
/// added.
#[test]
fn bytes_are_conserved_with_every_fault_on_every_link() {
    let (setup, flows) = two_to_each(&[4, 5], 1.0);
    let (report, ()) = watch_faulty::<Blast<Commodity>, ()>(&EcnConfig::default(), setup, flows, (), |_| EVERY_FAULT.to_vec());
    let total = |why: DropReason| report.ports.iter().map(|port| port.dropped_packets[why as usize]).sum::<u64>();
    for why in [DropReason::Overflow, DropReason::Lost, DropReason::Corrupted, DropReason::LinkDown] {
        assert!(total(why) > 0, "{why:?}");
    }
    assert!(report.records.iter().all(|record| record.duplicated_bytes > 0));
}

fn packet(dice: &mut Dice) -> Packet<Header<()>> {
    let size_bytes = 40 + dice.below(1461) as u32;
    Packet {
        flow: FlowId(0),
        src: NodeId(0),
        dst: NodeId(1),
        size_bytes,
        payload_bytes: size_bytes - 40,
        class: dice.below(8) as u8,
        ecn: Ecn::Capable,
        retransmission: false,
        corrupt: false,
        offset: Bytes::ZERO,
        header: Header { kind: crate::common::blast::Kind::Other, extra: () },
    }
}

/// Two ports of one switch with every fault, without a simulator. When the last packet has left, the memory is free again, whichever
/// packets were copied, lost, damaged or held back.
#[test]
fn faults_do_not_leak_shared_memory() {
    let network: Network = topology::single_switch(2, gbps(10), HOP_DELAY, STORE);
    let mut dice = Dice::new(1);
    for marking in [Marking::Port, Marking::Queue] {
        let config = EcnConfig { ecn: marking, mark_above: Some(Bytes::new(3000)), ..EcnConfig::default() };
        let mut ports: Vec<Faulty<EcnPriority>> = (0..2)
            .map(|host| {
                let link: LinkId = network.ports(NodeId(host))[0].reverse();
                let memory = Memory::PerSwitch { bytes: Bytes::new(20_000), alpha: 1.0 };
                let site = PortSite { link, network: &network, wire: WireProfile::IP_1500, memory, seed: 1 };
                Faulty::new(EcnPriority::new(&config, 8, &site), &site, EVERY_FAULT.to_vec(), 7)
            })
            .collect();
        let (mut pool, mut shared, mut effects) = (Pool::default(), SharedMemory::default(), Effects::default());
        let (mut fullest, mut left) = (0, 0);
        for step in 0..20_000_u64 {
            // Packets arrive during the first half. Then all packets that are held back or queued leave.
            let (arrives, at) = (step < 10_000 && dice.below(2) == 0, dice.below(2) as usize);
            let arrival = arrives.then(|| pool.insert(packet(&mut dice)));
            let mut call = PortCall {
                now: Time::from_ps(step * 100_000),
                pool: &mut pool,
                shared: &mut shared,
                number: PortNumber(at as u16),
                ingress: PortNumber::LOCAL,
                rate: Rate::from_gbps(10),
                effects: &mut effects,
            };
            if let Some(id) = arrival {
                ports[at].enqueue(&mut call, id);
            } else if let Dequeue::Packet(id) = ports[at].dequeue(&mut call) {
                pool.remove(id);
                left += 1;
            }
            effects.dropped.drain(..).for_each(|(id, _)| pool.remove(id));
            fullest = fullest.max(shared.used().get());
            let inside: u64 = pool.packets().map(|packet| u64::from(packet.size_bytes)).sum();
            assert!(shared.used().get() <= inside.min(20_000), "at step {step}");
        }
        assert_eq!((shared, pool.len()), (SharedMemory::default(), 0));
        assert!((fullest > 10_000) && (left > 1000) && effects.marked > 100 && effects.duplicated.len() > 100);
    }
}
