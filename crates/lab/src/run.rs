//! From a plan to results.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use flowloom_core::{Pool, PoolFull, Time, Transport};
use flowloom_fabric::{Faulty, Observer, Pending, Report, Sim};
use serde::de::DeserializeOwned;

use crate::ideal::{self, Oracle};
use crate::metrics::{self, Row, RunInfo, Series, Summary, pending_share};
use crate::plan::Plan;
use crate::spec::{Optimum, Scenario};
use crate::watchdog::{EVENTS_PER_LOOK, Look, Stall, Watchdog};
use crate::{ScenarioError, registry, solo};

/// Told the share of flows done, the simulated present and the packet-hops so far, every few milliseconds; the run goes on
/// for as long as it returns true.
pub type Progress<'a> = dyn FnMut(f64, Time, u64) -> bool + 'a;

/// Points of the pending-share series.
const PENDING_SAMPLES: u64 = 200;

/// Why there are no results.
#[derive(Debug)]
pub enum RunError {
    /// The scenario is at fault.
    Scenario(ScenarioError),
    /// [`Progress`] returned false.
    Stopped,
    /// It makes no progress, or the simulator cannot go on.
    Failed(String),
}

impl From<ScenarioError> for RunError {
    fn from(error: ScenarioError) -> RunError {
        RunError::Scenario(error)
    }
}

/// The results of one run.
pub struct Outcome {
    /// One for each flow, in order of start and id.
    pub rows: Vec<Row>,
    /// The run as a whole.
    pub summary: Summary,
    /// Numbers over time.
    pub series: Vec<Series>,
    /// The scenario with every default filled in, as TOML.
    pub scenario: String,
}

/// What a run of a transport leaves behind.
pub struct Ran {
    /// Its report.
    pub report: Report,
    /// How much had arrived at sources, and how much of it had been sent, in order of time.
    pub pending: Vec<(u64, u64)>,
}

/// Runs a scenario.
///
/// # Errors
/// Where the scenario cannot be planned, the run was stopped, makes no progress or needs more memory than there is, or its books do not
/// balance.
pub fn run(scenario: &Scenario, progress: &mut Progress<'_>) -> Result<Outcome, RunError> {
    let begin = Instant::now();
    let plan = Plan::new(scenario)?;
    let entry = registry::entry(&plan.transport).expect("the scenario was checked");
    let Ran { report, pending } = (entry.run)(&plan, progress)?;
    let solo = match plan.metrics.optimum {
        Optimum::ClosedForm => None,
        Optimum::Solo => Some(solo::optima(&plan, entry)?),
    };
    let rows = metrics::rows(&report, &plan.wire, plan.metrics.fct_end, plan.metrics.request_delay.0, solo.as_deref());
    let bins: Vec<_> = plan.metrics.size_bins.iter().map(|bin| bin.0).collect();
    let info = RunInfo {
        transport: &plan.transport,
        seed: plan.seed,
        wall_s: begin.elapsed().as_secs_f64(),
        peak_rss_mb: peak_rss_mb().unwrap_or(0.0),
    };
    let total_bytes = plan.flows.iter().map(|flow| flow.size.get()).sum();
    Ok(Outcome {
        summary: Summary::of(&report, &rows, &bins, &info),
        rows,
        series: vec![pending_share(&pending, total_bytes)],
        scenario: scenario.spec.to_toml(),
    })
}

/// The most memory this process has ever held, where the system tells.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

fn parameters<C: DeserializeOwned>(plan: &Plan) -> C {
    plan.parameters.clone().try_into().expect("parameters were resolved")
}

/// Runs a transport over the simulated network.
pub(crate) fn simulate<T: Transport>(plan: &Plan, progress: &mut Progress<'_>) -> Result<Ran, RunError>
where
    T::Config: DeserializeOwned,
{
    let config: T::Config = parameters(plan);
    let observer = Pending::new(&plan.flows, PENDING_SAMPLES);
    let (flows, setup) = (plan.flows.clone(), plan.setup());
    if plan.faults.iter().all(Vec::is_empty) {
        return drive(Sim::<T, T::Port, _>::new(&config, setup, flows, observer), plan, progress);
    }
    let sim = Sim::<T, Faulty<T::Port>, _>::with_ports(&config, setup, flows, observer, |port, site| {
        // A control host's link comes after those that the scenario knows.
        let faults = plan.faults.get(site.link.index()).cloned().unwrap_or_default();
        Faulty::new(port, site, faults, plan.seed)
    });
    drive(sim, plan, progress)
}

fn drive<T, P>(sim: Sim<T, P, Pending>, plan: &Plan, progress: &mut Progress<'_>) -> Result<Ran, RunError>
where
    T: Transport,
    P: flowloom_core::Discipline<T::Header, Shared = <T::Port as flowloom_core::Discipline<T::Header>>::Shared>,
    Pending: Observer<T::Header>,
{
    let mut watchdog = Watchdog::new(plan);
    let mut sim = sim.with_successors(plan.successors.clone()).with_patience(watchdog.patience());
    loop {
        let going = take_steps(|| sim.step(EVENTS_PER_LOOK - sim.vitals().events % EVENTS_PER_LOOK))?;
        if !going && sim.is_over() {
            break;
        }
        let (done, now, packet_hops) = sim.progress();
        if !progress(done, now, packet_hops) {
            return Err(RunError::Stopped);
        }
        match watchdog.look(if going { now } else { sim.pause() }, &sim.vitals(), || sim.delivered_bytes()) {
            Look::GoOn(until) => sim.pause_at(until),
            Look::Stop(stall) => {
                let (report, _) = sim.finish().map_err(RunError::Failed)?;
                return Err(RunError::Failed(stall.explain(plan, &report)));
            }
        }
    }
    let (open, next_event) = (sim.vitals().open, sim.next_event());
    let (report, pending) = sim.finish().map_err(RunError::Failed)?;
    if open > 0 && plan.time_limit == Time::LAST {
        return Err(RunError::Failed(Stall::at_end(&report, next_event).explain(plan, &report)));
    }
    Ok(Ran { report, pending: pending.samples().to_vec() })
}

/// Runs a part of a run, in which packets may get more than the pool holds.
fn take_steps(steps: impl FnOnce() -> bool) -> Result<bool, RunError> {
    catch_unwind(AssertUnwindSafe(steps)).map_err(|payload| match payload.downcast::<PoolFull>() {
        Ok(_) => {
            let most = Pool::<()>::PACKETS_MAX;
            RunError::Failed(format!(
                "{most} packets are on their way at once, the most there can be; lower windows or fabric.buffer"
            ))
        }
        Err(payload) => resume_unwind(payload),
    })
}

/// Runs the oracle.
pub(crate) fn oracle(plan: &Plan, _: &mut Progress<'_>) -> Result<Ran, RunError> {
    let Oracle { model, order } = parameters(plan);
    let received = ideal::run(&plan.network, &plan.wire, &plan.flows, model, order);
    let report = ideal::report(&plan.network, &plan.wire, &plan.flows, &received);
    Ok(Ran { report, pending: Vec::new() })
}
