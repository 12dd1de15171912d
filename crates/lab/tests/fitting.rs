//! What follows from the transport and the network where a scenario leaves it open, against numbers worked out by hand.

use flowloom_core::{Bytes, Routing};
use flowloom_lab::fitting::memory_of;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Fitted, Plan, catalogue};
use toml::Value;

const RACK: &str = "
topology = { kind = \"single_switch\", hosts = 4, host_rate = \"10Gb/s\", delay = \"200ns\" }
workload = { kind = \"permutation\", sizes = { fixed = \"20kB\" } }
transport.name = \"dctcp\"
";

/// It has several paths between racks.
const LEAF_SPINE: &str = "
topology = { kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 2 }
workload = { kind = \"permutation\", sizes = { fixed = \"20kB\" } }
transport.name = \"phost\"
";

fn scenario(text: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(text, "", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn plan(scenario: &Scenario) -> Plan {
    scenario.validate().and_then(|spec| Plan::new(&spec)).unwrap_or_else(|error| panic!("{error}"))
}

fn memory(overrides: &[&str]) -> u64 {
    plan(&scenario(RACK, overrides)).setup.memory.bytes().get()
}

fn find<'a>(fitted: &'a [Fitted], key: &str) -> Option<&'a Fitted> {
    fitted.iter().find(|fitted| fitted.key == key)
}

/// The threshold is 65 packets of 1500 B at 10 Gb/s, 20 at 1 Gb/s, and half way between the two at 5.5 Gb/s. A port has 240 packets, or the threshold and the first window, if that is more.
#[test]
fn ports_of_dctcp_mark_by_the_rate_and_hold_a_first_window() {
    for (rate, threshold) in
        [("10Gb/s", 97_500), ("25Gb/s", 97_500), ("1Gb/s", 30_000), ("100Mb/s", 30_000), ("5.5Gb/s", 63_750)]
    {
        let plan = plan(&scenario(RACK, &[&format!("topology.host_rate={rate}")]));
        assert_eq!(plan.setup.memory.bytes(), Bytes::new(240 * 1500), "{rate}");
        let marks = find(&plan.setup.fitted, "transport.dctcp.port.mark_above").expect("the scenario leaves it open");
        assert_eq!(marks.value, Value::String(Bytes::new(threshold).to_string()), "{rate}");
    }
    assert_eq!(memory(&["transport.dctcp.port.mark_above=20kB", "transport.dctcp.initial_window=10"]), 360_000);
    assert_eq!(memory(&["transport.dctcp.port.mark_above=300kB", "transport.dctcp.initial_window=100"]), 450_000);
    assert_eq!(memory(&["fabric.wire=ethernet_1538"]), 240 * 1538);
}

/// Over links of 250 µs, a round trip takes 1 ms and a little more, in which 10 Gb/s carry 1.25 MB: a seventh is 178.6 kB.
#[test]
fn a_link_is_never_idle_for_lack_of_a_queue() {
    let plan = plan(&scenario(RACK, &["topology.delay=250us"]));
    let marks = find(&plan.setup.fitted, "transport.dctcp.port.mark_above").expect("the scenario leaves it open");
    let bytes: Bytes = marks.value.as_str().expect("bytes are texts").parse().expect("they are bytes");
    assert!((178_600..179_500).contains(&bytes.get()), "{bytes}");
}

#[test]
fn what_a_scenario_says_stays() {
    let given = plan(&scenario(
        RACK,
        &[
            "fabric.buffer=50kB",
            "fabric.routing=ecmp",
            "transport.dctcp.port.mark_above=9kB",
            "transport.dctcp.nic.mark_above=9kB",
        ],
    ));
    assert_eq!(given.setup.memory.bytes(), Bytes::new(50_000));
    assert!(given.setup.fitted.is_empty(), "{:?}", given.setup.fitted);
    assert!(memory_of(&scenario(RACK, &["fabric.buffer=50kB"])).is_none());
}

/// A switch with four ports has the memory of four ports. Under flow control, each class has the memory of a port and its headroom.
#[test]
fn shared_memory_and_flow_control() {
    assert_eq!(memory(&["fabric.sharing=switch"]), 4 * 360_000);
    let headroom = 3 * 1500 + 84 + (2 * 200 + 614) * 10 / 8 + 1;
    let (found, expected) = (memory(&["fabric.pfc={}"]), 360_000 + headroom);
    assert!(found.abs_diff(expected) <= 2, "{found}, expected about {expected}");
}

/// Every transport, over flow control, too, runs without a word about the fabric, on the paths that it needs.
#[test]
fn every_transport_plans_without_a_fabric() {
    for entry in catalogue::TRANSPORTS {
        let name = format!("transport.name={}", entry.name);
        let plain = plan(&scenario(LEAF_SPINE, &[&name]));
        assert!(plain.setup.memory.bytes() >= Bytes::new(36_864));
        let unfit: Vec<&String> = plain.setup.misfits.iter().filter(|misfit| misfit.starts_with("fabric.buffer")).collect();
        assert!(unfit.is_empty(), "{unfit:?}");
        if catalogue::classes_to_pause(entry.name).is_some() {
            plan(&scenario(LEAF_SPINE, &[&name, "fabric.pfc={}"]));
            plan(&scenario(LEAF_SPINE, &[&name, "fabric.pfc={}", "fabric.sharing=switch"]));
        }
    }
    for (name, routing) in [
        ("phost", Routing::SprayRoundRobin),
        ("ndp", Routing::SprayLabelled),
        ("pase", Routing::Ecmp),
        ("expresspass", Routing::EcmpSymmetric),
    ] {
        assert_eq!(plan(&scenario(LEAF_SPINE, &[&format!("transport.name={name}")])).setup.paths.routing(), routing, "{name}");
    }
}

/// What the plan says of the scenario, with a value for every key, is a scenario with the same plan that leaves nothing of it open.
#[test]
fn the_filled_scenario_reads_back() {
    for entry in catalogue::TRANSPORTS {
        let scenario = scenario(LEAF_SPINE, &[&format!("transport.name={}", entry.name)]);
        let first = plan(&scenario).setup;
        let filled = first.resolved(&scenario.spec);
        let again = Scenario::load(&filled.to_toml(), "", &[]).unwrap_or_else(|error| panic!("{error}"));
        let second = plan(&again).setup;
        assert_eq!(second.memory, first.memory, "{}", entry.name);
        assert_eq!(second.parameters, first.parameters, "{}", entry.name);
        assert_eq!(second.paths.routing(), first.paths.routing(), "{}", entry.name);
        let open = second.fitted.iter().filter(|fitted| fitted.key.starts_with("fabric") || fitted.key.ends_with("mark_above"));
        assert_eq!(open.count(), 0, "{}: {:?}", entry.name, second.fitted);
        assert_eq!(second.resolved(&again.spec), filled, "{}", entry.name);
    }
}
