//! A region of a run: endpoints on top of the data plane, and the event loop.

use std::sync::Arc;

use flowloom_core::driver::{self, Attachment};
use flowloom_core::{
    AbortReason, Discipline, DropReason, Duration, Endpoint, Event, Flow, FlowId, Link, LinkId, Network, Nic, NodeId, NodeKind,
    Packet, PacketId, Paths, Placement, PortSite, Readings, Routing, Site, Time, Transport, WireProfile,
};

use crate::calendar::{Calendar, Payload};
use crate::counted::Counted;
use crate::observer::Observer;
use crate::outage::Outage;
use crate::plane::Plane;
use crate::regions::{Message, Outbox, Place};
use crate::remains::{Remains, check_conservation};
use crate::report::{ControlCounters, FlowRecord, PortCounters, PortView, Violation};
use crate::routing::Routes;
use crate::seed::{Purpose, stream_seed};
use crate::sim::{RoutedSetup, Vitals};
use crate::sources::Kind;
use crate::tasks::{Task, Tasks, Waits};

/// Which endpoint runs on a node.
#[derive(Clone, Copy)]
enum NodeRole {
    Host(u32),
    Control(u32),
    Forwarder,
    /// It is in another region.
    Away,
    /// This host is down.
    DownHost(u32),
    /// This control endpoint is down.
    DownControl(u32),
}

/// The part of a run of one transport that one region simulates: its nodes, the ports of their links, and the flows from them. `P` is the discipline of its ports, possibly wrapped; `O` is an
/// observer. Numbers of nodes, links and flows are those of the whole network, and what belongs to other regions is never touched.
pub(crate) struct Region<T: Transport, P: Discipline<T::Header>, O: Observer<T::Header>> {
    config: T::Config,
    wire: WireProfile,
    seed: u64,
    plane: Plane<T::Header, P, O>,
    hosts: Vec<T::Host>,
    controls: Vec<Counted<T::Control>>,
    roles: Vec<NodeRole>,
    /// The flows that have a start time of their own. Those of tasks are in [`Plane::waits`].
    flows: Vec<Flow>,
    next_flow: usize,
    /// The number of flows, without background flows.
    awaited: usize,
    /// How many of these have started.
    opened: usize,
    busy_since: (Time, u64),
    place: Place,
    /// Whether a flow was opened in this step while no other was open.
    woke: bool,
    /// The paths that packets take from the instants of [`Kind::Reroute`] on.
    reroutes: Vec<Paths>,
    /// As many events are left to this step.
    left: u64,
    /// Events after this are not handled in this step.
    until: Time,
    /// How long this step goes on when all flows are over, unless `until` says so already.
    grace: Option<Duration>,
    events: u64,
    /// As many of them were handled when it last told another one.
    told: u64,
}

impl<T, P, O> Region<T, P, O>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    O: Observer<T::Header>,
{
    /// The region `place` of a run of `flows`, all of which it is given.
    pub fn new(
        config: &T::Config,
        setup: RoutedSetup,
        place: Place,
        flows: Vec<Flow>,
        observer: O,
        wrap: &impl Fn(T::Port, &PortSite<'_>) -> P,
    ) -> Self {
        let RoutedSetup { paths, wire, memory, seed, .. } = setup;
        let network = paths.network().clone();
        let placement = T::placement(config);
        let routes = Routes::new(paths, seed);
        let site = |node: NodeId| site(node, routes.paths(), wire, stream_seed(seed, Purpose::Endpoint, u64::from(node.0)));
        let mut roles = Vec::with_capacity(network.len());
        let (mut hosts, mut controls) = (Vec::new(), Vec::new());
        for node in network.node_ids() {
            roles.push(match network.node(node).kind {
                _ if !place.is_here(node) => NodeRole::Away,
                NodeKind::Host => {
                    hosts.push(T::host(config, &site(node)));
                    NodeRole::Host(hosts.len() as u32 - 1)
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
        let calendar = Calendar::new(horizon(&network, &wire), pending(&network, &wire), stream_seed(seed, Purpose::Ties, 0));
        let plane = Plane::new(place.clone(), routes, ports, shared, &flows, calendar, observer);
        let mut region = Region {
            config: config.clone(),
            wire,
            seed,
            place,
            awaited: plane.unfinished,
            plane,
            hosts,
            controls,
            roles,
            flows,
            next_flow: 0,
            opened: 0,
            busy_since: (Time::ZERO, 0),
            woke: false,
            reroutes: Vec::new(),
            left: 0,
            until: Time::ZERO,
            grace: None,
            events: 0,
            told: 0,
        };
        region.start_endpoints();
        region.schedule_next_flow();
        region
    }

    /// Adds the tasks of the run: see [`Sim::with_tasks`](crate::Sim::with_tasks). It takes at least `lag` until other hosts learn that a flow was given up.
    pub fn take_tasks(&mut self, tasks: Arc<dyn Tasks>, lag: Duration) {
        self.plane.waits = Waits::new(Arc::clone(&tasks), self.flows.len(), lag);
        for (task, start) in tasks.starts() {
            if self.place.is_here(tasks.task(task).host()) {
                self.plane.begins_at(task, start);
            }
        }
        let ids = (0..tasks.count() as u32).map(|index| FlowId(self.flows.len() as u32 + index));
        let is_flow_from_here = |task: Task| matches!(task, Task::Flow(flow) if self.place.is_here(flow.src));
        let count = ids.filter(|id| is_flow_from_here(tasks.task(*id))).count();
        self.awaited += count;
        self.plane.unfinished += count;
    }

    /// Adds a flow: see [`Sim::add_flow`](crate::Sim::add_flow).
    pub fn add_flow(&mut self, flow: Flow) {
        let is_here = self.place.is_here(flow.src);
        let payload = self.plane.waits.add(&flow);
        self.awaited += usize::from(is_here && !flow.background);
        self.plane.add_flow(&flow, is_here);
        if is_here {
            let calendar = &mut self.plane.ports.link_layer.calendar;
            calendar.rewind(self.plane.ports.link_layer.now);
            calendar.schedule(flow.start, Kind::Follow.source(), payload);
        }
    }

    /// How many flows were added, unless there are tasks.
    pub fn added(&self) -> Option<usize> {
        (self.plane.waits.tasks().count() == 0).then(|| self.plane.waits.flows().len())
    }

    /// Whether a node has an endpoint here that is up.
    pub fn has_endpoint(&self, node: NodeId) -> bool {
        matches!(self.roles[node.index()], NodeRole::Host(_) | NodeRole::Control(_))
    }

    /// Makes nodes go down for a while: see [`Sim::with_outages`](crate::Sim::with_outages). Each region must know of all outages.
    pub fn take_outages(&mut self, outages: &[Outage]) {
        for Outage { node, from, to } in outages {
            for (at, what) in [(from, Outage::DOWN), (to, Outage::UP)] {
                self.plane.ports.link_layer.calendar.schedule(*at, Kind::Outage(*node).source(), what);
            }
        }
    }

    /// Makes switches get new routes: see [`Sim::with_reroutes`](crate::Sim::with_reroutes). Each region must know of all.
    pub fn take_reroutes(&mut self, reroutes: &[(Time, Paths)]) {
        for (number, (at, _)) in (0..).zip(reroutes) {
            self.plane.ports.link_layer.calendar.schedule(*at, Kind::Reroute.source(), number);
        }
        self.reroutes = reroutes.iter().map(|(_, paths)| paths.clone()).collect();
    }

    /// When the next event is, [`Time::MAX`] if there is none. Events without effect count.
    pub fn next_time(&self) -> Time {
        self.plane.ports.link_layer.calendar.next_time()
    }

    /// When a flow from here was last over.
    pub fn over_at(&self) -> Time {
        self.plane.over_at
    }

    /// Flows from here that are not over. Background flows do not count.
    pub fn unfinished(&self) -> usize {
        self.plane.unfinished
    }

    /// Handles up to `budget` events, none after `until`, and none later than `grace`, if it is given, after the last flow was over; `heeds` says whether it stops when a flow is
    /// opened while no other is open here. Returns false if no event is left that it may handle.
    #[inline(never)] // one loop of events, however many call it
    pub fn step(&mut self, until: Time, grace: Option<Duration>, budget: u64, heeds: bool) -> bool {
        // What the loop needs once per event stays out of its registers.
        (self.left, self.until, self.grace) = (budget, until, grace);
        self.heed_end();
        let going = loop {
            if self.left == 0 {
                break true;
            }
            let Some((now, source, payload)) = self.plane.ports.link_layer.calendar.pop(self.until) else {
                break false;
            };
            self.plane.ports.link_layer.now = now;
            self.left -= 1;
            match Kind::of(source) {
                Kind::Arrival(link) => match self.plane.arrive(link, PacketId::from_index(payload)) {
                    Some((node, id)) if id.is_none() => self.refill_nic(node),
                    Some((node, id)) => {
                        self.deliver(link, node, id);
                        self.heed_end();
                    }
                    None => {}
                },
                Kind::Service(link) => {
                    if let Some(node) = self.plane.serve_event(link) {
                        self.refill_nic(node);
                    }
                }
                Kind::Timer(node) => {
                    if self.plane.timer_event(node) {
                        self.wake(node);
                        self.heed_end();
                    }
                }
                kind => {
                    self.handle_seldom(kind, payload);
                    self.heed_end();
                    if self.woke && heeds {
                        break true;
                    }
                }
            }
        };
        self.events = self.events.wrapping_add(budget - self.left);
        if std::mem::take(&mut self.woke) {
            self.busy_since = (self.plane.ports.link_layer.now, self.events);
        }
        going
    }

    /// Handles an event of a kind that a run has few of.
    #[cold]
    #[inline(never)]
    fn handle_seldom(&mut self, kind: Kind, payload: Payload) {
        match kind {
            Kind::Start => {
                self.open_flows();
                self.do_not_count(self.place.number > 0);
            }
            Kind::Follow => {
                let begun = self.begin_task(payload);
                self.do_not_count(!begun);
            }
            Kind::Outage(node) => {
                self.do_not_count(self.place.number > 0);
                if payload == Outage::DOWN { self.take_down(node) } else { self.bring_up(node) }
            }
            Kind::Reroute => {
                self.do_not_count(self.place.number > 0);
                self.plane.reroute(self.reroutes[payload as usize].clone());
            }
            Kind::Alarm(link) => {
                if let Some(node) = self.plane.alarm_event(link) {
                    self.refill_nic(node);
                }
            }
            Kind::Arrival(_) | Kind::Service(_) | Kind::Timer(_) => unreachable!("these are handled in the loop"),
        }
    }

    /// Lets this step end a while after the last flow was over, if it is over.
    #[inline(always)]
    fn heed_end(&mut self) {
        if self.plane.unfinished == 0 {
            self.begin_grace();
        }
    }

    /// Lets this step end a while after the last flow was over, if runs end so.
    #[cold]
    #[inline(never)]
    fn begin_grace(&mut self) {
        if let Some(grace) = self.grace.take() {
            self.until = self.until.min(self.plane.over_at + grace);
        }
    }

    /// Leaves an event out of the count that one region would not have, or that another one counts: all have those of lists of flows and of outages.
    fn do_not_count(&mut self, extra: bool) {
        self.events = self.events.wrapping_sub(u64::from(extra));
    }

    /// Begins a task. Returns false if it has begun before.
    fn begin_task(&mut self, payload: Payload) -> bool {
        let now = self.now();
        match self.plane.waits.begin(payload, now) {
            None => return false,
            Some(Task::Join(host)) => self.plane.join(payload, host),
            Some(Task::Flow(flow)) => {
                self.plane.ports.link_layer.observer.flow_due(now, &flow);
                self.plane.begin(&flow);
                self.open(&flow);
            }
        }
        true
    }

    /// Removes the next events up to `limit` for as long as they have no effect: stale ones, and timers that the endpoint has stopped. The
    /// time of a run that has become idle is then that of its last effect.
    #[cold]
    pub(crate) fn skip_void_events(&mut self, limit: Time) {
        while let Some((at, source, _)) = self.plane.ports.link_layer.calendar.peek(limit) {
            let void = match Kind::of(source) {
                Kind::Service(link) => self.plane.is_stale_service(link, at),
                Kind::Timer(node) => self.plane.is_stale_timer(node, at) || self.poll_timeout(node).is_none(),
                Kind::Arrival(_) | Kind::Outage(_) | Kind::Reroute | Kind::Alarm(_) | Kind::Start | Kind::Follow => false,
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
            NodeRole::Host(index) => self.hosts[index as usize].poll_timeout(),
            NodeRole::Control(index) => self.controls[index as usize].poll_timeout(),
            NodeRole::Forwarder | NodeRole::Away | NodeRole::DownHost(_) | NodeRole::DownControl(_) => None,
        }
    }

    /// When the last event was handled.
    pub fn now(&self) -> Time {
        self.plane.ports.link_layer.now
    }

    /// The endpoint of a host that is here, and was when the run began.
    pub fn host(&self, index: usize) -> &T::Host {
        match self.roles[index] {
            NodeRole::Host(index) | NodeRole::DownHost(index) => &self.hosts[index as usize],
            _ => panic!("node {index} is no host of this region"),
        }
    }

    /// The discipline of a port that is here.
    pub fn discipline(&self, link: LinkId) -> &P {
        self.plane.ports.discipline(link)
    }

    /// Counters of a port that is elsewhere, which this region has kept because the port's link ends here. They are zero afterwards.
    pub fn take_counters(&mut self, link: LinkId) -> PortCounters {
        std::mem::take(self.plane.counters_mut(link))
    }

    /// Adds counters to those of a port.
    pub fn add_counters(&mut self, link: LinkId, more: &PortCounters) {
        self.plane.counters_mut(link).join(more);
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

    /// Takes what other regions have sent.
    pub fn take(&mut self, messages: &mut Vec<Message<T::Header>>) {
        messages.drain(..).for_each(|message| self.plane.take(message));
    }

    /// The events that were handled since the last call of this.
    pub fn take_events(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.told, self.events);
        self.events - before
    }

    /// What is to be sent to other regions.
    pub fn outbox(&mut self) -> &mut Outbox<T::Header> {
        &mut self.plane.ports.link_layer.outbox
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

    /// A flow, and what has become of it so far. That of a task has the start [`Time::MAX`] unless it has begun here.
    pub fn flow(&self, id: FlowId) -> (Flow, FlowRecord) {
        let flow = self.flows.get(id.0 as usize).copied().unwrap_or_else(|| self.plane.waits.flow(id));
        (flow, self.plane.ports.link_layer.records.get(id))
    }

    /// What an end of a flow that is here tells of it now; nothing if it is down.
    pub fn gauge(&self, now: Time, end: NodeId, flow: FlowId, readings: &mut Readings<'_>) {
        if let NodeRole::Host(index) = self.roles[end.index()] {
            self.hosts[index as usize].gauge(now, flow, readings);
        }
    }

    /// The number of packets that ports have sent.
    pub fn packet_hops(&self) -> u64 {
        self.plane.ports.link_layer.packet_hops
    }

    /// The state of the run here, for a watchdog.
    pub fn vitals(&self) -> Vitals {
        let over = self.awaited - self.plane.unfinished;
        let (now, events) = (self.plane.ports.link_layer.now, self.events);
        let background = !self.plane.background.is_empty();
        Vitals { now, events, open: self.opened - over, over, background, busy_since: self.busy_since }
    }

    /// Payload bytes of background flows, or of all others, that receivers here have reported as new.
    #[cold]
    #[inline(never)]
    pub fn delivered_bytes(&self, background: bool) -> u64 {
        let records = &self.plane.ports.link_layer.records;
        let behind: u64 = self.plane.background.iter().map(|flow| records.get(*flow).delivered_bytes).sum();
        if background { behind } else { records.0.iter().map(|record| record.delivered_bytes).sum::<u64>() - behind }
    }

    /// Checks that no byte of a flow was lost or invented: see [`Sim::finish`](crate::Sim::finish). There must be no other region.
    pub fn check_conservation(&self) -> Result<(), Violation> {
        let flows = self.flows.iter().chain(self.plane.waits.flows());
        let records = (0..).map(|id| self.plane.ports.link_layer.records.get(FlowId(id)));
        check_conservation(flows, records, &self.in_flight(), self.plane.received_again)
    }

    /// Payload bytes of each flow that are in the network here. Flows beyond the end have none.
    fn in_flight(&self) -> Vec<u64> {
        let mut in_flight = vec![0; self.plane.ports.link_layer.records.0.len()];
        for packet in self.plane.ports.link_layer.pool.packets().filter(|packet| packet.payload_bytes > 0) {
            let index = packet.flow.0 as usize;
            in_flight.resize(in_flight.len().max(index + 1), 0);
            in_flight[index] += u64::from(packet.payload_bytes);
        }
        in_flight
    }

    /// Ends a run that has lasted until `end`.
    pub fn finish(mut self, end: Time) -> Remains<O> {
        self.plane.ports.link_layer.now = end;
        let (in_flight, controls) = (self.in_flight(), self.control_counters());
        let (arrivals, mut flows) = (self.flows.len(), self.flows);
        flows.extend(self.plane.waits.flows()); // without tasks, they are not copied: there may be a hundred million
        Remains {
            in_flight,
            ports: self.plane.counters(),
            controls,
            not_started: self.awaited - self.opened,
            arrivals,
            flows,
            records: self.plane.ports.link_layer.records.0,
            next_flow: self.next_flow,
            packet_hops: self.plane.ports.link_layer.packet_hops,
            data_packets: self.plane.data_packets,
            events: self.events,
            received_again: self.plane.received_again,
            restarted: self.plane.restarted,
            observer: self.plane.ports.link_layer.observer,
        }
    }

    fn control_counters(&self) -> Vec<ControlCounters> {
        let counters = |(node, role): (NodeId, &NodeRole)| match *role {
            NodeRole::Control(index) | NodeRole::DownControl(index) => {
                let Counted { received, sent, known_flows_peak, .. } = self.controls[index as usize];
                Some(ControlCounters { node, received, sent, known_flows_peak })
            }
            NodeRole::Host(_) | NodeRole::DownHost(_) | NodeRole::Away | NodeRole::Forwarder => None,
        };
        (0..).map(NodeId).zip(&self.roles).filter_map(counters).collect()
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
            NodeRole::Host(index) => driver::start(&self.hosts[index as usize], attached),
            NodeRole::Control(index) => driver::start(&self.controls[index as usize], attached),
            NodeRole::Forwarder | NodeRole::Away | NodeRole::DownHost(_) | NodeRole::DownControl(_) => {}
        }
    }

    fn schedule_next_flow(&mut self) {
        if let Some(flow) = self.flows.get(self.next_flow) {
            self.plane.ports.link_layer.calendar.schedule(flow.start, Kind::Start.source(), 0);
        }
    }

    /// Opens every flow that starts now and here.
    #[inline(never)]
    fn open_flows(&mut self) {
        let now = self.plane.ports.link_layer.now;
        while let Some(flow) = self.flows.get(self.next_flow).copied().filter(|flow| flow.start <= now) {
            self.next_flow += 1;
            self.plane.ports.link_layer.observer.flow_due(now, &flow);
            if !matches!(self.roles[flow.src.index()], NodeRole::Away) {
                self.plane.begin(&flow);
                self.open(&flow);
            }
        }
        self.schedule_next_flow();
    }

    /// Opens a flow that starts now at its source.
    #[inline(never)]
    fn open(&mut self, flow: &Flow) {
        if !flow.background {
            self.woke |= self.vitals().open == 0;
            self.opened += 1;
        }
        self.plane.ports.link_layer.observer.flow_opened(self.now(), flow);
        let NodeRole::Host(host) = self.roles[flow.src.index()] else {
            return self.plane.record(flow.src, &Event::Aborted { flow: flow.id, reason: AbortReason::NodeDown });
        };
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node: flow.src };
        driver::open(&mut self.hosts[host as usize], attached, flow);
    }

    /// Takes down a node's endpoint, if it is here, and aborts the flows from here that it is an end of.
    #[cold]
    fn take_down(&mut self, node: NodeId) {
        let role = &mut self.roles[node.index()];
        *role = match *role {
            NodeRole::Host(index) => NodeRole::DownHost(index),
            NodeRole::Control(index) => NodeRole::DownControl(index),
            NodeRole::Away => NodeRole::Away,
            NodeRole::Forwarder | NodeRole::DownHost(_) | NodeRole::DownControl(_) => unreachable!("{node:?} is not up"),
        };
        self.plane.cancel_timer(node);
        let begun = self.plane.waits.flows().iter().filter(|flow| flow.start < Time::MAX);
        let concerned = |flow: &&Flow| self.place.is_here(flow.src) && (flow.src == node || flow.dst == node);
        let flows: Vec<Flow> = self.flows[..self.next_flow].iter().chain(begun).filter(concerned).copied().collect();
        for Flow { id, src, .. } in flows {
            if !self.plane.ports.link_layer.records.get(id).is_over() {
                self.plane.record(src, &Event::Aborted { flow: id, reason: AbortReason::NodeDown });
            }
        }
    }

    /// Gives a node a new endpoint, if it is here. It draws from a new random stream.
    #[cold]
    fn bring_up(&mut self, node: NodeId) {
        let restarted = &mut self.plane.restarted;
        restarted.push(node);
        let times = restarted.iter().filter(|other| **other == node).count() as u64;
        let seed = stream_seed(self.seed, Purpose::Endpoint, times << 32 | u64::from(node.0));
        let site = site(node, self.plane.ports.link_layer.paths(), self.wire, seed);
        self.roles[node.index()] = match self.roles[node.index()] {
            NodeRole::DownHost(index) => {
                self.hosts[index as usize] = T::host(&self.config, &site);
                NodeRole::Host(index)
            }
            NodeRole::DownControl(index) => {
                self.controls[index as usize].endpoint = T::control(&self.config, &site);
                NodeRole::Control(index)
            }
            NodeRole::Away => NodeRole::Away,
            NodeRole::Host(_) | NodeRole::Control(_) | NodeRole::Forwarder => unreachable!("{node:?} is not down"),
        };
        self.start_endpoint(node);
    }

    #[inline]
    fn deliver(&mut self, link: LinkId, node: NodeId, id: PacketId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host(index) => driver::deliver(&mut self.hosts[index as usize], attached, id),
            NodeRole::Control(index) => driver::deliver(&mut self.controls[index as usize], attached, id),
            NodeRole::Forwarder | NodeRole::Away => self.plane.ports.drop_packet(link, id, DropReason::Unclaimed),
            NodeRole::DownHost(_) | NodeRole::DownControl(_) => self.plane.ports.drop_packet(link, id, DropReason::NodeDown),
        }
    }

    fn wake(&mut self, node: NodeId) {
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host(index) => driver::wake(&mut self.hosts[index as usize], attached),
            NodeRole::Control(index) => driver::wake(&mut self.controls[index as usize], attached),
            NodeRole::Forwarder | NodeRole::Away | NodeRole::DownHost(_) | NodeRole::DownControl(_) => {
                unreachable!("only endpoints that are up have timers")
            }
        }
    }

    /// After the port of a NIC was served or has had a frame: takes the next packet from its endpoint, if it is one that takes them ([`Nic::Pulled`]).
    #[inline]
    fn refill_nic(&mut self, node: NodeId) {
        if T::NIC != Nic::Pulled {
            return;
        }
        let attached = Attached::<T, P, O> { plane: &mut self.plane, node };
        match self.roles[node.index()] {
            NodeRole::Host(index) => driver::refill(&mut self.hosts[index as usize], attached),
            NodeRole::Control(index) => driver::refill(&mut self.controls[index as usize], attached),
            NodeRole::Forwarder | NodeRole::Away => unreachable!("a node of this region that has a NIC"),
            NodeRole::DownHost(_) | NodeRole::DownControl(_) => {}
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
    fn closed(&self) -> u8 {
        if T::NIC != Nic::Pulled {
            return 0;
        }
        self.plane.nic(self.node).map_or(0, |nic| self.plane.ports.closed(nic))
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
    let known = paths.are_fixed() || paths.routing() == Routing::SprayLabelled;
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
