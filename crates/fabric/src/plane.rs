//! The data plane: links, ports and routes, and the events that move packets. It knows no protocol.

use std::sync::Arc;

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

/// The state of one direction of a link that every event needs: one for the link it belongs to, and another for the packet's next hop. It
/// is small, so that the states of all links stay in the first-level cache.
#[derive(Clone, Copy)]
struct LinkState {
    busy_until: Time,
    to: NodeId,
    to_port: PortNumber,
}

/// The egress port of a link, with what it takes to send a packet. The fields that every packet needs come first.
#[repr(C, align(64))]
struct EgressPort<P> {
    /// The time of the port's pending service event, [`Time::MAX`] if there is none. A service event at any other time is stale.
    serve_at: Time,
    queued_packets: u32,
    delay: Duration,
    /// Picoseconds per byte, 0 if it is not an integer.
    ps_per_byte: u64,
    /// The longest time from the arrival of a packet's first bit until a switch at the link's end can forward the packet: the transmission
    /// time of a header if the switch cuts through, else [`Duration::MAX`]. The switch never waits after the last bit has arrived.
    hold_max: Duration,
    from: NodeId,
    /// Whether the switch at the link's end has faster egress links. It cuts a packet through only to a link that is not faster.
    hold_by_egress: bool,
    /// The port had queued packets when it was last served, and sent none: a paused port.
    blocked: bool,
    port: P,
    /// Whether the port belongs to a host.
    is_nic: bool,
    from_port: PortNumber,
    rate: Rate,
    queued_bytes: u64,
    /// When the queue's length last changed.
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

    /// Changes the queue's length and updates its integrals over time.
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

    /// Carries out a discipline's decision.
    #[inline]
    fn carry_out<H, O: Observer<H>>(&mut self, link: LinkId, choice: Dequeue, link_layer: &mut LinkLayer<H, O>) {
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
                debug_assert!(at > link_layer.now, "an event with zero delay");
                self.blocked = matches!(choice, Dequeue::ClosedUntil(_));
                self.serve_by(link, at, link_layer);
            }
        }
    }

    /// Sends a packet over the link.
    #[inline(always)]
    fn transmit<H, O: Observer<H>>(&mut self, link: LinkId, id: PacketId, link_layer: &mut LinkLayer<H, O>) {
        let now = link_layer.now;
        let packet = &link_layer.pool[id];
        let size_bytes = packet.size_bytes;
        let service = self.service(size_bytes);
        // The next node needs the whole packet if it is the destination, or if the packet's egress link there is faster than this link.
        // This is written so that it compiles to a conditional move: whether a link leads to a host or a switch is hard to predict.
        let link_state = &mut link_layer.link_states[link.index()];
        let ends_here = (packet.dst == link_state.to) | (packet.dst == NodeId::LINK);
        let mut hold = service.min(if ends_here { Duration::MAX } else { self.hold_max });
        if self.hold_by_egress && !ends_here && link_layer.routes.rate(link_state.to, packet.dst) > self.rate {
            hold = service;
        }
        link_state.busy_until = now + service;
        self.blocked = false;
        if self.serve_at == now {
            // Another event at this time has already served the port, so the pending service event becomes stale.
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

    /// Schedules service of the port at `at`, unless an earlier service is pending.
    #[inline]
    fn serve_by<H, O>(&mut self, link: LinkId, at: Time, link_layer: &mut LinkLayer<H, O>) {
        if at < self.serve_at {
            self.serve_at = at;
            link_layer.calendar.schedule(at, Kind::Service(link).source(at), 0);
        }
    }
}

/// Builds the [`PortCall`] for an egress port. A macro, because it borrows the fields of a plane separately while `egress` is borrowed too.
macro_rules! port_call {
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

/// The state that an egress port needs to send a packet. It excludes the other egress ports.
pub(crate) struct LinkLayer<H, O> {
    pub network: Arc<Network>,
    pub pool: Pool<H>,
    pub observer: O,
    pub packet_hops: u64,
    pub calendar: Calendar,
    pub now: Time,
    link_states: Vec<LinkState>,
    routes: Routes,
}

/// Links, ports, routes, and all packets in the network.
pub(crate) struct Plane<H: Copy, P: Discipline<H>, O> {
    pub link_layer: LinkLayer<H, O>,
    pub records: Vec<FlowRecord>,
    pub data_packets: u64,
    /// The number of flows that are not acknowledged.
    pub unacknowledged: usize,
    /// A flow that its receiver reported as complete twice; the run then ends with an error.
    pub received_again: Option<FlowId>,
    pub followers: Followers,
    /// The time of each node's pending timer event, [`Time::MAX`] if there is none. A timer event at any other time is stale.
    timers: Vec<Time>,
    egress_ports: Vec<EgressPort<P>>,
    uplinks: Vec<Uplink>,
    shared: Vec<P::Shared>,
    effects: Effects,
    /// Ports that were woken by another port of their node and are not yet served.
    woken: Vec<LinkId>,
}

impl<H: Copy, P: Discipline<H>, O: Observer<H>> Plane<H, P, O> {
    pub fn new(
        network: Arc<Network>,
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

    /// Makes room for one flow more.
    pub fn add_flow(&mut self) {
        self.records.push(FlowRecord::NEW);
        self.unacknowledged += 1;
    }

    /// Handles a packet's arrival at the end of a link. Returns the packet if this node is its destination.
    #[inline(always)]
    pub fn arrive(&mut self, link: LinkId, id: PacketId) -> Option<(NodeId, PacketId)> {
        let link_state = &self.link_layer.link_states[link.index()];
        let (node, ingress) = (link_state.to, link_state.to_port);
        let packet = &self.link_layer.pool[id];
        if packet.dst == node {
            if packet.corrupt {
                self.drop_packet(link, id, DropReason::Corrupted);
                return None;
            }
            return Some((node, id));
        }
        if packet.dst == NodeId::LINK {
            self.link_frame(link.reverse(), id);
            return None;
        }
        let (flow, src, dst) = (packet.flow, packet.src, packet.dst);
        let egress = self.link_layer.routes.pick(node, Origin::Link(link), flow, src, dst);
        self.enqueue(egress, id, ingress);
        None
    }

    /// Sends a packet from a node's endpoint: over the only link of a host, along the routes from a switch.
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
                let (flow, src, dst) = (packet.flow, packet.src, packet.dst);
                self.link_layer.routes.pick(node, Origin::Local(node), flow, src, dst)
            }
        };
        let id = self.link_layer.pool.insert(packet);
        self.enqueue(link, id, PortNumber::LOCAL);
    }

    /// The NIC of a host; `None` for a switch.
    #[inline]
    pub fn nic(&self, node: NodeId) -> Option<LinkId> {
        match self.uplinks[node.index()] {
            Uplink::Nic(nic) => Some(nic),
            Uplink::Routed => None,
        }
    }

    /// Whether a NIC takes a packet from its endpoint now.
    #[inline]
    pub fn wants_packet(&self, nic: LinkId) -> bool {
        self.link_layer.link_states[nic.index()].busy_until <= self.link_layer.now && !self.egress_ports[nic.index()].blocked
    }

    /// Schedules service of a busy NIC at the time when it is free again, which then takes the next packet from its endpoint.
    #[inline]
    pub fn schedule_pull(&mut self, nic: LinkId) {
        let at = self.link_layer.link_states[nic.index()].busy_until;
        if at > self.link_layer.now {
            self.serve_by(nic, at);
        }
    }

    /// Removes a packet that its destination's endpoint has handled.
    #[inline]
    pub fn consume(&mut self, node: NodeId, id: PacketId) {
        let packet = &self.link_layer.pool[id];
        self.link_layer.observer.packet_arrived(self.link_layer.now, node, packet);
        if packet.payload_bytes > 0 {
            self.records[packet.flow.0 as usize].arrived_bytes += u64::from(packet.payload_bytes);
        }
        self.link_layer.pool.remove(id);
    }

    /// Handles a port's service event. Returns the port's node if it is a host, because its endpoint may have more to send.
    pub fn serve_event(&mut self, link: LinkId) -> Option<NodeId> {
        let egress = &mut self.egress_ports[link.index()];
        if egress.serve_at != self.link_layer.now {
            return None; // stale
        }
        egress.serve_at = Time::MAX;
        let node = egress.is_nic.then_some(egress.from);
        self.serve_or_schedule(link);
        node
    }

    /// Adds a packet to a port's queue. If the port is free, it sends a packet at once.
    #[inline(always)]
    fn enqueue(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        let packet = &self.link_layer.pool[id];
        let queued_bytes = egress.queued_bytes + u64::from(packet.size_bytes);
        self.link_layer.observer.packet_queued(self.link_layer.now, link, packet, queued_bytes);
        let free = self.link_layer.link_states[link.index()].busy_until <= self.link_layer.now;
        if free && egress.queued_packets == 0 && egress.port.pass(&mut port_call!(self, egress, ingress), id) {
            // The packet enters and leaves the queue at the same time, so the queue's integrals do not change.
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
        self.serve_woken();
    }

    fn enqueue_and_serve(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let egress = &mut self.egress_ports[link.index()];
        egress.queue_changes(self.link_layer.now, 1, i64::from(self.link_layer.pool[id].size_bytes));
        egress.port.enqueue(&mut port_call!(self, egress, ingress), id);
        if self.effects.any {
            self.apply_effects(link);
        }
        let egress = &mut self.egress_ports[link.index()];
        egress.counters.peak_bytes = egress.counters.peak_bytes.max(egress.queued_bytes);
        self.serve_or_schedule(link);
        if !self.woken.is_empty() {
            self.serve_woken();
        }
    }

    /// Serves the ports that disciplines woke. It is called after the event that woke them is complete.
    #[cold]
    fn serve_woken(&mut self) {
        while let Some(sibling) = self.woken.pop() {
            self.serve_or_schedule(sibling);
        }
    }

    #[inline]
    fn serve_or_schedule(&mut self, link: LinkId) {
        let busy_until = self.link_layer.link_states[link.index()].busy_until;
        if busy_until <= self.link_layer.now {
            self.serve(link);
        } else {
            self.serve_by(link, busy_until);
        }
    }

    /// Schedules service of the port at `at`, unless an earlier service is pending.
    #[inline]
    fn serve_by(&mut self, link: LinkId, at: Time) {
        self.egress_ports[link.index()].serve_by(link, at, &mut self.link_layer);
    }

    /// Takes the next packet from a free port and sends it over the link.
    fn serve(&mut self, link: LinkId) {
        let egress = &mut self.egress_ports[link.index()];
        debug_assert!(self.link_layer.link_states[link.index()].busy_until <= self.link_layer.now);
        let choice = egress.port.dequeue(&mut port_call!(self, egress, PortNumber::LOCAL));
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
        self.serve_woken();
    }

    /// Gives a link frame to the port that it is addressed to, and serves that port.
    fn link_frame(&mut self, link: LinkId, id: PacketId) {
        let egress = &mut self.egress_ports[link.index()];
        egress.port.handle_link_frame(&mut port_call!(self, egress, PortNumber::LOCAL), id);
        egress.blocked = false;
        if self.effects.any {
            self.apply_effects(link);
        }
        self.link_layer.pool.remove(id);
        self.serve_or_schedule(link);
        // A paused NIC did not take its endpoint's packets, so it must be served again.
        self.schedule_pull(link);
        self.serve_woken();
    }

    /// Applies the side effects of a call on a discipline.
    #[cold]
    #[inline(never)]
    fn apply_effects(&mut self, link: LinkId) {
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
            self.drop_packet(link, id, why);
        }
        effects.any = false;
        self.effects = effects;
    }

    /// Counts and removes a packet that was lost at a link or its egress port.
    pub fn drop_packet(&mut self, link: LinkId, id: PacketId, why: DropReason) {
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

    /// Schedules a node's timer event at `wanted`, unless an earlier one is pending. In that case the endpoint is polled again at the
    /// earlier time.
    #[inline]
    pub fn set_timer(&mut self, node: NodeId, wanted: Time) {
        let pending = &mut self.timers[node.index()];
        if wanted < *pending {
            debug_assert!(wanted > self.link_layer.now, "a timer with zero delay at {node:?}");
            *pending = wanted;
            self.link_layer.calendar.schedule(wanted, Kind::Timer(node).source(wanted), 0);
        }
    }

    /// Handles a node's timer event. Returns false if it is stale.
    #[inline]
    pub fn timer_event(&mut self, node: NodeId) -> bool {
        let pending = &mut self.timers[node.index()];
        let fresh = *pending == self.link_layer.now;
        if fresh {
            *pending = Time::MAX;
        }
        fresh
    }

    /// Whether a service event at this time has no effect.
    pub fn is_stale_service(&self, link: LinkId, at: Time) -> bool {
        self.egress_ports[link.index()].serve_at != at
    }

    /// Whether a timer event at this time has no effect.
    pub fn is_stale_timer(&self, node: NodeId, at: Time) -> bool {
        self.timers[node.index()] != at
    }

    /// Notes that the node's timer event at this time is gone.
    pub fn forget_timer(&mut self, node: NodeId, at: Time) {
        let pending = &mut self.timers[node.index()];
        if *pending == at {
            *pending = Time::MAX;
        }
    }

    /// Adds an endpoint's event to the flow's record.
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
                if let Some(next) = self.followers.successor_of(flow) {
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
                assert_eq!(record.acknowledged, Time::MAX, "{flow:?} was acknowledged twice");
                record.acknowledged = self.link_layer.now;
                self.unacknowledged -= 1;
            }
        }
    }

    /// The counters of all ports, with integrals up to the current time.
    pub fn counters(&mut self) -> Vec<PortCounters> {
        let now = self.link_layer.now;
        let close = |egress: &mut EgressPort<P>| {
            egress.queue_changes(now, 0, 0);
            egress.counters
        };
        self.egress_ports.iter_mut().map(close).collect()
    }
}

/// Where a node sends packets of its own endpoint.
#[derive(Clone, Copy)]
enum Uplink {
    /// A host sends over its only link.
    Nic(LinkId),
    /// A switch sends along the routes.
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

/// `hold_max` and `hold_by_egress` of a link's egress port.
fn hold(network: &Network, link: &flowloom_core::Link) -> (Duration, bool) {
    let whole = (Duration::MAX, false);
    let Switching::CutThrough { header } = network.switching() else { return whole };
    if network.node(link.to).kind != NodeKind::Switch {
        return whole;
    }
    let faster = |out: &LinkId| network.link(*out).to != link.from && network.link(*out).rate > link.rate;
    (link.rate.transmit_time(header), network.ports(link.to).iter().any(faster))
}
