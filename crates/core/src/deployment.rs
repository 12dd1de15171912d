//! What a transport asks of switches and hosts, as data: from this, configurations of real ones are made.

use crate::{Bytes, Duration};

/// What one egress port does to packets.
///
/// Its queues leave in strict priority, the first one first, and each in order of arrival. A packet's class is the index of its queue, and classes beyond
/// the last queue count as the last. What else the port does is in [`PortProfile::features`].
#[derive(Clone, PartialEq, Debug)]
pub struct PortProfile {
    /// Its queues.
    pub queues: Vec<QueueProfile>,
    /// The parameter that decides how many queues there are; `None` if the design does.
    pub queues_key: Option<&'static str>,
    /// How it marks ECN-capable packets, if it does.
    pub marks: Option<MarkProfile>,
    /// The memory in which it keeps packets; `None` if each queue has a limit of its own instead.
    pub memory: Option<MemoryProfile>,
    /// The limit on the rate of some of its queues, if there is one.
    pub limiter: Option<LimiterProfile>,
    /// What else it does.
    pub features: Vec<Feature>,
}

/// One queue of a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueProfile {
    /// What is in it.
    pub holds: String,
    /// The most that it holds, if it is limited on its own.
    pub limit: Option<QueueLimit>,
}

/// The most that a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimit {
    /// In bytes on the wire: full packets, or control packets for a queue of these.
    pub bytes: Bytes,
    /// The parameter that it follows from.
    pub key: &'static str,
}

/// How a port marks ECN-capable packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkProfile {
    /// A packet may be marked if more than this is queued, the packet included.
    pub above: Bytes,
    /// Above this, all are marked. Between `above` and this, packets are marked at random, and their share grows from 0 to `share`.
    pub all_above: Bytes,
    /// See `all_above`.
    pub share: f64,
    /// Whether the bytes of the packet's own queue count, instead of those of the whole port.
    pub by_queue: bool,
    /// Whether a packet is marked when it leaves, instead of when it comes.
    pub at_dequeue: bool,
    /// The dotted table, among the parameters, of the keys `mark_above`, `ecn` and `mark_at`; empty if they are not in a table.
    pub table: &'static str,
}

/// How queues divide the memory of a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Division {
    /// One limit for all queues. A packet that does not fit is dropped, whatever its queue.
    Whole,
    /// One limit for all queues. A packet that does not fit pushes out packets of later queues.
    PushOut,
    /// Each queue has the whole limit for itself.
    PerQueue,
    /// All ports of the switch share the memory. A queue takes packets while it is shorter than this many times the free memory.
    Dynamic(f64),
}

/// The memory of a port.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryProfile {
    /// How much it holds.
    pub bytes: Bytes,
    /// The parameter that limits it; `None` if it is all that the network gives.
    pub bytes_key: Option<&'static str>,
    /// How queues divide it.
    pub division: Division,
    /// The parameter that decides how; `None` if the design or the network does.
    pub division_key: Option<String>,
}

/// A token bucket that several queues share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimiterProfile {
    /// The first of its queues.
    pub first: u8,
    /// How many queues it limits together.
    pub queues: u8,
    /// They get this part of `whole` of the link's rate.
    pub part: Bytes,
    /// What `part` is a part of.
    pub whole: Bytes,
    /// What the bucket holds.
    pub burst: Bytes,
    /// The parameter of `part` and `whole`; `None` if they follow from the sizes of packets.
    pub share_key: Option<&'static str>,
    /// The parameter of `burst`.
    pub burst_key: &'static str,
}

/// Something that queues in strict priority, marks and limits cannot do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ability {
    /// Cut the payload off packets that find the queue full.
    Trim,
    /// Order and drop packets by a number in each of them.
    OrderByNumber,
    /// Compute rates of flows and write them into packets.
    ComputeRates,
    /// Write the port's load into packets.
    Telemetry,
    /// Drop packets that have waited for too long.
    Expire,
    /// Drop a random packet of a full queue.
    DropAtRandom,
    /// Serve two queues in turn, in a ratio.
    Interleave,
    /// Return packets to their sender.
    ReturnToSender,
    /// Send some packets through the switch twice.
    TwoPasses,
}

impl Ability {
    /// Its name in the description of a deployment.
    pub const fn name(self) -> &'static str {
        match self {
            Ability::Trim => "trim",
            Ability::OrderByNumber => "order_by_number",
            Ability::ComputeRates => "compute_rates",
            Ability::Telemetry => "telemetry",
            Ability::Expire => "expire",
            Ability::DropAtRandom => "drop_at_random",
            Ability::Interleave => "interleave",
            Ability::ReturnToSender => "return_to_sender",
            Ability::TwoPasses => "two_passes",
        }
    }
}

/// An [`Ability`] that a port has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature {
    /// Which one.
    pub ability: Ability,
    /// What the port does: a clause that begins with "it".
    pub what: &'static str,
    /// What follows without it: a clause.
    pub without: &'static str,
    /// Whether the transport does not work at all without it.
    pub essential: bool,
    /// The parameter that asks for it; `None` if the design does.
    pub key: Option<&'static str>,
}

impl PortProfile {
    /// A port of these queues, with one memory for all of them, that does nothing else.
    pub fn of_queues(holds: impl IntoIterator<Item = impl Into<String>>, memory: Bytes) -> PortProfile {
        let division = Division::Whole;
        PortProfile {
            queues: holds.into_iter().map(|holds| QueueProfile { holds: holds.into(), limit: None }).collect(),
            queues_key: None,
            marks: None,
            memory: Some(MemoryProfile { bytes: memory, bytes_key: None, division, division_key: None }),
            limiter: None,
            features: Vec::new(),
        }
    }
    /// The same port whose later queues give way to earlier ones if this is asked for by the parameter `push_out`.
    #[must_use]
    pub fn pushing_out(mut self, push_out: bool) -> PortProfile {
        if let Some(memory) = &mut self.memory {
            memory.division = if push_out { Division::PushOut } else { Division::Whole };
            memory.division_key = Some("push_out".to_owned());
        }
        self
    }
    /// The same port with one more feature.
    #[must_use]
    pub fn and(mut self, feature: Feature) -> PortProfile {
        self.features.push(feature);
        self
    }
}

/// What a transport asks of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct HostProfile {
    /// Whether its data packets are ECN-capable.
    pub ecn: bool,
    /// The kernel's TCP that is closest to it; `None` if it is no TCP, and hosts need a program of its own.
    pub kernel: Option<KernelTcp>,
    /// Whether NICs for RDMA over Ethernet run it.
    pub in_nics: bool,
    /// The tagger below an unchanged TCP that demotes flows as they send, if there is one.
    pub tagger: Option<Tagging>,
}

/// A layer below TCP that chooses the class of each packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tagging {
    /// The bytes that a flow sends before it is demoted to the next class, ascending.
    pub thresholds: Vec<Bytes>,
    /// The parameter that they come from.
    pub key: &'static str,
    /// The command that attaches it to a device of a Linux host. The device and `--thresholds` follow.
    pub command: &'static str,
}

impl HostProfile {
    /// A transport that is no TCP, and whose packets are not ECN-capable.
    pub const OWN: HostProfile = HostProfile { ecn: false, kernel: None, in_nics: false, tagger: None };
}

/// A TCP of the Linux kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelTcp {
    /// The name of its congestion control.
    pub control: &'static str,
    /// What this congestion control lacks: a clause; `None` if nothing.
    pub lacks: Option<&'static str>,
    /// Its settings, each with the dotted parameter that it comes from.
    pub knobs: Vec<(Knob, String)>,
}

/// A setting of the kernel's TCP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Knob {
    /// The packets that a new connection may send at once.
    InitialWindow(u32),
    /// The least retransmission timeout.
    RtoMin(Duration),
    /// Whether acknowledgements are selective.
    Sack(bool),
    /// Whether the window shrinks while a connection is idle.
    SlowStartAfterIdle(bool),
    /// How many packets beyond a missing one show that it is lost.
    Reordering(u32),
    /// Weight of the latest round trip in the estimated share of marked packets.
    Gain(f64),
    /// The estimate that a connection starts with.
    InitialAlpha(f64),
}
