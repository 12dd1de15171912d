//! `docs/data-dictionary.md` names exactly the columns and keys that results have.

use std::collections::{BTreeMap, BTreeSet};

use flowloom_core::{Flow, Network, NodeId, Time, topology};
use flowloom_fabric::{CLASSES, ControlCounters, PortCounters, Report, SentCounters};
use serde_json::Value;

use super::super::{
    Column, Finding, JobResult, Lossless, PausedLink, RunInfo, Stats, StormOrigin, Summary, VictimFlow, columns,
};
use super::{RUN, flow, receiver_rows, report, summary};
use crate::headroom::HopHeadroom;
use crate::record::GapTotals;
use crate::workload::{CoflowWorkload, numbered};

const DICTIONARY: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data-dictionary.md"));

/// Name and type of every row of the table under a heading, in order.
fn entries(heading: &str) -> Vec<(String, String)> {
    let section = DICTIONARY.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    cells.map(|(name, rest)| (name.to_owned(), rest.split(" | ").next().unwrap().to_owned())).collect()
}

/// Where names are data, the dictionary has one name for all.
fn placeholder(parent: &str) -> Option<&'static str> {
    match parent {
        "queue" | "utilisation" | "drops.by_hop" | "pfc.headroom" => Some("<hop>"),
        "drops.by_reason" => Some("<reason>"),
        "tenants" | "jobs" => Some("<tenant>"),
        "requests.by_class" | "tenants.<tenant>.requests.by_class" => Some("<class>"),
        "control_messages.by_tier" => Some("<tier>"),
        "pfc.by_link" => Some("<link>"),
        _ => None,
    }
}

/// The types seen at every path of a JSON value.
fn types(path: &str, value: &Value, seen: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match value {
        Value::Null => "null",
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(items) => {
            items.iter().for_each(|item| types(&format!("{path}[]"), item, seen));
            "array"
        }
        Value::Object(members) => {
            for (key, member) in members {
                let key = placeholder(path).unwrap_or(key);
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                types(&path, member, seen);
            }
            "object"
        }
        Value::Bool(_) => "boolean",
    };
    seen.entry(path.to_owned()).or_default().insert(kind);
}

/// A run in which everything happened.
fn eventful() -> Report {
    let full = Flow { deadline: Some(super::us(50)), coflow: numbered(1), ..flow(0, 1, 1460, 0) };
    let other = Flow { tenant: 1, ..flow(0, 1, 1460, 0) };
    let background = Flow { background: true, ..flow(2, 3, 1460, 0) };
    let mut report = report(vec![(full, Some(40)), (other, Some(40)), (background, None)]);
    report.data_packets = 1;
    report.controls = vec![ControlCounters { node: NodeId(4), received: 1, sent: 1, known_flows_peak: 1 }];
    for port in &mut report.ports {
        *port = PortCounters { sent: [SentCounters { packets: 1, bytes: 0 }; CLASSES], ..PortCounters::default() };
    }
    report
}

/// A link was paused, and a flow was in its way.
fn lossless(victims: Option<usize>) -> Lossless {
    let link = PausedLink { frames: 2, stops: 1, paused_us: vec![1.5], share: 0.5 };
    let victim = VictimFlow { flow: 1, at: "h0-s0".to_owned(), congested: "s0-h2".to_owned(), packets: 3 };
    let headroom = |xoff_bytes| HopHeadroom { bytes: 5852, xoff_bytes, hysteresis_bytes: 3000 };
    Lossless {
        headroom: [("host-leaf".to_owned(), headroom(victims.map(|_| 9000)))].into(),
        frames: 2,
        stops: 1,
        paused_share_max: 0.5,
        by_link: [("h0-s0".to_owned(), link)].into(),
        victims,
        worst_victims: vec![victim],
        storms: vec![StormOrigin {
            node: "h2".to_owned(),
            link: "s0-h2".to_owned(),
            frames: 2,
            behind: victims.map(|_| vec!["h0-s0".to_owned()]),
        }],
    }
}

#[test]
fn the_summary_is_in_the_dictionary() {
    // Beside it, one of a request that did not get anywhere, and one of no flows: between them, all that can be null is.
    let barren = report(vec![(Flow { coflow: numbered(1), ..flow(0, 1, 1460, 1000) }, None)]);
    let mut seen = BTreeMap::new();
    let instant = Report { end: Time::ZERO, ..eventful() };
    for report in [eventful(), barren, report(vec![]), instant] {
        types("", &serde_json::to_value(summary(&report)).unwrap(), &mut seen);
    }
    for totals in [GapTotals::default(), GapTotals { gaps: 2, switches: 1, idle_ps: 5, open_ps: 10 }] {
        let with_gaps = Summary::of(&report(vec![]), &[], &[], &RunInfo { gaps: Some(totals), ..RUN });
        types("", &serde_json::to_value(with_gaps).unwrap(), &mut seen);
    }
    for drawn in [true, false] {
        let workload = CoflowWorkload {
            tenant: 0,
            coflows: 5,
            hosts: 4,
            size_divisor: 10.0,
            time_divisor: (!drawn).then_some(5.0),
            load: drawn.then_some(0.5),
            local_flows: 3,
            local_bytes: 4,
            local_coflows: 1,
        };
        let with_coflows = Summary::of(&report(vec![]), &[], &[], &RunInfo { coflow_workloads: &[workload], ..RUN });
        types("", &serde_json::to_value(with_coflows).unwrap(), &mut seen);
    }
    for mean in [None, Some(2.0)] {
        let job = JobResult {
            collective: "all_reduce",
            algorithm: "ring",
            ranks: 4,
            bytes: 1000,
            iterations: 2,
            finished: mean.iter().count(),
            time_us: Stats::of(mean.into_iter().collect()),
            algorithm_gbps: mean,
            bus_gbps: mean,
        };
        let with_job = Summary::of(&report(vec![]), &[], &[], &RunInfo { jobs: [(0, job)].into(), ..RUN });
        types("", &serde_json::to_value(with_job).unwrap(), &mut seen);
    }
    let findings = [Finding { flag: "data lost", text: "3 packets".to_owned() }];
    let warned = RunInfo { misfits: &["rto: short".to_owned()], findings: &findings, ..RUN };
    types("", &serde_json::to_value(Summary::of(&report(vec![]), &[], &[], &warned)).unwrap(), &mut seen);
    for victims in [None, Some(1)] {
        let with_pfc = Summary::of(&report(vec![]), &[], &[], &RunInfo { lossless: Some(lossless(victims)), ..RUN });
        types("", &serde_json::to_value(with_pfc).unwrap(), &mut seen);
    }
    let written: BTreeMap<String, String> = seen
        .into_iter()
        .filter(|(_, types)| types.contains("null") || types.is_disjoint(&BTreeSet::from(["object", "array"])))
        .map(|(path, mut types)| {
            let or_null = if types.remove("null") { " or null" } else { "" };
            (path, types.into_iter().collect::<Vec<_>>().join(" or ") + or_null)
        })
        .collect();
    let listed = entries("summary.json");
    assert_eq!(listed.len(), written.len(), "an entry is there twice, or one is missing");
    assert_eq!(BTreeMap::from_iter(listed), written);
}

#[test]
fn the_columns_are_in_the_dictionary() {
    // The null of `id` and the like is in no row; that of a double shows in an unfinished flow without a deadline.
    let report = report(vec![(flow(0, 1, 1460, 0), None)]);
    let rows = receiver_rows(&report);
    // There are two columns only if hosts have several NICs.
    let planes = topology::planes(Network::clone(&report.network), 2);
    let kind = |column: &Column| match column {
        Column::U16(_) => "uint16",
        Column::U32(_) => "uint32",
        Column::U64(_) => "uint64",
        Column::I64(values) if values[0] == -1 => "int64 or null",
        Column::I64(_) => "int64",
        Column::F64(values) if values[0].is_nan() => "double or null",
        Column::F64(_) => "double",
        Column::Word(_) => "string or null",
    };
    let written: Vec<_> =
        columns(&rows, &planes).iter().map(|(name, column)| ((*name).to_owned(), kind(column).to_owned())).collect();
    assert_eq!(entries("flows.parquet"), written);
}
