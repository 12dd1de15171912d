//! The data plane: links, ports and routes, and the events that move packets over them. It knows no protocol.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Effects, Fifo, LinkId, Network, NodeId, NodeKind, Packet, PacketId, Pool,
    PortCall, PortNumber, Rate, Switching, Time,
};

use crate::calendar::{Calendar, Source};
use crate::observer::Observer;
use crate::report::{CLASSES, FlowRecord, PortCounters};
use crate::routing::{Origin, Routes};

/// How long a packet is held at the end of a link before the next node may use it.
#[derive(Clone, Copy)]
enum Hold {
    /// Until its last byte has arrived.
    Whole,
    /// Until so many of its bytes have arrived.
    Header(u32),
    /// It depends on where the packet goes next: cut-through at a switch with faster and slower ports.
    ByEgress(u32),
}

/// One direction of a link, with the state of the port that feeds it.
struct Lane {
    busy_until: Time,
    /// When the port wants to be served, [`Time::MAX`] if no event is pending for it. An event at any other time is stale.
    serve_at: Time,
    /// On the wire, oldest first; only the head's arrival is in the calendar.
    in_flight: Fifo,
    queued_bytes: u64,
    queued_packets: u32,
    /// When the queue's length changed last.
    since: Time,
    delay: Duration,
    /// Picoseconds per byte, 0 if that is no integer.
    ps_per_byte: u64,
    rate: Rate,
    hold: Hold,
    to: NodeId,
    from: NodeId,
    from_port: PortNumber,
    to_port: PortNumber,
    /// It had something queued when last asked and would not send it: a paused port.
    blocked: bool,
}

impl Lane {
    #[inline]
    fn service(&self, size_bytes: u32) -> Duration {
        if self.ps_per_byte > 0 {
            Duration::from_ps(self.ps_per_byte * u64::from(size_bytes))
        } else {
            self.rate.transmit_time(Bytes::new(u64::from(size_bytes)))
        }
    }
}

/// Links, ports, routes and the packets on them.
pub(crate) struct Plane<H: Copy, P: Discipline<H>, O> {
    pub network: Network,
    pub pool: Pool<H>,
    pub observer: O,
    pub records: Vec<FlowRecord>,
    pub counters: Vec<PortCounters>,
    pub packet_hops: u64,
    pub data_packets: u64,
    pub calendar: Calendar,
    pub now: Time,
    lanes: Vec<Lane>,
    ports: Vec<P>,
    shared: Vec<P::Shared>,
    routes: Routes,
    effects: Effects,
    /// Ports of the node being served that were woken by a sibling.
    woken: Vec<LinkId>,
}

impl<H: Copy, P: Discipline<H>, O: Observer<H>> Plane<H, P, O> {
    pub fn new(network: Network, routes: Routes, ports: Vec<P>, shared: Vec<P::Shared>, flows: usize, observer: O) -> Self {
        let lanes = network.links().iter().map(|link| lane(&network, link)).collect();
        Plane {
            pool: Pool::default(),
            observer,
            records: vec![FlowRecord::NEW; flows],
            counters: vec![PortCounters::default(); network.links().len()],
            packet_hops: 0,
            data_packets: 0,
            calendar: Calendar::default(),
            now: Time::ZERO,
            lanes,
            ports,
            shared,
            routes,
            effects: Effects::default(),
            woken: Vec::new(),
            network,
        }
    }

    /// The source of a link's arrivals is its id; the source of its port's service comes after all of those.
    fn serve_source(&self, link: LinkId) -> Source {
        self.lanes.len() as u32 + link.0
    }

    /// The head of a link has arrived. Returns it if it is for the node at the link's end, and takes care of it otherwise.
    #[inline]
    pub fn arrive(&mut self, link: LinkId) -> Option<(NodeId, PacketId)> {
        let lane = &mut self.lanes[link.index()];
        let id = lane.in_flight.pop(&self.pool).expect("a pending arrival has a packet");
        let next = lane.in_flight.head();
        let (node, ingress) = (lane.to, lane.to_port);
        if !next.is_none() {
            self.calendar.schedule(self.pool.due(next), link.0);
        }
        let packet = &self.pool[id];
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
        let egress = self.routes.pick(&self.network, node, Origin::Link(link), packet.flow.0, packet.src, packet.dst);
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
        self.observer.packet_injected(self.now, node, &packet);
        let link = if self.network.node(node).kind == NodeKind::Switch {
            self.routes.pick(&self.network, node, Origin::Here(node), packet.flow.0, packet.src, packet.dst)
        } else {
            self.network.ports(node)[0]
        };
        let id = self.pool.insert(packet);
        self.enqueue(link, id, PortNumber::LOCAL);
    }

    /// Whether a port would take a packet from its endpoint now.
    #[inline]
    pub fn wants_packet(&self, nic: LinkId) -> bool {
        let lane = &self.lanes[nic.index()];
        lane.busy_until <= self.now && !lane.blocked
    }

    /// Makes sure that a port's endpoint is asked for a packet when the port is free again.
    #[inline]
    pub fn ask_later(&mut self, nic: LinkId) {
        let lane = &self.lanes[nic.index()];
        let at = lane.busy_until;
        if at > self.now {
            self.serve_by(nic, at);
        }
    }

    /// The node that feeds a link.
    pub fn owner(&self, link: LinkId) -> NodeId {
        self.lanes[link.index()].from
    }

    /// An arrived packet has been handled by its endpoint.
    #[inline]
    pub fn consume(&mut self, node: NodeId, id: PacketId) {
        let packet = &self.pool[id];
        self.observer.packet_arrived(self.now, node, packet);
        if packet.payload_bytes > 0 {
            self.records[packet.flow.0 as usize].arrived_bytes += u64::from(packet.payload_bytes);
        }
        self.pool.remove(id);
    }

    /// A port's service event. Returns false if it is stale.
    pub fn serve_event(&mut self, link: LinkId) -> bool {
        let lane = &mut self.lanes[link.index()];
        if lane.serve_at != self.now {
            return false;
        }
        lane.serve_at = Time::MAX;
        self.serve_if_free(link);
        true
    }

    #[inline]
    fn enqueue(&mut self, link: LinkId, id: PacketId, ingress: PortNumber) {
        let index = link.index();
        let now = self.now;
        self.queue_changes(index, 1, i64::from(self.pool[id].size_bytes));
        let lane = &self.lanes[index];
        self.observer.packet_queued(now, link, &self.pool[id], lane.queued_bytes);
        let mut call = PortCall {
            now,
            pool: &mut self.pool,
            shared: &mut self.shared[lane.from.index()],
            number: lane.from_port,
            ingress,
            rate: lane.rate,
            effects: &mut self.effects,
        };
        self.ports[index].enqueue(&mut call, id);
        if self.effects.any {
            self.settle(link);
        }
        let lane = &mut self.lanes[index];
        let peak = &mut self.counters[index].peak_bytes;
        *peak = (*peak).max(lane.queued_bytes);
        if lane.busy_until <= now {
            // A pending service at this very instant will see the packet too; serving now gives the same result sooner.
            self.serve(link);
        } else {
            let at = lane.busy_until;
            self.serve_by(link, at);
        }
        while let Some(sibling) = self.woken.pop() {
            self.serve_if_free(sibling);
        }
    }

    fn serve_if_free(&mut self, link: LinkId) {
        let busy_until = self.lanes[link.index()].busy_until;
        if busy_until <= self.now {
            self.serve(link);
        } else {
            self.serve_by(link, busy_until);
        }
    }

    /// Makes sure that the port is served at `at`, or earlier.
    #[inline]
    fn serve_by(&mut self, link: LinkId, at: Time) {
        let source = self.serve_source(link);
        let lane = &mut self.lanes[link.index()];
        if at < lane.serve_at {
            lane.serve_at = at;
            self.calendar.schedule(at, source);
        }
    }

    /// Asks a free port for its next packet and puts it on the wire.
    #[inline]
    fn serve(&mut self, link: LinkId) {
        let index = link.index();
        let lane = &self.lanes[index];
        debug_assert!(lane.busy_until <= self.now);
        let mut call = PortCall {
            now: self.now,
            pool: &mut self.pool,
            shared: &mut self.shared[lane.from.index()],
            number: lane.from_port,
            ingress: PortNumber::LOCAL,
            rate: lane.rate,
            effects: &mut self.effects,
        };
        let choice = self.ports[index].dequeue(&mut call);
        if self.effects.any {
            self.settle(link);
        }
        match choice {
            Dequeue::Packet(id) => {
                if self.pool[id].dst != NodeId::LINK {
                    self.queue_changes(index, -1, -i64::from(self.pool[id].size_bytes));
                }
                self.transmit(link, id);
            }
            Dequeue::Idle => {
                let lane = &mut self.lanes[index];
                lane.blocked = lane.queued_packets > 0;
            }
            Dequeue::NotBefore(at) => {
                debug_assert!(at > self.now, "an event without delay");
                self.lanes[index].blocked = false;
                self.serve_by(link, at);
            }
        }
    }

    #[inline]
    fn transmit(&mut self, link: LinkId, id: PacketId) {
        let index = link.index();
        let lane = &mut self.lanes[index];
        let packet = &self.pool[id];
        let size_bytes = packet.size_bytes;
        let service = lane.service(size_bytes);
        let hold = match lane.hold {
            Hold::Whole => service,
            Hold::Header(header) if packet.dst != lane.to => lane.service(header.min(size_bytes)),
            Hold::Header(_) => service,
            // Addressed to this switch, or to a node it reaches over a faster link: the whole packet is needed.
            Hold::ByEgress(_) if packet.dst == lane.to || packet.dst == NodeId::LINK => service,
            Hold::ByEgress(_) if self.routes.rate(lane.to, packet.dst) > lane.rate => service,
            Hold::ByEgress(header) => lane.service(header.min(size_bytes)),
        };
        lane.busy_until = self.now + service;
        lane.blocked = false;
        if lane.serve_at == self.now {
            // Another event of this instant came first and did what the pending service would.
            lane.serve_at = Time::MAX;
        }
        let due = self.now + hold + lane.delay;
        let class = usize::from(packet.class).min(CLASSES - 1);
        self.observer.packet_sent(self.now, link, packet);
        self.pool.set_due(id, due);
        self.pool.count_hop(id);
        if lane.in_flight.is_empty() {
            self.calendar.schedule(due, link.0);
        }
        lane.in_flight.push(id, &mut self.pool);
        let again = (lane.queued_packets > 0).then_some(lane.busy_until);
        let counters = &mut self.counters[index];
        counters.sent_packets[class] += 1;
        counters.sent_bytes[class] += u64::from(size_bytes);
        self.packet_hops += 1;
        if let Some(at) = again {
            self.serve_by(link, at);
        }
    }

    /// Hands a link frame to the port it came to, and serves that port anew.
    fn link_frame(&mut self, link: LinkId, id: PacketId) {
        let lane = &self.lanes[link.index()];
        let mut call = PortCall {
            now: self.now,
            pool: &mut self.pool,
            shared: &mut self.shared[lane.from.index()],
            number: lane.from_port,
            ingress: PortNumber::LOCAL,
            rate: lane.rate,
            effects: &mut self.effects,
        };
        self.ports[link.index()].handle_link_frame(&mut call, id);
        if self.effects.any {
            self.settle(link);
        }
        self.pool.remove(id);
        self.lanes[link.index()].blocked = false;
        self.serve_if_free(link);
        while let Some(sibling) = self.woken.pop() {
            self.serve_if_free(sibling);
        }
    }

    /// Accounts for what a discipline did besides returning.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, link: LinkId) {
        let mut effects = std::mem::take(&mut self.effects);
        for id in effects.duplicated.drain(..) {
            let (size, payload, flow) = (self.pool[id].size_bytes, self.pool[id].payload_bytes, self.pool[id].flow);
            self.queue_changes(link.index(), 1, i64::from(size));
            if payload > 0 {
                self.records[flow.0 as usize].duplicated_bytes += u64::from(payload);
            }
        }
        for (id, payload, cut) in effects.trimmed.drain(..) {
            self.queue_changes(link.index(), 0, -i64::from(cut));
            self.counters[link.index()].trimmed_packets += 1;
            let record = &mut self.records[self.pool[id].flow.0 as usize];
            record.dropped_bytes += u64::from(payload);
            record.dropped_packets += u32::from(payload > 0);
        }
        for (id, why) in effects.dropped.drain(..) {
            self.queue_changes(link.index(), -1, -i64::from(self.pool[id].size_bytes));
            self.give_up(link, id, why);
        }
        self.counters[link.index()].marked_packets += std::mem::take(&mut effects.marked);
        let node = self.lanes[link.index()].from;
        self.woken.extend(effects.woken.drain(..).map(|port| self.network.ports(node)[usize::from(port.0)]));
        effects.any = false;
        self.effects = effects;
    }

    fn give_up(&mut self, link: LinkId, id: PacketId, why: DropReason) {
        let packet = &self.pool[id];
        let counters = &mut self.counters[link.index()];
        counters.dropped_packets[why as usize] += 1;
        if packet.payload_bytes > 0 {
            counters.dropped_data_packets += 1;
            let record = &mut self.records[packet.flow.0 as usize];
            record.dropped_bytes += u64::from(packet.payload_bytes);
            record.dropped_packets += 1;
        }
        self.observer.packet_dropped(self.now, link, packet, why);
        self.pool.remove(id);
    }

    /// The queue of a port grows or shrinks: keeps its integrals over time.
    #[inline]
    fn queue_changes(&mut self, index: usize, packets: i32, bytes: i64) {
        let lane = &mut self.lanes[index];
        if lane.queued_packets > 0 {
            let span = (self.now - lane.since).as_ps();
            if span > 0 {
                let counters = &mut self.counters[index];
                counters.byte_time += u128::from(lane.queued_bytes) * u128::from(span);
                counters.packet_time += u128::from(lane.queued_packets) * u128::from(span);
            }
        }
        lane.since = self.now;
        lane.queued_bytes = lane.queued_bytes.wrapping_add_signed(bytes);
        lane.queued_packets = lane.queued_packets.wrapping_add_signed(packets);
    }

    /// Brings every queue's integrals up to the present.
    pub fn close_integrals(&mut self) {
        for index in 0..self.lanes.len() {
            self.queue_changes(index, 0, 0);
        }
    }
}

fn lane(network: &Network, link: &flowloom_core::Link) -> Lane {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    let bps = link.rate.as_bps();
    Lane {
        busy_until: Time::ZERO,
        serve_at: Time::MAX,
        in_flight: Fifo::default(),
        queued_bytes: 0,
        queued_packets: 0,
        since: Time::ZERO,
        delay: link.delay,
        ps_per_byte: if PS_BITS.is_multiple_of(bps) { PS_BITS / bps } else { 0 },
        rate: link.rate,
        hold: hold(network, link),
        to: link.to,
        from: link.from,
        from_port: link.from_port,
        to_port: link.to_port,
        blocked: false,
    }
}

fn hold(network: &Network, link: &flowloom_core::Link) -> Hold {
    let Switching::CutThrough { header } = network.switching() else {
        return Hold::Whole;
    };
    if network.node(link.to).kind != NodeKind::Switch {
        return Hold::Whole;
    }
    let header = header.get() as u32;
    let back = network.ports(link.to).iter().filter(|out| network.link(**out).to != link.from);
    let faster = back.clone().filter(|out| network.link(**out).rate > link.rate).count();
    if faster == 0 {
        Hold::Header(header)
    } else if faster == back.count() {
        Hold::Whole
    } else {
        Hold::ByEgress(header)
    }
}
