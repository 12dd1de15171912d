//! The ports' side of a driver.

use crate::{
    Dequeue, Discipline, DropReason, Effects, LinkId, NodeId, Onward, PacketId, Pool, PortCall, PortNumber, Rate, Time,
};

/// What egress ports send on: the clock, the packets, the links, and the accounts of what happens. `LinkId` names a link and its egress
/// port.
pub trait LinkLayer<H> {
    /// What it keeps in each port and needs for every packet.
    type Line;
    /// What it keeps in each port and needs less often, such as counters.
    type Books;
    /// The current time.
    fn now(&self) -> Time;
    /// All packets.
    fn pool(&mut self) -> &mut Pool<H>;
    /// When the link has sent what it is sending now; the current time or earlier if it is free.
    fn busy_until(&self, link: LinkId) -> Time;
    /// The node that a port belongs to.
    fn node(line: &Self::Line) -> NodeId;
    /// The link that another port of the node sends on.
    fn sibling(&self, line: &Self::Line, number: PortNumber) -> LinkId;
    /// The link on which a port's node sends a packet that it got back from this port. The packet is not for the node itself.
    fn route(&mut self, link: LinkId, line: &Self::Line, id: PacketId) -> LinkId;
    /// Sends a packet over a free link of this rate. Returns when the link is free again.
    fn transmit(&mut self, link: LinkId, rate: Rate, line: &Self::Line, books: &mut Self::Books, id: PacketId) -> Time;
    /// Makes [`Ports::serve_now`] be called at this time, if [`Ports::is_due`] then.
    fn schedule_service(&mut self, link: LinkId, at: Time);
    /// Makes [`Ports::alarm`] be called at this time. A driver without faults need not: no port asks for it there.
    fn schedule_alarm(&mut self, link: LinkId, at: Time) {
        let _ = (link, at);
    }
    /// A packet has arrived at a port.
    fn arrived(&mut self, link: LinkId, books: &Self::Books, id: PacketId) {
        let _ = (link, books, id);
    }
    /// This many packets and bytes come into a queue.
    fn queue_grows(&mut self, books: &mut Self::Books, packets: u32, bytes: u32) {
        let _ = (books, packets, bytes);
    }
    /// This many packets and bytes leave a queue.
    fn queue_shrinks(&mut self, books: &mut Self::Books, packets: u32, bytes: u32) {
        let _ = (books, packets, bytes);
    }
    /// A packet was queued. What it pushed out has left the queue, and so has the packet that a free port sent at once.
    fn queued(&mut self, books: &mut Self::Books) {
        let _ = books;
    }
    /// Packets were marked.
    fn marked(&mut self, books: &mut Self::Books, packets: u64) {
        let _ = (books, packets);
    }
    /// A packet's payload was cut off.
    fn trimmed(&mut self, books: &mut Self::Books, id: PacketId, payload_bytes: u32) {
        let _ = (books, id, payload_bytes);
    }
    /// A packet is a copy that fault injection made.
    fn duplicated(&mut self, id: PacketId, payload_bytes: u32) {
        let _ = (id, payload_bytes);
    }
    /// Removes a packet that was dropped at a port or on its link.
    fn drop_packet(&mut self, link: LinkId, books: &mut Self::Books, id: PacketId, why: DropReason);
}

/// An egress port: its discipline, and what the driver remembers between calls. The fields that every packet needs come first.
#[repr(C, align(64))]
struct EgressPort<P, L, B> {
    /// The time of the port's pending service event, [`Time::MAX`] if there is none. A service event at any other time is stale.
    serve_at: Time,
    queued_packets: u32,
    number: PortNumber,
    /// The port had queued packets when it was last served, and sent none: a paused port.
    blocked: bool,
    line: L,
    discipline: P,
    rate: Rate,
    books: B,
}

impl<P, L, B> EgressPort<P, L, B> {
    /// Carries out a discipline's decision.
    #[inline(always)]
    fn carry_out<H, K>(&mut self, link: LinkId, choice: Dequeue, link_layer: &mut K)
    where
        P: Discipline<H>,
        K: LinkLayer<H, Line = L, Books = B>,
    {
        match choice {
            Dequeue::Packet(id) => {
                self.leaves_queue(id, link_layer);
                self.transmit(link, id, link_layer);
            }
            Dequeue::Idle => self.blocked = self.queued_packets > 0,
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => {
                debug_assert!(at > link_layer.now(), "an event with zero delay");
                self.blocked = matches!(choice, Dequeue::ClosedUntil(_));
                self.serve_by(link, at, link_layer);
            }
        }
    }

    /// Sends a packet over the link.
    #[inline(always)]
    fn transmit<H, K>(&mut self, link: LinkId, id: PacketId, link_layer: &mut K)
    where
        P: Discipline<H>,
        K: LinkLayer<H, Line = L, Books = B>,
    {
        let now = link_layer.now();
        let free_at = link_layer.transmit(link, self.rate, &self.line, &mut self.books, id);
        self.blocked = false;
        if self.serve_at == now {
            // Another event at this time has already served the port, so the pending service event becomes stale.
            self.serve_at = Time::MAX;
        }
        if self.queued_packets > 0 {
            self.serve_by(link, self.discipline.ready_at(free_at), link_layer);
        }
    }

    /// Takes a packet that the port gives away out of the queue, and returns where it goes.
    fn hand_over<H, K>(&mut self, link: LinkId, id: PacketId, onward: Onward, link_layer: &mut K) -> Errand
    where
        K: LinkLayer<H, Line = L, Books = B>,
    {
        debug_assert_ne!(link_layer.pool()[id].dst, K::node(&self.line), "a packet does not return to its own node");
        self.leaves_queue(id, link_layer);
        let to = match onward {
            Onward::Port(port) => link_layer.sibling(&self.line, port),
            Onward::Route => link_layer.route(link, &self.line, id),
        };
        Errand::Enqueue(to, id, self.number)
    }

    /// Schedules service of the port at `at`, unless an earlier service is pending.
    #[inline]
    fn serve_by<H, K: LinkLayer<H, Line = L, Books = B>>(&mut self, link: LinkId, at: Time, link_layer: &mut K) {
        if self.notes_service(at) {
            link_layer.schedule_service(link, at);
        }
    }

    /// Notes a service of the port at `at`, unless an earlier one is pending. Returns whether it did.
    #[inline(always)]
    fn notes_service(&mut self, at: Time) -> bool {
        let is_next = at < self.serve_at;
        if is_next {
            self.serve_at = at;
        }
        is_next
    }

    /// The time at which the port may be served, if that is later than now.
    #[inline(always)]
    fn must_wait<H, K>(&self, link: LinkId, link_layer: &K) -> Option<Time>
    where
        P: Discipline<H>,
        K: LinkLayer<H, Line = L, Books = B>,
    {
        let (now, busy_until) = (link_layer.now(), link_layer.busy_until(link));
        let ready_at = self.discipline.ready_at(busy_until.max(now));
        (ready_at > now).then_some(ready_at)
    }

    /// Takes a packet out of the queue's length. A link frame has never been in it: ports create them when they send them.
    #[inline(always)]
    fn leaves_queue<H, K: LinkLayer<H, Line = L, Books = B>>(&mut self, id: PacketId, link_layer: &mut K) {
        let packet = &link_layer.pool()[id];
        if packet.dst != NodeId::LINK {
            let bytes = packet.size_bytes;
            link_layer.queue_shrinks(&mut self.books, 1, bytes);
            self.queued_packets -= 1;
        }
    }

    /// Adds a packet of `bytes` bytes to the queue's length.
    #[inline]
    fn joins_queue<H, K: LinkLayer<H, Line = L, Books = B>>(&mut self, bytes: u32, link_layer: &mut K) {
        link_layer.queue_grows(&mut self.books, 1, bytes);
        self.queued_packets += 1;
    }
}

/// Builds the [`PortCall`] for an egress port. A macro, because it borrows the fields of [`Ports`] separately while `egress` is borrowed
/// too.
macro_rules! port_call {
    ($ports:ident, $egress:ident, $ingress:expr) => {
        PortCall {
            now: $ports.link_layer.now(),
            shared: &mut $ports.shared[K::node(&$egress.line).index()],
            pool: $ports.link_layer.pool(),
            number: $egress.number,
            ingress: $ingress,
            rate: $egress.rate,
            effects: &mut $ports.effects,
        }
    };
}

/// All egress ports of a network, or of one node, and the link layer below them.
pub struct Ports<H, P: Discipline<H>, K: LinkLayer<H>> {
    /// The link layer.
    pub link_layer: K,
    egress_ports: Vec<EgressPort<P, K::Line, K::Books>>,
    shared: Vec<P::Shared>,
    effects: Effects,
    /// Requests of ports to other ports of their nodes that are still to be carried out, the last one first.
    errands: Vec<Errand>,
}

/// What the link layer keeps in each port.
pub struct AllBooks<'a, P, L, B>(&'a [EgressPort<P, L, B>]);

impl<P, L, B> AllBooks<'_, P, L, B> {
    /// That of the port of a link.
    #[inline]
    pub fn of(&self, link: LinkId) -> &B {
        &self.0[link.index()].books
    }
}

/// A request of a port to another port of its node.
#[derive(Clone, Copy)]
enum Errand {
    /// Serve this port.
    Serve(LinkId),
    /// Let a packet arrive at this port, from the port with this number.
    Enqueue(LinkId, PacketId, PortNumber),
}

impl<H, P: Discipline<H>, K: LinkLayer<H>> Ports<H, P, K> {
    /// No ports yet. `shared` holds what the ports of each node share, by the node's index.
    pub fn new(link_layer: K, shared: Vec<P::Shared>) -> Self {
        Ports { link_layer, egress_ports: Vec::new(), shared, effects: Effects::default(), errands: Vec::new() }
    }

    /// Gives a port's link another rate. A packet that is on the wire is not affected.
    pub fn relink(&mut self, link: LinkId, rate: Rate, line: K::Line) {
        let port = &mut self.egress_ports[link.index()];
        (port.rate, port.line) = (rate, line);
    }

    /// Adds the port of the link whose index is the number of ports so far.
    pub fn push(&mut self, discipline: P, number: PortNumber, rate: Rate, line: K::Line, books: K::Books) {
        let (serve_at, queued_packets, blocked) = (Time::MAX, 0, false);
        self.egress_ports.push(EgressPort { serve_at, queued_packets, number, blocked, line, discipline, rate, books });
    }

    /// Schedules the alarms of a port. To be called once, before anything else.
    pub fn start(&mut self, link: LinkId) {
        let mut alarms = Vec::new();
        self.egress_ports[link.index()].discipline.alarms(&mut |at| alarms.push(at));
        alarms.sort_unstable();
        alarms.dedup();
        alarms.into_iter().for_each(|at| self.link_layer.schedule_alarm(link, at));
    }

    /// Lets a port handle an alarm, and serves it.
    #[cold]
    pub fn alarm(&mut self, link: LinkId) {
        let egress = &mut self.egress_ports[link.index()];
        egress.discipline.handle_alarm(&mut port_call!(self, egress, PortNumber::LOCAL));
        if self.effects.any {
            self.apply_effects(link);
        }
        self.serve_or_schedule(link);
        self.run_errands();
    }

    /// The discipline of a port.
    pub fn discipline(&self, link: LinkId) -> &P {
        &self.egress_ports[link.index()].discipline
    }

    /// Calls `visit` with each packet that is queued at a port, in any order.
    pub fn each_queued(&self, link: LinkId, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.egress_ports[link.index()].discipline.each_queued(pool, visit);
    }

    /// The time of the port's pending service, [`Time::MAX`] if there is none.
    #[inline]
    pub fn serve_at(&self, link: LinkId) -> Time {
        self.egress_ports[link.index()].serve_at
    }

    #[cfg(test)]
    pub(super) fn discipline_mut(&mut self, link: LinkId) -> &mut P {
        &mut self.egress_ports[link.index()].discipline
    }

    #[cfg(test)]
    pub(super) fn shared_mut(&mut self, node: NodeId) -> &mut P::Shared {
        &mut self.shared[node.index()]
    }

    /// Whether a NIC takes a packet from its endpoint now.
    #[inline]
    pub fn wants_packet(&self, nic: LinkId) -> bool {
        self.link_layer.busy_until(nic) <= self.link_layer.now() && !self.egress_ports[nic.index()].blocked
    }

    /// The classes of which a NIC takes no packets from its endpoint now.
    #[inline]
    pub fn closed(&self, nic: LinkId) -> u8 {
        self.egress_ports[nic.index()].discipline.closed(self.link_layer.now())
    }

    /// Schedules service of a busy NIC at the time when it is free again, which then takes the next packet from its endpoint.
    #[inline]
    pub fn schedule_pull(&mut self, nic: LinkId) {
        let at = self.link_layer.busy_until(nic);
        if at > self.link_layer.now() {
            self.serve_by(nic, at);
        }
    }

    /// Whether a port's service is due at the current time. If not, the service event that has come is stale.
    #[inline]
    pub fn is_due(&self, link: LinkId) -> bool {
        self.serve_at(link) == self.link_layer.now()
    }

    /// What the link layer keeps in a port.
    #[inline]
    pub fn line(&self, link: LinkId) -> &K::Line {
        &self.egress_ports[link.index()].line
    }

    /// The link layer, and what it keeps in each port.
    #[inline]
    pub fn with_books(&mut self) -> (&mut K, AllBooks<'_, P, K::Line, K::Books>) {
        (&mut self.link_layer, AllBooks(&self.egress_ports))
    }

    /// Serves a port whose service is due, or schedules its service if the link is busy.
    #[inline]
    pub fn serve_now(&mut self, link: LinkId) {
        self.egress_ports[link.index()].serve_at = Time::MAX;
        self.serve_or_schedule(link);
    }

    /// Adds a packet to a port's queue. If the port is free, it sends a packet at once.
    #[inline(always)]
    pub fn enqueue(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        self.link_layer.arrived(link, &egress.books, id);
        let free = self.link_layer.busy_until(link) <= self.link_layer.now();
        let may_pass = free && (P::PASSES_WAITING || egress.queued_packets == 0);
        if may_pass && egress.discipline.pass(&mut port_call!(self, egress, ingress), id) {
            // The packet enters and leaves the queue at the same time, so the queue's length does not change.
            if self.effects.any {
                self.transmit_with_effects(link, id);
            } else {
                egress.transmit(link, id, &mut self.link_layer);
            }
        } else {
            self.enqueue_and_serve(link, id, ingress);
        }
    }

    /// The slow path of sending at once: the discipline had side effects.
    #[cold]
    #[inline(never)]
    fn transmit_with_effects(&mut self, link: LinkId, id: PacketId) {
        self.apply_effects(link);
        self.egress_ports[link.index()].transmit(link, id, &mut self.link_layer);
        self.run_errands();
    }

    fn enqueue_and_serve(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        let bytes = self.link_layer.pool()[id].size_bytes;
        egress.joins_queue(bytes, &mut self.link_layer);
        egress.discipline.enqueue(&mut port_call!(self, egress, ingress), id);
        if self.effects.any {
            return self.enqueue_with_effects(link);
        }
        self.serve_and_count(link);
    }

    /// The slow path of queueing: the discipline had side effects.
    #[cold]
    #[inline(never)]
    fn enqueue_with_effects(&mut self, link: LinkId) {
        self.apply_effects(link);
        self.serve_and_count(link);
        self.run_errands();
    }

    /// Serves the ports that disciplines woke, and gives them the packets that were handed over. It is called after the event that caused
    /// this is complete.
    #[cold]
    fn run_errands(&mut self) {
        while let Some(errand) = self.errands.pop() {
            match errand {
                Errand::Serve(link) => self.serve_or_schedule(link),
                Errand::Enqueue(link, id, ingress) => self.enqueue(link, id, ingress),
            }
        }
    }

    #[inline(always)]
    fn serve_or_schedule(&mut self, link: LinkId) {
        match self.egress_ports[link.index()].must_wait(link, &self.link_layer) {
            None => self.serve(link),
            Some(ready_at) => self.serve_by(link, ready_at),
        }
    }

    /// The same for a port at which a packet was queued. It counts what waits: if the port sends a packet now, that one does not.
    #[inline(always)]
    fn serve_and_count(&mut self, link: LinkId) {
        let egress = &mut self.egress_ports[link.index()]; // once, since each look-up checks the index
        match egress.must_wait(link, &self.link_layer) {
            None => {
                self.serve(link);
                self.link_layer.queued(&mut self.egress_ports[link.index()].books);
            }
            Some(ready_at) => {
                self.link_layer.queued(&mut egress.books);
                if egress.notes_service(ready_at) {
                    self.schedule_service(link, ready_at);
                }
            }
        }
    }

    /// Schedules service of the port at `at`, unless an earlier service is pending.
    #[inline(always)]
    fn serve_by(&mut self, link: LinkId, at: Time) {
        if self.egress_ports[link.index()].notes_service(at) {
            self.schedule_service(link, at);
        }
    }

    #[inline(never)] // one small function, which most calls enter last
    fn schedule_service(&mut self, link: LinkId, at: Time) {
        self.link_layer.schedule_service(link, at);
    }

    /// Takes the next packet from a free port and sends it over the link.
    #[inline(never)] // a call that only schedules service need not save its registers
    fn serve(&mut self, link: LinkId) {
        let egress = &mut self.egress_ports[link.index()];
        debug_assert!(self.link_layer.busy_until(link) <= self.link_layer.now());
        let choice = egress.discipline.dequeue(&mut port_call!(self, egress, PortNumber::LOCAL));
        if self.effects.any {
            self.serve_with_effects(link, choice);
        } else {
            egress.carry_out(link, choice, &mut self.link_layer);
        }
    }

    /// The slow path of serving: the discipline had side effects.
    #[cold]
    #[inline(never)]
    fn serve_with_effects(&mut self, link: LinkId, choice: Dequeue) {
        self.apply_effects(link);
        self.egress_ports[link.index()].carry_out(link, choice, &mut self.link_layer);
        self.run_errands();
    }

    /// Gives a link frame to the port that it is addressed to, and serves that port.
    pub fn link_frame(&mut self, link: LinkId, id: PacketId) {
        let egress = &mut self.egress_ports[link.index()];
        egress.discipline.handle_link_frame(&mut port_call!(self, egress, PortNumber::LOCAL), id);
        egress.blocked = false;
        if self.effects.any {
            self.apply_effects(link);
        }
        self.link_layer.pool().remove(id);
        self.serve_or_schedule(link);
        // A paused NIC did not take its endpoint's packets, so it must be served again.
        self.schedule_pull(link);
        self.run_errands();
    }

    /// Applies the side effects of a call on a discipline.
    #[cold]
    #[inline(never)]
    fn apply_effects(&mut self, link: LinkId) {
        let Ports { link_layer, egress_ports, effects, errands, .. } = self;
        let egress = &mut egress_ports[link.index()];
        for (id, payload, size_bytes) in effects.duplicated.drain(..) {
            egress.joins_queue(size_bytes, link_layer);
            link_layer.duplicated(id, payload);
        }
        for (id, payload, cut) in effects.trimmed.drain(..) {
            link_layer.queue_shrinks(&mut egress.books, 0, cut);
            link_layer.trimmed(&mut egress.books, id, payload);
        }
        link_layer.marked(&mut egress.books, std::mem::take(&mut effects.marked));
        errands.extend(effects.woken.drain(..).map(|port| Errand::Serve(link_layer.sibling(&egress.line, port))));
        for (id, onward) in effects.handed_over.drain(..).rev() {
            errands.push(egress.hand_over(link, id, onward, link_layer));
        }
        for (id, why) in effects.dropped.drain(..) {
            egress.leaves_queue(id, link_layer);
            link_layer.drop_packet(link, &mut egress.books, id, why);
        }
        effects.any = false;
    }

    /// Removes a packet that was lost on a link.
    pub fn drop_packet(&mut self, link: LinkId, id: PacketId, why: DropReason) {
        self.link_layer.drop_packet(link, &mut self.egress_ports[link.index()].books, id, why);
    }

    /// The accounts of a port.
    pub fn books_mut(&mut self, link: LinkId) -> &mut K::Books {
        &mut self.egress_ports[link.index()].books
    }

    /// The accounts of a port, and the number of packets queued there.
    pub fn account(&self, link: LinkId) -> (&K::Books, u32) {
        let egress = &self.egress_ports[link.index()];
        (&egress.books, egress.queued_packets)
    }
}
