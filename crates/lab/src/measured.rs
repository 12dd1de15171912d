//! The flows of a plan on real hosts: what is to run, and results of what was measured. The numbers are computed as those of a simulation; what only a simulator sees is null.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flowloom_core::{AbortReason, Duration, Flow, Network, Time};
use flowloom_fabric::{Abort, FlowRecord, Report};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ScenarioError;
use crate::metrics::{Row, RunInfo, Summary};
use crate::plan::{Plan, Setup};
use crate::run;
use crate::simulate::{Progress, RunError};
use crate::solo::Alone;
use crate::spec::Scenario;

/// What was measured of a run.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What became of each flow of the scenario.
    pub endings: Vec<Ending>,
    /// When it was over, in nanoseconds after the common start.
    pub end_ns: u64,
    /// How long it took with everything around it, in seconds.
    pub wall_s: f64,
}

/// What was measured of one flow. Instants are in nanoseconds after the common start of all hosts.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// Its number in the scenario.
    pub flow: u32,
    /// When the last byte was received, if it was.
    pub received_ns: Option<u64>,
    /// When the sender knew this, if it did.
    pub acknowledged_ns: Option<u64>,
    /// When it was aborted, if it was.
    pub aborted_ns: Option<u64>,
    /// Whether that was for its deadline.
    pub late: bool,
    /// Payload bytes that were received for the first time.
    pub delivered_bytes: u64,
    /// Data packets sent, where each transmission counts.
    pub packets: u64,
    /// Data packets sent again.
    pub retransmissions: u32,
    /// How often its retransmission timer expired.
    pub timeouts: u32,
    /// How many of these timeouts came directly after another one without progress, as the second of a series.
    pub second_timeouts: u32,
}

/// The results of a run on real hosts.
pub struct Judged {
    /// A row for each flow, in order of start and id.
    pub rows: Vec<Row>,
    /// The summary, as that of a simulation; what is not known is null.
    pub summary: Value,
    /// The network, to the NICs of which the flows of the rows are.
    pub network: Arc<Network>,
}

/// Describes the flows of a scenario's plan, for real hosts. Instants are in nanoseconds, which are rounded down, and hosts are numbers.
///
/// # Errors
/// If a flow waits for others, or hosts have several links.
pub fn describe_flows(plan: &Plan, scenario: &Scenario) -> Result<Value, ScenarioError> {
    if plan.setup.network.has_several_nics() {
        return Err(scenario.place(ScenarioError::at_key("topology", "hosts have several links; real hosts have one each")));
    }
    if plan.flows.wait() {
        let message = "its flows wait for others, and real hosts begin flows at instants that are known before the run";
        return Err(scenario.place(ScenarioError::at_key("workload.kind", message)));
    }
    let ns = |at: Time| at.as_ps() / 1000;
    let flow = |flow: &Flow| {
        json!({
            "flow": flow.id.0,
            "from": flow.src.0,
            "to": flow.dst.0,
            "bytes": flow.size.get(),
            "start_ns": ns(flow.start),
            "deadline_ns": flow.deadline.map(ns),
            "tenant": flow.tenant,
            "coflow": flow.coflow.map(|coflow| {
                json!({ "number": coflow.number, "bytes": coflow.size.get(), "start_ns": ns(coflow.start) })
            }),
            "background": flow.background,
        })
    };
    Ok(plan.flows.own.iter().map(flow).collect())
}

/// The results of a plan's flows on real hosts. Progress is made only where optima are measured in the simulator.
///
/// # Errors
/// If the endings are not those of its flows, or what flows take alone cannot be measured.
pub fn judge(plan: Plan, measured: &Measured, progress: &mut Progress<'_>) -> Result<Judged, RunError> {
    let alone = Alone::if_wanted(&plan);
    let Plan { setup, flows, .. } = plan;
    let report = report(&setup, flows.own, measured).map_err(RunError::Failed)?;
    let rows = run::rows(&setup, &report, alone.as_ref(), progress)?;
    let bins = setup.metrics.size_bins.edges(rows.iter().map(|row| row.flow.size));
    let info = RunInfo {
        transport: setup.transport.name,
        seed: setup.seed,
        wall_s: measured.wall_s,
        peak_rss_mb: 0.0,
        gaps: None,
        before: None,
        wire: setup.wire,
        coflow_workloads: &setup.coflow_workloads,
        jobs: BTreeMap::new(),
        misfits: &setup.misfits,
        findings: &[],
        lossless: None,
    };
    let summary = without_unseen(&Summary::of(&report, &rows, &bins, &info));
    Ok(Judged { summary, rows, network: setup.network })
}

/// The report of a run whose network was not looked into.
fn report(setup: &Setup, flows: Vec<Flow>, measured: &Measured) -> Result<Report, String> {
    let mut records = vec![None; flows.len()];
    for ending in &measured.endings {
        let at = ending.flow as usize;
        let flow = flows.get(at).ok_or_else(|| format!("the scenario has no flow {at}"))?;
        if records[at].replace(record(flow, ending)?).is_some() {
            return Err(format!("flow {at} has two ends"));
        }
    }
    let missing: BTreeSet<usize> = (0..).zip(&records).filter(|(_, record)| record.is_none()).map(|(at, _)| at).collect();
    if let Some(first) = missing.first() {
        return Err(format!("{} flows were not run, such as flow {first}", missing.len()));
    }
    Ok(Report {
        network: setup.network.clone(),
        flows,
        not_started: 0,
        records: records.into_iter().flatten().collect(),
        ports: Vec::new(),
        controls: Vec::new(),
        packet_hops: 0,
        data_packets: measured.endings.iter().map(|ending| ending.packets).sum(),
        events: 0,
        end: instant(measured.end_ns).ok_or_else(|| format!("no run ends at {} ns", measured.end_ns))?,
    })
}

/// The instant this many nanoseconds after the common start, if it is in the range of a run.
fn instant(ns: u64) -> Option<Time> {
    Duration::from_ns(1).checked_mul(ns).map(|span| Time::ZERO + span)
}

/// The record of a flow that ended so.
fn record(flow: &Flow, ending: &Ending) -> Result<FlowRecord, String> {
    let number = ending.flow;
    let at = |ns: u64| match instant(ns) {
        // The start was rounded down to a nanosecond.
        Some(at) if at + Duration::from_ns(1) > flow.start => Ok(flow.start.max(at)),
        _ => Err(format!("flow {number} ended {ns} ns after the common start, but it began at {}", flow.start)),
    };
    let end = |ns: Option<u64>| ns.map_or(Ok(Time::MAX), at);
    let (received, acknowledged) = (end(ending.received_ns)?, end(ending.acknowledged_ns)?);
    let (delivered, size) = (ending.delivered_bytes, flow.size.get());
    if delivered > size || received != Time::MAX && delivered < size {
        return Err(format!("{delivered} B of flow {number} were received, which has {size} B"));
    }
    if acknowledged != Time::MAX && received == Time::MAX {
        return Err(format!("flow {number} was acknowledged, but no receiver has it"));
    }
    let reason = if ending.late { AbortReason::Deadline } else { AbortReason::NodeDown };
    Ok(FlowRecord {
        received,
        acknowledged,
        aborted: ending.aborted_ns.map(at).transpose()?.map(|at| Abort { at, reason }),
        delivered_bytes: delivered,
        retransmissions: ending.retransmissions,
        timeouts: ending.timeouts,
        second_timeouts: ending.second_timeouts,
        ..FlowRecord::NEW
    })
}

/// The summary of a run whose network was not looked into: what is counted there is null.
fn without_unseen(summary: &Summary) -> Value {
    let mut summary = serde_json::to_value(summary).expect("a summary is written as JSON");
    for key in ["marks", "trims", "queue_peak_bytes", "packet_hops"] {
        summary[key] = Value::Null;
    }
    summary["sent_by_class"] = json!([]);
    let drops = &mut summary["drops"];
    (drops["total"], drops["data"], drops["rate"]) = (Value::Null, Value::Null, Value::Null);
    drops["by_reason"] = json!({});
    // The memory of a simulator's process.
    summary.as_object_mut().expect("it is a table").remove("peak_rss_mb");
    summary
}
