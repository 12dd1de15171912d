//! What one egress port does to packets.

use crate::{Ecn, PacketId, Pool, Rate, Time};

/// A port of one node, counted from 0 in the order in which its links were added. Ingress and egress of a duplex link have
/// the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortNumber(pub u16);

impl PortNumber {
    /// The node itself: the ingress of a packet that was made there.
    pub const LOCAL: PortNumber = PortNumber(u16::MAX);
}

/// What a port wants to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// This packet, now.
    Packet(PacketId),
    /// Nothing, until a packet comes or the port is woken.
    Idle,
    /// Nothing of what is queued before this instant, which is later than now; what comes meanwhile may go first.
    NotBefore(Time),
    /// Nothing at all before this instant, which is later than now: an endpoint that feeds the port by the packet keeps its
    /// packets until then.
    ClosedUntil(Time),
}

/// Why a packet was lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// It found the queue full.
    Overflow,
    /// It was queued, and gave way to a better one.
    PushedOut,
    /// It waited longer than it was worth (TOP's tokens).
    Expired,
    /// A fault was injected: lost.
    Lost,
    /// A fault was injected: damaged, and discarded by the receiving NIC.
    Corrupted,
    /// The link was down.
    LinkDown,
    /// No one there understood it.
    Unclaimed,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [DropReason; 7] = [
        DropReason::Overflow,
        DropReason::PushedOut,
        DropReason::Expired,
        DropReason::Lost,
        DropReason::Corrupted,
        DropReason::LinkDown,
        DropReason::Unclaimed,
    ];
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::PushedOut => "pushed_out",
            DropReason::Expired => "expired",
            DropReason::Lost => "lost",
            DropReason::Corrupted => "corrupted",
            DropReason::LinkDown => "link_down",
            DropReason::Unclaimed => "unclaimed",
        }
    }
}

/// What a call on a discipline did besides its return value. The driver reads and empties it after the call.
#[derive(Default, Debug)]
pub struct Effects {
    /// Whether any of the below is not empty: the one thing to look at after most calls.
    pub any: bool,
    /// Packets given up, each once; the driver accounts for them and removes them from the pool.
    pub dropped: Vec<(PacketId, DropReason)>,
    /// Other ports of the same node that have something to send now.
    pub woken: Vec<PortNumber>,
    /// How many packets were marked.
    pub marked: u64,
    /// Packets that lost their payload and stay in the port: which, and how many payload and wire bytes each lost.
    pub trimmed: Vec<(PacketId, u32, u32)>,
    /// Packets that fault injection copied into the queue: which, and how many payload and wire bytes each had then.
    pub duplicated: Vec<(PacketId, u32, u32)>,
}

/// What a discipline is lent for the length of one call.
pub struct PortCall<'a, H, S> {
    /// The present.
    pub now: Time,
    /// All packets.
    pub pool: &'a mut Pool<H>,
    /// The state that all ports of this node share.
    pub shared: &'a mut S,
    /// This port.
    pub number: PortNumber,
    /// Where the packet being enqueued came in; [`PortNumber::LOCAL`] if it was made here, and on every other call.
    pub ingress: PortNumber,
    /// This port's rate.
    pub rate: Rate,
    /// What the call did besides its return value.
    pub effects: &'a mut Effects,
}

impl<H, S> PortCall<'_, H, S> {
    /// Gives a packet up. The discipline must not use its id again.
    #[inline]
    pub fn drop(&mut self, id: PacketId, why: DropReason) {
        self.effects.any = true;
        self.effects.dropped.push((id, why));
    }
    /// Sets congestion experienced if the packet is capable of it, and says whether it is marked now.
    #[inline]
    pub fn mark(&mut self, id: PacketId) -> bool {
        let packet = &mut self.pool[id];
        if packet.ecn == Ecn::Capable {
            packet.ecn = Ecn::Marked;
            self.effects.any = true;
            self.effects.marked += 1;
        }
        packet.ecn == Ecn::Marked
    }
    /// Cuts the payload off a packet, which keeps `size_bytes` on the wire.
    pub fn trim(&mut self, id: PacketId, size_bytes: u32) {
        let packet = &mut self.pool[id];
        let cut = packet.size_bytes.saturating_sub(size_bytes);
        self.effects.any = true;
        self.effects.trimmed.push((id, packet.payload_bytes, cut));
        packet.size_bytes -= cut;
        packet.payload_bytes = 0;
    }
    /// Copies a packet; the discipline queues the copy as if it had just come.
    pub fn duplicate(&mut self, id: PacketId) -> PacketId
    where
        H: Copy,
    {
        let packet = self.pool[id];
        let copy = self.pool.insert(packet);
        self.effects.any = true;
        self.effects.duplicated.push((copy, packet.payload_bytes, packet.size_bytes));
        copy
    }
    /// Asks that another port of this node be served as if a packet had come.
    pub fn wake(&mut self, port: PortNumber) {
        self.effects.any = true;
        self.effects.woken.push(port);
    }
}

/// One egress port: order, drop, mark, trim, stamp, pace. A host's NIC is a port like any other.
///
/// The driver calls [`dequeue`](Discipline::dequeue) when the port is free and something is queued, after a
/// [`Dequeue::NotBefore`] or [`Dequeue::ClosedUntil`] has come, or when another port of the node woke it.
pub trait Discipline<H> {
    /// One object per node, lent to all its ports: a shared buffer, PDQ's flow lists. `()` where ports are independent.
    type Shared: Default;
    /// Takes a packet in, or drops it or others instead.
    fn enqueue(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId);
    /// Whether a packet that finds the port free and nothing queued may leave at once. If so, the discipline is as after
    /// [`enqueue`](Discipline::enqueue) and a [`dequeue`](Discipline::dequeue) that returned this packet. Most packets of most runs come
    /// this way; a discipline that always says no is correct, and slower.
    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId) -> bool {
        let _ = (call, packet);
        false
    }
    /// Chooses what to send. It may return a packet that it has just made (a pause frame).
    fn dequeue(&mut self, call: &mut PortCall<'_, H, Self::Shared>) -> Dequeue;
    /// A frame from the neighbour's port, addressed to this port and not to a node (PFC's pause): a packet whose `dst` is
    /// [`NodeId::LINK`](crate::NodeId::LINK). The driver removes the packet afterwards and serves the port anew.
    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId) {
        let _ = (call, packet);
    }
}
