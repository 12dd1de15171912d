//! Strict priority with marks: the port of switches, and of hosts, under the TCP family and PIAS.

mod config;
#[cfg(test)]
mod tests;

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, Memory, PacketId, PortCall, PortSite};

pub use config::{EcnConfig, MarkAt, Marking, Split};

use super::classes::{Classes, limit};

/// What the ports of one node use of a memory that they share; 0 where each port has its own.
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

/// What the limit of the memory holds for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    Port,
    Class,
    Switch,
}

/// Fraction bits of a dynamic threshold's factor: a memory of 31 bits times a factor of 32 stays within 64.
const ALPHA_BITS: u32 = 22;

/// Up to eight classes in strict priority ([`Packet::class`](flowloom_core::Packet::class) 0 leaves first, in order of arrival within a
/// class; classes beyond the last are treated as the last), ECN marking, and a memory of its own or shared with its node's other ports.
/// Nothing is ever pushed out: a packet that may not come in is dropped, whatever its class.
///
/// * A memory of its own ([`Memory::PerPort`]): a packet comes in if the port (or its class, see [`Split`]) holds at most the limit with it.
/// * A shared one ([`Memory::PerSwitch`]): dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). A packet comes in if its
///   queue, that is its class at this port, is shorter than `alpha` times what is free of the node's memory, both without it, and if it
///   fits in what is free. n queues that are fed faster than they drain end at alpha·B/(1 + n·alpha) bytes each. A queue that is longer
///   when the threshold falls takes nothing in until it has drained to below it.
///
/// A packet's memory is free when the packet begins to leave; what is on the wire is not counted as queued, neither here nor for marks.
#[derive(Clone, Debug)]
#[repr(C)] // what every packet touches first, and all that passing touches within 16 bytes
pub struct EcnPriority {
    limit: u32,
    /// `u32::MAX`, which no queue reaches, where nothing is marked.
    mark_above: u32,
    scope: Scope,
    mark_by_class: bool,
    mark_at_dequeue: bool,
    classes: Classes,
    /// Of a dynamic threshold, in units of 2^-[`ALPHA_BITS`].
    alpha: u32,
}

impl EcnPriority {
    /// A port of `classes` classes.
    ///
    /// # Panics
    /// If there is no class, if there are more than eight, the memory is 2 GiB or more, or alpha is not above 0 and below 1024.
    pub fn new(config: &EcnConfig, classes: u8, site: &PortSite<'_>) -> EcnPriority {
        let (scope, alpha) = match (site.memory, config.split) {
            (Memory::PerPort(_), Split::Shared) => (Scope::Port, 0),
            (Memory::PerPort(_), Split::PerClass) => (Scope::Class, 0),
            (Memory::PerSwitch { alpha, .. }, _) => (Scope::Switch, fixed_point(alpha)),
        };
        let mark_above = match config.ecn {
            Marking::Off => u32::MAX,
            Marking::Port | Marking::Queue => u32::try_from(config.mark_above.get()).unwrap_or(u32::MAX),
        };
        EcnPriority {
            limit: limit(site.memory.bytes()),
            mark_above,
            scope,
            mark_by_class: config.ecn == Marking::Queue,
            mark_at_dequeue: config.mark_at == MarkAt::Dequeue,
            classes: Classes::new(classes),
            alpha,
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

    /// What the marking threshold is compared with, for a packet of this class.
    #[inline]
    fn watched(&self, class: usize) -> u32 {
        if self.mark_by_class { self.classes.used()[class] } else { self.classes.total() }
    }
}

/// Out of the way, since most packets are not marked.
#[cold]
#[inline(never)]
fn mark<H>(call: &mut PortCall<'_, H, SharedMemory>, packet: PacketId) {
    call.mark(packet);
}

/// `alpha` in units of 2^-[`ALPHA_BITS`].
fn fixed_point(alpha: f64) -> u32 {
    let scaled = (alpha * f64::from(1_u32 << ALPHA_BITS)).round();
    assert!((1.0..=f64::from(u32::MAX)).contains(&scaled), "alpha is above 0 and below 1024, and not {alpha}");
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
        if !self.mark_at_dequeue && self.watched(class) > self.mark_above {
            mark(call, packet);
        }
    }

    /// Any threshold of a shared memory is above an empty queue, so that what fits may come in. A packet that would be marked for itself
    /// alone goes the long way.
    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, SharedMemory>, packet: PacketId) -> bool {
        let size = call.pool[packet].size_bytes;
        let fits = self.scope != Scope::Switch || call.shared.used + u64::from(size) <= u64::from(self.limit);
        self.classes.is_empty() && size <= self.limit.min(self.mark_above) && fits
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, SharedMemory>) -> Dequeue {
        let Some((class, packet)) = self.classes.pop(call.pool) else { return Dequeue::Idle };
        let size = call.pool[packet].size_bytes;
        if self.scope == Scope::Switch {
            call.shared.used -= u64::from(size);
        }
        if self.mark_at_dequeue && self.watched(class) + size > self.mark_above {
            mark(call, packet);
        }
        Dequeue::Packet(packet)
    }
}
