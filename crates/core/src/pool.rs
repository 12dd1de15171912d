//! All packets are stored in one arena and referred to by id. Queues are linked lists in the arena, so forwarding a packet
//! neither copies nor allocates it.

use crate::{Packet, PortNumber};

/// Identifies a packet in a [`Pool`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(u32);

impl PacketId {
    /// No packet; the end of a list.
    pub const NONE: PacketId = PacketId(u32::MAX);
    /// The id whose [`index`](PacketId::index) is this.
    pub const fn from_index(index: u32) -> PacketId {
        PacketId(index)
    }
    /// Its slot in the pool. Free slots are reused before the pool grows.
    pub const fn index(self) -> u32 {
        self.0
    }
    /// Whether this is [`PacketId::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }
}

#[repr(C, align(64))] // the fields that every hop reads share a cache line
struct Slot<H> {
    next: PacketId,
    live: bool,
    /// It lies where there would be padding.
    ingress: PortNumber,
    packet: Packet<H>,
}

/// The panic payload of [`Pool::insert`] when the pool is full: the scenario has too many packets in flight, and no caller on the packet
/// path can handle that. The code that runs the simulator catches it.
#[derive(Clone, Copy, Debug)]
pub struct PoolFull;

#[cold]
#[inline(never)]
fn full() -> ! {
    std::panic::resume_unwind(Box::new(PoolFull))
}

/// The arena of all packets that are in flight or queued.
pub struct Pool<H> {
    slots: Vec<Slot<H>>,
    free: PacketId,
    live: usize,
}

impl<H> Default for Pool<H> {
    fn default() -> Self {
        Pool { slots: Vec::new(), free: PacketId::NONE, live: 0 }
    }
}

impl<H> Pool<H> {
    /// The largest number of packets at one time; an event refers to a packet in 24 bits.
    pub const PACKETS_MAX: usize = 1 << 24;

    /// Stores a packet and returns its id.
    ///
    /// # Panics
    /// If there are already [`Pool::PACKETS_MAX`] packets; the panic's payload is [`PoolFull`].
    #[inline]
    pub fn insert(&mut self, packet: Packet<H>) -> PacketId {
        self.live += 1;
        let slot = Slot { next: PacketId::NONE, live: true, ingress: PortNumber::LOCAL, packet };
        if self.free.is_none() {
            if self.slots.len() >= Self::PACKETS_MAX {
                full();
            }
            self.slots.push(slot);
            PacketId(self.slots.len() as u32 - 1)
        } else {
            let id = self.free;
            let reused = &mut self.slots[id.0 as usize];
            self.free = reused.next;
            *reused = slot;
            id
        }
    }

    /// Removes a packet. Its id may be reused from now on.
    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        let slot = &mut self.slots[id.0 as usize];
        debug_assert!(slot.live, "a packet is removed once");
        slot.live = false;
        slot.next = self.free;
        self.live -= 1;
        self.free = id;
    }

    /// The ingress port that was last noted for a packet; [`PortNumber::LOCAL`] if none was.
    #[inline]
    pub fn ingress(&self, id: PacketId) -> PortNumber {
        self.slots[id.0 as usize].ingress
    }
    /// Notes the ingress port of a packet. A discipline that counts queued packets by ingress port does this when a packet arrives, and so
    /// finds the port again when the packet leaves. The driver does not do it, so that it costs others nothing.
    #[inline]
    pub fn set_ingress(&mut self, id: PacketId, ingress: PortNumber) {
        self.slots[id.0 as usize].ingress = ingress;
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.live
    }
    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
    /// All packets, in no particular order.
    pub fn packets(&self) -> impl Iterator<Item = &Packet<H>> {
        self.slots.iter().filter(|slot| slot.live).map(|slot| &slot.packet)
    }
}

impl<H> std::ops::Index<PacketId> for Pool<H> {
    type Output = Packet<H>;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet<H> {
        &self.slots[id.0 as usize].packet
    }
}
impl<H> std::ops::IndexMut<PacketId> for Pool<H> {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet<H> {
        &mut self.slots[id.0 as usize].packet
    }
}

/// A first-in first-out queue of packets, as a linked list in their pool. A packet is in at most one list.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: PacketId,
    tail: PacketId,
}

impl Default for Fifo {
    fn default() -> Self {
        Fifo { head: PacketId::NONE, tail: PacketId::NONE }
    }
}

impl Fifo {
    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_none()
    }
    /// The oldest packet, which [`Fifo::pop`] returns next.
    #[inline]
    pub fn first(&self) -> Option<PacketId> {
        (!self.head.is_none()).then_some(self.head)
    }
    /// All packets, from the oldest to the newest.
    pub fn ids<'a, H>(&self, pool: &'a Pool<H>) -> impl Iterator<Item = PacketId> + use<'a, H> {
        let known = |id: PacketId| (!id.is_none()).then_some(id);
        std::iter::successors(known(self.head), move |id| known(pool.slots[id.0 as usize].next))
    }
    /// Appends a packet.
    #[inline]
    pub fn push<H>(&mut self, id: PacketId, pool: &mut Pool<H>) {
        pool.slots[id.0 as usize].next = PacketId::NONE;
        if self.head.is_none() {
            self.head = id;
        } else {
            pool.slots[self.tail.0 as usize].next = id;
        }
        self.tail = id;
    }
    /// Removes and returns the oldest packet.
    #[inline]
    pub fn pop<H>(&mut self, pool: &Pool<H>) -> Option<PacketId> {
        let id = self.head;
        if id.is_none() {
            return None;
        }
        self.head = pool.slots[id.0 as usize].next;
        Some(id)
    }
    /// Removes and returns the packet before which `older` others came. It walks the list up to there, so it is for push-out only.
    pub fn remove<H>(&mut self, older: u32, pool: &mut Pool<H>) -> Option<PacketId> {
        let mut before = PacketId::NONE;
        let mut id = self.head;
        for _ in 0..older {
            if id.is_none() {
                return None;
            }
            (before, id) = (id, pool.slots[id.0 as usize].next);
        }
        if before.is_none() {
            return self.pop(pool);
        }
        if id.is_none() {
            return None;
        }
        pool.slots[before.0 as usize].next = pool.slots[id.0 as usize].next;
        if self.tail == id {
            self.tail = before;
        }
        Some(id)
    }
    /// Removes and returns the newest packet. It walks the whole list, so it is for push-out only.
    pub fn pop_newest<H>(&mut self, pool: &mut Pool<H>) -> Option<PacketId> {
        let newest = self.tail;
        if self.head.is_none() {
            return None;
        }
        if self.head == newest {
            *self = Fifo::default();
            return Some(newest);
        }
        let mut before = self.head;
        while pool.slots[before.0 as usize].next != newest {
            before = pool.slots[before.0 as usize].next;
        }
        pool.slots[before.0 as usize].next = PacketId::NONE;
        self.tail = before;
        Some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Ecn, FlowId, NodeId};

    fn packet(flow: u32) -> Packet<()> {
        Packet {
            flow: FlowId(flow),
            src: NodeId(0),
            dst: NodeId(1),
            size_bytes: 1500,
            payload_bytes: 1460,
            offset: Bytes::ZERO,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            header: (),
        }
    }

    #[test]
    fn slots_are_reused_and_counted() {
        let mut pool = Pool::default();
        let first = pool.insert(packet(1));
        let second = pool.insert(packet(2));
        assert_eq!(pool.len(), 2);
        pool.remove(first);
        assert_eq!(pool.insert(packet(3)), first);
        assert_eq!(pool[first].flow, FlowId(3));
        assert_eq!(pool[second].flow, FlowId(2));
    }

    #[test]
    fn the_ingress_port_is_forgotten_with_the_packet_and_takes_no_memory() {
        let mut pool = Pool::default();
        let first = pool.insert(packet(1));
        assert_eq!(pool.ingress(first), PortNumber::LOCAL);
        pool.set_ingress(first, PortNumber(3));
        let second = pool.insert(packet(2));
        assert_eq!((pool.ingress(first), pool.ingress(second)), (PortNumber(3), PortNumber::LOCAL));
        pool.remove(first);
        assert_eq!(pool.insert(packet(3)), first);
        assert_eq!(pool.ingress(first), PortNumber::LOCAL);
        // A packet without header has 32 B. The rest of its slot is the link to the next one, and this.
        assert_eq!((size_of::<Packet<()>>(), std::mem::offset_of!(Slot<()>, packet)), (32, 8));
    }

    #[test]
    fn fifo_keeps_order_and_gives_up_its_newest() {
        let mut pool = Pool::default();
        let mut fifo = Fifo::default();
        let ids: Vec<_> = (0..4).map(|flow| pool.insert(packet(flow))).collect();
        for id in &ids {
            fifo.push(*id, &mut pool);
        }
        assert_eq!(fifo.pop_newest(&mut pool), Some(ids[3]));
        assert_eq!(fifo.first(), Some(ids[0]));
        assert_eq!(fifo.pop(&pool), Some(ids[0]));
        fifo.push(ids[3], &mut pool);
        assert_eq!(fifo.pop(&pool), Some(ids[1]));
        assert_eq!(fifo.pop_newest(&mut pool), Some(ids[3]));
        assert_eq!(fifo.pop_newest(&mut pool), Some(ids[2]));
        assert_eq!((fifo.first(), fifo.pop(&pool)), (None, None));
    }
    /// Whichever of three is removed, the others stay in order, and the next one comes behind them.
    #[test]
    fn fifo_gives_up_any_packet() {
        for older in 0..4 {
            let mut pool = Pool::default();
            let mut fifo = Fifo::default();
            let mut ids: Vec<_> = (0..3).map(|flow| pool.insert(packet(flow))).collect();
            for id in &ids {
                fifo.push(*id, &mut pool);
            }
            let expected = (older < 3).then(|| ids.remove(older));
            assert_eq!(fifo.remove(older as u32, &mut pool), expected);
            ids.push(pool.insert(packet(3)));
            fifo.push(ids[ids.len() - 1], &mut pool);
            let left: Vec<_> = std::iter::from_fn(|| fifo.pop(&pool)).collect();
            assert_eq!(left, ids, "{older}");
            assert_eq!(fifo.remove(0, &mut pool), None);
        }
    }
}
