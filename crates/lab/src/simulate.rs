//! From a plan to what its simulation leaves behind.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use flowloom_core::{
    Assembly, Bytes, Discipline, Duration, Flow, FlowId, LinkId, Network, Nic, NodeId, PartsOf, Pool, PoolFull, PortSite,
    Readings, Time, Transport,
};
use flowloom_fabric::{Faulty, FlowRecord, PortView, REGIONS_MAX, Report, Sim, Tasks, Windows, crossing_time};
use flowloom_transports::disciplines::{DataQueue, WatchesData};
use flowloom_transports::pfc::{OverPfc, PausableTransport, Pfc, Setting};
#[cfg(not(test))]
use flowloom_transports::{for_each_credit_transport, for_each_pausable_transport, for_each_transport};

use crate::changing::ChangingNetwork;
use crate::ideal::{self, Oracle};
use crate::observe::{Sampler, View};
use crate::parameters::Config;
use crate::plan::{Plan, Setup};
use crate::record::{AtEachHop, Before, Counted, Gaps, Pauses, Pending, Recorded, Recording};
use crate::sink::{FilePart, Sink};
use crate::trace::Traced;
use crate::watchdog::{EVENTS_PER_LOOK, Look, Stall, Watchdog};
use crate::{ScenarioError, catalogue, conservation, zero_loss};

// Unit tests simulate these two alone, so not all are compiled once more.
#[cfg(test)]
macro_rules! for_each_transport {
    ($apply:ident) => {
        $apply!(flowloom_transports::tcp::Dctcp)
    };
}
#[cfg(test)]
macro_rules! for_each_pausable_transport {
    ($apply:ident) => {
        $apply!(flowloom_transports::tcp::Dctcp)
    };
}
#[cfg(test)]
macro_rules! for_each_credit_transport {
    ($apply:ident) => {
        $apply!(flowloom_transports::expresspass::ExpressPass)
    };
}

/// Is called every few milliseconds with the share of flows that are done, the simulated time and the packet-hops so far. The run goes
/// on for as long as it returns true.
pub type Progress<'a> = dyn FnMut(f64, Time, u64) -> bool + 'a;

/// How a plan is run. None of this changes its results.
pub struct Execution<'a> {
    /// The most threads that one simulation is spread over; at least one. It uses no more than there are switches with hosts, and one if it records a trace, gaps at
    /// receivers or pauses, or the backlog of flows that wait for others.
    pub threads: usize,
    /// Is told how far it is.
    pub progress: &'a mut Progress<'a>,
    /// Takes what it records over its course.
    pub sink: &'a mut dyn Sink,
}

impl<'a> Execution<'a> {
    /// In one thread.
    pub fn new(progress: &'a mut Progress<'a>, sink: &'a mut dyn Sink) -> Execution<'a> {
        Execution { threads: 1, progress, sink }
    }
}

/// Why there are no results.
#[derive(Debug)]
pub enum RunError {
    /// The scenario is at fault.
    Scenario(ScenarioError),
    /// [`Progress`] returned false.
    Stopped,
    /// It makes no progress, or the simulator cannot go on.
    Failed(String),
}

impl std::error::Error for RunError {}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Scenario(error) => error.fmt(out),
            RunError::Stopped => out.write_str("the run was stopped"),
            RunError::Failed(message) => out.write_str(message),
        }
    }
}

impl From<ScenarioError> for RunError {
    fn from(error: ScenarioError) -> RunError {
        RunError::Scenario(error)
    }
}

/// What a simulation leaves behind, before any metric is computed.
pub struct Simulated {
    /// The plan that was run; the simulation has taken its flows.
    pub setup: Setup,
    /// What became of every flow, and the counters of every port.
    pub report: Report,
    /// What was recorded over the course of the run.
    pub recorded: Recorded,
    /// The windows of the threads, if there were several. They depend on how many.
    pub windows: Windows,
}

/// Runs a plan's flows with the plan's transport.
///
/// # Errors
/// If the run was stopped, makes no progress or needs more packets at once than the pool can hold, if conservation of bytes is violated, or if a
/// queue of data is longer than credits allow.
pub fn simulate(plan: Plan, execution: Execution<'_>) -> Result<Simulated, RunError> {
    catch_unwind(AssertUnwindSafe(|| simulate_by_name(plan, execution))).unwrap_or_else(|payload| {
        if !payload.is::<PoolFull>() {
            resume_unwind(payload);
        }
        let most = Pool::<()>::PACKETS_MAX;
        let message = format!("{most} packets are on their way at once, the most there can be; lower windows or fabric.buffer");
        Err(RunError::Failed(message))
    })
}

fn simulate_by_name(plan: Plan, execution: Execution<'_>) -> Result<Simulated, RunError> {
    macro_rules! over_pfc_by_name {
        ($($transport:ty),* $(,)?) => {
            match (&plan.setup.pfc, plan.setup.transport.name) {
                $((Some(pfc), <$transport as Transport>::NAME) => {
                    let pfc = pfc.clone();
                    return simulate_over_pfc::<$transport, { pulls::<$transport>() }>(plan, pfc, execution);
                })*
                _ => {}
            }
        };
    }
    for_each_pausable_transport!(over_pfc_by_name);
    macro_rules! under_credits_by_name {
        ($($transport:ty),* $(,)?) => {
            match plan.setup.transport.name {
                $(<$transport as Transport>::NAME => {
                    return simulate_under_credits::<$transport, { pulls::<$transport>() }>(plan, execution);
                })*
                _ => {}
            }
        };
    }
    for_each_credit_transport!(under_credits_by_name);
    macro_rules! by_name {
        ($($transport:ty),* $(,)?) => {
            match plan.setup.transport.name {
                $(<$transport as Transport>::NAME => {
                    let config = parameters::<<$transport as Transport>::Config>(&plan.setup).clone();
                    simulate_network::<$transport, _, { pulls::<$transport>() }>(plan, &config, || (), |_, _| {}, |_| None, execution)
                })*
                catalogue::IDEAL => Ok(ask_oracle(plan)),
                name => unreachable!("{name} is in the catalogue and cannot be run"),
            }
        };
    }
    for_each_transport!(by_name)
}

/// Whether a transport's NICs pull packets from their endpoints.
const fn pulls<T: Transport>() -> bool {
    matches!(T::NIC, Nic::Pulled)
}

fn parameters<C: Config>(setup: &Setup) -> &C {
    setup.parameters.get().expect("the catalogue reads the parameters of a transport as the transport's own type")
}

/// How many regions a plan is simulated in, each in a thread of its own: at most one for each switch that has hosts. One region records what happens at each hop, and
/// the backlog if flows wait for others, since other regions do not know when these start. If hosts learn of the ends of flows faster than a link carries anything, regions
/// would have to tell each other after each event.
fn regions(plan: &Plan, shortest: Bytes, threads: usize) -> usize {
    let Setup { network, pfc, metrics, trace, pending, .. } = &plan.setup;
    if pfc.is_some() || metrics.gaps || trace.is_some() || (*pending && plan.flows.wait()) {
        return 1;
    }
    let nearest = network.links().iter().map(crossing_time(network, shortest)).min().unwrap_or_default();
    if plan.flows.tasks.shortest_news() < nearest {
        return 1;
    }
    let has_hosts = |node: &NodeId| network.ports(*node).iter().any(|link| network.link(*link).to.index() < network.nics());
    threads.clamp(1, network.node_ids().filter(has_hosts).count().clamp(1, REGIONS_MAX))
}

/// The recorders of each region.
fn recordings<G>(plan: &Plan, shortest: Bytes, threads: usize, mut at_each_hop: impl FnMut() -> G) -> Vec<Recording<G>> {
    let pending = plan.setup.pending.then(|| Pending::new(plan.flows.iter()));
    let follows = plan.setup.observation.follows_flows();
    let recording = |_| Recording { pending: pending.clone(), opened: follows.then(Vec::new), at_each_hop: at_each_hop() };
    (0..regions(plan, shortest, threads)).map(recording).collect()
}

/// Runs a transport over priority flow control.
fn simulate_over_pfc<T: PausableTransport, const PULLED: bool>(
    plan: Plan,
    pfc: Pfc,
    execution: Execution<'_>,
) -> Result<Simulated, RunError>
where
    T::Config: Config,
{
    let Setup { network, reroutes, memory, storms, faults, .. } = &plan.setup;
    let transport = parameters::<T::Config>(&plan.setup).clone();
    let changing = ChangingNetwork::new(network.clone(), reroutes);
    let mut pauses = Some(Pauses::new(changing, pfc.reaction, T::classes(&transport), faults));
    let pauses = || pauses.take().expect("pauses are recorded in one region");
    let setting = Setting { transport, pfc, memory: *memory, storms: storms.clone() };
    simulate_network::<OverPfc<T>, _, PULLED>(plan, &setting, pauses, |_, _| {}, |_| None, execution)
}

/// Runs a transport whose data is scheduled by credits. Its ports compare their queues of data with the limits that follow from the plan, if there are any.
fn simulate_under_credits<T: Transport<Port: WatchesData>, const PULLED: bool>(
    plan: Plan,
    execution: Execution<'_>,
) -> Result<Simulated, RunError>
where
    T::Config: Config,
{
    let limits = zero_loss::limits(&plan.setup);
    let config = parameters::<T::Config>(&plan.setup).clone();
    let watch = |port: &mut T::Port, link| limits.iter().for_each(|limits| limits.apply(port, link));
    let queue = |port: &T::Port| limits.as_ref().map(|_| port.data_queue().clone());
    let simulated = simulate_network::<T, _, PULLED>(plan, &config, || (), watch, queue, execution)?;
    let queues = simulated.recorded.data_queues.iter().flatten();
    zero_loss::check(&simulated.setup, queues.map(DataQueue::beyond)).map_err(RunError::Failed)?;
    Ok(simulated)
}

/// Takes the port that a transport has made, and returns the port that is simulated. Each closure has a type of its own, with which all that takes it
/// would be compiled again for each transport.
type Wrap<'a, T, P> = &'a (dyn Fn(<T as Transport>::Port, &PortSite<'_>) -> P + Sync);

/// Runs a transport over the simulated network. Each region has a recorder; `prepare` changes each port before the run, and `queue` reads its queue of data
/// afterwards.
///
/// The simulator runs the transport's parts. They are compiled twice: bare, and with faults and all recorders, each of which may be off.
fn simulate_network<T, A, const PULLED: bool>(
    plan: Plan,
    config: &T::Config,
    mut recorder: impl FnMut() -> A,
    prepare: impl Fn(&mut T::Port, LinkId) + Sync,
    queue: impl Fn(&T::Port) -> Option<DataQueue>,
    execution: Execution<'_>,
) -> Result<Simulated, RunError>
where
    T: Transport,
    A: AtEachHop<T::Header>,
{
    let setup = &plan.setup;
    let is_bare = setup.faults.iter().all(Vec::is_empty) && !setup.metrics.gaps && setup.trace.is_none();
    let assembly = Assembly::of::<T>(config);
    let shortest = T::shortest(config, &setup.wire);
    let counts_from = counts_from(&plan);
    if is_bare {
        let recordings = recordings(&plan, shortest, execution.threads, recorder);
        let Plan { setup, flows } = plan;
        let wrap: Wrap<'_, T, T::Port> = &|mut port, site| {
            prepare(&mut port, site.link);
            port
        };
        let sim = Sim::<PartsOf<T, PULLED>, T::Port, _>::over_regions(&assembly, setup.routed(), flows.own, recordings, wrap);
        let driven = drive(sim.with_tasks(flows.tasks), &setup, counts_from, execution)?;
        let queues = driven.sim.ports().map(queue).collect();
        return conclude(driven, setup, queues);
    }
    let changing = |network: &Arc<Network>| ChangingNetwork::new(network.clone(), &setup.reroutes);
    let mut gaps = setup.metrics.gaps.then(|| Gaps::new(changing(&setup.network), &setup.wire, &plan.flows));
    let traced = |choice| Traced::new(T::NAME, choice, changing(setup.paths.network()), &plan.flows);
    let mut trace = setup.trace.as_ref().map(traced);
    let recordings = recordings(&plan, shortest, execution.threads, || (recorder(), (gaps.take(), trace.take())));
    let Plan { setup, flows } = plan;
    let wrap: Wrap<'_, T, Faulty<T::Port>> = &|mut port, site| {
        prepare(&mut port, site.link);
        // A control host's link comes after those that the scenario knows.
        let faults = setup.faults.get(site.link.index()).cloned().unwrap_or_default();
        Faulty::new(port, site, faults, setup.seed)
    };
    let sim =
        Sim::<PartsOf<T, PULLED>, Faulty<T::Port>, _>::over_regions(&assembly, setup.routed(), flows.own, recordings, wrap);
    let driven = drive(sim.with_tasks(flows.tasks), &setup, counts_from, execution)?;
    let queues = driven.sim.ports().map(|port| queue(port.inner())).collect();
    conclude(driven, setup, queues)
}

/// From when on the counters of ports tell about the flows of the results: from the first start of one, if background flows come and go before and after them.
fn counts_from(plan: &Plan) -> Option<Time> {
    let is_beside = |flow: &Flow| flow.background && !plan.setup.metrics.background;
    plan.flows.own.iter().any(is_beside).then(|| plan.flows.first_start()).flatten()
}

/// A simulation that has ended.
struct Driven<T: Transport, P: Discipline<T::Header>, G: AtEachHop<T::Header>> {
    sim: Sim<T, P, Recording<G>>,
    before: Option<Before>,
    /// Why, if it made no progress.
    stall: Option<Stall>,
}

/// Runs a new simulation to its end, or until it makes no progress. At `counts_from`, before anything else happens, it notes what ports have counted.
fn drive<T, P, G>(
    sim: Sim<T, P, Recording<G>>,
    setup: &Setup,
    counts_from: Option<Time>,
    Execution { progress, sink, .. }: Execution<'_>,
) -> Result<Driven<T, P, G>, RunError>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    G: AtEachHop<T::Header>,
{
    let mut watchdog = Watchdog::new(setup);
    let mut sampler = Sampler::new(&setup.observation, &setup.network, setup.transport.gauges, sink);
    let mut sim = sim.with_outages(&setup.outages).with_reroutes(&setup.reroutes);
    // With threads, a step takes as long as with one, so that their start does not count.
    let step = EVENTS_PER_LOOK * sim.observers().count() as u64;
    // When the watchdog looks next, at the latest.
    let mut look_at = watchdog.idle_until(sim.next_event());
    let mut before = counts_from.map(|at| Before { at, ports: Vec::new() });
    // What happens at an instant comes before a pause there.
    let just_before = |at: Time| at.as_ps().checked_sub(1).map(Time::from_ps);
    let mut count_at = counts_from.and_then(just_before).unwrap_or(Time::MAX);
    let stall = loop {
        sim.pause_at(look_at.min(sampler.next()).min(count_at));
        let going = sim.step(step - sim.vitals().events % step);
        if !going && sim.is_over() {
            let ends_early = sim.vitals().open > 0 && setup.time_limit == Time::LAST;
            break ends_early.then(|| Stall::at_end(sim.vitals().now, sim.has_no_event()));
        }
        if !going && sim.pause() == count_at {
            before = counts_from.map(|at| Before { at, ports: counted(&sim, sim.network().links().len(), at) });
            count_at = Time::MAX;
        }
        if !going && sim.pause() == sampler.next() {
            sampler.sample(&mut sim).map_err(RunError::Failed)?;
        }
        if !going && sim.pause() < look_at {
            continue;
        }
        sampler.write(take_files(&mut sim)).map_err(RunError::Failed)?;
        let (done, now, packet_hops) = sim.progress();
        if !progress(done, now, packet_hops) {
            return Err(RunError::Stopped);
        }
        let at = if going { now } else { sim.pause() };
        match watchdog.look(at, &sim.vitals(), sim.next_event(), || sim.delivered_bytes()) {
            Look::GoOn(until) => look_at = until,
            Look::Stop(stall) => break Some(stall),
        }
    };
    sampler.write(take_files(&mut sim)).map_err(RunError::Failed)?;
    sampler.finish(sim.now(), &mut sim).map_err(RunError::Failed)?;
    Ok(Driven { sim, before, stall })
}

/// What each port has counted up to this instant, since when nothing has happened.
fn counted(view: &dyn View, links: usize, at: Time) -> Vec<Counted> {
    (0..links as u32).map(|link| view.port(LinkId(link)).counters_at(at).into()).collect()
}

fn take_files<T, P, G>(sim: &mut Sim<T, P, Recording<G>>) -> Vec<FilePart>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    G: AtEachHop<T::Header>,
{
    sim.observers_mut().flat_map(|recording| recording.at_each_hop.take_files()).collect()
}

impl<T, P, G> View for Sim<T, P, Recording<G>>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    G: AtEachHop<T::Header>,
{
    fn port(&self, link: LinkId) -> PortView<'_> {
        self.port(link)
    }
    fn each_queued(&self, link: LinkId, visit: &mut dyn FnMut(u8, u32)) {
        self.each_queued(link, |packet| visit(packet.class, packet.size_bytes));
    }
    fn paused(&self, link: LinkId, now: Time) -> Duration {
        self.observers().map(|recording| recording.at_each_hop.paused(link, now)).max().unwrap_or_default()
    }
    fn flow(&self, flow: FlowId) -> (Flow, FlowRecord) {
        self.flow(flow)
    }
    fn gauge(&self, flow: &Flow, readings: &mut Readings<'_>) {
        self.gauge(flow, readings);
    }
    fn take_opened(&mut self) -> Vec<FlowId> {
        self.observers_mut().filter_map(|recording| recording.opened.as_mut()).flat_map(std::mem::take).collect()
    }
    fn next_event(&self) -> Option<Time> {
        self.next_event()
    }
}

/// The results of a simulation that has ended, with the queues of data at its ports, if they have limits.
fn conclude<T, P, G>(
    Driven { sim, before, stall }: Driven<T, P, G>,
    setup: Setup,
    data_queues: Option<Vec<DataQueue>>,
) -> Result<Simulated, RunError>
where
    T: Transport,
    P: Discipline<T::Header, Shared = <T::Port as Discipline<T::Header>>::Shared>,
    G: AtEachHop<T::Header>,
{
    let windows = sim.windows();
    let finished = sim.finish_regions();
    let (report, recordings) = finished.map_err(|violation| RunError::Failed(conservation::explain(&violation, &setup)))?;
    let recorded = Recorded { data_queues, before, ..Recording::join::<T::Header>(recordings, report.end) };
    match stall {
        Some(stall) => Err(RunError::Failed(stall.explain(&setup, &report, recorded.pauses.as_deref()))),
        None => Ok(Simulated { setup, report, recorded, windows }),
    }
}

/// Computes the oracle's results. It moves no packets, so there is nothing to record.
fn ask_oracle(plan: Plan) -> Simulated {
    let Plan { setup, flows } = plan;
    let mut flows = flows.own;
    let Oracle { model, order } = *parameters(&setup);
    // Background flows would only delay the others.
    flows.retain(|flow| !flow.background);
    let received = ideal::run(&setup.network, &setup.wire, &flows, model, order);
    let report = ideal::report(&setup.network, &setup.wire, &flows, &received);
    Simulated { setup, report, recorded: Recorded::default(), windows: Windows::default() }
}
