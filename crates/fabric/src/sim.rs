//! A run: endpoints on top of the data plane, and the event loop.

use std::sync::Arc;

use flowloom_core::driver::{self, Attachment};
use flowloom_core::{
    AbortReason, Discipline, DropReason, Duration, Endpoint, Event, Flow, FlowId, Link, LinkId, Memory, Network, Nic, NodeId,
    NodeKind, Packet, PacketId, Paths, Placement, PortSite, Readings, Routing, Site, Time, Transport, WireProfile,
};

use crate::calendar::{Calendar, PAYLOADS_MAX};
use crate::counted::Counted;
use crate::followers::{Followers, Successor};
use crate::observer::Observer;
use crate::outage::Outage;
use crate::plane::Plane;
use crate::report::{ControlCounters, FlowRecord, PortView, Report, Violation};
use crate::routing::Routes;
use crate::seed::{Purpose, stream_seed};
use crate::sources::{INDICES_MAX, Kind};

/// The name of the extra host that control endpoints run on ([`Placement::ExtraHost`]). It comes after all other nodes.
pub const CONTROL_HOST: &str = "arbiter";

/// The parameters of a run besides its transport and flows.
#[derive(Clone, Debug)]
pub struct SimSetup {
    /// The network, for which [`Network::check`] must succeed. The simulator adds the control host if the transport needs one.
    pub network: Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The buffer memory of ports and switches.
    pub memory: Memory,
    /// The choice among equal-cost paths.
    pub routing: Routing,
    /// The seed from which every random stream is derived.
    pub seed: u64,
    /// Events after this time are not handled. The limit is [`Time::LAST`] at most.
    pub time_limit: Time,
}

impl SimSetup {
    /// Adds what a transport needs to the network, and computes its paths.
    pub fn routed(self, placement: Placement) -> RoutedSetup {
        let SimSetup { network, wire, memory, routing, seed, time_limit } = self;
        let paths = Paths::new(with_control_host(network.into(), placement), routing, seed);
        RoutedSetup { paths, wire, memory, seed, time_limit }
    }
}

/// A [`SimSetup`] whose paths are known. It never changes, so runs can share it, and copies are cheap.
#[derive(Clone)]
pub struct RoutedSetup {
    /// The paths, and the network as the run has it: see [`with_control_host`].
    pub paths: Paths,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The buffer memory of ports and switches.
    pub memory: Memory,
    /// The seed from which every random stream is derived.
    pub seed: u64,
    /// Events after this time are not handled. The limit is [`Time::LAST`] at most.
    pub time_limit: Time,
}

/// The network that a transport runs on: if its control endpoints are on an extra host, one with the control host.
pub fn with_control_host(mut network: Arc<Network>, placement: Placement) -> Arc<Network> {
    if placement == Placement::ExtraHost {
        Arc::make_mut(&mut network).add_control_host(CONTROL_HOST);
    }
    network
}

/// The progress of a run between steps, as a watchdog needs it.
#[derive(Clone, Copy, Debug)]
pub struct Vitals {
    /// When the last event was handled.
    pub now: Time,
    /// The number of events handled.
    pub events: u64,
    /// Flows that have started and are not over. Background flows do not count.
    pub open: usize,
    /// Flows that are over: acknowledged or aborted. Background flows do not count.
    pub over: usize,
    /// Whether the run has background flows.
    pub background: bool,
    /// When the number of open flows last rose from zero, and how many events had been handled by then.
    pub busy_since: (Time, u64),
}

/// Which endpoint runs on a node.
#[derive(Clone, Copy)]
enum NodeRole {
    Host,
    Control(u32),
    Forwarder,
    /// A host that is down.
    DownHost,
    /// This control endpoint is down.
    DownControl(u32),
}

/// One run of one transport. `P` is the discipline of its ports, possibly wrapped; `O` is an observer.
pub struct Sim<T: Transport, P: Discipline<T::Header> = <T as Transport>::Port, O: Observer<T::Header> = ()> {
    config: T::Config,
    wire: WireProfile,
    seed: u64,
    plane: Plane<T::Header, P, O>,
    hosts: Vec<T::Host>,
    controls: Vec<Counted<T::Control>>,
    roles: Vec<NodeRole>,
    flows: Vec<Flow>,
    /// The first `arrivals` flows have a start time of their own; the others wait for a predecessor.
    arrivals: usize,
    next_flow: usize,
    /// The number of flows, without background flows.
    awaited: usize,
    /// How many of these have started.
    opened: usize,
    busy_since: (Time, u64),
    time_limit: Time,
    /// Events after this time are not handled in this step. It is the time limit or earlier.
    pause: Time,
    /// Whether a flow was opened in this step while no other was open.
    woke: bool,
    /// Whether the run goes on when every flow is acknowledged.
    until_idle: bool,
    events: u64,
}

impl<T: Transport, O: Observer<T::Header>> Sim<T, T::Port, O> {
    /// A run of `flows`, which must be sorted by (start, id) and have their indices as ids. A flow whose start is [`Time::MAX`] waits for
    /// another one: see [`Sim::with_successors`].
    pub fn new(config: &T::Config, setup: SimSetup, flows: Vec<Flow>, observer: O) -> Self {
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
        setup: SimSetup,
        flows: Vec<Flow>,
        observer: O,
        wrap: impl FnMut(T::Port, &PortSite<'_>) -> P,
    ) -> Self {
        Self::over(config, setup.routed(T::placement(config)), flows, observer, wrap)
    }

    /// As [`Sim::with_ports`], over paths that are known.
    ///
    /// # Panics
    /// If the transport needs a control host, and the network has none.
    pub fn over(
        config: &T::Config,
        setup: RoutedSetup,
        flows: Vec<Flow>,
        observer: O,
        mut wrap: impl FnMut(T::Port, &PortSite<'_>) -> P,
    ) -> Self {
        assert!(flows.iter().enumerate().all(|(index, flow)| flow.id.0 as usize == index), "a flow's id is its index");
        assert!(flows.is_sorted_by_key(|flow| flow.start), "flows are sorted by start");
        let RoutedSetup { paths, wire, memory, seed, time_limit } = setup;
        let network = paths.network().clone();
        let placement = T::placement(config);
        assert!(placement != Placement::ExtraHost || network.control_host().is_some(), "{} has no control host", T::NAME);
        let routes = Routes::new(paths, seed);
        let site = |node: NodeId| site(node, routes.paths(), wire, stream_seed(seed, Purpose::Endpoint, u64::from(node.0)));
        let mut roles = Vec::with_capacity(network.len());
        let (mut hosts, mut controls) = (Vec::new(), Vec::new());
        for node in network.node_ids() {
            roles.push(match network.node(node).kind {
                NodeKind::Host => {
                    hosts.push(T::host(config, &site(node)));
                    NodeRole::Host
                }
                NodeKind::Switch if placement != Placement::Switches => NodeRole::Forwarder,
                NodeKind::Switch | NodeKind::ControlHost => {
                    controls.push(Counted::new(T::control(config, &site(node))));
                    NodeRole::Control(controls.len() as u32 - 1)
                }
            });
        }
        let ports = (0..network.links().len() as u32)
            .map(|link| {
                let link = LinkId(link);
                let memory = memory.at(network.node(network.link(link).from).kind);
                let seed = stream_seed(seed, Purpose::Port, u64::from(link.0));
                let site = PortSite { link, network: &network, wire, memory, seed };
                wrap(T::port(config, &site), &site)
            })
            .collect();
        let shared = network.node_ids().map(|node| T::shared(config, &site(node))).collect();
        assert!(network.links().len().max(network.len()) <= INDICES_MAX, "a network has at most 2 million links");
        let calendar = Calendar::new(horizon(&network, &wire), pending(&network, &wire), stream_seed(seed, Purpose::Ties, 0));
        let plane = Plane::new(network, routes, ports, shared, &flows, calendar, observer);
        let arrivals = flows.partition_point(|flow| flow.start < Time::MAX);
        let time_limit = time_limit.min(Time::LAST);
        let mut sim = Sim {
            config: config.clone(),
            wire,
            seed,
            awaited: plane.unfinished,
            plane,
            hosts,
            controls,
            roles,
            flows,
            arrivals,
            next_flow: 0,
            opened: 0,
            busy_since: (Time::ZERO, 0),
            time_limit,
            pause: time_limit,
            woke: false,
            until_idle: false,
            events: 0,
        };
        sim.start_endpoints();
        sim.schedule_next_flow();
        sim
    }

    /// Makes flows wait for others (closed loops). `successors` holds for each flow the one that starts after it was received, if any.
    ///
    /// # Panics
    /// If a successor has a start time of its own, has a think time of zero or follows two flows, or if more than 2^24 flows wait.
    pub fn with_successors(mut self, successors: Vec<Option<Successor>>) -> Self {
        let waiting = self.flows.len() - self.arrivals;
        assert!(waiting <= PAYLOADS_MAX, "at most {PAYLOADS_MAX} flows can wait for others");
        let mut awaited = vec![false; waiting];
        for Successor { flow, think } in successors.iter().flatten() {
            assert!(*think > Duration::ZERO, "{flow:?} would start without delay");
            let index = (flow.0 as usize).checked_sub(self.arrivals).expect("a successor has no start of its own");
            assert!(!std::mem::replace(&mut awaited[index], true), "{flow:?} follows two flows");
        }
        self.plane.followers = Followers { successors, first: self.arrivals as u32 };
        self
    }

    /// Makes the run go on until no event is left, also when every flow is acknowledged.
    pub fn until_idle(mut self) -> Self {
        self.until_idle = true;
        self
    }

    /// Adds a flow while the run pauses or before it starts. The flow starts at its start time.
    ///
    /// # Panics
    /// If the flow's id is not the number of flows so far, or its start is before the last event, or more than 2^24 flows wait.
    pub fn add_flow(&mut self, flow: Flow) {
        assert_eq!(flow.id.0 as usize, self.flows.len(), "flow ids are 0, 1, 2, …");
        assert!(flow.start >= self.now(), "a flow cannot start at {}: the time is {}", flow.start, self.now());
        let payload = self.plane.followers.payload(flow.id);
        assert!((payload as usize) < PAYLOADS_MAX, "at most {PAYLOADS_MAX} flows can wait");
        // As with a successor, it has a start only once it has started.
        self.flows.push(Flow { start: Time::MAX, ..flow });
        self.awaited += usize::from(!flow.background);
        self.plane.add_flow(&flow);
        self.plane.ports.link_layer.calendar.rewind(self.plane.ports.link_layer.now);
        self.plane.ports.link_layer.calendar.schedule(flow.start, Kind::Follow.source(), payload);
    }

    /// Makes nodes go down for a while. Packets for a node that is down are dropped, and its timers are void; when it comes up, it has a new
    /// endpoint. When a host goes down, its open flows and those to it are aborted. The other end of such a flow is not told, as on a real
    /// network, and goes on until it gives up by itself. Flows that start at a host while it is down are aborted at once.
    ///
    /// # Panics
    /// If a node has no endpoint, an outage does not end after it begins, or two outages of a node touch each other.
    pub fn with_outages(mut self, outages: &[Outage]) -> Self {
        let mut sorted = outages.to_vec();
        sorted.sort_by_key(|outage| (outage.node, outage.from));
        for pair in sorted.windows(2) {
            assert!(pair[0].node != pair[1].node || pair[0].to < pair[1].from, "{pair:?} touch each other");
        }
        for outage in sorted {
            let Outage { node, from, to } = outage;
            let has_endpoint = matches!(self.roles[node.index()], NodeRole::Host | NodeRole::Control(_));
            assert!(from < to, "{outage:?} has no duration");
            assert!(has_endpoint, "{outage:?}: there is no endpoint");
            for (at, what) in [(from, Outage::DOWN), (to, Outage::UP)] {
                self.plane.ports.link_layer.calendar.schedule(at, Kind::Outage(node).source(), what);
            }
        }
        self
    }

    /// Pauses the run after all events up to `at`.
    pub fn pause_at(&mut self, at: Time) {
        self.pause = at.min(self.time_limit);
    }

    /// The time of the next pause, or the time limit if that is earlier.
    pub fn pause(&self) -> Time {
        self.pause
    }

    /// Whether the run is over, where [`Sim::step`] has returned false: every flow but background flows is over, no event is left, or the
    /// time limit is reached.
    pub fn is_over(&self) -> bool {
        self.is_done() || self.has_no_event() || self.pause == self.time_limit
    }

    /// Whether the flows no longer keep the run going.
    #[inline]
    fn is_done(&self) -> bool {
        self.plane.unfinished == 0 && !self.until_idle
    }

    /// When the next event is, while the run pauses or before it starts. Events without effect count.
    pub fn next_event(&mut self) -> Option<Time> {
        self.plane.ports.link_layer.calendar.peek(Time::MAX).map(|(at, ..)| at)
    }

    /// Whether no event is left.
    pub fn has_no_event(&self) -> bool {
        self.plane.ports.link_layer.calendar.is_empty()
    }

    /// Handles up to `budget` events, or fewer if a flow is opened while no other is open. Returns false if the run is over
    /// ([`Sim::is_over`]) or pauses.
    pub fn step(&mut self, budget: u64) -> bool {
        let (pause, mut left) = (self.pause, budget);
        let going = loop {
            if left == 0 {
                break true;
            }
            if self.is_done() {
                break false;
            }
            let Some((now, source, payload)) = self.plane.ports.link_layer.calendar.pop(pause) else {
                break false;
            };
            self.plane.ports.link_layer.now = now;
            left -= 1;
            match Kind::of(source) {
                Kind::Arrival(link) => {
                    if let Some((node, id)) = self.plane.arrive(link, PacketId::from_index(payload)) {
                        self.deliver(link, node, id);
                    }
                }
                Kind::Service(link) => {
                    if let Some(node) = self.plane.serve_event(link)
                        && T::NIC == Nic::Pulled
                    {
                        self.refill_nic(node);
                    }
                }
                Kind::Timer(node) => {
                    if self.plane.timer_event(node) {
                        self.wake(node);
                    }
                }
                Kind::Start => {
                    self.open_flows();
                    if self.woke {
                        break true;
                    }
                }
                Kind::Follow => {
                    self.open(self.plane.followers.flow(payload).0 as usize);
                    if self.woke {
                        break true;
                    }
                }
                Kind::Outage(node) if payload == Outage::DOWN => self.take_down(node),
                Kind::Outage(node) => self.bring_up(node),
            }
        };
        self.events += budget - left;
        if std::mem::take(&mut self.woke) {
            self.busy_since = (self.plane.ports.link_layer.now, self.events);
        }
        going
    }

    /// Removes the next events up to `limit` for as long as they have no effect: stale ones, and timers that the endpoint has stopped. The
    /// time of a run that has become idle is then that of its last effect.
    #[cold]
    pub(crate) fn skip_void_events(&mut self, limit: Time) {
        while let Some((at, source, _)) = self.plane.ports.link_layer.calendar.peek(limit) {
            let void = match Kind::of(source) {
                Kind::Service(link) => self.plane.is_stale_service(link, at),
                Kind::Timer(node) => self.plane.is_stale_timer(node, at) || self.poll_timeout(node).is_none(),
                Kind::Arrival(_) | Kind::Outage(_) | Kind::Start | Kind::Follow => false,
            };
            if !void {
                break;
            }
            self.plane.ports.link_layer.calendar.pop(limit);
            if let Kind::Timer(node) = Kind::of(source) {
                self.plane.forget_timer(node, at);
            }
        }
    }

    fn poll_timeout(&self, node: NodeId) -> Option<Time> {
        match self.roles[node.index()] {
            NodeRole::Host => self.hosts[node.index()].poll_timeout(),
            NodeRole::Control(index) => self.controls[index as usize].poll_timeout(),
            NodeRole::Forwarder | NodeRole::DownHost | NodeRole::DownControl(_) => None,
        }
    }

    /// When the last event was handled.
    pub fn now(&self) -> Time {
        self.plane.ports.link_layer.now
    }

    /// The network, including the control host if the transport has one.
    pub fn network(&self) -> &Network {
        &self.plane.ports.link_layer.network
    }

    /// The endpoint of a host.
    pub fn host(&self, index: usize) -> &T::Host {
        &self.hosts[index]
    }

    /// The disciplines of all ports, by link.
    pub fn ports(&self) -> impl Iterator<Item = &P> {
        self.plane.ports.disciplines()
    }

    /// The control endpoint on a node, if there is one.
    pub fn control(&self, node: NodeId) -> Option<&T::Control> {
        match self.roles[node.index()] {
            NodeRole::Control(index) => Some(&self.controls[index as usize].endpoint),
            _ => None,
        }
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.plane.ports.link_layer.observer
    }

    /// The observer, to take something from it.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.plane.ports.link_layer.observer
    }

    /// How many packets are in the network.
    pub fn packets(&self) -> usize {
        self.plane.ports.link_layer.pool.len()
    }

    /// The port of a link as it is now.
    pub fn port(&self, link: LinkId) -> PortView<'_> {
        self.plane.port(link)
    }

    /// Calls `visit` with each packet that is queued at the port of a link, in any order.
    pub fn each_queued(&self, link: LinkId, mut visit: impl FnMut(&Packet<T::Header>)) {
        let pool = &self.plane.ports.link_layer.pool;
        self.plane.ports.each_queued(link, pool, &mut |id| visit(&pool[id]));
    }

    /// A flow, and what has become of it so far.
    pub fn flow(&self, flow: FlowId) -> (&Flow, &FlowRecord) {
        let index = flow.0 as usize;
        (&self.flows[index], &self.plane.ports.link_layer.records[index])
    }

    /// What both ends of a flow tell of it now; an end that is down tells nothing.
    pub fn gauge(&self, flow: &Flow, readings: &mut Readings<'_>) {
        for end in [flow.src, flow.dst] {
            if let NodeRole::Host = self.roles[end.index()] {
                self.hosts[end.index()].gauge(self.now(), flow.id, readings);
            }
        }
    }

    /// The progress of the run: the share of flows that are over, the current time, and the packets sent by all ports.
    pub fn progress(&self) -> (f64, Time, u64) {
        let done = self.awaited - self.plane.unfinished;
        let share = if self.awaited == 0 { 1.0 } else { done as f64 / self.awaited as f64 };
        (share, self.plane.ports.link_layer.now, self.plane.ports.link_layer.packet_hops)
    }

    /// The state of the run, for a watchdog.
    pub fn vitals(&self) -> Vitals {
        let over = self.awaited - self.plane.unfinished;
        let (now, events) = (self.plane.ports.link_layer.now, self.events);
        let background = !self.plane.background.is_empty();
        Vitals { now, events, open: self.opened - over, over, background, busy_since: self.busy_since }
    }

    /// Payload bytes that receivers have reported as new: those of background flows while nothing else is open, and otherwise those of all
    /// other flows. It takes a sum over all flow records.
    #[cold]
    #[inline(never)]
    pub fn delivered_bytes(&self) -> u64 {
        let background = self.vitals().open == 0;
        let flows =
            self.flows.iter().zip(&self.plane.ports.link_layer.records).filter(|(flow, _)| flow.background == background);
        flows.map(|(_, record)| record.delivered_bytes).sum()
    }

    /// Ends the run and returns its report and observer.
    ///
    /// # Errors
    /// If conservation is violated, in which case the numbers of the run mean nothing. For each flow, payload sent and duplicated must
    /// equal payload arrived, dropped and in flight. The delivered bytes of a completed flow must equal its size.
    pub fn finish(mut self) -> Result<(Report, O), Violation> {
        let ports = self.plane.counters();
        self.forget_repetitions();
        self.check_conservation()?;
        let controls = self.control_counters();
        let not_started = self.awaited - self.opened;
        let (flows, records) = self.started();
        let report = Report {
            network: self.plane.ports.link_layer.network,
            not_started,
            flows,
            records,
            ports,
            controls,
            packet_hops: self.plane.ports.link_layer.packet_hops,
            data_packets: self.plane.data_packets,
            events: self.events,
            end: self.plane.ports.link_layer.now,
        };
        Ok((report, self.plane.ports.link_layer.observer))
    }

    fn control_counters(&self) -> Vec<ControlCounters> {
        let counters = |(node, role): (NodeId, &NodeRole)| match *role {
            NodeRole::Control(index) | NodeRole::DownControl(index) => {
                let Counted { received, sent, known_flows_peak, .. } = self.controls[index as usize];
                Some(ControlCounters { node, received, sent, known_flows_peak })
            }
            NodeRole::Host | NodeRole::DownHost | NodeRole::Forwarder => None,
        };
        (0..).map(NodeId).zip(&self.roles).filter_map(counters).collect()
    }

    /// A host that was down reports bytes as new that it had received before. Here, each byte of a flow counts once.
    fn forget_repetitions(&mut self) {
        let restarted = &self.plane.restarted;
        if restarted.is_empty() {
            return;
        }
        for (flow, record) in self.flows.iter().zip(&mut self.plane.ports.link_layer.records) {
            if restarted.contains(&flow.dst) {
                record.delivered_bytes = record.delivered_bytes.min(flow.size.get());
            }
        }
    }

    /// The flows that have started, in the order of start time and id, and their records.
    fn started(&mut self) -> (Vec<Flow>, Vec<FlowRecord>) {
        let (mut flows, mut records) =
            (std::mem::take(&mut self.flows), std::mem::take(&mut self.plane.ports.link_layer.records));
        let waited = flows.len() > self.arrivals;
        flows.drain(self.next_flow..self.arrivals);
        records.drain(self.next_flow..self.arrivals);
        if !waited {
            return (flows, records); // without a copy: there may be a hundred million flows
        }
        let pairs = flows.into_iter().zip(records);
        let mut started: Vec<(Flow, FlowRecord)> = pairs.filter(|(flow, _)| flow.start < Time::MAX).collect();
        started.sort_by_key(|(flow, _)| (flow.start, flow.id));
        started.into_iter().unzip()
    }

    pub(crate) fn check_conservation(&self) -> Result<(), Violation> {
        let mut in_flight = vec![0u64; self.flows.len()];
        for packet in self.plane.ports.link_layer.pool.packets().filter(|packet| packet.payload_bytes > 0) {
            in_flight[packet.flow.0 as usize] += u64::from(packet.payload_bytes);
        }
        for ((flow, record), in_flight) in self.flows.iter().zip(&self.plane.ports.link_layer.records).zip(in_flight) {
            let put_in = record.sent_bytes + record.duplicated_bytes;
            let accounted = record.arrived_bytes + record.dropped_bytes + in_flight;
            if put_in != accounted {
                return Err(Violation::Bytes(format!(
                    "{put_in} payload bytes of flow {flow:?} entered the network, but {accounted} arrived, \
                     were dropped or are in flight: {record:?}"
                )));
            }
            let again = self.plane.received_again == Some(flow.id) || record.delivered_bytes > flow.size.get();
            if record.received != Time::MAX && again {
                return Err(Violation::Forgotten(format!(
                    "flow {} of {} was received completely at {}, and later some of its bytes were received again: all packets of its sender \
                     were lost or late for longer than its receiver remembers finished flows",
                    flow.id.0, flow.size, record.received
                )));
            }
            if record.received != Time::MAX && record.delivered_bytes != flow.size.get() {
                return Err(Violation::Bytes(format!(
                    "flow {flow:?} is complete, but its delivered bytes are not its size: {record:?}"
                )));
            }
            if record.delivered_bytes > record.arrived_bytes {
                return Err(Violation::Bytes(format!("more bytes of flow {flow:?} were delivered than arrived: {record:?}")));
            }
        }
        Ok(())
    }

    /// Sets the timers that endpoints have from their creation on.
    fn start_endpoints(&mut self) {
        for node in (0..self.roles.len() as u32).map(NodeId) {
            self.start_endpoint(node);
        }
    }

    fn start_endpoint(&mut self, node: NodeId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host => driver::start(&self.hosts[node.index()], attached),
            NodeRole::Control(index) => driver::start(&self.controls[index as usize], attached),
            NodeRole::Forwarder | NodeRole::DownHost | NodeRole::DownControl(_) => {}
        }
    }

    fn schedule_next_flow(&mut self) {
        if let Some(flow) = self.flows[..self.arrivals].get(self.next_flow) {
            self.plane.ports.link_layer.calendar.schedule(flow.start, Kind::Start.source(), 0);
        }
    }

    /// Opens every flow that starts now.
    #[inline(never)]
    fn open_flows(&mut self) {
        let now = self.plane.ports.link_layer.now;
        while self.flows[..self.arrivals].get(self.next_flow).is_some_and(|flow| flow.start <= now) {
            self.next_flow += 1;
            self.open(self.next_flow - 1);
        }
        self.schedule_next_flow();
    }

    /// Opens a flow at its source.
    #[inline(never)]
    fn open(&mut self, index: usize) {
        let now = self.plane.ports.link_layer.now;
        self.flows[index].start = now;
        let flow = self.flows[index];
        if !flow.background {
            self.woke |= self.vitals().open == 0;
            self.opened += 1;
        }
        self.plane.ports.link_layer.observer.flow_opened(now, &flow);
        if let NodeRole::DownHost = self.roles[flow.src.index()] {
            return self.plane.record(flow.src, &Event::Aborted { flow: flow.id, reason: AbortReason::NodeDown });
        }
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node: flow.src };
        driver::open(&mut self.hosts[flow.src.index()], attached, &flow);
    }

    /// Takes down a node's endpoint, and aborts the flows that it is an end of.
    #[cold]
    fn take_down(&mut self, node: NodeId) {
        let role = &mut self.roles[node.index()];
        *role = match *role {
            NodeRole::Host => NodeRole::DownHost,
            NodeRole::Control(index) => NodeRole::DownControl(index),
            NodeRole::Forwarder | NodeRole::DownHost | NodeRole::DownControl(_) => unreachable!("{node:?} is not up"),
        };
        self.plane.cancel_timer(node);
        for index in 0..self.flows.len() {
            let Flow { id, src, dst, start, .. } = self.flows[index];
            let started = if index < self.arrivals { index < self.next_flow } else { start < Time::MAX };
            if started && (src == node || dst == node) && !self.plane.ports.link_layer.records[index].is_over() {
                self.plane.record(src, &Event::Aborted { flow: id, reason: AbortReason::NodeDown });
            }
        }
    }

    /// Gives a node a new endpoint. It draws from a new random stream.
    #[cold]
    fn bring_up(&mut self, node: NodeId) {
        let restarted = &mut self.plane.restarted;
        restarted.push(node);
        let times = restarted.iter().filter(|other| **other == node).count() as u64;
        let seed = stream_seed(self.seed, Purpose::Endpoint, times << 32 | u64::from(node.0));
        let site = site(node, self.plane.ports.link_layer.paths(), self.wire, seed);
        self.roles[node.index()] = match self.roles[node.index()] {
            NodeRole::DownHost => {
                self.hosts[node.index()] = T::host(&self.config, &site);
                NodeRole::Host
            }
            NodeRole::DownControl(index) => {
                self.controls[index as usize].endpoint = T::control(&self.config, &site);
                NodeRole::Control(index)
            }
            NodeRole::Host | NodeRole::Control(_) | NodeRole::Forwarder => unreachable!("{node:?} is not down"),
        };
        self.start_endpoint(node);
    }

    #[inline]
    fn deliver(&mut self, link: LinkId, node: NodeId, id: PacketId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host => driver::deliver(&mut self.hosts[node.index()], attached, id),
            NodeRole::Control(index) => driver::deliver(&mut self.controls[index as usize], attached, id),
            NodeRole::Forwarder => self.plane.ports.drop_packet(link, id, DropReason::Unclaimed),
            NodeRole::DownHost | NodeRole::DownControl(_) => self.plane.ports.drop_packet(link, id, DropReason::NodeDown),
        }
    }

    fn wake(&mut self, node: NodeId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host => driver::wake(&mut self.hosts[node.index()], attached),
            NodeRole::Control(index) => driver::wake(&mut self.controls[index as usize], attached),
            NodeRole::Forwarder | NodeRole::DownHost | NodeRole::DownControl(_) => {
                unreachable!("only endpoints that are up have timers")
            }
        }
    }

    /// After the port of a NIC was served: takes the next packet from its endpoint ([`Nic::Pulled`]).
    #[inline]
    fn refill_nic(&mut self, node: NodeId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host => driver::refill(&mut self.hosts[node.index()], attached),
            NodeRole::Control(index) => driver::refill(&mut self.controls[index as usize], attached),
            NodeRole::Forwarder => unreachable!("a switch has no NIC"),
            NodeRole::DownHost | NodeRole::DownControl(_) => {}
        }
    }
}

/// What surrounds the endpoint of a node.
struct Attached<'a, T: Transport, P: Discipline<T::Header>, O: Observer<T::Header>> {
    plane: &'a mut Plane<T::Header, P, O>,
    node: NodeId,
}

impl<T: Transport, P: Discipline<T::Header>, O: Observer<T::Header>> Attachment<T::Header> for Attached<'_, T, P, O> {
    type Arrival = PacketId;

    #[inline(always)]
    fn now(&self) -> Time {
        self.plane.ports.link_layer.now
    }

    #[inline(always)]
    fn packet(&self, arrival: PacketId) -> &Packet<T::Header> {
        &self.plane.ports.link_layer.pool[arrival]
    }

    #[inline(always)]
    fn consume(&mut self, arrival: PacketId) {
        self.plane.consume(self.node, arrival);
    }

    #[inline(always)]
    fn report(&mut self, event: &Event) {
        self.plane.record(self.node, event);
    }

    /// With [`Nic::Pulled`], a NIC takes a packet only while it is free.
    #[inline(always)]
    fn takes_packet(&mut self) -> bool {
        if T::NIC == Nic::Pulled
            && let Some(nic) = self.plane.nic(self.node)
            && !self.plane.ports.wants_packet(nic)
        {
            self.plane.ports.schedule_pull(nic);
            return false;
        }
        true
    }

    #[inline(always)]
    fn send(&mut self, packet: Packet<T::Header>) {
        self.plane.inject(self.node, packet);
    }

    #[inline(always)]
    fn set_timer(&mut self, wanted: Option<Time>) {
        if let Some(wanted) = wanted {
            self.plane.set_timer(self.node, wanted);
        }
    }
}

/// What an endpoint at `node` may know.
fn site(node: NodeId, paths: &Paths, wire: WireProfile, seed: u64) -> Site<'_> {
    let reorders = paths.reorders();
    let known = !reorders || paths.routing() == Routing::SprayLabelled;
    Site { node, network: paths.network(), wire, seed, reorders, paths: known.then_some(paths) }
}

/// Nearly all events of links and ports are scheduled less than this ahead: twice the time of a full packet on the slowest link.
fn horizon(network: &Network, wire: &WireProfile) -> Duration {
    let hop = network.links().iter().map(|link| link.delay + link.rate.transmit_time(wire.full)).max();
    hop.unwrap_or_default() * 2
}

/// The number of events in the queue when every link is busy with full packets: the arrivals of the packets on the links, and the next
/// service of each port.
fn pending(network: &Network, wire: &WireProfile) -> usize {
    let on_link = |link: &Link| link.delay.as_ps() / link.rate.transmit_time(wire.full).as_ps().max(1);
    network.links().iter().map(|link| on_link(link) as usize + 2).sum()
}
