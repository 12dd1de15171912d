//! A test harness: endpoints of one transport around one switch, driven by hand with virtual time.

use std::collections::BTreeMap;

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Effects, Endpoint, Event, Flow, FlowId, Network, Nic, NodeId, Packet, PacketId,
    Placement, Pool, PortCall, PortNumber, Site, Time, Transport,
};

mod delivery;
mod faults;
mod setup;

pub use delivery::Delivery;
pub use faults::{Fate, Faults, SentPacket};
pub use setup::PairSetup;
use setup::star;

/// A port and its state.
struct Egress<T: Transport> {
    port: T::Port,
    node: usize,
    number: PortNumber,
    waiting: usize,
    busy: bool,
}

enum Step {
    Open(Flow),
    /// A packet's first bit reaches the switch.
    AtSwitch(PacketId),
    /// A packet's last bit reaches its destination.
    Arrive(PacketId),
    /// A port may send again.
    Free(usize),
    /// A port asked to be called at this time.
    Look(usize),
}

/// Decides the fate of a packet.
type Hook<H> = Box<dyn FnMut(&SentPacket<H>) -> Fate>;

/// Two or more endpoints of one transport around one switch, and an extra host for the transport's control node if it has one. Every
/// NIC and every port of the switch runs the transport's [`Discipline`]. The switch forwards at the first bit and reads no header, so
/// on an idle network a packet arrives one transmission time plus [`PairSetup::delay`] after it was sent. A hook may drop, delay or
/// duplicate packets on their way to the switch.
///
/// The harness asserts that no byte is delivered twice or beyond the flow's end, that [`Event::Received`] comes once, at the
/// destination and after all bytes, and that [`Event::Acknowledged`] comes once, at the source and after that.
pub struct Pair<T: Transport> {
    setup: PairSetup,
    network: Network,
    now: Time,
    hosts: Vec<T::Host>,
    control: Option<T::Control>,
    /// NICs of all endpoints, then the switch's ports towards them.
    egresses: Vec<Egress<T>>,
    shared: Vec<<T::Port as Discipline<T::Header>>::Shared>,
    pool: Pool<T::Header>,
    effects: Effects,
    steps: BTreeMap<(Time, u64), Step>,
    scheduled: u64,
    at_once: u32,
    hook: Hook<T::Header>,
    sent: Vec<SentPacket<T::Header>>,
    dropped: Vec<(Time, FlowId, DropReason)>,
    events: Vec<(Time, NodeId, Event)>,
    flows: BTreeMap<FlowId, Delivery>,
}

impl<T: Transport> Pair<T> {
    /// Makes all endpoints and ports.
    ///
    /// # Panics
    /// If the transport places control nodes on switches.
    pub fn new(config: &T::Config, setup: PairSetup) -> Pair<T> {
        let placement = T::placement(config);
        assert!(placement != Placement::Switches, "a Pair's switch has no control endpoint");
        let network = star(&setup, placement == Placement::ExtraHost);
        let site = |node: NodeId| {
            let seed = setup.seed + u64::from(node.0);
            Site { node, network: &network, wire: setup.wire, seed, reorders: setup.reorders, paths: None }
        };
        let hosts = (0..setup.hosts as u32).map(|host| T::host(config, &site(NodeId(host)))).collect();
        let control = network.control_host().map(|node| T::control(config, &site(node)));
        let endpoints: Vec<NodeId> = network.endpoints().collect();
        let switch = network.switches().next().expect("a star has a switch");
        let uplinks = endpoints.iter().enumerate().map(|(index, node)| (network.ports(*node)[0], index));
        let downlinks = network.ports(switch).iter().map(|link| (*link, endpoints.len()));
        let egresses = uplinks
            .chain(downlinks)
            .map(|(link, node)| Egress {
                port: T::port(config, &setup.port_site(link, &network)),
                node,
                number: network.link(link).from_port,
                waiting: 0,
                busy: false,
            })
            .collect();
        let shared = endpoints.iter().chain([&switch]).map(|node| T::shared(config, &site(*node))).collect();
        Pair {
            setup,
            now: Time::ZERO,
            hosts,
            control,
            egresses,
            shared,
            network,
            pool: Pool::default(),
            effects: Effects::default(),
            steps: BTreeMap::new(),
            scheduled: 0,
            at_once: 0,
            hook: Box::new(|_| Fate::Pass),
            sent: Vec::new(),
            dropped: Vec::new(),
            events: Vec::new(),
            flows: BTreeMap::new(),
        }
    }

    /// Calls `hook` for every packet that leaves a NIC from now on. The hook sees [`SentPacket::fate`] as [`Fate::Pass`].
    pub fn on_packet(&mut self, hook: impl FnMut(&SentPacket<T::Header>) -> Fate + 'static) {
        self.hook = Box::new(hook);
    }

    /// Opens a flow of `size` bytes now. Ids are assigned from 0.
    pub fn open(&mut self, src: u32, dst: u32, size: u64) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        self.open_flow(Flow {
            id,
            src: NodeId(src),
            dst: NodeId(dst),
            size: Bytes::new(size),
            start: self.now,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        });
        id
    }

    /// Opens a flow at its start, now or later.
    ///
    /// # Panics
    /// If its id was used before, or its start is in the past.
    pub fn open_flow(&mut self, flow: Flow) {
        assert!(self.flows.insert(flow.id, Delivery::new(flow)).is_none(), "flow ids are unique");
        self.schedule(flow.start, Step::Open(flow));
    }

    /// Runs until no event is left, or until `limit`, and returns the time of the last event.
    pub fn run(&mut self, limit: Time) -> Time {
        loop {
            let step = self.steps.first_key_value().map(|((at, _), _)| *at);
            let timer = (0..self.endpoints()).filter_map(|node| Some((self.endpoint(node).poll_timeout()?, node))).min();
            let next = step.into_iter().chain(timer.map(|(at, _)| at)).min();
            let Some(next) = next.map(|at| at.max(self.now)).filter(|at| *at <= limit) else { return self.now };
            self.at_once = if next == self.now { self.at_once + 1 } else { 0 };
            assert!(self.at_once < 1_000_000, "time stands still at {next}");
            self.now = next;
            match timer {
                Some((at, node)) if at <= next && step != Some(next) => {
                    self.endpoint_mut(node).handle_timeout(next);
                    self.serve_node(node);
                }
                _ => {
                    let (_, step) = self.steps.pop_first().expect("the next step");
                    self.take(step);
                }
            }
        }
    }

    /// Runs until no event is left, and asserts that every flow was delivered and acknowledged and that no packet is left.
    ///
    /// # Panics
    /// If that does not hold by `limit`.
    pub fn run_to_end(&mut self, limit: Time) -> Time {
        let end = self.run(limit);
        for delivery in self.flows.values() {
            assert!(delivery.received.is_some(), "by {end}, of {:?} only {} came", delivery.flow, delivery.bytes);
            assert!(delivery.acknowledged.is_some(), "by {end}, its source does not know that {:?} came", delivery.flow);
        }
        assert!(self.pool.is_empty(), "by {end}, {} packets are left", self.pool.len());
        end
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }
    /// The network as the endpoints see it; its closed forms apply.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// The delivery of a flow.
    pub fn flow(&self, id: FlowId) -> &Delivery {
        &self.flows[&id]
    }
    /// A host's endpoint.
    pub fn host(&self, index: usize) -> &T::Host {
        &self.hosts[index]
    }
    /// The control endpoint.
    pub fn control(&self) -> Option<&T::Control> {
        self.control.as_ref()
    }
    /// Every packet that left a NIC, oldest first.
    pub fn sent(&self) -> &[SentPacket<T::Header>] {
        &self.sent
    }
    /// Every packet that a port dropped, oldest first.
    pub fn dropped(&self) -> &[(Time, FlowId, DropReason)] {
        &self.dropped
    }
    /// Every event, oldest first.
    pub fn events(&self) -> &[(Time, NodeId, Event)] {
        &self.events
    }

    fn endpoints(&self) -> usize {
        self.hosts.len() + usize::from(self.control.is_some())
    }
    fn endpoint(&self, index: usize) -> &dyn Endpoint<Header = T::Header> {
        match self.hosts.get(index) {
            Some(host) => host,
            None => self.control.as_ref().expect("a control node"),
        }
    }
    fn endpoint_mut(&mut self, index: usize) -> &mut dyn Endpoint<Header = T::Header> {
        match self.hosts.get_mut(index) {
            Some(host) => host,
            None => self.control.as_mut().expect("a control node"),
        }
    }
    fn node_of(&self, index: usize) -> NodeId {
        self.network.endpoints().nth(index).expect("an endpoint")
    }
    fn index_of(&self, node: NodeId) -> usize {
        self.network.endpoints().position(|id| id == node).expect("packets go to endpoints")
    }

    fn schedule(&mut self, at: Time, step: Step) {
        assert!(at >= self.now, "{at} is in the past");
        self.scheduled += 1;
        self.steps.insert((at, self.scheduled), step);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Open(flow) => {
                let node = self.index_of(flow.src);
                let now = self.now;
                self.endpoint_mut(node).open(now, &flow);
                self.serve_node(node);
            }
            Step::AtSwitch(id) => {
                let egress = self.endpoints() + self.index_of(self.pool[id].dst);
                self.enqueue(egress, id);
                self.serve(egress);
            }
            Step::Arrive(id) => {
                let packet = self.pool[id];
                self.pool.remove(id);
                let node = self.index_of(packet.dst);
                let now = self.now;
                self.endpoint_mut(node).handle_packet(now, &packet);
                self.serve_node(node);
            }
            Step::Free(egress) => {
                self.egresses[egress].busy = false;
                self.serve(egress);
            }
            Step::Look(egress) => self.serve(egress),
        }
    }

    /// Does what a driver does after it has called an endpoint.
    fn serve_node(&mut self, node: usize) {
        while let Some(event) = self.endpoint_mut(node).poll_event() {
            self.record(self.node_of(node), event);
        }
        if T::NIC == Nic::Queued {
            while let Some(packet) = self.poll_transmit(node) {
                let id = self.pool.insert(packet);
                self.enqueue(node, id);
            }
        }
        self.serve(node);
    }

    fn poll_transmit(&mut self, node: usize) -> Option<Packet<T::Header>> {
        let now = self.now;
        let packet = self.endpoint_mut(node).poll_transmit(now)?;
        assert_eq!(packet.src, self.node_of(node), "a node sends in its own name");
        assert_ne!(packet.dst, packet.src, "a node does not send to itself");
        assert!(packet.size_bytes >= self.setup.wire.control.get() as u32);
        Some(packet)
    }

    fn record(&mut self, node: NodeId, event: Event) {
        self.events.push((self.now, node, event));
        let (Event::Delivered { flow, .. }
        | Event::Received { flow }
        | Event::Acknowledged { flow }
        | Event::Aborted { flow, .. }
        | Event::TimedOut { flow, .. }) = event;
        let delivery = self.flows.get_mut(&flow).expect("events name flows that were opened");
        let at_source = matches!(event, Event::Acknowledged { .. } | Event::Aborted { .. } | Event::TimedOut { .. });
        let end = if at_source { delivery.flow.src } else { delivery.flow.dst };
        assert_eq!(node, end, "{event:?} belongs to the other end");
        match event {
            Event::Delivered { offset, bytes, .. } => delivery.deliver(offset.get(), bytes.get()),
            Event::Received { .. } => {
                assert_eq!(delivery.bytes, delivery.flow.size, "flow {} was not complete", flow.0);
                assert!(delivery.received.replace(self.now).is_none(), "flow {} received twice", flow.0);
            }
            Event::TimedOut { .. } => assert!(delivery.acknowledged.is_none(), "flow {} timed out when it was over", flow.0),
            Event::Acknowledged { .. } => {
                assert!(delivery.received.is_some(), "flow {} acknowledged before it was received", flow.0);
                assert!(delivery.acknowledged.replace(self.now).is_none(), "flow {} acknowledged twice", flow.0);
            }
            Event::Aborted { .. } => {
                assert!(delivery.acknowledged.is_none(), "flow {} aborted after it was acknowledged", flow.0);
                assert!(delivery.aborted.replace(self.now).is_none(), "flow {} aborted twice", flow.0);
            }
        }
    }

    /// Gives a port what it needs for one call, and accounts for the call's effects.
    fn with_port<R>(
        &mut self,
        egress: usize,
        call: impl FnOnce(&mut T::Port, &mut PortCall<'_, T::Header, <T::Port as Discipline<T::Header>>::Shared>) -> R,
    ) -> R {
        let Egress { port, node, number, waiting, .. } = &mut self.egresses[egress];
        let mut lent = PortCall {
            now: self.now,
            pool: &mut self.pool,
            shared: &mut self.shared[*node],
            number: *number,
            ingress: PortNumber::LOCAL,
            rate: self.setup.rate,
            effects: &mut self.effects,
        };
        let result = call(port, &mut lent);
        for (id, why) in self.effects.dropped.drain(..) {
            *waiting -= 1;
            self.dropped.push((self.now, self.pool[id].flow, why));
            self.pool.remove(id);
        }
        let first =
            if egress < self.hosts.len() + usize::from(self.control.is_some()) { egress } else { self.shared.len() - 1 };
        for port in std::mem::take(&mut self.effects.woken) {
            self.schedule(self.now, Step::Look(first + usize::from(port.0)));
        }
        self.effects.trimmed.clear();
        result
    }

    fn enqueue(&mut self, egress: usize, id: PacketId) {
        self.egresses[egress].waiting += 1;
        self.with_port(egress, |port, call| port.enqueue(call, id));
    }

    /// Lets a port send if it can. A pulled NIC gets its next packet only now.
    fn serve(&mut self, egress: usize) {
        if self.egresses[egress].busy {
            return;
        }
        if egress < self.endpoints() && T::NIC == Nic::Pulled && self.egresses[egress].waiting == 0 {
            match self.poll_transmit(egress) {
                Some(packet) => {
                    let id = self.pool.insert(packet);
                    self.enqueue(egress, id);
                }
                None => return,
            }
        }
        match self.with_port(egress, Discipline::dequeue) {
            Dequeue::Packet(id) => self.transmit(egress, id),
            Dequeue::Idle => assert_eq!(self.egresses[egress].waiting, 0, "a port holds packets but sends none"),
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => {
                assert!(at > self.now, "a port asks for an instant later than now");
                self.schedule(at, Step::Look(egress));
            }
        }
    }

    fn transmit(&mut self, egress: usize, id: PacketId) {
        let packet = self.pool[id];
        let takes = self.setup.rate.transmit_time(packet.size());
        self.egresses[egress].busy = true;
        self.egresses[egress].waiting -= 1;
        self.schedule(self.now + takes, Step::Free(egress));
        let far = self.now + self.setup.delay / 2;
        if egress >= self.endpoints() {
            self.schedule(far + takes, Step::Arrive(id));
            return;
        }
        let mut sent = SentPacket { at: self.now, packet, fate: Fate::Pass };
        sent.fate = (self.hook)(&sent);
        match sent.fate {
            Fate::Pass => self.schedule(far, Step::AtSwitch(id)),
            Fate::Drop => self.pool.remove(id),
            Fate::Delay(by) => self.schedule(far + by, Step::AtSwitch(id)),
            Fate::Duplicate(by) => {
                let copy = self.pool.insert(packet);
                self.schedule(far, Step::AtSwitch(id));
                self.schedule(far + by, Step::AtSwitch(copy));
            }
        }
        if self.setup.log {
            self.sent.push(sent);
        }
    }
}
