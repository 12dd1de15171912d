//! What the fuzz targets have in common: any input ends in a whole result, in an error that says what is wrong, or in a diagnosis.

use flowloom_lab::spec::{
    Background, Burst, ClosedLoop, CoflowSynthetic, Incast, Mix, Poisson, Scenario, Spec, Topology, WorkloadKind, WorkloadSpec,
};
use flowloom_lab::{RunError, run};

/// A legal scenario may be as large as memory. Here, larger ones are read and validated, but not run.
const HOSTS_MAX: u64 = 64;
const FLOWS_MAX: u64 = 200;
/// A coflow can have thousands of flows.
const COFLOWS_MAX: u32 = 2;
/// Longer than any error with all its lists.
const ERROR_MOST: usize = 2_500;

/// Reads, validates, plans and runs a scenario whose file would be `path`. A run is given up after a few hundred thousand events.
///
/// # Panics
/// If what comes of it is neither a whole result nor an error that says what is wrong.
pub fn attempt(text: &str, path: &str, overrides: &[String]) {
    let scenario = match Scenario::load(text, path, overrides) {
        Ok(scenario) => scenario,
        Err(error) => return check(&error.to_string()),
    };
    let written = scenario.spec.to_toml();
    match Scenario::load(&written, path, &[]) {
        Ok(again) => assert!(again.spec == scenario.spec, "it reads back as another scenario:\n{written}"),
        Err(error) => panic!("{error}\nit does not read back:\n{written}"),
    }
    if !is_small(&scenario.spec) {
        if let Err(error) = scenario.validate() {
            check(&error.to_string());
        }
        return;
    }
    match run(&scenario, &mut |_, _, _| false) {
        Ok(outcome) => assert_eq!(outcome.rows.len(), outcome.summary.flows),
        Err(RunError::Scenario(error)) => check(&error.to_string()),
        Err(RunError::Failed(message)) => {
            check(&message);
            let forgotten = message.starts_with("conservation violated: flow ") && message.contains("\n  likely: ");
            assert!(forgotten || !message.contains("conservation violated"), "{message}");
        }
        Err(RunError::Stopped) => {}
    }
}

/// An error is text that fits a screen and does nothing to a terminal.
fn check(error: &str) {
    assert!(!error.trim().is_empty());
    assert!(error.chars().count() < ERROR_MOST, "{} characters: {error}", error.chars().count());
    assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
}

fn is_small(spec: &Spec) -> bool {
    let kinds: Vec<&WorkloadKind> = match &spec.workload.spec {
        WorkloadSpec::One(kind) => vec![kind],
        WorkloadSpec::Several(Mix::Mix(mix)) => mix.parts.iter().map(|part| &part.kind).collect(),
    };
    let hosts = hosts(&spec.topology);
    let flows: Option<u64> = kinds.into_iter().map(|kind| flows(kind, hosts?)).sum();
    let background: u64 = spec.workload.background.iter().map(|Background { pairs, .. }| u64::from(pairs.unwrap_or(1))).sum();
    hosts.is_some_and(|hosts| hosts <= HOSTS_MAX) && flows.is_some_and(|flows| flows + background <= FLOWS_MAX)
}

/// How many nodes there are at least; `None` if the network is in a file that is not beside the scenario.
fn hosts(topology: &Topology) -> Option<u64> {
    Some(match topology {
        Topology::SingleSwitch(t) => t.hosts.into(),
        Topology::Dumbbell(t) => 2 * u64::from(t.hosts_per_side),
        Topology::LeafSpine(t) => u64::from(t.racks) * u64::from(t.hosts_per_rack.max(t.spines)),
        Topology::ThreeTier(t) => u64::from(t.racks.max(t.aggregations)) * u64::from(t.hosts_per_rack),
        Topology::FatTree(t) => u64::from(t.k).pow(3) / 4,
        Topology::Custom(t) if t.file.contains('/') => return None,
        Topology::Custom(_) => 2,
    })
}

/// How many flows there are; `None` if they are in a file that is not beside the scenario, or if they may be many.
fn flows(kind: &WorkloadKind, hosts: u64) -> Option<u64> {
    match kind {
        WorkloadKind::Poisson(Poisson { flows, .. }) | WorkloadKind::Burst(Burst { flows, .. }) => Some((*flows).into()),
        WorkloadKind::Incast(Incast { senders, requests, .. }) => Some(u64::from(*senders) * u64::from(*requests)),
        WorkloadKind::Permutation(_) => Some(hosts),
        WorkloadKind::ClosedLoop(ClosedLoop { from, requests, loops, .. }) => {
            Some(from.len() as u64 * u64::from(*requests) * u64::from(*loops))
        }
        WorkloadKind::Trace(trace) => (!trace.file.contains('/')).then_some(1),
        WorkloadKind::CoflowTrace(trace) => (!trace.file.contains('/')).then_some(1),
        WorkloadKind::CoflowSynthetic(CoflowSynthetic { coflows, .. }) => (*coflows <= COFLOWS_MAX).then_some(1),
    }
}
