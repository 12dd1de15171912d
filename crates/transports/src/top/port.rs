//! TOP's ports: one for each form of the switch.

use flowloom_core::{Dequeue, Discipline, NodeKind, PacketId, PortCall, PortSite, Time};

use super::config::{Config, SwitchForm};
use super::header::Header;
use super::sorted::Sorted;
use super::two_pass::TwoPass;
use crate::disciplines::{Bucket, CreditLayout, CreditPort, Limit};

/// The port of a switch or of a host. The hypothetical switch is a [`CreditPort`]. In the others, tokens have a stage of their own in front of
/// it.
#[allow(clippy::large_enum_variant)] // the large one is the common one
pub enum Port {
    /// The hypothetical switch, and hosts but for the ideal switch's.
    Queues(CreditPort),
    /// The ideal switch and its hosts.
    Sorted(Box<Staged<Sorted>>),
    /// The remedy's switch.
    TwoPass(Box<Staged<TwoPass>>),
}

impl Port {
    pub(super) fn new(config: &Config, site: &PortSite<'_>) -> Port {
        let (link, wire) = (site.network.link(site.link), &site.wire);
        let is_host = site.network.node(link.from).kind == NodeKind::Host;
        let lifetime = config.lifetime(link.rate, wire).expect("the configuration suits the network");
        // A switch has room for one unscheduled packet (§4.4). At hosts, all packets of a flow come at once.
        let unscheduled = if is_host { config.unscheduled.max(1) } else { 1 };
        let data = [Limit::NONE, Limit::bytes(wire.full.get() as u32 * unscheduled)];
        let layout = CreditLayout {
            credit_queues: config.token_classes(),
            credit_limit: Limit::packets(config.credits.credit_queue),
            lifetime: (config.switch == SwitchForm::Hypothetical).then_some(lifetime),
            burst: wire.control * u64::from(config.credits.credit_burst),
            slot: config.slot(wire),
            data: &data[..if config.unscheduled > 0 { 2 } else { 1 }],
            memory: site.memory.bytes(),
        };
        let port = CreditPort::new(&layout, link.rate, wire);
        match config.switch {
            SwitchForm::Ideal => {
                let bucket = Bucket::new(link.rate, wire.control, layout.slot, layout.burst);
                let stage = Sorted::new(config.ideal_queue as usize, lifetime, bucket, wire.control.get() as u32);
                Port::Sorted(Box::new(Staged { stage, rest: port }))
            }
            SwitchForm::Remedy if !is_host => {
                let (way, transmission) = config.detour(link.rate, wire.control);
                let stage = TwoPass::new(port.clone(), way, transmission);
                Port::TwoPass(Box::new(Staged { stage, rest: port }))
            }
            _ => Port::Queues(port),
        }
    }
}

/// What orders a port's tokens and limits their rate.
pub trait Stage: Send {
    /// Queues a token, or drops it or others.
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, token: PacketId);
    /// The token that may leave now.
    fn take(&mut self, call: &mut PortCall<'_, Header, ()>) -> Option<PacketId>;
    /// The earliest time at which one may leave, unless others come; [`Time::MAX`] if there is none. After a call of [`Stage::take`] without a
    /// token, it is in the future.
    fn ready_at(&self) -> Time;
}

/// A port whose tokens have a stage of their own. Signals leave before them, data after them. Its calls are not inlined, so that those of the
/// hypothetical switch's port are.
pub struct Staged<S> {
    stage: S,
    rest: CreditPort,
}

impl<S: Stage> Discipline<Header> for Staged<S> {
    type Shared = ();
    const PASSES_WAITING: bool = true;

    #[inline(never)]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        if self.rest.holds_credits(call.pool[packet].class) {
            self.stage.enqueue(call, packet);
        } else {
            self.rest.enqueue(call, packet);
        }
    }

    #[inline(never)]
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        let is_token = self.rest.holds_credits(call.pool[packet].class);
        !is_token && self.stage.ready_at() > call.now && self.rest.pass(call, packet)
    }

    #[inline(never)]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        if !self.rest.has_signals()
            && self.stage.ready_at() <= call.now
            && let Some(token) = self.stage.take(call)
        {
            return Dequeue::Packet(token);
        }
        match self.rest.dequeue(call) {
            Dequeue::Idle if self.stage.ready_at() < Time::MAX => Dequeue::NotBefore(self.stage.ready_at()),
            other => other,
        }
    }

    fn ready_at(&self, free_at: Time) -> Time {
        if self.rest.is_empty() { free_at.max(self.stage.ready_at()) } else { free_at }
    }
}

impl Discipline<Header> for Port {
    type Shared = ();
    const PASSES_WAITING: bool = true;

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        match self {
            Port::Queues(port) => port.enqueue(call, packet),
            Port::Sorted(port) => port.enqueue(call, packet),
            Port::TwoPass(port) => port.enqueue(call, packet),
        }
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        match self {
            Port::Queues(port) => port.pass(call, packet),
            Port::Sorted(port) => port.pass(call, packet),
            Port::TwoPass(port) => port.pass(call, packet),
        }
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        match self {
            Port::Queues(port) => port.dequeue(call),
            Port::Sorted(port) => port.dequeue(call),
            Port::TwoPass(port) => port.dequeue(call),
        }
    }

    #[inline]
    fn ready_at(&self, free_at: Time) -> Time {
        match self {
            Port::Queues(port) => Discipline::<Header>::ready_at(port, free_at),
            Port::Sorted(port) => port.ready_at(free_at),
            Port::TwoPass(port) => port.ready_at(free_at),
        }
    }
}
