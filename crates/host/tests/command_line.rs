//! The command line of `flowloom-node`: bad input is named and exits with 2, help and version work, and so does the README's session.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

mod support;

const NODES: [&str; 2] = ["127.0.0.1:7000", "127.0.0.1:7001"];

/// Runs it with these arguments, which it must refuse, and returns its standard error.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_flowloom-node")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn bad_input_is_named() {
    let cases: [(&[&str], &str); 19] = [
        (&["--me", "0", "--nodes", "3"], "unexpected argument '--nodes'"),
        (&["--send", "0:x"], "--me <NODE>"),
        (&["--me", "one"], "there is no node one; the cluster has 0, 1, switch"),
        (&["--me", "switch"], "\"switch\" has no address"),
        (&["--me", "0", "--cluster", "x"], "cannot be used with"),
        (&["--me", "0", "--send", "7:Cargo.toml"], "there is no node 7"),
        (&["--me", "0", "--send", "file"], "it must be NODE:FILE"),
        (&["--me", "0", "--loss", "1.5"], "\"1.5\" is no share"),
        (&["--me", "0", "--line-rate", "100"], "say the unit"),
        (&["--me", "0", "--mtu", "70kB"], "the MTU at most 65535 B"),
        (&["--me", "0", "--mtu", "90B"], "an MTU of 90B has no room for payload"),
        (&["--me", "3"], "there is no node 3"),
        (&["--me", "0", "--transport", "tcpp"], "there is no transport tcpp; there are tcp, dctcp"),
        (&["--me", "0", "--send", "1:missing.txt"], "missing.txt: No such file"),
        (&["--me", "0", "--key", "Cargo.toml"], "Cargo.toml: a key is 64 hexadecimal digits"),
        (&["--me", "0", "--config", "token_life = 1.5"], "unknown field `token_life`"),
        (&["--me", "0", "--flows", "Cargo.toml"], "--start-at <NS>"),
        (&["--me", "0", "--flows", "Cargo.toml", "--start-at", "0"], "Cargo.toml: line 1: expected value"),
        (&["--me", "0", "--flows", "missing.txt", "--start-at", "0"], "missing.txt: No such file"),
    ];
    for (arguments, expected) in cases {
        let said = refused(&[arguments, &NODES].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(refused(&["--me"]).contains("a value is required for '--me <NODE>'"));
    assert!(refused(&["--me", "0", "localhost"]).contains("'localhost' for '[ADDRESS]...': invalid socket address"));
    assert!(refused(&["--me", "0", NODES[0]]).contains("1 hosts, but a cluster has 2 to 4096"));
}

#[test]
fn a_start_that_no_node_waits_for_is_named() {
    for start in ["9000000000000000000", "0"] {
        let said = refused(&["--me", "0", "--start-at", start, &support::address(), &support::address()]);
        assert!(said.contains(&format!("--start-at: a start at {start} ns of CLOCK_MONOTONIC, which is at ")), "{said}");
    }
}

#[test]
fn help_and_version_have_two_names_each() {
    let said = |option: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_flowloom-node")).arg(option).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("-h").contains("--me <NODE>") && said("--help").contains("--me <NODE>"));
    assert_eq!(said("-V"), concat!("flowloom-node ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(said("-V"), said("--version"));
}

#[test]
fn words_that_are_no_text_and_a_closed_output_are_no_reason_to_panic() {
    use std::os::unix::ffi::OsStrExt;
    let strange = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    for before in [&["--me"][..], &["--me", "0", "--transport"], &["--me", "0"], &["--me", "0", "--send"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_flowloom-node")).args(before).arg(strange).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{before:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // Both write to a pipe that nobody reads.
    for arguments in ["--help", "--me 0 127.0.0.1:7990 127.0.0.1:7991"] {
        let program = env!("CARGO_BIN_EXE_flowloom-node");
        let script = format!("{{ sleep 0.1; {program} {arguments}; echo $? >&3; }} 3>&2 </dev/null | true");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with("0\n") && !said.contains("panicked"), "{arguments}: {said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    let said = refused(&["--me", "0", &place, NODES[1]]);
    assert!(said.contains(&format!("cannot listen at {place}: Address already in use")), "{said}");
}

#[test]
fn each_transport_starts_with_its_defaults() {
    macro_rules! names {
        ($($transport:ty),* $(,)?) => { [$(<$transport as flowloom_core::Transport>::NAME),*] };
    }
    for name in flowloom_transports::for_each_transport!(names) {
        let addresses = [support::address(), support::address()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowloom-node"));
        command.args(["--me", "0", "--transport", name]).args(addresses).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if name == "fastpass" {
            assert!(said.contains("fastpass needs a controller, and the cluster has none"), "{said}");
        } else {
            assert!(output.status.success(), "{name}: {said}");
        }
    }
}

#[test]
fn the_first_session_of_the_readme_works() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("session-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(&readme, folder.join("README.md")).unwrap();
    let text = fs::read_to_string(&readme).unwrap();
    // All addresses in 127/8 belong to this machine. These contain the process id, so no other process uses them.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let mut commands = text.lines().filter_map(|line| line.strip_prefix("$ flowloom-node ")).map(|words| {
        let words = words.replace("127.0.0.1:", &format!("127.{}.{b}.{c}:", a | 0x80));
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowloom-node"));
        command.args(words.split(' ')).current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    });
    let mut receiver = commands.next().unwrap().spawn().unwrap();
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("listening"));
    assert!(commands.next().unwrap().status().unwrap().success());
    assert!(commands.next().is_none());
    drop(receiver.stdin.take()); // Ctrl-D
    assert!(receiver.wait().unwrap().success());
    let saved: Vec<_> = fs::read_dir(folder.join("received")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(saved.len(), 1);
    assert_eq!(fs::read_to_string(&saved[0]).unwrap(), text);
    fs::remove_dir_all(&folder).unwrap();
}
