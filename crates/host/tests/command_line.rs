//! Bad input to `flowloom-node` is named, and exits with 2.

use std::process::Command;

const NODES: [&str; 2] = ["127.0.0.1:7000", "127.0.0.1:7001"];

/// Runs it on these arguments and returns what it says on standard error.
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
