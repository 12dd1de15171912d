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
/// The time limit of a test that hangs. It does not measure speed.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// One flow to be sent.
struct Planned {
    src: usize,
    dst: usize,
    data: Vec<u8>,
}

/// SplitMix64, so that all flows have different data.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Sizes from 0 to 3 MB. The first are the boundaries of packets and of pHost's free tokens. The others are spread evenly over the orders
/// of magnitude, with half as many of the largest.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 1390, 1391, 1392, 11_128, 11_129, 3_000_000];
    let mut state = 1;
    while sizes.len() < FLOWS {
        let magnitude = random(&mut state) % 11 / 2;
        sizes.push((random(&mut state) % (3 * 10_u64.pow(magnitude as u32 + 1))) as usize);
    }
    sizes
}

/// Flows between all pairs of nodes in turn.
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

/// A directory that is removed at the end of the test.
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

/// A process that is killed at the end of the test.
struct Process {
    child: Child,
    /// Its standard input. When this is dropped, the process ends.
    input: Option<ChildStdin>,
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a node. Its output lines are sent to `lines`; `None` means that it has ended.
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

/// Addresses that no other process uses. All addresses in 127/8 belong to this machine, and these contain the process id.
fn addresses() -> Vec<String> {
    static PORT: AtomicU16 = AtomicU16::new(7000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    (0..NODES).map(|_| format!("127.{}.{b}.{c}:{}", a | 0x80, PORT.fetch_add(1, Ordering::Relaxed))).collect()
}

/// The `key=value` words of a line.
fn fields(line: &str) -> BTreeMap<String, String> {
    line.split(' ').filter_map(|word| word.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect()
}

/// The output of the nodes.
#[derive(Default)]
struct Log {
    /// The index of the planned flow, by flow id.
    sending: BTreeMap<String, usize>,
    acknowledged: Vec<String>,
    received: Vec<(usize, String)>,
    /// The sums of the counters of all nodes that have ended.
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
            _ => panic!("node {node} printed: {line}"),
        }
    }

    fn is_complete(&self) -> bool {
        self.acknowledged.len() >= FLOWS && self.received.len() >= FLOWS
    }
}

/// Reads the nodes' output until all flows have arrived, then closes their input and reads until they end.
fn wait_for_flows(processes: &mut [Process], lines: &Receiver<(usize, Option<String>)>) -> Log {
    let deadline = Instant::now() + TIME_LIMIT;
    let mut log = Log::default();
    while log.ended < NODES {
        if log.is_complete() {
            processes.iter_mut().for_each(|process| drop(process.input.take()));
        }
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((node, Some(line))) => log.take(node, &line),
            Ok((node, None)) => {
                assert!(log.is_complete(), "node {node} ended early; its standard error says why");
                log.ended += 1;
            }
            Err(RecvTimeoutError::Timeout) => {
                let (received, acknowledged) = (log.received.len(), log.acknowledged.len());
                panic!("after {TIME_LIMIT:?} {received} of {FLOWS} flows are received and {acknowledged} acknowledged");
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("every node reports its end"),
        }
    }
    log
}

/// Runs all flows with these options for every node, checks that each flow arrives completely and once, and returns the sums of counters.
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
    let log = wait_for_flows(&mut processes, &lines);
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
        assert_eq!(node, dst, "flow {index} arrived at the wrong node");
        let arrived = fs::read(saved(*node).join(flow)).unwrap();
        assert!(arrived == *data, "flow {index}: {} bytes arrived, {} were sent, or they differ", arrived.len(), data.len());
    }
    let bytes: usize = plan.iter().map(|flow| flow.data.len()).sum();
    assert_eq!(log.stats["payload_bytes_delivered"], bytes as u64, "each byte is reported once");
    for counter in ["foreign", "forged", "malformed", "over_limit", "broken_flows"] {
        assert_eq!(log.stats[counter], 0, "{counter}");
    }
}

#[test]
fn every_byte_arrives_once() {
    let stats = exchange("plain", &[]);
    assert_eq!((stats["lost"], stats["duplicated"], stats["reordered"]), (0, 0, 0));
    assert_eq!((stats["nic_drops"], stats["unsendable"]), (0, 0), "packets of a pulled endpoint are not queued");
    eprintln!("{stats:?}");
}

#[test]
fn every_byte_arrives_once_with_loss_duplication_and_reordering() {
    let stats = exchange("faults", &["--loss", "0.03", "--duplicate", "0.02", "--reorder", "0.02"]);
    // A session takes no datagram twice.
    assert!(stats["replayed"] > 0 && stats["replayed"] <= stats["duplicated"], "{stats:?}");
    let arrived = stats["packets_received"] + stats["lost"];
    for (fault, share) in [("lost", 0.03), ("duplicated", 0.02), ("reordered", 0.02)] {
        let expected = arrived as f64 * share;
        assert!((stats[fault] as f64 - expected).abs() < 0.5 * expected, "{fault}: {} of {arrived}", stats[fault]);
    }
    assert!(stats["retransmissions"] > 0);
    eprintln!("{stats:?}");
}

/// A [`flowloom_core::Nic::Queued`] transport, which fills the NIC's queue. Its timeout fits the testbed: within the paper's 45 us the
/// kernel wakes no process.
#[test]
fn every_byte_arrives_once_from_a_transport_that_queues() {
    let config = "rto = \"4ms\"\ntime_wait = \"10s\"";
    let stats = exchange("queued", &["--transport", "pfabric", "--config", config, "--loss", "0.01"]);
    assert!(stats["nic_drops"] > 0, "50 flows of 12 packets each do not fit into the queue");
    eprintln!("{stats:?}");
}
