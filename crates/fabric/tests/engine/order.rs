//! The order of events is total and the same every time, and what happens in one part of the network does not touch another.

use flowloom_core::{Duration, Flow, NodeId, Time};
use flowloom_fabric::{Fault, FlowRecord, Report, Routing, Setup, topology};

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, run, setup, watch_faulty};

/// Five hosts send to a sixth at one instant, in flows that are numbered the other way round. The switch takes arrivals of one
/// instant in the order of their links, that is of hosts: host h's packet is received h packet times after the first one's.
#[test]
fn arrivals_of_one_instant_are_taken_in_the_order_of_links() {
    let network = topology::single_switch(6, gbps(10), HOP_DELAY, STORE);
    let flows = (0..5).map(|id| flow(id, 4 - id, 5, 1460, Time::ZERO)).collect();
    let report = run::<Blast<Plain>>(&(), setup(network), flows);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        assert_eq!(record.received, ns(2 * 1400 + 1200 * u64::from(flow.src.0)));
    }
}

fn everything(report: &Report) -> String {
    format!("{:?} {:?} {} {:?}", report.records, report.ports, report.packet_hops, report.end)
}

fn traffic(hosts: std::ops::Range<u32>, seed: u64) -> Vec<Flow> {
    let mut dice = Dice::new(seed);
    let count = u64::from(hosts.end - hosts.start);
    let one = |dice: &mut Dice| {
        let src = dice.below(count);
        let dst = (src + 1 + dice.below(count - 1)) % count;
        flow(0, hosts.start + src as u32, hosts.start + dst as u32, dice.below(50_000), ns(dice.below(300_000)))
    };
    (0..150).map(|_| one(&mut dice)).collect()
}

const FAULTS: [Fault; 3] = [Fault::Loss(0.02), Fault::Duplicate(0.02), Fault::Reorder(0.02, Duration::from_us(20))];

fn fat_tree(routing: Routing, seed: u64, flows: Vec<Flow>) -> Report {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    let setup = Setup { routing, seed, buffer: flowloom_core::Bytes::new(15_000), ..setup(network) };
    watch_faulty::<Blast<Plain>, ()>(&(), setup, in_order(flows), (), |_| FAULTS.to_vec()).0
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for routing in [Routing::SprayRandom, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric] {
        let go = |seed| everything(&fat_tree(routing, seed, traffic(0..16, 5)));
        assert_eq!(go(1), go(1), "{routing:?}");
        assert_ne!(go(1), go(2), "{routing:?}");
    }
}

/// What a flow is and what became of it, without its number.
fn outcomes(report: &Report, hosts: std::ops::Range<u32>) -> Vec<(NodeId, NodeId, Time, FlowRecord)> {
    let inside = |flow: &Flow| hosts.contains(&flow.src.0);
    let all = report.flows.iter().zip(&report.records).filter(|(flow, _)| inside(flow));
    let mut all: Vec<_> = all.map(|(flow, record)| (flow.src, flow.dst, flow.start, *record)).collect();
    all.sort_by_key(|(src, dst, start, _)| (*src, *dst, *start));
    all
}

/// Two pods of a fat-tree, each with traffic, drops, spraying and faults of its own: together each behaves as alone.
#[test]
fn pods_that_share_nothing_do_not_notice_each_other() {
    let (left, right) = (traffic(0..4, 1), traffic(4..8, 2));
    for routing in [Routing::SprayRandom, Routing::SprayRoundRobin] {
        let together = fat_tree(routing, 3, left.iter().chain(&right).copied().collect());
        for (hosts, flows) in [(0..4, &left), (4..8, &right)] {
            let alone = fat_tree(routing, 3, flows.clone());
            assert!(alone.ports.iter().map(flowloom_fabric::PortCounters::drops).sum::<u64>() > 100, "something is at stake");
            assert_eq!(outcomes(&together, hosts.clone()), outcomes(&alone, hosts));
        }
    }
}

/// The budget of a step is a matter of reporting only.
#[test]
fn a_run_in_small_steps_is_the_same_run() {
    let network = || topology::leaf_spine(2, 4, 2, gbps(10), gbps(40), HOP_DELAY, STORE);
    let flows = || in_order(traffic(0..8, 9));
    let whole = run::<Blast<Plain>>(&(), setup(network()), flows());
    let mut sim = flowloom_fabric::Sim::<Blast<Plain>>::new(&(), setup(network()), flows(), ());
    let mut last = (0.0, Time::ZERO, 0);
    while sim.step(7) {
        let now = sim.progress();
        assert!(now.0 >= last.0 && now.1 >= last.1 && now.2 >= last.2);
        last = now;
    }
    let (steps, ()) = sim.finish().expect("conservation");
    assert_eq!(everything(&steps), everything(&whole));
    assert_eq!(steps.events, whole.events);
}
