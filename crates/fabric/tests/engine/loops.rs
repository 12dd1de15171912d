//! Flows that start when others have been received.

use flowloom_core::{Duration, Flow, FlowId, NodeId, Time, topology};
use flowloom_fabric::{Report, Sim, SimSetup, Successor};
use proptest::prelude::*;

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{CUT, HOP_DELAY, STORE, flow, gbps, in_order, run, setup, shapes};

type Net = flowloom_core::Network;

/// Loops: source, destination, sizes, think time. The first flow of each starts at the loop's number, in microseconds.
struct Loop {
    ends: (u32, u32),
    sizes: Vec<u64>,
    think: Duration,
}

/// Flows that do not wait first, then the rest, loop by loop.
fn chained(loops: &[Loop]) -> (Vec<Flow>, Vec<Option<Successor>>) {
    let mut flows: Vec<Flow> = Vec::new();
    for (number, Loop { ends: (src, dst), sizes, .. }) in (0u32..).zip(loops) {
        flows.push(flow(number, *src, *dst, sizes[0], Time::ZERO + Duration::from_us(u64::from(number))));
    }
    let mut successors = vec![None; loops.len()];
    for (number, Loop { ends: (src, dst), sizes, think }) in loops.iter().enumerate() {
        let mut last = number;
        for size in &sizes[1..] {
            let id = flows.len() as u32;
            successors[last] = Some(Successor { flow: FlowId(id), think: *think });
            flows.push(flow(id, *src, *dst, *size, Time::MAX));
            successors.push(None);
            last = id as usize;
        }
    }
    (flows, successors)
}

fn run_loops(setup: SimSetup, loops: &[Loop]) -> Report {
    let (flows, successors) = chained(loops);
    let mut sim = Sim::<Blast<Plain>>::new(&(), setup, flows, ()).with_successors(successors);
    while sim.step(1 << 10) {}
    sim.finish().expect("conservation").0
}

/// A loop alone on any network: a flow takes the closed form, and the next one starts its think time later, to the picosecond.
#[test]
fn a_loop_alone_has_a_period_of_its_flow_and_its_think_time() {
    let (sizes, think) = ([1, 1460, 100_000, 20_000], Duration::from_ns(12_345));
    for (name, network) in [STORE, CUT].into_iter().flat_map(shapes) {
        let ends = (0, network.hosts() as u32 - 1);
        let report = run_loops(setup(network.clone()), &[Loop { ends, sizes: sizes.to_vec(), think }]);
        let path = network.path(NodeId(ends.0), NodeId(ends.1));
        let mut start = Time::ZERO;
        assert_eq!((report.flows.len(), report.not_started), (4, 0));
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let end = start + network.flow_time(&path, flow.size, &setup(network.clone()).wire);
            assert_eq!((flow.start, record.received), (start, end), "{name}: {flow:?}");
            start = end + think;
        }
    }
}

/// One packet there takes 2.8 us, 1.2 us to think: 25 starts in 100 us, the last at 96 us; of a thousand, 975 never start.
#[test]
fn what_did_not_start_is_not_there() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let one = Loop { ends: (0, 1), sizes: vec![1460; 1000], think: Duration::from_ns(1200) };
    let limit = SimSetup { time_limit: Time::ZERO + Duration::from_us(99), ..setup(network) };
    let report = run_loops(limit, &[one]);
    assert_eq!((report.flows.len(), report.records.len(), report.not_started), (25, 25, 975));
    assert_eq!(report.flows[24].start, Time::ZERO + Duration::from_us(96));
    assert!(report.records.iter().all(|record| record.received < Time::MAX));
}

/// Flows that do not wait and come later than the limit are left out, too, and those of loops stay.
#[test]
fn late_arrivals_and_waiting_flows_are_told_apart() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let loops = [0, 2].map(|src| Loop { ends: (src, 1), sizes: vec![1460; 4], think: Duration::from_us(3) });
    let (mut flows, successors) = chained(&loops);
    flows[1].start = Time::ZERO + Duration::from_us(50);
    let limit = SimSetup { time_limit: Time::ZERO + Duration::from_us(20), ..setup(network) };
    let mut sim = Sim::<Blast<Plain>>::new(&(), limit, flows, ()).with_successors(successors);
    while sim.step(1) {}
    let report = sim.finish().expect("conservation").0;
    let starts: Vec<(u32, u64)> = report.flows.iter().map(|flow| (flow.id.0, flow.start.as_ps() / 100_000)).collect();
    assert_eq!((starts, report.not_started), (vec![(0, 0), (2, 58), (3, 116), (4, 174)], 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A closed loop is the open workload of the starts that came out of it: the same packets at the same instants.
    #[test]
    fn loops_are_the_open_workload_of_their_starts(
        list in prop::collection::vec(((0u32..5, 1u32..5), prop::collection::vec(1u64..60_000, 1..6), 1u64..40_000), 1..6),
    ) {
        let network: Net = topology::single_switch(5, gbps(10), HOP_DELAY, CUT);
        let loops: Vec<Loop> = list.into_iter().map(|((src, step), sizes, think_ns)| Loop {
            ends: (src, (src + step) % 5), sizes, think: Duration::from_ps(think_ns * 1000 + 7),
        }).collect();
        let closed = run_loops(setup(network.clone()), &loops);
        let open = run::<Blast<Plain>>(&(), setup(network), in_order(closed.flows.clone()));
        prop_assert_eq!(closed.not_started, 0);
        prop_assert!(closed.flows.is_sorted_by_key(|flow| (flow.start, flow.id)));
        for (index, (a, b)) in closed.flows.iter().zip(&open.flows).enumerate() {
            prop_assert_eq!((a.src, a.dst, a.size, a.start), (b.src, b.dst, b.size, b.start));
            prop_assert_eq!(closed.records[index], open.records[index]);
        }
        prop_assert_eq!((closed.end, closed.packet_hops), (open.end, open.packet_hops));
    }
}

fn refused(change: impl Fn(&mut Vec<Flow>, &mut Vec<Option<Successor>>)) {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let (mut flows, mut successors) = chained(&[Loop { ends: (0, 1), sizes: vec![1, 1, 1], think: Duration::from_us(1) }]);
    change(&mut flows, &mut successors);
    let _ = Sim::<Blast<Plain>>::new(&(), setup(network), flows, ()).with_successors(successors);
}

#[test]
#[should_panic(expected = "a successor has no start of its own")]
fn a_flow_with_a_start_follows_nothing() {
    refused(|_, successors| successors[2] = Some(Successor { flow: FlowId(0), think: Duration::from_us(1) }));
}

#[test]
#[should_panic(expected = "follows two flows")]
fn a_flow_follows_one() {
    refused(|_, successors| successors[1] = successors[0]);
}

#[test]
#[should_panic(expected = "would start without delay")]
fn a_flow_does_not_follow_at_once() {
    refused(|_, successors| successors[0] = Some(Successor { flow: FlowId(1), think: Duration::ZERO }));
}
