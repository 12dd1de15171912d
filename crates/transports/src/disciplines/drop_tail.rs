//! First in, first out.

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, Fifo, Packet, PacketId, Pool, PortCall};

use super::classes::ClassSet;
use super::pausable::Pausable;

/// One queue with a limit in bytes; a packet that would exceed it is dropped.
#[derive(Clone, Debug)]
pub struct DropTail {
    queue: Fifo,
    used: u64,
    limit: u64,
}

impl DropTail {
    /// A queue that holds at most `limit`.
    pub fn new(limit: Bytes) -> DropTail {
        DropTail { queue: Fifo::default(), used: 0, limit: limit.get() }
    }
    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// Queues a packet, or drops it: [`Discipline::enqueue`], for ports that have shared state beside the queue.
    #[inline]
    pub fn accept<H, S>(&mut self, call: &mut PortCall<'_, H, S>, packet: PacketId) {
        let used = self.used + u64::from(call.pool[packet].size_bytes);
        if used > self.limit {
            call.drop(packet, DropReason::Overflow);
            return;
        }
        self.used = used;
        self.queue.push(packet, call.pool);
    }

    /// Whether a packet of `size_bytes` passes the free port without being queued.
    #[inline]
    pub fn passes(&self, size_bytes: u32) -> bool {
        self.queue.is_empty() && u64::from(size_bytes) <= self.limit
    }

    /// Takes out the oldest packet.
    #[inline]
    pub fn take<H>(&mut self, pool: &mut Pool<H>) -> Dequeue {
        let Some(packet) = self.queue.pop(pool) else { return Dequeue::Idle };
        self.used -= u64::from(pool[packet].size_bytes);
        Dequeue::Packet(packet)
    }
}

impl<H> Discipline<H> for DropTail {
    type Shared = ();

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) {
        self.accept(call, packet);
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) -> bool {
        self.passes(call.pool[packet].size_bytes)
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, ()>) -> Dequeue {
        self.take(call.pool)
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.ids(pool).for_each(visit);
    }
}

impl<H> Pausable<H> for DropTail {
    #[inline]
    fn class_of(&self, _: &Packet<H>) -> usize {
        0
    }

    #[inline]
    fn dequeue_open(&mut self, call: &mut PortCall<'_, H, ()>, paused: ClassSet) -> Dequeue {
        if paused.has(0) { Dequeue::Idle } else { self.take(call.pool) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disciplines::rig::{Rig, packet};

    #[test]
    fn a_packet_that_fits_passes_an_empty_port() {
        let mut rig = Rig::new(DropTail::new(Bytes::new(1500)));
        assert!(rig.pass(packet(0, 0, 1500)));
        assert!(!rig.pass(packet(1, 0, 1501)));
        rig.enqueue(packet(2, 0, 40));
        assert!(!rig.pass(packet(3, 0, 40)));
    }

    #[test]
    fn the_limit_is_in_bytes_and_order_is_kept() {
        let mut rig = Rig::new(DropTail::new(Bytes::new(3040)));
        for flow in 0..3 {
            rig.enqueue(packet(flow, 0, 1500));
        }
        rig.enqueue(packet(3, 0, 40));
        assert_eq!(rig.dropped(), [(2, DropReason::Overflow)]);
        assert_eq!(rig.port().used(), Bytes::new(3040));
        assert_eq!(rig.drain(), [0, 1, 3]);
        assert_eq!(rig.port().used(), Bytes::ZERO);
    }
}
