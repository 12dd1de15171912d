//! What happens in a data center, under every transport: an incast of a thousand senders, a host that fails, a link that flaps, lost control
//! packets and lost data. Every flow completes, or is reported as aborted with its reason.

use flowloom_core::{AbortReason, DropReason};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, RunError, catalogue, run};

/// Each flow has one path, the same in both directions, as some transports need it.
const FABRIC: &str = r#"
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 4
spines = 2
[fabric]
routing = "ecmp_symmetric"
[workload]
kind = "poisson"
matrix = "all_to_all"
sizes = { bimodal = ["4380B", "146kB"], first_share = 0.5 }
load = 0.5
flows = 300
[transport]
name = "phost"
"#;

const INCAST: &str = r#"
[topology]
kind = "single_switch"
hosts = 1001
[workload]
kind = "incast"
senders = 1000
requests = 1
period = "1s"
bytes = "4.38MB"
receiver = 1000
[transport]
name = "phost"
"#;

fn attempt(scenario: &str, name: &str) -> Outcome {
    outcome(scenario, name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn outcome(scenario: &str, name: &str) -> Result<Outcome, RunError> {
    let scenario = Scenario::load(scenario, "scenario.toml", &[format!("transport.name={name}")]);
    run(&scenario.unwrap_or_else(|error| panic!("{name}: {error}")), &mut |_, _, _| true)
}

fn transports() -> impl Iterator<Item = &'static str> {
    catalogue::transport_names().filter(|name| *name != catalogue::IDEAL)
}

/// Runs a scenario under every transport. The named drops must have happened.
fn every_flow_completes(scenario: &str, lost: Option<DropReason>) {
    for name in transports() {
        let summary = attempt(scenario, name).summary;
        assert_eq!((summary.finished, summary.aborted, summary.not_started), (summary.flows, 0, 0), "{name}");
        if let Some(reason) = lost {
            assert!(summary.drops.by_reason[reason.name()] > 0, "{name}: {:?}", summary.drops);
        }
    }
}

#[test]
fn an_incast_of_a_thousand_senders() {
    every_flow_completes(INCAST, None);
}

#[test]
fn a_hundredth_of_all_control_packets_is_lost() {
    let fault = "[[fault]]\nkind = \"loss\"\nwhere = \"all\"\npackets = \"control\"\nprobability = 0.01\n";
    every_flow_completes(&[FABRIC, fault].concat(), Some(DropReason::Lost));
}

#[test]
fn a_thousandth_of_all_data_is_lost() {
    let fault = "[[fault]]\nkind = \"loss\"\nwhere = \"all\"\npackets = \"data\"\nprobability = 0.001\n";
    every_flow_completes(&[FABRIC, fault].concat(), Some(DropReason::Lost));
}

/// Three of four packets do not arrive, so many repetitions in a row are lost. No receiver forgets a finished flow whose sender still repeats itself. PASE's
/// timeouts double up to minutes, and its sources go on to ask their arbitrators once per round trip, which the run's watchdog takes for no progress.
#[test]
fn each_hop_loses_three_packets_of_ten() {
    let fault = "[[fault]]\nkind = \"loss\"\nwhere = \"all\"\nprobability = 0.3\n";
    let scenario = [&FABRIC.replace("flows = 300", "flows = 40").replace("146kB", "14.6kB"), fault].concat();
    for name in transports() {
        match outcome(&scenario, name) {
            Ok(outcome) => assert_eq!(outcome.summary.finished, outcome.summary.flows, "{name}"),
            Err(error) if name == "pase" => {
                assert!(error.to_string().ends_with("likely: lower fault.probability (0.3)"), "{error}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Links are so slow that a repeated packet waits for hours, and arrives after its receiver has forgotten the flow. The message names what would help.
#[test]
fn a_flow_is_forgotten_before_its_last_packet_arrives() {
    let slow = r#"
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 2
spines = 2
host_rate = "8b/s"
delay = "1000s"
[fabric]
buffer = "36.864kB"
routing = "spray_labelled"
sharing = "switch"
[run]
seed = 3123951487683191
[transport]
name = "pias"
[transport.pias]
controller = "d2tcp"
[workload]
kind = "mix"
part = [
  { name = "requests", start = "1us", kind = "incast", senders = 2, requests = 2, bytes = "40kB", period = "100000s" },
  { name = "bytes", start = "1000s", kind = "closed_loop", from = [0, "h1"], to = 2, loops = 2, requests = 2, think = "1ps", sizes = { fixed = "1B" } },
  { name = "packets", start = "1000s", kind = "closed_loop", from = [0, "h1"], to = 2, loops = 2, requests = 2, think = "1000s", sizes = { fixed = "1460B" } },
]
"#;
    let scenario = Scenario::load(slow, "slow.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    let Err(RunError::Failed(message)) = run(&scenario, &mut |_, _, _| true) else {
        panic!("no receiver has forgotten a flow")
    };
    assert!(message.contains("later some of its bytes were received again"), "{message}");
    assert!(
        message
            .contains("\n  likely: raise transport.pias.tcp.time_wait (20000s), for which receivers remember; raise the rates"),
        "{message}"
    );
}

/// The link between a rack and a spine is down for 50 us of each 200.
#[test]
fn a_link_that_flaps() {
    let down = |from: u32| {
        format!("[[fault]]\nkind = \"link_down\"\nwhere = \"l0-s0\"\nfrom = \"{from}us\"\nto = \"{}us\"\n", from + 50)
    };
    let faults: Vec<String> = (0..8).map(|time| down(100 + 200 * time)).collect();
    every_flow_completes(&[FABRIC, &faults.concat()].concat(), Some(DropReason::LinkDown));
}

/// A host is down for a short or a long while. Its open flows, those to it and those that would start there are aborted. All others complete, also those
/// to it that start while it is down.
#[test]
fn a_host_that_fails() {
    for to in ["400us", "20ms"] {
        let fault = format!("[[fault]]\nkind = \"node_down\"\nnode = \"h3\"\nfrom = \"100us\"\nto = \"{to}\"\n");
        for name in transports() {
            let outcome = attempt(&[FABRIC, &fault].concat(), name);
            let summary = &outcome.summary;
            assert_eq!((summary.finished + summary.aborted, summary.not_started), (summary.flows, 0), "{name}");
            assert!(summary.aborted > 0, "{name}");
            for (row, abort) in outcome.rows.iter().filter_map(|row| Some((row, row.aborted?))) {
                let its_own = [row.flow.src.0, row.flow.dst.0].contains(&3);
                assert!(its_own && abort.reason == AbortReason::NodeDown, "{name}: {:?}", row.flow);
            }
        }
    }
}

/// A node pauses its neighbours from 100 us on.
fn storm(node: &str, to: &str) -> String {
    format!(
        "[fabric.pfc]\n[[fault]]\nkind = \"pause_storm\"\nnode = \"{node}\"\nfrom = \"100us\"\nto = \"{to}\"\nevery = \"100us\"\n"
    )
}

/// A broken NIC pauses its link for 4.9 ms or for a second, or a broken switch all its links. Nothing is lost, all flows complete once it is over, and the
/// results say where it came from.
#[test]
fn a_pause_storm_over_a_lossless_fabric() {
    for (name, _) in catalogue::PAUSABLE {
        for (node, links, to, frames) in [
            ("h3", &["l0-h3"][..], "5ms", 50),
            ("h3", &["l0-h3"], "1s", 10_000),
            ("s1", &["l0-s1", "l1-s1"], "5ms", 50),
            ("l1", &["h4-l1", "h5-l1", "h6-l1", "h7-l1", "s0-l1", "s1-l1"], "5ms", 50),
        ] {
            let summary = attempt(&[FABRIC, &storm(node, to)].concat(), name).summary;
            let context = format!("{name}, {node} until {to}");
            assert_eq!((summary.finished, summary.drops.total), (summary.flows, 0), "{context}");
            let storms = &summary.pfc.as_ref().expect("flow control is on").storms;
            let mut paused: Vec<&str> = storms.iter().map(|storm| storm.link.as_str()).collect();
            paused.sort_unstable();
            assert_eq!(paused, links, "{context}");
            // One frame every 100 us, and the last one.
            assert!(storms.iter().all(|storm| storm.node == node && storm.frames == frames), "{context}: {storms:?}");
            // All hosts send to h3, so that the memory of its switch fills up. Windows may fit into the memory behind a switch.
            let behind = storms.iter().flat_map(|storm| storm.behind.as_ref().expect("each flow has one path")).count();
            assert!(node != "h3" || behind > 0, "{context}: {storms:?}");
        }
    }
}

#[test]
fn a_pause_storm_needs_flow_control_and_a_node() {
    let refused = |scenario: &str| {
        let scenario = Scenario::load(scenario, "scenario.toml", &[]).expect("it fits the schema");
        match run(&scenario, &mut |_, _, _| true) {
            Err(RunError::Scenario(error)) => error.to_string(),
            _ => panic!("it is wrong"),
        }
    };
    let dctcp = FABRIC.replace("phost", "dctcp");
    let refused = |fault: String| refused(&[dctcp.as_str(), &fault].concat());
    let message = refused(storm("h3", "5ms").replace("[fabric.pfc]\n", ""));
    let expected =
        "fault.0.kind: found \"pause_storm\", but no port obeys pause frames without priority flow control; add [fabric.pfc]";
    assert!(message.contains(expected), "{message}");
    let message = refused(storm("h9", "5ms"));
    assert!(message.contains("fault.0.node: no node is called \"h9\""), "{message}");
    let message = refused(storm("h3", "100us"));
    assert!(message.contains("fault.0.to: found 100us; the storm ends after it began at 100us"), "{message}");
    let twice = storm("h3", "5ms") + &storm("h3", "7ms").replace("[fabric.pfc]\n", "");
    let message = refused(twice);
    assert!(message.contains("fault.1.from: found 100us; h3 pauses its neighbours until 5ms already"), "{message}");
}
