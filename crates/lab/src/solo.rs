//! How long each flow takes alone: the transport itself, simulated on the idle network.

use std::collections::HashMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, LinkId, Rate, Time};

use crate::ideal::UnloadedTimes;
use crate::metrics::closed_form;
use crate::observe::{Nowhere, Observation};
use crate::plan::Plan;
use crate::run::{Progress, RunError, simulate};
use crate::spec::{FctEnd, Metrics};

/// A flow starts after the previous one by this many times the previous flow's time at line rate plus [`PAUSE`]. The
/// number is doubled until every flow is alone.
const PATIENCE: u64 = 2;
const PAUSE: Duration = Duration::from_ms(1);
const DOUBLINGS_MAX: u32 = 10;

/// Flows of one size over links of the same rates and delays take the same time alone.
type Class = (Vec<(Rate, Duration)>, Bytes);

/// The optimum of each flow of the plan, in their order. They are measured in a run of the plan's transport without faults, in which one
/// flow of each size and kind of path starts after the other. Those of background flows are the closed form.
///
/// # Errors
/// If a flow never completes alone, or the measurement was stopped.
pub(crate) fn optima(plan: &Plan, progress: &mut Progress<'_>) -> Result<Vec<Duration>, RunError> {
    let mut paths: HashMap<(u32, u32), Vec<LinkId>> = HashMap::new();
    let mut classes: HashMap<Class, usize> = HashMap::new();
    let mut examples: Vec<(Flow, Duration)> = Vec::new();
    let mut class_of = Vec::with_capacity(plan.flows.len());
    for flow in &plan.flows {
        if flow.background {
            class_of.push(None); // it may never end
            continue;
        }
        let path = paths.entry((flow.src.0, flow.dst.0)).or_insert_with(|| plan.network.path(flow.src, flow.dst));
        let kind = path.iter().map(|link| plan.network.link(*link)).map(|link| (link.rate, link.delay)).collect();
        class_of.push(Some(*classes.entry((kind, flow.size)).or_insert_with(|| {
            examples.push((*flow, plan.network.flow_time(path, flow.size, &plan.wire)));
            examples.len() - 1
        })));
    }
    let mut patience = PATIENCE;
    for _ in 0..DOUBLINGS_MAX {
        let Some(flows) = one_by_one(&examples, patience) else { break };
        if let Some(times) = alone(plan, flows, progress)? {
            let mut unloaded = UnloadedTimes::new(&plan.network, &plan.wire);
            let mut closed_form = |flow| closed_form(&mut unloaded, flow, plan.metrics.fct_end);
            let flows = plan.flows.iter().zip(class_of);
            return Ok(flows.map(|(flow, class)| class.map_or_else(|| closed_form(flow), |class| times[class])).collect());
        }
        patience *= 2;
    }
    Err(RunError::Failed(format!(
        "metrics.optimum = \"solo\": a flow of {} does not complete alone in the network",
        plan.transport.name
    )))
}

/// The flows, each well after the last; `None` if they do not fit into a run.
fn one_by_one(examples: &[(Flow, Duration)], patience: u64) -> Option<Vec<Flow>> {
    let mut start = Time::ZERO;
    let mut flows = Vec::with_capacity(examples.len());
    for (index, (flow, line_rate)) in examples.iter().enumerate() {
        flows.push(Flow { id: FlowId(index as u32), start, deadline: None, ..*flow });
        start = start + line_rate.checked_mul(patience)? + PAUSE * patience;
        if start > Time::LAST {
            return None;
        }
    }
    Some(flows)
}

/// How long each of the flows took; `None` if one of them was not alone.
fn alone(plan: &Plan, flows: Vec<Flow>, progress: &mut Progress<'_>) -> Result<Option<Vec<Duration>>, RunError> {
    let faults = vec![Vec::new(); plan.faults.len()];
    let metrics = Metrics { gaps: false, ..plan.metrics.clone() };
    let solo = Plan {
        flows,
        successors: Vec::new(),
        faults,
        link_outages: Vec::new(),
        outages: Vec::new(),
        storms: Vec::new(),
        time_limit: Time::LAST,
        metrics,
        pending: false,
        observation: Observation::default(),
        ..plan.clone()
    };
    let simulated = simulate(&solo, progress, &mut Nowhere).map_err(|error| match error {
        RunError::Failed(message) => RunError::Failed(format!("metrics.optimum = \"solo\", flows alone: {message}")),
        other => other,
    })?;
    let report = simulated.report;
    let next_starts = solo.flows.iter().skip(1).map(|flow| flow.start).chain([Time::MAX]);
    let apart = report.records.iter().zip(next_starts).all(|(record, next)| record.acknowledged < next);
    let times = solo.flows.iter().zip(&report.records).map(|(flow, record)| {
        let finish = match plan.metrics.fct_end {
            FctEnd::Receiver => record.received,
            FctEnd::Sender => record.acknowledged,
        };
        finish.saturating_since(flow.start)
    });
    Ok(apart.then(|| times.collect()))
}
