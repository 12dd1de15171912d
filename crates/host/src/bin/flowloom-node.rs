//! One node of a network of UDP processes. It sends files, and saves the files that other nodes send.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io, thread};

use flowloom_core::{Bytes, NodeId, QuantityError, Transport};
use flowloom_host::{Cluster, Faults, Faulty, Node, Notice, Profile, Udp};
use flowloom_transports::{Checked, Conditions, for_each_transport};
use serde::de::DeserializeOwned;

const USAGE: &str = "\
flowloom-node --me N [OPTION]... ADDRESS ADDRESS...

Runs node N of the network whose nodes, counted from 0, have the given addresses. Every node must get the same addresses,
transport and line rate. The program ends when all its flows are acknowledged; with --save, not before its standard input
ends (Ctrl-D).

  --send NODE:FILE      send a file to a node; any number of times
  --save DIR            save each received flow as DIR/FLOW; the directory is created
  --transport NAME      the transport (phost)
  --config TOML         the transport's parameters, such as 'token_life_slots = 4.0'; defaults are the paper's
  --line-rate RATE      the rate of the emulated NICs (100Mb/s)
  --loss P              lose this share of arriving datagrams (0)
  --duplicate P         duplicate this share of them (0)
  --reorder P           hold this share of them back for up to 2 ms (0)
  -h, --help            print this text
  -V, --version         print the version
";

const REORDER_DELAY_MAX: Duration = Duration::from_millis(2);
/// How often a node checks whether its standard input has ended.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

struct Options {
    me: NodeId,
    addresses: Vec<SocketAddr>,
    send: Vec<(NodeId, PathBuf)>,
    save: Option<PathBuf>,
    transport: String,
    config: String,
    profile: Profile,
    faults: Faults,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut me = None;
    let mut options = Options {
        me: NodeId(0),
        addresses: Vec::new(),
        send: Vec::new(),
        save: None,
        transport: "phost".into(),
        config: String::new(),
        profile: Profile::LOOPBACK,
        faults: Faults { delay_max: REORDER_DELAY_MAX, ..Faults::default() },
    };
    while let Some(name) = arguments.next() {
        if !name.starts_with("--") {
            options
                .addresses
                .push(name.parse().map_err(|_| format!("\"{name}\" is no address; an address looks like 127.0.0.1:7000"))?);
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--me" => me = Some(node(&value)?),
            "--send" => {
                let (to, file) = value.split_once(':').ok_or_else(|| format!("--send {value}: it must be NODE:FILE"))?;
                options.send.push((node(to)?, file.into()));
            }
            "--save" => options.save = Some(value.into()),
            "--transport" => options.transport = value,
            "--config" => options.config = value,
            "--line-rate" => {
                options.profile.line_rate = value.parse().map_err(|error: QuantityError| error.to_string())?;
            }
            "--loss" => options.faults.loss = share(&value)?,
            "--duplicate" => options.faults.duplicate = share(&value)?,
            "--reorder" => options.faults.reorder = share(&value)?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    options.me = me.ok_or("--me is missing")?;
    Ok(options)
}

fn node(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| format!("\"{text}\" is no node; nodes are counted from 0"))
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

fn run<T>(options: &Options) -> io::Result<()>
where
    T: Transport,
    T::Config: DeserializeOwned + Checked,
{
    let config: T::Config = toml::from_str(&options.config).map_err(|error| invalid(error.to_string()))?;
    config.check().map_err(invalid)?;
    let cluster = Cluster::new(options.addresses.clone(), options.profile)?;
    let (network, wire, buffer) = (cluster.network(), cluster.wire::<T>()?, options.profile.nic_buffer);
    config
        .check_under(&Conditions {
            network: &network,
            wire,
            buffer,
            pauses: false,
            last_deadline: None,
            largest_flow: Bytes::ZERO,
            largest_coflow: Bytes::ZERO,
        })
        .map_err(invalid)?;
    let place = options.addresses.get(options.me.index()).copied();
    let place =
        place.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("there is no node {}", options.me.0)))?;
    if let Some(directory) = &options.save {
        fs::create_dir_all(directory)?;
    }
    let network = Faulty::new(Udp::bind(place)?, options.faults, u64::from(options.me.0));
    let mut node = Node::<T, _>::over(network, &config, &cluster, options.me)?;
    println!("listening at={place}");
    for (to, file) in &options.send {
        let flow = node.send(*to, fs::read(file)?)?;
        println!("sending flow={} to={} file={}", flow.0, to.0, file.display());
    }
    let ended = input_ended();
    while node.unacknowledged() > 0 || options.save.is_some() && !ended.load(Ordering::Relaxed) {
        node.step(INPUT_CHECK_INTERVAL)?;
        while let Some(notice) = node.poll_notice() {
            print_notice(notice, options)?;
        }
    }
    let counts = node.network().counts();
    println!("stats {} lost={} duplicated={} reordered={}", node.stats(), counts.lost, counts.duplicated, counts.reordered);
    Ok(())
}

fn print_notice(notice: Notice, options: &Options) -> io::Result<()> {
    match notice {
        Notice::Acknowledged { flow } => println!("acknowledged flow={}", flow.0),
        Notice::Aborted { flow, reason } => println!("aborted flow={} reason={}", flow.0, reason.name()),
        Notice::Received { flow, src, data } => {
            if let Some(directory) = &options.save {
                fs::write(directory.join(flow.0.to_string()), &data)?;
            }
            println!("received flow={} from={} bytes={}", flow.0, src.0, data.len());
        }
    }
    Ok(())
}

/// Runs the transport of that name.
fn dispatch(options: &Options) -> io::Result<()> {
    macro_rules! by_name {
        ($($transport:ty),* $(,)?) => {
            $(if options.transport == <$transport>::NAME {
                return run::<$transport>(options);
            })*
        };
    }
    for_each_transport!(by_name);
    Err(invalid(format!("there is no transport {}", options.transport)))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |names: [&str; 2]| arguments.iter().any(|argument| names.contains(&argument.as_str()));
    if arguments.is_empty() || asked(["-h", "--help"]) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if asked(["-V", "--version"]) {
        println!("flowloom-node {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let options = match parse(arguments.into_iter()) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("flowloom-node: {what}");
            return ExitCode::from(2);
        }
    };
    match dispatch(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowloom-node: {error}");
            ExitCode::from(if error.kind() == io::ErrorKind::InvalidInput { 2 } else { 1 })
        }
    }
}
