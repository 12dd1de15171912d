//! Marks at a switch port, by the real backlog of the queues of a device.
//!
//! A BPF program in the kernel sees each packet before it enters the queues that `flowloom deploy --for linux` makes, and marks it if more
//! than a threshold waits there. [`Port`] attaches it, reads what it has [counted](Status), and detaches it. The program stays when the
//! process ends, and goes with the device: nothing of it is in a file system.

use std::fmt;

use aya::EbpfLoader;
use aya::maps::{Array, MapData, MapInfo};
use aya::programs::{ProgramInfo, loaded_programs};
use flowloom_core::Bytes;
use serde::Serialize;

use crate::device::{Device, Queue};
use crate::programs::{self, missing, program};
use crate::status::CLASSES;
use crate::{Error, Result, failed};

/// The compiled program; its source is `bpf/port.bpf.c`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/port.bpf.o");
/// The largest number of queues.
pub const QUEUES_MAX: usize = CLASSES;

const PROGRAM: &str = "flowloom_port";
/// The words of the map `rules_map`, and those of the map `counters`.
const WORDS: usize = 3;
const COUNTERS: usize = 4 * CLASSES + 1;
/// Queues whose backlog the kernel does not keep where the program reads it.
const WITHOUT_BACKLOG: [&str; 4] = ["noqueue", "mq", "mqprio", "pfifo_fast"];

/// What must be above the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// All that waits at the device
    #[default]
    Port,
    /// What waits in the queue of the packet's class
    Queue,
}

/// Which packets are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// An ECN-capable packet is marked if more than this waits, the packet included.
    pub above: Bytes,
    /// Where it waits.
    pub by: By,
    /// The number of queues, 1 to 8. Class c, which is sent as DSCP CS(7 - c), is in queue c, and all else is in the last queue.
    pub queues: usize,
}

impl Rules {
    /// Checks that a device has the queues.
    fn check(&self, device: &Device) -> Result<()> {
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return Err(Error::Input(format!("a port has 1 to {QUEUES_MAX} queues, and not {}", self.queues)));
        }
        let (name, found) = (&device.name, device.queues()?);
        let has = |handle: &str| found.iter().any(|queue| queue.handle == handle);
        match self.by {
            By::Port => match found.iter().find(|queue| queue.is_root) {
                Some(Queue { kind, .. }) if WITHOUT_BACKLOG.contains(&kind.as_str()) => {
                    Err(Error::Input(format!("the queue of {name} is {kind}, which has no backlog; {MAKE}")))
                }
                _ => Ok(()),
            },
            By::Queue => match (0..self.queues).map(handle).find(|handle| !has(handle)) {
                Some(handle) => Err(Error::Input(format!("{name} has no queue {handle}; {MAKE}"))),
                None => Ok(()),
            },
        }
    }

    fn words(self) -> [u64; WORDS] {
        [self.above.get(), u64::from(self.by == By::Queue), self.queues as u64]
    }

    fn from_words([above, by_queue, queues]: [u64; WORDS]) -> Rules {
        let by = if by_queue == 0 { By::Port } else { By::Queue };
        Rules { above: Bytes::new(above), by, queues: queues as usize }
    }
}

const MAKE: &str = "first make queues as `flowloom deploy --for linux` prints them";

/// The handle of a queue, as `flowloom deploy` gives it.
fn handle(queue: usize) -> String {
    format!("{}:", 10 + queue)
}

/// A device that marks. It goes on when this value is dropped.
pub struct Port {
    device: Device,
    /// The number of the program in the kernel.
    program: u32,
}

impl Port {
    /// Makes a device of this network namespace mark. If it does already, these rules come in the place of the old ones, and the counters
    /// begin at zero.
    ///
    /// # Errors
    ///
    /// There is no such device, it lacks the queues, or the system refuses (it must be run as root). Then nothing is left behind.
    pub fn attach(device: &str, rules: Rules) -> Result<Port> {
        Port::attach_object(device, rules, OBJECT)
    }

    fn attach_object(device: &str, rules: Rules, object: &[u8]) -> Result<Port> {
        let device = Device::find(device)?;
        rules.check(&device)?;
        let mut port = programs::load(EbpfLoader::new(), object, &[PROGRAM])?;
        let map = port.map_mut("rules_map").ok_or_else(|| missing("rules_map"))?;
        let mut map: Array<_, [u64; WORDS]> = map.try_into().map_err(failed("open the rules"))?;
        map.set(0, rules.words(), 0).map_err(failed("set the rules"))?;
        let before = device.filter(PROGRAM)?;
        let is_ours = device.add_clsact()?;
        // Other programs, such as a tagger, may choose the class and make the packet ECN-capable.
        let marks = program(&mut port, PROGRAM)?;
        if let Err(error) = programs::attach_filter(marks, &device, programs::LAST, before) {
            if is_ours {
                // The first error is what counts.
                let _ = device.remove_clsact();
            }
            return Err(error);
        }
        Port::of(device)
    }

    /// Finds the program of a device.
    ///
    /// # Errors
    ///
    /// The device has none.
    pub fn open(device: &str) -> Result<Port> {
        Port::of(Device::find(device)?)
    }

    fn of(device: Device) -> Result<Port> {
        let name = &device.name;
        let none = || Error::Input(format!("{name} does not mark; `flowloom-port attach {name}` makes it mark"));
        let program = device.filter(PROGRAM)?.ok_or_else(none)?.program;
        Ok(Port { device, program })
    }

    /// The rules, and the counts since they were attached.
    ///
    /// # Errors
    ///
    /// The program is that of another version, which may have other rules and count in other places; or the system refuses.
    pub fn status(&self) -> Result<Status> {
        self.check_version()?;
        let rules = programs::array(self.map("rules_map")?)?.get(&0, 0).map_err(failed("read the rules"))?;
        Ok(Status::new(&self.device.name, Rules::from_words(rules), &programs::sum(self.map("counters")?)?))
    }

    /// Checks that the program is the one that this version attaches: that the kernel has the same digest of its instructions.
    fn check_version(&self) -> Result<()> {
        let mut ours = programs::load(EbpfLoader::new(), OBJECT, &[PROGRAM])?;
        let ours = program(&mut ours, PROGRAM)?.info().map_err(failed("find the program"))?.tag();
        if self.loaded()?.tag() == ours {
            return Ok(());
        }
        let name = &self.device.name;
        Err(Error::Input(format!("the program at {name} is that of another version of flowloom-port; attach it again")))
    }

    /// Removes the program and its counters, and the qdisc clsact if nothing else is in it.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn detach(self) -> Result<()> {
        programs::detach_filter(&self.device, PROGRAM)?;
        self.device.remove_clsact()
    }

    /// What the kernel knows of the program.
    fn loaded(&self) -> Result<ProgramInfo> {
        let program = loaded_programs().flatten().find(|program| program.id() == self.program);
        program.ok_or_else(|| Error::System(format!("the program of {} is gone", self.device.name)))
    }

    /// Finds a map of the program by its name.
    fn map(&self, name: &str) -> Result<MapData> {
        let maps = self.loaded()?.map_ids().map_err(failed("find the maps of the program"))?.unwrap_or_default();
        let is_it = |id: &u32| MapInfo::from_id(*id).is_ok_and(|map| map.name_as_str() == Some(name));
        let id = maps.into_iter().find(is_it).ok_or_else(|| missing(name))?;
        MapData::from_id(id).map_err(failed("open a map of the program"))
    }
}

/// The packets of a queue, after segmentation. Also those count that the queue then drops.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Counted {
    /// All packets.
    pub packets: u64,
    /// Their bytes, Ethernet headers included.
    pub bytes: u64,
    /// Packets that came with ECT(0), ECT(1) or CE.
    pub capable: u64,
    /// Packets that were marked here.
    pub marked: u64,
}

/// The rules of a port, and what it has counted since they were attached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Status {
    /// The device.
    pub device: String,
    /// The threshold.
    pub above_bytes: u64,
    /// What must be above it.
    pub by: By,
    /// By queue, from the highest class.
    pub queues: Vec<Counted>,
    /// ECN-capable packets that were not marked because the device lacks their queue.
    pub queueless: u64,
}

impl Status {
    fn new(device: &str, rules: Rules, words: &[u64; COUNTERS]) -> Status {
        let count = |queue| Counted {
            packets: words[queue],
            bytes: words[CLASSES + queue],
            capable: words[2 * CLASSES + queue],
            marked: words[3 * CLASSES + queue],
        };
        Status {
            device: device.into(),
            above_bytes: rules.above.get(),
            by: rules.by,
            queues: (0..rules.queues).map(count).collect(),
            queueless: words[4 * CLASSES],
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.by {
            By::Port => "at the device",
            By::Queue => "in the packet's queue",
        };
        writeln!(f, "{}: marks if more than {} wait {place}", self.device, Bytes::new(self.above_bytes))?;
        writeln!(f, "queue    DSCP        packets              bytes    ECN-capable         marked")?;
        for (queue, counted) in self.queues.iter().enumerate() {
            let is_last = queue + 1 == self.queues.len();
            let dscp = if is_last { "others".into() } else { (8 * (CLASSES - 1 - queue)).to_string() };
            let Counted { packets, bytes, capable, marked } = counted;
            writeln!(f, "{queue:>5} {dscp:>7} {packets:>14} {bytes:>18} {capable:>14} {marked:>14}")?;
        }
        if self.queueless > 0 {
            writeln!(f, "{} packets were not marked, because the device lacks their queue; {MAKE}", self.queueless)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Namespace, altered, skip};

    #[test]
    fn a_port_of_another_version_is_named_and_gives_way() {
        // In the other version, the kernel's table of queues is looked up with another factor.
        let other = altered(OBJECT, 0x61C8_8647..=0x61C8_8647);
        let rules = Rules { above: Bytes::new(30_000), by: By::Port, queues: 4 };
        let _namespace = match Namespace::enter("port", |device| Port::open(device).and_then(Port::detach)) {
            Ok(namespace) => namespace,
            Err(error) => return skip(&error),
        };
        crate::device::run("tc", &["qdisc", "add", "dev", "lo", "root", "bfifo", "limit", "100000"]).unwrap();
        let port = match Port::attach_object("lo", rules, &other) {
            Ok(port) => port,
            Err(error) => return skip(&error),
        };
        let why = port.status().expect_err("the program is another one").to_string();
        assert_eq!(why, "the program at lo is that of another version of flowloom-port; attach it again");
        assert_eq!(Port::attach("lo", rules).unwrap().status().unwrap().above_bytes, 30_000);
    }

    #[test]
    fn the_kernel_gets_the_rules_and_gives_them_back() {
        let rules = Rules { above: Bytes::new(30_000), by: By::Queue, queues: 4 };
        assert_eq!(rules.words(), [30_000, 1, 4]);
        assert_eq!(Rules::from_words(rules.words()), rules);
        assert_eq!(Rules::from_words([1, 0, 8]), Rules { above: Bytes::new(1), by: By::Port, queues: 8 });
    }
}
