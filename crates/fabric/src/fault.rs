//! Fault injection, as a wrapper around a port's discipline. Runs without faults do not use the wrapper.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{
    Dequeue, Discipline, DropReason, Duration, FlowId, Link, NodeId, Packet, PacketId, Pool, PortCall, PortNumber, PortSite,
    Rate, Time,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::seed::{Purpose, stream_seed};

/// A fault of one direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Each packet is dropped with this probability.
    Loss(f64),
    /// Each packet is damaged with this probability. It is still forwarded, and the receiving NIC discards it.
    Corrupt(f64),
    /// Each packet is sent twice with this probability.
    Duplicate(f64),
    /// Each packet is held back with this probability, for a uniformly distributed time up to this duration, so that others overtake it.
    Reorder(f64, Duration),
    /// From the first to the second time the port sends nothing and drops all packets that arrive.
    Down(Time, Time),
    /// The same, and what the port holds and what is on the link when this begins is lost, too.
    Cut(Time, Time),
}

/// A kind of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketKind {
    /// All packets.
    #[default]
    All,
    /// Packets with payload.
    Data,
    /// Packets without payload.
    Control,
    /// Messages of control endpoints: packets from or to a switch or the control host.
    Messages,
}

/// Which packets a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aim {
    /// Packets of this kind.
    pub packets: PacketKind,
    /// Packets of this flow, if it is given.
    pub flow: Option<FlowId>,
}

impl Aim {
    /// Whether the fault affects this packet. The hosts of the network are the nodes `0..hosts`.
    fn hits<H>(&self, packet: &Packet<H>, hosts: u32) -> bool {
        let kind = match self.packets {
            PacketKind::All => true,
            PacketKind::Data => packet.payload_bytes > 0,
            PacketKind::Control => packet.payload_bytes == 0,
            // A link frame goes from port to port, so no endpoint sees it.
            PacketKind::Messages => (packet.src.0 >= hosts || packet.dst.0 >= hosts) && packet.dst != NodeId::LINK,
        };
        kind && self.flow.is_none_or(|flow| flow == packet.flow)
    }
}

/// A fault, and which packets it affects. [`Fault::Down`] and [`Fault::Cut`] affect all of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimedFault {
    /// What happens.
    pub fault: Fault,
    /// To which packets.
    pub aim: Aim,
}

impl From<Fault> for AimedFault {
    /// A fault that affects all packets.
    fn from(fault: Fault) -> AimedFault {
        AimedFault { fault, aim: Aim::default() }
    }
}

/// What fault injection does to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Nothing.
    Pass,
    /// It is lost.
    Drop,
    /// It is held back for this long, so that others overtake it.
    Delay(Duration),
    /// A copy of it follows this much later.
    Duplicate(Duration),
    /// This many copies of it go right before it, which itself is held back for this long if that is given.
    Copies(u32, Option<Duration>),
}

/// Decides the fate of packets at one port. It is asked twice: when a packet arrives at the port, and when the packet's first bit leaves.
pub trait Injector<H>: Send {
    /// The time when the link comes up again, if it is down now.
    fn down_until(&self, now: Time) -> Option<Time> {
        let _ = now;
        None
    }
    /// The times at which the link is cut, so that its port loses what it holds. They never change.
    fn cuts(&self) -> Vec<Time> {
        Vec::new()
    }
    /// Whether it never does anything, so that the port is as the discipline alone.
    fn is_idle(&self) -> bool {
        false
    }
    /// Whether this packet passes without any decision, so that it may take the discipline's fast path.
    fn ignores(&self, packet: &Packet<H>) -> bool {
        let _ = packet;
        self.is_idle()
    }
    /// The fate of a packet that arrives at the port. The injector may damage the packet.
    fn on_arrival(&mut self, now: Time, packet: &mut Packet<H>) -> Fate;
    /// The fate of a packet that leaves the port. A packet that is lost here still occupies the link, and is damaged: the next port with
    /// an injector can drop it, and the receiving NIC discards it.
    fn on_departure(&mut self, now: Time, packet: &Packet<H>) -> Fate {
        let _ = (now, packet);
        Fate::Pass
    }
}

/// The faults of one direction of a link, which happen at random when packets arrive at its port.
pub struct LinkFaults {
    faults: Vec<AimedFault>,
    /// How many hosts the network has.
    hosts: u32,
    rate: Rate,
    delay: Duration,
    random: Xoshiro256PlusPlus,
}

impl LinkFaults {
    fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// From when until when the link is down after a cut.
    fn spans_of_cuts(&self) -> impl Iterator<Item = (Time, Time)> {
        self.faults.iter().filter_map(|aimed| if let Fault::Cut(from, to) = aimed.fault { Some((from, to)) } else { None })
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl<H> Injector<H> for LinkFaults {
    fn down_until(&self, now: Time) -> Option<Time> {
        self.faults
            .iter()
            .filter_map(|aimed| match aimed.fault {
                Fault::Down(from, to) | Fault::Cut(from, to) => (from <= now && now < to).then_some(to),
                _ => None,
            })
            .max()
    }

    fn cuts(&self) -> Vec<Time> {
        self.spans_of_cuts().map(|(from, _)| from).collect()
    }

    fn is_idle(&self) -> bool {
        self.faults.is_empty()
    }

    fn on_arrival(&mut self, _: Time, packet: &mut Packet<H>) -> Fate {
        let (mut copies, mut wait) = (0, None);
        for index in 0..self.faults.len() {
            let AimedFault { fault, aim } = self.faults[index];
            if !aim.hits(packet, self.hosts) {
                continue;
            }
            match fault {
                Fault::Loss(p) if self.happens(p) => return Fate::Drop,
                Fault::Corrupt(p) if self.happens(p) => packet.corrupt = true,
                Fault::Duplicate(p) if self.happens(p) => copies += 1,
                Fault::Reorder(p, delay_max) if self.happens(p) => {
                    wait = Some(wait.unwrap_or(Duration::ZERO) + delay_max.scale(self.unit()));
                }
                _ => {}
            }
        }
        match (copies, wait) {
            (0, None) => Fate::Pass,
            (0, Some(wait)) => Fate::Delay(wait),
            _ => Fate::Copies(copies, wait),
        }
    }

    /// Ports create link frames when they send them, so these do not arrive. A fault damages a link frame, so the next port discards it. What is on the link when it is cut is
    /// damaged, too.
    fn on_departure(&mut self, now: Time, packet: &Packet<H>) -> Fate {
        let arrival = || now + self.rate.transmit_time(packet.size()) + self.delay;
        if self.spans_of_cuts().any(|(from, to)| now < to && from < arrival()) {
            return Fate::Drop;
        }
        if packet.dst != NodeId::LINK {
            return Fate::Pass;
        }
        let mut lost = false;
        for index in 0..self.faults.len() {
            let AimedFault { fault, aim } = self.faults[index];
            if let Fault::Loss(p) | Fault::Corrupt(p) = fault {
                lost |= aim.hits(packet, self.hosts) && self.happens(p);
            }
        }
        if lost { Fate::Drop } else { Fate::Pass }
    }
}

/// A packet that is held back: its release time, its order among the held packets, and its ingress port if it has not been in the queue yet.
type Held = (Time, u64, PacketId, Option<PortNumber>);

/// A port's discipline with faults that an [`Injector`] decides.
pub struct Faulty<P, F = LinkFaults> {
    inner: P,
    injector: F,
    /// Earliest first.
    held: BinaryHeap<Reverse<Held>>,
    held_ever: u64,
}

impl<P> Faulty<P> {
    /// `inner` with `faults`. Each link has its own random stream, derived from `seed`.
    pub fn new<A: Into<AimedFault>>(inner: P, site: &PortSite<'_>, faults: Vec<A>, seed: u64) -> Faulty<P> {
        let faults = faults.into_iter().map(A::into).collect();
        let random = Xoshiro256PlusPlus::seed_from_u64(stream_seed(seed, Purpose::Fault, u64::from(site.link.0)));
        let Link { rate, delay, .. } = *site.network.link(site.link);
        Faulty::with_injector(inner, LinkFaults { faults, hosts: site.network.nics() as u32, rate, delay, random })
    }
}

impl<P, F> Faulty<P, F> {
    /// The discipline that it wraps.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// `inner` with the faults that `injector` decides.
    pub fn with_injector(inner: P, injector: F) -> Faulty<P, F> {
        Faulty { inner, injector, held: BinaryHeap::new(), held_ever: 0 }
    }

    /// Holds a packet back for a time above zero.
    fn hold(&mut self, now: Time, wait: Duration, id: PacketId, ingress: Option<PortNumber>) {
        self.held_ever += 1;
        self.held.push(Reverse((now + Duration::from_ps(1) + wait, self.held_ever, id, ingress)));
    }

    /// Decides about a packet that leaves. Returns false if it is held back.
    fn lets_go<H: Copy, S>(&mut self, call: &mut PortCall<'_, H, S>, id: PacketId) -> bool
    where
        F: Injector<H>,
    {
        match self.injector.on_departure(call.now, &call.pool[id]) {
            Fate::Pass => {}
            Fate::Drop => call.pool[id].corrupt = true,
            Fate::Delay(wait) => {
                self.hold(call.now, wait, id, None);
                return false;
            }
            Fate::Duplicate(wait) => {
                let copy = call.duplicate(id);
                self.hold(call.now, wait, copy, None);
            }
            Fate::Copies(copies, wait) => {
                for _ in 0..copies {
                    let copy = call.duplicate(id);
                    self.hold(call.now, Duration::ZERO, copy, None);
                }
                if let Some(wait) = wait {
                    self.hold(call.now, wait, id, None);
                    return false;
                }
            }
        }
        true
    }
}

impl<H: Copy, P: Discipline<H>, F: Injector<H>> Discipline<H> for Faulty<P, F> {
    type Shared = P::Shared;
    const PASSES_WAITING: bool = P::PASSES_WAITING;

    fn enqueue(&mut self, call: &mut PortCall<'_, H, P::Shared>, packet: PacketId) {
        if self.injector.down_until(call.now).is_some() {
            return call.drop(packet, DropReason::LinkDown);
        }
        match self.injector.on_arrival(call.now, &mut call.pool[packet]) {
            Fate::Pass => {}
            Fate::Drop => return call.drop(packet, DropReason::Lost),
            Fate::Delay(wait) => return self.hold(call.now, wait, packet, Some(call.ingress)),
            Fate::Duplicate(wait) => {
                let copy = call.duplicate(packet);
                self.hold(call.now, wait, copy, Some(call.ingress));
            }
            Fate::Copies(copies, wait) => {
                for _ in 0..copies {
                    let copy = call.duplicate(packet);
                    self.inner.enqueue(call, copy);
                }
                if let Some(wait) = wait {
                    return self.hold(call.now, wait, packet, Some(call.ingress));
                }
            }
        }
        self.inner.enqueue(call, packet);
    }

    fn pass(&mut self, call: &mut PortCall<'_, H, P::Shared>, packet: PacketId) -> bool {
        self.injector.ignores(&call.pool[packet]) && self.held.is_empty() && self.inner.pass(call, packet)
    }

    fn closed(&self, now: Time) -> u8 {
        self.inner.closed(now)
    }

    fn dequeue(&mut self, call: &mut PortCall<'_, H, P::Shared>) -> Dequeue {
        if let Some(up) = self.injector.down_until(call.now) {
            return Dequeue::ClosedUntil(up);
        }
        while let Some(Reverse((time, _, id, arrived_from))) = self.held.peek().copied()
            && time <= call.now
        {
            self.held.pop();
            let Some(ingress) = arrived_from else { return Dequeue::Packet(id) };
            let own = std::mem::replace(&mut call.ingress, ingress);
            self.inner.enqueue(call, id);
            call.ingress = own;
        }
        let mut choice = self.inner.dequeue(call);
        while let Dequeue::Packet(id) = choice
            && !self.lets_go(call, id)
        {
            choice = self.inner.dequeue(call);
        }
        match (choice, self.held.peek()) {
            (Dequeue::Idle, Some(Reverse((time, ..)))) => Dequeue::NotBefore(*time),
            (Dequeue::NotBefore(other), Some(Reverse((time, ..)))) => Dequeue::NotBefore(other.min(*time)),
            (choice, _) => choice,
        }
    }

    /// The wrapped discipline knows nothing of the link. Only a call of `dequeue` tells a NIC that the link is down, and later that it is up again.
    fn ready_at(&self, free_at: Time) -> Time {
        if self.injector.is_idle() { self.inner.ready_at(free_at) } else { free_at }
    }

    fn alarms(&self, set: &mut dyn FnMut(Time)) {
        self.injector.cuts().into_iter().for_each(&mut *set);
        self.inner.alarms(set);
    }

    fn handle_alarm(&mut self, call: &mut PortCall<'_, H, P::Shared>) {
        if self.injector.cuts().contains(&call.now) {
            self.lose_all(call);
        }
        self.inner.handle_alarm(call);
    }

    fn lose_all(&mut self, call: &mut PortCall<'_, H, P::Shared>) {
        while let Some(Reverse((_, _, id, _))) = self.held.pop() {
            call.drop(id, DropReason::LinkDown);
        }
        self.inner.lose_all(call);
    }

    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, P::Shared>, packet: PacketId) {
        self.inner.handle_link_frame(call, packet);
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.held.iter().for_each(|Reverse((_, _, packet, _))| visit(*packet));
        self.inner.each_queued(pool, visit);
    }
}
