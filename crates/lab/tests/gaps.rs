//! The gaps at receivers, from a scenario's text to the summary.

use std::sync::Once;

use flowloom_lab::metrics::Gaps;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, run};

/// Ten hosts send 100 kB each to one host. Each starts a microsecond after the one before it, so the most critical flow under PDQ is the first.
const INCAST: &str = r#"
[topology]
kind = "single_switch"
hosts = 11
host_rate = "1Gb/s"
delay = "25us"
[fabric]
wire = "ns2_1000"
buffer = "225kB"
routing = "ecmp_symmetric"
switching = "store_and_forward"
[workload]
kind = "trace"
file = "gaps.csv"
[transport]
name = "pdq"
[metrics]
gaps = true
"#;

fn outcome(overrides: &[&str]) -> Outcome {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let folder = env!("CARGO_TARGET_TMPDIR");
    // The tests run at the same time: one that wrote the trace anew would empty it while another reads it.
    static TRACE: Once = Once::new();
    TRACE.call_once(|| {
        let flows: String = (1..=10).map(|host| format!("{host}e-6,{host},0,100000\n")).collect();
        std::fs::write(format!("{folder}/gaps.csv"), format!("start_s,src,dst,bytes\n{flows}")).expect("a file");
    });
    let scenario =
        Scenario::load(INCAST, &format!("{folder}/scenario.toml"), &overrides).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{overrides:?}: {error:?}"))
}
fn gaps(overrides: &[&str]) -> Option<Gaps> {
    outcome(overrides).summary.gaps
}

/// How many gaps there were, how many of these were switch gaps, and their mean length in microseconds. The receiver has open flows from the
/// first start to the last finish.
fn counted(overrides: &[&str]) -> (f64, f64, f64) {
    let outcome = outcome(overrides);
    let start = outcome.rows.iter().map(|row| row.flow.start).min().unwrap();
    let finish = outcome.rows.iter().map(|row| row.finish.unwrap()).max().unwrap();
    let (gaps, open_s) = (outcome.summary.gaps.unwrap(), (finish - start).as_secs_f64());
    let (all, switches) = (gaps.per_s.unwrap() * open_s, gaps.switch_per_s.unwrap() * open_s);
    let mean_us = gaps.mean_us.unwrap();
    assert!((gaps.idle_share.unwrap() * open_s - all * mean_us / 1e6).abs() < 1e-9, "the numbers agree: {gaps:?}");
    (all, switches, mean_us)
}

/// PDQ's flows send one after the other, so flows change nine times or more. Without early start, each change costs one to two round trips.
#[test]
fn early_start_fills_the_gaps_between_flows() {
    let without = counted(&["transport.pdq.early_start_rtts=0"]);
    let with = counted(&[]);
    let ((_, switches, mean_us), (_, fewer, _)) = (without, with);
    // The gap before the first packet of all is no switch gap.
    assert!((9.0..15.0).contains(&switches.round()) && (without.0 - switches - 1.0).abs() < 1e-6, "{without:?}");
    // A round trip takes a packet of 1000 B there and one of 40 B back: 4 × 25 + 2 × (8 + 0.32) µs.
    assert!((116.0..234.0).contains(&mean_us), "{without:?}");
    assert!(fewer < 4.0, "{with:?}");
}

#[test]
fn gaps_are_recorded_only_if_the_scenario_asks_for_them() {
    assert_eq!(gaps(&["metrics.gaps=false"]), None);
    assert_eq!(gaps(&["transport.name=ideal"]), None, "the oracle moves no packets");
    let [with, without] = ["observe.pending=true", "observe.pending=false"].map(|pending| gaps(&[pending]));
    assert!(with.is_some() && with == without);
}
