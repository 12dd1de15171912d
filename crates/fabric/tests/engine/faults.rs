//! Fault injection: rates, bounds, and conservation of bytes.

use std::collections::HashMap;

use flowloom_core::{DropReason, Duration, Event, Flow, FlowId, LinkId, Memory, NodeId, Packet, Time, topology};
use flowloom_fabric::{Aim, AimedFault, Fault, Observer, PacketKind, Routing, SimSetup};
use proptest::prelude::*;

use crate::common::blast::{Blast, Header, Kind, Plain};
use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, setup, watch_aimed, watch_faulty};
use crate::common::watch::Log;

/// The middle link of a dumbbell, from left to right.
const MIDDLE: u32 = 8;

fn dumbbell() -> SimSetup {
    let network = topology::dumbbell(2, gbps(10), gbps(10), HOP_DELAY, STORE);
    assert_eq!(network.hop_name(LinkId(MIDDLE)), "leaf-leaf");
    setup(network)
}

/// Sends 20 000 packets through a middle link with this fault.
fn through(fault: Fault) -> (flowloom_fabric::Report, Log<Header<()>>) {
    let flows = vec![flow(0, 0, 2, 1460 * 20_000, Time::ZERO)];
    let faults = |link| if link == MIDDLE { vec![fault] } else { Vec::new() };
    watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults)
}

/// Whether `count` of `n` agrees with a probability `p`, within four standard deviations.
fn is_share(count: u64, n: u64, p: f64) -> bool {
    let (mean, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    (count as f64 - mean).abs() <= 4.0 * deviation
}

#[test]
fn loss_has_its_rate_and_happens_on_its_link() {
    for p in [0.01, 0.1, 0.5] {
        let (report, _) = through(Fault::Loss(p));
        let lost = report.ports[MIDDLE as usize].dropped_packets[DropReason::Lost as usize];
        assert!(is_share(lost, 20_000, p), "{lost} at {p}");
        assert_eq!(report.ports.iter().map(flowloom_fabric::PortCounters::drops).sum::<u64>(), lost);
        assert_eq!(report.records[0].arrived_bytes, 1460 * (20_000 - lost));
        assert_eq!(u64::from(report.records[0].dropped_packets), lost);
    }
}

/// Losses on two links that carry packets at the same times are independent. Of 5000 packets, about 500 are lost on each link, and about
/// 50 of these on both.
#[test]
fn losses_of_different_links_are_independent() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let flows = vec![flow(0, 0, 2, 1460 * 5000, Time::ZERO), flow(1, 1, 3, 1460 * 5000, Time::ZERO)];
    let to_hosts = [2, 3].map(|host| network.ports(NodeId(host))[0].reverse());
    let faults = |link| if to_hosts.contains(&LinkId(link)) { vec![Fault::Loss(0.1)] } else { Vec::new() };
    let (_, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), setup(network), flows, Log::default(), faults);
    let lost = |flow: u32| -> std::collections::BTreeSet<u64> {
        log.dropped.iter().filter(|(_, _, p, _)| p.flow.0 == flow).map(|(_, _, p, _)| p.offset.get()).collect()
    };
    let both = lost(0).intersection(&lost(1)).count() as u64;
    assert!(is_share(lost(0).len() as u64, 5000, 0.1) && is_share(lost(1).len() as u64, 5000, 0.1));
    assert!(is_share(both, 5000, 0.01), "{both} on both");
}

#[test]
fn corrupt_packets_are_forwarded_and_the_receiving_nic_discards_them() {
    let (report, log) = through(Fault::Corrupt(0.1));
    let last = report.network.ports(NodeId(2))[0].reverse();
    let discarded = report.ports[last.index()].dropped_packets[DropReason::Corrupted as usize];
    assert!(is_share(discarded, 20_000, 0.1), "{discarded}");
    assert_eq!(report.ports[last.index()].packets(), 20_000, "all crossed the last link");
    assert_eq!(log.arrived.len() as u64, 20_000 - discarded);
    assert!(log.arrived.iter().all(|(_, _, packet)| !packet.corrupt));
}

#[test]
fn duplicates_are_counted_and_delivered_once() {
    let (report, log) = through(Fault::Duplicate(0.1));
    let record = report.records[0];
    assert_eq!(record.sent_bytes, 1460 * 20_000);
    assert!(is_share(record.duplicated_bytes / 1460, 20_000, 0.1));
    assert_eq!(record.arrived_bytes, record.sent_bytes + record.duplicated_bytes);
    assert_eq!(record.delivered_bytes, record.sent_bytes);
    let mut times = HashMap::new();
    for (_, _, packet) in log.arrived.iter().filter(|(_, node, _)| *node == NodeId(2)) {
        *times.entry(packet.offset).or_insert(0) += 1;
    }
    assert_eq!(times.len(), 20_000);
    assert_eq!(times.values().filter(|count| **count == 2).count() as u64, record.duplicated_bytes / 1460);
}

/// Packets are 50 µs apart, so that they do not delay each other. 20 % of them are late, by a uniformly distributed time up to 10 µs.
#[test]
fn held_back_packets_are_late_by_a_uniform_time() {
    let flows: Vec<Flow> = (0..20_000).map(|id| flow(id, 0, 2, 1460, ns(50_000 * u64::from(id)))).collect();
    let faults = |link| if link == MIDDLE { vec![Fault::Reorder(0.2, Duration::from_us(10))] } else { Vec::new() };
    let (report, ()) = watch_faulty::<Blast<Plain>, ()>(&(), dumbbell(), flows, (), faults);
    let alone = Duration::from_ns(3 * 1400);
    let late = |(flow, record): (&Flow, &flowloom_fabric::FlowRecord)| record.received - flow.start - alone;
    let late: Vec<Duration> =
        report.flows.iter().zip(&report.records).map(late).filter(|late| *late > Duration::ZERO).collect();
    assert!(is_share(late.len() as u64, 20_000, 0.2), "{}", late.len());
    assert!(late.iter().all(|late| *late <= Duration::from_us(10) + Duration::from_ps(1)));
    // A uniform time on (0, 10) has mean 5 and standard deviation 10/√12.
    let mean = late.iter().map(|late| late.as_us_f64()).sum::<f64>() / late.len() as f64;
    assert!((mean - 5.0).abs() < 4.0 * 10.0 / (12.0 * late.len() as f64).sqrt(), "{mean}");
}

#[test]
fn other_packets_overtake_those_that_are_held_back() {
    let (report, log) = through(Fault::Reorder(0.1, Duration::from_us(10)));
    let offsets: Vec<u64> = log.arrived.iter().filter(|(_, n, _)| *n == NodeId(2)).map(|(_, _, p)| p.offset.get()).collect();
    assert_eq!(offsets.len(), 20_000);
    let overtaken = offsets.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    // A packet is held for 10 µs × U, with U uniform in (0, 1). It is overtaken if that is more than a packet time of 1.2 µs: in 88 % of
    // cases.
    assert!(is_share(overtaken, 20_000, 0.1 * 0.88), "{overtaken}");
    assert_eq!(report.records[0].delivered_bytes, 1460 * 20_000);
}

/// Packet k (from 1) reaches the middle link's port at 1.2 k + 0.2 µs. The link is down from 20 to 50 µs: packets 17 to 41 are lost, and
/// packet 16 was sent before.
#[test]
fn a_link_that_is_down_loses_arriving_packets_and_no_others() {
    let flows = vec![flow(0, 0, 2, 146_000, Time::ZERO)];
    let faults = |link| if link == MIDDLE { vec![Fault::Down(ns(20_000), ns(50_000))] } else { Vec::new() };
    let (report, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
    let lost: Vec<u64> = log.dropped.iter().map(|(_, _, packet, _)| packet.offset.get() / 1460 + 1).collect();
    assert_eq!(lost, (17..=41).collect::<Vec<_>>());
    assert!(log.dropped.iter().all(|(_, link, _, why)| (*link, *why) == (LinkId(MIDDLE), DropReason::LinkDown)));
    assert_eq!(report.records[0].arrived_bytes, 1460 * 75);
}

/// Two hosts send at once, so packets queue. They stay queued while the link is down, and the first is sent when the link is up.
#[test]
fn queued_packets_wait_for_the_link() {
    let flows = vec![flow(0, 0, 2, 146_000, Time::ZERO), flow(1, 1, 3, 146_000, Time::ZERO)];
    let faults = |link| if link == MIDDLE { vec![Fault::Down(ns(20_000), ns(50_000))] } else { Vec::new() };
    let (report, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
    let sent: Vec<Time> = log.on(LinkId(MIDDLE)).map(|(time, _)| time).collect();
    let (before, after) = sent.split_at(sent.partition_point(|time| *time < ns(20_000)));
    // One packet is sent every 1.2 µs from 1.4 µs on. 32 packets have arrived by 20 µs, so 16 are queued.
    assert_eq!((before.len(), before[15]), (16, ns(1400 + 15 * 1200)));
    assert_eq!(after[0], ns(50_000));
    assert_eq!(after.len() + before.len() + report.ports[MIDDLE as usize].drops() as usize, 200);
    assert_eq!(report.ports[MIDDLE as usize].drops(), 2 * 25);
}

/// A NIC whose link is down takes no packets from its endpoint. Of 100 packets it loses only the first, and sends the others when the
/// link is up.
#[test]
fn an_endpoint_keeps_its_packets_while_its_own_link_is_down() {
    let setup = dumbbell();
    let nic = setup.network.ports(NodeId(0))[0];
    let faults = |link| if LinkId(link) == nic { vec![Fault::Down(ns(0), ns(50_000))] } else { Vec::new() };
    let flows = vec![flow(0, 0, 2, 146_000, ns(1000))];
    let (report, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), setup, flows, Log::default(), faults);
    assert_eq!(report.ports[nic.index()].drops(), 1);
    let sent: Vec<Time> = log.on(nic).map(|(time, _)| time).collect();
    assert_eq!((sent.len(), sent[0], sent[98]), (99, ns(50_000), ns(50_000 + 98 * 1200)));
}

/// Payload bytes of each flow, counted by an observer: injected, arrived, dropped, and reported by the receiver.
#[derive(Default)]
struct Counts(HashMap<FlowId, [u64; 4]>);

impl Observer<Header<()>> for Counts {
    fn packet_injected(&mut self, _: Time, _: NodeId, packet: &Packet<Header<()>>) {
        self.0.entry(packet.flow).or_default()[0] += u64::from(packet.payload_bytes);
    }
    fn packet_arrived(&mut self, _: Time, _: NodeId, _: flowloom_core::PacketId, packet: &Packet<Header<()>>) {
        self.0.entry(packet.flow).or_default()[1] += u64::from(packet.payload_bytes);
    }
    fn packet_dropped(&mut self, _: Time, _: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header<()>>, _: DropReason) {
        self.0.entry(packet.flow).or_default()[2] += u64::from(packet.payload_bytes);
    }
    fn flow_event(&mut self, _: Time, _: NodeId, event: &Event) {
        if let Event::Delivered { flow, bytes, .. } = event {
            self.0.entry(*flow).or_default()[3] += bytes.get();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Every link has every fault, buffers are so small that they overflow, and the run is stopped at a random time.
    #[test]
    fn every_byte_is_accounted_for(
        seed in any::<u64>(),
        p in 0.0..0.2,
        buffer in 3000_u64..40_000,
        limit_us in 1_u64..300,
        cut in any::<bool>(),
    ) {
        let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(10), HOP_DELAY, if cut { CUT } else { STORE });
        let mut dice = Dice::new(seed);
        let flows = in_order((0..40).map(|_| {
            let (src, size, at) = (dice.below(12) as u32, dice.below(60_000), dice.below(100_000));
            flow(0, src, (src + 1 + dice.below(11) as u32) % 12, size, ns(at))
        }).collect());
        let setup = SimSetup {
            memory: Memory::PerPort(flowloom_core::Bytes::new(buffer)),
            routing: Routing::SprayRandom,
            seed,
            time_limit: ns(limit_us * 1000),
            ..setup(network)
        };
        let faults = |_| vec![
            Fault::Loss(p), Fault::Corrupt(p), Fault::Duplicate(p), Fault::Reorder(p, Duration::from_us(5)),
            Fault::Down(ns(40_000), ns(60_000)),
        ];
        let (report, counts) = watch_faulty::<Blast<Plain>, Counts>(&(), setup, flows, Counts::default(), faults);
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let [sent, arrived, dropped, delivered] = counts.0.get(&flow.id).copied().unwrap_or_default();
            let found = [record.sent_bytes, record.arrived_bytes, record.dropped_bytes, record.delivered_bytes];
            prop_assert_eq!(found, [sent, arrived, dropped, delivered]);
            prop_assert!(record.delivered_bytes <= record.arrived_bytes.min(flow.size.get()));
        }
        prop_assert!(counts.0.len() <= 40);
        prop_assert!(report.end <= ns(limit_us * 1000));
    }
}

/// Control packets can be lost like data packets.
#[test]
fn a_lost_answer_leaves_the_flow_received_and_not_acknowledged() {
    let back = MIDDLE ^ 1;
    let flows = vec![flow(0, 0, 2, 1460, Time::ZERO)];
    let faults = |link| if link == back { vec![Fault::Loss(1.0)] } else { Vec::new() };
    let (report, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
    assert_eq!((report.records[0].received, report.records[0].acknowledged), (ns(3 * 1400), Time::MAX));
    assert_eq!(log.dropped.iter().map(|(_, _, packet, _)| packet.header.kind).collect::<Vec<_>>(), [Kind::Ack(true)]);
    assert_eq!(report.records[0].dropped_packets, 0, "only data counts against the flow");
}

/// Flow 0 goes from left to right and flow 1 from right to left. Packets of the given aim are lost on the way from left to right.
fn aimed(packets: PacketKind, flow_hit: Option<u32>) -> [(bool, bool); 2] {
    let flows = vec![flow(0, 0, 2, 14_600, Time::ZERO), flow(1, 2, 0, 14_600, Time::ZERO)];
    let fault = AimedFault { fault: Fault::Loss(1.0), aim: Aim { packets, flow: flow_hit.map(FlowId) } };
    let faults = |link| if link == MIDDLE { vec![fault] } else { Vec::new() };
    let (report, ()) = watch_aimed::<Blast<Plain>, ()>(&(), dumbbell(), flows, (), faults);
    [0, 1].map(|flow| (report.records[flow].received < Time::MAX, report.records[flow].acknowledged < Time::MAX))
}

#[test]
fn a_fault_strikes_only_the_packets_that_it_is_aimed_at() {
    let (all, lost, unacknowledged) = ((true, true), (false, false), (true, false));
    assert_eq!(aimed(PacketKind::All, None), [lost, unacknowledged]);
    assert_eq!(aimed(PacketKind::Data, None), [lost, all]);
    assert_eq!(aimed(PacketKind::Control, None), [all, unacknowledged]);
    assert_eq!(aimed(PacketKind::All, Some(0)), [lost, all]);
    assert_eq!(aimed(PacketKind::All, Some(1)), [all, unacknowledged]);
    assert_eq!(aimed(PacketKind::Data, Some(1)), [all, all], "flow 1 has no data on this way");
    assert_eq!(aimed(PacketKind::Control, Some(0)), [all, all], "flow 0 has no control packets on this way");
}

/// The random numbers of a fault are drawn for the packets that it is aimed at, so other traffic does not change what it does to them.
#[test]
fn packets_that_a_fault_is_not_aimed_at_do_not_change_what_it_does() {
    let lost = |others: u32| -> Vec<u64> {
        let flows = (0..=others).map(|id| flow(id, id % 2, 2 + id % 2, 1_460_000, Time::ZERO)).collect();
        let fault = AimedFault { fault: Fault::Loss(0.1), aim: Aim { packets: PacketKind::Data, flow: Some(FlowId(0)) } };
        let faults = |link| if link == MIDDLE { vec![fault] } else { Vec::new() };
        let (_, log) = watch_aimed::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
        assert!(log.dropped.iter().all(|(_, _, packet, _)| packet.flow == FlowId(0)));
        log.dropped.iter().map(|(_, _, packet, _)| packet.offset.get()).collect()
    };
    assert!(is_share(lost(0).len() as u64, 1000, 0.1));
    assert_eq!(lost(0), lost(3));
}
