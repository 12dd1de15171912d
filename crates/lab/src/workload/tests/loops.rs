//! Closed loops.

use flowloom_fabric::End;

use super::mix::{mix, part, rack};
use super::waiting::{Before, Waiting};
use super::*;

fn closed_loop(from: &[u32], requests: u32, loops: u32) -> ClosedLoop {
    ClosedLoop {
        from: from.iter().map(|host| HostRef::Number(*host)).collect(),
        to: HostRef::Name("h0".to_owned()),
        sizes: table("imc10"),
        requests,
        loops,
        think: Quantity(Duration::from_us(50)),
    }
}

/// Every loop's flows, in the order in which they would run.
fn loops_of(workload: &Workload) -> Vec<Vec<Flow>> {
    let Workload { flows, waiting: Waiting { listed, waits, .. }, .. } = workload;
    let next = |place: &Before| waits.iter().find(|wait| wait.before == *place).map(|wait| Before::Task(wait.task));
    let mut awaited: Vec<u32> = waits.iter().map(|wait| wait.task).collect();
    awaited.sort_unstable();
    assert_eq!(awaited, (0..listed.len() as u32).collect::<Vec<_>>(), "a flow follows one");
    assert!(waits.iter().all(|wait| wait.end == End::Received));
    assert!(listed.iter().all(|flow| flow.start == Time::MAX), "those that follow have no start");
    let flow = |place| match place {
        Before::Flow(place) => flows[place as usize],
        Before::Task(place) => listed[place as usize],
    };
    let looped = |head: u32| std::iter::successors(Some(Before::Flow(head)), next).map(flow).collect::<Vec<Flow>>();
    // A flow that nothing follows is a loop of its own.
    (0..flows.len() as u32).map(looped).collect()
}

#[test]
fn loops_by_hand() {
    let kind = WorkloadKind::ClosedLoop(closed_loop(&[2, 1], 3, 2));
    let workload = workload_in(&WorkloadSpec::One(kind), &rack(), 1);
    let loops = loops_of(&workload);
    assert_eq!(loops.iter().map(|flows| flows[0].src.0).collect::<Vec<u32>>(), [2, 2, 1, 1]);
    assert!(loops.iter().all(|flows| flows.len() == 3 && flows[0].start == Time::ZERO));
    assert!(loops.iter().all(|flows| flows.iter().all(|flow| flow.src == flows[0].src && flow.dst == NodeId(0))));
    assert!(workload.waiting.waits.iter().all(|wait| wait.delay == Duration::from_us(50)));
}

/// More requests, loops or senders go on from the same flows.
#[test]
fn sizes_belong_to_the_loop() {
    let sizes = |spec| {
        let workload = workload_in(&WorkloadSpec::One(WorkloadKind::ClosedLoop(spec)), &rack(), 5);
        let sizes = |flows: Vec<Flow>| flows.iter().map(|flow| flow.size).collect::<Vec<Bytes>>();
        loops_of(&workload).into_iter().map(sizes).collect::<Vec<_>>()
    };
    let base = sizes(closed_loop(&[3, 4], 20, 1));
    assert_ne!(base[0], base[1]);
    let more = sizes(closed_loop(&[4, 3, 5], 30, 2));
    assert_eq!((&base[0][..], &base[1][..]), (&more[2][..20], &more[0][..20]));
    assert_ne!(more[0], more[1]);
}

/// In a mix, loops are whole, whatever else there is, and start with their part.
#[test]
fn loops_in_a_mix_are_those_of_their_parts() {
    let looped = |host| WorkloadKind::ClosedLoop(closed_loop(&[host], 10, 2));
    let background = WorkloadKind::Poisson(poisson(table("imc10"), 0.2, 100));
    let at = Duration::from_us;
    let parts = [part("a", at(3), looped(1)), part("b", at(0), background), part("c", at(9), looped(2))];
    let whole = workload_in(&mix(parts.to_vec()), &rack(), 1);
    assert_eq!((whole.flows.len(), whole.waiting.listed.len()), (2 + 100 + 2, 18 + 18));
    let content = |flows: &Vec<Flow>| flows.iter().map(|flow| (flow.src, flow.size)).collect::<Vec<_>>();
    let loops: Vec<Vec<Flow>> = loops_of(&whole).into_iter().filter(|flows| flows[0].tenant != 1).collect();
    assert_eq!(loops.iter().map(|flows| flows[0].start).collect::<Vec<_>>(), [3, 3, 9, 9].map(|us| Time::ZERO + at(us)));
    assert!(loops.iter().all(|flows| flows.len() == 10 && flows.iter().all(|flow| flow.tenant == flows[0].tenant)));
    let first = loops_of(&workload_in(&mix(parts[..1].to_vec()), &rack(), 1));
    assert_eq!(loops[..2].iter().map(content).collect::<Vec<_>>(), first.iter().map(content).collect::<Vec<_>>());
}
