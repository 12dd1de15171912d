//! Attaches packet taggers to network devices, watches, changes and detaches them.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("flowloom-tag: the tagger is a BPF program, and only Linux runs such programs");
    ExitCode::from(2)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::VecDeque;
    use std::ffi::OsString;
    use std::io::{self, Write};
    use std::path::PathBuf;
    use std::process::ExitCode;
    use std::str::FromStr;

    use flowloom_core::{Duration, QuantityError};
    use flowloom_tagger::{Error, Options, Result, Rules, Tagger, agent, detach_all, devices, enter_namespace};

    const USAGE: &str = "\
flowloom-tag attach DEVICE --thresholds LIST [OPTION]...
flowloom-tag set DEVICE [OPTION]...
flowloom-tag status [DEVICE] [--json]
flowloom-tag detach DEVICE | --all
flowloom-tag serve DEVICE --listen ADDRESS [--key-file FILE]

Tags the packets that leave DEVICE with the classes of PIAS: a flow begins in class 0 (DSCP CS7), and each threshold that its
message exceeds takes it one class down. The tagger stays when this program ends, until it is detached. All of it needs root.

attach attaches a tagger; set changes it while it runs. Both take:
  --thresholds LIST   one to seven ascending sizes, such as 20kB,100kB,1MB
  --idle-gap TIME     a message begins when its program was silent for longer, and nothing is unacknowledged (500us)
  --timeouts N        a flow counts as new after N consecutive timeouts; 0: never (2)
  --ecn on|off        make all packets of TCP connections with ECN ECN-capable, or leave their ECN field (on)
attach takes, too:
  --exact             one packet per burst for new TCP connections (gso_max_segs 1), so that no packet has an earlier one's class
  --table-size N      flows that are remembered at once (65536)
  --clsact            a filter of the qdisc clsact, also where the kernel has TCX (6.6 or later)

status prints the rules and the counts of a tagger; without DEVICE, the devices that have one.
detach removes the tagger and all that it changed; --all does so on all devices.
serve lets a controller on another host read the status and set thresholds; without a key, only one on this host.

  --netns NAME        DEVICE is in this network namespace of `ip netns`; goes with each command
  -h, --help          print this text
  -V, --version       print the version
";

    pub fn main() -> ExitCode {
        let words: std::result::Result<VecDeque<String>, OsString> =
            std::env::args_os().skip(1).map(OsString::into_string).collect();
        let done = match words {
            Ok(words) => run(words),
            Err(word) => Err(Error::Input(format!("{word:?} is not UTF-8"))),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("flowloom-tag: {error}");
                ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
            }
        }
    }

    /// Prints text; a reader that has gone away is no error.
    fn print(text: &str) -> Result<()> {
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::System(format!("cannot write: {error}"))),
            _ => Ok(()),
        }
    }

    #[derive(Default)]
    struct Words {
        device: Option<String>,
        thresholds: Option<String>,
        idle_gap: Option<Duration>,
        timeouts: Option<u64>,
        ecn: Option<bool>,
        options: Options,
        json: bool,
        all: bool,
        listen: Option<std::net::SocketAddr>,
        key_file: Option<PathBuf>,
        netns: Option<String>,
    }

    /// A command's name, the options that it takes, and what runs it.
    type Command = (&'static str, &'static [&'static str], fn(&Words) -> Result<()>);

    fn run(mut words: VecDeque<String>) -> Result<()> {
        let asked = |names: [&str; 2]| words.iter().any(|word| names.contains(&word.as_str()));
        if words.is_empty() || asked(["-h", "--help"]) {
            return print(USAGE);
        }
        if asked(["-V", "--version"]) {
            return print(&format!("flowloom-tag {}\n", env!("CARGO_PKG_VERSION")));
        }
        let command = words.pop_front().unwrap_or_default();
        let commands: [Command; 5] = [
            ("attach", &["--thresholds", "--idle-gap", "--timeouts", "--ecn", "--exact", "--table-size", "--clsact"], attach),
            ("set", &["--thresholds", "--idle-gap", "--timeouts", "--ecn"], set),
            ("status", &["--json"], status),
            ("detach", &["--all"], detach),
            ("serve", &["--listen", "--key-file"], serve),
        ];
        let Some((_, takes, run)) = commands.into_iter().find(|(name, ..)| *name == command) else {
            let names = commands.map(|(name, ..)| name).join(", ");
            return Err(Error::Input(format!("there is no command \"{command}\"; the commands are {names}")));
        };
        let words = parse(&command, takes, words)?;
        if let Some(name) = &words.netns {
            enter_namespace(name)?;
        }
        run(&words)
    }

    fn parse(command: &str, takes: &[&str], mut words: VecDeque<String>) -> Result<Words> {
        let mut found = Words::default();
        while let Some(name) = words.pop_front() {
            if !name.starts_with('-') {
                if let Some(first) = &found.device {
                    return Err(Error::Input(format!("two devices are given, {first} and {name}; give one")));
                }
                found.device = Some(name);
                continue;
            }
            if !takes.contains(&name.as_str()) && name != "--netns" {
                return Err(Error::Input(format!("{command} has no option {name}; `flowloom-tag --help` lists them")));
            }
            match name.as_str() {
                "--json" => found.json = true,
                "--all" => found.all = true,
                "--exact" => found.options.exact = true,
                "--clsact" => found.options.clsact = true,
                _ => {
                    let value = words.pop_front().ok_or_else(|| Error::Input(format!("{name} needs a value")))?;
                    set_option(&mut found, &name, value)?;
                }
            }
        }
        Ok(found)
    }

    fn set_option(found: &mut Words, name: &str, value: String) -> Result<()> {
        match name {
            "--thresholds" => found.thresholds = Some(value),
            "--idle-gap" => {
                let gap = value.parse().map_err(|error: QuantityError| Error::Input(format!("--idle-gap: {error}")))?;
                found.idle_gap = Some(gap);
            }
            "--timeouts" => found.timeouts = Some(number(name, &value, 0, 255)?),
            "--ecn" => {
                found.ecn = Some(match value.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(Error::Input(format!("--ecn {value}: it is on or off"))),
                });
            }
            "--table-size" => found.options.table_size = number(name, &value, 1024, 1 << 24)?,
            "--listen" => {
                let address = value.parse();
                found.listen =
                    Some(address.map_err(|_| Error::Input(format!("--listen {value}: an address looks like 127.0.0.1:7171")))?);
            }
            "--key-file" => found.key_file = Some(value.into()),
            _ => found.netns = Some(value),
        }
        Ok(())
    }

    fn number<N: FromStr + PartialOrd + Copy + std::fmt::Display>(name: &str, value: &str, least: N, most: N) -> Result<N> {
        match value.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(Error::Input(format!("{name} {value}: give a whole number from {least} to {most}"))),
        }
    }

    impl Words {
        fn device(&self) -> Result<&str> {
            self.device.as_deref().ok_or_else(|| Error::Input("give the device, such as eth0; `ip link` lists them".into()))
        }

        /// The rules with what is given on the command line.
        fn over(&self, rules: Rules) -> Result<Rules> {
            Ok(Rules {
                thresholds: self.thresholds.as_deref().map_or(Ok(rules.thresholds), Rules::parse_thresholds)?,
                idle_gap: self.idle_gap.unwrap_or(rules.idle_gap),
                timeouts: self.timeouts.unwrap_or(rules.timeouts),
                keep_ecn: self.ecn.map_or(rules.keep_ecn, |on| !on),
            })
        }
    }

    fn attach(words: &Words) -> Result<()> {
        if words.thresholds.is_none() {
            return Err(Error::Input("give --thresholds, such as --thresholds 20kB,100kB,1MB".into()));
        }
        let tagger = Tagger::attach(words.device()?, &words.over(Rules::new(Vec::new()))?, words.options)?;
        print(&tagger.status()?.to_string())
    }

    fn set(words: &Words) -> Result<()> {
        let tagger = Tagger::open(words.device()?)?;
        tagger.set(&words.over(tagger.rules()?)?)?;
        print(&tagger.status()?.to_string())
    }

    fn status(words: &Words) -> Result<()> {
        let Some(device) = &words.device else {
            let names = devices()?;
            if words.json {
                return print(&format!("{}\n", serde_json::json!(names)));
            }
            return print(&if names.is_empty() {
                "no device has a tagger\n".into()
            } else {
                format!("{}\n", names.join("\n"))
            });
        };
        let status = Tagger::open(device)?.status()?;
        if words.json {
            let text = serde_json::to_string(&status).map_err(|error| Error::System(format!("cannot write JSON: {error}")))?;
            return print(&format!("{text}\n"));
        }
        print(&status.to_string())
    }

    fn detach(words: &Words) -> Result<()> {
        if words.all {
            if words.device.is_some() || words.netns.is_some() {
                let what = "--all detaches the taggers of all devices, in all network namespaces";
                return Err(Error::Input(format!("{what}; leave out the device and --netns, or --all")));
            }
            let names = detach_all()?;
            return print(&names.iter().map(|name| format!("{name} is detached\n")).collect::<String>());
        }
        Tagger::detach(words.device()?)
    }

    fn serve(words: &Words) -> Result<()> {
        let address = words.listen.ok_or_else(|| Error::Input("give --listen, such as --listen 127.0.0.1:7171".into()))?;
        let device = words.device()?;
        // Errors that can be seen now are no surprise for the controller.
        Tagger::open(device)?;
        let key = words.key_file.as_deref().map(agent::Key::read).transpose()?;
        let listener = agent::listen(address, key.as_ref())?;
        let address = listener.local_addr().map_err(|error| Error::System(format!("cannot listen: {error}")))?;
        print(&format!("listening on {address} for {device}\n"))?;
        agent::serve(device, &listener, key.as_ref())
    }
}
