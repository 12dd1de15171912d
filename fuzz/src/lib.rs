//! What the fuzz targets have in common: any input ends in a whole result, in an error that says what is wrong, or in a diagnosis.

use flowloom_lab::spec::{Scenario, Spec};
use flowloom_lab::topologies::Topology;
use flowloom_lab::workload::{Background, CoflowSynthetic, Mix, WorkloadKind, WorkloadSpec};
use flowloom_lab::{RunError, run};

/// A legal scenario may be as large as memory. Here, larger ones are read and validated, but not run.
const NODES_MAX: u64 = 64;
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
    let nodes = nodes(&spec.topology);
    let flows: Option<u64> = kinds.into_iter().map(|kind| flows(kind, nodes?)).sum();
    let background: u64 = spec.workload.background.iter().map(|Background { pairs, .. }| u64::from(pairs.unwrap_or(1))).sum();
    nodes.is_some_and(|nodes| nodes <= NODES_MAX) && flows.is_some_and(|flows| flows + background <= FLOWS_MAX)
}

/// How many nodes there are at least; `None` if the network is in a file that is not beside the scenario.
fn nodes(topology: &Topology) -> Option<u64> {
    match topology {
        Topology::Custom(custom) => (!custom.file.contains('/')).then_some(2),
        generated => generated.nodes(),
    }
}

/// How many flows there are; `None` if they are in a file that is not beside the scenario, or if they may be many.
fn flows(kind: &WorkloadKind, hosts: u64) -> Option<u64> {
    match kind {
        WorkloadKind::Trace(trace) => (!trace.file.contains('/')).then_some(1),
        WorkloadKind::CoflowTrace(trace) => (!trace.file.contains('/')).then_some(1),
        WorkloadKind::CoflowSynthetic(CoflowSynthetic { coflows, .. }) => (*coflows <= COFLOWS_MAX).then_some(1),
        other => other.number(hosts),
    }
}
