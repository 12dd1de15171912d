//! The network device, as `ip` and `tc` of iproute2 know it.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{io, iter};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Result, failed};

/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";

/// A network device of this namespace.
pub struct Device {
    pub name: String,
    pub index: u32,
    /// The largest number of packets in a burst that the device cuts up.
    pub gso_segments_max: u64,
}

impl Device {
    /// Finds a device.
    ///
    /// # Errors
    ///
    /// There is no such device, or its packets have no Ethernet header.
    pub fn find(name: &str) -> Result<Device> {
        if name.is_empty() || name.starts_with('-') {
            return Err(Error::Input(format!("\"{name}\" is no device; `ip link` lists them")));
        }
        let text = run("ip", &["-json", "-details", "link", "show", "dev", name]).map_err(|error| match error {
            Error::System(why) if why.contains("does not exist") => {
                Error::Input(format!("there is no device {name} here; `ip link` lists them"))
            }
            other => other,
        })?;
        let found = &parse::<Value>(&text)?[0];
        if !["ether", "loopback"].contains(&found["link_type"].as_str().unwrap_or_default()) {
            let kind = &found["link_type"];
            return Err(Error::Input(format!("packets of {name} have no Ethernet header (its type is {kind})")));
        }
        let index = found["ifindex"].as_u64().and_then(|index| u32::try_from(index).ok());
        let index = index.ok_or_else(|| Error::System(format!("`ip` gives {name} no number")))?;
        Ok(Device { name: name.into(), index, gso_segments_max: found["gso_max_segs"].as_u64().unwrap_or(65_535) })
    }

    /// Sets the largest number of packets in a burst. It applies to connections that begin afterwards.
    pub fn set_gso_segments_max(&self, packets: u64) -> Result<()> {
        run("ip", &["link", "set", "dev", &self.name, "gso_max_segs", &packets.to_string()]).map(drop)
    }

    /// Adds the qdisc to which filters of outgoing packets attach; returns false if the device has one.
    pub fn add_clsact(&self) -> Result<bool> {
        match run("tc", &["qdisc", "add", "dev", &self.name, "clsact"]) {
            Ok(_) => Ok(true),
            Err(Error::System(why)) if why.contains("Exclusivity flag") || why.contains("File exists") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes that qdisc, if nobody else has filters there.
    pub fn remove_clsact(&self) -> Result<()> {
        if self.filters("ingress")?.trim().is_empty() && self.filters("egress")?.trim().is_empty() {
            run("tc", &["qdisc", "del", "dev", &self.name, "clsact"])?;
        }
        Ok(())
    }

    /// Finds the program of this name among the filters of outgoing packets.
    pub fn filter(&self, program: &str) -> Result<Option<Filter>> {
        let text = run("tc", &["-json", "filter", "show", "dev", &self.name, "egress"])?;
        let filters: Vec<Value> = if text.trim().is_empty() { Vec::new() } else { parse(&text)? };
        let found = filters.iter().find(|filter| filter["options"]["prog"]["name"] == program);
        Ok(found.and_then(Filter::read))
    }

    /// The queues of the device, as the kernel names them; the one that takes all packets has no parent.
    pub fn queues(&self) -> Result<Vec<Queue>> {
        let found: Vec<Value> = parse(&run("tc", &["-json", "qdisc", "show", "dev", &self.name])?)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let read = |value: &Value| Queue {
            kind: text(&value["kind"]),
            handle: text(&value["handle"]),
            is_root: value["root"] == true,
        };
        Ok(found.iter().map(read).collect())
    }

    fn filters(&self, side: &str) -> Result<String> {
        run("tc", &["filter", "show", "dev", &self.name, side])
    }
}

/// A program that is a filter of the qdisc clsact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    pub priority: u16,
    pub handle: u32,
    /// The number of the program in the kernel.
    pub program: u32,
}

impl Filter {
    fn read(filter: &Value) -> Option<Filter> {
        let options = &filter["options"];
        let handle = options["handle"].as_str()?.trim_start_matches("0x");
        Some(Filter {
            priority: filter["pref"].as_u64()?.try_into().ok()?,
            handle: u32::from_str_radix(handle, 16).ok()?,
            program: options["prog"]["id"].as_u64()?.try_into().ok()?,
        })
    }
}

/// A queueing discipline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Its kind, such as `htb`.
    pub kind: String,
    /// Its handle, such as `10:`.
    pub handle: String,
    /// Whether it takes all packets of the device.
    pub is_root: bool,
}

/// Moves this thread, and the programs that it starts, into a network namespace of `ip netns`.
///
/// # Errors
///
/// There is no such namespace, or this user may not enter it.
pub fn enter_namespace(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::Input(format!("--netns {name}: give a name of `ip netns list`")));
    }
    let path = format!("{NAMESPACES}/{name}");
    let file = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::Input(format!("--netns {name}: there is no such namespace; `ip netns list` lists them"))
        }
        _ => Error::System(format!("--netns {name}: cannot open {path}: {error}")),
    })?;
    enter(&file)
}

/// Moves this thread into the network namespace with this number, if there is one, and else into `home`.
pub fn enter_number(number: u64, home: &File) -> Result<()> {
    match held(number) {
        Some(path) => enter(&File::open(path).map_err(failed("open a network namespace"))?),
        None => enter(home),
    }
}

/// A file that is the network namespace with this number. Not all have a name of `ip netns`: a container has processes, and a testbed is held by an open file.
fn held(number: u64) -> Option<PathBuf> {
    let named = entries(Path::new(NAMESPACES)).find(|path| fs::metadata(path).is_ok_and(|found| found.ino() == number));
    let target = PathBuf::from(format!("net:[{number}]"));
    let of_process = |process: PathBuf| {
        let mut files = iter::once(process.join("ns/net")).chain(entries(&process.join("fd")));
        files.find(|file| fs::read_link(file).is_ok_and(|to| to == target))
    };
    named.or_else(|| entries(Path::new("/proc")).find_map(of_process))
}

/// What is in a folder; nothing if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn enter(namespace: &File) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).map_err(failed("enter a network namespace"))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(failed("read the answer of iproute2"))
}

/// Runs a command of iproute2; returns what it prints.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::System(format!("the command `{program}` is missing; install iproute2")),
        _ => Error::System(format!("cannot run `{program}`: {error}")),
    })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::System(format!("`{program} {}` failed: {}", arguments.join(" "), why.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
