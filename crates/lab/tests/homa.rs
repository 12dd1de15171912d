//! Homa's priority levels follow from a scenario's workload.

use flowloom_core::Bytes;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Plan, run, tables};
use flowloom_transports::homa::{Assignment, Config};

/// `RTTbytes` are 10,220 B of payload: seven packets.
const BLIND: u64 = 7 * 1460;

fn plan(sizes: &str, overrides: &[&str]) -> Plan {
    let text = format!(
        r#"
        [topology]
        kind = "single_switch"
        hosts = 8

        [workload]
        kind = "poisson"
        sizes = "{sizes}"
        load = 0.5
        flows = 100
        matrix = "all_to_all"

        [transport]
        name = "homa"
        [transport.homa]
        rtt_bytes = "10kB"
        "#
    );
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::load(&text, "homa.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
    let plan = scenario.validate().and_then(|spec| Plan::new(&spec));
    plan.unwrap_or_else(|error| panic!("{error}"))
}

fn config(plan: &Plan) -> &Config {
    plan.setup.parameters.get().expect("they are Homa's")
}

/// The unscheduled bytes of each level, as senders choose it: over a million messages at evenly spaced quantiles, packet by packet.
fn bytes_by_level(sizes: &str, config: &Config) -> Vec<f64> {
    const MESSAGES: u32 = 1_000_000;
    let cdf = tables::table(sizes).expect("it is a table").cdf();
    let mut bytes = vec![0.0; config.cutoffs.len() + 1];
    let level = |size: u64| config.cutoffs.iter().filter(|cutoff| cutoff.get() < size).count();
    for message in 0..MESSAGES {
        let size = cdf.sample((f64::from(message) + 0.5) / f64::from(MESSAGES)).get();
        match config.assignment {
            Assignment::Size => bytes[level(size)] += size.min(BLIND) as f64,
            Assignment::Remaining => {
                for offset in (0..size.min(BLIND)).step_by(1460) {
                    bytes[level(size - offset)] += (size - offset).min(1460) as f64;
                }
            }
        }
    }
    bytes
}

/// Each level carries as many unscheduled bytes as any other, within 5 %, on the paper's five workloads (§3.4), with as many levels as
/// there can be.
#[test]
fn unscheduled_levels_carry_equal_bytes() {
    for sizes in ["homa_w1", "homa_w2", "homa_w3", "homa_w4", "homa_w5", "google_rpc", "fb_hadoop", "web_search_bytes"] {
        for levels in [2, 4, 7] {
            let plan = plan(sizes, &[&format!("transport.homa.unscheduled_levels={levels}")]);
            let bytes = bytes_by_level(sizes, config(&plan));
            assert_eq!(bytes.len(), levels);
            let even = bytes.iter().sum::<f64>() / levels as f64;
            assert!(bytes.iter().all(|bytes| (bytes / even - 1.0).abs() < 0.05), "{sizes}: {bytes:?}");
        }
    }
}

/// By what is left of a message, levels are chosen for whole packets, and the cutoffs are exact for single bytes. So the levels are even
/// within a packet of a message that is at most seven long; W1's messages are mostly one packet.
#[test]
fn levels_by_what_is_left_are_even_where_messages_are_short() {
    let plan = plan("homa_w4", &["transport.homa.unscheduled_levels=4", "transport.homa.assignment=remaining"]);
    let bytes = bytes_by_level("homa_w4", config(&plan));
    let even = bytes.iter().sum::<f64>() / 4.0;
    assert!(bytes.iter().all(|bytes| (bytes / even - 1.0).abs() < 0.15), "{bytes:?}");
}

/// The share of unscheduled bytes decides the split of eight levels. The authors' simulator has 7, 5, 4, 1 and 1 unscheduled levels for
/// W1 to W5, chosen by hand.
#[test]
fn the_split_of_levels_follows_the_bytes() {
    for (sizes, unscheduled) in [("homa_w1", 7), ("homa_w2", 6), ("homa_w3", 2), ("homa_w4", 1), ("homa_w5", 1)] {
        assert_eq!(config(&plan(sizes, &[])).unscheduled_levels, unscheduled, "{sizes}");
    }
    let four = plan("homa_w2", &["transport.homa.levels=4"]);
    assert_eq!((config(&four).unscheduled_levels, config(&four).cutoffs.len()), (3, 2));
}

/// What a scenario gives stays. Without a distribution, the flows' own sizes count: a request's flows have 10 kB each, so all cutoffs are
/// there.
#[test]
fn given_cutoffs_stay_and_other_workloads_have_sizes_too() {
    let given = plan("homa_w3", &["transport.homa.cutoffs=[\"100B\", \"1kB\"]"]);
    assert_eq!(config(&given).cutoffs, [100, 1000].map(Bytes::new));
    assert_eq!(config(&given).unscheduled_levels, 0);
    let incast = r#"workload={ kind = "incast", senders = 5, bytes = "50kB", requests = 3, period = "1ms" }"#;
    let incast = plan("homa_w3", &[incast]);
    assert_eq!(config(&incast).cutoffs, [Bytes::new(10_000); 6]);
}

/// The smaller half of W3's messages at 80 % load, between racks of 10 and 40 Gb/s. On each of four hops, such a message may find one packet
/// on the link, which it cannot stop: 3 us in all, about as long as its own way. Other messages of its level are short, and seldom in its way.
#[test]
fn short_messages_wait_for_little_more_than_a_packet_on_each_link() {
    let text = r#"
        [topology]
        kind = "leaf_spine"
        racks = 3
        hosts_per_rack = 8
        spines = 2
        delay = "250ns"
        host_delay = "1.125us"

        [fabric]
        buffer = "100MB"
        routing = "spray_random"
        switching = "store_and_forward"

        [workload]
        kind = "poisson"
        sizes = "homa_w3"
        load = 0.8
        flows = 20000
        matrix = "all_to_all"

        [transport]
        name = "homa"

        [metrics]
        size_bins = ["0B", "257B"]
    "#;
    let scenario = Scenario::load(text, "homa.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    let summary = run(&scenario, &mut |_, _, _| true).expect("a run").summary;
    let short = &summary.slowdown.by_size[0].stats;
    let blocked = 1.0 + (2.0 * 1.2 + 2.0 * 0.3) / 2.83;
    assert!(short.p99.expect("messages") < blocked, "{short:?}, {blocked}");
    assert!(short.p50.expect("messages") < 1.3, "{short:?}");
    assert_eq!((summary.drops.total, summary.finished), (0, 20_000));
}
