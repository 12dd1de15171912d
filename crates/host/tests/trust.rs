//! Processes that are killed, restarted, configured differently, or have no room: nobody believes what is not so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flowloom_transports::for_each_transport;
use support::{NODE, Process, address, wait_for};

mod support;

/// A directory that is removed at the end of the test, with a file to be sent in it.
struct Place {
    directory: PathBuf,
    addresses: [String; 2],
}

impl Place {
    fn new(name: &str) -> Place {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trust-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), (0..2_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect::<Vec<u8>>()).unwrap();
        Place { directory, addresses: [address(), address()] }
    }

    /// A node with these words before the addresses. It finds the file as `file` and saves to `saved`.
    fn node(&self, me: usize, words: &[&str]) -> Command {
        let mut command = Command::new(NODE);
        command.args(["--me", &me.to_string()]).args(words).args(&self.addresses);
        command.current_dir(&self.directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The flows that were saved.
    fn saved(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.join("saved")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_none()).collect()
    }

    fn arrived(&self) -> bool {
        let sent = fs::read(self.directory.join("file")).unwrap();
        self.saved().iter().any(|path| fs::read(path).unwrap() == sent)
    }

    /// Whether a part of a flow is on the disk.
    fn has_begun(&self) -> bool {
        let entries = fs::read_dir(self.directory.join("saved")).into_iter().flatten();
        entries.map(|entry| entry.unwrap()).any(|entry| {
            entry.path().extension().is_some_and(|end| end == "part") && entry.metadata().is_ok_and(|file| file.len() > 100_000)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The receiver is killed while it receives, and restarted. Then the file arrives whole or the sender says that it did not.
fn survives_a_restart_of_the_receiver(transport: &str) {
    let place = Place::new(transport);
    // With the papers' timeouts, which are shorter than a round trip here, most of what these two send are repetitions.
    let config = if ["pfabric", "las"].contains(&transport) { "rto = \"4ms\"" } else { "" };
    let with = ["--transport", transport, "--config", config];
    let receiver = || Process::start(place.node(1, &[&with[..], &["--save", "saved"]].concat()));
    let first = receiver();
    let sender = Process::start(place.node(0, &[&with[..], &["--send", "1:file", "--silence", "20s"]].concat()));
    wait_for(&format!("{transport}: a part of the flow"), || place.has_begun());
    first.kill();
    assert!(!place.arrived(), "{transport}: the receiver was killed too late");
    let second = receiver();
    let (status, said) = sender.end();
    let believes = said.contains("\nacknowledged") || said.starts_with("acknowledged");
    assert_eq!(believes, place.arrived(), "{transport}: {said}");
    assert_eq!(status.success(), believes, "{transport}: {said}");
    assert!(believes || said.contains("the other node was restarted"), "{transport}: {said}");
    assert!(second.close().0.success());
    assert!(!place.has_begun(), "{transport}: no part of it is left");
}

#[test]
fn a_receiver_that_is_killed_and_restarted_has_a_file_or_the_sender_says_that_it_has_not() {
    macro_rules! names {
        ($($transport:ty),* $(,)?) => { [$(<$transport as flowloom_core::Transport>::NAME),*] };
    }
    for name in for_each_transport!(names) {
        // It needs a controller, and one clock.
        if name != "fastpass" {
            survives_a_restart_of_the_receiver(name);
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_its_flow_by_name_and_no_other() {
    let place = Place::new("full");
    fs::write(place.directory.join("small"), "a few bytes").unwrap();
    // The shell lets no file become longer than 100 KiB, and makes the process survive the attempt.
    let mut limited = Command::new("bash");
    let script =
        format!("trap '' XFSZ; ulimit -f 100; exec {NODE} --me 1 --save saved {} {}", place.addresses[0], place.addresses[1]);
    limited.args(["-c", &script]).current_dir(&place.directory);
    limited.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let receiver = Process::start(limited);
    let (status, said) = Process::start(place.node(0, &["--send", "1:file", "--send", "1:small"])).end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("its destination did not keep it: File too large"), "{said}");
    assert_eq!((said.matches("\nacknowledged").count(), said.matches("\naborted").count()), (1, 1), "{said}");
    let (status, said) = receiver.close();
    assert!(status.success() && said.contains("is not complete: its destination did not keep it: File too large"), "{said}");
    assert_eq!(place.saved().iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>(), [b"a few bytes"]);
}

/// Reads the sender's standard error until a line says this.
fn hears(sender: &mut Process, expected: &str) {
    let lines = BufReader::new(sender.0.stderr.as_mut().unwrap()).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        said.push(line);
        if said.last().is_some_and(|line| line.contains(expected)) {
            return;
        }
    }
    panic!("nobody said \"{expected}\": {said:?}");
}

#[test]
fn nodes_that_do_not_fit_together_are_named() {
    let place = Place::new("differs");
    for (name, cluster) in [("ours", 0), ("theirs", 1)] {
        let made = Command::new(NODE).args(["--new-key", name]).current_dir(&place.directory).status().unwrap();
        assert!(made.success(), "{cluster}");
    }
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&["--transport", "dctcp"], &[], "node 1 (%) runs dctcp, this node phost"),
        (&["--config", "token_life_slots = 8.0"], &[], "node 1 (%) has other parameters of phost"),
        (&["--line-rate", "200Mb/s"], &[], "node 1 (%) has other addresses"),
        (&["--key", "ours"], &["--key", "theirs"], "node 1 (%) has another key"),
    ];
    for (theirs, ours, expected) in cases {
        let _receiver = Process::start(place.node(1, &[theirs, &["--save", "saved"]].concat()));
        let mut sender = Process::start(place.node(0, &[ours, &["--send", "1:file", "--silence", "2s"]].concat()));
        hears(&mut sender, &expected.replace('%', &place.addresses[1]));
        let (status, said) = sender.end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("aborted flow="), "{said}");
    }
    assert!(place.saved().is_empty());
    // With one key, they understand each other.
    let receiver = Process::start(place.node(1, &["--key", "ours", "--save", "saved"]));
    let (status, said) = Process::start(place.node(0, &["--key", "ours", "--send", "1:file"])).end();
    assert!(status.success() && place.arrived(), "{said}");
    assert!(receiver.close().0.success());
}

#[test]
fn a_node_that_is_not_there_ends_the_flow_by_name() {
    let place = Place::new("silent");
    let (status, said) = Process::start(place.node(0, &["--send", "1:file", "--silence", "300ms"])).end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("was aborted: the other node does not answer"), "{said}");
}
