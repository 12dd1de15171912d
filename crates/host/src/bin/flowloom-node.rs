//! One node of a network of UDP processes. It sends files, and saves the files that other nodes send.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io, thread};

use clap::Parser;
use clap::builder::TypedValueParser;
use flowloom_core::{Bytes, NodeId, NodeKind, Rate, Time, Transport};
use flowloom_host::flow_list::{self, Planned};
use flowloom_host::{
    Cluster, Discard, Faults, Faulty, InFiles, InMemory, Key, Member, Node, Notice, Profile, Records, START, Store, Udp,
    processor_time,
};
use flowloom_transports::{Checked, Conditions, for_each_transport};
use serde::de::DeserializeOwned;

/// Runs one node of a network of UDP processes: it sends files, and saves the files that other nodes send.
///
/// The nodes are hosts at the given addresses, counted from 0, on one switch; or those of a cluster file, with switches. All must get the same cluster, transport,
/// parameters, line rate and key; a node that differs is named. The program ends when all its flows have ended: with 0 if all were acknowledged, which means
/// that their destinations have them on disk, and with 1 otherwise. A receiver (--save or --discard), an arbitrator (a switch) and a controller do not end before their
/// standard input ends (Ctrl-D).
#[derive(Parser)]
#[command(name = "flowloom-node", version)]
struct Options {
    /// This node: its number, or its name in the cluster file. A switch or the controller runs the transport's control endpoint there.
    #[arg(long, value_name = "NODE", required_unless_present = "new_key")]
    me: Option<String>,
    /// The addresses of all hosts, such as 127.0.0.1:7000.
    #[arg(value_name = "ADDRESS", conflicts_with = "cluster")]
    addresses: Vec<SocketAddr>,
    /// The description of the cluster (TOML): host = [{ name, address, switch, rate, delay }, ...], switch = [{ name, address, above = [...], rate, delay }, ...], and
    /// controller = { address } for a transport that has one. The rates and delays are those of links upwards.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Sends a file to a node; any number of times.
    #[arg(long, value_name = "NODE:FILE", value_parser = clap::builder::OsStringValueParser::new().try_map(Sending::parse))]
    send: Vec<Sending>,
    /// Saves each received flow as DIR/FLOW; the directory is created.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Takes all flows and keeps nothing of them, for measurements.
    #[arg(long, conflicts_with = "save")]
    discard: bool,
    /// Sends the flows of a list, each of as many zeros as it has bytes. A line of the file is a flow: {"flow": 7, "to": "h2", "bytes": 30000, "start_ns": 150000}, and
    /// may have "deadline_ns", "tenant", "coflow" and "background". Times count from the common start.
    #[arg(long, value_name = "FILE", requires = "start_at")]
    flows: Option<PathBuf>,
    /// The common start of all nodes of this machine, in nanoseconds of CLOCK_MONOTONIC. Their times then count from it. Before it, nodes greet each other.
    #[arg(long, value_name = "NS", conflicts_with = "send")]
    start_at: Option<u64>,
    /// When the node ends although flows are open, in nanoseconds after the common start.
    #[arg(long, value_name = "NS", requires = "start_at", value_parser = clap::value_parser!(u64).range(..=MOST_NS))]
    until: Option<u64>,
    /// Writes what becomes of flows into a file, as lines of JSON with times in nanoseconds after the common start, and not to the standard output.
    #[arg(long, value_name = "FILE", requires = "start_at")]
    records: Option<PathBuf>,
    /// The transport.
    #[arg(long, value_name = "NAME", default_value = "phost")]
    transport: String,
    /// The transport's parameters, such as 'token_life_slots = 4.0'; defaults are the paper's.
    #[arg(long, value_name = "TOML", default_value = "")]
    config: String,
    /// How this machine keeps time: "loopback" keeps the paper's rules, at 100 Mb/s; "batched" handles bursts of packets, at 1 Gb/s, and gives pHost's tokens a longer life.
    #[arg(long, value_name = "NAME", default_value = "loopback", value_parser = Profile::named)]
    profile: Profile,
    /// The rate of the emulated NICs; by default the profile's.
    #[arg(long, value_name = "RATE", value_parser = quantity::<Rate>)]
    line_rate: Option<Rate>,
    /// The size of the largest IP packet: the least MTU of all links between the nodes.
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>)]
    mtu: Option<Bytes>,
    /// The memory of the emulated NICs, for transports that queue packets there. By default, a TCP and its relatives lose nothing at their NICs, and the others have the profile's
    /// memory.
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>)]
    nic_buffer: Option<Bytes>,
    /// Never sleeps. The process then takes a core for itself.
    #[arg(long)]
    busy: bool,
    /// After how long a node that says nothing counts as gone.
    #[arg(long, value_name = "TIME", default_value_t = Profile::LOOPBACK.silence, value_parser = quantity::<flowloom_core::Duration>)]
    silence: flowloom_core::Duration,
    /// The file with the cluster's secret. Without it, anybody can forge datagrams.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Writes a new random secret into a file, and ends.
    #[arg(long, value_name = "FILE")]
    new_key: Option<PathBuf>,
    /// Loses this share of arriving datagrams.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// Duplicates this share of arriving datagrams.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    duplicate: f64,
    /// Holds this share of arriving datagrams back for up to 2 ms.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    reorder: f64,
}

/// The longest span that an option can give: 11 days.
const MOST_NS: u64 = 1_000_000_000_000_000;
const REORDER_DELAY_MAX: Duration = Duration::from_millis(2);
/// How often a node checks whether its standard input has ended.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A file, and the node that it is for.
#[derive(Clone, Debug)]
struct Sending {
    to: String,
    file: PathBuf,
}

impl Sending {
    fn parse(text: OsString) -> Result<Sending, String> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').ok_or("it must be NODE:FILE, such as 1:notes.txt")?;
        let to = String::from_utf8_lossy(&bytes[..colon]).into_owned();
        Ok(Sending { to, file: OsString::from_vec(bytes[colon + 1..].to_vec()).into() })
    }
}

/// The node that the user means.
fn find(cluster: &Cluster, name: &str) -> io::Result<NodeId> {
    cluster.find(name).ok_or_else(|| {
        let names: Vec<&str> = cluster.members().iter().map(|member| member.name.as_str()).collect();
        let names = if names.len() > 20 { format!("{} nodes", names.len()) } else { names.join(", ") };
        invalid(format!("there is no node {name}; the cluster has {names}"))
    })
}

/// The cluster that the options describe.
fn cluster(options: &Options) -> io::Result<Cluster> {
    let Options { profile, line_rate, mtu, nic_buffer, silence, .. } = *options;
    let (line_rate, mtu) = (line_rate.unwrap_or(profile.line_rate), mtu.unwrap_or(profile.mtu));
    let [nic_buffer, windows_buffer] =
        [profile.nic_buffer, profile.windows_buffer].map(|default| nic_buffer.unwrap_or(default));
    let profile = Profile { line_rate, mtu, nic_buffer, windows_buffer, silence, ..profile };
    let key = options.key.as_ref().map_or(Ok(Key::PUBLIC), |file| Key::read(file).map_err(about(file.display())))?;
    let cluster = match &options.cluster {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(about(file.display()))?;
            Cluster::parse(&text, profile).map_err(about(file.display()))?
        }
        None => Cluster::new(options.addresses.clone(), profile)?,
    };
    let local = cluster.members().iter().flat_map(|member| member.address).all(|address| address.ip().is_loopback());
    if options.key.is_none() && !local {
        complain(format_args!("without --key, anybody who reaches these addresses can forge datagrams"));
    }
    Ok(cluster.with_key(key))
}

fn quantity<Q: FromStr<Err: fmt::Display>>(text: &str) -> Result<Q, String> {
    text.parse().map_err(|error: Q::Err| error.to_string())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("\"{text}\" is no share from 0 to 1")),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// An error about something that the user has named.
fn about(name: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| invalid(format!("{name}: {error}"))
}

/// Writes a line to standard output. Nobody may be reading it, which is no reason to stop.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "flowloom-node: {line}");
}

/// Becomes true when standard input ends.
fn input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        // Neither the input nor an error at its end matters.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// Reads and checks the parameters of `T`, and prints those that do not suit the network.
fn configure<T>(options: &Options, cluster: &Cluster, flows: &[Planned]) -> io::Result<T::Config>
where
    T: Transport,
    T::Config: DeserializeOwned + Checked,
{
    let mut table: toml::Table = cluster.profile().parameters::<T>().parse().expect("it is TOML");
    let given: toml::Table = options.config.parse().map_err(|error| invalid(format!("--config: {error}")))?;
    table.extend(given);
    let config: T::Config = table.try_into().map_err(|error| invalid(format!("--config: {error}")))?;
    config.check().map_err(invalid)?;
    let conditions = Conditions {
        last_deadline: flows.iter().filter_map(|planned| planned.flow.deadline).max(),
        largest_flow: flows.iter().map(|planned| planned.flow.size).max().unwrap_or_default(),
        largest_coflow: flows.iter().map(|planned| planned.flow.coflow_size()).max().unwrap_or_default(),
        ..Conditions::new(cluster.network(), cluster.wire::<T>()?, cluster.profile().nic_memory::<T>(&config))
    };
    config.check_under(&conditions).map_err(invalid)?;
    for misfit in config.misfits(&conditions) {
        complain(format_args!("--config {}", misfit.replace("fabric.buffer", "--nic-buffer")));
    }
    Ok(config)
}

/// Runs the node until its flows have ended. Returns whether all were acknowledged.
fn run<T>(options: &Options) -> io::Result<bool>
where
    T: Transport,
    T::Config: DeserializeOwned + Checked,
{
    let cluster = cluster(options)?;
    let me = find(&cluster, options.me.as_ref().expect("it is required"))?;
    let flows = options.flows.as_ref().map_or(Ok(Vec::new()), |file| {
        let text = fs::read_to_string(file).map_err(about(file.display()))?;
        flow_list::parse(&text, &cluster, me, START).map_err(|error| invalid(format!("{}: {error}", file.display())))
    })?;
    let config = configure::<T>(options, &cluster, &flows)?;
    let Member { name, address } = &cluster.members()[me.index()];
    let place = address.ok_or_else(|| invalid(format!("\"{name}\" has no address, so nothing runs there")))?;
    let sending = options.send.iter().map(|Sending { to, file }| {
        let data = fs::read(file).map_err(about(file.display()))?;
        Ok((find(&cluster, to)?, file, data))
    });
    let sending: Vec<(NodeId, &PathBuf, Vec<u8>)> = sending.collect::<io::Result<_>>()?;
    let store: Box<dyn Store> = match &options.save {
        Some(directory) => Box::new(InFiles::new(directory).map_err(about(directory.display()))?),
        None if options.discard => Box::new(Discard),
        None => Box::new(InMemory::new(Bytes::new(1 << 30))),
    };
    let faults =
        Faults { loss: options.loss, duplicate: options.duplicate, reorder: options.reorder, delay_max: REORDER_DELAY_MAX };
    let socket = Udp::bind(place).map_err(about(format_args!("cannot listen at {place}")))?;
    let network = Faulty::new(socket, faults, u64::from(me.0));
    let mut node = Node::<T, _>::over(network, store, &config, &cluster, me)?;
    node.set_busy(options.busy);
    options.start_at.map_or(Ok(()), |ns| node.set_start(Duration::from_nanos(ns)).map_err(about("--start-at")))?;
    say(format_args!("listening at={place}"));
    for (to, file, data) in sending {
        let flow = node.send(to, data)?;
        say(format_args!("sending flow={} to={} file={}", flow.0, to.0, file.display()));
    }
    let mut records = records(options, &cluster)?;
    for Planned { number, flow } in flows {
        let id = node.plan(flow)?;
        records.iter_mut().try_for_each(|records| records.planned(id, number))?;
    }
    // Without the time that it took to read the files.
    let before = processor_time();
    let ended = input_ended();
    let stays = options.save.is_some() || options.discard || cluster.network().node(me).kind != NodeKind::Host;
    let mut good = true;
    let until = options.until.map_or(Time::MAX, |ns| START + flowloom_core::Duration::from_ns(ns));
    while node.now() < until && (node.unacknowledged() > 0 || node.unconfirmed() > 0 || stays && !ended.load(Ordering::Relaxed))
    {
        node.step(INPUT_CHECK_INTERVAL)?;
        while let Some(notice) = node.poll_notice() {
            good &= !matches!(notice, Notice::Aborted { .. });
            match &mut records {
                Some(records) => records.take(node.now(), &notice)?,
                None => report(&notice, &cluster),
            }
        }
        records.iter_mut().try_for_each(Records::flush)?;
    }
    if let Some(records) = &mut records {
        node.open_flows().iter().try_for_each(|(flow, sent)| records.open(*flow, sent))?;
        node.unfinished().iter().try_for_each(|(flow, arrived)| records.unfinished(*flow, *arrived))?;
        records.flush()?;
    }
    good &= node.unacknowledged() == 0;
    let counts = node.network().counts();
    say(format_args!(
        "stats {} calls={} processor_us={} lost={} duplicated={} reordered={}",
        node.stats(),
        node.network().inner().calls(),
        (processor_time() - before).as_micros(),
        counts.lost,
        counts.duplicated,
        counts.reordered
    ));
    Ok(good)
}

/// Where the records go, if the user wants them.
fn records<'a>(options: &Options, cluster: &'a Cluster) -> io::Result<Option<Records<'a, BufWriter<File>>>> {
    let file = options.records.as_ref().map(|file| File::create(file).map_err(about(file.display()))).transpose()?;
    Ok(file.map(|file| Records::new(BufWriter::new(file), cluster, START)))
}

/// Tells the user about a notice.
fn report(notice: &Notice, cluster: &Cluster) {
    let name = |node: &NodeId| {
        let Member { name, address } = &cluster.members()[node.index()];
        address.map_or_else(|| format!("node {name}"), |address| format!("node {name} ({address})"))
    };
    match notice {
        Notice::Acknowledged { flow, .. } => say(format_args!("acknowledged flow={}", flow.0)),
        Notice::Received { flow, src, size, .. } => {
            say(format_args!("received flow={} from={} bytes={}", flow.0, src.0, size.get()));
        }
        Notice::Aborted { flow, cause, .. } => {
            say(format_args!("aborted flow={}", flow.0));
            complain(format_args!("flow {} was aborted: {cause}", flow.0));
        }
        Notice::Incomplete { flow, src, cause, .. } => {
            say(format_args!("incomplete flow={} from={}", flow.0, src.0));
            complain(format_args!("flow {} from {} is not complete: {cause}", flow.0, name(src)));
        }
        Notice::Differs { peer, what } => complain(format_args!("{} {what}", name(peer))),
    }
}

/// Runs the transport of that name.
fn dispatch(options: &Options) -> io::Result<bool> {
    if let Some(file) = &options.new_key {
        Key::random()?.write(file).map_err(about(file.display()))?;
        return Ok(true);
    }
    let mut names = Vec::new();
    macro_rules! by_name {
        ($($transport:ty),* $(,)?) => {
            $(if options.transport == <$transport>::NAME {
                return run::<$transport>(options);
            }
            names.push(<$transport>::NAME);)*
        };
    }
    for_each_transport!(by_name);
    Err(invalid(format!("there is no transport {}; there are {}", options.transport, names.join(", "))))
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // The text goes nowhere if nobody reads it.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match dispatch(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::from(if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 })
        }
    }
}
