//! The data plane: links, ports and routes, and the events that move packets. It knows no protocol.

use std::collections::HashSet;
use std::sync::Arc;

use flowloom_core::driver::{LinkLayer, Ports};
use flowloom_core::{
    AbortReason, Bytes, Discipline, DropReason, Duration, Event, Flow, FlowId, LinkId, Network, NodeId, NodeKind, Packet,
    PacketId, Paths, Pool, PortNumber, Rate, Switching, Time, Wire,
};

use crate::calendar::{Calendar, Payload};
use crate::observer::Observer;
use crate::regions::{HERE, Matter, Message, Outbox, Place, RegionId};
use crate::report::{Abort, CLASSES, FlowRecord, PortCounters, PortView};
use crate::routing::{Origin, Routes};
use crate::sources::Kind;
use crate::tasks::{End, News, TaskList, Waits};

/// The state of one direction of a link that every event needs: one for the link it belongs to, and another for the packet's next hop. It
/// is small, so that the states of all links stay in the first-level cache.
#[derive(Clone, Copy)]
struct LinkState {
    busy_until: Time,
    to: NodeId,
    to_port: PortNumber,
}

/// The data needed to send a packet over a link.
pub(crate) struct Line {
    delay: Duration,
    /// Picoseconds per byte, 0 if it is not an integer.
    ps_per_byte: u64,
    /// The longest time from the arrival of a packet's first bit until a switch at the link's end can forward the packet: the transmission
    /// time of a header if the switch cuts through, else [`Duration::MAX`]. The switch never waits after the last bit has arrived.
    hold_max: Duration,
    from: NodeId,
    /// Whether the switch at the link's end has faster egress links. It cuts a packet through only to a link that is not faster.
    hold_by_egress: bool,
    /// Whether the port belongs to a host.
    is_nic: bool,
    /// The region that the link leads to; [`HERE`] if it is that of the port.
    away: RegionId,
}

/// The accounts of an egress port.
pub(crate) struct Books {
    queued_bytes: u64,
    counters: PortCounters,
}

/// What is recorded of each flow, by its number. Flows beyond the end have no record yet.
pub(crate) struct Records(pub Vec<FlowRecord>);

impl Records {
    /// The record of a flow.
    #[inline(always)]
    pub fn of(&mut self, flow: FlowId) -> &mut FlowRecord {
        let index = flow.0 as usize;
        if index < self.0.len() { &mut self.0[index] } else { self.first_of(index) }
    }

    #[cold]
    #[inline(never)]
    fn first_of(&mut self, index: usize) -> &mut FlowRecord {
        self.0.resize(index + 1, FlowRecord::NEW);
        &mut self.0[index]
    }

    /// A copy of a flow's record.
    pub fn get(&self, flow: FlowId) -> FlowRecord {
        self.0.get(flow.0 as usize).copied().unwrap_or(FlowRecord::NEW)
    }
}

/// Links and routes, all packets in the network, and the accounts of what happens to them.
pub(crate) struct Links<H, O> {
    pub network: Arc<Network>,
    pub pool: Pool<H>,
    pub observer: O,
    pub packet_hops: u64,
    pub calendar: Calendar,
    pub now: Time,
    pub records: Records,
    /// What goes to other regions.
    pub outbox: Outbox<H>,
    link_states: Vec<LinkState>,
    routes: Routes,
}

impl<H, O> Links<H, O> {
    /// The paths that packets take now.
    pub fn paths(&self) -> &Paths {
        self.routes.paths()
    }
}

impl<H: Wire, O: Observer<H>> Links<H, O> {
    /// Puts a packet on a link, to the end of which it belongs from now on: the calendar if that is here, else the outbox.
    #[inline(always)]
    fn put<const AWAY: bool>(&mut self, link: LinkId, rate: Rate, line: &Line, books: &mut Books, id: PacketId) -> Time {
        let now = self.now;
        let packet = &self.pool[id];
        let size_bytes = packet.size_bytes;
        let service = if line.ps_per_byte > 0 {
            Duration::from_ps(line.ps_per_byte * u64::from(size_bytes))
        } else {
            rate.transmit_time(Bytes::new(u64::from(size_bytes)))
        };
        // The next node needs the whole packet if it is the destination, or if the packet's egress link there is faster than this link.
        // This is written so that it compiles to a conditional move: whether a link leads to a host or a switch is hard to predict.
        let link_state = &mut self.link_states[link.index()];
        let ends_here = (packet.dst == link_state.to) | (packet.dst == NodeId::LINK);
        let mut hold = service.min(if ends_here { Duration::MAX } else { line.hold_max });
        if line.hold_by_egress && !ends_here && self.routes.rate(link_state.to, packet.dst) > rate {
            hold = service;
        }
        link_state.busy_until = now + service;
        let due = now + hold + line.delay;
        let sent = &mut books.counters.sent[usize::from(packet.class).min(CLASSES - 1)];
        sent.packets += 1;
        self.observer.packet_sent(now, link, id, packet);
        if AWAY {
            let packet = self.pool[id];
            self.pool.remove(id);
            self.outbox.send(line.away, Message { due, what: Matter::Packet(link, packet) });
        } else {
            self.calendar.schedule(due, Kind::Arrival(link).source(), id.index());
        }
        // Not beside the packets: the compiler would add both as a vector, which takes more instructions.
        sent.bytes += u64::from(size_bytes);
        self.packet_hops += 1;
        now + service
    }

    /// [`Links::put`] on a link to another region. It is called last, so that `transmit` need not save registers.
    #[cold]
    #[inline(never)]
    fn put_away(&mut self, link: LinkId, rate: Rate, line: &Line, books: &mut Books, id: PacketId) -> Time {
        self.put::<true>(link, rate, line, books, id)
    }
}

impl<H: Wire, O: Observer<H>> LinkLayer<H> for Links<H, O> {
    type Line = Line;
    type Books = Books;

    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn pool(&mut self) -> &mut Pool<H> {
        &mut self.pool
    }

    #[inline]
    fn busy_until(&self, link: LinkId) -> Time {
        self.link_states[link.index()].busy_until
    }

    #[inline]
    fn node(line: &Line) -> NodeId {
        line.from
    }

    fn sibling(&self, line: &Line, number: PortNumber) -> LinkId {
        self.network.ports(line.from)[usize::from(number.0)]
    }

    /// A host sends everything over its only link.
    fn route(&mut self, link: LinkId, line: &Line, id: PacketId) -> LinkId {
        if line.is_nic {
            return link;
        }
        let packet = &self.pool[id];
        let (flow, src, dst) = (packet.flow, packet.src, packet.dst);
        let label = || packet.header.path_label();
        if let Some(link) = self.routes.pick(line.from, Origin::Link(link.reverse()), flow, src, dst, label) {
            return link;
        }
        // A port that gives a packet away cannot see the others' queues, but whether their links are busy.
        let (now, link_states) = (self.now, &self.link_states);
        let drains = |link: LinkId| link_states[link.index()].busy_until.saturating_since(now);
        self.routes.pick_by_load(line.from, flow, src, dst, now, drains)
    }

    #[inline(always)]
    fn transmit(&mut self, link: LinkId, rate: Rate, line: &Line, books: &mut Books, id: PacketId) -> Time {
        if line.away != HERE {
            return self.put_away(link, rate, line, books, id);
        }
        self.put::<false>(link, rate, line, books, id)
    }

    #[inline(always)]
    fn schedule_service(&mut self, link: LinkId, at: Time) {
        self.calendar.schedule(at, Kind::Service(link).source(), 0);
    }

    fn schedule_alarm(&mut self, link: LinkId, at: Time) {
        self.calendar.schedule(at, Kind::Alarm(link).source(), 0);
    }

    #[inline]
    fn arrived(&mut self, link: LinkId, books: &Books, id: PacketId) {
        let packet = &self.pool[id];
        self.observer.packet_queued(self.now, link, id, packet, books.queued_bytes + u64::from(packet.size_bytes));
    }

    /// Adds to the queue's length, and to its integrals over time. A change by d at time t adds d × (T - t) to the integral up to time T: d × t is taken away here, and
    /// [`Plane::counters`] adds the last length times T.
    #[inline]
    fn queue_grows(&mut self, books: &mut Books, packets: u32, bytes: u32) {
        let now = u128::from(self.now.as_ps());
        let counters = &mut books.counters;
        counters.byte_time = counters.byte_time.wrapping_sub(u128::from(bytes) * now);
        counters.packet_time = counters.packet_time.wrapping_sub(u128::from(packets) * now);
        books.queued_bytes += u64::from(bytes);
    }

    /// The opposite. One function for both, with a signed change, took 5 more instructions for each packet that leaves.
    #[inline]
    fn queue_shrinks(&mut self, books: &mut Books, packets: u32, bytes: u32) {
        let now = u128::from(self.now.as_ps());
        let counters = &mut books.counters;
        counters.byte_time = counters.byte_time.wrapping_add(u128::from(bytes) * now);
        counters.packet_time = counters.packet_time.wrapping_add(u128::from(packets) * now);
        books.queued_bytes -= u64::from(bytes);
    }

    #[inline]
    fn queued(&mut self, books: &mut Books) {
        books.counters.peak_bytes = books.counters.peak_bytes.max(books.queued_bytes);
    }

    fn marked(&mut self, books: &mut Books, packets: u64) {
        books.counters.marked_packets += packets;
    }

    fn trimmed(&mut self, books: &mut Books, id: PacketId, payload_bytes: u32) {
        books.counters.trimmed_packets += 1;
        let record = self.records.of(self.pool[id].flow);
        record.dropped_bytes += u64::from(payload_bytes);
        record.dropped_packets += u32::from(payload_bytes > 0);
    }

    fn duplicated(&mut self, id: PacketId, payload_bytes: u32) {
        if payload_bytes > 0 {
            self.records.of(self.pool[id].flow).duplicated_bytes += u64::from(payload_bytes);
        }
    }

    /// Counts and removes a packet that was lost at a link or its egress port.
    fn drop_packet(&mut self, link: LinkId, books: &mut Books, id: PacketId, why: DropReason) {
        let packet = &self.pool[id];
        books.counters.dropped_packets[why as usize] += 1;
        if packet.payload_bytes > 0 {
            books.counters.dropped_data_packets += 1;
            let record = self.records.of(packet.flow);
            record.dropped_bytes += u64::from(packet.payload_bytes);
            record.dropped_packets += 1;
        }
        self.observer.packet_dropped(self.now, link, id, packet, why);
        self.pool.remove(id);
    }
}

/// Links, ports, routes, and all packets in the network.
pub(crate) struct Plane<H: Wire, P: Discipline<H>, O: Observer<H>> {
    pub ports: Ports<H, P, Links<H, O>>,
    pub data_packets: u64,
    /// The number of flows from here that are not over, without background flows.
    pub unfinished: usize,
    /// When one of these was last over.
    pub over_at: Time,
    /// The background flows.
    pub background: HashSet<FlowId>,
    /// A flow that its receiver reported as complete twice; the run then ends with an error.
    pub received_again: Option<FlowId>,
    /// Nodes that were down for a while, and so have forgotten which bytes they had received.
    pub restarted: Vec<NodeId>,
    /// What waits for the end of flows.
    pub waits: Waits,
    /// Where the nodes are.
    place: Place,
    /// The time of each node's pending timer event, [`Time::MAX`] if there is none. A timer event at any other time is stale.
    timers: Vec<Time>,
    uplinks: Vec<Uplink>,
}

impl<H: Wire, P: Discipline<H>, O: Observer<H>> Plane<H, P, O> {
    pub fn new(
        place: Place,
        routes: Routes,
        disciplines: Vec<P>,
        shared: Vec<P::Shared>,
        flows: &[Flow],
        calendar: Calendar,
        observer: O,
    ) -> Self {
        let network = routes.paths().network().clone();
        let lines: Vec<Line> = network.links().iter().map(|link| line(&network, link, &place)).collect();
        let background: HashSet<FlowId> = flows.iter().filter(|flow| flow.background).map(|flow| flow.id).collect();
        let uplinks = network.node_ids().map(|node| uplink(&network, node)).collect();
        let timers = vec![Time::MAX; network.len()];
        let links = Links {
            link_states: network.links().iter().map(link_state).collect(),
            network,
            pool: Pool::default(),
            observer,
            packet_hops: 0,
            calendar,
            now: Time::ZERO,
            records: Records(vec![FlowRecord::NEW; flows.len()]),
            outbox: Outbox::new(place.regions()),
            routes,
        };
        let mut ports = Ports::new(links, shared);
        for (index, (line, discipline)) in lines.into_iter().zip(disciplines).enumerate() {
            let link = ports.link_layer.network.links()[index];
            let books = Books { queued_bytes: 0, counters: PortCounters::default() };
            ports.push(discipline, link.from_port, link.rate, line, books);
            if place.is_here(link.from) {
                ports.start(LinkId(index as u32));
            }
        }
        Plane {
            ports,
            data_packets: 0,
            unfinished: flows.iter().filter(|flow| !flow.background && place.is_here(flow.src)).count(),
            background,
            received_again: None,
            restarted: Vec::new(),
            over_at: Time::ZERO,
            waits: Waits::new(Arc::new(TaskList::default()), flows.len(), Duration::ZERO),
            place,
            timers,
            uplinks,
        }
    }

    /// Makes room for one flow more, which may be from here.
    pub fn add_flow(&mut self, flow: &Flow, is_here: bool) {
        self.unfinished += usize::from(is_here && !flow.background);
        if flow.background {
            self.background.insert(flow.id);
        }
    }

    /// Handles a packet's arrival at the end of a link. Returns the packet if this node is its destination, and [`PacketId::NONE`] if the port of a NIC has had a frame, after which it may take packets.
    #[inline(always)]
    pub fn arrive(&mut self, link: LinkId, id: PacketId) -> Option<(NodeId, PacketId)> {
        let link_state = &self.ports.link_layer.link_states[link.index()];
        let (node, ingress) = (link_state.to, link_state.to_port);
        let packet = &self.ports.link_layer.pool[id];
        if packet.dst == node {
            if packet.corrupt {
                self.ports.drop_packet(link, id, DropReason::Corrupted);
                return None;
            }
            return Some((node, id));
        }
        if packet.dst == NodeId::LINK {
            if packet.corrupt {
                self.ports.drop_packet(link, id, DropReason::Corrupted);
            } else {
                self.ports.link_frame(link.reverse(), id);
            }
            let is_nic = self.ports.line(link.reverse()).is_nic;
            return is_nic.then_some((node, PacketId::NONE));
        }
        let (flow, src, dst) = (packet.flow, packet.src, packet.dst);
        let label = || packet.header.path_label();
        let picked = self.ports.link_layer.routes.pick(node, Origin::Link(link), flow, src, dst, label);
        let egress = picked.unwrap_or_else(|| self.pick_by_load(node, flow, src, dst));
        self.ports.enqueue(egress, id, ingress);
        None
    }

    /// The link on which a switch sends a packet where that depends on its queues, or on pauses of the flow.
    #[cold]
    #[inline(never)]
    fn pick_by_load(&mut self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> LinkId {
        let (Links { routes, network, link_states, now, .. }, books) = self.ports.with_books();
        let now = *now;
        let drains = |link: LinkId| {
            let queued = Bytes::new(books.of(link).queued_bytes);
            link_states[link.index()].busy_until.saturating_since(now) + network.link(link).rate.transmit_time(queued)
        };
        routes.pick_by_load(at, flow, src, dst, now, drains)
    }

    /// Sends a packet from a node's endpoint: over the only link of a host, along the routes from a switch.
    #[inline(always)]
    pub fn inject(&mut self, node: NodeId, packet: Packet<H>) {
        if packet.payload_bytes > 0 {
            self.data_packets += 1;
            let record = self.ports.link_layer.records.of(packet.flow);
            record.sent_bytes += u64::from(packet.payload_bytes);
            record.retransmissions += u32::from(packet.retransmission);
        }
        self.ports.link_layer.observer.packet_injected(self.ports.link_layer.now, node, &packet);
        let link = match self.uplinks[node.index()] {
            Uplink::Nic(nic) => nic,
            Uplink::Routed => {
                let (flow, src, dst) = (packet.flow, packet.src, packet.dst);
                let label = || packet.header.path_label();
                let picked = self.ports.link_layer.routes.pick(node, Origin::Local(node), flow, src, dst, label);
                picked.unwrap_or_else(|| self.pick_by_load(node, flow, src, dst))
            }
        };
        let id = self.ports.link_layer.pool.insert(packet);
        self.ports.enqueue(link, id, PortNumber::LOCAL);
    }

    /// The NIC of a host; `None` for a switch.
    #[inline]
    pub fn nic(&self, node: NodeId) -> Option<LinkId> {
        match self.uplinks[node.index()] {
            Uplink::Nic(nic) => Some(nic),
            Uplink::Routed => None,
        }
    }

    /// Removes a packet that its destination's endpoint has handled.
    #[inline]
    pub fn consume(&mut self, node: NodeId, id: PacketId) {
        let packet = &self.ports.link_layer.pool[id];
        self.ports.link_layer.observer.packet_arrived(self.ports.link_layer.now, node, id, packet);
        if packet.payload_bytes > 0 {
            self.ports.link_layer.records.of(packet.flow).arrived_bytes += u64::from(packet.payload_bytes);
        }
        self.ports.link_layer.pool.remove(id);
    }

    /// Handles a port's service event. Returns the port's node if it is a host, because its endpoint may have more to send.
    #[inline]
    pub fn serve_event(&mut self, link: LinkId) -> Option<NodeId> {
        if !self.ports.is_due(link) {
            return None; // stale
        }
        let line = self.ports.line(link);
        let node = line.is_nic.then_some(line.from);
        self.ports.serve_now(link);
        node
    }

    /// Handles an alarm of a port. Returns the port's node if it is a host.
    pub fn alarm_event(&mut self, link: LinkId) -> Option<NodeId> {
        self.ports.alarm(link);
        let line = self.ports.line(link);
        line.is_nic.then_some(line.from)
    }

    /// Schedules a node's timer event at `wanted`, unless an earlier one is pending. In that case the endpoint is polled again at the
    /// earlier time.
    #[inline(always)]
    pub fn set_timer(&mut self, node: NodeId, wanted: Time) {
        let pending = &mut self.timers[node.index()];
        if wanted < *pending {
            debug_assert!(wanted > self.ports.link_layer.now, "a timer with zero delay at {node:?}");
            *pending = wanted;
            self.ports.link_layer.calendar.schedule(wanted, Kind::Timer(node).source(), 0);
        }
    }

    /// Makes a node's pending timer event stale.
    pub fn cancel_timer(&mut self, node: NodeId) {
        self.timers[node.index()] = Time::MAX;
    }

    /// Handles a node's timer event. Returns false if it is stale.
    #[inline]
    pub fn timer_event(&mut self, node: NodeId) -> bool {
        let pending = &mut self.timers[node.index()];
        let fresh = *pending == self.ports.link_layer.now;
        if fresh {
            *pending = Time::MAX;
        }
        fresh
    }

    /// Whether a service event at this time has no effect.
    pub fn is_stale_service(&self, link: LinkId, at: Time) -> bool {
        self.ports.serve_at(link) != at
    }

    /// Whether a timer event at this time has no effect.
    pub fn is_stale_timer(&self, node: NodeId, at: Time) -> bool {
        self.timers[node.index()] != at
    }

    /// Records that the node's timer event at this time has been removed.
    pub fn forget_timer(&mut self, node: NodeId, at: Time) {
        let pending = &mut self.timers[node.index()];
        if *pending == at {
            *pending = Time::MAX;
        }
    }

    /// Adds an endpoint's event to the flow's record.
    #[inline]
    pub fn record(&mut self, node: NodeId, event: &Event) {
        self.ports.link_layer.observer.flow_event(self.ports.link_layer.now, node, event);
        match *event {
            Event::Delivered { flow, bytes, .. } => {
                self.ports.link_layer.records.of(flow).delivered_bytes += bytes.get();
            }
            Event::Received { flow } => {
                let record = self.ports.link_layer.records.of(flow);
                if record.received != Time::MAX {
                    if !self.restarted.contains(&node) {
                        self.received_again = Some(flow);
                    }
                    return;
                }
                record.received = self.ports.link_layer.now;
                self.tell(flow, node, Some(End::Received), Duration::ZERO);
            }
            Event::TimedOut { flow, in_a_row } => {
                let record = self.ports.link_layer.records.of(flow);
                record.timeouts += 1;
                record.second_timeouts += u32::from(in_a_row == 2);
            }
            Event::Acknowledged { flow } => {
                let record = self.ports.link_layer.records.of(flow);
                assert_eq!(record.acknowledged, Time::MAX, "{flow:?} was acknowledged twice");
                record.acknowledged = self.ports.link_layer.now;
                if record.aborted.is_none() {
                    self.end(flow);
                }
                self.tell(flow, node, Some(End::Acknowledged), Duration::ZERO);
            }
            Event::Aborted { flow, reason } => self.abort(node, flow, reason),
        }
    }

    /// Ends a flow that was given up, unless a node that went down has ended it before. What waits for it waits no longer.
    fn abort(&mut self, source: NodeId, flow: FlowId, reason: AbortReason) {
        let record = self.ports.link_layer.records.of(flow);
        assert_eq!(record.acknowledged, Time::MAX, "{flow:?} was acknowledged before it was aborted");
        if let Some(before) = record.aborted {
            assert_eq!(before.reason, AbortReason::NodeDown, "{flow:?} was aborted twice");
            return;
        }
        record.aborted = Some(Abort { at: self.ports.link_layer.now, reason });
        self.tell(flow, source, None, self.waits.lag());
        self.end(flow);
    }

    /// Notes that a flow is over.
    fn end(&mut self, flow: FlowId) {
        if !self.background.contains(&flow) {
            self.unfinished -= 1;
            self.over_at = self.ports.link_layer.now;
        }
    }

    /// Tells those that wait for it what has happened to a flow, or that a join or a flow is over. The news takes at least `lag` to other hosts than this one.
    #[inline]
    fn tell(&mut self, over: FlowId, host: NodeId, end: Option<End>, lag: Duration) {
        if self.waits.tasks().count() > 0 {
            self.tell_tasks(over, host, end, lag);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_tasks(&mut self, over: FlowId, host: NodeId, end: Option<End>, lag: Duration) {
        let now = self.ports.link_layer.now;
        let (tasks, network) = (Arc::clone(self.waits.tasks()), Arc::clone(&self.ports.link_layer.network));
        tasks.each_next(over, &mut |next| {
            if end.is_some_and(|end| end != next.end) {
                return;
            }
            let at = tasks.task(next.task).host();
            let over = (over, next.end);
            let is_here = network.host_of(at) == network.host_of(host);
            let due = now + if is_here { next.delay } else { next.delay.max(lag) };
            match self.place.away(at) {
                HERE => self.hear(News { task: next.task, over, due }),
                region => {
                    let what = Matter::Over { task: next.task, over };
                    self.ports.link_layer.outbox.send(region, Message { due, what });
                }
            }
        });
    }

    /// Tells those that wait for it that a flow begins.
    pub fn begin(&mut self, flow: &Flow) {
        self.tell(flow.id, flow.src, Some(End::Begun), Duration::ZERO);
    }

    /// Tells those that wait for a join of this host that it is over.
    pub fn join(&mut self, join: Payload, host: NodeId) {
        self.tell(self.waits.id(join), host, None, Duration::ZERO);
    }

    /// Lets a task begin at this time, unless it waits for something else.
    pub fn begins_at(&mut self, task: FlowId, start: Time) {
        self.hear(News { task, over: (task, End::Begun), due: start });
    }

    fn hear(&mut self, news: News) {
        if let Some(begin) = self.waits.hear(news) {
            let payload = self.waits.payload(news.task);
            self.ports.link_layer.calendar.schedule(begin, Kind::Follow.source(), payload);
        }
    }

    /// Takes what another region has sent. It is due later than anything that was handled here.
    pub fn take(&mut self, message: Message<H>) {
        let due = message.due;
        assert!(due > self.ports.link_layer.now, "news of {due} came at {}", self.ports.link_layer.now);
        match message.what {
            Matter::Packet(link, packet) => {
                let id = self.ports.link_layer.pool.insert(packet);
                self.ports.link_layer.calendar.schedule(due, Kind::Arrival(link).source(), id.index());
            }
            Matter::Over { task, over } => self.hear(News { task, over, due }),
        }
    }

    /// Makes packets take other paths from now on, in a network whose links may have other rates.
    pub fn reroute(&mut self, paths: Paths) {
        let network = paths.network().clone();
        if !Arc::ptr_eq(&network, &self.ports.link_layer.network) {
            for (id, link) in (0..).map(LinkId).zip(network.links()) {
                self.ports.relink(id, link.rate, line(&network, link, &self.place));
            }
            self.ports.link_layer.network = network;
        }
        self.ports.link_layer.routes.change(paths);
    }

    /// A port as it is now.
    pub fn port(&self, link: LinkId) -> PortView<'_> {
        let (Books { queued_bytes, counters }, queued_packets) = self.ports.account(link);
        PortView { counters, queued_bytes: *queued_bytes, queued_packets }
    }

    /// The counters of a port.
    pub fn counters_mut(&mut self, link: LinkId) -> &mut PortCounters {
        &mut self.ports.books_mut(link).counters
    }

    /// The counters of all ports, with integrals up to the current time.
    pub fn counters(&self) -> Vec<PortCounters> {
        let now = self.ports.link_layer.now;
        let links = (0..self.ports.link_layer.network.links().len() as u32).map(LinkId);
        links.map(|link| self.port(link).counters_at(now)).collect()
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

fn line(network: &Network, link: &flowloom_core::Link, place: &Place) -> Line {
    const PS_BITS: u64 = 8 * 1_000_000_000_000;
    let bps = link.rate.as_bps();
    let (hold_max, hold_by_egress) = hold(network, link);
    Line {
        delay: link.delay,
        ps_per_byte: if PS_BITS.is_multiple_of(bps) { PS_BITS / bps } else { 0 },
        hold_max,
        from: link.from,
        hold_by_egress,
        is_nic: network.node(link.from).kind != NodeKind::Switch,
        away: if place.is_here(link.from) { place.away(link.to) } else { HERE },
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
