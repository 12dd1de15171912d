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
    let scenario = Scenario::load(scenario, "scenario.toml", &[format!("transport.name={name}")]);
    let outcome = run(&scenario.unwrap_or_else(|error| panic!("{name}: {error}")), &mut |_, _, _| true);
    outcome.unwrap_or_else(|error| match error {
        RunError::Scenario(error) => panic!("{name}: {error}"),
        RunError::Failed(message) => panic!("{name}: {message}"),
        RunError::Stopped => panic!("{name}: nobody stopped it"),
    })
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
