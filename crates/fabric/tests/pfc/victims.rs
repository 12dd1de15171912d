//! Head-of-line blocking.

use flowloom_core::{Bytes, Duration, Flow, Memory, Network, NodeId, Time};
use flowloom_fabric::SimSetup;
use flowloom_transports::pfc::Pfc;

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, run, setup};
use crate::{Greedy, setting};

/// h0 and h1 - a - b - h2 and h3; all links have 10 Gb/s but the one to h2, which has 1 Gb/s.
fn parking_lot() -> Network {
    let mut network = Network::new(4, STORE);
    let (a, b) = (network.add_switch(1, "left", "a"), network.add_switch(1, "right", "b"));
    for (host, switch, rate) in [(0, a, 10), (1, a, 10), (2, b, 1), (3, b, 10)] {
        network.connect(NodeId(host), switch, gbps(rate), HOP_DELAY);
    }
    network.connect(a, b, gbps(10), HOP_DELAY);
    network
}

/// The time that a flow of 2 MB from h1 to h3 takes, while h0 sends to h2 for longer.
fn time_of_victim(pfc: bool, seed: u64) -> Duration {
    let memory = Memory::PerPort(Bytes::new(30_000));
    let flows: Vec<Flow> = vec![flow(0, 0, 2, 4_000_000, Time::ZERO), flow(1, 1, 3, 2_000_000, Time::ZERO)];
    let setup = SimSetup { memory, time_limit: Time::ZERO + Duration::from_ms(100), seed, ..setup(parking_lot()) };
    let report = if pfc {
        run::<Greedy>(&setting(Pfc::default(), memory), setup, flows)
    } else {
        // Nobody sends again what is lost, so the memory holds everything.
        run::<Blast<Plain>>(&(), SimSetup { memory: Memory::PerPort(Bytes::new(1 << 30)), ..setup }, flows)
    };
    report.records[1].received - Time::ZERO
}

/// By hand: the slow link takes a packet of h0 every 12 us. Between the switches, packets wait in one line, in which both hosts have equally many,
/// since both are stopped at the same number of bytes: that of 17 packets. So h1 also gets one packet through every 12 us: its 1370 packets take 16.44 ms, at
/// 1 Gb/s, although 9 Gb/s are free on every link of its way. Without PFC it has half of the link between the switches, and takes 3.29 ms. The packets of both
/// hosts arrive at the same times, and which one is first is random. The order of the first ones decides whether h1 gets a packet more than h0 between
/// two stops, for the rest of the run.
#[test]
fn a_flow_that_crosses_no_congested_port_gets_the_rate_of_the_congested_one() {
    for seed in 1..=8 {
        let with = time_of_victim(true, seed).as_us_f64();
        assert!((0.97 * 17.0 / 18.0..1.02).contains(&(with / 16_440.0)), "seed {seed}: {with} us");
    }
    let without = time_of_victim(false, 1).as_us_f64();
    assert!((without / 3_288.0 - 1.0).abs() < 0.02, "{without} us");
}
