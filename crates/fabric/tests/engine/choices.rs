//! How switches that choose paths by their queues, or by flowlets, share out load.

use flowloom_core::{Duration, LinkId, Network, NodeId, Rate, Time};
use flowloom_fabric::{Report, Routing, SimSetup};

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, in_order, run, setup};

/// Two leaves with `hosts` hosts each, and a spine for each rate.
fn leaves(hosts: u32, spines: &[Rate]) -> Network {
    let mut network = Network::new(2 * hosts as usize, STORE);
    let leaves = ["l0", "l1"].map(|name| network.add_switch(1, "leaf", name));
    for host in 0..2 * hosts {
        network.connect(NodeId(host), leaves[(host / hosts) as usize], gbps(10), HOP_DELAY);
    }
    for (number, rate) in spines.iter().enumerate() {
        let spine = network.add_switch(2, "spine", format!("s{number}"));
        for leaf in leaves {
            network.connect(leaf, spine, *rate, HOP_DELAY);
        }
    }
    network
}

/// Four hosts send 40 Gb/s over three links of 10 Gb/s and one of 2.5 Gb/s. Where switches look at queues, all four links are busy to the end: 13,000 packets take 4.8 ms. Where each
/// link gets as many packets, the slow one needs 15.6 ms for its 3,250.
#[test]
fn a_slow_link_gets_its_share_if_switches_look_at_queues() {
    let network = leaves(4, &[gbps(10), gbps(10), gbps(10), Rate::from_bps(2_500_000_000)]);
    let time_of = |routing| -> f64 {
        let flows = (0..4).map(|id| flow(id, id, id + 4, 3250 * 1460, Time::ZERO)).collect();
        let report = run::<Blast<Plain>>(&(), SimSetup { routing, ..setup(network.clone()) }, flows);
        report.records.iter().map(|record| record.received.as_secs_f64() * 1e3).fold(0.0, f64::max)
    };
    for (routing, expected_ms) in [(Routing::LeastQueue, 4.8), (Routing::Drill(2), 4.8), (Routing::SprayRoundRobin, 15.6)] {
        let found = time_of(routing);
        assert!((found / expected_ms - 1.0).abs() < 0.02, "{routing:?}: {found} ms, expected {expected_ms}");
    }
}

/// The mean number of packets in the queue of each of the four uplinks of a leaf at load 0.8, without those on the link.
fn mean_queue(routing: Routing) -> f64 {
    let network = leaves(8, &[gbps(10); 4]);
    let mut dice = Dice::new(5);
    // Packets of 12,000 bits at 32 Gb/s.
    let mean_gap = Duration::from_ns(375);
    let mut now = Time::ZERO;
    let mut one = |_| {
        now += dice.exponential(mean_gap);
        flow(0, dice.below(8) as u32, 8 + dice.below(8) as u32, 1460, now)
    };
    let flows = in_order((0..40_000).map(&mut one).collect());
    let span = flows.last().expect("there are flows").start - Time::ZERO;
    let report: Report = run::<Blast<Plain>>(&(), SimSetup { routing, ..setup(network.clone()) }, flows);
    let uplinks = (0..network.links().len() as u32).map(LinkId).filter(|link| network.link(*link).from == NodeId(16));
    let uplinks = uplinks.filter(|link| network.hop_name(*link) == "leaf-spine");
    let bytes: f64 = uplinks.map(|link| report.ports[link.index()].mean_queue_bytes(span)).sum();
    bytes / 4.0 / 1500.0
}

/// With random spraying, each uplink is a queue of its own: M/D/1, with ρ²/(2(1 - ρ)) = 1.6 packets, a little less since a host's packets do not come at once. The shortest of
/// four queues is nearly one queue with four servers: half of M/M/4, whose queue is C(4, 3.2) ρ/(1 - ρ) = 2.39 packets by Erlang's formula, so 0.3 packets for each link. Two samples and
/// a memory are far better than one sample: the queue of the shorter of two drawn at random falls off doubly exponentially.
#[test]
fn queues_are_as_queueing_theory_has_them() {
    let [random, drill, least] = [Routing::SprayRandom, Routing::Drill(2), Routing::LeastQueue].map(mean_queue);
    println!("random {random}, drill {drill}, least {least}");
    assert!((1.2..1.7).contains(&random), "{random}");
    assert!((0.2..0.4).contains(&least), "{least}");
    assert!((least..random / 3.0).contains(&drill), "drill {drill}, least {least}, random {random}");
}
