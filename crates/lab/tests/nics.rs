//! Hosts with several links: what flows take over them, by hand and for every transport, and what is refused.

mod blasting;

use std::path::PathBuf;

use flowloom_core::{Bytes, Duration, Flow, LinkId, NodeId, Time};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, Plan, ScenarioError, catalogue, run};

use crate::blasting::blasted;

/// Every host with a link to each of two switches.
const TWO_PLANES: &str = "kind = \"single_switch\", hosts = 4, host_rate = \"10Gb/s\", delay = \"1us\", planes = 2";
const ONE_PLANE: &str = "kind = \"single_switch\", hosts = 4, host_rate = \"10Gb/s\", delay = \"1us\"";
/// Transports whose control host would have to be in several networks.
const ONE_ARBITER: [&str; 1] = ["fastpass"];

/// Transports whose receivers draw the spaces between credits, so that two flows alone differ.
const DRAWN: [&str; 2] = ["expresspass", "top"];

/// A folder with a trace of flows and, if there is one, a network file.
fn folder(name: &str, flows: &[(f64, &str, &str, u64)], network: &str) -> PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nics").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let rows: Vec<String> = flows.iter().map(|(start, src, dst, bytes)| format!("{start:e},{src},{dst},{bytes}\n")).collect();
    std::fs::write(folder.join("trace.csv"), format!("start_s,src,dst,bytes\n{}", rows.concat())).unwrap();
    std::fs::write(folder.join("network.toml"), network).unwrap();
    folder
}

fn load(folder: &std::path::Path, topology: &str, overrides: &[String]) -> Result<Scenario, ScenarioError> {
    let text = format!(
        "topology = {{ {topology} }}\nworkload = {{ kind = \"trace\", file = \"trace.csv\" }}\n\
         fabric.buffer = \"1MB\"\nfabric.switching = \"store_and_forward\"\ntransport.name = \"dctcp\"\n"
    );
    Scenario::load(&text, &folder.join("scenario.toml").display().to_string(), overrides)
}

fn planned(folder: &std::path::Path, topology: &str, overrides: &[String]) -> Result<Plan, ScenarioError> {
    load(folder, topology, overrides).and_then(|scenario| Plan::new(&scenario.validate()?))
}

fn outcome(folder: &std::path::Path, topology: &str, overrides: &[String]) -> Outcome {
    let scenario = load(folder, topology, overrides).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{error}"))
}

fn fcts(outcome: &Outcome) -> Vec<Duration> {
    outcome.rows.iter().map(|row| row.fct().expect("it ends")).collect()
}

/// Two flows from one host, and two to one, do not meet on different planes: each takes what it takes alone in one plane, to the picosecond. On one plane, they share a link.
#[test]
fn flows_on_different_planes_do_not_touch_each_other_under_any_transport() {
    let bytes = 300_000;
    for (name, pair) in [("out", [("h0", "h1"), ("h0", "h2")]), ("in", [("h1", "h0"), ("h2", "h0")])] {
        let both = folder(name, &pair.map(|(src, dst)| (0.0, src, dst, bytes)), "");
        let alone = folder(&format!("{name}-alone"), &[(0.0, pair[0].0, pair[0].1, bytes)], "");
        for entry in catalogue::TRANSPORTS {
            let transport = format!("transport.name={}", entry.name);
            if ONE_ARBITER.contains(&entry.name) {
                let error = planned(&both, TWO_PLANES, &[transport]).map(drop).unwrap_err().to_string();
                assert!(error.contains("has one control host") && error.contains("h0:2"), "{error}");
                continue;
            }
            let expected = fcts(&outcome(&alone, ONE_PLANE, std::slice::from_ref(&transport)))[0];
            let mut seen = [false; 2];
            for seed in 1..=12 {
                let outcome = outcome(&both, TWO_PLANES, &[transport.clone(), format!("run.seed={seed}")]);
                let network = &outcome.network;
                let planes = outcome.rows.iter().map(|row| {
                    let planes = [row.flow.src, row.flow.dst].map(|nic| usize::from(nic != network.host_of(nic)));
                    assert_eq!(planes[0], planes[1], "no link leads to the other plane");
                    planes[0]
                });
                let planes: Vec<usize> = planes.collect();
                let apart = planes[0] != planes[1];
                seen[usize::from(apart)] = true;
                let fcts = fcts(&outcome);
                if apart {
                    let differs = fcts.iter().map(|fct| fct.as_ps().abs_diff(expected.as_ps())).max().unwrap();
                    let most = if DRAWN.contains(&entry.name) { expected.as_ps() / 20 } else { 0 };
                    assert!(differs <= most, "{} with seed {seed}, {pair:?}: {fcts:?} and {expected}", entry.name);
                } else {
                    // 200 packets of 1500 B at 10 Gb/s would take 240 us for one of the two.
                    let longest = fcts.iter().max().unwrap();
                    assert!(*longest > expected + Duration::from_us(200), "{}: {fcts:?} and {expected}", entry.name);
                }
                if seen == [true; 2] {
                    break;
                }
            }
            assert_eq!(seen, [true; 2], "a hash chooses both planes in twelve tries");
        }
    }
}

/// A host with three links: 10 Gb/s to the switch of b, 40 Gb/s to that of c, and a cable to d. The second and the third NIC have names of their own.
const THREE_LINKS: &str = "
node = [
  { name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"host\" }, { name = \"c\", kind = \"host\" }, { name = \"d\", kind = \"host\" },
  { name = \"x\", kind = \"switch\" }, { name = \"y\", kind = \"switch\" },
]
link = [
  { a = \"a\", b = \"x\", rate = \"10Gb/s\", delay = \"1us\" }, { a = \"y\", b = \"a\", rate = \"40Gb/s\", delay = \"2us\" },
  { a = \"a\", b = \"d\", rate = \"100Gb/s\", delay = \"3us\" }, { a = \"b\", b = \"x\", rate = \"10Gb/s\", delay = \"1us\" },
  { a = \"c\", b = \"y\", rate = \"40Gb/s\", delay = \"2us\" }, { a = \"x\", b = \"y\", rate = \"10Gb/s\", delay = \"5us\" },
  { a = \"d\", b = \"x\", rate = \"10Gb/s\", delay = \"1us\" },
]
";
const CUSTOM: &str = "kind = \"custom\", file = \"network.toml\"";

/// Flows take the links by which they have the fewest hops, all at once since they share none. One packet of 1500 B takes 1.2 µs at 10 Gb/s, 0.3 µs at 40 Gb/s and 0.12 µs at 100 Gb/s.
#[test]
fn a_flow_takes_the_nearest_nics() {
    let pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("d", "b"), ("b", "c")];
    let folder = folder("three-links", &pairs.map(|(src, dst)| (0.0, src, dst, 1460)), THREE_LINKS);
    let plan = planned(&folder, CUSTOM, &[]).unwrap_or_else(|error| panic!("{error}"));
    let network = &plan.setup.network;
    let names: Vec<&str> = (0..network.nics() as u32).map(|nic| network.node(NodeId(nic)).name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "a:2", "a:3", "d:2"]);
    let used: Vec<[&str; 2]> = plan.flows.own.iter().map(|flow| [flow.src, flow.dst].map(|nic| names[nic.index()])).collect();
    // The first link of d in the file is the cable.
    assert_eq!(used, [["a", "b"], ["a:2", "c"], ["a:3", "d"], ["d:2", "b"], ["b", "c"]]);
    for regions in [1, 2, 3] {
        let report = blasted(&plan, regions);
        let received: Vec<u64> = report.records.iter().map(|record| (record.received - Time::ZERO).as_ps() / 1000).collect();
        // The packet from d to b waits at the switch for that from a, which came at the same time, or the other way round.
        let (alone, second) = (2 * 1200 + 2000, 3 * 1200 + 2000);
        assert!([[alone, second], [second, alone]].contains(&[received[0], received[3]]), "{received:?}");
        assert_eq!([received[1], received[2], received[4]], [2 * 300 + 4000, 120 + 3000, 2 * 1200 + 300 + 1000 + 5000 + 2000]);
    }
}

/// Two hosts on a cable: a flow takes what its packets take on it.
#[test]
fn hosts_can_be_joined_directly_under_every_transport() {
    let cable = "node = [{ name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"host\" }]\n\
                 link = [{ a = \"a\", b = \"b\", rate = \"10Gb/s\", delay = \"1us\" }]\n";
    let folder = folder("cable", &[(0.0, "a", "b", 146_000), (0.0, "b", "a", 1460)], cable);
    let plan = planned(&folder, CUSTOM, &[]).unwrap_or_else(|error| panic!("{error}"));
    let report = blasted(&plan, 2);
    // 100 packets of 1.2 us, and among them an acknowledgement of 40 B.
    assert_eq!(report.records[0].received - Time::ZERO, Duration::from_ns(121_000 + 32));
    for entry in catalogue::TRANSPORTS {
        let transport = format!("transport.name={}", entry.name);
        if ONE_ARBITER.contains(&entry.name) {
            let error = planned(&folder, CUSTOM, &[transport]).map(drop).unwrap_err().to_string();
            assert!(error.contains("has one control host") && error.contains("leads to another host"), "{error}");
            continue;
        }
        let outcome = outcome(&folder, CUSTOM, &[transport]);
        let least = Duration::from_us(121);
        assert!(fcts(&outcome)[0] >= least && fcts(&outcome)[0] < least * 2, "{}: {:?}", entry.name, fcts(&outcome));
    }
}

/// Two hosts on each of two switches, which one or two links of 10 Gb/s join: as much as the two flows need.
fn parallel(links: usize) -> String {
    let hosts = ["a", "b", "c", "d"].map(|name| format!("{{ name = \"{name}\", kind = \"host\" }}, ")).concat();
    let access = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")].map(|(host, switch)| link(host, switch)).concat();
    let middle = link("x", "y").repeat(links);
    format!(
        "node = [{hosts}{{ name = \"x\", kind = \"switch\" }}, {{ name = \"y\", kind = \"switch\" }}]\nlink = [{access}{middle}]\n"
    )
}

fn link(a: &str, b: &str) -> String {
    format!("{{ a = \"{a}\", b = \"{b}\", rate = \"10Gb/s\", delay = \"1us\" }}, ")
}

/// Over two parallel links, two flows take what each takes alone, where packets are sprayed, or where a hash puts the flows on different links. A flow of 205 packets takes 205 x 1.2 us at
/// 10 Gb/s, twice 1.2 us for storing, and 3 us on the links; sprayed packets of the two can wait for each other once.
#[test]
fn parallel_links_carry_what_both_can_under_every_transport() {
    let flows = [(0.0, "a", "c", 299_300), (0.0, "b", "d", 299_300)];
    let [one, two] = [1, 2].map(|links| folder(&format!("parallel-{links}"), &flows, &parallel(links)));
    let received = |folder: &std::path::Path| {
        let sprayed = ["fabric.routing=spray_round_robin".to_owned()];
        let plan = planned(folder, CUSTOM, &sprayed).unwrap_or_else(|error| panic!("{error}"));
        blasted(&plan, 1).records.into_iter().map(|record| record.received - Time::ZERO).max().unwrap()
    };
    let alone = Duration::from_ns(205 * 1200 + 2 * 1200 + 3000);
    assert!((alone..=alone + Duration::from_ns(1200)).contains(&received(&two)), "{}", received(&two));
    // All packets of both cross the one link.
    assert_eq!(received(&one), alone + Duration::from_ns(205 * 1200));
    // The bound sees hosts' links alone.
    for entry in catalogue::TRANSPORTS.iter().filter(|entry| entry.profiles.is_some()) {
        let longest = |folder: &std::path::Path, seed: u64| {
            let overrides = [format!("transport.name={}", entry.name), format!("run.seed={seed}")];
            fcts(&outcome(folder, CUSTOM, &overrides)).into_iter().max().unwrap()
        };
        let best = (1..=12).map(|seed| longest(&two, seed)).min().unwrap();
        let of_one = longest(&one, 1);
        assert!(best < of_one.scale(0.75), "{}: {best} over two links, {of_one} over one", entry.name);
    }
}

/// Servers of four accelerators on four rails, with switches inside.
const RAILS: &str = "kind = \"rails\", pods = 1, servers_per_pod = 2, accelerators = 4, spines = 2, host_rate = \"10Gb/s\", spine_rate = \"10Gb/s\", \
                     inside_rate = \"100Gb/s\", delay = \"1us\", inside_delay = \"300ns\"";

/// A ring over two servers of four: six of eight sends stay in a server, and two cross from one rail to another. A rank receives through one NIC and sends through another there. The
/// time of each step follows from those before it at the rank and at the one before it.
#[test]
fn a_ring_through_rails_takes_its_closed_form_in_any_number_of_regions() {
    let (ranks, compute) = (8, Duration::from_us(1));
    let folder = folder("rails", &[], "");
    let job = "workload={ kind = \"collective\", collective = \"all_gather\", algorithm = \"ring\", size = \"80kB\", compute = \"1us\" }";
    let plan = planned(&folder, RAILS, &[job.to_owned()]).unwrap_or_else(|error| panic!("{error}"));
    let network = &plan.setup.network;
    // From each rank to the next: inside a server, over two links of 100 Gb/s; from rank 3 to 4 and from 7 to 0, over four of 10 Gb/s.
    let step = |rank: usize| {
        let inside = rank % 4 != 3;
        let (src, dst) = (rank as u32, (rank as u32 + 1) % 8);
        let nic = |host: u32| NodeId(if inside { 8 + host } else { host });
        let path = network.path(nic(src), nic(dst));
        assert_eq!(path.len(), if inside { 2 } else { 4 });
        network.flow_time(&path, Bytes::new(10_000), &plan.setup.wire)
    };
    // Six packets of 1500 B and one of 1280 B, at 100 Gb/s: 7 x 0.12 us until the sixth has passed both links, 0.1024 us for the last one, and twice 0.3 us.
    assert_eq!(step(0), Duration::from_ps(840_000 + 102_400 + 600_000));
    // When each rank has received the block of the last step. A link sends one block after the other, in this order.
    let mut received = vec![Duration::ZERO; ranks];
    let mut free = vec![Duration::ZERO; ranks];
    let service = |rank: usize| {
        (network.nic_rate(NodeId(if rank % 4 == 3 { rank } else { 8 + rank } as u32))).transmit_time(Bytes::new(10_280))
    };
    for _ in 1..ranks {
        let begins: Vec<Duration> = (0..ranks).map(|rank| (received[rank] + compute).max(free[rank])).collect();
        for rank in 0..ranks {
            received[(rank + 1) % ranks] = begins[rank] + step(rank);
            free[rank] = begins[rank] + service(rank);
        }
    }
    let last = received.into_iter().max().unwrap();
    let reports = [1, 2, 3].map(|regions| blasted(&plan, regions));
    for report in &reports {
        assert_eq!(report.records.iter().map(|record| record.received).max().unwrap() - Time::ZERO, last);
        assert_eq!(report.records, reports[0].records);
    }
}

/// The NICs of a thousand flows from h0 to h1.
fn nics_of(choice: &str, topology: &str, network: &str) -> Vec<[NodeId; 2]> {
    let flows = vec![(0.0, "h0", "h1", 1); 1000];
    let folder = folder(&format!("choice-{choice}-{}", network.len()), &flows, network);
    let plan = planned(&folder, topology, &[format!("fabric.nics={choice}")]).unwrap_or_else(|error| panic!("{error}"));
    plan.flows.own.iter().map(|Flow { src, dst, .. }| [*src, *dst]).collect()
}

#[test]
fn the_choice_is_even_or_keeps_to_numbers_or_to_the_first() {
    // Both links of both hosts lead to one switch, so that there are four pairs.
    let mesh = "node = [{ name = \"h0\", kind = \"host\" }, { name = \"h1\", kind = \"host\" }, { name = \"x\", kind = \"switch\" }]\n\
                link = [{ a = \"h0\", b = \"x\", rate = \"10Gb/s\" }, { a = \"h0\", b = \"x\", rate = \"10Gb/s\" }, { a = \"h1\", b = \"x\", rate = \"10Gb/s\" }, \
                { a = \"h1\", b = \"x\", rate = \"10Gb/s\" }]\n";
    for (choice, planes, pairs) in [("flow_hash", 2, 4), ("same_number", 2, 2), ("first", 1, 1)] {
        for (topology, network, expected) in [(TWO_PLANES, "", planes), (CUSTOM, mesh, pairs)] {
            let found = nics_of(choice, topology, network);
            let mut counts = std::collections::BTreeMap::new();
            found.iter().for_each(|pair| *counts.entry(*pair).or_insert(0_u32) += 1);
            assert_eq!(counts.len(), expected, "{choice} {counts:?}");
            // Five standard deviations of a binomial distribution are at most 5 × √(1000 × ½ × ½) = 79.
            let each = 1000 / expected as u32;
            assert!(counts.values().all(|count| count.abs_diff(each) < 79), "{choice} {counts:?}");
        }
    }
}

/// A load of 0.4 is 0.4 of both links of each host: twice as many bytes per second as with one.
#[test]
fn a_load_is_that_of_the_busiest_link() {
    let folder = folder("load", &[], "");
    let last = |topology: &str, class: &str| {
        let workload = format!(
            "workload={{ kind = \"poisson\", sizes = {{ fixed = \"10kB\" }}, load = 0.4, flows = 2000, load_link = \"{class}\" }}"
        );
        let plan = planned(&folder, topology, &[workload]).unwrap_or_else(|error| panic!("{error}"));
        plan.flows.own.last().unwrap().start.as_secs_f64()
    };
    let fabric = "kind = \"leaf_spine\", racks = 2, hosts_per_rack = 3, spines = 2";
    for class in ["host", "core", "network"] {
        let ratio = last(fabric, class) / last(&format!("{fabric}, planes = 2"), class);
        assert!((ratio - 2.0).abs() < 1e-6, "{class}: {ratio}");
    }
}

/// A host goes down with all its NICs.
#[test]
fn a_host_that_goes_down_takes_all_its_nics_with_it() {
    let flows: Vec<_> = (0..20).map(|_| (0.0, "h0", "h1", 1_000_000)).collect();
    let folder = folder("outage", &flows, "");
    let fault = "fault=[{ kind = \"node_down\", node = \"h1\", from = \"10us\", to = \"1s\" }]".to_owned();
    let outcome = outcome(&folder, TWO_PLANES, &[fault]);
    let planes: std::collections::BTreeSet<NodeId> = outcome.rows.iter().map(|row| row.flow.dst).collect();
    assert_eq!(planes.len(), 2);
    assert!(outcome.rows.iter().all(|row| row.aborted.is_some()));
}

/// The first link of h0 is down from 100 us to 400 us, which is known after 50 us. Flows that start in the time between use the second one, and no other link is avoided.
#[test]
fn flows_avoid_a_link_that_is_known_to_be_down() {
    let flows: Vec<_> = (0..200).map(|number| (f64::from(number) * 5e-6, "h0", "h1", 1000)).collect();
    let folder = folder("avoided", &flows, "");
    let fault =
        "fault=[{ kind = \"link_down\", where = \"h0-p1.s0\", from = \"100us\", to = \"400us\", reroute_after = \"50us\" }]"
            .to_owned();
    for entry in catalogue::TRANSPORTS {
        let overrides = [fault.clone(), format!("transport.name={}", entry.name)];
        match planned(&folder, TWO_PLANES, &overrides) {
            Err(error) => {
                let why = ["one control host", "routes of"];
                assert!(why.iter().any(|why| error.to_string().contains(why)), "{}: {error}", entry.name);
            }
            Ok(plan) => {
                let first = |known: bool| {
                    let is_known =
                        |flow: &&Flow| (150..450).contains(&((flow.start - Time::ZERO).as_ps() / 1_000_000)) == known;
                    plan.flows.own.iter().filter(is_known).filter(|flow| flow.src == NodeId(0)).count()
                };
                // Of the 140 others, 70 on average, and at most five standard deviations of 6 from that.
                assert!(first(true) == 0 && first(false).abs_diff(70) < 30, "{} {}", first(true), first(false));
                let outcome = outcome(&folder, TWO_PLANES, &overrides);
                assert!(outcome.rows.iter().all(|row| row.finish.is_some()), "{}", entry.name);
            }
        }
    }
}

/// What belongs to a further link of h0 is named by it: losses there concern no other link.
#[test]
fn links_of_further_nics_have_names() {
    let flows: Vec<_> = (0..40).map(|_| (0.0, "h0", "h1", 10_000)).collect();
    let folder = folder("names", &flows, "");
    let fault = "fault=[{ kind = \"loss\", where = \"h0:2-p2.s0\", probability = 0.2 }]".to_owned();
    let outcome = outcome(&folder, TWO_PLANES, &[fault]);
    let lost = |row: &&flowloom_lab::metrics::Row| row.retransmissions > 0;
    assert!(outcome.rows.iter().any(|row| lost(&row)));
    assert!(outcome.rows.iter().filter(lost).all(|row| row.flow.src == NodeId(4)));
    let links = outcome.network.links().len() as u32;
    assert_eq!((0..links).map(LinkId).filter(|link| outcome.network.link_name(*link) == "h0:2-p2.s0").count(), 1);
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let line = "node = [{ name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"host\" }, { name = \"c\", kind = \"host\" }]\n\
                link = [{ a = \"a\", b = \"b\", rate = \"10Gb/s\" }, { a = \"b\", b = \"c\", rate = \"10Gb/s\" }]\n";
    let taken = "node = [{ name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"host\" }, { name = \"a:2\", kind = \"switch\" }]\n\
                 link = [{ a = \"a\", b = \"a:2\", rate = \"10Gb/s\" }, { a = \"a\", b = \"b\", rate = \"10Gb/s\" }, { a = \"b\", b = \"a:2\", rate = \"10Gb/s\" }]\n";
    let without = "node = [{ name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"host\" }, { name = \"c\", kind = \"host\" }]\n\
                   link = [{ a = \"a\", b = \"b\", rate = \"10Gb/s\" }]\n";
    let cases = [
        (
            CUSTOM,
            line,
            "",
            "there is a flow from a to c, but no path joins NICs of these hosts; hosts do not forward packets of others",
        ),
        (CUSTOM, taken, "", "\"a:2\" is what a further link of a host is called by"),
        (CUSTOM, without, "", "host c has no link"),
        (ONE_PLANE, "", "fabric.nics=first", "each host of this network has one link"),
        (ONE_PLANE, "", "topology.planes=17", "planes"),
        ("kind = \"rails\", inside_delay = \"1us\"", "", "", "there are no links inside servers; give inside_rate, too"),
        (
            TWO_PLANES,
            "",
            "fault=[{ kind = \"link_down\", where = \"host-switch\", from = \"0s\", to = \"1s\", reroute_after = \"1us\" }]",
            "some nodes cannot be reached",
        ),
    ];
    for (index, (topology, network, more, expected)) in cases.into_iter().enumerate() {
        let flow = if network.is_empty() { (0.0, "h0", "h1", 1) } else { (0.0, "a", "c", 1) };
        let flow = if network == taken { (0.0, "a", "b", 1) } else { flow };
        let folder = folder(&format!("refused-{index}"), &[flow], network);
        let overrides: Vec<String> = (!more.is_empty()).then(|| more.to_owned()).into_iter().collect();
        let error = planned(&folder, topology, &overrides).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{index}: {error}");
    }
}

/// The two NICs of a host go down at once with it, so that neither can go down meanwhile on its own.
#[test]
fn a_nic_cannot_go_down_while_its_host_is() {
    let folder = folder("twice", &[(0.0, "h0", "h1", 1000)], "");
    let fault = |[first, from, to]: [&str; 3], second: &str| {
        let down = |node: &str, from: &str, to: &str| {
            format!("{{ kind = \"node_down\", node = \"{node}\", from = \"{from}\", to = \"{to}\" }}")
        };
        let faults = format!("fault=[{}, {}]", down(first, from, to), down(second, "1ms", "2ms"));
        planned(&folder, TWO_PLANES, &[faults]).map(|plan| plan.setup.outages.len()).map_err(|error| error.to_string())
    };
    let both = fault(["h0", "0s", "1ms"], "h0:2").unwrap_err();
    assert!(
        both.contains("fault.1.from: found 1ms; h0:2 is down until 1ms already, give one fault for both or a later time"),
        "{both}"
    );
    let both = fault(["h0:2", "1500us", "3ms"], "h0").unwrap_err();
    assert!(both.contains("fault.0.from: found 1.5ms; h0:2 is down until 2ms already"), "{both}");
    assert_eq!(fault(["h0", "0s", "999us"], "h0:2"), Ok(3));
    assert_eq!(fault(["h0:2", "0s", "2ms"], "h1:2"), Ok(2));
}
