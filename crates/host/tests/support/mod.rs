//! Processes of `flowloom-node`.

#![allow(dead_code)] // each test file uses some of it

use std::io::Read;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const NODE: &str = env!("CARGO_BIN_EXE_flowloom-node");
/// The time limit of a test that hangs. It does not measure speed.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A process that is killed at the end of the test.
pub struct Process(pub Child);

impl Process {
    /// Starts a node, and waits until it listens.
    pub fn start(mut command: Command) -> Process {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        // One byte at a time, so that nothing after the line is taken from the pipe.
        let output = child.stdout.as_mut().unwrap();
        while !line.ends_with('\n') {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).unwrap(), 1, "the node ended: {line}");
            line.push(byte[0].into());
        }
        assert!(line.starts_with("listening"), "{line}");
        Process(child)
    }

    /// Waits for its end. Returns its status and all that it said after it listened.
    pub fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + TIME_LIMIT;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the node still runs");
            sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap(), said)
    }

    /// Kills it, as kill -9 does.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends its input (Ctrl-D), and waits for its end.
    pub fn close(mut self) -> (ExitStatus, String) {
        drop(self.0.stdin.take());
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
pub fn wait_for(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        sleep(Duration::from_millis(1));
    }
}

/// An address that nobody else uses. All addresses in 127/8 belong to this machine, and this one contains the process id.
pub fn address() -> String {
    static PORT: AtomicU16 = AtomicU16::new(9000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    format!("127.{}.{b}.{c}:{}", a | 0x80, PORT.fetch_add(1, Ordering::Relaxed))
}

/// The value of a counter in the line of counters.
pub fn counter(said: &str, name: &str) -> u64 {
    let stats = said.lines().find(|line| line.starts_with("stats ")).expect("a line of counters");
    let value = stats.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.expect("this counter").parse().unwrap()
}
