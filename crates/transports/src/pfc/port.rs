//! A port of a lossless fabric, around any port whose classes can be paused.

use flowloom_core::{
    Dequeue, Discipline, DropReason, Duration, FlowId, NodeId, Packet, PacketId, Pool, PortCall, PortNumber, PortSite, Time,
};

use super::accounts::Accounts;
use super::frame::{NOBODY, encoded, pause_frame, stopped_by};
use super::limits::{NodeLimits, Pfc};
use super::storm::{Storm, Storms};
use crate::disciplines::{ClassSet, MOST_CLASSES, Pausable};

/// What the ports of a node share: the accounts, and what the inner ports share.
#[derive(Debug, Default)]
pub struct PfcShared<S> {
    accounts: Accounts,
    inner: S,
}

impl<S> PfcShared<S> {
    /// Nothing is stored yet.
    pub fn new(limits: &NodeLimits, inner: S) -> PfcShared<S> {
        PfcShared { accounts: Accounts::new(limits), inner }
    }
    /// Bytes that came in over links and have not begun to leave.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.accounts.used()
    }
}

/// A port under priority flow control. It sends pause frames before everything else, stops the classes that pause frames name, and counts
/// what its node stores by the port through which it came in. Order, marks and everything else are those of the inner port, which must
/// have enough memory to drop nothing.
#[derive(Clone, Debug)]
pub struct PfcPort<P> {
    inner: P,
    node: NodeId,
    frame_bytes: u32,
    reaction: Duration,
    /// All classes that there are.
    classes: ClassSet,
    /// The classes that the neighbour has stopped.
    stopping: ClassSet,
    /// The time from which on it has stopped each of them.
    stopped_from: [Time; MOST_CLASSES],
    /// When this port pauses its neighbour without need.
    storms: Option<Box<Storms>>,
}

/// The call as the inner port sees it. A macro, because it borrows the fields of the call separately.
macro_rules! inner {
    ($call:ident) => {
        &mut PortCall {
            now: $call.now,
            pool: &mut *$call.pool,
            shared: &mut $call.shared.inner,
            number: $call.number,
            ingress: $call.ingress,
            rate: $call.rate,
            effects: &mut *$call.effects,
        }
    };
}

impl<P> PfcPort<P> {
    /// A port with this many classes at this site.
    pub fn new(inner: P, classes: u8, pfc: &Pfc, site: &PortSite<'_>) -> PfcPort<P> {
        PfcPort {
            inner,
            node: site.network.link(site.link).from,
            frame_bytes: pfc.frame.get() as u32,
            reaction: pfc.reaction,
            classes: ClassSet::first(classes),
            stopping: ClassSet::NONE,
            stopped_from: [Time::MAX; MOST_CLASSES],
            storms: None,
        }
    }

    /// The same port with those of these storms that are its node's.
    pub fn with_storms(self, storms: &[Storm]) -> PfcPort<P> {
        PfcPort { storms: Storms::of(self.node, storms).map(Box::new), ..self }
    }

    /// The classes that must not be sent now.
    #[inline]
    fn paused(&self, now: Time) -> ClassSet {
        let mut paused = self.stopping;
        if paused != ClassSet::NONE {
            (0..MOST_CLASSES).filter(|class| self.stopped_from[*class] > now).for_each(|class| paused.set(class, false));
        }
        paused
    }

    /// Makes the port to a neighbour send the present pause state. `cause` is the packet that changed it.
    #[cold]
    fn order<H: Copy, S>(&self, call: &mut PortCall<'_, H, PfcShared<S>>, neighbour: PortNumber, cause: PacketId) {
        let Packet { flow, header, .. } = call.pool[cause];
        *call.shared.accounts.cause(neighbour) = Some(flow);
        self.order_for(call, neighbour, flow, header);
    }

    /// The same, for a packet of this flow that need not exist any more. If the last frame has not left yet, it is updated.
    fn order_for<H: Copy, S>(&self, call: &mut PortCall<'_, H, PfcShared<S>>, neighbour: PortNumber, flow: FlowId, header: H) {
        let stopped = call.shared.accounts.stopped(neighbour);
        let frame = call.shared.accounts.frame(neighbour);
        if frame.is_none() {
            *frame = call.pool.insert(pause_frame(flow, header, self.node, self.frame_bytes, stopped));
            call.wake(neighbour);
        } else {
            call.pool[*frame].offset = encoded(stopped);
        }
    }

    /// Accounts for a packet that leaves the node's memory.
    #[inline]
    fn release<H: Copy>(&self, call: &mut PortCall<'_, H, PfcShared<P::Shared>>, id: PacketId)
    where
        P: Pausable<H>,
    {
        let ingress = call.pool.ingress(id);
        if ingress == PortNumber::LOCAL {
            return;
        }
        let packet = &call.pool[id];
        if call.shared.accounts.leave(ingress, self.inner.class_of(packet), packet.size_bytes) {
            self.order(call, ingress, id);
        }
    }

    /// Chooses what to send.
    #[inline]
    fn choose<H: Copy>(&mut self, call: &mut PortCall<'_, H, PfcShared<P::Shared>>) -> Dequeue
    where
        P: Pausable<H>,
    {
        let frame = call.shared.accounts.frame(call.number);
        if !frame.is_none() {
            return Dequeue::Packet(std::mem::replace(frame, PacketId::NONE));
        }
        let before = gone(call);
        let paused = self.paused(call.now);
        let choice = self.inner.dequeue_open(inner!(call), paused);
        if let Dequeue::Packet(id) = choice {
            self.release(call, id);
        }
        self.settle(call, before);
        if choice == Dequeue::Idle && self.classes != ClassSet::first(1) && paused != ClassSet::NONE {
            // A NIC that took no more packets from a `Nic::Pulled` endpoint would also hold back the classes that are open (see `closed`).
            return Dequeue::NotBefore(Time::MAX);
        }
        choice
    }

    /// The same before and during a storm. A port is served when packets come, so it asks for service at the time of the next frame with each
    /// of its answers.
    #[cold]
    fn choose_in_storm<H: Copy + Default>(&mut self, call: &mut PortCall<'_, H, PfcShared<P::Shared>>) -> Dequeue
    where
        P: Pausable<H>,
    {
        let mut storms = self.storms.take().expect("there is a storm");
        let stopped = if storms.rages(call.now) { self.classes } else { call.shared.accounts.stopped(call.number) };
        let choice = if storms.take_due(call.now) {
            call.shared.accounts.cause(call.number).get_or_insert(NOBODY);
            Dequeue::Packet(call.pool.insert(pause_frame(NOBODY, H::default(), self.node, self.frame_bytes, stopped)))
        } else {
            self.choose(call)
        };
        if let Dequeue::Packet(id) = choice
            && call.pool[id].dst == NodeId::LINK
        {
            // A frame that lets a neighbour resume must not end the storm.
            call.pool[id].offset = encoded(stopped);
        }
        if storms.are_over() {
            return choice;
        }
        let next = storms.next();
        self.storms = Some(storms);
        match choice {
            Dequeue::Packet(_) => {
                call.wake(call.number);
                choice
            }
            Dequeue::Idle => Dequeue::NotBefore(next),
            Dequeue::NotBefore(at) => Dequeue::NotBefore(at.min(next)),
            Dequeue::ClosedUntil(at) => Dequeue::ClosedUntil(at.min(next)),
        }
    }

    /// Accounts for packets that the inner port has dropped or given away in this call; before the call, there were this many of each.
    #[inline]
    fn settle<H: Copy>(&self, call: &mut PortCall<'_, H, PfcShared<P::Shared>>, before: (usize, usize))
    where
        P: Pausable<H>,
    {
        for index in before.0..call.effects.dropped.len() {
            self.release(call, call.effects.dropped[index].0);
        }
        for index in before.1..call.effects.handed_over.len() {
            self.release(call, call.effects.handed_over[index].0);
        }
    }
}

/// How many packets were dropped or given away in this call so far.
#[inline]
fn gone<H, S>(call: &PortCall<'_, H, S>) -> (usize, usize) {
    (call.effects.dropped.len(), call.effects.handed_over.len())
}

impl<H: Copy + Default, P: Pausable<H>> Discipline<H> for PfcPort<P> {
    type Shared = PfcShared<P::Shared>;

    fn enqueue(&mut self, call: &mut PortCall<'_, H, Self::Shared>, id: PacketId) {
        let ingress = call.ingress;
        call.pool.set_ingress(id, ingress);
        if ingress != PortNumber::LOCAL {
            let packet: &Packet<H> = &call.pool[id];
            let arrival = call.shared.accounts.arrive(ingress, self.inner.class_of(packet), packet.size_bytes);
            if arrival.stops {
                self.order(call, ingress, id);
            }
            if !arrival.fits {
                return call.drop(id, DropReason::Overflow);
            }
        }
        let before = gone(call);
        self.inner.enqueue(inner!(call), id);
        self.settle(call, before);
    }

    /// A packet that does not stop takes no memory.
    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, Self::Shared>, id: PacketId) -> bool {
        let open = self.stopping == ClassSet::NONE || !self.paused(call.now).has(self.inner.class_of(&call.pool[id]));
        let calm = self.storms.is_none() && call.shared.accounts.frame(call.number).is_none();
        open && calm && self.inner.pass(inner!(call), id)
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, Self::Shared>) -> Dequeue {
        if self.storms.is_some() { self.choose_in_storm(call) } else { self.choose(call) }
    }

    #[inline]
    fn closed(&self, now: Time) -> u8 {
        self.paused(now).0
    }

    fn alarms(&self, set: &mut dyn FnMut(Time)) {
        if let Some(storms) = &self.storms {
            set(storms.next());
        }
    }

    /// A link that comes up is not paused. Frames may have been lost on it, so each end that has sent any says again what it wants as soon as the link is up. A frame that still waits here
    /// is not lost: it says then what is right by then.
    fn lose_all(&mut self, call: &mut PortCall<'_, H, Self::Shared>) {
        self.stopping = ClassSet::NONE;
        let before = gone(call);
        self.inner.lose_all(inner!(call));
        self.settle(call, before);
        if let Some(flow) = *call.shared.accounts.cause(call.number) {
            self.order_for(call, call.number, flow, H::default());
        }
    }

    /// A pause takes effect after the reaction time, and a resume at once: the standard limits how long a port may take to stop, and a
    /// port that resumes early loses nothing.
    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, Self::Shared>, packet: PacketId) {
        let Some(stopped) = stopped_by(&call.pool[packet]) else { return };
        for class in (0..MOST_CLASSES).filter(|class| stopped.has(*class) && !self.stopping.has(*class)) {
            self.stopped_from[class] = call.now + self.reaction;
        }
        self.stopping = stopped;
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.inner.each_queued(pool, visit);
    }
}
