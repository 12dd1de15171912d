//! Egress ports: queueing disciplines and what they may do to packets.

use crate::{Ecn, PacketId, Pool, Rate, Time};

/// The number of a port within its node, from 0 in the order in which the node's links were added. Both directions of a link
/// have the same port number at a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortNumber(pub u16);

impl PortNumber {
    /// The node itself: the ingress port of a packet that was created there.
    pub const LOCAL: PortNumber = PortNumber(u16::MAX);
}

/// A discipline's decision about what to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// Send this packet now.
    Packet(PacketId),
    /// Send nothing until a packet arrives or the port is woken.
    Idle,
    /// Send no queued packet before this time, which is later than now. Packets that arrive in the meantime may be sent earlier.
    NotBefore(Time),
    /// Send nothing at all before this time, which is later than now. A [`Nic::Pulled`](crate::Nic::Pulled) endpoint keeps its packets
    /// until then.
    ClosedUntil(Time),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The queue was full when it arrived.
    Overflow,
    /// It was queued, and was dropped to make room for another packet.
    PushedOut,
    /// It waited for longer than its lifetime (TOP's tokens).
    Expired,
    /// An injected fault lost it.
    Lost,
    /// An injected fault damaged it, and the receiving NIC discarded it.
    Corrupted,
    /// The link was down.
    LinkDown,
    /// Its destination has no endpoint.
    Unclaimed,
    /// Its destination's endpoint was down.
    NodeDown,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 8] = [
        DropReason::Overflow,
        DropReason::PushedOut,
        DropReason::Expired,
        DropReason::Lost,
        DropReason::Corrupted,
        DropReason::LinkDown,
        DropReason::Unclaimed,
        DropReason::NodeDown,
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
            DropReason::NodeDown => "node_down",
        }
    }
}

/// Where a port sends a packet that it gives away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onward {
    /// To this port of the same node.
    Port(PortNumber),
    /// To the port that the node's routes choose for the packet's destination.
    Route,
}

/// The side effects of a call on a discipline. The driver applies and clears them after the call.
#[derive(Default, Debug)]
pub struct Effects {
    /// Whether there are any side effects. After most calls there are none, and the driver reads nothing else.
    pub any: bool,
    /// Dropped packets, each once. The driver counts them and removes them from the pool.
    pub dropped: Vec<(PacketId, DropReason)>,
    /// Other ports of the same node that must be served now.
    pub woken: Vec<PortNumber>,
    /// How many packets were marked.
    pub marked: u64,
    /// Trimmed packets, which stay in the port: the packet, and how many payload bytes and wire bytes it lost.
    pub trimmed: Vec<(PacketId, u32, u32)>,
    /// Packets that leave the port for another port of the same node, each once.
    pub handed_over: Vec<(PacketId, Onward)>,
    /// Packets that fault injection copied into the queue: the copy, and how many payload bytes and wire bytes it had then.
    pub duplicated: Vec<(PacketId, u32, u32)>,
}

/// The arguments of a call on a discipline.
pub struct PortCall<'a, H, S> {
    /// The current time.
    pub now: Time,
    /// All packets.
    pub pool: &'a mut Pool<H>,
    /// The state that all ports of this node share.
    pub shared: &'a mut S,
    /// This port.
    pub number: PortNumber,
    /// The ingress port of the packet being enqueued. It is [`PortNumber::LOCAL`] if the packet was created here, and in all other calls.
    pub ingress: PortNumber,
    /// This port's rate.
    pub rate: Rate,
    /// The side effects of the call.
    pub effects: &'a mut Effects,
}

impl<H, S> PortCall<'_, H, S> {
    /// The same call, to pass on to a function that is not inlined. If the original were passed, the compiler would have to write it to memory
    /// also where that function is not called.
    #[inline(always)]
    pub fn reborrow(&mut self) -> PortCall<'_, H, S> {
        PortCall { pool: self.pool, shared: self.shared, effects: self.effects, ..*self }
    }
    /// Drops a packet. The discipline must not use its id again.
    #[inline]
    pub fn drop(&mut self, id: PacketId, why: DropReason) {
        self.effects.any = true;
        self.effects.dropped.push((id, why));
    }
    /// Marks an ECN-capable packet with congestion experienced. Returns whether the packet is marked now.
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
    /// Cuts off a packet's payload; `size_bytes` of the packet stay on the wire.
    pub fn trim(&mut self, id: PacketId, size_bytes: u32) {
        let packet = &mut self.pool[id];
        let cut = packet.size_bytes.saturating_sub(size_bytes);
        self.effects.any = true;
        self.effects.trimmed.push((id, packet.payload_bytes, cut));
        packet.size_bytes -= cut;
        packet.payload_bytes = 0;
    }
    /// Copies a packet; the discipline queues the copy as if it had just arrived.
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
    /// Gives a packet to another port of this node, where it arrives after this call as if it had come in over this port's link. The
    /// discipline must not use its id again. Two ports must not give the same packet to each other for ever.
    pub fn hand_over(&mut self, id: PacketId, port: PortNumber) {
        self.effects.any = true;
        self.effects.handed_over.push((id, Onward::Port(port)));
    }
    /// Returns a packet to its sender: exchanges its source and its destination, and gives it to the port that leads there, as
    /// [`PortCall::hand_over`] does. The packet's source must not be this node.
    pub fn send_back(&mut self, id: PacketId) {
        let packet = &mut self.pool[id];
        std::mem::swap(&mut packet.src, &mut packet.dst);
        self.effects.any = true;
        self.effects.handed_over.push((id, Onward::Route));
    }
    /// Makes the driver serve another port of this node as if a packet had arrived there.
    pub fn wake(&mut self, port: PortNumber) {
        self.effects.any = true;
        self.effects.woken.push(port);
    }
}

/// The queueing discipline of one egress port. It orders, drops, marks, trims, stamps and paces packets. A host's NIC is a port like
/// any other.
///
/// The driver calls [`dequeue`](Discipline::dequeue) when the port is free and packets are queued, not before
/// [`ready_at`](Discipline::ready_at), at the time of a [`Dequeue::NotBefore`] or [`Dequeue::ClosedUntil`], and when another port of the
/// node wakes this one. At the time of each of its [`alarms`](Discipline::alarms), it calls [`handle_alarm`](Discipline::handle_alarm) and serves the port.
pub trait Discipline<H>: Send {
    /// The state that all ports of a node share, such as a shared buffer or PDQ's flow lists. `()` if ports are independent.
    type Shared: Default + Send;
    /// Whether [`pass`](Discipline::pass) also decides about packets that find others queued. The packets that wait must then have no
    /// right to leave now.
    const PASSES_WAITING: bool = false;
    /// Queues a packet. It may drop this packet or others instead.
    fn enqueue(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId);
    /// Whether a packet that finds the port free and the queue empty may be sent at once (or also beside queued packets, see
    /// [`PASSES_WAITING`](Discipline::PASSES_WAITING)). If so, the discipline's state is as after
    /// [`enqueue`](Discipline::enqueue) and a [`dequeue`](Discipline::dequeue) that returned this packet. This is the fast path of most
    /// packets; a discipline that always returns `false` is correct but slower.
    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId) -> bool {
        let _ = (call, packet);
        false
    }
    /// Chooses what to send. It may return a packet that it has just created (a pause frame).
    fn dequeue(&mut self, call: &mut PortCall<'_, H, Self::Shared>) -> Dequeue;
    /// The earliest time from `free_at` on, when the link is free, at which [`dequeue`](Discipline::dequeue) may return one of the queued
    /// packets, if none arrives before. A discipline that knows it saves calls and service events; `free_at` is always correct.
    #[inline]
    fn ready_at(&self, free_at: Time) -> Time {
        free_at
    }
    /// Calls `visit` with each packet that the port holds, in any order. Only samples ask for it, so it costs a run without them nothing.
    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId));
    /// Calls `set` with the times at which something happens at the port that no packet causes. The driver asks once, before anything happens.
    fn alarms(&self, set: &mut dyn FnMut(Time)) {
        let _ = set;
    }
    /// Handles an alarm, after everything else that happens at this time, whether the link is busy or free. Afterwards the driver serves the port.
    fn handle_alarm(&mut self, call: &mut PortCall<'_, H, Self::Shared>) {
        let _ = call;
    }
    /// Loses all packets that the port holds, because its link has been cut, and forgets what the neighbour has said. A port that holds packets which
    /// [`dequeue`](Discipline::dequeue) does not return now drops these, too.
    fn lose_all(&mut self, call: &mut PortCall<'_, H, Self::Shared>) {
        while let Dequeue::Packet(id) = self.dequeue(call) {
            call.drop(id, DropReason::LinkDown);
        }
    }
    /// The classes that this port does not send now, although it sends others: bit i stands for class i. A NIC takes no packets of these from a [`Nic::Pulled`](crate::Nic::Pulled) endpoint.
    #[inline]
    fn closed(&self, now: Time) -> u8 {
        let _ = now;
        0
    }
    /// Handles a link frame from the neighbour's port (PFC's pause): a packet whose `dst` is [`NodeId::LINK`](crate::NodeId::LINK).
    /// Afterwards the driver removes the packet and serves the port.
    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId) {
        let _ = (call, packet);
    }
}
