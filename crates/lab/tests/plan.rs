//! What a scenario's topology and faults become.

use std::collections::BTreeSet;
use std::path::Path;

use flowloom_core::{Bytes, Duration, Link, LinkId, Memory, Network, NodeId, Rate, Switching, Time, WireProfile};
use flowloom_fabric::Fault;
use flowloom_lab::observe::Nowhere;
use flowloom_lab::spec::{Scenario, WirePreset};
use flowloom_lab::{Execution, Plan, Simulated, simulate};
use flowloom_transports::pias;

fn load(folder: &Path, text: &str) -> Plan {
    let path = folder.join("scenario.toml").display().to_string();
    let plan = Scenario::load(text, &path, &[]).and_then(|scenario| Plan::new(&scenario.validate()?));
    plan.map_err(|error| error.to_string()).unwrap()
}
fn scenario(topology: &str, more: &str, workload: &str, transport: &str) -> String {
    format!("topology = {{ {topology} }}\n{more}\n[workload]\n{workload}\n[transport]\nname = \"{transport}\"\n")
}
const PERMUTATION: &str = "kind = \"permutation\"\nsizes = { fixed = \"1kB\" }";

fn plan_of(topology: &str, more: &str, workload: &str, transport: &str) -> Plan {
    load(Path::new(""), &scenario(topology, more, workload, transport))
}
fn plan(topology: &str, more: &str) -> Plan {
    plan_of(topology, more, PERMUTATION, "phost")
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
        let found = hops(&plan(&format!("kind = \"{kind}\""), "").setup.network);
        assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>(), "{kind}");
    }
}

/// The PIAS paper's fabric (§V-C): 20 µs in each host, 0.2 µs on each link. A packet of one byte of payload goes over four hops, is
/// answered by the smallest packet, and both are alone: 81.6 µs of delays, and the bits.
#[test]
fn the_hosts_own_delay_is_in_the_round_trip() {
    // Cut through, the packet is held on its middle links for the smallest packet's time.
    for (switching, held) in [("store_and_forward", [41, 41, 41, 41]), ("cut_through", [41, 40, 40, 41])] {
        let plan = plan_of(
            "kind = \"leaf_spine\", racks = 2, hosts_per_rack = 1, host_delay = \"20.2us\", delay = \"200ns\"",
            &format!("fabric.switching = \"{switching}\""),
            "kind = \"burst\"\nflows = 1\nsizes = { fixed = \"1B\" }",
            "pfabric",
        );
        let Simulated { setup, report, .. } = simulate(plan, Execution::new(&mut |_, _, _| true, &mut Nowhere)).unwrap();
        let record = report.records[0];
        let bits = |bytes: [u64; 4]| Duration::from_ps(bytes[0] * 800 + bytes[1] * 200 + bytes[2] * 200 + bytes[3] * 800);
        let there = Duration::from_ns(40_800) + bits(held);
        let back = Duration::from_ns(40_800) + bits([40; 4]);
        assert_eq!(record.received, Time::ZERO + there);
        assert_eq!(record.acknowledged, record.received + back);
        // The closed form includes it, too.
        let path = setup.network.path(NodeId(0), NodeId(1));
        assert_eq!(setup.network.flow_time(&path, Bytes::new(1), &setup.wire), there);
        assert_eq!(setup.network.packet_time(&path, setup.wire.control), back);
    }
}

/// Without it, hosts' links are as all others.
#[test]
fn hosts_links_have_a_delay_of_their_own_if_the_scenario_says_so() {
    for kind in ["leaf_spine", "three_tier", "fat_tree"] {
        let delays = |more: &str| {
            let network = plan(&format!("kind = \"{kind}\", delay = \"3us\"{more}"), "").setup.network;
            let (hosts, others): (Vec<_>, Vec<_>) =
                network.links().iter().partition(|link| link.from.index().min(link.to.index()) < network.hosts());
            let set = |links: Vec<&Link>| links.into_iter().map(|link| link.delay).collect::<BTreeSet<_>>();
            (set(hosts), set(others))
        };
        let only = |us| BTreeSet::from([Duration::from_us(us)]);
        assert_eq!(delays(""), (only(3), only(3)), "{kind}");
        assert_eq!(delays(", host_delay = \"7us\""), (only(7), only(3)), "{kind}");
        if kind != "leaf_spine" {
            let [three, nine] = [3, 9].map(Duration::from_us);
            assert_eq!(delays(", core_delay = \"9us\""), (only(3), BTreeSet::from([three, nine])), "{kind}");
        }
    }
}

#[test]
fn memory_is_each_ports_or_each_switchs() {
    let memory = |fabric: &str| plan_of("kind = \"leaf_spine\"", fabric, PERMUTATION, "ideal").setup.memory;
    let bytes = Bytes::new(36_864);
    assert_eq!(memory(""), Memory::PerPort(bytes));
    let of_switch = |keys: &str| memory(&format!("fabric = {{ buffer = \"36.864kB\", sharing = \"switch\"{keys} }}"));
    assert_eq!(of_switch(""), Memory::PerSwitch { bytes, alpha: 1.0 });
    assert_eq!(of_switch(", alpha = 0.125"), Memory::PerSwitch { bytes, alpha: 0.125 });
    // A leaf has 16 hosts and 4 spines.
    assert_eq!(memory("fabric.sharing = \"switch\""), Memory::PerSwitch { bytes: bytes * 20, alpha: 1.0 });
}

#[test]
fn each_number_of_a_topology_goes_where_it_belongs() {
    let network = plan(
        "kind = \"three_tier\", racks = 6, hosts_per_rack = 5, aggregations = 3, host_rate = \"1Gb/s\", aggregation_rate = \"2Gb/s\", core_rate = \"3Gb/s\", delay = \"4us\"",
        "",
    )
    .setup
    .network;
    assert_eq!(network.hosts(), 30);
    let rate = |hop: &str| {
        let links = (0..network.links().len() as u32).map(LinkId).filter(|link| network.hop_name(*link) == hop);
        let rates: BTreeSet<u64> = links.map(|link| network.link(link).rate.as_bps() / 1_000_000_000).collect();
        rates.into_iter().collect::<Vec<u64>>()
    };
    assert_eq!(["host-tor", "tor-agg", "agg-core"].map(rate), [vec![1], vec![2], vec![3]]);
    assert!(network.links().iter().all(|link| link.delay == Duration::from_us(4)));
    let spread = plan("kind = \"leaf_spine\", racks = 3, hosts_per_rack = 2, spines = 5", "").setup.network;
    assert_eq!((spread.hosts(), spread.switches().count(), spread.links().len()), (6, 8, 2 * (6 + 15)));
}

#[test]
fn switches_cut_through_once_they_have_the_smallest_packet() {
    let switching = |more: &str| plan("kind = \"single_switch\"", more).setup.network.switching();
    assert_eq!(switching(""), Switching::CutThrough { header: WireProfile::IP_1500.control });
    let ethernet = switching("[fabric]\nwire = \"ethernet_1538\"");
    assert_eq!(ethernet, Switching::CutThrough { header: WireProfile::ETHERNET_1538.control });
    assert_eq!(switching("[fabric]\nswitching = \"store_and_forward\""), Switching::StoreAndForward);
}

#[test]
fn wires_are_called_as_their_profiles() {
    for wire in [WirePreset::Ip1500, WirePreset::Ethernet1538, WirePreset::Ns21000] {
        assert_eq!(serde_json::to_value(wire).unwrap(), wire.profile().name);
    }
}

#[test]
fn faults_strike_the_links_they_name() {
    let fault = |kind: &str, place: &str| {
        let parameters = if kind == "link_down" { "from = \"1ms\"\nto = \"2ms\"" } else { "probability = 0.25" };
        let plan = plan("kind = \"leaf_spine\"", &format!("[[fault]]\nkind = \"{kind}\"\nwhere = \"{place}\"\n{parameters}"));
        let struck: Vec<LinkId> = (0..plan.setup.faults.len() as u32)
            .map(LinkId)
            .filter(|link| !plan.setup.faults[link.index()].is_empty())
            .collect();
        (plan, struck)
    };
    // Nine leaves, four spines: 36 links up; 144 hosts.
    let (plan, up) = fault("loss", "leaf-spine");
    assert_eq!(up.len(), 36);
    assert!(up.iter().all(|link| plan.setup.network.hop_name(*link) == "leaf-spine"
        && plan.setup.faults[link.index()] == [Fault::Loss(0.25).into()]));
    assert_eq!(fault("corrupt", "all").1.len(), 2 * (36 + 144));
    let (plan, one) = fault("duplicate", "l0-s3");
    assert_eq!(one.len(), 1);
    assert_eq!(plan.setup.network.node(plan.setup.network.link(one[0]).to).name, "s3");
    let (plan, cable) = fault("link_down", "l0-s3");
    assert_eq!(cable, [one[0], one[0].reverse()]);
    let down = Fault::Down(Time::ZERO + Duration::from_ms(1), Time::ZERO + Duration::from_ms(2));
    assert!(cable.iter().all(|link| plan.setup.faults[link.index()] == [down.into()]));
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
    let network = load(&folder, &scenario("kind = \"custom\", file = \"net.toml\"", "", PERMUTATION, "phost")).setup.network;
    let (a, b) = (NodeId(0), NodeId(1));
    assert_eq!((network.node(a).name.as_str(), network.node(b).name.as_str()), ("a", "b"));
    let path: Vec<(Rate, Duration)> =
        network.path(a, b).iter().map(|link| (network.link(*link).rate, network.link(*link).delay)).collect();
    let expected = [(10, 1), (40, 3), (1, 0)].map(|(gbps, us)| (Rate::from_gbps(gbps), Duration::from_us(us)));
    assert_eq!(path, expected);
    assert!(hops(&network).contains("rack-rack"));
}

/// Two links in parallel have one name together, and one each.
#[test]
fn a_fault_strikes_one_of_two_parallel_links() {
    let node = |kind: &str, name: &str| format!("[[node]]\nkind = \"{kind}\"\nname = \"{name}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"10Gb/s\"\n");
    let nodes = [node("host", "x"), node("host", "y"), node("switch", "a"), node("switch", "b")].concat();
    let links = [link("x", "a"), link("a", "b"), link("a", "b"), link("b", "y")].concat();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("parallel");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("net.toml"), nodes + &links).unwrap();
    let struck = |place: &str| -> Vec<usize> {
        let fault = format!("fault = [{{ kind = \"loss\", where = \"{place}\", probability = 0.5 }}]");
        let plan = load(&folder, &scenario("kind = \"custom\", file = \"net.toml\"", &fault, PERMUTATION, "phost"));
        (0..plan.setup.faults.len()).filter(|link| !plan.setup.faults[*link].is_empty()).collect()
    };
    // Links 2 and 4 of the simulator are the two from a to b, and 3 and 5 those back.
    for (place, links) in [("a-b", &[2, 4][..]), ("a-b:1", &[2]), ("a-b:2", &[4]), ("b-a:2", &[5]), ("x-a", &[0])] {
        assert_eq!(struck(place), links, "{place}");
    }
}

/// A round trip takes 42.464 us: twice 1.2 us for a full packet, 32 ns for an acknowledgement and 10 us for each link. In this time, a host
/// sends 35.4 full packets.
#[test]
fn timeouts_and_windows_are_compared_with_the_round_trip() {
    let misfits = |transport: &str, parameters: &str| -> Vec<String> {
        let network = "kind = \"single_switch\", hosts = 2, host_rate = \"10Gb/s\", delay = \"10us\"";
        let more = format!("fabric = {{ switching = \"store_and_forward\" }}\ntransport.{transport} = {{ {parameters} }}");
        let text = format!("topology = {{ {network} }}\n{more}\ntransport.name = \"{transport}\"\n[workload]\n{PERMUTATION}\n");
        load(Path::new(""), &text).setup.misfits
    };
    for (transport, fits, early, small) in [
        ("pfabric", "rto = \"43us\", max_window = 35", "rto", "max_window"),
        ("las", "rto = \"43us\", initial_window = 35, max_window = 35", "rto", "max_window"),
        ("ndp", "rto = \"43us\", initial_window = 35", "rto", "initial_window"),
        ("homa", "resend_timeout = \"43us\"", "resend_timeout", ""),
        ("tcp", "rto_min = \"1us\", rto_initial = \"43us\", initial_window = 10, max_window = 35", "rto_initial", "max_window"),
        ("dctcp", "rto_rule = \"fixed\", rto_min = \"43us\", initial_window = 10, max_window = 35", "rto_min", "max_window"),
        ("pase", "initial_window = 10, max_window = 35", "", "max_window"),
        ("phost", "reissue_slots = 18.0, downgrade_threshold = 18", "", ""),
    ] {
        assert_eq!(misfits(transport, fits), [""; 0]);
        let found = misfits(transport, &fits.replace("43us", "42us").replace("= 35", "= 34"));
        let mut expected = Vec::new();
        if !early.is_empty() {
            expected.push(format!("transport.{transport}.{early}: 42us is less than a round trip, which takes 42.464us"));
        }
        if !small.is_empty() {
            expected.push(format!(
                "transport.{transport}.{small}: 34 packets are less than a bandwidth-delay product, which is 35"
            ));
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(&expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
    }
    let inside = misfits("pias", "tcp = { rto_min = \"1us\", rto_initial = \"42us\" }");
    assert!(inside[0].starts_with("transport.pias.tcp.rto_initial: 42us is less"), "{inside:?}");
    // Half of a round trip is 17.7 slots.
    let found = misfits("phost", "reissue_slots = 17.5, downgrade_threshold = 17");
    for (found, start) in found.iter().zip(["downgrade_threshold: 17 slots", "reissue_slots: 17.5 slots"]) {
        assert!(found.starts_with(&format!("transport.phost.{start} are less than half of a round trip, which takes 35 here")));
    }
    assert_eq!(found.len(), 2);
}

/// Nine of ten flows have three packets and one has 700. PIAS divides them after the third packet (4380 B; 4635 B is the edge of a bin), and
/// thresholds for Web Search divide nothing.
#[test]
fn demotion_thresholds_follow_from_the_workload() {
    let plan = |given: &str| {
        let topology = "kind = \"single_switch\", hosts = 4, host_rate = \"10Gb/s\", delay = \"1us\"";
        let workload =
            "kind = \"poisson\"\nload = 0.5\nflows = 200\nsizes = { bimodal = [\"4380B\", \"1022000B\"], first_share = 0.9 }";
        load(Path::new(""), &(scenario(topology, "fabric.buffer = \"360kB\"", workload, "pias") + given))
    };
    let thresholds =
        |plan: &Plan| plan.setup.parameters.get::<pias::Config>().expect("they are PIAS's").thresholds.list().to_vec();
    let fitted = plan("");
    assert_eq!(thresholds(&fitted), [Bytes::new(4635)]);
    assert_eq!(fitted.setup.misfits, [""; 0]);
    let given = plan("pias = { thresholds = [\"1.32714MB\", \"3.62664MB\"] }");
    assert_eq!(thresholds(&given), [1_327_140, 3_626_640].map(Bytes::new));
    assert_eq!(thresholds(&plan("pias = { thresholds = \"fitted\" }")), thresholds(&fitted));
    assert_eq!(thresholds(&plan("pias = { thresholds = [] }")), []);
    let [found] = &given.setup.misfits[..] else { panic!("{:?}", given.setup.misfits) };
    assert!(found.starts_with("transport.pias.thresholds: they do not fit the sizes"), "{found}");
}

/// Ports must hold what the designs that exclude losses put into them. HPCC and PDQ need a bandwidth-delay product, of the round trip of 42.464 us above and of the room
/// for their headers in an acknowledgement, which is 42 B or 16 B on each of two links. For Fastpass, grants come two links later to the second rack, and data crosses
/// two or four links: four times 10 us at 10 Gb/s are 50 kB.
#[test]
fn the_memory_of_ports_is_compared_with_what_designs_without_loss_need() {
    let misfits = |network: &str, transport: &str, fabric: &str| -> Vec<String> {
        let fabric = format!("fabric = {{ switching = \"store_and_forward\", routing = \"ecmp_symmetric\", {fabric} }}");
        plan_of(&format!("host_rate = \"10Gb/s\", delay = \"10us\", {network}"), &fabric, PERMUTATION, transport).setup.misfits
    };
    let star = "kind = \"single_switch\", hosts = 2";
    let racks = "kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 2";
    for (transport, network, need) in [("hpcc", star, 53_164), ("pdq", star, 53_112), ("fastpass", racks, 50_000)] {
        assert_eq!(misfits(network, transport, &format!("buffer = \"{need}B\"")), [""; 0], "{transport}");
        let [found] = &misfits(network, transport, &format!("buffer = \"{}B\"", need - 1))[..] else { panic!("{transport}") };
        let (less, need) = (Bytes::new(need - 1), Bytes::new(need));
        assert!(found.starts_with(&format!("fabric.buffer: {less} are less than {need}, which is")), "{found}");
        assert!(found.contains(&format!("although {transport} ")), "{found}");
    }
    assert_eq!(misfits(star, "hpcc", "buffer = \"10kB\", pfc = { headroom = \"0B\" }"), [""; 0]);
    // All hosts of one switch are equally far from everything, and tokens schedule all data.
    assert_eq!(misfits(star, "fastpass", "buffer = \"10kB\""), [""; 0]);
    assert_eq!(misfits(racks, "top", "buffer = \"10kB\""), [""; 0]);
}

/// Ten packets of 1500 B are sent at once. One of them is under way while nine wait, in 13.5 kB.
#[test]
fn a_first_window_beyond_the_port_of_its_own_host_is_a_misfit() {
    for (transport, key) in [
        ("tcp", "initial_window"),
        ("dctcp", "initial_window"),
        ("pias", "tcp.initial_window"),
        ("las", "initial_window"),
        ("pfabric", "initial_window"),
    ] {
        let plan = |fabric: &str, size: &str| {
            let workload = format!("kind = \"burst\"\nflows = 1\nsizes = {{ fixed = \"{size}\" }}");
            let text =
                scenario("kind = \"single_switch\", hosts = 2", &format!("fabric = {{ {fabric} }}"), &workload, transport);
            load(Path::new(""), &format!("{text}{transport}.{key} = 10\n"))
        };
        let lost = |plan: Plan| {
            let report = simulate(plan, Execution::new(&mut |_, _, _| true, &mut Nowhere)).unwrap().report;
            report.ports.iter().map(|port| port.dropped_data_packets).sum::<u64>()
        };
        let fits = plan("buffer = \"13.5kB\"", "14600B");
        assert_eq!(fits.setup.misfits, [""; 0], "{transport}");
        assert_eq!(lost(fits), 0, "{transport}");
        let small = plan("buffer = \"13499B\"", "14600B");
        let [found] = &small.setup.misfits[..] else { panic!("{transport}: {:?}", small.setup.misfits) };
        assert!(found.starts_with(&format!("transport.{transport}.{key}: the first 10 packets of a flow are 15kB")), "{found}");
        assert!(lost(small) > 0, "{transport}");
        // A flow of nine packets never has ten under way.
        assert_eq!(plan("buffer = \"13499B\"", "13.1kB").setup.misfits, [""; 0]);
    }
}

/// Policies that go by something that a flow may lack, with the workloads that have it.
#[test]
fn a_policy_without_its_input_is_a_misfit() {
    const POISSON: &str = "kind = \"poisson\"\nload = 0.5\nflows = 20\nsizes = \"imc10\"\n";
    let deadlines = format!("{POISSON}deadline = {{ kind = \"exponential\", mean = \"1ms\", floor = 1.25 }}\n");
    let tenants = format!("{POISSON}tenant = [{{ name = \"a\", share = 0.5 }}, {{ name = \"b\", share = 0.5 }}]\n");
    let one_tenant = format!("{POISSON}tenant = [{{ name = \"a\", share = 1.0 }}]\n");
    let coflows = "kind = \"incast\"\nsenders = 2\nbytes = \"20kB\"\nrequests = 2\nperiod = \"1ms\"\n".to_owned();
    let misfits = |workload: &str, transport: &str, key: &str, value: &str| -> Vec<String> {
        let topology = "kind = \"single_switch\", hosts = 4, host_rate = \"10Gb/s\"";
        let given = if key == "name" { String::new() } else { format!("{transport}.{key} = \"{value}\"\n") };
        let fabric = "fabric = { routing = \"ecmp_symmetric\", buffer = \"360kB\" }";
        load(Path::new(""), &(scenario(topology, fabric, workload, transport) + &given)).setup.misfits
    };
    for (transport, key, value, has, lacks) in [
        ("phost", "policy", "edf", &deadlines, [POISSON, &coflows]),
        ("phost", "policy", "tenant_fair", &tenants, [&one_tenant, &deadlines]),
        ("phost", "policy", "smallest_coflow", &coflows, [POISSON, &tenants]),
        ("pase", "criterion", "deadline", &deadlines, [POISSON, &coflows]),
        ("pase", "criterion", "task", &coflows, [POISSON, &deadlines]),
        ("pfabric", "priority", "deadline", &deadlines, [POISSON, &coflows]),
        ("pfabric", "priority", "coflow_size", &coflows, [POISSON, &deadlines]),
        ("top", "priority", "deadline", &deadlines, [POISSON, &coflows]),
        ("top", "priority", "coflow", &coflows, [POISSON, &deadlines]),
        ("fastpass", "policy", "deadline", &deadlines, [POISSON, &coflows]),
        ("pias", "controller", "d2tcp", &deadlines, [POISSON, &coflows]),
        ("d2tcp", "name", "d2tcp", &deadlines, [POISSON, &coflows]),
        ("d3", "name", "d3", &deadlines, [POISSON, &coflows]),
        ("ideal", "order", "edf", &deadlines, [POISSON, &coflows]),
    ] {
        assert_eq!(misfits(has, transport, key, value), [""; 0], "{transport}.{key} = {value}");
        let whole = if key == "name" { "transport.name".to_owned() } else { format!("transport.{transport}.{key}") };
        for lacks in lacks {
            let [found] = &misfits(lacks, transport, key, value)[..] else { panic!("{transport}.{key} = {value}: {lacks}") };
            assert!(found.starts_with(&format!("{whole}: ")) && found.contains(value), "{found}");
        }
    }
    // What goes by sizes alone needs nothing.
    for (transport, key, value) in
        [("phost", "policy", "srpt"), ("pase", "criterion", "size"), ("dctcp", "rto_rule", "linux"), ("pdq", "name", "")]
    {
        assert_eq!(misfits(POISSON, transport, key, value), [""; 0], "{transport}");
    }
}

/// The parameters that the papers give for their own networks suit these.
#[test]
fn the_papers_own_parameters_suit_their_networks() {
    for paper in ["phost", "pias", "pase", "top"] {
        let path = format!("{}/../../papers/{paper}/default.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let plan = Scenario::load(&text, &path, &[]).and_then(|scenario| Plan::new(&scenario.validate()?)).unwrap();
        assert_eq!(plan.setup.misfits, [""; 0], "{paper}");
    }
}
