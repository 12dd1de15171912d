//! From a scenario or its plan to results.

use std::sync::Arc;
use std::time::Instant;

use flowloom_core::{Network, Time};
use flowloom_fabric::Report;

use crate::metrics::{self, Lossless, Optima, Row, RunInfo, Summary};
use crate::plan::{Plan, Setup};
use crate::record::Recorded;
use crate::simulate::{Execution, Progress, RunError, Simulated, simulate};
use crate::sink::Nowhere;
use crate::solo::Alone;
use crate::spec::{Metrics, Optimum, Scenario};
use crate::{findings, memory};

/// The results of one run.
pub struct Outcome {
    /// A row for each flow, in order of start and id.
    pub rows: Vec<Row>,
    /// The run as a whole.
    pub summary: Summary,
    /// The network, to the NICs of which the flows of the rows are.
    pub network: Arc<Network>,
}

/// Validates a scenario, plans it and runs the plan, and drops what it records over its course.
///
/// # Errors
/// If the scenario is wrong or cannot be planned, and as those of [`run_plan`].
pub fn run(scenario: &Scenario, progress: &mut Progress<'_>) -> Result<Outcome, RunError> {
    run_plan(Plan::new(&scenario.validate()?)?, Execution::new(progress, &mut Nowhere))
}

/// Simulates a plan, and computes its metrics. What it records over its course goes into the sink meanwhile.
///
/// # Errors
/// If the run was stopped, makes no progress or needs more memory than there is, conservation of bytes is violated, or the sink fails.
pub fn run_plan(plan: Plan, execution: Execution<'_>) -> Result<Outcome, RunError> {
    let begin = Instant::now();
    let alone = Alone::if_wanted(&plan);
    let tasks = Arc::clone(&plan.flows.tasks);
    let Execution { threads, progress, sink } = execution;
    let Simulated { setup, report, recorded, .. } = simulate(plan, Execution { threads, progress, sink })?;
    let Recorded { pending, gaps, pauses, trace, before, .. } = recorded;
    pending.map_or(Ok(()), |pending| sink.take(pending)).map_err(RunError::Failed)?;
    let rows = rows(&setup, &report, alone.as_ref(), progress)?;
    let (jobs, steps) = metrics::jobs::of(&tasks, &rows);
    steps.map_or(Ok(()), |steps| sink.take(steps)).map_err(RunError::Failed)?;
    let bins = setup.metrics.size_bins.edges(rows.iter().map(|row| row.flow.size));
    let info = RunInfo {
        transport: setup.transport.name,
        seed: setup.seed,
        wall_s: (setup.planned_in + begin.elapsed()).as_secs_f64(),
        peak_rss_mb: memory::peak_rss_mb().unwrap_or(0.0),
        gaps,
        before,
        wire: setup.wire,
        coflow_workloads: &setup.coflow_workloads,
        jobs,
        misfits: &setup.misfits,
        findings: &findings::of(&setup, &report, &rows, trace),
        lossless: pauses.map(|links| Lossless::of(&setup, &report, &links)),
    };
    Ok(Outcome { summary: Summary::of(&report, &rows, &bins, &info), rows, network: setup.network })
}

/// The rows of a report. What flows take alone is measured now, if that is what they are compared with: all of them are done.
pub(crate) fn rows(
    setup: &Setup,
    report: &Report,
    alone: Option<&Alone>,
    progress: &mut Progress<'_>,
) -> Result<Vec<Row>, RunError> {
    let mut measuring = |_: f64, _: Time, hops: u64| progress(1.0, report.end, report.packet_hops + hops);
    let solo = alone.map(|alone| alone.measure(setup, &mut measuring)).transpose()?;
    let optima = match (setup.metrics.optimum, &solo) {
        (_, Some(solo)) => Optima::Solo(solo),
        (Optimum::Handshake, None) => Optima::Handshake,
        (_, None) => Optima::ClosedForm,
    };
    let Metrics { fct_end, request_delay, background, .. } = setup.metrics;
    Ok(metrics::rows(report, &setup.wire, fct_end, request_delay.0, background, optima))
}
