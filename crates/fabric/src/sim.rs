//! A run: endpoints on top of the data plane, and the loop that hands events to them.

use flowloom_core::{
    Bytes, Discipline, Endpoint, Event, Flow, LinkId, Network, Nic, NodeId, NodeKind, PacketId, Placement, PortSite, Site,
    Time, Transport, WireProfile,
};

use crate::calendar::Source;
use crate::observer::Observer;
use crate::plane::Plane;
use crate::report::Report;
use crate::routing::{Routes, Routing};
use crate::seed::{Purpose, stream_seed};

/// What a run needs besides a transport and flows.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The shape, checked; the control host is added here if the transport wants one.
    pub network: Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// Memory of each port.
    pub buffer: Bytes,
    /// The choice among equal paths.
    pub routing: Routing,
    /// Every random stream is derived from it.
    pub seed: u64,
    /// No event after this instant is handled.
    pub time_limit: Time,
}

/// Who lives on a node.
#[derive(Clone, Copy)]
enum Resident {
    Host,
    Control(u32),
    Nobody,
}

/// One run of one transport. `P` is its port, possibly wrapped; `O` looks on.
pub struct Sim<T: Transport, P: Discipline<T::Header> = <T as Transport>::Port, O = ()> {
    plane: Plane<T::Header, P, O>,
    hosts: Vec<T::Host>,
    controls: Vec<T::Control>,
    residents: Vec<Resident>,
    /// When each node's timer event is due, [`Time::MAX`] if none is pending. An event at any other time is stale.
    timers: Vec<Time>,
    flows: Vec<Flow>,
    next_flow: usize,
    unacknowledged: usize,
    time_limit: Time,
    events: u64,
    sources: Sources,
}

/// Event sources in order: a link's arrivals, a port's service, a node's timer, flow arrivals.
#[derive(Clone, Copy)]
struct Sources {
    links: Source,
    nodes: Source,
}

impl<T: Transport, O: Observer<T::Header>> Sim<T, T::Port, O> {
    /// A run of `flows`, which are sorted by (start, id) and whose ids are their indices.
    pub fn new(config: &T::Config, setup: Setup, flows: Vec<Flow>, observer: O) -> Self {
        Self::with_ports(config, setup, flows, observer, |port, _| port)
    }
}

impl<T, P, O> Sim<T, P, O>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    O: Observer<T::Header>,
{
    /// As [`Sim::new`], with each port wrapped by `wrap` (fault injection).
    pub fn with_ports(
        config: &T::Config,
        setup: Setup,
        flows: Vec<Flow>,
        observer: O,
        mut wrap: impl FnMut(T::Port, &PortSite<'_>) -> P,
    ) -> Self {
        assert!(flows.iter().enumerate().all(|(index, flow)| flow.id.0 as usize == index), "a flow's id is its index");
        assert!(flows.is_sorted_by_key(|flow| flow.start), "flows are sorted by start");
        let Setup { mut network, wire, buffer, routing, seed, time_limit } = setup;
        let placement = T::placement(config);
        if placement == Placement::ExtraHost {
            add_control_host(&mut network);
        }
        let site = |node| Site { node, network: &network, wire, seed: stream_seed(seed, Purpose::Endpoint, u64::from(node.0)) };
        let mut residents = Vec::with_capacity(network.len());
        let (mut hosts, mut controls) = (Vec::new(), Vec::new());
        for node in network.node_ids() {
            residents.push(match network.node(node).kind {
                NodeKind::Host => {
                    hosts.push(T::host(config, &site(node)));
                    Resident::Host
                }
                NodeKind::Switch if placement != Placement::Switches => Resident::Nobody,
                NodeKind::Switch | NodeKind::ControlHost => {
                    controls.push(T::control(config, &site(node)));
                    Resident::Control(controls.len() as u32 - 1)
                }
            });
        }
        let ports = (0..network.links().len() as u32)
            .map(|link| {
                let site = PortSite { link: LinkId(link), network: &network, wire, buffer };
                wrap(T::port(config, &site), &site)
            })
            .collect();
        let shared = network.node_ids().map(|node| T::shared(config, &site(node))).collect();
        let routes = Routes::new(&network, routing, seed);
        let timers = vec![Time::MAX; network.len()];
        let sources = Sources { links: network.links().len() as Source, nodes: network.len() as Source };
        let plane = Plane::new(network, routes, ports, shared, flows.len(), observer);
        let mut sim = Sim {
            plane,
            hosts,
            controls,
            residents,
            timers,
            unacknowledged: flows.len(),
            flows,
            next_flow: 0,
            time_limit,
            events: 0,
            sources,
        };
        sim.schedule_next_flow();
        sim
    }

    /// Handles up to `budget` events; false when the run is over: every flow acknowledged, nothing left to happen, or the
    /// time limit reached.
    pub fn step(&mut self, budget: u64) -> bool {
        let (links, nodes) = (self.sources.links, self.sources.nodes);
        for _ in 0..budget {
            if self.unacknowledged == 0 {
                return false;
            }
            let Some((now, source)) = self.plane.calendar.pop(self.time_limit) else {
                return false;
            };
            self.plane.now = now;
            self.events += 1;
            if source < links {
                if let Some((node, id)) = self.plane.arrive(LinkId(source)) {
                    self.deliver(node, id);
                }
            } else if source < 2 * links {
                let link = LinkId(source - links);
                if self.plane.serve_event(link) {
                    self.refill(link);
                }
            } else if source < 2 * links + nodes {
                self.wake(NodeId(source - 2 * links));
            } else {
                self.open_flows();
            }
        }
        true
    }

    /// How far the run is: the share of flows acknowledged, the present, and packets that left a port so far.
    pub fn progress(&self) -> (f64, Time, u64) {
        let done = self.flows.len() - self.unacknowledged;
        let share = if self.flows.is_empty() { 1.0 } else { done as f64 / self.flows.len() as f64 };
        (share, self.plane.now, self.plane.packet_hops)
    }

    /// Ends the run.
    ///
    /// # Errors
    /// Where conservation is violated: payload sent and duplicated = arrived + dropped + in flight, for each flow, and what
    /// was delivered of a completed flow = its size. Such a run's numbers mean nothing.
    pub fn finish(mut self) -> Result<(Report, O), String> {
        let ports = self.plane.counters();
        self.check_conservation()?;
        let report = Report {
            network: self.plane.network,
            flows: self.flows,
            records: self.plane.records,
            ports,
            packet_hops: self.plane.packet_hops,
            data_packets: self.plane.data_packets,
            events: self.events,
            end: self.plane.now,
        };
        Ok((report, self.plane.observer))
    }

    fn check_conservation(&self) -> Result<(), String> {
        let mut in_flight = vec![0u64; self.flows.len()];
        for packet in self.plane.pool.packets().filter(|packet| packet.payload_bytes > 0) {
            in_flight[packet.flow.0 as usize] += u64::from(packet.payload_bytes);
        }
        for ((flow, record), in_flight) in self.flows.iter().zip(&self.plane.records).zip(in_flight) {
            let put_in = record.sent_bytes + record.duplicated_bytes;
            let accounted = record.arrived_bytes + record.dropped_bytes + in_flight;
            if put_in != accounted {
                return Err(format!(
                    "conservation violated: flow {flow:?} put {put_in} bytes in, {accounted} are accounted for: {record:?}"
                ));
            }
            if record.received != Time::MAX && record.delivered_bytes != flow.size.get() {
                return Err(format!("conservation violated: flow {flow:?} is complete with {record:?}"));
            }
            if record.delivered_bytes > record.arrived_bytes {
                return Err(format!("conservation violated: flow {flow:?} delivered more than arrived: {record:?}"));
            }
        }
        Ok(())
    }

    fn schedule_next_flow(&mut self) {
        if let Some(flow) = self.flows.get(self.next_flow) {
            let source = 2 * self.sources.links + self.sources.nodes;
            self.plane.calendar.schedule(flow.start, source);
        }
    }

    /// Hands over every flow that starts now.
    fn open_flows(&mut self) {
        let now = self.plane.now;
        while let Some(flow) = self.flows.get(self.next_flow).filter(|flow| flow.start <= now).copied() {
            self.next_flow += 1;
            self.plane.observer.flow_opened(now, &flow);
            self.hosts[flow.src.index()].open(now, &flow);
            self.attend(flow.src);
        }
        self.schedule_next_flow();
    }

    #[inline]
    fn deliver(&mut self, node: NodeId, id: PacketId) {
        let (now, packet) = (self.plane.now, &self.plane.pool[id]);
        match self.residents[node.index()] {
            Resident::Host => self.hosts[node.index()].handle_packet(now, packet),
            Resident::Control(index) => self.controls[index as usize].handle_packet(now, packet),
            Resident::Nobody => panic!("a packet for switch {node:?}, where nobody lives"),
        }
        self.plane.consume(node, id);
        self.attend(node);
    }

    fn wake(&mut self, node: NodeId) {
        let now = self.plane.now;
        if self.timers[node.index()] != now {
            return;
        }
        self.timers[node.index()] = Time::MAX;
        match self.residents[node.index()] {
            Resident::Host => handle_due(&mut self.hosts[node.index()], now),
            Resident::Control(index) => handle_due(&mut self.controls[index as usize], now),
            Resident::Nobody => unreachable!("only endpoints have timers"),
        }
        self.attend(node);
    }

    /// A port has fallen idle; if its owner's endpoint feeds it by the packet, asks for the next one.
    #[inline]
    fn refill(&mut self, link: LinkId) {
        if T::NIC == Nic::Pulled {
            let node = self.plane.owner(link);
            if self.plane.nic(node).is_some() {
                self.pull(node);
            }
        }
    }

    /// After anything happened at an endpoint: takes its reports and packets, and sets its timer.
    #[inline]
    fn attend(&mut self, node: NodeId) {
        while let Some(event) = match self.residents[node.index()] {
            Resident::Host => self.hosts[node.index()].poll_event(),
            Resident::Control(index) => self.controls[index as usize].poll_event(),
            Resident::Nobody => None,
        } {
            self.record(node, &event);
        }
        self.pull(node);
    }

    /// Takes packets from an endpoint for as long as the network wants them, and sets its timer.
    #[inline]
    fn pull(&mut self, node: NodeId) {
        let wanted = match self.residents[node.index()] {
            Resident::Host => pull_from(&mut self.hosts[node.index()], &mut self.plane, node, T::NIC),
            Resident::Control(index) => pull_from(&mut self.controls[index as usize], &mut self.plane, node, T::NIC),
            Resident::Nobody => None,
        };
        if let Some(wanted) = wanted {
            self.set_timer(node, wanted);
        }
    }

    /// An event that is already pending earlier stays: when it comes, the endpoint is asked again.
    #[inline]
    fn set_timer(&mut self, node: NodeId, wanted: Time) {
        let pending = &mut self.timers[node.index()];
        if wanted < *pending {
            debug_assert!(wanted > self.plane.now, "a timer without delay at {node:?}");
            *pending = wanted;
            let source = 2 * self.sources.links + node.0;
            self.plane.calendar.schedule(wanted, source);
        }
    }

    fn record(&mut self, node: NodeId, event: &Event) {
        let now = self.plane.now;
        self.plane.observer.flow_event(now, node, event);
        match *event {
            Event::Delivered { flow, bytes, .. } => self.plane.records[flow.0 as usize].delivered_bytes += bytes.get(),
            Event::Received { flow } => {
                let record = &mut self.plane.records[flow.0 as usize];
                assert_eq!(record.received, Time::MAX, "{flow:?} is received once");
                record.received = now;
            }
            Event::Acknowledged { flow } => {
                let record = &mut self.plane.records[flow.0 as usize];
                assert_eq!(record.acknowledged, Time::MAX, "{flow:?} is acknowledged once");
                record.acknowledged = now;
                self.unacknowledged -= 1;
            }
        }
    }
}

#[inline]
fn handle_due<E: Endpoint>(endpoint: &mut E, now: Time) {
    if endpoint.poll_timeout().is_some_and(|due| due <= now) {
        endpoint.handle_timeout(now);
    }
}

/// Takes packets from an endpoint: by the packet, when its NIC is free, or all it has. Returns its next timeout.
#[inline]
fn pull_from<E, P, O>(endpoint: &mut E, plane: &mut Plane<E::Header, P, O>, node: NodeId, mode: Nic) -> Option<Time>
where
    E: Endpoint,
    P: Discipline<E::Header>,
    O: Observer<E::Header>,
{
    while endpoint.may_transmit() {
        if mode == Nic::Pulled
            && let Some(nic) = plane.nic(node)
            && !plane.wants_packet(nic)
        {
            plane.ask_later(nic);
            break;
        }
        let Some(packet) = endpoint.poll_transmit(plane.now) else { break };
        plane.inject(node, packet);
    }
    endpoint.poll_timeout()
}

/// One more host, beside the first switch and on a link like that of the first host.
fn add_control_host(network: &mut Network) {
    let first = *network.link(network.ports(NodeId(0))[0]);
    let control = network.add_control_host("arbiter");
    network.connect(control, first.to, first.rate, first.delay);
}
