//! How long each flow takes alone: the transport itself, simulated on the idle network.

use std::collections::HashMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, LinkId, Rate, Time};

use crate::ideal::UnloadedTimes;
use crate::metrics::closed_form;
use crate::observe::Observation;
use crate::plan::{Plan, Setup};
use crate::simulate::{Execution, Progress, RunError, simulate};
use crate::sink::Nowhere;
use crate::spec::{FctEnd, Metrics, Optimum};

/// A flow starts after the previous one by this many times the previous flow's time at line rate plus [`PAUSE`]. The
/// number is doubled until every flow is alone.
const PATIENCE: u64 = 2;
const PAUSE: Duration = Duration::from_ms(1);
const DOUBLINGS_MAX: u32 = 10;

/// Flows of one size over links of the same rates and delays take the same time alone.
type Class = (Vec<(Rate, Duration)>, Bytes);

/// The flows of a plan, as far as the measurement of their optima needs them.
pub(crate) struct Alone {
    /// One flow of each class, with its time at line rate.
    examples: Vec<(Flow, Duration)>,
    /// By flow of the plan.
    optima: Vec<OptimumOf>,
}

/// Where the optimum of a flow comes from.
#[derive(Clone, Copy)]
enum OptimumOf {
    /// The example of this number.
    Example(u32),
    /// This is the closed form of a background flow, which may never end.
    ClosedForm(Duration),
}

impl Alone {
    /// Those of a plan that has not been run, if its metrics need them.
    pub fn if_wanted(plan: &Plan) -> Option<Alone> {
        (plan.setup.metrics.optimum == Optimum::Solo).then(|| Alone::of(plan))
    }

    fn of(plan: &Plan) -> Alone {
        let Setup { network, wire, metrics, .. } = &plan.setup;
        let mut unloaded = UnloadedTimes::new(network, wire);
        let mut paths: HashMap<(u32, u32), Vec<LinkId>> = HashMap::new();
        let mut classes: HashMap<Class, u32> = HashMap::new();
        let mut examples: Vec<(Flow, Duration)> = Vec::new();
        let mut optimum = |flow: &Flow| {
            if flow.background {
                return OptimumOf::ClosedForm(closed_form(&mut unloaded, flow, metrics.fct_end));
            }
            let path = paths.entry((flow.src.0, flow.dst.0)).or_insert_with(|| network.path(flow.src, flow.dst));
            let kind = path.iter().map(|link| network.link(*link)).map(|link| (link.rate, link.delay)).collect();
            OptimumOf::Example(*classes.entry((kind, flow.size)).or_insert_with(|| {
                examples.push((*flow, network.flow_time(path, flow.size, wire)));
                examples.len() as u32 - 1
            }))
        };
        let never = OptimumOf::ClosedForm(Duration::ZERO);
        let optima = plan.flows.by_id().map(|flow| flow.map_or(never, |flow| optimum(&flow))).collect();
        Alone { examples, optima }
    }

    /// The optimum of each flow of the plan, in their order. They are measured in a run of the plan's transport without faults, in which one
    /// flow of each size and kind of path starts after the other. Those of background flows are the closed form.
    ///
    /// # Errors
    /// If a flow never completes alone, or the measurement was stopped.
    pub fn measure(&self, setup: &Setup, progress: &mut Progress<'_>) -> Result<Vec<Duration>, RunError> {
        let mut patience = PATIENCE;
        for _ in 0..DOUBLINGS_MAX {
            let Some(flows) = one_by_one(&self.examples, patience) else { break };
            if let Some(times) = alone(setup, flows, progress)? {
                let optima = self.optima.iter().map(|optimum| match optimum {
                    OptimumOf::Example(example) => times[*example as usize],
                    OptimumOf::ClosedForm(time) => *time,
                });
                return Ok(optima.collect());
            }
            patience *= 2;
        }
        Err(RunError::Failed(format!(
            "metrics.optimum = \"solo\": a flow of {} does not complete alone in the network",
            setup.transport.name
        )))
    }
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
fn alone(setup: &Setup, flows: Vec<Flow>, progress: &mut Progress<'_>) -> Result<Option<Vec<Duration>>, RunError> {
    let unrecorded = Setup {
        time_limit: Time::LAST,
        metrics: Metrics { gaps: false, ..setup.metrics.clone() },
        pending: false,
        observation: Observation::default(),
        trace: None,
        ..setup.calm()
    };
    let solo = Plan { setup: unrecorded, flows: flows.into() };
    let simulated = simulate(solo, Execution::new(progress, &mut Nowhere)).map_err(|error| match error {
        RunError::Failed(message) => RunError::Failed(format!("metrics.optimum = \"solo\", flows alone: {message}")),
        other => other,
    })?;
    let report = simulated.report;
    let next_starts = report.flows.iter().skip(1).map(|flow| flow.start).chain([Time::MAX]);
    let apart = report.records.iter().zip(next_starts).all(|(record, next)| record.acknowledged < next);
    let times = report.flows.iter().zip(&report.records).map(|(flow, record)| {
        let finish = match setup.metrics.fct_end {
            FctEnd::Receiver => record.received,
            FctEnd::Sender => record.acknowledged,
        };
        finish.saturating_since(flow.start)
    });
    Ok(apart.then(|| times.collect()))
}
