//! PIAS and LAS on networks: demotion never reorders a flow, and short flows finish first.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, LinkId, Memory, Network, NodeId, Packet, Time, Transport, topology};
use flowloom_fabric::{Observer, PortCounters, Report, Routing, SimSetup};
use flowloom_transports::las::{self, Las};
use flowloom_transports::pias::{Config, Header, Pias, Thresholds};
use flowloom_transports::tcp;
use flowloom_transports::tcp::Dctcp;
use flowloom_transports::tcp::controllers::Kind;
use proptest::prelude::*;

use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, poisson, run, setup, watch};

/// Counts how often a port sent a data packet after a later one of the same flow.
#[derive(Default)]
struct Overtaking {
    highest: BTreeMap<(LinkId, FlowId), u64>,
    count: u64,
    /// Data packets by class.
    classes: [u64; 8],
}

impl Observer<Header> for Overtaking {
    fn packet_sent(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>) {
        if packet.payload_bytes > 0 {
            let highest = self.highest.entry((link, packet.flow)).or_default();
            self.count += u64::from(packet.offset.get() < *highest);
            *highest = packet.offset.get().max(*highest);
            self.classes[usize::from(packet.class)] += 1;
        }
    }
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

/// Flows are demoted early, and timers never expire.
fn demoting(controller: Kind, thresholds: [u64; 3]) -> Config {
    let second = Duration::from_ms(1000);
    let tcp = tcp::Config { rto_min: second, rto_initial: second, ..tcp::Config::default() };
    Config { thresholds: thresholds.map(Bytes::new).to_vec().into(), controller, tcp, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// The paper's §III-B2: if a flow is only demoted, strict priority never reorders it at any port. So on one path, and with memory
    /// that never overflows, there are no duplicate acknowledgements and no retransmissions.
    #[test]
    fn strict_priority_never_reorders_a_flow(
        seed in any::<u64>(),
        load in 0.3..0.95,
        (first, second, third) in (1_u64..20_000, 1460_u64..60_000, 1460_u64..200_000),
        switching in prop::sample::select(vec![STORE, CUT]),
        routing in prop::sample::select(vec![Routing::Ecmp, Routing::EcmpSymmetric]),
        controller in prop::sample::select(vec![Kind::NewReno, Kind::Dctcp, Kind::L2dct, Kind::EcnStar]),
    ) {
        let thresholds = [first, first + second, first + second + third];
        let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(20), HOP_DELAY, switching);
        let flows = poisson(&network, load, 300, seed);
        let setup = SimSetup { routing, seed, ..setup(network) };
        let (report, seen) = watch::<Pias, Overtaking>(&demoting(controller, thresholds), setup, flows, Overtaking::default());
        prop_assert_eq!((drops(&report), seen.count), (0, 0));
        prop_assert!(seen.classes[..4].iter().all(|packets| *packets > 0), "all four classes are used: {:?}", seen.classes);
        for record in &report.records {
            prop_assert_eq!((record.retransmissions, record.timeouts), (0, 0));
        }
    }
}

/// The counterexample: if packets take different paths, later ones do arrive earlier, and the observer detects it.
#[test]
fn spraying_does_reorder() {
    let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(20), HOP_DELAY, CUT);
    let flows = poisson(&network, 0.9, 300, 5);
    let setup = SimSetup { routing: Routing::SprayRandom, ..setup(network) };
    let (_, seen) = watch::<Pias, _>(&demoting(Kind::Dctcp, [5_000, 20_000, 80_000]), setup, flows, Overtaking::default());
    assert!(seen.count > 0);
}

/// Poisson flows on a leaf-spine at 80 % load: mostly short ones, and most bytes in long ones.
fn heavy_tailed() -> (SimSetup, Vec<Flow>) {
    let network = topology::leaf_spine(3, 8, 2, gbps(10), gbps(40), HOP_DELAY, CUT);
    let flows = poisson(&network, 0.8, 6000, 8);
    (SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), ..setup(network) }, flows)
}

/// Mean completion time of flows with sizes in a range, in microseconds.
fn mean_fct(report: &Report, sizes: std::ops::Range<u64>) -> f64 {
    let all = report.flows.iter().zip(&report.records).filter(|(flow, _)| sizes.contains(&flow.size.get()));
    let fct: Vec<f64> = all.map(|(flow, record)| (record.received - flow.start).as_us_f64()).collect();
    assert!(fct.len() > 500);
    fct.iter().sum::<f64>() / fct.len() as f64
}

/// With one threshold above short flows and one above medium ones, short flows wait only for short flows and one other packet, and are far
/// faster than under DCTCP. With thresholds far below or far above all sizes, all flows are in one class again.
#[test]
fn short_flows_pass_long_ones_if_thresholds_are_right() {
    let (setup, flows) = heavy_tailed();
    let short = |report: &Report| mean_fct(report, 0..11_681);
    let pias = |thresholds: &[u64]| {
        let thresholds = Thresholds::List(thresholds.iter().map(|bytes| Bytes::new(*bytes)).collect());
        run::<Pias>(&Config { thresholds, ..Config::default() }, setup.clone(), flows.clone())
    };
    let dctcp = run::<Dctcp>(&tcp::Config::default(), setup.clone(), flows.clone());
    let right = pias(&[11_680, 87_600]);
    assert!(short(&right) < 0.4 * short(&dctcp), "{} us, DCTCP {} us", short(&right), short(&dctcp));
    let [small, large] = [pias(&[1, 2]), pias(&[5_000_000, 6_000_000])].map(|report| short(&report));
    assert!(short(&right) < 0.6 * small && short(&right) < 0.6 * large, "{small} us and {large} us");
}

/// The sizes of flows in packets, and the share of flows of each size.
const MIX: [(u32, f64); 3] = [(2, 0.6), (8, 0.3), (30, 0.1)];
const MEAN_PACKETS: f64 = 6.6;
/// The time of a packet on the bottleneck, 1500 B at 1 Gb/s, in microseconds.
const SERVICE_US: f64 = 12.0;
const LOAD: f64 = 0.6;

/// The mean completion time in microseconds of flows of `packets` packets, at a queue with non-preemptive strict priority that is first-in
/// first-out within each class. All packets of a flow arrive at once. Packets number `from` to `to` of each flow form the class of this
/// flow's last packet. The last packet waits for three things: the queued work Y of its own and better classes, on average E[Y²]λ/2 + the
/// remainder of a worse packet being sent, divided by 1 - load of Y; the flow's own packets; and packets of better classes that arrive in
/// the meantime (L. Kleinrock, *Queueing Systems* II, 1976, §3.6 and §4.7).
fn priority_queue_us(packets: u32, from: u32, to: u32) -> f64 {
    let moment = |packets_max: u32, power: i32| {
        MIX.iter().map(|(size, share)| share * f64::from((*size).min(packets_max)).powi(power)).sum::<f64>()
    };
    let rate = LOAD / MEAN_PACKETS;
    let (better, all) = (rate * moment(from, 1), rate * moment(to, 1));
    let before = (rate * moment(to, 2) / 2.0 + (LOAD - all) / 2.0) / (1.0 - all);
    let until_sent = (before + f64::from(packets - 1)) / (1.0 - better) + 1.0;
    until_sent * SERVICE_US
}

/// The mean completion time of each size with its standard error, for Poisson flows. Hosts are so fast that a flow arrives at the
/// bottleneck at once, and ports neither drop nor mark.
fn batches<T: Transport>(config: &T::Config) -> [(f64, f64); 3] {
    const SOURCES: u32 = 40;
    let mut network = Network::new(SOURCES as usize + 1, STORE);
    let switch = network.add_switch(1, "switch", "s0");
    for source in 0..SOURCES {
        network.connect(NodeId(source), switch, gbps(1000), HOP_DELAY);
    }
    network.connect(NodeId(SOURCES), switch, gbps(1), HOP_DELAY);
    let mut means: [Vec<f64>; 3] = Default::default();
    for seed in 1..=24 {
        let mut dice = Dice::new(seed);
        let mut now = Time::ZERO;
        let flows = (0..6000).map(|id| {
            now += dice.exponential(Duration::from_ps((MEAN_PACKETS * SERVICE_US / LOAD * 1e6) as u64));
            let packets = [2, 2, 2, 2, 2, 2, 8, 8, 8, 30][dice.below(10) as usize];
            flow(id, dice.below(SOURCES.into()) as u32, SOURCES, 1460 * packets, now)
        });
        let report = run::<T>(config, setup(network.clone()), flows.collect());
        assert!(report.records.iter().all(|record| record.retransmissions == 0));
        for (means, (packets, _)) in means.iter_mut().zip(MIX) {
            let size = 1460 * u64::from(packets);
            means.push(mean_fct(&report, size..size + 1));
        }
    }
    means.map(|values| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt())
    })
}

fn assert_queue(what: &str, measured: [(f64, f64); 3], expected: [f64; 3]) {
    for ((packets, _), ((mean, error), expected)) in MIX.iter().zip(measured.into_iter().zip(expected)) {
        println!("{what}, {packets} packets: {mean} ± {error}, {expected}");
        // The delays of two links, and the time of the packets at 1 Tb/s.
        let expected = expected + 0.4;
        assert!(error < 0.02 * expected, "{what}, {packets} packets: {mean} ± {error} us is not exact enough to decide");
        assert!(
            (mean - expected).abs() < 3.0 * error + 0.5,
            "{what}, {packets} packets: {mean} ± {error} us, {expected} in theory"
        );
    }
}

/// At one queue, LAS is foreground-background scheduling: the class of a packet is its number in its flow.
#[test]
fn las_equals_a_queue_that_serves_least_attained_service_first() {
    let second = Duration::from_ms(10_000);
    let config = las::Config { rto: second, port_most: Bytes::new(1 << 30), ..Default::default() };
    let expected = MIX.map(|(packets, _)| priority_queue_us(packets, packets - 1, packets));
    assert_queue("LAS", batches::<Las>(&config), expected);
}

/// At one queue, PIAS has one more class than thresholds. A packet that begins exactly at a threshold is still in the higher class.
#[test]
fn pias_equals_a_queue_with_a_class_between_each_two_thresholds() {
    let second = Duration::from_ms(10_000);
    let tcp = tcp::Config { rto_min: second, rto_initial: second, ..tcp::Config::default() };
    let config = |packets: &[u64]| Config {
        thresholds: Thresholds::List(packets.iter().map(|packets| Bytes::new(1460 * packets - 1)).collect()),
        controller: Kind::NewReno,
        tcp: tcp.clone(),
        ..Config::default()
    };
    let expected = |classes: [(u32, u32); 3]| {
        let each: Vec<f64> =
            MIX.iter().zip(classes).map(|((packets, _), (from, to))| priority_queue_us(*packets, from, to)).collect();
        [each[0], each[1], each[2]]
    };
    assert_queue("one class", batches::<Pias>(&config(&[])), expected([(0, 30); 3]));
    assert_queue("two classes", batches::<Pias>(&config(&[5])), expected([(0, 5), (5, 30), (5, 30)]));
    assert_queue("three classes", batches::<Pias>(&config(&[2, 10])), expected([(0, 2), (2, 10), (10, 30)]));
}

/// An old flow is starved by young ones and times out. With aging it is then treated as young, so it finishes earlier.
#[test]
fn a_starved_flow_finishes_earlier_with_aging() {
    fn old<T: Transport>(config: &T::Config) -> flowloom_fabric::FlowRecord {
        let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
        let mut dice = Dice::new(3);
        let mut now = Time::ZERO + Duration::from_us(100);
        // Short flows from two hosts for 40 ms, which together exceed the capacity of the link to the fourth host.
        let mut flows = vec![flow(0, 0, 3, 1_000_000, Time::ZERO)];
        while now < Time::ZERO + Duration::from_ms(40) {
            now += dice.exponential(Duration::from_ns(1150 * 10));
            flows.push(flow(flows.len() as u32, 1 + dice.below(2) as u32, 3, 14_600, now));
        }
        run::<T>(config, setup(network), flows).records[0]
    }
    let tcp = tcp::Config { rto_max: Duration::from_ms(4), ..tcp::Config::default() };
    let config = |aging| Config { thresholds: vec![Bytes::new(20_000)].into(), aging, tcp: tcp.clone(), ..Config::default() };
    let (never, ages) = (old::<Pias>(&config(0)), old::<Pias>(&config(2)));
    assert!(never.second_timeouts > 0, "it starves: {never:?}");
    assert!(ages.received < never.received, "{} and {}", ages.received, never.received);
}
