//! Nodes that are down for a while and come back without their state.

use std::sync::Arc;

use flowloom_core::{AbortReason, DropReason, Duration, Flow, FlowId, NodeId, Time, Transport, topology};
use flowloom_fabric::{Abort, End, Fault, Faulty, Next, Outage, Report, Sim, SimSetup, Task, TaskList};
use proptest::prelude::*;

use crate::common::blast::{Blast, Plain};
use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, in_order, ns, setup};

fn three_hosts() -> SimSetup {
    setup(topology::single_switch(3, gbps(10), HOP_DELAY, STORE))
}

fn us(n: u64) -> Time {
    ns(n * 1000)
}

/// Host `node` is down from 20 to 50 µs.
fn down(node: u32) -> Outage {
    Outage { node: NodeId(node), from: us(20), to: us(50) }
}

fn go(flows: Vec<Flow>, outages: &[Outage]) -> Report {
    let mut sim = Sim::<Blast<Plain>>::new(&(), three_hosts(), flows, ()).with_outages(outages);
    while sim.step(1 << 10) {}
    sim.finish().expect("conservation").0
}

const NODE_DOWN: Option<Abort> = Some(Abort { at: Time::from_ps(20_000_000), reason: AbortReason::NodeDown });

/// Packet k (from 1) of 100 arrives at 1.2 (k + 1) + 0.4 µs. Packets 1 to 15 arrive before 20 µs, and 41 to 100 after 50 µs. The flow of
/// two other hosts goes on.
#[test]
fn packets_for_a_host_that_is_down_are_dropped_and_its_flows_are_aborted() {
    let flows = vec![flow(0, 0, 1, 146_000, Time::ZERO), flow(1, 2, 0, 1460, us(150))];
    let report = go(flows, &[down(1)]);
    let record = report.records[0];
    assert_eq!(record.aborted, NODE_DOWN);
    assert_eq!((record.sent_bytes, record.arrived_bytes, record.dropped_bytes), (146_000, 75 * 1460, 25 * 1460));
    assert_eq!(record.received, Time::MAX);
    let last = report.network.ports(NodeId(1))[0].reverse();
    assert_eq!(report.ports[last.index()].dropped_packets[DropReason::NodeDown as usize], 25);
    assert_eq!(report.records[1].acknowledged, us(150) + Duration::from_ns(2 * 1400 + 2 * 232));
}

/// Host 0 begins to send packet k (from 1) at 1.2 (k - 1) µs: 17 packets before 20 µs. A flow that starts while it is down is aborted at
/// once, and one that starts later is not.
#[test]
fn a_host_that_is_down_sends_nothing() {
    let flows = vec![
        flow(0, 0, 1, 146_000, Time::ZERO),
        flow(1, 0, 1, 1460, us(30)),
        flow(2, 1, 2, 1460, us(40)),
        flow(3, 0, 1, 1460, us(60)),
    ];
    let report = go(flows, &[down(0)]);
    assert_eq!((report.records[0].sent_bytes, report.records[0].aborted), (17 * 1460, NODE_DOWN));
    let at_once = Some(Abort { at: us(30), reason: AbortReason::NodeDown });
    assert_eq!((report.records[1].sent_bytes, report.records[1].aborted), (0, at_once));
    for index in [2, 3] {
        let alone = report.flows[index].start + Duration::from_ns(2 * 1400 + 2 * 232);
        assert_eq!((report.records[index].acknowledged, report.records[index].aborted), (alone, None));
    }
}

/// Flows that are over, or have not started, are not aborted.
#[test]
fn only_open_flows_are_aborted() {
    let flows = vec![flow(0, 0, 1, 1460, Time::ZERO), flow(1, 0, 1, 1460, us(70))];
    let next = Next { task: FlowId(2), end: End::Received, delay: Duration::from_us(1) };
    let tasks = TaskList::new(&flows, vec![Task::Flow(flow(2, 1, 0, 1460, Time::MAX))], vec![(FlowId(1), next)], Vec::new());
    let sim = Sim::<Blast<Plain>>::new(&(), three_hosts(), flows, ());
    let mut sim = sim.with_tasks(Arc::new(tasks)).with_outages(&[down(0)]);
    while sim.step(1 << 10) {}
    let report = sim.finish().expect("conservation").0;
    assert_eq!(report.flows.len(), 3);
    assert!(report.records.iter().all(|record| record.aborted.is_none() && record.acknowledged < Time::MAX));
}

#[test]
fn a_run_that_waits_for_a_host_to_come_up_does_not_end() {
    // The flow to host 1 starts while host 1 is down, so its only packet is lost, and Blast does not send it again.
    let mut sim = Sim::<Blast<Plain>>::new(&(), three_hosts(), vec![flow(0, 0, 1, 1460, us(30))], ()).with_outages(&[down(1)]);
    while sim.step(1 << 10) {}
    assert!(sim.has_no_event());
    let report = sim.finish().expect("conservation").0;
    assert_eq!((report.end, report.records[0].dropped_packets, report.records[0].is_over()), (us(50), 1, false));
}

#[test]
#[should_panic(expected = "touch each other")]
fn outages_of_a_node_do_not_touch() {
    let second = Outage { from: us(50), to: us(60), ..down(1) };
    let _ = Sim::<Blast<Plain>>::new(&(), three_hosts(), Vec::new(), ()).with_outages(&[second, down(1)]);
}

#[test]
#[should_panic(expected = "there is no endpoint")]
fn a_switch_without_control_endpoint_cannot_go_down() {
    let _ = Sim::<Blast<Plain>>::new(&(), three_hosts(), Vec::new(), ()).with_outages(&[down(3)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Hosts go down at random, and packets are lost, duplicated and held back for long. So a host can receive packets of a flow again
    /// that it received before it went down. Bytes are conserved, and no flow has more than all its bytes.
    #[test]
    fn every_byte_is_accounted_for(seed in any::<u64>()) {
        let network = topology::leaf_spine(2, 3, 2, gbps(10), gbps(10), HOP_DELAY, if seed % 2 == 0 { CUT } else { STORE });
        let mut dice = Dice::new(seed);
        let flows = in_order((0..60).map(|_| {
            let (src, size, at) = (dice.below(6) as u32, dice.below(30_000), dice.below(300_000));
            flow(0, src, (src + 1 + dice.below(5) as u32) % 6, size, ns(at))
        }).collect());
        let outages: Vec<Outage> = (0..4).map(|node| {
            let from = ns(dice.below(150_000));
            Outage { node: NodeId(node), from, to: from + Duration::from_ns(1 + dice.below(100_000)) }
        }).collect();
        let setup = SimSetup { seed, ..setup(network) };
        let faults = || vec![Fault::Loss(0.02), Fault::Duplicate(0.1), Fault::Reorder(0.1, Duration::from_us(100))];
        let sim = Sim::<Blast<Plain>, Faulty<<Blast<Plain> as Transport>::Port>>::with_ports(&(), setup, flows, (), |port, site| {
            Faulty::new(port, site, faults(), seed)
        });
        let mut sim = sim.with_outages(&outages);
        while sim.step(1 << 10) {}
        let report = sim.finish().map_err(|violation| TestCaseError::fail(violation.to_string()))?.0;
        for (flow, record) in report.flows.iter().zip(&report.records) {
            prop_assert!(record.delivered_bytes <= flow.size.get());
            let ends = [flow.src, flow.dst];
            // A flow that starts at the instant at which a host comes up starts before that.
            let hit = outages.iter().any(|outage| ends.contains(&outage.node) && outage.to >= flow.start);
            prop_assert!(record.aborted.is_none() || hit);
        }
    }
}
