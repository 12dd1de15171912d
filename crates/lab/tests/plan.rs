//! What a scenario's topology and faults become.

use std::collections::BTreeSet;
use std::path::Path;

use flowloom_core::{Duration, LinkId, Network, NodeId, Rate, Switching, Time, WireProfile};
use flowloom_fabric::Fault;
use flowloom_lab::Plan;
use flowloom_lab::spec::{Scenario, Wire};

fn plan_in(folder: &Path, topology: &str, more: &str) -> Plan {
    let text = format!(
        "topology = {{ {topology} }}\n{more}\n[workload]\nkind = \"permutation\"\nsizes = {{ fixed = \"1kB\" }}\n[transport]\nname = \"phost\"\n"
    );
    let path = folder.join("scenario.toml").display().to_string();
    let plan = Scenario::load(&text, &path, &[]).and_then(|scenario| Plan::new(&scenario));
    plan.map_err(|error| error.to_string()).unwrap()
}
fn plan(topology: &str, more: &str) -> Plan {
    plan_in(Path::new(""), topology, more)
}
fn hops(network: &Network) -> BTreeSet<String> {
    (0..network.links().len() as u32).map(|link| network.hop_name(LinkId(link))).collect()
}

/// The names that the documentation of each topology gives.
#[test]
fn hops_are_called_as_documented() {
    let expected: [(&str, &[&str]); 5] = [
        ("single_switch", &["host-switch", "switch-host"]),
        ("dumbbell", &["host-leaf", "leaf-host", "leaf-leaf"]),
        ("leaf_spine", &["host-leaf", "leaf-host", "leaf-spine", "spine-leaf"]),
        ("three_tier", &["agg-core", "agg-tor", "core-agg", "host-tor", "tor-agg", "tor-host"]),
        ("fat_tree", &["agg-core", "agg-edge", "core-agg", "edge-agg", "edge-host", "host-edge"]),
    ];
    for (kind, names) in expected {
        let found = hops(&plan(&format!("kind = \"{kind}\""), "").network);
        assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>(), "{kind}");
    }
}

#[test]
fn each_number_of_a_topology_goes_where_it_belongs() {
    let network = plan(
        "kind = \"three_tier\", racks = 6, hosts_per_rack = 5, aggregations = 3, host_rate = \"1Gb/s\", aggregation_rate = \"2Gb/s\", core_rate = \"3Gb/s\", delay = \"4us\"",
        "",
    )
    .network;
    assert_eq!(network.hosts(), 30);
    let rate = |hop: &str| {
        let links = (0..network.links().len() as u32).map(LinkId).filter(|link| network.hop_name(*link) == hop);
        let rates: BTreeSet<u64> = links.map(|link| network.link(link).rate.as_bps() / 1_000_000_000).collect();
        rates.into_iter().collect::<Vec<u64>>()
    };
    assert_eq!(["host-tor", "tor-agg", "agg-core"].map(rate), [vec![1], vec![2], vec![3]]);
    assert!(network.links().iter().all(|link| link.delay == Duration::from_us(4)));
    let spread = plan("kind = \"leaf_spine\", racks = 3, hosts_per_rack = 2, spines = 5", "").network;
    assert_eq!((spread.hosts(), spread.switches().count(), spread.links().len()), (6, 8, 2 * (6 + 15)));
}

#[test]
fn switches_cut_through_once_they_have_the_smallest_packet() {
    let switching = |more: &str| plan("kind = \"single_switch\"", more).network.switching();
    assert_eq!(switching(""), Switching::CutThrough { header: WireProfile::IP_1500.control });
    let ethernet = switching("[fabric]\nwire = \"ethernet_1538\"");
    assert_eq!(ethernet, Switching::CutThrough { header: WireProfile::ETHERNET_1538.control });
    assert_eq!(switching("[fabric]\nswitching = \"store_and_forward\""), Switching::StoreAndForward);
}

#[test]
fn wires_are_called_as_their_profiles() {
    for wire in [Wire::Ip1500, Wire::Ethernet1538, Wire::Ns21000] {
        assert_eq!(serde_json::to_value(wire).unwrap(), wire.profile().name);
    }
}

#[test]
fn faults_strike_the_links_they_name() {
    let fault = |kind: &str, place: &str| {
        let parameters = if kind == "link_down" { "from = \"1ms\"\nto = \"2ms\"" } else { "probability = 0.25" };
        let plan = plan("kind = \"leaf_spine\"", &format!("[[fault]]\nkind = \"{kind}\"\nwhere = \"{place}\"\n{parameters}"));
        let struck: Vec<LinkId> =
            (0..plan.faults.len() as u32).map(LinkId).filter(|link| !plan.faults[link.index()].is_empty()).collect();
        (plan, struck)
    };
    // Nine leaves, four spines: 36 links up; 144 hosts.
    let (plan, up) = fault("loss", "leaf-spine");
    assert_eq!(up.len(), 36);
    assert!(
        up.iter().all(|link| plan.network.hop_name(*link) == "leaf-spine" && plan.faults[link.index()] == [Fault::Loss(0.25)])
    );
    assert_eq!(fault("corrupt", "all").1.len(), 2 * (36 + 144));
    let (plan, one) = fault("duplicate", "l0-s3");
    assert_eq!(one.len(), 1);
    assert_eq!(plan.network.node(plan.network.link(one[0]).to).name, "s3");
    let (plan, cable) = fault("link_down", "l0-s3");
    assert_eq!(cable, [one[0], one[0].reverse()]);
    let down = Fault::Down(Time::ZERO + Duration::from_ms(1), Time::ZERO + Duration::from_ms(2));
    assert!(cable.iter().all(|link| plan.faults[link.index()] == [down]));
    assert_eq!(fault("link_down", "leaf-spine").1.len(), 72);
}

#[test]
fn a_custom_network_is_what_its_file_says() {
    let text = r#"
        node = [
            { kind = "switch", name = "left", tier = "rack" },
            { kind = "host", name = "a" },
            { kind = "switch", name = "right", tier = "rack", level = 1 },
            { kind = "host", name = "b" },
        ]
        [[link]]
        a = "b"
        b = "right"
        rate = "1Gb/s"
        [[link]]
        a = "left"
        b = "right"
        rate = "40Gb/s"
        delay = "3us"
        [[link]]
        a = "a"
        b = "left"
        rate = "10Gb/s"
        delay = "1us"
    "#;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("custom");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.toml"), text).unwrap();
    let network = plan_in(&folder, "kind = \"custom\", file = \"net.toml\"", "").network;
    let (a, b) = (NodeId(0), NodeId(1));
    assert_eq!((network.node(a).name.as_str(), network.node(b).name.as_str()), ("a", "b"));
    let path: Vec<(Rate, Duration)> =
        network.path(a, b).iter().map(|link| (network.link(*link).rate, network.link(*link).delay)).collect();
    let expected = [(10, 1), (40, 3), (1, 0)].map(|(gbps, us)| (Rate::from_gbps(gbps), Duration::from_us(us)));
    assert_eq!(path, expected);
    assert!(hops(&network).contains("rack-rack"));
}
