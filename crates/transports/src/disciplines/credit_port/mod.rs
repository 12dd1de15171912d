//! Ports that limit credits to the share of the link that is left by the data that credits ask for.

mod bucket;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Fifo, PacketId, Pool, PortCall, Rate, Time, WireProfile,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classes::{MOST_CLASSES, limit};
pub(crate) use bucket::Bucket;
pub use watch::{Beyond, DataQueue, WatchesData};

use crate::toolkit::RandomStream;

/// The most that a queue holds. A packet that would exceed it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Packets.
    pub packets: u32,
    /// Bytes on the wire.
    pub bytes: u32,
}

impl Limit {
    /// No limit but the port's memory.
    pub const NONE: Limit = Limit { packets: u32::MAX, bytes: u32::MAX };
    /// A number of packets of any size.
    pub const fn packets(packets: u32) -> Limit {
        Limit { packets, ..Limit::NONE }
    }
    /// A number of bytes.
    pub const fn bytes(bytes: u32) -> Limit {
        Limit { bytes, ..Limit::NONE }
    }
}

/// Which credit a full queue drops when another one comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreditDrop {
    /// The arrival (drop-tail).
    Newest,
    /// Any of those that are queued and the arrival, with equal probability.
    Random,
}

/// The queues of a [`CreditPort`]. Class 0 are signals, the next classes credits, and the rest data. There are at most eight classes.
#[derive(Clone, Debug)]
pub struct CreditLayout<'a> {
    /// The number of credit queues: classes 1 to this.
    pub credit_queues: u8,
    /// The limit of each of them.
    pub credit_limit: Limit,
    /// What each of them drops when it holds as many credits as it may.
    pub credit_drop: CreditDrop,
    /// The seed of random drops.
    pub seed: u64,
    /// A credit that has waited for longer is dropped ([`DropReason::Expired`]).
    pub lifetime: Option<Duration>,
    /// What the credits' bucket holds. A larger credit cannot pass the port.
    pub burst: Bytes,
    /// What a credit of the size of a control packet takes of the link, together with the data that it asks for.
    pub slot: Bytes,
    /// The limit of each data queue, the best one first.
    pub data: &'a [Limit],
    /// What all queues together hold.
    pub memory: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    packets: Fifo,
    /// What it can still take.
    room: Limit,
}

const SIGNALS: usize = 0;
const FIRST_CREDITS: usize = 1;

/// A port with signals, credits and data, in strict priority in this order, and among several queues of credits or of data.
///
/// A credit asks for one full packet in the other direction. A token bucket, which all queues of credits share, limits credits to
/// `control / slot` of the link's rate, in bytes as they are on the wire. With a slot of `control + full`, the data that they ask for and
/// the credits that are sent beside it in the other direction just fill that link (ExpressPass; TOP calls credits tokens).
///
/// [`Packet::class`](flowloom_core::Packet::class) selects the queue. Classes beyond the last are treated as the last.
#[derive(Clone, Debug)]
pub struct CreditPort {
    /// Bit i is set where queue i is not empty.
    occupied: u8,
    /// Bit i is set where queue i holds credits.
    credits: u8,
    last: u8,
    memory: u32,
    /// What is left of the memory, in bytes.
    room: u32,
    bucket: Bucket,
    /// No queued credit may leave earlier, unless a credit of a better class comes. [`Time::ZERO`] if that is not known.
    credits_at: Time,
    /// By class, the largest packet that an empty port takes. A credit must also fit into the bucket.
    alone: [u32; MOST_CLASSES],
    queues: [Queue; MOST_CLASSES],
    data: DataQueue,
    lifetime: Duration,
    drop: CreditDrop,
    /// What a queue of credits holds.
    credits_most: u32,
    random: RandomStream,
    /// When each queued credit came, by queue; empty if credits do not expire.
    arrivals: Vec<VecDeque<Time>>,
}

impl CreditPort {
    /// A port of a link of `rate`, whose packets have the sizes of `wire`.
    ///
    /// # Panics
    /// If there is no queue for credits or none for data, if there are more than eight queues, or the memory is 2 GiB or more.
    pub fn new(layout: &CreditLayout<'_>, rate: Rate, wire: &WireProfile) -> CreditPort {
        let credit_queues = usize::from(layout.credit_queues);
        let queues = FIRST_CREDITS + credit_queues + layout.data.len();
        assert!(credit_queues > 0 && !layout.data.is_empty(), "a port has queues for credits and for data");
        assert!(queues <= MOST_CLASSES, "{queues} queues, but a port has at most {MOST_CLASSES}");
        let empty = |room| Queue { packets: Fifo::default(), room };
        let mut limits = [Limit::NONE; MOST_CLASSES];
        let (credits, data) = limits[FIRST_CREDITS..queues].split_at_mut(credit_queues);
        credits.fill(layout.credit_limit);
        data.copy_from_slice(layout.data);
        let memory = limit(layout.memory);
        let bucket = Bucket::new(rate, wire.control, layout.slot, layout.burst);
        let holds = bucket.holds();
        let alone = |class: usize| {
            let Limit { packets, bytes } = limits[class];
            let is_credit = (FIRST_CREDITS..FIRST_CREDITS + credit_queues).contains(&class);
            let most = if is_credit { holds } else { u32::MAX };
            if packets == 0 { 0 } else { memory.min(bytes).min(most) }
        };
        CreditPort {
            occupied: 0,
            credits: ((1_u16 << (FIRST_CREDITS + credit_queues)) - (1 << FIRST_CREDITS)) as u8,
            last: (queues - 1) as u8,
            memory,
            room: memory,
            bucket,
            credits_at: Time::ZERO,
            alone: std::array::from_fn(alone),
            queues: limits.map(empty),
            data: DataQueue::new(u64::MAX, 0.0),
            lifetime: layout.lifetime.unwrap_or(Duration::MAX),
            drop: layout.credit_drop,
            credits_most: layout.credit_limit.packets,
            random: RandomStream::new(layout.seed),
            arrivals: vec![VecDeque::new(); if layout.lifetime.is_some() { credit_queues } else { 0 }],
        }
    }

    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(u64::from(self.memory - self.room))
    }

    /// Whether nothing is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Whether signals are queued.
    #[inline]
    pub(crate) fn has_signals(&self) -> bool {
        self.occupied >> SIGNALS & 1 == 1
    }

    /// Whether packets of this class are credits.
    #[inline]
    pub(crate) fn holds_credits(&self, class: u8) -> bool {
        self.is_credit(self.class_of(class))
    }

    #[inline]
    fn class_of(&self, class: u8) -> usize {
        usize::from(class.min(self.last)) % MOST_CLASSES
    }

    #[inline]
    fn is_credit(&self, class: usize) -> bool {
        self.credits >> class & 1 == 1
    }

    /// Whether the queue and the memory have room for a packet of `size` bytes.
    #[inline]
    fn fits(&self, class: usize, size: u32) -> bool {
        let Limit { packets, bytes } = self.queues[class].room;
        size <= self.room && size <= bytes && packets > 0
    }

    /// A packet of `size` bytes is no longer in its queue.
    #[inline(always)]
    fn release(&mut self, class: usize, size: u32) {
        let queue = &mut self.queues[class];
        queue.room.packets += 1;
        queue.room.bytes += size;
        self.room += size;
        self.occupied &= !(u8::from(queue.packets.is_empty()) << class);
    }

    /// Removes the oldest packet of a queue that holds packets.
    #[inline(always)]
    fn pop<H>(&mut self, class: usize, pool: &Pool<H>) -> PacketId {
        let packet = self.queues[class].packets.pop(pool).expect("an occupied queue");
        self.release(class, pool[packet].size_bytes);
        if self.expires() && self.is_credit(class) {
            self.arrivals[class - FIRST_CREDITS].pop_front();
        }
        packet
    }

    /// Whether credits expire.
    #[inline]
    fn expires(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// When a credit queue's oldest packet came, if credits expire.
    #[inline]
    fn oldest(&self, class: usize) -> Option<Time> {
        if self.expires() { self.arrivals[class - FIRST_CREDITS].front().copied() } else { None }
    }

    /// Drops the credits of a queue that have waited for too long.
    #[inline(always)] // nothing where credits do not expire
    fn expire<H>(&mut self, class: usize, call: &mut PortCall<'_, H, ()>) {
        while self.oldest(class).is_some_and(|since| call.now.saturating_since(since) > self.lifetime) {
            let packet = self.pop(class, call.pool);
            call.drop(packet, DropReason::Expired);
            self.credits_at = Time::ZERO;
        }
    }

    /// Drops one of the credits of a full queue to make room for an arrival of `size` bytes, or none if the lot falls on the arrival itself.
    /// Returns whether there is room now.
    ///
    /// With drop-tail, credits of one flow that come at the pace at which others leave fill each place as soon as it is free. Those of another flow, which
    /// come at another phase, find no place until the first flow ends (lock-out). We do not drop the oldest instead, because this prefers some phases, too:
    /// a flow may push out none but its own credits.
    #[cold]
    #[inline(never)]
    fn push_out<H>(&mut self, class: usize, size: u32, call: &mut PortCall<'_, H, ()>) -> bool {
        let Limit { packets, bytes } = self.queues[class].room;
        if self.drop == CreditDrop::Newest || packets > 0 || size > bytes || size > self.alone[class] || size > self.room {
            return false;
        }
        let lot = self.random.below(self.credits_most + 1);
        let Some(packet) = self.queues[class].packets.remove(lot, call.pool) else { return false };
        self.release(class, call.pool[packet].size_bytes);
        if self.expires() {
            self.arrivals[class - FIRST_CREDITS].remove(lot as usize);
        }
        call.drop(packet, DropReason::PushedOut);
        self.plan_credits(call.pool);
        true
    }

    /// The best queue with credits.
    #[inline]
    fn best_credits(&self) -> Option<usize> {
        let waiting = self.occupied & self.credits;
        (waiting != 0).then(|| waiting.trailing_zeros() as usize % MOST_CLASSES)
    }

    /// Computes when the first credit may leave, or will have expired.
    #[inline]
    fn plan_credits<H>(&mut self, pool: &Pool<H>) {
        self.credits_at = Time::ZERO;
        if let Some(class) = self.best_credits() {
            let first = self.queues[class].packets.first().expect("an occupied queue");
            self.credits_at = self.leaves_at(class, pool[first].size_bytes);
        }
    }

    /// When the oldest credit of a queue, of `size` bytes, may leave or will have expired, if it is the first of all credits.
    #[inline(always)]
    fn leaves_at(&self, class: usize, size: u32) -> Time {
        let expired = |since: Time| since + self.lifetime + Duration::from_ps(1);
        self.bucket.ready_at(size).min(self.oldest(class).map_or(Time::MAX, expired))
    }

    /// Takes the first credit, if it may leave now.
    #[inline(always)]
    fn take_credit<H>(&mut self, call: &mut PortCall<'_, H, ()>) -> Option<PacketId> {
        if self.credits_at > call.now {
            return None;
        }
        while let Some(class) = self.best_credits() {
            self.expire(class, call);
            let Some(first) = self.queues[class].packets.first() else { continue };
            let leaves = self.bucket.take(call.now, call.pool[first].size_bytes);
            let credit = leaves.then(|| self.pop(class, call.pool));
            self.plan_credits(call.pool);
            return credit;
        }
        None
    }
}

impl WatchesData for CreditPort {
    fn limit_data(&mut self, limit: u64, deviation: f64) {
        self.data = DataQueue::new(limit, deviation);
    }
    fn data_queue(&self) -> &DataQueue {
        &self.data
    }
}

impl<H> Discipline<H> for CreditPort {
    type Shared = ();
    /// Credits that wait for the bucket do not hold up data.
    const PASSES_WAITING: bool = true;

    #[inline(always)]
    fn enqueue(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) {
        let (class, size) = (self.class_of(call.pool[packet].class), call.pool[packet].size_bytes);
        let credit = self.is_credit(class);
        if credit {
            // Credits that will never leave take no room from others.
            self.expire(class, call);
        } else if class != SIGNALS {
            self.data.arrive(call.now, size);
        }
        let fits = self.fits(class, size) && !(credit && size > self.alone[class]);
        if !(fits || credit && self.push_out(class, size, call)) {
            if !credit && class != SIGNALS {
                self.data.leave(size);
            }
            call.drop(packet, DropReason::Overflow);
            return;
        }
        if credit {
            if self.expires() {
                self.arrivals[class - FIRST_CREDITS].push_back(call.now);
            }
            if self.occupied & self.credits & up_to(class) == 0 {
                // It is the first one now.
                self.credits_at = self.leaves_at(class, size);
            }
        }
        let queue = &mut self.queues[class];
        queue.packets.push(packet, call.pool);
        queue.room.packets -= 1;
        queue.room.bytes -= size;
        self.room -= size;
        self.occupied |= 1 << class;
    }

    #[inline(always)]
    fn pass(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) -> bool {
        let (class, size) = (self.class_of(call.pool[packet].class), call.pool[packet].size_bytes);
        if self.occupied == 0 {
            if size > self.alone[class] {
                return false;
            }
            if self.is_credit(class) {
                return self.bucket.take(call.now, size);
            }
            if class != SIGNALS {
                self.data.pass(call.now, size);
            }
            return true;
        }
        let before = self.occupied & up_to(class);
        // Of the better packets, only credits may be left behind, and only if it is known that they must wait.
        if before & !self.credits != 0 || before != 0 && self.credits_at <= call.now || !self.fits(class, size) {
            return false;
        }
        if class == SIGNALS {
            self.data.signal(size);
            return true;
        }
        if !self.is_credit(class) {
            self.data.pass(call.now, size);
            return true;
        }
        let leaves = before == 0 && size <= self.alone[class] && self.bucket.take(call.now, size);
        if leaves && self.occupied & self.credits != 0 {
            self.plan_credits(call.pool);
        }
        leaves
    }

    #[inline(always)]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, ()>) -> Dequeue {
        if self.occupied >> SIGNALS & 1 == 1 {
            let signal = self.pop(SIGNALS, call.pool);
            self.data.signal(call.pool[signal].size_bytes);
            return Dequeue::Packet(signal);
        }
        if let Some(credit) = self.take_credit(call) {
            return Dequeue::Packet(credit);
        }
        let data = self.occupied & !self.credits;
        if data != 0 {
            let packet = self.pop(data.trailing_zeros() as usize, call.pool);
            self.data.leave(call.pool[packet].size_bytes);
            return Dequeue::Packet(packet);
        }
        if self.occupied == 0 { Dequeue::Idle } else { Dequeue::NotBefore(self.credits_at) }
    }

    #[inline]
    fn ready_at(&self, free_at: Time) -> Time {
        let only_credits = self.occupied & !self.credits == 0;
        if only_credits { free_at.max(self.credits_at) } else { free_at }
    }

    fn lose_all(&mut self, call: &mut PortCall<'_, H, ()>) {
        while self.occupied != 0 {
            let class = self.occupied.trailing_zeros() as usize % MOST_CLASSES;
            let packet = self.pop(class, call.pool);
            if class != SIGNALS && !self.is_credit(class) {
                self.data.leave(call.pool[packet].size_bytes);
            }
            call.drop(packet, DropReason::LinkDown);
        }
        self.credits_at = Time::ZERO;
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.queues.iter().flat_map(|queue| queue.packets.ids(pool)).for_each(visit);
    }
}

/// The bits of this class and all better ones.
fn up_to(class: usize) -> u8 {
    ((2_u16 << class) - 1) as u8
}
