//! The data plane: links, ports and routes, and the events that move packets over them. It knows no protocol.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Effects, Event, FlowId, LinkId, Network, NodeId, NodeKind, Packet,
    PacketId, Pool, PortCall, PortNumber, Rate, Switching, Time,
};

use crate::calendar::Calendar;
use crate::followers::Followers;
use crate::observer::Observer;
use crate::report::{CLASSES, FlowRecord, PortCounters};
use crate::routing::{Origin, Routes};
use crate::sources::Kind;

/// One direction of a link. Few bytes, so that the states of all links stay in the first-level cache: an event begins with one of
/// them, and a packet's next hop with another.
#[derive(Clone, Copy)]
struct LinkState {
    busy_until: Time,
    to: NodeId,
    to_port: PortNumber,
}

/// The port that feeds a link, and what a packet needs to get onto it. What every packet touches comes first.
#[repr(C, align(64))]
struct EgressPort<P> {
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

impl<P> EgressPort<P> {
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
    fn act<H, O: Observer<H>>(&mut self, link: LinkId, choice: Dequeue, link_layer: &mut LinkLayer<H, O>) {
        match choice {
            Dequeue::Packet(id) => {
                let packet = &link_layer.pool[id];
                if packet.dst != NodeId::LINK {
                    self.queue_changes(link_layer.now, -1, -i64::from(packet.size_bytes));
                }
                self.transmit(link, id, link_layer);
            }
            Dequeue::Idle => self.blocked = self.queued_packets > 0,
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => {
                debug_assert!(at > link_layer.now, "an event without delay");
                self.blocked = matches!(choice, Dequeue::ClosedUntil(_));
                self.serve_by(link, at, link_layer);
            }
        }
    }

    /// Puts a packet on the link.
    #[inline(always)]
    fn transmit<H, O: Observer<H>>(&mut self, link: LinkId, id: PacketId, link_layer: &mut LinkLayer<H, O>) {
        let now = link_layer.now;
        let packet = &link_layer.pool[id];
        let size_bytes = packet.size_bytes;
        let service = self.service(size_bytes);
        // A switch needs the whole of a packet for itself, and of one that it sends on faster than it comes.
        // Written so that it compiles to a selection: whether a link leads to a host or a switch, no branch predictor guesses.
        let link_state = &mut link_layer.link_states[link.index()];
        let for_the_end = (packet.dst == link_state.to) | (packet.dst == NodeId::LINK);
        let mut hold = service.min(if for_the_end { Duration::MAX } else { self.hold_max });
        if self.hold_by_egress && link_layer.routes.rate(&link_layer.network, link_state.to, packet.dst) > self.rate {
            hold = service;
        }
        link_state.busy_until = now + service;
        self.blocked = false;
        if self.serve_at == now {
            // Another event of this instant came first and did what the pending service would.
            self.serve_at = Time::MAX;
        }
        let due = now + hold + self.delay;
        let class = usize::from(packet.class).min(CLASSES - 1);
        link_layer.observer.packet_sent(now, link, packet);
        link_layer.calendar.schedule(due, Kind::Arrival(link).source(due), id.index());
        let sent = &mut self.counters.sent[class];
        sent.packets += 1;
        sent.bytes += u64::from(size_bytes);
        link_layer.packet_hops += 1;
        if self.queued_packets > 0 {
            self.serve_by(link, now + service, link_layer);
        }
    }

    /// Makes sure that the port is served at `at`, or earlier.
    #[inline]
    fn serve_by<H, O>(&mut self, link: LinkId, at: Time, link_layer: &mut LinkLayer<H, O>) {
        if at < self.serve_at {
            self.serve_at = at;
            link_layer.calendar.schedule(at, Kind::Service(link).source(at), 0);
        }
    }
}

/// Builds the call that a discipline gets, from the parts of a plane other than its own egress port.
macro_rules! lend {
    ($plane:ident, $egress:ident, $ingress:expr) => {
        PortCall {
            now: $plane.link_layer.now,
            pool: &mut $plane.link_layer.pool,
            shared: &mut $plane.shared[$egress.from.index()],
            number: $egress.from_port,
            ingress: $ingress,
            rate: $egress.rate,
            effects: &mut $plane.effects,
        }
    };
}

/// What all egress ports share: a port sends packets with it and touches no other port.
pub(crate) struct LinkLayer<H, O> {
    pub network: Network,
    pub pool: Pool<H>,
    pub observer: O,
    pub packet_hops: u64,
    pub calendar: Calendar,
    pub now: Time,
    link_states: Vec<LinkState>,
    routes: Routes,
}

/// Links, ports, routes and the packets on them.
pub(crate) struct Plane<H: Copy, P: Discipline<H>, O> {
    pub link_layer: LinkLayer<H, O>,
    pub records: Vec<FlowRecord>,
    pub data_packets: u64,
    /// Flows whose sources do not know yet that they are complete.
    pub unacknowledged: usize,
    /// A flow that its receiver reported complete a second time, which ends the run in an error.
    pub received_again: Option<FlowId>,
    pub followers: Followers,
    /// When each node's timer event is due, [`Time::MAX`] if none is pending. An event at any other time is stale.
    timers: Vec<Time>,
    egress_ports: Vec<EgressPort<P>>,
    uplinks: Vec<Uplink>,
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
        let egress_ports = network.links().iter().zip(ports).map(|(link, port)| egress(&network, link, port)).collect();
        let uplinks = network.node_ids().map(|node| uplink(&network, node)).collect();
        Plane {
            records: vec![FlowRecord::NEW; flows],
            data_packets: 0,
            unacknowledged: flows,
            received_again: None,
            followers: Followers::default(),
            timers: vec![Time::MAX; network.len()],
            egress_ports,
            uplinks,
            shared,
            effects: Effects::default(),
            woken: Vec::new(),
            link_layer: LinkLayer {
                link_states: network.links().iter().map(link_state).collect(),
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
        let link_state = &self.link_layer.link_states[link.index()];
        let (node, ingress) = (link_state.to, link_state.to_port);
        let packet = &self.link_layer.pool[id];
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
        let egress = self.link_layer.routes.pick(&self.link_layer.network, node, Origin::Link(link), flow, src, dst);
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
        self.link_layer.observer.packet_injected(self.link_layer.now, node, &packet);
        let link = match self.uplinks[node.index()] {
            Uplink::Nic(nic) => nic,
            Uplink::Routed => {
                let (flow, src, dst) = (packet.flow.0, packet.src, packet.dst);
                self.link_layer.routes.pick(&self.link_layer.network, node, Origin::Here(node), flow, src, dst)
            }
        };
        let id = self.link_layer.pool.insert(packet);
        self.enqueue(link, id, PortNumber::LOCAL);
    }

    /// The first port of a node: a host's NIC.
    #[inline]
    pub fn nic(&self, node: NodeId) -> Option<LinkId> {
        match self.uplinks[node.index()] {
            Uplink::Nic(nic) => Some(nic),
            Uplink::Routed => None,
        }
    }

    /// Whether a port would take a packet from its endpoint now.
    #[inline]
    pub fn wants_packet(&self, nic: LinkId) -> bool {
        self.link_layer.link_states[nic.index()].busy_until <= self.link_layer.now && !self.egress_ports[nic.index()].blocked
    }

    /// Makes sure that a port's endpoint is asked for a packet when the port is free again.
    #[inline]
    pub fn ask_later(&mut self, nic: LinkId) {
        let at = self.link_layer.link_states[nic.index()].busy_until;
        if at > self.link_layer.now {
            self.serve_by(nic, at);
        }
    }

    /// An arrived packet has been handled by its endpoint.
    #[inline]
    pub fn consume(&mut self, node: NodeId, id: PacketId) {
        let packet = &self.link_layer.pool[id];
        self.link_layer.observer.packet_arrived(self.link_layer.now, node, packet);
        if packet.payload_bytes > 0 {
            self.records[packet.flow.0 as usize].arrived_bytes += u64::from(packet.payload_bytes);
        }
        self.link_layer.pool.remove(id);
    }

    /// A port's service event. Returns the node that the port belongs to if that is a host, whose endpoint may have more to send.
    pub fn serve_event(&mut self, link: LinkId) -> Option<NodeId> {
        let egress = &mut self.egress_ports[link.index()];
        if egress.serve_at != self.link_layer.now {
            return None; // stale
        }
        egress.serve_at = Time::MAX;
        let node = egress.is_nic.then_some(egress.from);
        self.serve_if_free(link);
        node
    }

    /// A packet joins a port's queue, and leaves at once if the port is free.
    #[inline(always)]
    fn enqueue(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        let packet = &self.link_layer.pool[id];
        let queued_bytes = egress.queued_bytes + u64::from(packet.size_bytes);
        self.link_layer.observer.packet_queued(self.link_layer.now, link, packet, queued_bytes);
        let free = self.link_layer.link_states[link.index()].busy_until <= self.link_layer.now;
        if free && egress.queued_packets == 0 && egress.port.pass(&mut lend!(self, egress, ingress), id) {
            // It comes and goes at one instant, which leaves the queue's integrals alone.
            if self.effects.any {
                self.transmit_settled(link, id);
            } else {
                egress.transmit(link, id, &mut self.link_layer);
            }
        } else {
            self.enqueue_behind(link, id, ingress);
        }
    }

    /// Slow path of sending at once: the discipline had side effects.
    #[cold]
    #[inline(never)]
    fn transmit_settled(&mut self, link: LinkId, id: PacketId) {
        self.settle(link);
        self.egress_ports[link.index()].transmit(link, id, &mut self.link_layer);
        self.serve_woken();
    }

    fn enqueue_behind(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        egress.queue_changes(self.link_layer.now, 1, i64::from(self.link_layer.pool[id].size_bytes));
        egress.port.enqueue(&mut lend!(self, egress, ingress), id);
        if self.effects.any {
            self.settle(link);
        }
        let egress = &mut self.egress_ports[link.index()];
        egress.counters.peak_bytes = egress.counters.peak_bytes.max(egress.queued_bytes);
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
        let busy_until = self.link_layer.link_states[link.index()].busy_until;
        if busy_until <= self.link_layer.now {
            self.serve(link);
        } else {
            self.serve_by(link, busy_until);
        }
    }

    /// Makes sure that the port is served at `at`, or earlier.
    #[inline]
    fn serve_by(&mut self, link: LinkId, at: Time) {
        self.egress_ports[link.index()].serve_by(link, at, &mut self.link_layer);
    }

    /// Asks a free port for its next packet and puts it on the link.
    fn serve(&mut self, link: LinkId) {
        let egress = &mut self.egress_ports[link.index()];
        debug_assert!(self.link_layer.link_states[link.index()].busy_until <= self.link_layer.now);
        let choice = egress.port.dequeue(&mut lend!(self, egress, PortNumber::LOCAL));
        if self.effects.any {
            self.serve_settled(link, choice);
        } else {
            egress.act(link, choice, &mut self.link_layer);
        }
    }

    /// Slow path of serving: the discipline had side effects.
    #[cold]
    #[inline(never)]
    fn serve_settled(&mut self, link: LinkId, choice: Dequeue) {
        self.settle(link);
        self.egress_ports[link.index()].act(link, choice, &mut self.link_layer);
        self.serve_woken();
    }

    /// Hands a link frame to the port it came to, and serves that port anew.
    fn link_frame(&mut self, link: LinkId, id: PacketId) {
        let egress = &mut self.egress_ports[link.index()];
        egress.port.handle_link_frame(&mut lend!(self, egress, PortNumber::LOCAL), id);
        egress.blocked = false;
        if self.effects.any {
            self.settle(link);
        }
        self.link_layer.pool.remove(id);
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
        let egress = &mut self.egress_ports[link.index()];
        for (id, payload, size_bytes) in effects.duplicated.drain(..) {
            egress.queue_changes(self.link_layer.now, 1, i64::from(size_bytes));
            if payload > 0 {
                self.records[self.link_layer.pool[id].flow.0 as usize].duplicated_bytes += u64::from(payload);
            }
        }
        for (id, payload, cut) in effects.trimmed.drain(..) {
            egress.queue_changes(self.link_layer.now, 0, -i64::from(cut));
            egress.counters.trimmed_packets += 1;
            let record = &mut self.records[self.link_layer.pool[id].flow.0 as usize];
            record.dropped_bytes += u64::from(payload);
            record.dropped_packets += u32::from(payload > 0);
        }
        egress.counters.marked_packets += std::mem::take(&mut effects.marked);
        self.woken.extend(effects.woken.drain(..).map(|port| self.link_layer.network.ports(egress.from)[usize::from(port.0)]));
        for (id, why) in effects.dropped.drain(..) {
            let size_bytes = i64::from(self.link_layer.pool[id].size_bytes);
            self.egress_ports[link.index()].queue_changes(self.link_layer.now, -1, -size_bytes);
            self.give_up(link, id, why);
        }
        effects.any = false;
        self.effects = effects;
    }

    /// A packet is lost at a link or the port that feeds it.
    pub fn give_up(&mut self, link: LinkId, id: PacketId, why: DropReason) {
        let packet = &self.link_layer.pool[id];
        let counters = &mut self.egress_ports[link.index()].counters;
        counters.dropped_packets[why as usize] += 1;
        if packet.payload_bytes > 0 {
            counters.dropped_data_packets += 1;
            let record = &mut self.records[packet.flow.0 as usize];
            record.dropped_bytes += u64::from(packet.payload_bytes);
            record.dropped_packets += 1;
        }
        self.link_layer.observer.packet_dropped(self.link_layer.now, link, packet, why);
        self.link_layer.pool.remove(id);
    }

    /// Sees to it that a node's endpoint is woken. An event that is already pending earlier stays: when it comes, the endpoint is
    /// asked again.
    #[inline]
    pub fn set_timer(&mut self, node: NodeId, wanted: Time) {
        let pending = &mut self.timers[node.index()];
        if wanted < *pending {
            debug_assert!(wanted > self.link_layer.now, "a timer without delay at {node:?}");
            *pending = wanted;
            self.link_layer.calendar.schedule(wanted, Kind::Timer(node).source(wanted), 0);
        }
    }

    /// A node's timer event. Returns false if it is stale.
    #[inline]
    pub fn timer_event(&mut self, node: NodeId) -> bool {
        let pending = &mut self.timers[node.index()];
        let fresh = *pending == self.link_layer.now;
        if fresh {
            *pending = Time::MAX;
        }
        fresh
    }

    /// Enters what an endpoint reports into the flow's record.
    #[inline]
    pub fn record(&mut self, node: NodeId, event: &Event) {
        self.link_layer.observer.flow_event(self.link_layer.now, node, event);
        match *event {
            Event::Delivered { flow, bytes, .. } => self.records[flow.0 as usize].delivered_bytes += bytes.get(),
            Event::Received { flow } => {
                let record = &mut self.records[flow.0 as usize];
                if record.received != Time::MAX {
                    self.received_again = Some(flow);
                    return;
                }
                record.received = self.link_layer.now;
                if let Some(next) = self.followers.of(flow) {
                    let at = self.link_layer.now + next.think;
                    self.link_layer.calendar.schedule(at, Kind::Follow.source(at), self.followers.payload(next.flow));
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
                record.acknowledged = self.link_layer.now;
                self.unacknowledged -= 1;
            }
        }
    }

    /// Every port's counters, brought up to the present.
    pub fn counters(&mut self) -> Vec<PortCounters> {
        let now = self.link_layer.now;
        let close = |egress: &mut EgressPort<P>| {
            egress.queue_changes(now, 0, 0);
            egress.counters
        };
        self.egress_ports.iter_mut().map(close).collect()
    }
}

/// How a node's own packets leave it.
#[derive(Clone, Copy)]
enum Uplink {
    /// A host: over its only link.
    Nic(LinkId),
    /// A switch: along the routes.
    Routed,
}

fn uplink(network: &Network, node: NodeId) -> Uplink {
    if network.node(node).kind == NodeKind::Switch { Uplink::Routed } else { Uplink::Nic(network.ports(node)[0]) }
}

fn link_state(link: &flowloom_core::Link) -> LinkState {
    LinkState { busy_until: Time::ZERO, to: link.to, to_port: link.to_port }
}

fn egress<P>(network: &Network, link: &flowloom_core::Link, port: P) -> EgressPort<P> {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    let bps = link.rate.as_bps();
    let (hold_max, hold_by_egress) = hold(network, link);
    EgressPort {
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
