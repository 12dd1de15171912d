//! The order of events is total and reproducible, and separate parts of the network do not affect each other.

use flowloom_core::{Duration, Flow, Memory, NodeId, Time, topology};
use flowloom_fabric::{Fault, FlowRecord, Report, Routing, SimSetup};

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, run, setup, watch_faulty};

/// Five hosts send a packet each to one host at the same time, 400 times. The switch handles packets that arrive at the same time in a
/// pseudo-random order, which is the same in every run: of any two hosts, each comes first equally often.
#[test]
fn ties_between_arrivals_are_broken_evenly() {
    let hosts = 5;
    let start = |round: u32| ns(100_000 * u64::from(round));
    let go = || {
        let flows = (0..400 * hosts).map(|id| flow(id, id % hosts, hosts, 1460, start(id / hosts))).collect();
        run::<Blast<Plain>>(&(), setup(topology::single_switch(hosts as usize + 1, gbps(10), HOP_DELAY, STORE)), flows)
    };
    let report = go();
    let rounds = || report.records.chunks(hosts as usize);
    for round in rounds() {
        let mut times: Vec<_> = round.iter().map(|record| record.received).collect();
        times.sort_unstable();
        assert!((0..).zip(&times).all(|(place, time)| *time - times[0] == Duration::from_ns(1200 * place)), "{times:?}");
    }
    for (one, other) in (0..5).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let first = rounds().filter(|round| round[one].received < round[other].received).count();
        // Five standard deviations of a fair coin.
        assert!(first.abs_diff(200) < 50, "host {one} is before {other} {first} times");
    }
    assert_eq!(everything(&report), everything(&go()));
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
    let setup = SimSetup { routing, seed, memory: Memory::PerPort(flowloom_core::Bytes::new(15_000)), ..setup(network) };
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

/// The flows of some hosts with their records, but without their ids.
fn outcomes(report: &Report, hosts: std::ops::Range<u32>) -> Vec<(NodeId, NodeId, Time, FlowRecord)> {
    let inside = |flow: &Flow| hosts.contains(&flow.src.0);
    let all = report.flows.iter().zip(&report.records).filter(|(flow, _)| inside(flow));
    let mut all: Vec<_> = all.map(|(flow, record)| (flow.src, flow.dst, flow.start, *record)).collect();
    all.sort_by_key(|(src, dst, start, _)| (*src, *dst, *start));
    all
}

/// Two pods of a fat-tree have their own traffic, drops, spraying and faults. Each behaves the same alone and beside the other.
#[test]
fn pods_that_share_nothing_do_not_affect_each_other() {
    let (left, right) = (traffic(0..4, 1), traffic(4..8, 2));
    for routing in [Routing::SprayRandom, Routing::SprayRoundRobin] {
        let together = fat_tree(routing, 3, left.iter().chain(&right).copied().collect());
        for (hosts, flows) in [(0..4, &left), (4..8, &right)] {
            let alone = fat_tree(routing, 3, flows.clone());
            assert!(alone.ports.iter().map(flowloom_fabric::PortCounters::drops).sum::<u64>() > 100, "there are drops");
            assert_eq!(outcomes(&together, hosts.clone()), outcomes(&alone, hosts));
        }
    }
}

/// The number of events per step does not change the run.
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
