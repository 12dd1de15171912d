//! Strict priority with ECN marks: the port of switches and hosts under the TCP family and PIAS.

mod config;
#[cfg(test)]
mod tests;

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, Memory, Packet, PacketId, Pool, PortCall, PortSite};

pub use config::{EcnConfig, MarkAt, Marking, Split};

use super::classes::{ClassSet, Classes, limit};
use super::pausable::Pausable;
use super::telemetry::Backlog;
use crate::toolkit::RandomStream;

/// How much the ports of one node use of a memory that they share; 0 if each port has its own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SharedMemory {
    used: u64,
}

impl SharedMemory {
    /// Bytes in the queues of all ports.
    pub fn used(self) -> Bytes {
        Bytes::new(self.used)
    }
}

/// What the limit of the memory applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Port,
    Class,
    Switch,
}

/// Fraction bits of a dynamic threshold's factor: 31 bits of memory times 32 bits of factor stay within 64 bits.
const ALPHA_BITS: u32 = 22;

/// Up to eight classes in strict priority, ECN marking, and a memory of the port's own or one shared with the node's other ports.
/// [`Packet::class`](flowloom_core::Packet::class) 0 leaves first; within a class, packets leave in order of arrival; class numbers
/// beyond the last one count as the last. Nothing is ever pushed out: a packet that may not come in is dropped, whatever its class.
///
/// * With a memory of its own ([`Memory::PerPort`]), a packet comes in if the port (or its class, see [`Split`]) then holds at most the limit.
/// * A shared memory ([`Memory::PerSwitch`]) has dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). A packet comes in if its
///   queue, that is its class at this port, is shorter than `alpha` times the free memory of the node, both without the packet, and if it
///   fits in the free memory. n queues that are fed faster than they drain end at alpha·B/(1 + n·alpha) bytes each. If the threshold falls
///   below the length of a queue, the queue takes nothing in until it has drained to below the threshold.
///
/// A packet's memory is free when the packet begins to leave. A packet on the wire does not count as queued, neither here nor for
/// marks.
#[derive(Clone, Debug)]
#[repr(C)] // fields that every packet uses come first; those of the fast path lie within 16 bytes
pub struct EcnPriority {
    limit: u32,
    /// `u32::MAX`, which no queue reaches, if nothing is marked.
    mark_above: u32,
    /// The largest packet that an empty port neither drops nor marks.
    passes: u32,
    scope: Scope,
    mark_by_class: bool,
    mark_at_dequeue: bool,
    classes: Classes,
    /// The factor of a dynamic threshold, in units of 2^-[`ALPHA_BITS`].
    alpha: u32,
    /// The random marks of packets above `mark_above`; `None` if each of them is marked.
    red: Option<Box<Red>>,
}

/// Random marks between two thresholds.
#[derive(Clone, Debug)]
struct Red {
    above: u32,
    all_above: u32,
    /// The share of packets that are marked at the upper threshold.
    share: f64,
    random: RandomStream,
}

impl Red {
    /// Whether a packet is marked if this is queued.
    fn marks(&mut self, queued: u32) -> bool {
        if queued > self.all_above {
            return true;
        }
        let share = self.share * f64::from(queued - self.above) / f64::from(self.all_above - self.above);
        self.random.around_zero() < 2.0 * share - 1.0
    }
}

impl EcnPriority {
    /// A port of `classes` classes.
    ///
    /// # Panics
    /// If there is no class, if there are more than eight, if the memory is 2 GiB or more, or if alpha is not above 0 and below 1024.
    pub fn new(config: &EcnConfig, classes: u8, site: &PortSite<'_>) -> EcnPriority {
        let (scope, alpha) = match (site.memory, config.split) {
            (Memory::PerPort(_), Split::Shared) => (Scope::Port, 0),
            (Memory::PerPort(_), Split::PerClass) => (Scope::Class, 0),
            (Memory::PerSwitch { alpha, .. }, _) => (Scope::Switch, fixed_point(alpha)),
        };
        let thresholds = config.thresholds(site.rate(), site.wire.full);
        let [above, all_above] = thresholds.map(|bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX));
        let mark_above = if config.ecn == Marking::Off { u32::MAX } else { above };
        let red = (all_above > above)
            .then(|| Box::new(Red { above, all_above, share: config.mark_share, random: RandomStream::new(site.seed) }));
        let limit = limit(site.memory.bytes());
        EcnPriority {
            limit,
            mark_above,
            passes: limit.min(mark_above),
            scope,
            mark_by_class: config.ecn == Marking::Queue,
            mark_at_dequeue: config.mark_at == MarkAt::Dequeue,
            classes: Classes::new(classes),
            alpha,
            red,
        }
    }

    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(u64::from(self.classes.total()))
    }

    /// Whether a packet of `size` bytes may join its class.
    #[inline]
    fn admits(&self, class: usize, size: u32, shared: SharedMemory) -> bool {
        match self.scope {
            Scope::Port => self.classes.total() + size <= self.limit,
            Scope::Class => self.classes.used()[class] + size <= self.limit,
            Scope::Switch => {
                let free = u64::from(self.limit) - shared.used;
                let below = u64::from(self.classes.used()[class]) << ALPHA_BITS < u64::from(self.alpha) * free;
                below && u64::from(size) <= free
            }
        }
    }

    /// The number of bytes that the marking threshold is compared with, for a packet of this class.
    #[inline]
    fn watched(&self, class: usize) -> u32 {
        if self.mark_by_class { self.classes.used()[class] } else { self.classes.total() }
    }
}

impl Backlog for EcnPriority {
    #[inline]
    fn backlog(&self) -> Bytes {
        self.used()
    }
}

/// `alpha` in units of 2^-[`ALPHA_BITS`].
fn fixed_point(alpha: f64) -> u32 {
    let scaled = (alpha * f64::from(1_u32 << ALPHA_BITS)).round();
    assert!((1.0..=f64::from(u32::MAX)).contains(&scaled), "alpha must be above 0 and below 1024, not {alpha}");
    scaled as u32
}

impl<H> Discipline<H> for EcnPriority {
    type Shared = SharedMemory;

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, H, SharedMemory>, packet: PacketId) {
        let arrival = &call.pool[packet];
        let size = arrival.size_bytes;
        let class = self.classes.class_of(arrival);
        if !self.admits(class, size, *call.shared) {
            call.drop(packet, DropReason::Overflow);
            return;
        }
        self.classes.push(class, size, packet, call.pool);
        if self.scope == Scope::Switch {
            call.shared.used += u64::from(size);
        }
        let queued = self.watched(class);
        if !self.mark_at_dequeue && queued > self.mark_above {
            self.mark(call, packet, queued);
        }
    }

    /// Any threshold of a shared memory is above an empty queue, so a packet that fits may come in. A packet that would be marked
    /// although it is alone takes the slow path.
    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, SharedMemory>, packet: PacketId) -> bool {
        let size = call.pool[packet].size_bytes;
        let fits = self.scope != Scope::Switch || call.shared.used + u64::from(size) <= u64::from(self.limit);
        self.classes.is_empty() && size <= self.passes && fits
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, SharedMemory>) -> Dequeue {
        self.take(call, ClassSet::NONE)
    }

    /// What is lost is not marked, whenever ports mark.
    fn lose_all(&mut self, call: &mut PortCall<'_, H, SharedMemory>) {
        while let Some((_, packet)) = self.classes.pop(call.pool, ClassSet::NONE) {
            if self.scope == Scope::Switch {
                call.shared.used -= u64::from(call.pool[packet].size_bytes);
            }
            call.drop(packet, DropReason::LinkDown);
        }
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.classes.ids(pool).for_each(visit);
    }
}

impl<H> Pausable<H> for EcnPriority {
    #[inline]
    fn class_of(&self, packet: &Packet<H>) -> usize {
        self.classes.class_of(packet)
    }

    #[inline]
    fn dequeue_open(&mut self, call: &mut PortCall<'_, H, SharedMemory>, paused: ClassSet) -> Dequeue {
        self.take(call, paused)
    }
}

impl EcnPriority {
    /// Marks a packet with which this is queued, more than `mark_above`. A separate function, since most packets are not marked.
    #[cold]
    #[inline(never)]
    fn mark<H>(&mut self, call: &mut PortCall<'_, H, SharedMemory>, packet: PacketId, queued: u32) {
        if self.red.as_mut().is_none_or(|red| red.marks(queued)) {
            call.mark(packet);
        }
    }

    /// Takes out the oldest packet of the best class that is not `closed`.
    #[inline]
    fn take<H>(&mut self, call: &mut PortCall<'_, H, SharedMemory>, closed: ClassSet) -> Dequeue {
        let Some((class, packet)) = self.classes.pop(call.pool, closed) else { return Dequeue::Idle };
        let size = call.pool[packet].size_bytes;
        if self.scope == Scope::Switch {
            call.shared.used -= u64::from(size);
        }
        let queued = self.watched(class) + size;
        if self.mark_at_dequeue && queued > self.mark_above {
            self.mark(call, packet, queued);
        }
        Dequeue::Packet(packet)
    }
}
