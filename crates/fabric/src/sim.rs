//! A run, in one region or several.

use std::sync::Arc;
use std::time::Instant;

use flowloom_core::{
    Bytes, Discipline, Duration, Flow, FlowId, Link, LinkId, Memory, Network, NodeId, Packet, Paths, Placement, PortSite,
    Readings, Routing, Switching, Time, Transport, WireProfile,
};

use crate::calendar::PAYLOADS_MAX;
use crate::observer::Observer;
use crate::outage::Outage;
use crate::region::Region;
use crate::regions::{Crew, Message, Outbox, Pace, Partition, Place, RegionId, Shift, Worker, each};
use crate::report::{FlowRecord, PortView, Report, Violation};
use crate::sources::INDICES_MAX;
use crate::tasks::Tasks;

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

/// The windows of time in which regions run on their own, and wait for each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows {
    /// How many had an event.
    pub count: u64,
    /// The events of the region with the most in each window, added up. If events took equally long and waiting nothing, threads would take as many times less than one thread as this is less than
    /// all events.
    pub events: u64,
    /// What crossed from one region to another.
    pub messages: u64,
}

/// One run of one transport. `P` is the discipline of its ports, possibly wrapped; `O` is an observer.
///
/// A run may be divided into regions, which can have threads of their own ([`Sim::over_regions`]). What happens does not depend on how many there are.
pub struct Sim<T: Transport, P: Discipline<T::Header> = <T as Transport>::Port, O: Observer<T::Header> = ()> {
    regions: Vec<Region<T, P, O>>,
    /// `None` if there is one region.
    partition: Option<Arc<Partition>>,
    /// An event in one region has an effect on another after more than this.
    reach: Duration,
    /// How long a run goes on when its last flow is over: as long as a header takes on the slowest link, with the link's delay. No region reaches further ahead of the others.
    grace: Duration,
    network: Arc<Network>,
    /// The size of the smallest packet.
    shortest: Bytes,
    /// How many flows and other tasks there are.
    flows: usize,
    time_limit: Time,
    /// Events after this time are not handled in this step. It is the time limit or earlier.
    pause: Time,
    /// Whether the run goes on when every flow is acknowledged.
    until_idle: bool,
    /// When the number of open flows last rose from zero, as far as windows tell, if there are several regions.
    busy_since: (Time, u64),
    /// Whether a flow was open when the last window began.
    busy: bool,
    pace: Pace,
    windows: Windows,
}

impl<T: Transport, O: Observer<T::Header>> Sim<T, T::Port, O> {
    /// A run of `flows`, which must be sorted by (start, id) and have their indices as ids. [`Sim::with_tasks`] adds flows that wait for others.
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
        wrap: impl Fn(T::Port, &PortSite<'_>) -> P + Sync,
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
        wrap: impl Fn(T::Port, &PortSite<'_>) -> P + Sync,
    ) -> Self {
        Self::over_regions(config, setup, flows, vec![observer], wrap)
    }

    /// As [`Sim::over`], in as many regions as there are observers, each of which sees what happens in one. In a step, each region has a thread, unless one thread
    /// for all was faster of late. `wrap` is called for each port
    /// once per region, and only one of the ports that it returns is used.
    ///
    /// # Panics
    /// As [`Sim::over`], and if there are no observers, or more than [`REGIONS_MAX`].
    pub fn over_regions(
        config: &T::Config,
        setup: RoutedSetup,
        flows: Vec<Flow>,
        observers: Vec<O>,
        wrap: impl Fn(T::Port, &PortSite<'_>) -> P + Sync,
    ) -> Self {
        assert!(flows.iter().enumerate().all(|(index, flow)| flow.id.0 as usize == index), "a flow's id is its index");
        assert!(flows.is_sorted_by_key(|flow| flow.start), "flows are sorted by start");
        let network = setup.paths.network().clone();
        let placement = T::placement(config);
        assert!(placement != Placement::ExtraHost || network.control_host().is_some(), "{} has no control host", T::NAME);
        assert!(network.links().len().max(network.len()) <= INDICES_MAX, "a network has at most 2 million links");
        assert!((1..=REGIONS_MAX).contains(&observers.len()), "a run has 1 to {REGIONS_MAX} regions");
        let partition = (observers.len() > 1).then(|| Arc::new(Partition::of(&network, observers.len())));
        let shortest = T::shortest(config, &setup.wire);
        let (reach, grace) = spans(&network, partition.as_deref(), shortest);
        let time_limit = setup.time_limit.min(Time::LAST);
        let count = flows.len();
        let flows = std::iter::repeat_n(flows, observers.len()); // the last region takes them, and the others copies
        let regions = (0..).zip(flows.zip(observers)).collect();
        let region = |(number, (flows, observer))| {
            let place = partition.as_ref().map_or(Place::WHOLE, |partition| Place::of(partition, number));
            Region::new(config, setup.clone(), place, flows, observer, &wrap)
        };
        Sim {
            regions: each(regions, region),
            partition,
            reach,
            grace,
            network,
            shortest,
            flows: count,
            time_limit,
            pause: time_limit,
            until_idle: false,
            busy_since: (Time::ZERO, 0),
            busy: false,
            pace: Pace::default(),
            windows: Windows::default(),
        }
    }

    /// Adds tasks: flows that start when others are over.
    ///
    /// # Panics
    /// If there are more than 2^24.
    pub fn with_tasks(mut self, tasks: Arc<dyn Tasks>) -> Self {
        assert!(tasks.count() <= PAYLOADS_MAX, "a run has at most {PAYLOADS_MAX} tasks");
        self.flows += tasks.count();
        self.reach = self.reach.min(just_below(tasks.shortest_news()));
        let lag = self.grace;
        self.regions.iter_mut().for_each(|region| region.take_tasks(Arc::clone(&tasks), lag));
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
    /// If the flow's id is not the number of flows so far, or its start is before the last event, or the run has tasks, or more than 2^24 flows are added.
    pub fn add_flow(&mut self, flow: Flow) {
        assert_eq!(flow.id.0 as usize, self.flows, "flow ids are 0, 1, 2, …");
        assert!(flow.start >= self.now(), "a flow cannot start at {}: the time is {}", flow.start, self.now());
        assert!(
            self.regions[0].added().is_some_and(|added| added < PAYLOADS_MAX),
            "at most {PAYLOADS_MAX} flows can be added, and none to tasks"
        );
        self.flows += 1;
        self.regions.iter_mut().for_each(|region| region.add_flow(flow));
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
        for outage in &sorted {
            assert!(outage.from < outage.to, "{outage:?} has no duration");
            assert!(self.region(outage.node).has_endpoint(outage.node), "{outage:?}: there is no endpoint");
        }
        self.regions.iter_mut().for_each(|region| region.take_outages(&sorted));
        self
    }

    /// Gives all switches new routes at these instants, after everything else that happens then, as when they have noticed that a link is dead or has come back. Links have the rates of the
    /// network that the paths are in from then on. Endpoints are not told.
    ///
    /// # Panics
    /// If the paths are in a network that differs in more than rates.
    pub fn with_reroutes(mut self, reroutes: &[(Time, Paths)]) -> Self {
        let same = |paths: &Paths| paths.network().links().len() == self.network.links().len();
        assert!(reroutes.iter().all(|(_, paths)| same(paths)), "routes are in the network of the run");
        for network in reroutes.iter().map(|(_, paths)| paths.network()) {
            let (reach, grace) = spans(network, self.partition.as_deref(), self.shortest);
            (self.reach, self.grace) = (self.reach.min(reach), self.grace.max(grace));
        }
        self.regions.iter_mut().for_each(|region| region.take_reroutes(reroutes));
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

    /// Whether the run is over, where [`Sim::step`] has returned false: every flow but background flows has been over for the time that a header takes on the slowest link, no event is
    /// left, or the time limit is reached.
    pub fn is_over(&self) -> bool {
        let end = self.grace().filter(|_| self.unfinished() == 0).map_or(self.time_limit, |grace| self.over_at() + grace);
        self.pause >= end.min(self.time_limit) || self.has_no_event()
    }

    /// When a flow was last over.
    fn over_at(&self) -> Time {
        self.regions.iter().map(Region::over_at).max().expect("a run has a region")
    }

    /// How long the run goes on when all flows are over, if it ends then.
    fn grace(&self) -> Option<Duration> {
        (!self.until_idle).then_some(self.grace)
    }

    fn unfinished(&self) -> usize {
        self.regions.iter().map(Region::unfinished).sum()
    }

    fn events(&self) -> u64 {
        self.regions.iter().fold(0, |sum, region| sum + region.vitals().events)
    }

    /// When the next event is, while the run pauses or before it starts. Events without effect count.
    pub fn next_event(&self) -> Option<Time> {
        self.regions.iter().map(Region::next_time).min().filter(|next| *next < Time::MAX)
    }

    /// Whether no event is left.
    pub fn has_no_event(&self) -> bool {
        self.next_event().is_none()
    }

    /// Handles up to `budget` events, or fewer if a flow is opened while no other is open. With several regions, it handles at least as many, and ends
    /// with the window in which it has. Returns false if the run is over ([`Sim::is_over`]) or pauses.
    pub fn step(&mut self, budget: u64) -> bool {
        let grace = self.grace();
        if let [region] = &mut self.regions[..] {
            return region.step(self.pause, grace, budget, true);
        }
        self.step_regions(budget)
    }

    /// As [`Sim::step`], for several regions. [`Pace`] divides it by how long events take on this machine, so that where it does may show nowhere.
    #[cold]
    #[inline(never)]
    fn step_regions(&mut self, budget: u64) -> bool {
        let events = self.events().saturating_add(budget);
        loop {
            let left = events.saturating_sub(self.events());
            if left == 0 {
                return true;
            }
            if !self.stretch(left) {
                return false;
            }
        }
    }

    /// A part of a step, in threads or in turn: `budget` events or fewer, and the rest of the window. Returns false if the run is over or pauses.
    fn stretch(&mut self, budget: u64) -> bool {
        let (in_threads, budget) = self.pace.choose(budget);
        let before = self.events();
        let events = before.saturating_add(budget);
        let crew = Crew { reach: self.reach, until: self.pause, grace: self.grace(), events };
        let (mut began, mut busy, mut busy_since) = (self.now(), self.busy, self.busy_since);
        let mut windows = self.windows;
        // Threads have started when they have reported for the first time.
        let mut begin = None;
        let after = |all: Shift| {
            begin.get_or_insert_with(Instant::now);
            windows.count += u64::from(all.latest > 0);
            windows.events += all.latest;
            windows.messages += all.sent;
            if all.open > 0 && !busy {
                busy_since = (began, all.events);
            }
            (began, busy) = (all.next, all.open > 0);
        };
        if in_threads {
            crew.run(&mut self.regions, after);
        } else {
            crew.run_in_turn(&mut self.regions, after);
        }
        let taken = begin.expect("regions report before the first window").elapsed();
        self.pace.note(taken, self.events() - before);
        (self.busy, self.busy_since, self.windows) = (busy, busy_since, windows);
        self.settle();
        self.events() >= events
    }

    /// Brings what was counted at the end of a link in another region to the link's port.
    fn settle(&mut self) {
        let Some(partition) = &self.partition else { return };
        for link in partition.cut() {
            let Link { from, to, .. } = *self.network.link(*link);
            let counters = self.regions[usize::from(partition.region(to))].take_counters(*link);
            self.regions[usize::from(partition.region(from))].add_counters(*link, &counters);
        }
    }

    /// As [`Region::skip_void_events`], for a run in one region.
    #[cold]
    pub(crate) fn skip_void_events(&mut self, limit: Time) {
        self.only_mut().skip_void_events(limit);
    }

    /// The only region.
    fn only_mut(&mut self) -> &mut Region<T, P, O> {
        assert_eq!(self.regions.len(), 1, "this is for runs in one region");
        &mut self.regions[0]
    }

    fn region_of(&self, node: NodeId) -> RegionId {
        self.partition.as_ref().map_or(0, |partition| partition.region(node))
    }

    fn region(&self, node: NodeId) -> &Region<T, P, O> {
        &self.regions[usize::from(self.region_of(node))]
    }

    /// The region that has the port of a link.
    fn region_with(&self, link: LinkId) -> &Region<T, P, O> {
        self.region(self.network.link(link).from)
    }

    /// When the last event was handled.
    pub fn now(&self) -> Time {
        self.regions.iter().map(Region::now).max().expect("a run has a region")
    }

    /// The network, including the control host if the transport has one.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The endpoint of a host.
    pub fn host(&self, index: usize) -> &T::Host {
        self.region(NodeId(index as u32)).host(index)
    }

    /// The disciplines of all ports, by link.
    pub fn ports(&self) -> impl Iterator<Item = &P> {
        (0..self.network.links().len() as u32).map(LinkId).map(|link| self.region_with(link).discipline(link))
    }

    /// The control endpoint on a node, if there is one.
    pub fn control(&self, node: NodeId) -> Option<&T::Control> {
        self.region(node).control(node)
    }

    /// The observer of a run in one region.
    pub fn observer(&self) -> &O {
        assert_eq!(self.regions.len(), 1, "this is for runs in one region");
        self.regions[0].observer()
    }

    /// As [`Sim::observer`], to change it.
    pub fn observer_mut(&mut self) -> &mut O {
        self.only_mut().observer_mut()
    }

    /// The observer of each region.
    pub fn observers(&self) -> impl Iterator<Item = &O> {
        self.regions.iter().map(Region::observer)
    }

    /// The observer of each region, to take something from it.
    pub fn observers_mut(&mut self) -> impl Iterator<Item = &mut O> {
        self.regions.iter_mut().map(Region::observer_mut)
    }

    /// How many packets are in the network.
    pub fn packets(&self) -> usize {
        self.regions.iter().map(Region::packets).sum()
    }

    /// The port of a link as it is now.
    pub fn port(&self, link: LinkId) -> PortView<'_> {
        self.region_with(link).port(link)
    }

    /// Calls `visit` with each packet that is queued at the port of a link, in any order.
    pub fn each_queued(&self, link: LinkId, visit: impl FnMut(&Packet<T::Header>)) {
        self.region_with(link).each_queued(link, visit);
    }

    /// A flow, and what has become of it so far.
    pub fn flow(&self, flow: FlowId) -> (Flow, FlowRecord) {
        let mut record = FlowRecord::NEW;
        self.regions.iter().for_each(|region| record.join(&region.flow(flow).1));
        (self.region(self.regions[0].flow(flow).0.src).flow(flow).0, record)
    }

    /// What both ends of a flow tell of it now; an end that is down tells nothing.
    pub fn gauge(&self, flow: &Flow, readings: &mut Readings<'_>) {
        let now = self.now();
        self.region(flow.src).gauge(now, flow.src, flow.id, readings);
        self.region(flow.dst).gauge(now, flow.dst, flow.id, readings);
    }

    /// The progress of the run: the share of flows that are over, the current time, and the packets sent by all ports.
    pub fn progress(&self) -> (f64, Time, u64) {
        let Vitals { over, now, .. } = self.vitals();
        let awaited = over + self.unfinished();
        let share = if awaited == 0 { 1.0 } else { over as f64 / awaited as f64 };
        (share, now, self.regions.iter().map(Region::packet_hops).sum())
    }

    /// The state of the run, for a watchdog.
    pub fn vitals(&self) -> Vitals {
        let mut all = self.regions[0].vitals();
        if self.regions.len() > 1 {
            all.busy_since = self.busy_since;
        }
        for vitals in self.regions[1..].iter().map(Region::vitals) {
            all.now = all.now.max(vitals.now);
            all.events += vitals.events;
            all.open += vitals.open;
            all.over += vitals.over;
        }
        all
    }

    /// The windows of a run in several regions so far.
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// Payload bytes that receivers have reported as new: those of background flows while nothing else is open, and otherwise those of all
    /// other flows. It takes a sum over all flow records.
    pub fn delivered_bytes(&self) -> u64 {
        let background = self.vitals().open == 0;
        self.regions.iter().map(|region| region.delivered_bytes(background)).sum()
    }

    /// Ends the run and returns its report and observer.
    ///
    /// # Errors
    /// If conservation is violated, in which case the numbers of the run mean nothing. For each flow, payload sent and duplicated must
    /// equal payload arrived, dropped and in flight. The delivered bytes of a completed flow must equal its size.
    pub fn finish(self) -> Result<(Report, O), Violation> {
        let (report, mut observers) = self.finish_regions()?;
        Ok((report, observers.swap_remove(0)))
    }

    /// As [`Sim::finish`], with the observers of all regions in their order.
    ///
    /// # Errors
    /// As [`Sim::finish`].
    pub fn finish_regions(self) -> Result<(Report, Vec<O>), Violation> {
        let end = self.now();
        let mut remains = each(self.regions, |region| region.finish(end)).into_iter();
        let mut first = remains.next().expect("a run has a region");
        let others: Vec<O> = remains.map(|other| first.join(other)).collect();
        let (report, observer) = first.report(self.network, end)?;
        Ok((report, std::iter::once(observer).chain(others).collect()))
    }

    pub(crate) fn check_conservation(&mut self) -> Result<(), Violation> {
        self.only_mut().check_conservation()
    }
}

/// The most regions of a run.
pub const REGIONS_MAX: usize = 1000;

/// The least time in which a packet has an effect at the end of a link: the link's delay, and the transmission of a header, or of a packet of the `shortest` size.
pub fn crossing_time(network: &Network, shortest: Bytes) -> impl Fn(&Link) -> Duration + use<> {
    let header = match network.switching() {
        Switching::CutThrough { header } => header.min(shortest),
        Switching::StoreAndForward => shortest,
    };
    move |link| link.delay + link.rate.transmit_time(header)
}

/// `reach` and `grace` of a [`Sim`] in a network.
fn spans(network: &Network, partition: Option<&Partition>, shortest: Bytes) -> (Duration, Duration) {
    let crossing = crossing_time(network, shortest);
    let grace = network.links().iter().map(&crossing).max().unwrap_or_default();
    let cut = partition.iter().flat_map(|partition| partition.cut());
    (cut.map(|link| just_below(crossing(network.link(*link)))).min().unwrap_or(grace), grace)
}

fn just_below(span: Duration) -> Duration {
    Duration::from_ps(span.as_ps().saturating_sub(1))
}

impl<T, P, O> Worker for Region<T, P, O>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    O: Observer<T::Header>,
{
    type Header = T::Header;

    fn take(&mut self, messages: &mut Vec<Message<T::Header>>) {
        self.take(messages);
    }

    fn work(&mut self, until: Time) {
        self.step(until, None, u64::MAX, false);
    }

    fn report(&mut self) -> Shift {
        let (first_due, sent) = self.outbox().take_news();
        let next = self.next_time().min(first_due);
        let Vitals { open, events, .. } = self.vitals();
        let latest = self.take_events();
        Shift { next, unfinished: self.unfinished() as u64, over_at: self.over_at(), open: open as u64, events, latest, sent }
    }

    fn outbox(&mut self) -> &mut Outbox<T::Header> {
        self.outbox()
    }
}
