//! Two scenarios that say the same in other words have the same results: every row, and every number of the summary.

use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, run};

const SCENARIO: &str = r#"
    [topology]
    kind = "leaf_spine"
    racks = 2
    hosts_per_rack = 4
    spines = 2

    [fabric]
    buffer = "90kB"

    [workload]
    kind = "poisson"
    sizes = "web_search"
    load = 0.7
    flows = 150

    [transport]
    name = "dctcp"

    [transport.dctcp.port]
    mark_above = "30kB"
    [transport.d2tcp.port]
    mark_above = "30kB"
    [transport.pias.tcp.port]
    mark_above = "30kB"

    [transport.pias]
    thresholds = []
"#;

const DEADLINES: &str = "\n[workload.deadline]\nkind = \"exponential\"\nmean = \"5ms\"";

fn outcome(more: &str, overrides: &[&str]) -> Outcome {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let text = format!("{SCENARIO}{more}");
    let scenario = Scenario::load(&text, "equals.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &mut |_, _, _| true).expect("a run")
}

/// The summary as it is written, without what the machine contributes, without the name, and without the warnings that contain it.
fn told(outcome: &Outcome) -> serde_json::Value {
    let mut summary = serde_json::to_value(&outcome.summary).expect("a summary");
    for key in ["transport", "misfits", "wall_s", "peak_rss_mb"] {
        assert!(summary.as_object_mut().expect("an object").remove(key).is_some(), "{key}");
    }
    summary
}

fn assert_equal(one: &Outcome, other: &Outcome) {
    assert_eq!(one.rows, other.rows);
    assert_eq!(told(one), told(other));
}

#[test]
fn pias_without_thresholds_is_dctcp() {
    let dctcp = outcome(DEADLINES, &[]);
    assert!(told(&dctcp)["marks"].as_u64() > Some(1000));
    let pias = ["transport.name=pias"];
    assert_equal(&dctcp, &outcome(DEADLINES, &pias));
    let shallow = ["transport.name=pias", "transport.pias.thresholds=[\"100kB\"]"];
    assert_ne!(dctcp.rows, outcome(DEADLINES, &shallow).rows, "thresholds do matter");
}

#[test]
fn d2tcp_without_deadlines_or_urgency_is_dctcp() {
    assert_equal(&outcome("", &[]), &outcome("", &["transport.name=d2tcp"]));
    let even = ["transport.name=d2tcp", "transport.d2tcp.urgency_min=1.0", "transport.d2tcp.urgency_max=1.0"];
    assert_equal(&outcome(DEADLINES, &[]), &outcome(DEADLINES, &even));
    assert_ne!(outcome(DEADLINES, &[]).rows, outcome(DEADLINES, &even[..1]).rows, "deadlines do matter");
}
