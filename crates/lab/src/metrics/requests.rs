//! Requests, which are coflows: sets of flows that the application needs together.

use std::collections::{BTreeMap, HashMap, HashSet};

use flowloom_core::{Coflow, Duration, Network, NodeId, Time, WireProfile};
use flowloom_fabric::Report;
use serde::Serialize;

use super::{Row, RunInfo, Stats};
use crate::workload::{CoflowWorkload, LONG_BYTES, NARROW_FLOWS};

/// Requests (coflows): sets of flows that the application needs together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Requests {
    /// All of them.
    #[serde(flatten)]
    pub all: RequestClass,
    /// Those of each class: short or long by their longest flow, narrow or wide by their number of flows. Every class is there.
    pub by_class: BTreeMap<&'static str, RequestClass>,
}

/// The results of some requests (coflows).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RequestClass {
    /// How many there are.
    pub count: usize,
    /// How many of these have every flow finished.
    pub finished: usize,
    /// The completion time of finished ones, in microseconds: from the first flow's start to the last flow's finish, plus the request's delay
    /// (pHost, §4.3, request completion time; Varys, coflow completion time).
    pub completion_us: Stats,
    /// The completion time of finished ones over a lower bound: the longest optimum of a flow or, if it is longer, the time that the busiest host's
    /// link takes for the flows' wire bytes.
    pub slowdown: Stats,
}

/// The classes of Varys (SIGCOMM 2014, §7).
const CLASSES: [&str; 4] = ["short_narrow", "long_narrow", "short_wide", "long_wide"];

/// The times of one coflow.
struct Outcome {
    class: &'static str,
    /// The completion time in microseconds, and the same over the lower bound. `None` if it did not finish.
    times: Option<(f64, f64)>,
}

/// The inputs for the results of coflows.
pub(super) struct Judge<'a> {
    network: &'a Network,
    wire: WireProfile,
    workloads: &'a [CoflowWorkload],
    /// Coflows of which some flows have not started.
    partial: HashSet<u32>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(report: &'a Report, rows: &[Row], run: &RunInfo<'a>) -> Judge<'a> {
        let mut left: HashMap<u32, u64> = HashMap::new();
        for (coflow, row) in rows.iter().filter_map(|row| Some((row.flow.coflow?, row))) {
            let bytes = left.entry(coflow.number).or_insert(coflow.size.get());
            *bytes = bytes.saturating_sub(row.flow.size.get());
        }
        let partial = left.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(number, _)| number).collect();
        Judge { network: &report.network, wire: run.wire, workloads: run.coflow_workloads, partial }
    }

    /// The requests that these flows belong to; `None` if there are none.
    pub(super) fn requests(&self, rows: &[&Row]) -> Option<Requests> {
        let mut members: Vec<(Coflow, &Row)> = rows.iter().filter_map(|row| Some((row.flow.coflow?, *row))).collect();
        members.sort_by_key(|(coflow, _)| coflow.number);
        let coflows = members.chunk_by(|(a, _), (b, _)| a.number == b.number);
        let outcomes: Vec<Outcome> = coflows.map(|members| self.outcome(members)).collect();
        let summarise = |class: Option<&str>| {
            let chosen = || outcomes.iter().filter(|outcome| class.is_none_or(|class| outcome.class == class));
            let times: Vec<(f64, f64)> = chosen().filter_map(|outcome| outcome.times).collect();
            RequestClass {
                count: chosen().count(),
                finished: times.len(),
                completion_us: Stats::of(times.iter().map(|(completion, _)| *completion).collect()),
                slowdown: Stats::of(times.iter().map(|(_, slowdown)| *slowdown).collect()),
            }
        };
        let by_class = || CLASSES.map(|class| (class, summarise(Some(class)))).into();
        (!outcomes.is_empty()).then(|| Requests { all: summarise(None), by_class: by_class() })
    }

    fn outcome(&self, members: &[(Coflow, &Row)]) -> Outcome {
        let (coflow, first) = members[0];
        let rows = || members.iter().map(|(_, row)| *row);
        let finish: Option<Time> = rows().map(|row| row.finish).try_fold(Time::ZERO, |last, finish| Some(finish?.max(last)));
        let times = finish.filter(|_| !self.partial.contains(&coflow.number)).map(|finish| {
            let completion = (finish - coflow.start + first.request_delay).as_us_f64();
            let longest = rows().map(|row| row.optimum).max().unwrap_or_default().as_us_f64();
            (completion, completion / longest.max(self.busiest_us(rows()) + Duration::as_us_f64(first.request_delay)))
        });
        let divisor =
            self.workloads.iter().find(|workload| workload.tenant == first.flow.tenant).map_or(1.0, |w| w.size_divisor);
        let long = rows().any(|row| row.flow.size.get() >= (LONG_BYTES / divisor).round() as u64);
        let wide = members.len() > NARROW_FLOWS as usize;
        Outcome { class: CLASSES[usize::from(long) + 2 * usize::from(wide)], times }
    }

    /// How long the busiest host's link takes for the wire bytes of these flows, in microseconds.
    fn busiest_us<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> f64 {
        // By host, and whether it receives.
        let mut bytes: HashMap<(NodeId, bool), f64> = HashMap::new();
        for Row { flow, .. } in rows {
            let on_wire = self.wire.flow_wire_bytes(flow.size).get() as f64;
            *bytes.entry((flow.src, false)).or_default() += on_wire;
            *bytes.entry((flow.dst, true)).or_default() += on_wire;
        }
        let us = |((host, _), bytes)| 8e6 * bytes / self.network.nic_rate(host).as_bps() as f64;
        bytes.into_iter().map(us).fold(0.0, f64::max)
    }
}
