//! Equivalence: a scheme whose parameters reduce it to a simpler one must give exactly the same run, to the byte and picosecond.

use flowloom_core::{Assembly, Bytes, Duration, Flow, Memory, Nic, PartsOf, Transport, topology};
use flowloom_fabric::{Report, Routing, SimSetup};
use flowloom_transports::disciplines::EcnConfig;
use flowloom_transports::fastpass::Fastpass;
use flowloom_transports::pase::Pase;
use flowloom_transports::phost::PHost;
use flowloom_transports::pias::{self, Pias};
use flowloom_transports::tcp::controllers::Kind;
use flowloom_transports::tcp::{Config, D2tcp, Dctcp, EcnStar, FastRetransmit, L2dct, Tcp};

use crate::common::networks::{CUT, HOP_DELAY, gbps, poisson, run, setup};

/// Poisson flows at 80 % load, every other one with a deadline, over ports so small that packets are marked and dropped.
fn go<T: Transport>(config: &T::Config, routing: Routing) -> Report {
    let network = topology::leaf_spine(3, 6, 2, gbps(10), gbps(20), HOP_DELAY, CUT);
    let mut flows = poisson(&network, 0.8, 2000, 11);
    for (number, flow) in flows.iter_mut().enumerate().filter(|(number, _)| number % 2 == 0) {
        flow.deadline = Some(flow.start + Duration::from_us(20 + number as u64 % 2000));
    }
    run::<T>(config, SimSetup { memory: Memory::PerPort(Bytes::new(90_000)), routing, ..setup(network) }, flows)
}

fn small() -> Config {
    let port = EcnConfig { mark_above: Some(Bytes::new(30_000)), ..EcnConfig::default() };
    Config { port, nic: port, initial_window: 20, ..Config::default() }
}

/// The results of both runs are equal: each flow's record, each port's counters, and the number of events.
fn assert_equal(what: &str, one: &Report, other: &Report) {
    assert_eq!(one.records, other.records, "{what}");
    assert_eq!(format!("{:?}", one.ports), format!("{:?}", other.ports), "{what}");
    assert_eq!((one.events, one.end), (other.events, other.end), "{what}");
}

/// There were drops, and marks if `marks` is set, so that the runs are not equal merely because nothing happened.
fn assert_exercised(report: &Report, marks: bool) {
    assert_eq!(report.ports.iter().any(|port| port.marked_packets > 100), marks);
    assert!(report.ports.iter().map(flowloom_fabric::PortCounters::drops).sum::<u64>() > 0);
}

#[test]
fn pias_without_thresholds_equals_its_controller() {
    fn check<T: Transport<Config = Config>>(controller: Kind) {
        for (routing, fast_retransmit) in [
            (Routing::Ecmp, FastRetransmit::Auto),
            (Routing::SprayRandom, FastRetransmit::Auto),
            (Routing::SprayRandom, FastRetransmit::On),
        ] {
            let tcp = Config { fast_retransmit, ..small() };
            let alone = go::<T>(&tcp, routing);
            let pias = pias::Config { thresholds: vec![].into(), controller, tcp, ..pias::Config::default() };
            assert_exercised(&alone, controller != Kind::NewReno);
            assert_equal(T::NAME, &alone, &go::<Pias>(&pias, routing));
        }
    }
    check::<Tcp>(Kind::NewReno);
    check::<Dctcp>(Kind::Dctcp);
    check::<D2tcp>(Kind::D2tcp);
    check::<L2dct>(Kind::L2dct);
    check::<EcnStar>(Kind::EcnStar);
}

#[test]
fn d2tcp_with_an_urgency_of_one_equals_dctcp() {
    let dctcp = go::<Dctcp>(&small(), Routing::Ecmp);
    assert_exercised(&dctcp, true);
    let even = Config { urgency_min: 1.0, urgency_max: 1.0, ..small() };
    assert_equal("no urgency", &dctcp, &go::<D2tcp>(&even, Routing::Ecmp));
    assert_ne!(dctcp.records, go::<D2tcp>(&small(), Routing::Ecmp).records, "deadlines do matter");
}

/// Without deadlines every urgency is 1.
#[test]
fn d2tcp_without_deadlines_equals_dctcp() {
    let network = topology::leaf_spine(3, 6, 2, gbps(10), gbps(20), HOP_DELAY, CUT);
    let flows: Vec<Flow> = poisson(&network, 0.8, 2000, 12);
    let setup = SimSetup { memory: Memory::PerPort(Bytes::new(90_000)), ..setup(network) };
    let dctcp = run::<Dctcp>(&small(), setup.clone(), flows.clone());
    assert_exercised(&dctcp, true);
    assert_equal("no deadlines", &dctcp, &run::<D2tcp>(&small(), setup, flows));
}

/// With a weight of 1, windows grow and shrink as with DCTCP.
#[test]
fn l2dct_with_a_weight_of_one_equals_dctcp() {
    let even = Config { weight_min: 1.0, weight_max: 1.0, ..small() };
    let dctcp = go::<Dctcp>(&small(), Routing::Ecmp);
    assert_equal("even weights", &dctcp, &go::<L2dct>(&even, Routing::Ecmp));
    assert_ne!(dctcp.records, go::<L2dct>(&small(), Routing::Ecmp).records, "weights do matter");
}

/// If a connection's estimate of marks starts at 1 and never changes, each mark halves the window.
#[test]
fn dctcp_with_a_constant_estimate_of_one_equals_ecn_star() {
    let constant = Config { gain: 0.0, initial_alpha: 1.0, ..small() };
    let halving = go::<EcnStar>(&constant, Routing::Ecmp);
    assert_equal("alpha = 1", &halving, &go::<Dctcp>(&constant, Routing::Ecmp));
}

/// If no flow reaches the first threshold, all packets are in the first of the eight classes, and each port behaves like a port with one
/// class.
#[test]
fn pias_with_thresholds_that_no_flow_reaches_equals_its_controller() {
    let thresholds = [10, 20, 30, 40, 50, 60, 70].map(|mb: u64| Bytes::new(mb * 1_000_000)).to_vec().into();
    let pias = pias::Config { thresholds, tcp: small(), ..pias::Config::default() };
    assert_equal("far thresholds", &go::<Dctcp>(&small(), Routing::Ecmp), &go::<Pias>(&pias, Routing::Ecmp));
}

/// The lab runs the parts of transports. Those with control nodes on an extra host and at switches are among them.
#[test]
fn a_transports_parts_equal_the_transport() {
    fn check<T: Transport, const PULLED: bool>(config: &T::Config) {
        assert_eq!(PULLED, T::NIC == Nic::Pulled);
        let whole = go::<T>(config, Routing::Ecmp);
        assert_equal(T::NAME, &whole, &go::<PartsOf<T, PULLED>>(&Assembly::of::<T>(config), Routing::Ecmp));
    }
    check::<D2tcp, false>(&small());
    check::<PHost, true>(&Default::default());
    check::<Fastpass, true>(&Default::default());
    check::<Pase, false>(&Default::default());
}
