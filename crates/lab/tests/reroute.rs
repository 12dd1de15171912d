//! Transports whose routes change because a link goes down, or whose links become slower, and what is refused.

use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, Plan, ScenarioError, catalogue, run};

/// Each leaf has two uplinks, one of which is down for longer than it takes until switches notice.
const SCENARIO: &str = "
topology = { kind = \"leaf_spine\", racks = 3, hosts_per_rack = 4, spines = 2, host_rate = \"10Gb/s\", spine_rate = \"40Gb/s\" }
workload = { kind = \"poisson\", sizes = { bimodal = [\"10kB\", \"200kB\"], first_share = 0.8 }, load = 0.4, flows = 400 }
transport.name = \"phost\"
[[fault]]
kind = \"link_down\"
where = \"l0-s1\"
from = \"300us\"
to = \"2ms\"
reroute_after = \"100us\"
";

fn scenario(overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(SCENARIO, "", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn planned(overrides: &[&str]) -> Result<(), ScenarioError> {
    let scenario = scenario(overrides);
    scenario.validate().and_then(|spec| Plan::new(&spec)).map(drop)
}

fn outcome(overrides: &[&str]) -> Outcome {
    run(&scenario(overrides), &mut |_, _, _| true).unwrap_or_else(|error| panic!("{error}"))
}

/// All flows end, with a loss in the time until switches notice, and with nothing to wait for afterwards.
#[test]
fn every_transport_goes_on_over_other_paths_or_says_why_it_cannot() {
    let refused = [
        ("pase", "its endpoints ask the switches on the paths that they know"),
        ("top", "the age at which a token is worthless follows from its path"),
        ("hpcc", "its packets have room for the records of the switches on the shortest paths"),
    ];
    for entry in catalogue::TRANSPORTS {
        let name = format!("transport.name={}", entry.name);
        if let Some((_, why)) = refused.iter().find(|(name, _)| *name == entry.name) {
            let error = planned(&[&name]).unwrap_err().to_string();
            assert!(error.contains("reroute_after") && error.contains(why), "{error}");
            continue;
        }
        let Outcome { rows, summary, .. } = outcome(&[&name]);
        assert!(rows.iter().all(|row| row.finish.is_some()), "{}", entry.name);
        if entry.profiles.is_some() {
            assert!(summary.drops.total > 0, "{} lost nothing on a link that was cut", entry.name);
            // A flow that waited for the link would take more than 1.6 ms.
            let noticed = outcome(&[&name, "fault.0.to=20ms"]);
            assert!(noticed.rows.iter().all(|row| row.finish.is_some()), "{}", entry.name);
        }
    }
}

/// The least that a flow can wait for is the time until switches notice. Without it, flows of one path wait until the link is up.
#[test]
fn flows_wait_only_until_switches_have_noticed() {
    let ecmp =
        ["transport.name=dctcp", "transport.dctcp.rto_min=200us", "transport.dctcp.rto_initial=200us", "fabric.routing=ecmp"];
    let slowest = |more: &[&str]| -> f64 {
        let rows = outcome(&[&ecmp[..], more].concat()).rows;
        let took =
            |row: &flowloom_lab::metrics::Row| row.finish.expect("it finishes").saturating_since(row.flow.start).as_us_f64();
        rows.iter().map(took).fold(0.0, f64::max)
    };
    let fault = "{ kind = \"link_down\", where = \"l0-s1\", from = \"300us\", to = \"20ms\"";
    let [noticed, unnoticed] = [", reroute_after = \"100us\"", ""].map(|key| slowest(&[&format!("fault=[{fault}{key} }}]")]));
    assert!(unnoticed > 15_000.0 && noticed < 6000.0, "{noticed} µs with other paths, {unnoticed} µs without");
}

#[test]
fn what_cuts_hosts_off_is_refused() {
    let refuse = |faults: &str| planned(&[&format!("fault=[{faults}]")]).unwrap_err().to_string();
    let one = |place: &str, from: u64| {
        format!(
            "{{ kind = \"link_down\", where = \"{place}\", from = \"{from}us\", to = \"900us\", reroute_after = \"10us\" }}"
        )
    };
    let alone = refuse(&one("h0-l0", 1));
    assert!(
        alone.contains("fault.0.reroute_after") && alone.contains("without \"h0-l0\", some nodes cannot be reached"),
        "{alone}"
    );
    let both = refuse(&format!("{}, {}", one("l0-s0", 1), one("l0-s1", 2)));
    assert!(
        both.contains("fault.1.reroute_after") && both.contains("of other faults that are down at the same time"),
        "{both}"
    );
    planned(&[&format!("fault=[{}]", one("l0-s0", 1))]).expect("there is another spine");
}

/// A tenth of the rate for a while: all flows end, and later than without. Transports whose switches go by rates say why they cannot.
#[test]
fn every_transport_goes_on_over_a_slower_link_or_says_why_it_cannot() {
    let slow = "fault=[{ kind = \"link_rate\", where = \"l0-s1\", rate = \"4Gb/s\", from = \"100us\", to = \"2ms\" }]";
    let refused = ["pase", "pdq", "d3", "fastpass", "hpcc", "expresspass", "top"];
    for entry in catalogue::TRANSPORTS.iter().filter(|entry| entry.profiles.is_some()) {
        let name = format!("transport.name={}", entry.name);
        if refused.contains(&entry.name) {
            let error = planned(&[&name, slow]).unwrap_err().to_string();
            assert!(error.contains("fault.0.rate: rates cannot change in a run of"), "{error}");
            continue;
        }
        let total = |fault: &str| -> f64 {
            let rows = outcome(&[&name, fault]).rows;
            let took =
                |row: &flowloom_lab::metrics::Row| row.finish.expect("it ends").saturating_since(row.flow.start).as_us_f64();
            rows.iter().map(took).sum()
        };
        let [with, without] = [slow, "fault=[]"].map(total);
        assert!(with > 1.02 * without, "{}: {with} and {without} µs", entry.name);
    }
}

#[test]
fn rates_that_make_no_sense_are_refused() {
    let slow = |place: &str, rate: &str, from: u64| {
        format!("{{ kind = \"link_rate\", where = \"{place}\", rate = \"{rate}\", from = \"{from}us\", to = \"900us\" }}")
    };
    let refuse = |faults: &str| planned(&[&format!("fault=[{faults}]")]).unwrap_err().to_string();
    let own = refuse(&slow("l0-s1", "40Gb/s", 1));
    assert!(own.contains("fault.0.rate: found 40Gb/s; the link l0-s1 has 40Gb/s, and it must be less"), "{own}");
    let twice = refuse(&format!("{}, {}", slow("l0-s1", "4Gb/s", 1), slow("leaf-spine", "5Gb/s", 500)));
    assert!(twice.contains("fault.1.from: found 500us; another fault makes the link slower until 900us"), "{twice}");
    let cut = "{ kind = \"link_down\", where = \"l0-s1\", from = \"5us\", to = \"9us\", reroute_after = \"1us\" }";
    let both = refuse(&format!("{}, {cut}", slow("l0-s1", "4Gb/s", 1)));
    assert!(both.contains("fault.0.where: another fault cuts the link"), "{both}");
    let never = refuse(&slow("l0-s1", "4Gb/s", 901));
    assert!(
        never.contains("fault.0.to: found 900us; the link has its own rate again after it became slower at 901us"),
        "{never}"
    );
}

/// Both directions of each link are named, and each is slower once.
#[test]
fn both_directions_of_a_link_can_be_named() {
    let dumbbell = "topology={ kind = \"dumbbell\", hosts_per_side = 2, host_rate = \"10Gb/s\", middle_rate = \"10Gb/s\" }";
    for (place, slower) in [("all", 10), ("leaf-leaf", 2)] {
        let slow =
            format!("fault=[{{ kind = \"link_rate\", where = \"{place}\", rate = \"1Gb/s\", from = \"1us\", to = \"1ms\" }}]");
        let scenario = scenario(&[dumbbell, &slow]);
        let plan = Plan::new(&scenario.validate().unwrap()).unwrap_or_else(|error| panic!("{place}: {error}"));
        let at_1_gbps = plan.setup.reroutes.iter().map(|(_, paths)| {
            paths.network().links().iter().filter(|link| link.rate == flowloom_core::Rate::from_gbps(1)).count()
        });
        assert_eq!(at_1_gbps.collect::<Vec<_>>(), [slower, 0], "{place}");
    }
}

/// What a flow takes alone is that of the network without faults: here 200 kB over a link of 10 Gb/s, which carries 1 Gb/s meanwhile.
#[test]
fn flows_are_measured_alone_without_the_faults_that_change_paths_and_rates() {
    let solo = "metrics.optimum=solo";
    let optima = |fault: &str| -> Vec<_> { outcome(&[solo, fault]).rows.iter().map(|row| row.optimum).collect() };
    let calm = optima("fault=[]");
    let slow = "fault=[{ kind = \"link_rate\", where = \"h0-l0\", rate = \"1Gb/s\", from = \"0s\", to = \"1000s\" }]";
    let down = "fault=[{ kind = \"link_down\", where = \"l0-s1\", from = \"0s\", to = \"1000s\", reroute_after = \"0s\" }]";
    assert_eq!(optima(slow), calm);
    assert_eq!(optima(down), calm);
    let rows = outcome(&[solo, slow]).rows;
    let from_h0 = rows.iter().filter(|row| row.flow.src.0 == 0 && row.flow.size.get() == 200_000);
    let slowdowns: Vec<f64> = from_h0.map(|row| row.slowdown().expect("it ends")).collect();
    // The headers and the delays are the same part of both times, or a smaller one of the longer.
    assert!(!slowdowns.is_empty() && slowdowns.iter().all(|slowdown| *slowdown > 8.0), "{slowdowns:?}");
}
