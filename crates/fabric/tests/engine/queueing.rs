//! A queue with Poisson arrivals and packets of equal size is an M/D/1 queue.

use flowloom_core::{Duration, Flow, Network, NodeId, Time};

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, run, setup};

const SOURCES: u32 = 50;
const SERVICE: Duration = Duration::from_us(12); // 1500 B at 1 Gb/s
const PACKETS: u32 = 15_000;
const RUNS: u64 = 12;

/// Sources have 100 Gb/s. The probability that a packet finds another packet of its source on the wire, which takes 0.12 µs, is below 2 ×
/// 10⁻⁴. All other packets reach the queue a constant time after they were created, so arrivals at the queue are a Poisson process.
fn funnel() -> Network {
    let mut network = Network::new(SOURCES as usize + 1, STORE);
    let switch = network.add_switch(1, "switch", "s0");
    for source in 0..SOURCES {
        network.connect(NodeId(source), switch, gbps(100), HOP_DELAY);
    }
    network.connect(NodeId(SOURCES), switch, gbps(1), HOP_DELAY);
    network
}

/// The mean wait of one run, in service times, and the utilisation.
fn one_run(load: f64, seed: u64) -> (f64, f64) {
    let mut dice = Dice::new(seed);
    let mut now = Time::ZERO;
    let packets: Vec<Flow> = (0..PACKETS)
        .map(|id| {
            now += dice.exponential(SERVICE.scale(1.0 / load));
            flow(id, dice.below(SOURCES.into()) as u32, SOURCES, 1460, now)
        })
        .collect();
    let report = run::<Blast<Plain>>(&(), setup(funnel()), packets);
    let port = &report.ports[report.network.ports(NodeId(SOURCES))[0].reverse().index()];
    assert_eq!(port.packets(), u64::from(PACKETS));
    let wait = port.packet_time as f64 / f64::from(PACKETS) / SERVICE.as_ps() as f64;
    let busy = gbps(1).transmit_time(flowloom_core::Bytes::new(port.bytes()));
    (wait, busy.as_secs_f64() / now.as_secs_f64())
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// The Pollaczek–Khinchine formula for a constant service time S: the mean wait is load × S / 2(1 - load). Each run starts with an empty
/// queue, which reduces the mean by less than half a percent for 15 000 packets.
#[test]
fn the_mean_wait_follows_pollaczek_khinchine() {
    for load in [0.3, 0.6, 0.8] {
        let (waits, loads): (Vec<f64>, Vec<f64>) = (1..=RUNS).map(|seed| one_run(load, seed)).unzip();
        let expected = load / (2.0 * (1.0 - load));
        let (wait, error) = mean_and_error(&waits);
        assert!(error < 0.03 * expected, "load {load}: the error {error} of {wait} is too large to decide");
        assert!((wait - expected).abs() < 3.0 * error, "load {load}: waits {wait} ± {error} services, {expected} in theory");
        let (used, error) = mean_and_error(&loads);
        assert!((used - load).abs() < 3.0 * error && error < 0.005, "load {load}: {used} ± {error} of the link used");
    }
}
