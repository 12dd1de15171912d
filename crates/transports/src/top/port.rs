//! TOP's ports: one for each form of the switch.

use flowloom_core::{Dequeue, Discipline, NodeKind, PacketId, Pool, PortCall, PortSite, Time};

use super::config::{Config, SwitchForm};
use super::header::Header;
use super::sorted::Sorted;
use super::two_pass::TwoPass;
use crate::disciplines::{Bucket, CreditLayout, CreditPort, DataQueue, Limit, WatchesData};

/// The port of a switch or of a host. That of the hypothetical switch is only a [`CreditPort`].
pub struct Port {
    /// Signals and data, and tokens if they have no stage of their own.
    queues: CreditPort,
    stage: Option<Box<Stage>>,
}

/// What orders a port's tokens and limits their rate, in place of its queues.
#[allow(clippy::large_enum_variant)] // ports box it as a whole
enum Stage {
    /// That of the ideal switch and its hosts.
    Sorted(Sorted),
    /// That of the remedy's switch.
    TwoPass(TwoPass),
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
            credit_drop: config.credits.credit_drop,
            seed: site.seed,
            lifetime: (config.switch == SwitchForm::Hypothetical).then_some(lifetime),
            burst: wire.control * u64::from(config.credits.credit_burst),
            slot: config.slot(wire),
            data: &data[..if config.unscheduled > 0 { 2 } else { 1 }],
            memory: site.memory.bytes(),
        };
        let queues = CreditPort::new(&layout, link.rate, wire);
        let stage = match config.switch {
            SwitchForm::Ideal => {
                let bucket = Bucket::new(link.rate, wire.control, layout.slot, layout.burst);
                let token = wire.control.get() as u32;
                Some(Stage::Sorted(Sorted::new(config, lifetime, bucket, token, site.seed)))
            }
            SwitchForm::Remedy if !is_host => {
                let (way, transmission) = config.detour(link.rate, wire.control);
                Some(Stage::TwoPass(TwoPass::new(queues.clone(), way, transmission)))
            }
            SwitchForm::Remedy | SwitchForm::Hypothetical => None,
        };
        Port { queues, stage: stage.map(Box::new) }
    }
}

impl Stage {
    /// Queues a token, or drops it or others.
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, token: PacketId) {
        match self {
            Stage::Sorted(tokens) => tokens.enqueue(call, token),
            Stage::TwoPass(tokens) => tokens.enqueue(call, token),
        }
    }

    /// The token that may leave now.
    fn take(&mut self, call: &mut PortCall<'_, Header, ()>) -> Option<PacketId> {
        match self {
            Stage::Sorted(tokens) => tokens.take(call),
            Stage::TwoPass(tokens) => tokens.take(call),
        }
    }

    /// Loses all tokens, because the link has been cut.
    fn lose_all(&mut self, call: &mut PortCall<'_, Header, ()>) {
        match self {
            Stage::Sorted(tokens) => tokens.lose_all(call),
            Stage::TwoPass(tokens) => tokens.lose_all(call),
        }
    }

    /// The earliest time at which a token may leave, unless others come; [`Time::MAX`] if there is none. After a call of [`Stage::take`]
    /// that returned none, it is in the future.
    fn ready_at(&self) -> Time {
        match self {
            Stage::Sorted(tokens) => tokens.ready_at(),
            Stage::TwoPass(tokens) => tokens.ready_at(),
        }
    }
}

/// The calls of a port whose tokens have a stage of their own. Signals leave before them, data after them. They are not inlined, so that those of
/// the hypothetical switch's port are.
impl Stage {
    #[inline(never)]
    fn enqueue_beside(&mut self, queues: &mut CreditPort, mut call: PortCall<'_, Header, ()>, packet: PacketId) {
        if queues.holds_credits(call.pool[packet].class) {
            self.enqueue(&mut call, packet);
        } else {
            queues.enqueue(&mut call, packet);
        }
    }

    #[inline(never)]
    fn pass_beside(&self, queues: &mut CreditPort, mut call: PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        let is_token = queues.holds_credits(call.pool[packet].class);
        !is_token && self.ready_at() > call.now && queues.pass(&mut call, packet)
    }

    #[inline(never)]
    fn dequeue_beside(&mut self, queues: &mut CreditPort, mut call: PortCall<'_, Header, ()>) -> Dequeue {
        if !queues.has_signals()
            && self.ready_at() <= call.now
            && let Some(token) = self.take(&mut call)
        {
            return Dequeue::Packet(token);
        }
        match queues.dequeue(&mut call) {
            Dequeue::Idle if self.ready_at() < Time::MAX => Dequeue::NotBefore(self.ready_at()),
            other => other,
        }
    }

    fn ready_beside(&self, queues: &CreditPort, free_at: Time) -> Time {
        if queues.is_empty() { free_at.max(self.ready_at()) } else { free_at }
    }
}

impl WatchesData for Port {
    fn limit_data(&mut self, limit: u64, deviation: f64) {
        self.queues.limit_data(limit, deviation);
    }
    fn data_queue(&self) -> &DataQueue {
        self.queues.data_queue()
    }
}

impl Discipline<Header> for Port {
    type Shared = ();
    const PASSES_WAITING: bool = true;

    #[inline(always)]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        match &mut self.stage {
            None => self.queues.enqueue(call, packet),
            Some(stage) => stage.enqueue_beside(&mut self.queues, call.reborrow(), packet),
        }
    }

    #[inline(always)]
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        match &self.stage {
            None => self.queues.pass(call, packet),
            Some(stage) => stage.pass_beside(&mut self.queues, call.reborrow(), packet),
        }
    }

    #[inline(always)]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        match &mut self.stage {
            None => self.queues.dequeue(call),
            Some(stage) => stage.dequeue_beside(&mut self.queues, call.reborrow()),
        }
    }

    #[inline(always)]
    fn ready_at(&self, free_at: Time) -> Time {
        match &self.stage {
            None => Discipline::<Header>::ready_at(&self.queues, free_at),
            Some(stage) => stage.ready_beside(&self.queues, free_at),
        }
    }

    fn lose_all(&mut self, call: &mut PortCall<'_, Header, ()>) {
        self.queues.lose_all(call);
        if let Some(stage) = &mut self.stage {
            stage.lose_all(call);
        }
    }

    fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.queues.each_queued(pool, visit);
        match self.stage.as_deref() {
            Some(Stage::Sorted(tokens)) => tokens.each_queued(visit),
            Some(Stage::TwoPass(tokens)) => tokens.each_queued(pool, visit),
            None => {}
        }
    }
}
