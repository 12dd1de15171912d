//! Priority flow control from a scenario to its results: one key asks for it, memory that is too small is refused, and the diagnosis names what
//! stands still and why.

use std::path::PathBuf;

use flowloom_lab::metrics::Lossless;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Outcome, run};

fn load(path: &str, text: &str, overrides: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(text, path, &overrides).map_err(|error| error.to_string())
}

fn attempt_at(path: &str, text: &str, overrides: &[&str]) -> Result<Outcome, String> {
    let scenario = load(path, text, overrides)?;
    run(&scenario, &mut |_, _, _| true).map_err(|error| error.to_string())
}

const INCAST: &str = r#"
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 4
spines = 2
[fabric]
routing = "ecmp"
buffer = "30kB"
[workload]
kind = "incast"
senders = 7
requests = 3
period = "1ms"
bytes = "700kB"
receiver = 0
[transport]
name = "dctcp"
"#;

fn attempt(overrides: &[&str]) -> Result<Outcome, String> {
    attempt_at("scenario.toml", INCAST, overrides)
}

fn resolved(overrides: &[&str]) -> String {
    load("scenario.toml", INCAST, overrides).unwrap().spec.to_toml()
}

fn lossless(outcome: &Outcome) -> &Lossless {
    outcome.summary.pfc.as_ref().expect("the run had flow control")
}

#[test]
fn one_key_makes_the_network_lossless() {
    let without = attempt(&[]).unwrap();
    assert!(without.summary.drops.total > 100 && without.summary.pfc.is_none());
    for sharing in ["fabric.pfc={}", "fabric={ pfc = {}, sharing = \"switch\", buffer = \"300kB\", routing = \"ecmp\" }"] {
        let with = attempt(&[sharing]).unwrap();
        assert_eq!((with.summary.drops.total, with.summary.timeouts, with.summary.finished), (0, 0, 21), "{sharing}");
        let pfc = lossless(&with);
        // Only switches send frames: to hosts and to each other. Each pause is followed by a resume frame.
        assert_eq!(pfc.frames, 2 * pfc.stops, "{sharing}");
        assert!(pfc.stops > 0 && pfc.by_link.contains_key("h1-l0") && !pfc.by_link.contains_key("l0-h0"), "{sharing}: {pfc:?}");
        // The formula of docs/pfc.md, at 10 Gb/s and 200 ns; ports that share memory have no threshold of their own.
        let room = &pfc.headroom["host-leaf"];
        let xoff = (!sharing.contains("switch")).then_some(30_000 - 5852);
        assert_eq!((room.bytes, room.xoff_bytes, room.hysteresis_bytes), (5852, xoff, 3000));
        // No link is paused for longer than packets are on their way.
        let longest = pfc.by_link.values().flat_map(|link| &link.paused_us).copied().fold(0.0, f64::max);
        assert!((pfc.paused_share_max - longest / 1e6 / with.summary.sim_s).abs() < 1e-9, "{sharing}");
        assert!(pfc.paused_share_max > 0.05 && pfc.paused_share_max < 1.0, "{sharing}: {}", pfc.paused_share_max);
        // The empty table is written out in full.
        let resolved = resolved(&[sharing]);
        assert!(resolved.contains("[fabric.pfc]") && resolved.contains("reaction = \"614.4ns\""), "{resolved}");
    }
    assert!(!resolved(&[]).contains("pfc"));
}

/// The leaf stops its spines nearly all of the time when the link to one of them is cut, which does not come up again before the end. So the link was paused before the cut only.
#[test]
fn a_cut_ends_the_pauses_of_a_link() {
    let mut paused = 0.0;
    for from in [200, 250, 300, 350, 400] {
        let fault = format!(
            "fault=[{{ kind = \"link_down\", where = \"l0-s0\", from = \"{from}us\", to = \"1s\", reroute_after = \"10us\" }}]"
        );
        let outcome = attempt(&["fabric.pfc={}", &fault]).unwrap();
        assert_eq!(outcome.summary.finished, 21);
        assert!(outcome.summary.sim_s > 0.002 && outcome.summary.sim_s < 1.0);
        let link = &lossless(&outcome).by_link["s0-l0"];
        let longest = link.paused_us.iter().copied().fold(0.0, f64::max);
        assert!(longest <= f64::from(from), "{from}: {longest}");
        // Flows take other paths after the cut, so it is not known through which port each of their packets went.
        assert_eq!(lossless(&outcome).victims, None);
        paused += longest;
    }
    assert!(paused > 500.0, "{paused}");
}

/// HPCC and DCQCN were designed for a lossless network. In little memory they lose packets and send everything behind them again; with flow control, their
/// senders stop instead, and their acknowledgements, which have a class of their own, go on.
#[test]
fn what_was_designed_for_lossless_networks_loses_nothing_over_flow_control() {
    for name in ["transport.name=hpcc", "transport.name=dcqcn"] {
        let small = [name, "fabric.buffer=30kB"];
        let without = attempt(&small).unwrap().summary;
        assert!(
            without.drops.total > 10 && without.retransmissions > 10,
            "{name}: {:?}, {}",
            without.drops,
            without.retransmissions
        );
        let with = attempt(&[small[0], small[1], "fabric.pfc={}"]).unwrap();
        assert_eq!((with.summary.drops.total, with.summary.retransmissions, with.summary.finished), (0, 0, 21), "{name}");
        assert!(lossless(&with).stops > 0, "{name}");
        // A NIC that is paused takes no data from its host, whose flows go on at their rates otherwise: it holds what it took before the pause had its effect, and what the host is answering.
        let nic = &with.summary.queue["host-leaf"];
        assert!(nic.peak_bytes <= 3 * 1500, "{name}: {} B in a NIC", nic.peak_bytes);
    }
}

/// Under 10 Gb/s and 200 ns, a headroom is 3 × 1500 + 84 + 1268 = 5852 B, and at 40 Gb/s 3 × 1500 + 84 + 5072 = 9656 B.
#[test]
fn memory_that_does_not_hold_the_headrooms_is_refused_with_the_numbers() {
    let refused = |overrides: &[&str]| attempt(overrides).map(drop).unwrap_err();
    let message = refused(&["fabric.pfc={}", "fabric.buffer=11kB"]);
    let expected = "fabric.buffer: found 11kB, but a port of l0 needs a headroom of 9.656kB for each class (here 1); it must be at least \
                    11.156kB, a full packet more for each class";
    assert!(message.contains(expected), "{message}");
    assert!(attempt(&["fabric.pfc={}", "fabric.buffer=11.156kB"]).unwrap().summary.drops.total == 0);
    let message = refused(&["fabric.pfc={}", "fabric.buffer=40kB", "fabric.sharing=switch"]);
    // A leaf has four hosts and two spines.
    let expected = "fabric.buffer: found 40kB, but the headrooms of the 6 ports of l0, for each class (here 1), are 42.72kB; it must be at \
                    least 44.22kB";
    assert!(message.contains(expected), "{message}");
    let message = refused(&["fabric.pfc={ xoff = \"25kB\" }"]);
    assert!(message.contains("fabric.pfc.xoff: found 25kB; the headroom of 5.852kB leaves 24.148kB"), "{message}");
    let message = refused(&["fabric.pfc={ xoff = \"9kB\" }", "fabric.buffer=300kB", "fabric.sharing=switch"]);
    assert!(message.contains("fabric.pfc.xoff: found 9kB, but ports share memory"), "{message}");
    let message = refused(&["fabric.pfc={}", "transport.name=phost"]);
    assert!(
        message.contains("fabric.pfc: ports of phost cannot be paused; transport.name must be one of tcp, dctcp"),
        "{message}"
    );
    let message = refused(&["fabric.pfc={ reaction = \"2s\" }"]);
    assert!(message.contains("fabric.pfc.reaction: found the text \"2s\", expected a duration from 0s to 1ms"), "{message}");
}

#[test]
fn half_of_the_headroom_loses_packets() {
    let outcome = attempt(&["fabric.pfc={ headroom = \"2900B\", xoff = \"3kB\" }"]).unwrap();
    assert!(outcome.summary.drops.by_reason["overflow"] > 0);
    assert_eq!(attempt(&["fabric.pfc={ xoff = \"3kB\" }"]).unwrap().summary.drops.total, 0);
}

/// A folder with a network file, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn with(network: &str) -> Folder {
        let unique = format!("flowloom-pfc-{}-{:?}", std::process::id(), std::thread::current().id());
        let folder = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("net.toml"), network).expect("a file");
        Folder(folder)
    }

    fn attempt(&self, text: &str) -> Result<Outcome, String> {
        attempt_at(&self.0.join("scenario.toml").display().to_string(), text, &[])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn link(a: &str, b: &str, rate: &str) -> String {
    format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"{rate}\"\ndelay = \"200ns\"\n")
}

fn host(name: &str) -> String {
    format!("[[node]]\nkind = \"host\"\nname = \"{name}\"\n")
}

fn switch(name: &str) -> String {
    format!("[[node]]\nkind = \"switch\"\nname = \"{name}\"\nlevel = 1\ntier = \"leaf\"\n")
}

/// Flows between pairs of hosts from 0 on.
fn trace(folder: &Folder, flows: &[(u32, u32, u64)]) -> String {
    let rows: String = flows.iter().map(|(src, dst, bytes)| format!("0,{src},{dst},{bytes}\n")).collect();
    std::fs::write(folder.0.join("flows.csv"), format!("start_s,src,dst,bytes\n{rows}")).expect("a file");
    "topology = { kind = \"custom\", file = \"net.toml\" }\nworkload = { kind = \"trace\", file = \"flows.csv\" }\n".to_owned()
}

/// The known cycle: in a ring of five switches, each flow goes two hops on, so that each link waits for the next one.
#[test]
fn a_deadlock_is_named_with_its_links_and_flows() {
    let mut network: String = (0..5).map(|n| host(&format!("h{n}")) + &switch(&format!("s{n}"))).collect();
    for n in 0..5 {
        network += &link(&format!("h{n}"), &format!("s{n}"), "10Gb/s");
        network += &link(&format!("s{n}"), &format!("s{}", (n + 1) % 5), "10Gb/s");
    }
    let folder = Folder::with(&network);
    let flows: Vec<_> = (0..5).map(|n| (n, (n + 2) % 5, 3_000_000)).collect();
    let base = trace(&folder, &flows);
    let text = format!("{base}fabric = {{ routing = \"ecmp\", buffer = \"12kB\", pfc = {{}} }}\n[transport]\nname = \"tcp\"\n");
    let message = folder.attempt(&text).map(drop).unwrap_err();
    assert!(message.starts_with("no progress: 5 flows are open"), "{message}");
    assert!(message.contains("deadlock: the links s0-s1, s1-s2, s2-s3, s3-s4, s4-s0 are paused in a cycle"), "{message}");
    assert!(message.contains("in it stand flow 0 from h0 to h2 (") && message.contains("flow 4 from h4 to h1 ("), "{message}");
    assert!(message.contains("likely: routes that form a cycle of buffer dependencies"), "{message}");
    // Four flows leave the ring open.
    trace(&folder, &flows[..4]);
    assert_eq!(folder.attempt(&text).unwrap().summary.finished, 4);
}

/// h0 and h1 - a - b - h2 and h3, where h2's link is ten times slower: h0 sends to h2, and h1, to h3, stands behind it.
#[test]
fn a_victim_is_named_with_the_port_that_is_congested() {
    let hosts: String = (0..4).map(|n| host(&format!("h{n}"))).collect();
    let links =
        [("h0", "a", "10Gb/s"), ("h1", "a", "10Gb/s"), ("h2", "b", "1Gb/s"), ("h3", "b", "10Gb/s"), ("a", "b", "10Gb/s")];
    let network = hosts + &switch("a") + &switch("b") + &links.map(|(a, b, rate)| link(a, b, rate)).concat();
    let folder = Folder::with(&network);
    let base = trace(&folder, &[(0, 2, 3_000_000), (1, 3, 1_000_000)]);
    let text = format!("{base}fabric = {{ routing = \"ecmp\", buffer = \"30kB\", pfc = {{}} }}\n[transport]\nname = \"tcp\"\n");
    let outcome = folder.attempt(&text).unwrap();
    let pfc = lossless(&outcome);
    assert_eq!(pfc.victims, Some(1), "{pfc:?}");
    assert!(pfc.worst_victims.iter().all(|victim| victim.flow == 1 && victim.congested == "b-h2"), "{pfc:?}");
    let at: Vec<&str> = pfc.worst_victims.iter().map(|victim| victim.at.as_str()).collect();
    assert!(at.contains(&"h1-a") && at.contains(&"a-b"), "{pfc:?}");
    // Alone, or with flows that share its bottleneck, nobody is a victim.
    trace(&folder, &[(0, 2, 300_000), (1, 2, 300_000)]);
    let outcome = folder.attempt(&text).unwrap();
    assert_eq!(lossless(&outcome).victims, Some(0), "{:?}", lossless(&outcome));
    assert!(lossless(&outcome).stops > 0);
}

/// Half of the pause frames are lost. Sooner or later, a resume frame to a host is lost.
#[test]
fn a_link_that_stays_paused_is_named() {
    let fault = "\n[[fault]]\nkind = \"loss\"\nwhere = \"leaf-host\"\nprobability = 0.3\npackets = \"control\"\n";
    let mut stuck = 0;
    for seed in 1..=5 {
        let text = format!("{INCAST}{fault}");
        let seed = format!("run.seed={seed}");
        match attempt_at("scenario.toml", &text, &["fabric.pfc={}", &seed]) {
            Ok(outcome) => assert_eq!(outcome.summary.finished, 21),
            Err(message) => {
                assert!(message.starts_with("no progress: ") && message.contains("paused links: h"), "{message}");
                assert!(message.contains("likely: a pause frame that was lost"), "{message}");
                stuck += 1;
            }
        }
    }
    assert!(stuck > 0, "some link was stopped for ever");
}

/// Gaps are recorded beside pauses, and change nothing.
#[test]
fn other_recorders_run_beside() {
    let outcome = attempt(&["fabric.pfc={}"]).unwrap();
    let with_gaps = attempt(&["fabric.pfc={}", "metrics.gaps=true"]).unwrap();
    assert_eq!(outcome.summary.pfc, with_gaps.summary.pfc);
    assert!(outcome.summary.gaps.is_none() && with_gaps.summary.gaps.is_some());
}
