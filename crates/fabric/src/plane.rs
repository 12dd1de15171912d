//! The data plane: links, ports and routes, and the events that move packets over them. It knows no protocol.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Effects, Event, LinkId, Network, NodeId, NodeKind, Packet, PacketId,
    Pool, PortCall, PortNumber, Rate, Switching, Time,
};

use crate::calendar::Calendar;
use crate::followers::Followers;
use crate::observer::Observer;
use crate::report::{CLASSES, FlowRecord, PortCounters};
use crate::routing::{Origin, Routes};
use crate::sources::Kind;

/// One direction of a link. Few bytes, so that the wires of a whole network stay in the first-level cache: an event begins with one of
/// them, and a packet's next hop with another.
#[derive(Clone, Copy)]
struct Wire {
    busy_until: Time,
    to: NodeId,
    to_port: PortNumber,
}

/// The port that feeds a link, and what a packet needs to get onto it. What every packet touches comes first.
#[repr(C, align(64))]
struct Lane<P> {
    /// When the port wants to be served, [`Time::MAX`] if no event is pending for it. An event at any other time is stale.
    serve_at: Time,
    queued_packets: u32,
    delay: Duration,
    /// Picoseconds per byte, 0 if that is no integer.
    ps_per_byte: u64,
    /// A packet is held at the link's end until its last bit has arrived, or for this long if that is less: the time of a header
    /// where the next node cuts through.
    hold_max: Duration,
    from: NodeId,
    /// Only packets that go on over a link that is not faster are cut through.
    hold_by_egress: bool,
    /// It had something queued when last asked and would not send it: a paused port.
    blocked: bool,
    port: P,
    /// It belongs to a host.
    is_nic: bool,
    from_port: PortNumber,
    rate: Rate,
    queued_bytes: u64,
    /// When the queue's length changed last.
    since: Time,
    counters: PortCounters,
}

impl<P> Lane<P> {
    #[inline]
    fn service(&self, size_bytes: u32) -> Duration {
        if self.ps_per_byte > 0 {
            Duration::from_ps(self.ps_per_byte * u64::from(size_bytes))
        } else {
            self.rate.transmit_time(Bytes::new(u64::from(size_bytes)))
        }
    }

    /// The queue grows or shrinks: keeps its integrals over time.
    #[inline]
    fn queue_changes(&mut self, now: Time, packets: i32, bytes: i64) {
        if self.queued_packets > 0 {
            let span = (now - self.since).as_ps();
            self.counters.byte_time += u128::from(self.queued_bytes) * u128::from(span);
            self.counters.packet_time += u128::from(self.queued_packets) * u128::from(span);
        }
        self.since = now;
        self.queued_bytes = self.queued_bytes.wrapping_add_signed(bytes);
        self.queued_packets = self.queued_packets.wrapping_add_signed(packets);
    }

    /// Does what a discipline chose.
    #[inline]
    fn act<H, O: Observer<H>>(&mut self, link: LinkId, choice: Dequeue, medium: &mut Medium<H, O>) {
        match choice {
            Dequeue::Packet(id) => {
                let packet = &medium.pool[id];
                if packet.dst != NodeId::LINK {
                    self.queue_changes(medium.now, -1, -i64::from(packet.size_bytes));
                }
                self.transmit(link, id, medium);
            }
            Dequeue::Idle => self.blocked = self.queued_packets > 0,
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => {
                debug_assert!(at > medium.now, "an event without delay");
                self.blocked = matches!(choice, Dequeue::ClosedUntil(_));
                self.serve_by(link, at, medium);
            }
        }
    }

    /// Puts a packet on the wire.
    #[inline(always)]
    fn transmit<H, O: Observer<H>>(&mut self, link: LinkId, id: PacketId, medium: &mut Medium<H, O>) {
        let now = medium.now;
        let packet = &medium.pool[id];
        let size_bytes = packet.size_bytes;
        let service = self.service(size_bytes);
        // A switch needs the whole of a packet for itself, and of one that it sends on faster than it comes.
        // Written so that it compiles to a selection: whether a link leads to a host or a switch, no branch predictor guesses.
        let wire = &mut medium.wires[link.index()];
        let for_the_end = (packet.dst == wire.to) | (packet.dst == NodeId::LINK);
        let mut hold = service.min(if for_the_end { Duration::MAX } else { self.hold_max });
        if self.hold_by_egress && medium.routes.rate(&medium.network, wire.to, packet.dst) > self.rate {
            hold = service;
        }
        wire.busy_until = now + service;
        self.blocked = false;
        if self.serve_at == now {
            // Another event of this instant came first and did what the pending service would.
            self.serve_at = Time::MAX;
        }
        let due = now + hold + self.delay;
        let class = usize::from(packet.class).min(CLASSES - 1);
        medium.observer.packet_sent(now, link, packet);
        medium.calendar.schedule(due, Kind::Arrival(link).source(due), id.index());
        let sent = &mut self.counters.sent[class];
        sent.packets += 1;
        sent.bytes += u64::from(size_bytes);
        medium.packet_hops += 1;
        if self.queued_packets > 0 {
            self.serve_by(link, now + service, medium);
        }
    }

    /// Makes sure that the port is served at `at`, or earlier.
    #[inline]
    fn serve_by<H, O>(&mut self, link: LinkId, at: Time, medium: &mut Medium<H, O>) {
        if at < self.serve_at {
            self.serve_at = at;
            medium.calendar.schedule(at, Kind::Service(link).source(at), 0);
        }
    }
}

/// What a discipline is lent, from the parts of a plane that are not its lane.
macro_rules! lend {
    ($plane:ident, $lane:ident, $ingress:expr) => {
        PortCall {
            now: $plane.medium.now,
            pool: &mut $plane.medium.pool,
            shared: &mut $plane.shared[$lane.from.index()],
            number: $lane.from_port,
            ingress: $ingress,
            rate: $lane.rate,
            effects: &mut $plane.effects,
        }
    };
}

/// What all lanes have in common: a lane sends packets with it and touches no other lane.
pub(crate) struct Medium<H, O> {
    pub network: Network,
    pub pool: Pool<H>,
    pub observer: O,
    pub packet_hops: u64,
    pub calendar: Calendar,
    pub now: Time,
    wires: Vec<Wire>,
    routes: Routes,
}

/// Links, ports, routes and the packets on them.
pub(crate) struct Plane<H: Copy, P: Discipline<H>, O> {
    pub medium: Medium<H, O>,
    pub records: Vec<FlowRecord>,
    pub data_packets: u64,
    /// Flows whose sources do not know yet that they are complete.
    pub unacknowledged: usize,
    pub followers: Followers,
    /// When each node's timer event is due, [`Time::MAX`] if none is pending. An event at any other time is stale.
    timers: Vec<Time>,
    lanes: Vec<Lane<P>>,
    homes: Vec<Home>,
    shared: Vec<P::Shared>,
    effects: Effects,
    /// Ports of the node being served that were woken by a sibling.
    woken: Vec<LinkId>,
}

impl<H: Copy, P: Discipline<H>, O: Observer<H>> Plane<H, P, O> {
    pub fn new(
        network: Network,
        routes: Routes,
        ports: Vec<P>,
        shared: Vec<P::Shared>,
        flows: usize,
        calendar: Calendar,
        observer: O,
    ) -> Self {
        let lanes = network.links().iter().zip(ports).map(|(link, port)| lane(&network, link, port)).collect();
        let homes = network.node_ids().map(|node| home(&network, node)).collect();
        Plane {
            records: vec![FlowRecord::NEW; flows],
            data_packets: 0,
            unacknowledged: flows,
            followers: Followers::default(),
            timers: vec![Time::MAX; network.len()],
            lanes,
            homes,
            shared,
            effects: Effects::default(),
            woken: Vec::new(),
            medium: Medium {
                wires: network.links().iter().map(wire).collect(),
                network,
                pool: Pool::default(),
                observer,
                packet_hops: 0,
                calendar,
                now: Time::ZERO,
                routes,
            },
        }
    }

    /// A packet has arrived at a link's end. Returns it if it is for the node there, and takes care of it otherwise.
    #[inline(always)]
    pub fn arrive(&mut self, link: LinkId, id: PacketId) -> Option<(NodeId, PacketId)> {
        let wire = &self.medium.wires[link.index()];
        let (node, ingress) = (wire.to, wire.to_port);
        let packet = &self.medium.pool[id];
        if packet.dst == node {
            if packet.corrupt {
                self.give_up(link, id, DropReason::Corrupted);
                return None;
            }
            return Some((node, id));
        }
        if packet.dst == NodeId::LINK {
            self.link_frame(link.reverse(), id);
            return None;
        }
        let (flow, src, dst) = (packet.flow.0, packet.src, packet.dst);
        let egress = self.medium.routes.pick(&self.medium.network, node, Origin::Link(link), flow, src, dst);
        self.enqueue(egress, id, ingress);
        None
    }

    /// A node's endpoint sends a packet: over its only link if it is a host, along the routes if it is a switch.
    pub fn inject(&mut self, node: NodeId, packet: Packet<H>) {
        if packet.payload_bytes > 0 {
            self.data_packets += 1;
            let record = &mut self.records[packet.flow.0 as usize];
            record.sent_bytes += u64::from(packet.payload_bytes);
            record.retransmissions += u32::from(packet.retransmission);
        }
        self.medium.observer.packet_injected(self.medium.now, node, &packet);
        let link = match self.homes[node.index()] {
            Home::Edge(nic) => nic,
            Home::Switch => {
                let (flow, src, dst) = (packet.flow.0, packet.src, packet.dst);
                self.medium.routes.pick(&self.medium.network, node, Origin::Here(node), flow, src, dst)
            }
        };
        let id = self.medium.pool.insert(packet);
        self.enqueue(link, id, PortNumber::LOCAL);
    }

    /// The first port of a node: a host's NIC.
    #[inline]
    pub fn nic(&self, node: NodeId) -> Option<LinkId> {
        match self.homes[node.index()] {
            Home::Edge(nic) => Some(nic),
            Home::Switch => None,
        }
    }

    /// Whether a port would take a packet from its endpoint now.
    #[inline]
    pub fn wants_packet(&self, nic: LinkId) -> bool {
        self.medium.wires[nic.index()].busy_until <= self.medium.now && !self.lanes[nic.index()].blocked
    }

    /// Makes sure that a port's endpoint is asked for a packet when the port is free again.
    #[inline]
    pub fn ask_later(&mut self, nic: LinkId) {
        let at = self.medium.wires[nic.index()].busy_until;
        if at > self.medium.now {
            self.serve_by(nic, at);
        }
    }

    /// An arrived packet has been handled by its endpoint.
    #[inline]
    pub fn consume(&mut self, node: NodeId, id: PacketId) {
        let packet = &self.medium.pool[id];
        self.medium.observer.packet_arrived(self.medium.now, node, packet);
        if packet.payload_bytes > 0 {
            self.records[packet.flow.0 as usize].arrived_bytes += u64::from(packet.payload_bytes);
        }
        self.medium.pool.remove(id);
    }

    /// A port's service event. Returns the node that the port belongs to if that is a host, whose endpoint may have more to send.
    pub fn serve_event(&mut self, link: LinkId) -> Option<NodeId> {
        let lane = &mut self.lanes[link.index()];
        if lane.serve_at != self.medium.now {
            return None; // stale
        }
        lane.serve_at = Time::MAX;
        let node = lane.is_nic.then_some(lane.from);
        self.serve_if_free(link);
        node
    }

    /// A packet joins a port's queue, and leaves at once if the port is free.
    #[inline(always)]
    fn enqueue(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let lane = &mut self.lanes[link.index()];
        let packet = &self.medium.pool[id];
        let queued_bytes = lane.queued_bytes + u64::from(packet.size_bytes);
        self.medium.observer.packet_queued(self.medium.now, link, packet, queued_bytes);
        let free = self.medium.wires[link.index()].busy_until <= self.medium.now;
        if free && lane.queued_packets == 0 && lane.port.pass(&mut lend!(self, lane, ingress), id) {
            // It comes and goes at one instant, which leaves the queue's integrals alone.
            if self.effects.any {
                self.transmit_settled(link, id);
            } else {
                lane.transmit(link, id, &mut self.medium);
            }
        } else {
            self.enqueue_behind(link, id, ingress);
        }
    }

    /// The rest of passing where a discipline did more than let the packet through.
    #[cold]
    #[inline(never)]
    fn transmit_settled(&mut self, link: LinkId, id: PacketId) {
        self.settle(link);
        self.lanes[link.index()].transmit(link, id, &mut self.medium);
        self.serve_woken();
    }

    fn enqueue_behind(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let lane = &mut self.lanes[link.index()];
        lane.queue_changes(self.medium.now, 1, i64::from(self.medium.pool[id].size_bytes));
        lane.port.enqueue(&mut lend!(self, lane, ingress), id);
        if self.effects.any {
            self.settle(link);
        }
        let lane = &mut self.lanes[link.index()];
        lane.counters.peak_bytes = lane.counters.peak_bytes.max(lane.queued_bytes);
        self.serve_if_free(link);
        if !self.woken.is_empty() {
            self.serve_woken();
        }
    }

    /// Serves the ports that disciplines woke, after what woke them is done.
    #[cold]
    fn serve_woken(&mut self) {
        while let Some(sibling) = self.woken.pop() {
            self.serve_if_free(sibling);
        }
    }

    #[inline]
    fn serve_if_free(&mut self, link: LinkId) {
        let busy_until = self.medium.wires[link.index()].busy_until;
        if busy_until <= self.medium.now {
            self.serve(link);
        } else {
            self.serve_by(link, busy_until);
        }
    }

    /// Makes sure that the port is served at `at`, or earlier.
    #[inline]
    fn serve_by(&mut self, link: LinkId, at: Time) {
        self.lanes[link.index()].serve_by(link, at, &mut self.medium);
    }

    /// Asks a free port for its next packet and puts it on the wire.
    fn serve(&mut self, link: LinkId) {
        let lane = &mut self.lanes[link.index()];
        debug_assert!(self.medium.wires[link.index()].busy_until <= self.medium.now);
        let choice = lane.port.dequeue(&mut lend!(self, lane, PortNumber::LOCAL));
        if self.effects.any {
            self.serve_settled(link, choice);
        } else {
            lane.act(link, choice, &mut self.medium);
        }
    }

    /// The rest of serving where a discipline did more than choose.
    #[cold]
    #[inline(never)]
    fn serve_settled(&mut self, link: LinkId, choice: Dequeue) {
        self.settle(link);
        self.lanes[link.index()].act(link, choice, &mut self.medium);
        self.serve_woken();
    }

    /// Hands a link frame to the port it came to, and serves that port anew.
    fn link_frame(&mut self, link: LinkId, id: PacketId) {
        let lane = &mut self.lanes[link.index()];
        lane.port.handle_link_frame(&mut lend!(self, lane, PortNumber::LOCAL), id);
        lane.blocked = false;
        if self.effects.any {
            self.settle(link);
        }
        self.medium.pool.remove(id);
        self.serve_if_free(link);
        // A NIC that was stopped refused its endpoint's packets.
        self.ask_later(link);
        self.serve_woken();
    }

    /// Accounts for what a discipline did besides returning.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, link: LinkId) {
        let mut effects = std::mem::take(&mut self.effects);
        let lane = &mut self.lanes[link.index()];
        for (id, payload, size_bytes) in effects.duplicated.drain(..) {
            lane.queue_changes(self.medium.now, 1, i64::from(size_bytes));
            if payload > 0 {
                self.records[self.medium.pool[id].flow.0 as usize].duplicated_bytes += u64::from(payload);
            }
        }
        for (id, payload, cut) in effects.trimmed.drain(..) {
            lane.queue_changes(self.medium.now, 0, -i64::from(cut));
            lane.counters.trimmed_packets += 1;
            let record = &mut self.records[self.medium.pool[id].flow.0 as usize];
            record.dropped_bytes += u64::from(payload);
            record.dropped_packets += u32::from(payload > 0);
        }
        lane.counters.marked_packets += std::mem::take(&mut effects.marked);
        self.woken.extend(effects.woken.drain(..).map(|port| self.medium.network.ports(lane.from)[usize::from(port.0)]));
        for (id, why) in effects.dropped.drain(..) {
            let size_bytes = i64::from(self.medium.pool[id].size_bytes);
            self.lanes[link.index()].queue_changes(self.medium.now, -1, -size_bytes);
            self.give_up(link, id, why);
        }
        effects.any = false;
        self.effects = effects;
    }

    /// A packet is lost at a link or the port that feeds it.
    pub fn give_up(&mut self, link: LinkId, id: PacketId, why: DropReason) {
        let packet = &self.medium.pool[id];
        let counters = &mut self.lanes[link.index()].counters;
        counters.dropped_packets[why as usize] += 1;
        if packet.payload_bytes > 0 {
            counters.dropped_data_packets += 1;
            let record = &mut self.records[packet.flow.0 as usize];
            record.dropped_bytes += u64::from(packet.payload_bytes);
            record.dropped_packets += 1;
        }
        self.medium.observer.packet_dropped(self.medium.now, link, packet, why);
        self.medium.pool.remove(id);
    }

    /// Sees to it that a node's endpoint is woken. An event that is already pending earlier stays: when it comes, the endpoint is
    /// asked again.
    #[inline]
    pub fn set_timer(&mut self, node: NodeId, wanted: Time) {
        let pending = &mut self.timers[node.index()];
        if wanted < *pending {
            debug_assert!(wanted > self.medium.now, "a timer without delay at {node:?}");
            *pending = wanted;
            self.medium.calendar.schedule(wanted, Kind::Timer(node).source(wanted), 0);
        }
    }

    /// A node's timer event. Returns false if it is stale.
    #[inline]
    pub fn timer_event(&mut self, node: NodeId) -> bool {
        let pending = &mut self.timers[node.index()];
        let fresh = *pending == self.medium.now;
        if fresh {
            *pending = Time::MAX;
        }
        fresh
    }

    /// Enters what an endpoint reports into the flow's record.
    #[inline]
    pub fn record(&mut self, node: NodeId, event: &Event) {
        self.medium.observer.flow_event(self.medium.now, node, event);
        match *event {
            Event::Delivered { flow, bytes, .. } => self.records[flow.0 as usize].delivered_bytes += bytes.get(),
            Event::Received { flow } => {
                let record = &mut self.records[flow.0 as usize];
                assert_eq!(record.received, Time::MAX, "{flow:?} is received once");
                record.received = self.medium.now;
                if let Some(next) = self.followers.of(flow) {
                    let at = self.medium.now + next.think;
                    self.medium.calendar.schedule(at, Kind::Follow.source(at), self.followers.topic(next.flow));
                }
            }
            Event::TimedOut { flow, in_a_row } => {
                let record = &mut self.records[flow.0 as usize];
                record.timeouts += 1;
                record.second_timeouts += u32::from(in_a_row == 2);
            }
            Event::Acknowledged { flow } => {
                let record = &mut self.records[flow.0 as usize];
                assert_eq!(record.acknowledged, Time::MAX, "{flow:?} is acknowledged once");
                record.acknowledged = self.medium.now;
                self.unacknowledged -= 1;
            }
        }
    }

    /// Every port's counters, brought up to the present.
    pub fn counters(&mut self) -> Vec<PortCounters> {
        let now = self.medium.now;
        let close = |lane: &mut Lane<P>| {
            lane.queue_changes(now, 0, 0);
            lane.counters
        };
        self.lanes.iter_mut().map(close).collect()
    }
}

/// How a node's own packets leave it.
#[derive(Clone, Copy)]
enum Home {
    /// A host: over its only link.
    Edge(LinkId),
    /// A switch: along the routes.
    Switch,
}

fn home(network: &Network, node: NodeId) -> Home {
    if network.node(node).kind == NodeKind::Switch { Home::Switch } else { Home::Edge(network.ports(node)[0]) }
}

fn wire(link: &flowloom_core::Link) -> Wire {
    Wire { busy_until: Time::ZERO, to: link.to, to_port: link.to_port }
}

fn lane<P>(network: &Network, link: &flowloom_core::Link, port: P) -> Lane<P> {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    let bps = link.rate.as_bps();
    let (hold_max, hold_by_egress) = hold(network, link);
    Lane {
        serve_at: Time::MAX,
        queued_bytes: 0,
        queued_packets: 0,
        since: Time::ZERO,
        delay: link.delay,
        ps_per_byte: if PS_BITS.is_multiple_of(bps) { PS_BITS / bps } else { 0 },
        rate: link.rate,
        hold_max,
        hold_by_egress,
        from: link.from,
        from_port: link.from_port,
        blocked: false,
        port,
        is_nic: network.node(link.from).kind != NodeKind::Switch,
        counters: PortCounters::default(),
    }
}

/// How long a link's end holds packets at most, and whether that depends on where they go.
fn hold(network: &Network, link: &flowloom_core::Link) -> (Duration, bool) {
    let whole = (Duration::MAX, false);
    let Switching::CutThrough { header } = network.switching() else { return whole };
    if network.node(link.to).kind != NodeKind::Switch {
        return whole;
    }
    let faster = |out: &LinkId| network.link(*out).to != link.from && network.link(*out).rate > link.rate;
    (link.rate.transmit_time(header), network.ports(link.to).iter().any(faster))
}
