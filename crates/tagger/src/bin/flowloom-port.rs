//! Makes network devices switch ports that mark, shows what they have marked, and ends it.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("flowloom-port: the port is a BPF program, and only Linux runs such programs");
    ExitCode::from(2)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Write};
    use std::process::ExitCode;

    use clap::{Parser, Subcommand};
    use flowloom_core::Bytes;
    use flowloom_tagger::port::{By, Port, QUEUES_MAX, Rules};
    use flowloom_tagger::{Error, Result, enter_namespace};

    /// Marks packets at a switch port, by the real backlog of its queues.
    ///
    /// A program in the kernel sees the packets that leave a device before they enter its queues, which `flowloom deploy --for linux` makes. It marks
    /// those that are ECN-capable (CE) if more than a threshold waits there. It stays when this command ends, until it is detached or the device is
    /// gone. All of it needs root.
    #[derive(Parser)]
    #[command(name = "flowloom-port", version)]
    struct Options {
        #[command(subcommand)]
        command: Command,
        /// DEVICE is in this network namespace of `ip netns`.
        #[arg(long, global = true, value_name = "NAME")]
        netns: Option<String>,
    }

    #[derive(Subcommand)]
    enum Command {
        /// Makes a device mark; other rules replace those that it has.
        Attach {
            /// The device, such as eth0.
            device: String,
            /// Packets are marked if more than this waits, the packet included, such as 30kB.
            #[arg(long, value_name = "SIZE", value_parser = str::parse::<Bytes>)]
            above: Bytes,
            /// What must be above the threshold.
            #[arg(long, value_enum, default_value_t)]
            by: By,
            /// The number of the device's queues. Class c is in queue c, and all else in the last one.
            #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=QUEUES_MAX as u64))]
            queues: u64,
        },
        /// Prints the rules of a device, and what it has counted by queue.
        Status {
            /// The device.
            device: String,
            /// Prints one object of JSON.
            #[arg(long)]
            json: bool,
        },
        /// Ends the marks of a device, and leaves nothing of them.
        Detach {
            /// The device.
            device: String,
        },
    }

    pub fn main() -> ExitCode {
        match run(Options::parse()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("flowloom-port: {error}");
                ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
            }
        }
    }

    fn run(options: Options) -> Result<()> {
        if let Some(name) = &options.netns {
            enter_namespace(name)?;
        }
        match options.command {
            Command::Attach { device, above, by, queues } => {
                let port = Port::attach(&device, Rules { above, by, queues: queues as usize })?;
                print(&port.status()?.to_string())
            }
            Command::Status { device, json } => {
                let status = Port::open(&device)?.status()?;
                if !json {
                    return print(&status.to_string());
                }
                let text =
                    serde_json::to_string(&status).map_err(|error| Error::System(format!("cannot write JSON: {error}")))?;
                print(&format!("{text}\n"))
            }
            Command::Detach { device } => Port::open(&device)?.detach(),
        }
    }

    /// Prints text; a reader that has gone away is no error.
    fn print(text: &str) -> Result<()> {
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::System(format!("cannot write: {error}"))),
            _ => Ok(()),
        }
    }
}
