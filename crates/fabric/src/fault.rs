//! Fault injection, as a wrapper around a port's discipline. Runs without faults do not use the wrapper.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{
    Dequeue, Discipline, DropReason, Duration, FlowId, Packet, PacketId, PortCall, PortNumber, PortSite, Time,
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
}

/// Packets with or without payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketKind {
    /// All packets.
    #[default]
    All,
    /// Packets with payload.
    Data,
    /// Packets without payload.
    Control,
}

/// Which packets a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aim {
    /// Packets of this kind.
    pub packets: PacketKind,
    /// Packets of this flow, if it is given.
    pub flow: Option<FlowId>,
}

impl Aim {
    fn hits<H>(&self, packet: &Packet<H>) -> bool {
        let kind = match self.packets {
            PacketKind::All => true,
            PacketKind::Data => packet.payload_bytes > 0,
            PacketKind::Control => packet.payload_bytes == 0,
        };
        kind && self.flow.is_none_or(|flow| flow == packet.flow)
    }
}

/// A fault, and which packets it strikes. [`Fault::Down`] strikes all of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AimedFault {
    /// What happens.
    pub fault: Fault,
    /// To which packets.
    pub aim: Aim,
}

impl From<Fault> for AimedFault {
    /// A fault that strikes all packets.
    fn from(fault: Fault) -> AimedFault {
        AimedFault { fault, aim: Aim::default() }
    }
}

/// A port's discipline with faults.
pub struct Faulty<P> {
    inner: P,
    faults: Vec<AimedFault>,
    random: Xoshiro256PlusPlus,
    /// Packets that are held back: their release time, their order of arrival and their ingress port, earliest first.
    held: BinaryHeap<Reverse<(Time, u64, PacketId, PortNumber)>>,
    held_ever: u64,
}

impl<P> Faulty<P> {
    /// `inner` with `faults`. Each link has its own random stream, derived from `seed`.
    pub fn new<F: Into<AimedFault>>(inner: P, site: &PortSite<'_>, faults: Vec<F>, seed: u64) -> Faulty<P> {
        let faults = faults.into_iter().map(F::into).collect();
        let random = Xoshiro256PlusPlus::seed_from_u64(stream_seed(seed, Purpose::Fault, u64::from(site.link.0)));
        Faulty { inner, faults, random, held: BinaryHeap::new(), held_ever: 0 }
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn hold(&mut self, until: Time, id: PacketId, ingress: PortNumber) {
        self.held_ever += 1;
        self.held.push(Reverse((until, self.held_ever, id, ingress)));
    }

    /// The time when the link comes up again, if it is down now.
    fn down_until(&self, now: Time) -> Option<Time> {
        self.faults
            .iter()
            .filter_map(
                |aimed| if let Fault::Down(from, to) = aimed.fault { (from <= now && now < to).then_some(to) } else { None },
            )
            .max()
    }
}

impl<H: Copy, P: Discipline<H>> Discipline<H> for Faulty<P> {
    type Shared = P::Shared;

    fn enqueue(&mut self, call: &mut PortCall<'_, H, P::Shared>, packet: PacketId) {
        if self.down_until(call.now).is_some() {
            return call.drop(packet, DropReason::LinkDown);
        }
        let mut copies = 0;
        for index in 0..self.faults.len() {
            let AimedFault { fault, aim } = self.faults[index];
            if !aim.hits(&call.pool[packet]) {
                continue;
            }
            match fault {
                Fault::Loss(p) if self.happens(p) => return call.drop(packet, DropReason::Lost),
                Fault::Corrupt(p) if self.happens(p) => call.pool[packet].corrupt = true,
                Fault::Duplicate(p) if self.happens(p) => copies += 1,
                Fault::Reorder(p, delay_max) if self.happens(p) => {
                    let wait = Duration::from_ps(1) + delay_max.scale(self.unit());
                    return self.hold(call.now + wait, packet, call.ingress);
                }
                _ => {}
            }
        }
        for _ in 0..copies {
            let copy = call.duplicate(packet);
            self.inner.enqueue(call, copy);
        }
        self.inner.enqueue(call, packet);
    }

    fn dequeue(&mut self, call: &mut PortCall<'_, H, P::Shared>) -> Dequeue {
        if let Some(up) = self.down_until(call.now) {
            return Dequeue::ClosedUntil(up);
        }
        let ingress = call.ingress;
        while let Some(Reverse((time, _, id, packet_ingress))) = self.held.peek().copied()
            && time <= call.now
        {
            self.held.pop();
            call.ingress = packet_ingress;
            self.inner.enqueue(call, id);
        }
        call.ingress = ingress;
        match (self.inner.dequeue(call), self.held.peek()) {
            (Dequeue::Idle, Some(Reverse((time, ..)))) => Dequeue::NotBefore(*time),
            (Dequeue::NotBefore(other), Some(Reverse((time, ..)))) => Dequeue::NotBefore(other.min(*time)),
            (choice, _) => choice,
        }
    }

    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, P::Shared>, packet: PacketId) {
        self.inner.handle_link_frame(call, packet);
    }
}
