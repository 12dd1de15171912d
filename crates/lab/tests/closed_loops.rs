//! Closed loops, from scenario to results.

use flowloom_core::{Duration, Time};
use flowloom_lab::metrics::Row;
use flowloom_lab::observe::InMemory;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Outcome, Plan, run_plan};

/// Four hosts at 1 Gb/s, 1 us a link.
fn outcome(workload: &str, overrides: &[&str]) -> Outcome {
    recorded(workload, overrides).0
}

/// The same, with what was recorded.
fn recorded(workload: &str, overrides: &[&str]) -> (Outcome, InMemory) {
    let text = format!(
        "[topology]\nkind = \"single_switch\"\nhosts = 4\nhost_rate = \"1Gb/s\"\ndelay = \"1us\"\n\
         [fabric]\nswitching = \"store_and_forward\"\n[transport]\nname = \"pfabric\"\n[workload]\n{workload}"
    );
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::load(&text, "loops.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let mut series = InMemory::default();
    let plan = scenario.validate().and_then(|spec| Plan::new(&spec)).unwrap_or_else(|error| panic!("{error}"));
    let outcome = run_plan(plan, Execution::new(&mut |_, _, _| true, &mut series)).expect("a run");
    (outcome, series)
}

fn of_loop(rows: &[Row], tenant: u16) -> Vec<Row> {
    rows.iter().filter(|row| row.flow.tenant == tenant).copied().collect()
}

fn follow(rows: &[Row], think: Duration) -> bool {
    rows.windows(2).all(|pair| pair[1].flow.start == pair[0].finish.expect("followed") + think)
}

const PING: &str = "kind = \"closed_loop\"\nfrom = [1]\nto = 0\nsizes = { fixed = \"24B\" }\nrequests = 200\nthink = \"10us\"";

/// A packet of 64 B takes 512 ns on each of two links and 2 us of propagation: 3.024 us, and 10 us to think; the answer of 40 B takes
/// 320 ns on each and 2 us.
#[test]
fn a_ping_through_an_idle_network_is_periodic() {
    let there = Duration::from_ns(3_024);
    let Outcome { rows, summary, .. } = outcome(PING, &[]);
    assert_eq!((rows.len(), summary.finished, summary.not_started), (200, 200, 0));
    assert!(rows.iter().all(|row| row.fct() == Some(there) && row.optimum == there));
    assert!(follow(&rows, Duration::from_us(10)));
    assert_eq!(rows[199].flow.start, Time::ZERO + Duration::from_ns(13_024) * 199);
    let round = outcome(PING, &["metrics.fct_end=sender"]).summary;
    assert_eq!((round.fct_us.all.mean, round.slowdown.all.p99), (Some(3.024 + 2.64), Some(1.0)));
    let solo = outcome(PING, &["metrics.optimum=solo"]).summary;
    assert_eq!(solo.slowdown.all.mean, Some(1.0));
}

#[test]
fn a_loop_that_is_cut_off_leaves_the_rest_out() {
    // Starts at 0, 13.024, 26.048, ... us: the eighth is at 91.168 us, and its packet is on its way at 93 us.
    let (Outcome { rows, summary, .. }, series) = recorded(PING, &["run.time_limit=93us"]);
    assert_eq!((rows.len(), summary.flows, summary.finished, summary.not_started), (8, 8, 7, 192));
    assert!(rows.iter().all(|row| row.flow.start < Time::ZERO + Duration::from_us(93)));
    assert_eq!(summary.tenants[&0].flows, 8);
    let shares = series.tables[0].column("arrived_share").to_numbers();
    assert!(shares.iter().all(|share| (0.0..=8.0 / 200.0).contains(share)), "{shares:?}");
}

/// The PIAS paper's example (Table I): large flows from two hosts and short ones from a third, all to host 0. Each loop has one flow at a
/// time, and the receiver's link is never idle for long.
#[test]
fn loops_share_a_receiver() {
    let part = |name: &str, from: &str, size: &str, think: &str| {
        format!(
            "[[workload.part]]\nname = \"{name}\"\nkind = \"closed_loop\"\nfrom = {from}\nto = 0\n\
             sizes = {{ fixed = \"{size}\" }}\nrequests = 100000\nthink = \"{think}\"\n"
        )
    };
    let text = format!("kind = \"mix\"\n{}{}", part("long", "[1, 2]", "1MB", "20us"), part("short", "[3]", "20kB", "100us"));
    let Outcome { rows, summary, .. } = outcome(&text, &["run.time_limit=200ms", "transport.name=phost"]);
    let long = of_loop(&rows, 0);
    for src in [1, 2] {
        let one: Vec<Row> = long.iter().filter(|row| row.flow.src.0 == src).copied().collect();
        assert!(one.len() > 3 && follow(&one, Duration::from_us(20)), "{src}: {}", one.len());
    }
    let short = of_loop(&rows, 1);
    assert!(short.len() > 100 && follow(&short, Duration::from_us(100)));
    assert_eq!(summary.not_started, 300_000 - rows.len());
    assert_eq!((summary.tenants[&0].flows, summary.tenants[&1].flows), (long.len(), short.len()));
    // What is missing from a full link are headers, a fortieth, and what pHost leaves idle.
    let gbps = summary.goodput_gbps.expect("time passed") * 4.0;
    assert!((0.85..0.98).contains(&gbps), "{gbps}");
}
