//! Tasks: flows that start when others are over, as in closed loops.

use std::sync::Arc;

use flowloom_core::{Duration, Flow, FlowId, NodeId, Time, topology};
use flowloom_fabric::{End, Next, Report, Sim, SimSetup, Task, TaskList};
use proptest::prelude::*;

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{CUT, HOP_DELAY, STORE, dag, flow, gbps, in_order, run, setup, shapes};

type Net = flowloom_core::Network;

/// A closed loop. Its first flow starts at as many microseconds as the loop's number.
struct Loop {
    ends: (u32, u32),
    sizes: Vec<u64>,
    think: Duration,
}

/// The flows of all loops: first those that do not wait, then the others, loop by loop, and which waits for which.
fn chained(loops: &[Loop]) -> (Vec<Flow>, Vec<Task>, Vec<(FlowId, Next)>) {
    let (mut flows, mut tasks, mut nexts) = (Vec::new(), Vec::new(), Vec::new());
    for (number, Loop { ends: (src, dst), sizes, .. }) in (0u32..).zip(loops) {
        flows.push(flow(number, *src, *dst, sizes[0], Time::ZERO + Duration::from_us(u64::from(number))));
    }
    for (number, Loop { ends: (src, dst), sizes, think }) in (0u32..).zip(loops) {
        let mut last = FlowId(number);
        for size in &sizes[1..] {
            let next = FlowId((flows.len() + tasks.len()) as u32);
            nexts.push((last, Next { task: next, end: End::Received, delay: *think }));
            tasks.push(Task::Flow(flow(next.0, *src, *dst, *size, Time::MAX)));
            last = next;
        }
    }
    (flows, tasks, nexts)
}

fn run_loops(setup: SimSetup, loops: &[Loop]) -> Report {
    let (flows, tasks, nexts) = chained(loops);
    let tasks = Arc::new(TaskList::new(&flows, tasks, nexts, Vec::new()));
    let mut sim = Sim::<Blast<Plain>>::new(&(), setup, flows, ()).with_tasks(tasks);
    while sim.step(1 << 10) {}
    sim.finish().expect("conservation").0
}

/// One loop on an idle network: each flow takes the time of the closed form, and the next one starts a think time later, to the
/// picosecond.
#[test]
fn the_period_of_a_single_loop_is_its_flow_time_and_its_think_time() {
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

/// A packet takes 2.8 us and the think time is 1.2 us, so there are 25 starts in 100 us, the last at 96 us. The other 975 flows never
/// start.
#[test]
fn flows_that_did_not_start_are_not_reported() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let one = Loop { ends: (0, 1), sizes: vec![1460; 1000], think: Duration::from_ns(1200) };
    let limit = SimSetup { time_limit: Time::ZERO + Duration::from_us(99), ..setup(network) };
    let report = run_loops(limit, &[one]);
    assert_eq!((report.flows.len(), report.records.len(), report.not_started), (25, 25, 975));
    assert_eq!(report.flows[24].start, Time::ZERO + Duration::from_us(96));
    assert!(report.records.iter().all(|record| record.received < Time::MAX));
}

/// Flows with a start time after the limit are not reported either, but flows of loops that did start are.
#[test]
fn late_arrivals_and_waiting_flows_are_distinguished() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let loops = [0, 2].map(|src| Loop { ends: (src, 1), sizes: vec![1460; 4], think: Duration::from_us(3) });
    let (mut flows, tasks, nexts) = chained(&loops);
    flows[1].start = Time::ZERO + Duration::from_us(50);
    let limit = SimSetup { time_limit: Time::ZERO + Duration::from_us(20), ..setup(network) };
    let tasks = Arc::new(TaskList::new(&flows, tasks, nexts, Vec::new()));
    let mut sim = Sim::<Blast<Plain>>::new(&(), limit, flows, ()).with_tasks(tasks);
    while sim.step(1) {}
    let report = sim.finish().expect("conservation").0;
    let starts: Vec<(u32, u64)> = report.flows.iter().map(|flow| (flow.id.0, flow.start.as_ps() / 100_000)).collect();
    assert_eq!((starts, report.not_started), (vec![(0, 0), (2, 58), (3, 116), (4, 174)], 4));
}

/// When each task begins, in order of number, follows from when all that it needs was over at the ends at which it needs them.
#[test]
fn a_task_begins_when_all_that_it_needs_is_over() {
    for seed in 0..20 {
        for (name, network) in shapes(CUT) {
            let (flows, tasks, nexts) = dag(&network, 40, seed);
            let list = TaskList::new(&flows, tasks.clone(), nexts.clone(), Vec::new());
            let mut sim = Sim::<Blast<Plain>>::new(&(), setup(network), flows.clone(), ()).with_tasks(Arc::new(list));
            while sim.step(1 << 10) {}
            let (mut over, mut begun) = (Vec::new(), flows.len());
            for id in (0..(flows.len() + tasks.len()) as u32).map(FlowId) {
                let needs = nexts.iter().filter(|(_, next)| next.task == id);
                let due = needs.map(|(need, Next { end, delay, .. })| {
                    let (begun, received, acknowledged) = over[need.0 as usize];
                    (match end {
                        End::Begun => begun,
                        End::Received => received,
                        End::Acknowledged => acknowledged,
                    }) + *delay
                });
                let expected: Time = due.max().unwrap_or(Time::ZERO);
                let (flow, record) = sim.flow(id);
                if let Some(Task::Join(_)) = (id.0 as usize).checked_sub(flows.len()).map(|index| tasks[index]) {
                    over.push((expected, expected, expected));
                    continue;
                }
                assert_eq!(flow.start, expected, "{name} {seed}: {flow:?}");
                begun += usize::from(id.0 as usize >= flows.len());
                over.push((flow.start, record.received, record.acknowledged));
            }
            let report = sim.finish().expect("conservation").0;
            assert_eq!((report.flows.len(), report.not_started), (begun, 0), "{name} {seed}");
            assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A closed loop equals an open workload with the same start times: the same packets at the same times.
    #[test]
    fn loops_equal_an_open_workload_with_their_start_times(
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

fn refused(change: impl Fn(&mut Vec<(FlowId, Next)>)) {
    let (flows, tasks, mut nexts) = chained(&[Loop { ends: (0, 1), sizes: vec![1, 1, 1], think: Duration::from_us(1) }]);
    change(&mut nexts);
    TaskList::new(&flows, tasks, nexts, Vec::new());
}

#[test]
#[should_panic(expected = "a flow with a start of its own waits for nothing")]
fn a_flow_with_a_start_time_cannot_wait() {
    refused(|nexts| nexts[1].1.task = FlowId(0));
}

#[test]
#[should_panic(expected = "a task waits for nothing")]
fn a_task_waits_for_something() {
    refused(|nexts| nexts.truncate(1));
}

#[test]
#[should_panic(expected = "would begin without delay")]
fn the_think_time_cannot_be_zero() {
    refused(|nexts| nexts[0].1.delay = Duration::ZERO);
}
