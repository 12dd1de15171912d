//! Samples over the course of a run: hand-worked series, and sums that must agree with the counters of the run.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::{Duration, LinkId, Time};
use flowloom_lab::observe::{InMemory, Samples, Table};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Plan, Simulated, catalogue, simulate};

const FABRIC: &str = r#"
topology = { kind = "leaf_spine", racks = 2, hosts_per_rack = 3, spines = 2, host_rate = "10Gb/s", core_rate = "10Gb/s" }
fabric = { routing = "ecmp_symmetric", buffer = "400kB" }
workload = { kind = "poisson", sizes = "web_search", load = 0.7, flows = 40, deadline = { kind = "exponential", mean = "5ms" } }
transport.name = "phost"
"#;
const EVERYTHING: &str = r#"observe={ queues = ["all"], links = ["all"], flows = "all", hosts = ["all"], period = "7us" }"#;

fn simulated(text: &str, overrides: &[&str]) -> (Plan, Simulated, BTreeMap<&'static str, Table>) {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::load(text, "scenario.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut sink = InMemory::default();
    let simulated = simulate(&plan, &mut |_, _, _| true, &mut sink).unwrap_or_else(|error| panic!("{error}"));
    (plan, simulated, sink.tables.into_iter().map(|table| (table.name, table)).collect())
}

/// Runs a scenario whose flows are the rows of `flows.csv`, in a folder of its own, and returns the end of the run and the samples.
fn traced(folder: &str, rows: &str, text: &str) -> (Time, BTreeMap<&'static str, Table>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("observe").join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("flows.csv"), format!("start_s,src,dst,bytes\n{rows}")).unwrap();
    let path = folder.join("scenario.toml").display().to_string();
    let scenario = Scenario::load(text, &path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut sink = InMemory::default();
    let simulated = simulate(&plan, &mut |_, _, _| true, &mut sink).unwrap_or_else(|error| panic!("{error}"));
    (simulated.report.end, sink.tables.into_iter().map(|table| (table.name, table)).collect())
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    table.column(column).to_numbers()
}

/// The sum of a product of columns for each value of `key`.
fn sums(table: &Table, key: &str, factors: &[&str]) -> BTreeMap<u32, f64> {
    let mut sums = BTreeMap::new();
    let factors: Vec<Vec<f64>> = factors.iter().map(|column| numbers(table, column)).collect();
    for (row, key) in numbers(table, key).into_iter().enumerate() {
        *sums.entry(key as u32).or_default() += factors.iter().map(|column| column[row]).product::<f64>();
    }
    sums
}

fn transports() -> Vec<String> {
    let names = catalogue()["transports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect::<Vec<_>>();
    names.into_iter().filter(|name| name != "ideal").collect()
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()) + 1e-15
}

/// What is added up over the samples of a link, a flow or a host is what the run has counted, under every transport, with faults and over flow control as well.
/// The results do not depend on whether somebody looks.
#[test]
fn sums_over_samples_are_the_counters_of_the_run() {
    let loss = r#"fault=[{ kind = "loss", where = "all", probability = 0.01 }, { kind = "reorder", where = "all", probability = 0.1, delay = "9us" }]"#;
    let variants: [&[&str]; 3] = [&[], &[loss], &["fabric.pfc={}"]];
    let mut runs = 0;
    for name in transports() {
        for variant in variants {
            let transport = format!("transport.name={name}");
            let overrides: Vec<&str> = [transport.as_str()].into_iter().chain(variant.iter().copied()).collect();
            if Scenario::load(FABRIC, "", &overrides.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
                .unwrap()
                .validate()
                .is_err()
            {
                continue; // it cannot run over flow control
            }
            runs += 1;
            let (_, blind, _) = simulated(FABRIC, &overrides);
            let (plan, seen, tables) = simulated(FABRIC, &[&overrides[..], &[EVERYTHING]].concat());
            assert_eq!(blind.report.records, seen.report.records, "{overrides:?}");
            assert_eq!(blind.report.events, seen.report.events, "{overrides:?}");
            check_links(&plan, &seen, &tables);
            check_flows(&seen, &tables);
        }
    }
    assert!(runs > 2 * transports().len(), "{runs}");
}

fn check_links(plan: &Plan, seen: &Simulated, tables: &BTreeMap<&str, Table>) {
    let (queues, links) = (&tables["queues"], &tables["links"]);
    let byte_seconds = sums(queues, "link", &["mean_bytes", "span"]);
    let packet_seconds = sums(queues, "link", &["mean_packets", "span"]);
    let counted: BTreeMap<&str, BTreeMap<u32, f64>> = ["packets", "bytes", "drops", "data_drops", "marks", "trims", "paused"]
        .map(|column| (column, sums(links, "link", &[column])))
        .into();
    let get = |sums: &BTreeMap<u32, f64>, link: u32| sums.get(&link).copied().unwrap_or_default();
    for link in 0..plan.network.links().len() as u32 {
        let port = &seen.report.ports[LinkId(link).index()];
        let told = |column: &str| get(&counted[column], link);
        assert!(near(get(&byte_seconds, link), port.byte_time as f64 * 1e-12), "{link}");
        assert!(near(get(&packet_seconds, link), port.packet_time as f64 * 1e-12), "{link}");
        let [packets, bytes, drops] = [port.packets(), port.bytes(), port.drops()].map(|count| count as f64);
        assert_eq!((told("packets"), told("bytes"), told("drops")), (packets, bytes, drops), "{link}");
        let [lost, marks, trims] =
            [port.dropped_data_packets, port.marked_packets, port.trimmed_packets].map(|count| count as f64);
        assert_eq!((told("data_drops"), told("marks"), told("trims")), (lost, marks, trims), "{link}");
        if let Some(pauses) = &seen.recorded.pauses {
            // A link that is paused until just after the end counts as paused until then in the one, and until the end in the other.
            let paused = pauses[LinkId(link).index()].longest().as_secs_f64();
            assert!((told("paused") - paused).abs() < 2e-6, "{link}: {} and {paused}", told("paused"));
        }
    }
    let classes = (0..8).map(|class| {
        numbers(
            queues,
            [
                "class_0_bytes",
                "class_1_bytes",
                "class_2_bytes",
                "class_3_bytes",
                "class_4_bytes",
                "class_5_bytes",
                "class_6_bytes",
                "class_7_bytes",
            ][class],
        )
    });
    let by_class = classes.reduce(|sum, class| sum.iter().zip(&class).map(|(one, other)| one + other).collect()).unwrap();
    assert_eq!(by_class, numbers(queues, "bytes"));
}

fn check_flows(seen: &Simulated, tables: &BTreeMap<&str, Table>) {
    let (flows, hosts) = (&tables["flows"], &tables["hosts"]);
    let delivered = sums(flows, "flow", &["goodput_gbps", "span"]);
    let received = sums(hosts, "host", &["received_bytes"]);
    let mut by_host: BTreeMap<u32, f64> = BTreeMap::new();
    for (flow, record) in seen.report.flows.iter().zip(&seen.report.records) {
        if record.aborted.is_some() {
            continue;
        }
        assert!(near(delivered[&flow.id.0] * 1e9 / 8.0, flow.size.get() as f64), "{flow:?}");
        *by_host.entry(flow.dst.0).or_default() += flow.size.get() as f64;
    }
    if seen.report.records.iter().all(|record| record.aborted.is_none()) {
        assert_eq!(received, by_host);
    }
    let times = numbers(flows, "time");
    let keys: Vec<(u64, f64)> = times.iter().zip(numbers(flows, "flow")).map(|(time, flow)| (time.to_bits(), flow)).collect();
    assert!(keys.is_sorted(), "samples are in the order of time and flow");
}

/// Two hosts send ten packets each to a third one at once. Packets of 1500 B take 1.2 us on each link, and links 1 us: the first two come to the switch after 2.2 us,
/// and another two every 1.2 us, while one leaves. Halfway between, the port holds 1, 2, ... 10 packets, and then one less each time.
#[test]
fn the_queue_of_an_incast_by_hand() {
    let text = r#"
topology = { kind = "single_switch", hosts = 3, host_rate = "10Gb/s", delay = "1us" }
fabric = { buffer = "30kB" }
workload = { kind = "trace", file = "flows.csv" }
transport = { name = "pfabric", pfabric = { initial_window = 10, max_window = 10, rto = "1ms" } }
observe = { queues = ["s0-h2"], period = "1.2us", from = "1.6us", to = "30us" }
"#;
    let (_, tables) = traced("incast", "0,0,2,14600\n0,1,2,14600\n", text);
    let queues = &tables["queues"];
    let mut expected: Vec<(f64, f64)> = (1..=10)
        .chain((1..10).rev())
        .zip(1..)
        .map(|(packets, step)| (1.6 + 1.2 * f64::from(step), f64::from(packets)))
        .collect();
    // The last one left in this time.
    expected.push((1.6 + 1.2 * 20.0, 0.0));
    let found: Vec<(f64, f64)> =
        numbers(queues, "time").into_iter().map(|time| time * 1e6).zip(numbers(queues, "packets")).collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(
        found.iter().zip(&expected).all(|(found, expected)| near(found.0, expected.0) && found.1 == expected.1),
        "{found:?}"
    );
    // The data is in one class, and has the link's name.
    assert_eq!(
        numbers(queues, "class_1_bytes"),
        numbers(queues, "packets").iter().map(|packets| packets * 1500.0).collect::<Vec<_>>()
    );
    let Samples::Names(indices, names) = queues.column("link") else { panic!("names") };
    assert!(indices.iter().all(|index| names[*index as usize] == "s0-h2"));
    // From the first sample after a packet has come: half of 1.2 us with one packet, and then with each number for 1.2 us.
    let means = numbers(queues, "mean_packets");
    assert!(near(means[0], 0.5) && near(means[1], 1.5) && near(means[9], 9.5) && near(means[10], 9.5), "{means:?}");
}

/// Where nothing happens, there are no samples: ten flows in three hours, and a sample each microsecond.
#[test]
fn an_idle_network_is_not_sampled() {
    let rows: String = (0..10).map(|flow| format!("{},0,1,10000\n", 1000 * flow)).collect();
    let text = r#"
topology = { kind = "single_switch", hosts = 2 }
workload = { kind = "trace", file = "flows.csv" }
transport.name = "phost"
observe = { queues = ["all"], links = ["all"], flows = "all", hosts = ["all"], period = "1us" }
"#;
    let (end, tables) = traced("idle", &rows, text);
    assert!(end > Time::ZERO + Duration::from_ms(9_000_000));
    assert!(tables.values().all(|table| table.rows() < 10_000));
    let delivered = sums(&tables["flows"], "flow", &["goodput_gbps", "span"]);
    assert!(delivered.len() == 10 && delivered.values().all(|gigabits| near(*gigabits, 8e-5)), "{delivered:?}");
}
