//! Traces of packets, read by readers of their own: what is in them is what the run has counted.

use std::collections::BTreeMap;

use flowloom_core::{LinkId, Time};
use flowloom_fabric::Report;
use flowloom_lab::observe::InMemory;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Plan, Simulated, catalogue, simulate};

const FABRIC: &str = r#"
topology = { kind = "leaf_spine", racks = 2, hosts_per_rack = 3, spines = 2, host_rate = "10Gb/s", spine_rate = "10Gb/s" }
fabric = { routing = "ecmp_symmetric", buffer = "400kB" }
workload = { kind = "poisson", sizes = { uniform = ["2kB", "150kB"] }, load = 0.7, flows = 30, deadline = { kind = "exponential", mean = "5ms" } }
transport.name = "phost"
"#;
const EVERYTHING: &str = "trace.records=100000000";

fn scenario(overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(FABRIC, "scenario.toml", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn simulated(overrides: &[&str]) -> (Simulated, BTreeMap<&'static str, Vec<u8>>) {
    let scenario = scenario(overrides);
    let plan = Plan::new(&scenario.validate().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut sink = InMemory::default();
    let simulated = simulate(plan, Execution::new(&mut |_, _, _| true, &mut sink)).unwrap_or_else(|error| panic!("{error}"));
    (simulated, sink.files)
}

fn transports() -> Vec<String> {
    let catalogue = catalogue();
    let names = catalogue["transports"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    names.filter(|name| *name != "ideal").map(str::to_owned).collect()
}

/// A packet of a capture.
#[derive(Debug)]
struct Captured {
    interface: String,
    at_ns: u64,
    bytes: Vec<u8>,
    /// What it takes on the link: the length that the capture gives, or that of the remark, where headers are longer.
    length: u64,
    number: u64,
    remarks: Vec<String>,
}

impl Captured {
    fn is(&self, remark: &str) -> bool {
        self.remarks.iter().any(|found| found.contains(remark))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The options of a block: code and value.
fn options(mut rest: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while rest.len() >= 4 && number(&rest[..2]) != 0 {
        let length = number(&rest[2..4]) as usize;
        found.push((number(&rest[..2]), &rest[4..4 + length]));
        rest = &rest[4 + length.next_multiple_of(4)..];
    }
    found
}

/// The packets of a capture, in their order.
fn packets(file: &[u8]) -> Vec<Captured> {
    let (mut rest, mut interfaces, mut packets) = (file, Vec::new(), Vec::new());
    while !rest.is_empty() {
        let length = number(&rest[4..8]) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(rest[4..8], rest[length - 4..length], "a block has its length at both ends");
        let body = &rest[8..length - 4];
        match number(&rest[..4]) {
            1 => {
                let options = options(&body[8..]);
                let name = options.iter().find(|(code, _)| *code == 2).unwrap().1;
                interfaces.push(String::from_utf8(name.to_vec()).unwrap());
            }
            6 => {
                let word = |at: usize| number(&body[at..at + 4]);
                let captured = word(12) as usize;
                let options = options(&body[20 + captured.next_multiple_of(4)..]);
                let get = |code| options.iter().find(|(other, _)| *other == code).map(|(_, value)| *value);
                let text = String::from_utf8(get(1).unwrap_or_default().to_vec()).unwrap();
                let remarks: Vec<String> = text.split("; ").filter(|remark| !remark.is_empty()).map(str::to_owned).collect();
                let said = remarks.iter().find_map(|remark| remark.strip_suffix(" B on the link"));
                packets.push(Captured {
                    interface: interfaces[word(0) as usize].clone(),
                    at_ns: word(4) << 32 | word(8),
                    bytes: body[20..20 + captured].to_vec(),
                    length: said.map_or(word(16), |bytes| bytes.parse().unwrap()),
                    number: number(get(5).unwrap()),
                    remarks,
                });
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    packets
}

/// The counters of a run by the name of the link: transmissions, bytes, drops, marks and trims.
fn counted(report: &Report) -> BTreeMap<String, [u64; 5]> {
    let links = (0..report.network.links().len() as u32).map(LinkId);
    let counters = links.map(|link| {
        let port = &report.ports[link.index()];
        (
            report.network.link_name(link),
            [port.packets(), port.bytes(), port.drops(), port.marked_packets, port.trimmed_packets],
        )
    });
    counters.filter(|(_, counters)| *counters != [0; 5]).collect()
}

fn seen(packets: &[Captured]) -> BTreeMap<String, [u64; 5]> {
    let mut seen: BTreeMap<String, [u64; 5]> = BTreeMap::new();
    for packet in packets {
        let counters = seen.entry(packet.interface.clone()).or_default();
        if packet.is("dropped") {
            counters[2] += 1;
        } else {
            counters[0] += 1;
            counters[1] += packet.length;
            counters[3] += u64::from(packet.is("marked here"));
            counters[4] += u64::from(packet.is("cut off here"));
        }
    }
    seen
}

/// Under every transport, with faults and over flow control as well, a capture has each transmission and each drop of each link once, in order and with its length. The results
/// do not depend on it.
#[test]
fn a_capture_has_what_the_run_has_counted() {
    let loss = r#"fault=[{ kind = "loss", where = "all", probability = 0.01 }]"#;
    let small = "fabric.buffer=\"30kB\"";
    let variants: [&[&str]; 4] = [&[], &[loss], &[small], &["fabric.pfc={}"]];
    let mut runs = 0;
    for name in transports() {
        for variant in variants {
            let transport = format!("transport.name={name}");
            let overrides: Vec<&str> = [transport.as_str()].into_iter().chain(variant.iter().copied()).collect();
            let scenario = scenario(&overrides);
            let planned = scenario.validate().is_ok_and(|spec| Plan::new(&spec).is_ok());
            if !planned {
                continue; // it cannot run over flow control, or with so little memory
            }
            runs += 1;
            let (blind, files) = simulated(&overrides);
            assert!(files.is_empty());
            let (traced, files) = simulated(&[&overrides[..], &[EVERYTHING]].concat());
            assert_eq!(blind.report.records, traced.report.records, "{overrides:?}");
            assert_eq!(blind.report.events, traced.report.events, "{overrides:?}");
            let packets = packets(&files["packets.pcapng"]);
            assert!(packets.is_sorted_by_key(|packet| packet.at_ns), "{overrides:?}");
            assert_eq!(seen(&packets), counted(&traced.report), "{overrides:?}");
            assert_eq!(traced.recorded.trace.map(|end| end.records as usize), Some(packets.len()));
            check_numbers(&packets);
        }
    }
    assert!(runs > 3 * transports().len(), "{runs}");
}

/// A packet has one number on its way, which no other packet of another flow has, and never is at two places at once.
fn check_numbers(packets: &[Captured]) {
    let mut flows = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.bytes[12..14] == [0x08, 0x00]) {
        let head = &packet.bytes[42..];
        assert_eq!(&head[..2], b"FL");
        let flow = head[8..12].to_vec();
        assert_eq!(*flows.entry(packet.number).or_insert(flow.clone()), flow, "{packet:?}");
    }
}

/// Nothing is recorded of other flows, on other links and at other times.
#[test]
fn a_trace_is_of_what_was_chosen() {
    let all = simulated(&[EVERYTHING]).1;
    let all = packets(&all["packets.pcapng"]);
    let choice = [r#"trace.flows=[3, 1]"#, r#"trace.links=["leaf-host"]"#, r#"trace.from="20us""#, r#"trace.to="900us""#];
    let (_, files) = simulated(&choice);
    let chosen = packets(&files["packets.pcapng"]);
    let expected = all.iter().filter(|packet| {
        let flow = u32::from_be_bytes(packet.bytes[50..54].try_into().unwrap());
        let link = packet.interface.starts_with('l') && packet.interface.contains("-h");
        (flow == 1 || flow == 3) && link && (20_000..=900_000).contains(&packet.at_ns)
    });
    let key = |packet: &Captured| (packet.interface.clone(), packet.at_ns, packet.length);
    let expected: Vec<_> = expected.map(key).collect();
    assert!(expected.len() > 10, "{}", expected.len());
    assert_eq!(chosen.iter().map(key).collect::<Vec<_>>(), expected);
}

/// The first records are kept, and the end of the trace is told.
#[test]
fn a_trace_ends_at_its_limit() {
    let all = simulated(&[EVERYTHING]).1;
    let (run, files) = simulated(&["trace.records=100"]);
    let (all, some) = (packets(&all["packets.pcapng"]), packets(&files["packets.pcapng"]));
    assert_eq!(some.len(), 100);
    assert!(some.iter().zip(&all).all(|(one, other)| one.bytes == other.bytes && one.at_ns == other.at_ns));
    let end = run.recorded.trace.unwrap();
    assert_eq!(end.records, 100);
    assert_eq!(end.full_at.unwrap().as_ps() / 1000, some[99].at_ns);
    assert!(end.full_at < Some(Time::ZERO + (run.report.end - Time::ZERO)));
}

/// Files that nobody wants are not written.
#[test]
fn each_file_may_be_left_out() {
    let names = |overrides: &[&str]| simulated(overrides).1.into_keys().collect::<Vec<_>>();
    assert_eq!(names(&["trace.records=100"]), ["packets.pcapng", "timeline.pftrace"]);
    assert_eq!(names(&["trace.capture=false"]), ["timeline.pftrace"]);
    assert_eq!(names(&["trace.timeline=false"]), ["packets.pcapng"]);
}
