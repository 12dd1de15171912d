//! The command line of `flowloom-node`: bad input is named and exits with 2, help and version work, and so does the README's session.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

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
    let cases: [(&[&str], &str); 9] = [
        (&["--nodes", "3"], "there is no option --nodes"),
        (&["--send", "0:x"], "--me is missing"),
        (&["--me", "one"], "\"one\" is no node"),
        (&["--me", "0", "--send", "file"], "it must be NODE:FILE"),
        (&["--me", "0", "--loss", "1.5"], "\"1.5\" is no share"),
        (&["--me", "0", "--line-rate", "100"], "say the unit"),
        (&["--me", "2"], "there is no node 2"),
        (&["--me", "0", "--transport", "tcpp"], "there is no transport tcpp"),
        (&["--me", "0", "--config", "token_life = 1.5"], "unknown field `token_life`"),
    ];
    for (arguments, expected) in cases {
        let said = refused(&[arguments, &NODES].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(refused(&["--me"]).contains("--me needs a value"));
    assert!(refused(&["--me", "0", "localhost"]).contains("\"localhost\" is no address"));
    assert!(refused(&["--me", "0", NODES[0]]).contains("1 nodes, but a network has 2 to 4096"));
}

#[test]
fn help_and_version_have_two_names_each() {
    let said = |option: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_flowloom-node")).arg(option).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(said("-h").contains("--me N"));
    assert_eq!(said("-h"), said("--help"));
    assert_eq!(said("-V"), concat!("flowloom-node ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(said("-V"), said("--version"));
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
