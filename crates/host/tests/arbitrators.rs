//! PASE with its arbitrators as processes: four hosts, two top-of-rack switches and a core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{NODE, Process, address, counter, wait_for};

mod support;

const SWITCHES: [&str; 3] = ["tor0", "tor1", "core"];

/// A directory with the cluster's file, which is removed at the end of the test.
struct Rack(PathBuf);

impl Rack {
    fn new(name: &str) -> Rack {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arbitrators-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let host = |number: u32| {
            format!("  {{ name = \"h{number}\", address = \"{}\", switch = \"tor{}\" }},\n", address(), number / 2)
        };
        let tor = |number: u32| format!("  {{ name = \"tor{number}\", address = \"{}\", above = [\"core\"] }},\n", address());
        let text = format!(
            "host = [\n{}]\nswitch = [\n{}  {{ name = \"core\", address = \"{}\" }},\n]\n",
            (0..4).map(host).collect::<String>(),
            (0..2).map(tor).collect::<String>(),
            address()
        );
        fs::write(directory.join("cluster.toml"), text).unwrap();
        for (file, bytes) in [("long", 3_000_000), ("short", 30_000)] {
            fs::write(directory.join(file), (0..bytes).map(|n: u32| ((n * 13) >> 4) as u8).collect::<Vec<u8>>()).unwrap();
        }
        Rack(directory)
    }

    /// Starts the node of this name with these words.
    fn start(&self, me: &str, words: &[&str]) -> Process {
        let mut command = Command::new(NODE);
        command.args(["--cluster", "cluster.toml", "--transport", "pase", "--me", me]).args(words);
        command.current_dir(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Process::start(command)
    }

    fn receiver(&self, me: &str) -> Process {
        self.start(me, &["--save", &format!("saved-{me}")])
    }

    /// Asserts that these files have arrived at a host, and no others.
    fn has_arrived(&self, me: &str, files: &[&str]) {
        let entries = fs::read_dir(self.0.join(format!("saved-{me}"))).unwrap();
        let mut saved: Vec<Vec<u8>> = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
        saved.sort_by_key(Vec::len);
        let mut sent: Vec<Vec<u8>> = files.iter().map(|file| fs::read(self.0.join(file)).unwrap()).collect();
        sent.sort_by_key(Vec::len);
        assert!(saved == sent, "{} of {} files arrived at {me}, or they differ", saved.len(), sent.len());
    }

    /// How many bytes of unfinished flows are on a host's disk.
    fn begun(&self, me: &str) -> u64 {
        let entries = fs::read_dir(self.0.join(format!("saved-{me}"))).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|file| file.len()).sum()
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The flow that `said` tells to be the first, and the one that it tells to be sent.
fn first<'a>(said: &'a str, what: &str) -> &'a str {
    let line = said.lines().find(|line| line.starts_with(what)).expect(what);
    line.split(' ').find_map(|word| word.strip_prefix("flow=")).unwrap()
}

#[test]
fn every_arbitrator_on_the_path_is_asked_and_a_short_flow_overtakes_a_long_one() {
    let rack = Rack::new("path");
    let arbitrators = SWITCHES.map(|name| (name, rack.start(name, &[])));
    let receiver = rack.receiver("h2");
    let (status, said) = rack.start("h0", &["--send", "h2:long", "--send", "h2:short"]).end();
    assert!(status.success(), "{said}");
    let short = said.lines().find(|line| line.contains("file=short")).unwrap();
    assert!(short.contains(&format!("flow={} ", first(&said, "acknowledged"))), "the short flow ends first: {said}");
    assert!(receiver.close().0.success());
    rack.has_arrived("h2", &["long", "short"]);
    for (name, arbitrator) in arbitrators {
        let (status, said) = arbitrator.close();
        assert!(status.success(), "{name}: {said}");
        let counts = ["packets_received", "packets_sent", "malformed"].map(|name| counter(&said, name));
        eprintln!("{name}: {} messages received, {} sent", counts[0], counts[1]);
        // The path is h0, tor0, core, tor1, h2. The core's switch has no link of its own to arbitrate: those to the top-of-rack switches belong to these.
        assert!(name == "core" || counts[0] > 0 && counts[1] > 0, "{name}: {said}");
        assert_eq!(counts[2], 0, "{name}: {said}");
    }
}

#[test]
fn no_flow_is_lost_with_the_arbitrators_and_restarted_ones_answer() {
    let rack = Rack::new("killed");
    let arbitrators = SWITCHES.map(|name| rack.start(name, &[]));
    let receivers = ["h2", "h3"].map(|name| rack.receiver(name));
    let senders = [("h0", "h2:long"), ("h1", "h3:long")].map(|(me, what)| rack.start(me, &["--send", what]));
    wait_for("a part of a flow", || rack.begun("h2") > 200_000);
    arbitrators.into_iter().for_each(Process::kill);
    let begun = rack.begun("h2");
    wait_for("more of the flow, without arbitrators", || rack.begun("h2") > begun + 200_000);
    let restarted = SWITCHES.map(|name| rack.start(name, &[]));
    for sender in senders {
        let (status, said) = sender.end();
        assert!(status.success(), "{said}");
    }
    assert!(receivers.into_iter().all(|receiver| receiver.close().0.success()));
    rack.has_arrived("h2", &["long"]);
    rack.has_arrived("h3", &["long"]);
    let [tor0, tor1, _] = restarted.map(|arbitrator| arbitrator.close().1);
    for (name, said) in [("tor0", tor0), ("tor1", tor1)] {
        assert!(counter(&said, "packets_received") > 0 && counter(&said, "packets_sent") > 0, "{name}: {said}");
    }
}
