//! Nodes that pause their neighbours without need, and pause frames that are lost.

use flowloom_core::{Bytes, DropReason, Duration, Flow, LinkId, Memory, NodeId, Time, topology};
use flowloom_fabric::{Aim, AimedFault, Fault, PacketKind, Report, SimSetup};
use flowloom_transports::pfc::{NOBODY, Pfc, Setting, Storm, stopped_by};
use flowloom_transports::tcp::{self, Dctcp};

use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, ps, setup, watch, watch_aimed};
use crate::common::watch::Log;
use crate::{Greedy, GreedyQueued, OverPfc, drops, setting};

fn storm(node: u32, from: Time, to: Time, every: Duration) -> Storm {
    Storm { node: NodeId(node), from, to, every }
}

fn ended(report: &Report) -> Vec<bool> {
    report.records.iter().map(|record| record.acknowledged < Time::MAX).collect()
}

/// By hand: host 1 has nothing to send, so its frames leave when they are due. The first one is obeyed 67.2 ns, 200 ns and 614.4 ns later, at 10.8816 us;
/// the resume frame of 20 us takes effect at 20.2672 us. Packet k of host 0 comes to the switch at 1.4 + 1.2 k and leaves at once, until packet 8
/// finds its port paused at 11 us.
#[test]
fn frames_leave_when_they_are_due_and_the_link_goes_on_after_the_last() {
    let memory = Memory::PerPort(Bytes::new(100_000));
    let setup = SimSetup { memory, ..setup(topology::single_switch(2, gbps(10), HOP_DELAY, STORE)) };
    let storms =
        vec![storm(1, ns(10_000), ns(20_000), Duration::from_us(4)), storm(1, ns(21_000), ns(21_001), Duration::from_us(4))];
    let flows = vec![flow(0, 0, 1, 20 * 1460, Time::ZERO)];
    let setting = Setting { storms, ..setting(Pfc::default(), memory) };
    let (report, log) = watch::<Greedy, Log<_>>(&setting, setup.clone(), flows.clone(), Log::default());
    let uplink = LinkId(2);
    let frames: Vec<_> = log.on(uplink).filter_map(|(at, packet)| Some((at, stopped_by(packet)?.0, packet.flow))).collect();
    // The second storm ends before its first frame has left.
    let expected = [(10_000_000, 1), (14_000_000, 1), (18_000_000, 1), (20_000_000, 0), (21_000_000, 1), (21_067_200, 0)];
    assert_eq!(frames, expected.map(|(at, stopped)| (ps(at), stopped, NOBODY)));
    let left: Vec<u64> = log.on(uplink.reverse()).map(|(at, _)| at.as_ps()).collect();
    let expected = (0..8).map(|k| 1_400_000 + 1_200_000 * k).chain((0..12).map(|k| 20_267_200 + 1_200_000 * k));
    assert_eq!(left, expected.collect::<Vec<u64>>());
    assert!(ended(&report)[0] && drops(&report) == 0);
    // A storm that is over before it takes effect changes nothing. The kind of the NIC makes no difference.
    let short = Setting { storms: setting.storms[1..].to_vec(), ..setting.clone() };
    let (calm, _) = watch::<GreedyQueued, Log<_>>(&short, setup, flows, Log::default());
    assert_eq!(calm.records[0].received, ns(2 * 200 + 21 * 1_200));
}

/// Host 2 stops its link with its first packet. Flows to it stop, and a flow of the same host stops behind them; others end, and nothing is lost. When
/// the storm ends, all do.
#[test]
fn a_host_that_pauses_its_link_stops_those_that_send_to_it() {
    let memory = Memory::PerPort(Bytes::new(20_000));
    let size = 1_000_000;
    let flows: Vec<Flow> = [(0, 2), (2, 3), (0, 3), (4, 3)]
        .into_iter()
        .zip(0..)
        .map(|((src, dst), id)| flow(id, src, dst, size, Time::ZERO))
        .collect();
    let after = |time_limit| {
        let network = topology::single_switch(5, gbps(10), HOP_DELAY, STORE);
        let setup = SimSetup { memory, time_limit, ..setup(network) };
        let storms = vec![storm(2, Time::ZERO, ns(500_000_000), Duration::from_us(500))];
        let setting = Setting { storms, ..setting(Pfc::default(), memory) };
        let (report, ()) = watch::<Greedy, ()>(&setting, setup, flows.clone(), ());
        assert_eq!(drops(&report), 0);
        report
    };
    let report = after(ns(499_000_000));
    // The answer to host 2's own flow waits at its stopped link, so host 2 does not know that all was delivered.
    assert_eq!(ended(&report), [false, false, false, true]);
    assert_eq!(report.records[1].delivered_bytes, size);
    // What host 0 could send before the switch was full: its port's memory of 20 kB, and less than 200 packets at once.
    assert!(report.records[0].delivered_bytes < 20_000);
    let report = after(Time::MAX);
    assert_eq!(ended(&report), [true; 4]);
    // Two flows of host 0, one after the other, were left, and no more.
    assert!(report.end < ns(500_000_000 + 2_000_000), "{}", report.end);
}

/// Pause frames are lost on the way to two hosts, and so are acknowledgements, which TCP survives. Packets overflow where a stop was lost, and a link stays stopped where a
/// resume frame was lost. The bytes are conserved, and all flows that are not stopped end.
#[test]
fn lost_pause_frames_break_nothing_but_flows() {
    let memory = Memory::PerPort(Bytes::new(9_000));
    let network = topology::single_switch(6, gbps(10), HOP_DELAY, STORE);
    let flows: Vec<Flow> = (0..5).map(|host| flow(host, host, 5, 300_000, Time::ZERO)).collect();
    let setting = Setting { transport: tcp::Config::default(), memory, ..Setting::default() };
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

/// Data packets are lost, damaged, copied and held back on every link, and links go down or are cut; these faults do not affect pause frames. If an account leaked or a
/// wake-up was lost, a link would stay stopped and its flows would not end.
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
        let (from, to) = (Time::ZERO + Duration::from_us(100), Time::ZERO + Duration::from_us(400));
        let cable = |link: u32| match (link / 2) % 7 {
            0 => Some(Fault::Down(from, to).into()),
            3 => Some(Fault::Cut(from, to).into()),
            _ => None,
        };
        let faults = |link: u32| random.into_iter().map(data).chain(cable(link)).collect();
        let setting = Setting { transport: tcp::Config::default(), memory, ..Setting::default() };
        let setup = SimSetup { memory, seed, ..setup(network.clone()) };
        let (report, ()) = watch_aimed::<OverPfc<Dctcp>, ()>(&setting, setup, flows, (), faults);
        assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX), "{seed}");
        let struck = |why: DropReason| report.ports.iter().map(|port| port.dropped_packets[why as usize]).sum::<u64>();
        counts_no_queue_below_empty(&report);
        assert!(
            struck(DropReason::Lost) > 0 && struck(DropReason::Corrupted) > 0 && struck(DropReason::LinkDown) > 0,
            "{seed}"
        );
    }
}

/// Faults that cut a link from `from` to `to` in both directions, as a broken cable does.
fn cut(link: LinkId, from: Time, to: Time) -> impl Fn(u32) -> Vec<AimedFault> + Sync {
    move |other| if other / 2 == link.0 / 2 { vec![Fault::Cut(from, to).into()] } else { Vec::new() }
}

/// No queue is counted below empty, or its length would be more than the sum of all that was sent.
fn counts_no_queue_below_empty(report: &Report) {
    for port in &report.ports {
        assert!(port.peak_bytes < 1 << 30 && port.packet_time < 1 << 80 && port.byte_time < 1 << 80, "{port:?}");
    }
}

/// Three hosts send to host 3, so the switch stops each of them nearly all of the time. When the link of host 0 is cut, the switch soon holds nothing of this host any more and orders a frame that lets it go on. The frame
/// waits until the link is up. A port that comes up is not paused either, so flow 0 ends.
#[test]
fn a_link_that_was_cut_while_it_was_stopped_goes_on() {
    let memory = Memory::PerPort(Bytes::new(9_000));
    let flows: Vec<Flow> = (0..3).map(|host| flow(host, host, 3, 300_000, Time::ZERO)).collect();
    let setting = Setting { transport: tcp::Config::default(), memory, ..Setting::default() };
    for seed in 0..20 {
        let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
        let nic = network.ports(NodeId(0))[0];
        let setup = SimSetup { memory, seed, time_limit: Time::from_ps(20_000_000_000_000), ..setup(network) };
        let from = ns(100_000 + 700 * seed);
        let faults = cut(nic, from, from + Duration::from_us(100));
        let (report, log) = watch_aimed::<OverPfc<Dctcp>, Log<_>>(&setting, setup, flows.clone(), Log::default(), faults);
        assert_eq!(ended(&report), [true; 3], "{seed}");
        counts_no_queue_below_empty(&report);
        let frames = log.on(nic.reverse()).filter(|(_, packet)| stopped_by(packet).is_some());
        assert!(frames.filter(|(at, _)| *at < from).count() > 0, "{seed}: the link was stopped before");
    }
}

/// As in `frames_leave_when_they_are_due`, packets from 8 on find their port paused. When the link of host 1 is cut at 20 us, the packets 8 to 15 wait there and are lost.
#[test]
fn a_cut_loses_packets_of_a_class_that_is_paused() {
    let memory = Memory::PerPort(Bytes::new(100_000));
    let setup = SimSetup { memory, ..setup(topology::single_switch(2, gbps(10), HOP_DELAY, STORE)) };
    let storms = vec![storm(1, ns(10_000), ns(200_000), Duration::from_us(4))];
    let setting = Setting { storms, ..setting(Pfc::default(), memory) };
    let flows = vec![flow(0, 0, 1, 100 * 1460, Time::ZERO)];
    let link = LinkId(2);
    let faults = cut(link, ns(20_000), ns(40_000));
    let (report, log) = watch_aimed::<Greedy, Log<_>>(&setting, setup, flows, Log::default(), faults);
    let lost = log.dropped.iter().filter(|(at, at_link, ..)| *at == ns(20_000) && *at_link == link.reverse());
    let lost: Vec<_> = lost.map(|(_, _, packet, why)| (packet.offset.get() / 1460, *why)).collect();
    assert_eq!(lost, (8..16).map(|number| (number, DropReason::LinkDown)).collect::<Vec<_>>());
    // The storm goes on when the link is up: its next frame leaves at once and is obeyed 881.6 ns later, before the next packet comes at 41 us.
    let frame = log.on(link).find(|(at, packet)| *at >= ns(20_000) && stopped_by(packet).is_some()).map(|(at, _)| at);
    assert_eq!(frame, Some(ns(40_000)));
    assert_eq!(log.on(link.reverse()).filter(|(at, _)| *at >= ns(40_000) && *at < ns(200_000)).count(), 0);
    counts_no_queue_below_empty(&report);
}

/// Hosts and switches pause their neighbours at random, also while others do and while data is lost. Everything ends.
#[test]
fn flows_survive_storms_of_any_node() {
    let network = topology::leaf_spine(3, 3, 2, gbps(10), gbps(10), HOP_DELAY, STORE);
    for seed in 0..12 {
        let memory = Memory::PerPort(Bytes::new(if seed % 2 == 0 { 12_000 } else { 40_000 }));
        let mut dice = Dice::new(seed);
        let mut time = |most: u64| Duration::from_ns(1 + dice.below(most));
        let storms = (0..14).filter_map(|node| {
            let from = Time::ZERO + time(300_000);
            (time(3) < Duration::from_ns(3)).then(|| storm(node, from, from + time(2_000_000), time(100_000)))
        });
        let setting = Setting { transport: tcp::Config::default(), memory, storms: storms.collect(), ..Setting::default() };
        let flows = (0..40).map(|_| {
            let src = dice.below(9);
            let (dst, size) = ((src + 1 + dice.below(8)) % 9, 1 + dice.below(200_000));
            flow(0, src as u32, dst as u32, size, Time::ZERO + Duration::from_ns(dice.below(300_000)))
        });
        let flows = in_order(flows.collect());
        let loss = AimedFault { fault: Fault::Loss(0.01), aim: Aim { packets: PacketKind::Data, flow: None } };
        let setup = SimSetup { memory, seed, ..setup(network.clone()) };
        let (report, ()) = watch_aimed::<OverPfc<Dctcp>, ()>(&setting, setup, flows, (), |_| vec![loss]);
        assert!(ended(&report).iter().all(|ended| *ended), "{seed}: {:?}", setting.storms);
        let overflows: u64 = report.ports.iter().map(|port| port.dropped_packets[DropReason::Overflow as usize]).sum();
        assert_eq!(overflows, 0, "{seed}");
    }
}
