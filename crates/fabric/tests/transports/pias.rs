//! PIAS and LAS on networks: what sinks is never overtaken, and what is short goes first.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, LinkId, Memory, Packet, Time, Transport, topology};
use flowloom_fabric::{Observer, PortCounters, Report, Routing, SimSetup};
use flowloom_transports::las::Las;
use flowloom_transports::pias::{Config, Header, Pias};
use flowloom_transports::tcp;
use flowloom_transports::tcp::Dctcp;
use flowloom_transports::tcp::controllers::Kind;
use proptest::prelude::*;

use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, run, setup, watch};
use crate::survival::poisson;

/// How often a data packet left a port before one of its flow that was sent earlier.
#[derive(Default)]
struct Overtaking {
    highest: BTreeMap<(LinkId, FlowId), u64>,
    count: u64,
    /// Data packets by class.
    classes: [u64; 8],
}

impl Observer<Header> for Overtaking {
    fn packet_sent(&mut self, _: Time, link: LinkId, packet: &Packet<Header>) {
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

/// Flows that sink soon, with timers that never expire.
fn sinking(controller: Kind, thresholds: [u64; 3]) -> Config {
    let second = Duration::from_ms(1000);
    let tcp = tcp::Config { rto_min: second, rto_initial: second, ..tcp::Config::default() };
    Config { thresholds: thresholds.map(Bytes::new).to_vec(), controller, tcp, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// The paper's §III-B2: strict priority over classes that a flow only sinks through never reorders it, at any port. So, on one
    /// path and with room for everything, duplicate acknowledgements never appear, and nothing is sent twice.
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
        let (report, seen) = watch::<Pias, Overtaking>(&sinking(controller, thresholds), setup, flows, Overtaking::default());
        prop_assert_eq!((drops(&report), seen.count), (0, 0));
        prop_assert!(seen.classes[..4].iter().all(|packets| *packets > 0), "all four classes are used: {:?}", seen.classes);
        for record in &report.records {
            prop_assert_eq!((record.retransmissions, record.timeouts), (0, 0));
        }
    }
}

/// The counterexample: where packets take different paths, later ones do arrive earlier, and the observer tells.
#[test]
fn spraying_does_reorder() {
    let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(20), HOP_DELAY, CUT);
    let flows = poisson(&network, 0.9, 300, 5);
    let setup = SimSetup { routing: Routing::SprayRandom, ..setup(network) };
    let (_, seen) = watch::<Pias, _>(&sinking(Kind::Dctcp, [5_000, 20_000, 80_000]), setup, flows, Overtaking::default());
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

/// Thresholds above what is short and what is middling: short flows wait for their like and one packet, and beat DCTCP's by far.
/// Thresholds far below or far above all sizes put all into one class again.
#[test]
fn short_flows_pass_long_ones_if_thresholds_are_right() {
    let (setup, flows) = heavy_tailed();
    let short = |report: &Report| mean_fct(report, 0..11_681);
    let pias = |thresholds: &[u64]| {
        let thresholds = thresholds.iter().map(|bytes| Bytes::new(*bytes)).collect();
        run::<Pias>(&Config { thresholds, ..Config::default() }, setup.clone(), flows.clone())
    };
    let dctcp = run::<Dctcp>(&tcp::Config::default(), setup.clone(), flows.clone());
    let right = pias(&[11_680, 87_600]);
    assert!(short(&right) < 0.4 * short(&dctcp), "{} us, DCTCP {} us", short(&right), short(&dctcp));
    let [small, large] = [pias(&[1, 2]), pias(&[5_000_000, 6_000_000])].map(|report| short(&report));
    assert!(short(&right) < 0.6 * small && short(&right) < 0.6 * large, "{small} us and {large} us");
}

/// LAS divides flows finer than any number of classes: its short flows are PIAS's or a little better, and both are far below DCTCP's.
#[test]
fn las_is_about_as_good_for_short_flows() {
    let (setup, flows) = heavy_tailed();
    let pias_config = Config { thresholds: [11_680, 87_600].map(Bytes::new).to_vec(), ..Config::default() };
    let pias = mean_fct(&run::<Pias>(&pias_config, setup.clone(), flows.clone()), 0..11_681);
    let las = mean_fct(
        &run::<Las>(&Default::default(), SimSetup { memory: Memory::PerPort(Bytes::new(210_000)), ..setup }, flows),
        0..11_681,
    );
    assert!((0.6..1.1).contains(&(las / pias)), "LAS {las} us, PIAS {pias} us");
}

/// An old flow that young ones keep from the link times out; with aging it then counts as young, gets through, and ends sooner.
#[test]
fn a_starved_flow_gets_through_with_aging() {
    fn old<T: Transport>(config: &T::Config) -> flowloom_fabric::FlowRecord {
        let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
        let mut dice = Dice::new(3);
        let mut now = Time::ZERO + Duration::from_us(100);
        // Short flows from two hosts for 40 ms, that together are more than the link to the fourth can carry.
        let mut flows = vec![flow(0, 0, 3, 1_000_000, Time::ZERO)];
        while now < Time::ZERO + Duration::from_ms(40) {
            now += dice.exponential(Duration::from_ns(1150 * 10));
            flows.push(flow(flows.len() as u32, 1 + dice.below(2) as u32, 3, 14_600, now));
        }
        run::<T>(config, setup(network), flows).records[0]
    }
    let tcp = tcp::Config { rto_max: Duration::from_ms(4), ..tcp::Config::default() };
    let config = |aging| Config { thresholds: vec![Bytes::new(20_000)], aging, tcp: tcp.clone(), ..Config::default() };
    let (never, ages) = (old::<Pias>(&config(0)), old::<Pias>(&config(2)));
    assert!(never.second_timeouts > 0, "it starves: {never:?}");
    assert!(ages.received < never.received, "{} and {}", ages.received, never.received);
}
