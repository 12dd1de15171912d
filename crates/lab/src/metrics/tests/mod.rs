//! Reports made by hand, with answers worked out by hand.

mod dictionary;
mod numbers;
mod requests;
mod summary;

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, NodeId, Rate, Switching, Time, WireProfile, topology};
use flowloom_fabric::{FlowRecord, PortCounters, Report};

use super::{FctEnd, Optima, Row, RunInfo, Summary, rows};
use crate::workload::complete;

pub(super) const WIRE: WireProfile = WireProfile::IP_1500;
pub(super) const RUN: RunInfo<'static> = RunInfo {
    transport: "by_hand",
    seed: 7,
    wall_s: 1.5,
    peak_rss_mb: 20.0,
    gaps: None,
    before: None,
    jobs: BTreeMap::new(),
    lossless: None,
    wire: WIRE,
    coflow_workloads: &[],
    misfits: &[],
    findings: &[],
};

pub(super) fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

pub(super) fn flow(src: u32, dst: u32, bytes: u64, start_us: u64) -> Flow {
    Flow {
        id: FlowId(0),
        src: NodeId(src),
        dst: NodeId(dst),
        size: Bytes::new(bytes),
        start: us(start_us),
        deadline: None,
        tenant: 0,
        coflow: None,
        background: false,
    }
}

/// Four hosts at 10 Gb/s, 200 ns a link: host n has links 2n (up) and 2n + 1 (down). Each flow is received at its instant, if
/// it has one, and acknowledged one microsecond later.
pub(super) fn report(flows: Vec<(Flow, Option<u64>)>) -> Report {
    let network = topology::single_switch(4, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward);
    let record = |(flow, received_us): &(Flow, Option<u64>)| FlowRecord {
        received: received_us.map_or(Time::MAX, us),
        acknowledged: received_us.map_or(Time::MAX, |at| us(at + 1)),
        delivered_bytes: if received_us.is_some() { flow.size.get() } else { flow.size.get() / 2 },
        retransmissions: u32::from(received_us.is_none()) * 3,
        ..FlowRecord::NEW
    };
    Report {
        ports: vec![PortCounters::default(); network.links().len()],
        controls: Vec::new(),
        network: network.into(),
        not_started: 0,
        records: flows.iter().map(record).collect(),
        flows: whole(flows.into_iter().zip(0..).map(|((flow, _), id)| Flow { id: FlowId(id), ..flow }).collect()),
        packet_hops: 0,
        data_packets: 0,
        events: 0,
        end: us(1000),
    }
}

/// The flows, which know their coflows.
fn whole(mut flows: Vec<Flow>) -> Vec<Flow> {
    complete(&mut flows);
    flows
}

pub(super) fn receiver_rows(report: &Report) -> Vec<Row> {
    rows(report, &WIRE, FctEnd::Receiver, Duration::ZERO, false, Optima::ClosedForm)
}

pub(super) fn summary(report: &Report) -> Summary {
    Summary::of(report, &receiver_rows(report), &[0, 10_000, 100_000, 10_000_000].map(Bytes::new), &RUN)
}
