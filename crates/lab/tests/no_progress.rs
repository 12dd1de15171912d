//! A run that makes no progress is stopped and says why; one that only waits is not.

use flowloom_core::{Duration, Time};
use flowloom_lab::observe::Nowhere;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Outcome, Plan, RunError, catalogue, run, run_plan};

const SCENARIO: &str = r#"
[topology]
kind = "single_switch"
hosts = 3
[workload]
kind = "permutation"
sizes = { fixed = "100kB" }
[transport]
name = "tcp"
"#;

fn attempt(more: &str, overrides: &[&str]) -> Result<Outcome, String> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario =
        Scenario::load(&format!("{SCENARIO}{more}"), "scenario.toml", &overrides).map_err(|error| error.to_string())?;
    run(&scenario, &mut |_, _, _| true).map_err(|error| error.to_string())
}

fn diagnosis(more: &str, overrides: &[&str]) -> String {
    attempt(more, overrides).map(drop).expect_err("a run without progress")
}

fn transports() -> impl Iterator<Item = &'static str> {
    catalogue::transport_names().filter(|name| *name != catalogue::IDEAL)
}

fn loss(place: &str) -> String {
    format!("[[fault]]\nkind = \"loss\"\nwhere = \"{place}\"\nprobability = 1.0\n")
}

/// The run itself stops after a microsecond. What its flow takes alone, 68,000 packets, is measured after that, and can be stopped, too.
#[test]
fn the_measurement_of_flows_alone_can_be_stopped() {
    let overrides = ["run.time_limit=1us", "workload.sizes.fixed=100MB", "metrics.optimum=solo"].map(str::to_owned);
    let scenario = Scenario::load(SCENARIO, "scenario.toml", &overrides).unwrap();
    let mut told = Vec::new();
    let result = run(&scenario, &mut |done, now, _| {
        told.push((done, now));
        done < 1.0
    });
    assert!(matches!(result, Err(RunError::Stopped)));
    // In its microsecond, the run does not get further than the request, which is at the switch after 32 ns and 200 ns.
    assert_eq!(told, [(0.0, Time::ZERO), (1.0, Time::ZERO + Duration::from_ps(232_000))]);
}

#[test]
fn where_every_packet_is_lost_the_fault_is_named() {
    for name in transports() {
        let message = diagnosis(&loss("all"), &[&format!("transport.name={name}")]);
        assert!(message.starts_with("no progress: 3 flows are open, but no byte was delivered"), "{name}: {message}");
        assert!(message.contains("flow 0 from h0 to h"), "{name}: {message}");
        assert!(message.contains("0 of 100000 bytes delivered"), "{name}: {message}");
        assert!(message.contains(" at h0-") && message.contains("(lost)"), "{name}: {message}");
        assert!(message.contains("likely: lower fault.probability (1)"), "{name}: {message}");
        assert!(message.lines().count() <= 4, "{name}: {message}");
    }
}

/// All bytes arrive, but no acknowledgement does.
#[test]
fn a_source_that_is_never_told_is_no_progress_either() {
    for name in ["tcp", "pfabric"] {
        let burst = "workload={ kind = \"incast\", senders = 1, requests = 1, period = \"1s\", bytes = \"3kB\", receiver = 0 }";
        let message = diagnosis(&[loss("s0-h1"), loss("s0-h2")].concat(), &[&format!("transport.name={name}"), burst]);
        assert!(message.starts_with("no progress: 1 flow is open"), "{name}: {message}");
        assert!(message.contains("all delivered, but its source does not know"), "{name}: {message}");
    }
}

#[test]
fn the_stall_limit_can_be_set_and_the_stop_is_always_the_same() {
    let set = diagnosis(&loss("all"), &["run.stall_limit=3s"]);
    assert!(set.contains("from 0ps to 3s of simulated time (run.stall_limit)"), "{set}");
    assert_eq!(set, diagnosis(&loss("all"), &["run.stall_limit=3s"]));
    let error = diagnosis("", &["run.stall_limit=1ps"]);
    assert!(error.contains("run.stall_limit: found the text \"1ps\", expected a duration from 1us to 1000000s"), "{error}");
}

/// Timers back off, so that three seconds have few events: far fewer than there are between two looks that go by events.
#[test]
fn a_stall_is_found_at_the_same_instant_in_any_number_of_threads() {
    let racks = "topology={ kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 1 }";
    let overrides = [racks, "run.stall_limit=3s"].map(str::to_owned);
    let scenario = Scenario::load(&format!("{SCENARIO}{}", loss("all")), "scenario.toml", &overrides).unwrap();
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap();
    let in_threads = |threads: usize| {
        let execution = Execution { threads, progress: &mut |_, _, _| true, sink: &mut Nowhere };
        run_plan(plan.clone(), execution).map(drop).expect_err("no byte arrives").to_string()
    };
    let one = in_threads(1);
    assert!(one.contains("from 0ps to 3s of simulated time (run.stall_limit)"), "{one}");
    assert_eq!(in_threads(2), one);
}

/// Retransmissions every microsecond over a path of a second: no byte can arrive before millions of them.
#[test]
fn timers_shorter_than_a_round_trip_are_named() {
    let message = diagnosis(
        "",
        &["topology.delay=1s", "transport.name=pfabric", "transport.pfabric.rto=1us", "transport.pfabric.probe_after=0"],
    );
    assert!(
        message.contains("events") && message.contains("raise transport.pfabric.rto (1us, less than a round trip of "),
        "{message}"
    );
}

/// A port that holds a packet less than a full one never lets one through.
#[test]
fn ports_smaller_than_a_packet_are_refused() {
    for name in ["las", "pfabric"] {
        let message = diagnosis("", &[&format!("transport.name={name}"), &format!("transport.{name}.port_most=1499B")]);
        let expected = format!("transport.{name}.port_most: found 1.499kB; a port holds at least one full packet, 1.5kB");
        assert!(message.contains(&expected), "{message}");
    }
}

/// Nothing is delivered for longer than the least limit: while links are down, and while timers back off.
#[test]
fn waiting_is_no_stall() {
    let down = "[[fault]]\nkind = \"link_down\"\nwhere = \"all\"\nfrom = \"20us\"\nto = \"12s\"\n";
    for name in transports() {
        let outcome = attempt(down, &[&format!("transport.name={name}")]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.summary.finished, 3, "{name}");
    }
    // Outages that meet, or have less than a timeout between them, are one, longer than the limit with one of them. The flow from h0 needs two links in turn.
    let is_down = |place: &str, from: &str, to: &str| {
        format!("[[fault]]\nkind = \"link_down\"\nwhere = \"{place}\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
    };
    for (first, second, begins) in [("all", "all", "12s"), ("all", "all", "12.0001s"), ("h0-s0", "s0-h1", "12s")] {
        let faults = [is_down(first, "20us", "12s"), is_down(second, begins, "24s"), is_down("s0-h2", begins, "24s")];
        let faults = &faults[..if second == "all" { 2 } else { 3 }];
        let outcome = attempt(&faults.concat(), &["transport.name=pfabric"]).expect("it waits for 24 s");
        assert_eq!(outcome.summary.finished, 3, "{first}, {second} at {begins}");
    }
    let back_off = "[[fault]]\nkind = \"loss\"\nwhere = \"all\"\nprobability = 0.4\n";
    let outcome = attempt(back_off, &["workload.sizes={ fixed = \"10kB\" }"]).expect("back-off ends");
    assert_eq!(outcome.summary.finished, 3);
}

/// No flow is open for a thousand seconds, then one is.
#[test]
fn an_idle_network_makes_no_stall() {
    for name in transports() {
        let sparse = "workload={ kind = \"incast\", senders = 1, bytes = \"3kB\", requests = 3, period = \"1000s\" }";
        let outcome =
            attempt("", &[&format!("transport.name={name}"), sparse]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(outcome.summary.finished, 3, "{name}");
    }
}
