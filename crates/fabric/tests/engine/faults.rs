//! Fault injection: rates, bounds, and conservation of bytes.

use std::collections::HashMap;

use flowloom_core::{
    Bytes, DropReason, Duration, Event, Flow, FlowId, LinkId, Memory, NodeId, Packet, PortSite, Time, topology,
};
use flowloom_fabric::{Aim, AimedFault, Fault, Observer, PacketKind, Routing, SimSetup};
use flowloom_transports::disciplines::{Buffer, CreditDrop, CreditLayout, CreditPort, Limit, StrictPriority};
use proptest::prelude::*;

use crate::common::blast::{Blast, Header, Kind, Plain, Scheme};
use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, run, setup, watch_aimed, watch_faulty};
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

/// The transport with ports of strict priorities, which ask for no service while they are empty.
enum Ranked {}

impl Scheme for Ranked {
    type Config = ();
    type Extra = ();
    type Port = StrictPriority;
    fn port((): &(), site: &PortSite<'_>) -> StrictPriority {
        StrictPriority::new(8, Buffer::Shared(site.memory.bytes()))
    }
}

/// The transport with ports that limit the packets of class 1. A packet of 41 B, the smallest with payload, leaves at once, and the next one 100 µs later.
enum Credited {}

impl Scheme for Credited {
    type Config = ();
    type Extra = ();
    type Port = CreditPort;
    fn port((): &(), site: &PortSite<'_>) -> CreditPort {
        let layout = CreditLayout {
            credit_queues: 1,
            credit_limit: Limit::NONE,
            credit_drop: CreditDrop::Newest,
            seed: site.seed,
            lifetime: None,
            burst: Bytes::new(41),
            // 40 of 121,952 B are 3.28 Mb/s at 10 Gb/s.
            slot: Bytes::new(121_952),
            data: &[Limit::NONE],
            memory: site.memory.bytes(),
        };
        CreditPort::new(&layout, gbps(10), &site.wire)
    }
}

fn of_class(class: u16, flow: Flow) -> Flow {
    Flow { tenant: class, ..flow }
}

/// A NIC whose link is down takes no packets from its endpoint. Of 100 packets it loses only the first, and sends the others when the
/// link is up.
fn keeps_its_packets<S: Scheme<Config = (), Extra = ()>>() {
    let setup = dumbbell();
    let nic = setup.network.ports(NodeId(0))[0];
    let faults = |link| if LinkId(link) == nic { vec![Fault::Down(ns(0), ns(50_000))] } else { Vec::new() };
    let flows = vec![flow(0, 0, 2, 146_000, ns(1000))];
    let (report, log) = watch_faulty::<Blast<S>, Log<_>>(&(), setup, flows, Log::default(), faults);
    assert_eq!(report.ports[nic.index()].drops(), 1);
    let sent: Vec<Time> = log.on(nic).map(|(time, _)| time).collect();
    assert_eq!((sent.len(), sent[0], sent[98]), (99, ns(50_000), ns(50_000 + 98 * 1200)));
}

#[test]
fn an_endpoint_keeps_its_packets_while_its_own_link_is_down() {
    keeps_its_packets::<Plain>();
    keeps_its_packets::<Ranked>();
    keeps_its_packets::<Credited>();
}

/// The second of two packets of class 1 may leave 100 µs after the first, and does when the packet on the link has, at 100.4 µs. This keeps the endpoint neither from learning that the link is down, nor that it is up again.
#[test]
fn an_endpoint_keeps_its_packets_also_where_another_packet_waits_for_its_time() {
    let setup = dumbbell();
    let nic = setup.network.ports(NodeId(0))[0];
    let faults = |link| if LinkId(link) == nic { vec![Fault::Down(ns(10_000), ns(50_000))] } else { Vec::new() };
    let limited = |id| of_class(1, flow(id, 0, 2, 1, Time::ZERO));
    let flows = vec![limited(0), limited(1), of_class(2, flow(2, 0, 2, 146_000, ns(11_000)))];
    let (report, log) = watch_faulty::<Blast<Credited>, Log<_>>(&(), setup, flows, Log::default(), faults);
    assert_eq!(report.ports[nic.index()].drops(), 1);
    let of = |flow| log.on(nic).filter(move |(_, packet)| packet.flow == FlowId(flow)).map(|(time, _)| time);
    assert_eq!([of(0).next(), of(1).next()], [Some(Time::ZERO), Some(ns(100_400))]);
    assert_eq!((of(2).count(), of(2).next()), (99, Some(ns(50_000))));
}

/// Every packet has a copy, and the two take 2.4 µs. At 20 µs, when the link is cut, the copy of packet 9 is on it, and packet 9 waits in the NIC. Both are lost. The other 91 packets and their
/// copies leave one after the other when the link is up.
#[test]
fn a_nic_goes_on_after_a_cut_that_emptied_it() {
    let setup = dumbbell();
    let nic = setup.network.ports(NodeId(0))[0];
    let own = vec![Fault::Duplicate(1.0), Fault::Cut(ns(20_000), ns(50_000))];
    let faults = |link| if LinkId(link) == nic { own.clone() } else { Vec::new() };
    let flows = vec![flow(0, 0, 2, 146_000, Time::ZERO)];
    let (report, log) = watch_faulty::<Blast<Ranked>, Log<_>>(&(), setup, flows, Log::default(), faults);
    assert_eq!(report.ports[nic.index()].dropped_packets[DropReason::LinkDown as usize], 1);
    let after: Vec<Time> = log.on(nic).map(|(time, _)| time).filter(|time| *time >= ns(20_000)).collect();
    assert_eq!((after.len(), after[0], after[181]), (182, ns(50_000), ns(50_000 + 181 * 1200)));
}

/// Each fault of a link has its own probability, in whatever order they are.
#[test]
fn a_packet_that_is_held_back_meets_the_other_faults_too() {
    let hold = Fault::Reorder(1.0, Duration::from_us(5));
    let both = |faults: [Fault; 2]| {
        let flows = vec![flow(0, 0, 2, 1460 * 20_000, Time::ZERO)];
        let faults = |link| if link == MIDDLE { faults.to_vec() } else { Vec::new() };
        watch_faulty::<Blast<Plain>, ()>(&(), dumbbell(), flows, (), faults).0
    };
    let in_either_order = |other| [[hold, other], [other, hold]].map(both);
    for report in in_either_order(Fault::Loss(0.1)) {
        let lost = report.ports[MIDDLE as usize].dropped_packets[DropReason::Lost as usize];
        assert!(is_share(lost, 20_000, 0.1), "{lost}");
    }
    for report in in_either_order(Fault::Duplicate(0.1)) {
        let copies = report.records[0].duplicated_bytes / 1460;
        assert!(is_share(copies, 20_000, 0.1), "{copies}");
    }
    for report in in_either_order(Fault::Corrupt(0.1)) {
        let last = report.network.ports(NodeId(2))[0].reverse();
        let discarded = report.ports[last.index()].dropped_packets[DropReason::Corrupted as usize];
        assert!(is_share(discarded, 20_000, 0.1), "{discarded}");
    }
}

/// As in `queued_packets_wait_for_the_link`, one packet is sent every 1.2 µs from 1.4 µs on, and as many wait. Packet 16 is on the link from 19.4 to 20.6 µs, packet 15 has arrived at 19.6 µs. A cut of 100 ns after that loses
/// it and the 16 that wait. The next two come at 20.6 µs.
#[test]
fn a_cut_that_is_shorter_than_a_packet_loses_the_queue() {
    let flows = vec![flow(0, 0, 2, 146_000, Time::ZERO), flow(1, 1, 3, 146_000, Time::ZERO)];
    let faults = |link| if link == MIDDLE { vec![Fault::Cut(ns(19_700), ns(19_800))] } else { Vec::new() };
    let (report, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
    let dropped: Vec<_> = log.dropped.iter().map(|(at, _, _, why)| (*at, *why)).collect();
    assert_eq!(dropped[..16], [(ns(19_700), DropReason::LinkDown); 16]);
    assert_eq!((dropped.len(), dropped[16].1), (17, DropReason::Corrupted));
    let next = log.on(LinkId(MIDDLE)).nth(16).map(|(time, packet)| (time, packet.offset.get() / 1460));
    assert_eq!(next, Some((ns(20_600), 16)));
    assert_eq!(report.records.iter().map(|record| record.arrived_bytes).sum::<u64>(), 1460 * (200 - 17));
}

/// Packet k (from 1) comes to the middle link at 1.2 k + 0.2 µs and is held back there. Those that have come when it is cut at 10 µs are lost if they have not left.
#[test]
fn a_cut_loses_packets_that_are_held_back() {
    let flows = vec![flow(0, 0, 2, 146_000, Time::ZERO)];
    let own = vec![Fault::Reorder(1.0, Duration::from_us(100)), Fault::Cut(ns(10_000), ns(20_000))];
    let faults = |link| if link == MIDDLE { own.clone() } else { Vec::new() };
    let (_, log) = watch_faulty::<Blast<Plain>, Log<_>>(&(), dumbbell(), flows, Log::default(), faults);
    let number = |packet: &Packet<_>| packet.offset.get() / 1460 + 1;
    let mut late: Vec<u64> =
        log.on(LinkId(MIDDLE)).filter(|(at, _)| *at > ns(10_000)).map(|(_, packet)| number(packet)).collect();
    late.sort_unstable();
    assert_eq!(late, (17..=100).collect::<Vec<_>>());
    let held = log.dropped.iter().filter(|(at, _, packet, _)| *at == ns(10_000) && number(packet) <= 8).count();
    assert!(held >= 4, "{held} were held back");
}

/// The second packet of class 1 would leave at 100 µs.
#[test]
fn a_cut_loses_packets_that_wait_for_their_time() {
    let setup = dumbbell();
    let nic = setup.network.ports(NodeId(0))[0];
    let faults = |link| if LinkId(link) == nic { vec![Fault::Cut(ns(10_000), ns(20_000))] } else { Vec::new() };
    let flows = [0, 0, 200_000].into_iter().zip(0..).map(|(at, id)| of_class(1, flow(id, 0, 2, 1, ns(at)))).collect();
    let (_, log) = watch_faulty::<Blast<Credited>, Log<_>>(&(), setup, flows, Log::default(), faults);
    assert_eq!(log.dropped.iter().map(|(at, _, _, why)| (*at, *why)).collect::<Vec<_>>(), [(ns(10_000), DropReason::LinkDown)]);
    assert_eq!(log.on(nic).map(|(time, _)| time).collect::<Vec<_>>(), [Time::ZERO, ns(200_000)]);
}

/// The packets of one flow never wait, so no queue has a peak, and those of several flows do. The wrapper around ports changes nothing of this, whether it has no fault or one that strikes
/// nobody.
#[test]
fn the_wrapper_without_effect_changes_no_counter() {
    type Counters = (u64, u64, u128, u128);
    fn counters<S: Scheme<Config = (), Extra = ()>>(flows: &[Flow]) -> [Vec<Counters>; 3] {
        let of_port =
            |port: &flowloom_fabric::PortCounters| (port.packets(), port.peak_bytes, port.byte_time, port.packet_time);
        let of = |report: flowloom_fabric::Report| report.ports.iter().map(of_port).collect();
        let faulty = |fault: Option<Fault>| {
            let faults = |_| fault.into_iter().collect();
            of(watch_faulty::<Blast<S>, ()>(&(), dumbbell(), flows.to_vec(), (), faults).0)
        };
        [of(run::<Blast<S>>(&(), dumbbell(), flows.to_vec())), faulty(None), faulty(Some(Fault::Loss(0.0)))]
    }
    fn agree<S: Scheme<Config = (), Extra = ()>>() {
        let alone = [of_class(2, flow(0, 0, 2, 14_600, Time::ZERO))];
        let together: Vec<Flow> = (0..8)
            .map(|id| of_class(1 + id as u16 % 2, flow(id, id % 2, 2 + id % 2, 14_600, ns(300 * u64::from(id)))))
            .collect();
        for flows in [&alone[..], &together] {
            let [bare, wrapped, struck] = counters::<S>(flows);
            assert_eq!((&bare, &bare), (&wrapped, &struck));
            assert_eq!(bare.iter().any(|(_, peak, ..)| *peak > 0), flows.len() > 1);
        }
    }
    agree::<Plain>();
    agree::<Ranked>();
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
            memory: Memory::PerPort(Bytes::new(buffer)),
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
