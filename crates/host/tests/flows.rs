//! Four operating-system processes exchange 200 flows over the loopback interface, and every byte arrives exactly once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 4;
const FLOWS: usize = 200;
/// Ends a test that would never end; it is no measure of speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// One flow to be sent.
struct Planned {
    src: usize,
    dst: usize,
    data: Vec<u8>,
}

/// SplitMix64: test data that no two flows share.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Sizes from nothing to 3 MB: the edges of packets and of pHost's free tokens first, then each order of magnitude alike, but for
/// half as many of the largest.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 1417, 1418, 1419, 11_344, 11_345, 3_000_000];
    let mut state = 1;
    while sizes.len() < FLOWS {
        let magnitude = random(&mut state) % 11 / 2;
        sizes.push((random(&mut state) % (3 * 10_u64.pow(magnitude as u32 + 1))) as usize);
    }
    sizes
}

/// All pairs of nodes in turn.
fn plan() -> Vec<Planned> {
    let flow = |(index, size): (usize, usize)| {
        let src = index % NODES;
        let dst = (src + 1 + index / NODES % (NODES - 1)) % NODES;
        let mut state = index as u64;
        let data = (0..size).map(|_| random(&mut state) as u8).collect();
        Planned { src, dst, data }
    };
    sizes().into_iter().enumerate().map(flow).collect()
}

/// A directory that goes when the test does.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}
impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that never outlives the test.
struct Process {
    child: Child,
    /// It ends some time after this is dropped.
    input: Option<ChildStdin>,
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a node whose lines go to `lines`; `None` is its end.
fn spawn(me: usize, arguments: &[String], lines: Sender<(usize, Option<String>)>) -> Process {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flowloom-node"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the node starts");
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = lines.send((me, Some(line)));
        }
        let _ = lines.send((me, None));
    });
    let input = child.stdin.take();
    Process { child, input }
}

/// Addresses that no other process uses: all of 127/8 is this machine's, so the process id goes into the address.
fn addresses() -> Vec<String> {
    static PORT: AtomicU16 = AtomicU16::new(7000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    (0..NODES).map(|_| format!("127.{}.{b}.{c}:{}", a | 0x80, PORT.fetch_add(1, Ordering::Relaxed))).collect()
}

/// `key=value` words of a line.
fn fields(line: &str) -> BTreeMap<String, String> {
    line.split(' ').filter_map(|word| word.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect()
}

/// What the nodes said.
#[derive(Default)]
struct Log {
    /// Which planned flow each flow is, by its id.
    sending: BTreeMap<String, usize>,
    acknowledged: Vec<String>,
    received: Vec<(usize, String)>,
    /// Counters of the nodes that have ended, added up.
    stats: BTreeMap<String, u64>,
    ended: usize,
}

impl Log {
    fn take(&mut self, node: usize, line: &str) {
        let mut fields = fields(line);
        let flow = fields.remove("flow").unwrap_or_default();
        match line.split(' ').next().unwrap() {
            "listening" => {}
            "sending" => {
                let index = Path::new(&fields["file"]).file_name().unwrap().to_str().unwrap().parse().unwrap();
                assert!(self.sending.insert(flow, index).is_none(), "two flows have one id: {line}");
            }
            "acknowledged" => self.acknowledged.push(flow),
            "received" => self.received.push((node, flow)),
            "stats" => {
                for (name, count) in fields {
                    *self.stats.entry(name).or_default() += count.parse::<u64>().unwrap();
                }
            }
            _ => panic!("node {node} said: {line}"),
        }
    }

    fn is_complete(&self) -> bool {
        self.acknowledged.len() >= FLOWS && self.received.len() >= FLOWS
    }
}

/// Listens to the nodes until all has arrived, then ends them and listens until they have.
fn converse(processes: &mut [Process], lines: &Receiver<(usize, Option<String>)>) -> Log {
    let deadline = Instant::now() + PATIENCE;
    let mut log = Log::default();
    while log.ended < NODES {
        if log.is_complete() {
            processes.iter_mut().for_each(|process| drop(process.input.take()));
        }
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((node, Some(line))) => log.take(node, &line),
            Ok((node, None)) => {
                assert!(log.is_complete(), "node {node} ended early; it said why on standard error");
                log.ended += 1;
            }
            Err(RecvTimeoutError::Timeout) => {
                let (received, acknowledged) = (log.received.len(), log.acknowledged.len());
                panic!("after {PATIENCE:?} {received} of {FLOWS} flows are received and {acknowledged} acknowledged");
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("every node tells its end"),
        }
    }
    log
}

/// Runs all flows with these options to every node, checks that each arrived whole and once, and returns the added counters.
fn exchange(name: &str, options: &[&str]) -> BTreeMap<String, u64> {
    let directory = Directory::new(name);
    let (plan, addresses) = (plan(), addresses());
    let (sender, lines) = channel();
    let mut processes = Vec::new();
    let saved = |node: usize| directory.0.join(format!("saved-{node}"));
    for node in 0..NODES {
        fs::create_dir(saved(node)).unwrap();
        let mut arguments: Vec<String> =
            vec!["--me".into(), node.to_string(), "--save".into(), saved(node).display().to_string()];
        arguments.extend(options.iter().map(|option| (*option).to_owned()));
        for (index, flow) in plan.iter().enumerate().filter(|(_, flow)| flow.src == node) {
            let file = directory.0.join(index.to_string());
            fs::write(&file, &flow.data).unwrap();
            arguments.extend(["--send".into(), format!("{}:{}", flow.dst, file.display())]);
        }
        arguments.extend(addresses.iter().cloned());
        processes.push(spawn(node, &arguments, sender.clone()));
    }
    let log = converse(&mut processes, &lines);
    for process in &mut processes {
        assert!(process.child.wait().unwrap().success());
    }
    check(&log, &plan, saved);
    log.stats
}

fn check(log: &Log, plan: &[Planned], saved: impl Fn(usize) -> PathBuf) {
    assert_eq!((log.sending.len(), log.received.len(), log.acknowledged.len()), (FLOWS, FLOWS, FLOWS));
    let mut seen = [false; FLOWS];
    for (node, flow) in &log.received {
        let index = log.sending[flow];
        let Planned { dst, data, .. } = &plan[index];
        assert!(!std::mem::replace(&mut seen[index], true), "flow {index} was received twice");
        assert_eq!(node, dst, "flow {index} went astray");
        let arrived = fs::read(saved(*node).join(flow)).unwrap();
        assert!(arrived == *data, "flow {index}: {} bytes arrived, {} were sent, or they differ", arrived.len(), data.len());
    }
    let bytes: usize = plan.iter().map(|flow| flow.data.len()).sum();
    assert_eq!(log.stats["payload_bytes_delivered"], bytes as u64, "each byte is reported once");
    for counter in ["foreign", "malformed", "broken_flows"] {
        assert_eq!(log.stats[counter], 0, "{counter}");
    }
}

#[test]
fn every_byte_arrives_once() {
    let stats = exchange("plain", &[]);
    assert_eq!((stats["lost"], stats["duplicated"], stats["reordered"]), (0, 0, 0));
    assert_eq!((stats["nic_drops"], stats["unsendable"]), (0, 0), "a pulled endpoint's packets do not queue");
    eprintln!("{stats:?}");
}

#[test]
fn every_byte_arrives_once_whatever_the_network_does() {
    let stats = exchange("faults", &["--loss", "0.03", "--duplicate", "0.02", "--reorder", "0.02"]);
    let arrived = stats["packets_received"] - stats["duplicated"] + stats["lost"];
    for (fault, share) in [("lost", 0.03), ("duplicated", 0.02), ("reordered", 0.02)] {
        let expected = arrived as f64 * share;
        assert!((stats[fault] as f64 - expected).abs() < 0.5 * expected, "{fault}: {} of {arrived}", stats[fault]);
    }
    assert!(stats["retransmissions"] > 0);
    eprintln!("{stats:?}");
}

/// A transport that fills the NIC's queue instead of being asked for packets. Its timeout is the testbed's, not the paper's 45 us,
/// in which no process is woken.
#[test]
fn every_byte_arrives_once_from_a_transport_that_queues() {
    let config = "rto = \"4ms\"\ntime_wait = \"10s\"";
    let stats = exchange("queued", &["--transport", "pfabric", "--config", config, "--loss", "0.01"]);
    assert!(stats["nic_drops"] > 0, "50 flows of 12 packets each do not fit into the queue");
    eprintln!("{stats:?}");
}
