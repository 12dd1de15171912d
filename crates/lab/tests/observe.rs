//! Samples over the course of a run: hand-worked series, and sums that must agree with the counters of the run.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::{Duration, LinkId, Time};
use flowloom_lab::observe::{InMemory, Samples, Table};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Plan, Simulated, catalogue, simulate};

const FABRIC: &str = r#"
topology = { kind = "leaf_spine", racks = 2, hosts_per_rack = 3, spines = 2, host_rate = "10Gb/s", spine_rate = "10Gb/s" }
fabric = { routing = "ecmp_symmetric", buffer = "400kB" }
workload = { kind = "poisson", sizes = "web_search", load = 0.7, flows = 40, deadline = { kind = "exponential", mean = "5ms" } }
transport.name = "phost"
"#;
const EVERYTHING: &str = r#"observe={ queues = ["all"], links = ["all"], flows = "all", hosts = ["all"], period = "7us" }"#;

fn simulated(text: &str, overrides: &[&str]) -> (Simulated, BTreeMap<&'static str, Table>) {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::load(text, "scenario.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut sink = InMemory::default();
    let simulated = simulate(plan, Execution::new(&mut |_, _, _| true, &mut sink)).unwrap_or_else(|error| panic!("{error}"));
    (simulated, sink.tables.into_iter().map(|table| (table.name, table)).collect())
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
    let simulated = simulate(plan, Execution::new(&mut |_, _, _| true, &mut sink)).unwrap_or_else(|error| panic!("{error}"));
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
            let (blind, _) = simulated(FABRIC, &overrides);
            let (seen, tables) = simulated(FABRIC, &[&overrides[..], &[EVERYTHING]].concat());
            assert_eq!(blind.report.records, seen.report.records, "{overrides:?}");
            assert_eq!(blind.report.events, seen.report.events, "{overrides:?}");
            // The build with all recorders and faults, which are off but for the gaps.
            let (full, _) = simulated(FABRIC, &[&overrides[..], &["metrics.gaps=true"]].concat());
            assert_eq!(blind.report.records, full.report.records, "{overrides:?}");
            check_links(&seen, &tables);
            check_flows(&seen, &tables);
        }
    }
    assert!(runs > 2 * transports().len(), "{runs}");
}

fn check_links(seen: &Simulated, tables: &BTreeMap<&str, Table>) {
    let (queues, links) = (&tables["queues"], &tables["links"]);
    let byte_seconds = sums(queues, "link", &["mean_bytes", "span"]);
    let packet_seconds = sums(queues, "link", &["mean_packets", "span"]);
    let counted: BTreeMap<&str, BTreeMap<u32, f64>> = ["packets", "bytes", "drops", "data_drops", "marks", "trims", "paused"]
        .map(|column| (column, sums(links, "link", &[column])))
        .into();
    let get = |sums: &BTreeMap<u32, f64>, link: u32| sums.get(&link).copied().unwrap_or_default();
    for link in 0..seen.setup.network.links().len() as u32 {
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
    let classes = (0..8).map(|class| numbers(queues, &format!("class_{class}_bytes")));
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
fabric = { buffer = "30kB", switching = "store_and_forward" }
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

/// Host 1 pauses its link from 10 us to 20 us. The first frame takes 67.2 ns on the link of 200 ns, and is obeyed 614.4 ns later, at 10.8816 us; the last one lets the
/// link go on at 20.2672 us.
#[test]
fn a_pause_by_hand() {
    let text = r#"
topology = { kind = "single_switch", hosts = 2, delay = "200ns" }
fabric = { pfc = {}, buffer = "100kB" }
workload = { kind = "trace", file = "flows.csv" }
transport.name = "dctcp"
fault = [{ kind = "pause_storm", node = "h1", from = "10us", to = "20us", every = "4us" }]
observe = { links = ["switch-host"], period = "1us", to = "40us" }
"#;
    let (_, tables) = traced("pause", "0,0,1,100000\n", text);
    let links = &tables["links"];
    let Samples::Names(names, of) = links.column("link") else { panic!("names") };
    let rows = names.iter().zip(numbers(links, "time")).zip(numbers(links, "paused"));
    let paused: Vec<(u64, f64)> = rows
        .filter(|((name, _), paused)| of[**name as usize].ends_with("-h1") && *paused > 0.0)
        .map(|((_, time), paused)| ((time * 1e6).round() as u64, paused * 1e6))
        .collect();
    let expected = [(11, 0.1184)].into_iter().chain((12..=20).map(|us| (us, 1.0))).chain([(21, 0.2672)]);
    let expected: Vec<(u64, f64)> = expected.collect();
    assert_eq!(paused.len(), expected.len(), "{paused:?}");
    assert!(paused.iter().zip(&expected).all(|(one, other)| one.0 == other.0 && (one.1 - other.1).abs() < 1e-6), "{paused:?}");
}

/// A sender begins with eight free tokens. Its request takes 32 ns, and then it uses one token every 1.2 us, until the receiver's come: the request is at the receiver after
/// 2.064 us (two links of 1 us), which then leaves 7 slots to the packets on free tokens.
#[test]
fn tokens_of_phost_by_hand() {
    let text = r#"
topology = { kind = "single_switch", hosts = 2, delay = "1us" }
fabric.switching = "store_and_forward"
workload = { kind = "trace", file = "flows.csv" }
transport = { name = "phost", phost = { free_tokens = 8 } }
observe = { flows = [0], period = "1.2us", from = "0.6us", to = "9us" }
"#;
    let (_, tables) = traced("tokens", "0,0,1,146000\n", text);
    assert_eq!(numbers(&tables["flows"], "tokens"), [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
    assert_eq!(numbers(&tables["flows"], "priority"), [2.0; 7]);
    // A packet is at the receiver 4.432 us after the first bit: two links of 1 us and two transmissions. It arrives every 1.2 us from then on.
    let delivered: Vec<f64> = numbers(&tables["flows"], "delivered_bytes").iter().map(|bytes| bytes / 1460.0).collect();
    assert_eq!(delivered, [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
}

/// Two flows to one host under PASE: the longer one waits in the second queue for as long as the shorter one needs its link, and takes its place afterwards.
#[test]
fn a_flow_of_pase_changes_its_queue_when_the_one_before_it_ends() {
    let text = r#"
topology = { kind = "single_switch", hosts = 3, host_rate = "1Gb/s", delay = "25us" }
fabric = { wire = "ns2_1000", routing = "ecmp_symmetric", buffer = "500kB" }
workload = { kind = "trace", file = "flows.csv" }
transport.name = "pase"
observe = { flows = "all", period = "50us" }
"#;
    let (_, tables) = traced("queues", "0,0,2,300000\n0,1,2,1000000\n", text);
    let flows = &tables["flows"];
    let series = |flow: f64, column: &str| -> Vec<(f64, f64)> {
        let rows = numbers(flows, "time").into_iter().zip(numbers(flows, "flow")).zip(numbers(flows, column));
        rows.filter(|((_, id), _)| *id == flow).map(|((time, _), value)| (time, value)).collect()
    };
    let ends = series(0.0, "time").last().unwrap().0;
    // After a round trip or two, both know their queues.
    let late = |rows: Vec<(f64, f64)>| -> Vec<f64> {
        rows.into_iter().filter(|(time, _)| (4e-4..ends - 6e-4).contains(time)).map(|(_, value)| value).collect()
    };
    let (short, long) = (late(series(0.0, "queue")), late(series(1.0, "queue")));
    assert!(short.len() > 20 && short.iter().all(|queue| *queue == 0.0), "{short:?}");
    assert!(long.iter().all(|queue| *queue == 1.0), "{long:?}");
    // The shorter flow takes 2.4 ms, and the longer one goes on in its place within the four round trips of 100 us that a reallocation takes.
    let after: Vec<f64> = series(1.0, "queue")
        .into_iter()
        .filter(|(time, _)| (ends + 4e-4..ends + 4e-3).contains(time))
        .map(|(_, queue)| queue)
        .collect();
    assert!(after.len() > 20 && after.iter().all(|queue| *queue == 0.0), "{after:?}");
    let rates = series(1.0, "reference_gbps");
    assert!(
        rates.iter().filter(|(time, _)| (ends + 4e-4..ends + 4e-3).contains(time)).all(|(_, rate)| *rate > 0.9),
        "{rates:?}"
    );
}

/// One flow of DCTCP over a slow link that marks: its window grows by a packet per round trip, and a mark cuts it by half of the share of marked packets, as the sender
/// estimates it then.
#[test]
fn the_sawtooth_of_dctcp() {
    let text = r#"
topology = { kind = "dumbbell", hosts_per_side = 1, host_rate = "10Gb/s", middle_rate = "1Gb/s", delay = "10us" }
fabric = { buffer = "300kB" }
workload = { kind = "trace", file = "flows.csv" }
transport = { name = "dctcp", dctcp = { port = { mark_above = "30kB" } } }
observe = { flows = [0], queues = ["leaf-leaf"], period = "1us", from = "20ms" }
"#;
    let (_, tables) = traced("sawtooth", "0,0,1,12000000\n", text);
    let flows = &tables["flows"];
    let (window, alpha) = (numbers(flows, "window_bytes"), numbers(flows, "marked_share"));
    let mut cuts = 0;
    for (step, pair) in window.windows(2).enumerate().take(window.len() - 100) {
        let change = pair[1] - pair[0];
        if change < 0.0 {
            cuts += 1;
            // An acknowledgement can grow the window beside the cut, by less than a packet.
            let kept = pair[0] * (1.0 - alpha[step + 1] / 2.0);
            assert!((pair[1] - kept).abs() < 1460.0 / 10.0, "{pair:?} and {}", alpha[step + 1]);
        } else {
            assert!(change <= 1460.0, "{pair:?}");
        }
    }
    // The round trip on the idle path takes 60 us and one packet 12 us, so 5 packets fill the link, and 20 more the queue up to its mark. Each cut is by a few packets.
    assert!(cuts > 20, "{cuts}");
    let queue = numbers(&tables["queues"], "bytes");
    let most = queue.iter().copied().fold(0.0, f64::max);
    assert!((30_000.0..45_000.0).contains(&most), "{most}");
}
