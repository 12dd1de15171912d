//! Samples of a run: queues, links, flows and hosts at regular instants.
//!
//! The run pauses at each instant, and a sampler looks at the state of the network and asks endpoints for their gauges. So nothing is called for a packet, and a
//! run without samples pays nothing. Each sample belongs to one link, flow or host; samples are in the order of time, and at one time in that of these.

mod flows;
mod hosts;
mod links;
mod open;
mod queues;
mod table;

use std::sync::Arc;

use flowloom_core::{Duration, Flow, FlowId, Gauge, LinkId, Network, NodeId, Readings, Time};
use flowloom_fabric::{FlowRecord, PortView};

use self::flows::Flows;
use self::hosts::Hosts;
use self::links::Links;
use self::open::OpenFlows;
use self::queues::Queues;
use crate::ScenarioError;
use crate::error::suggestion;
use crate::places::links_of;
use crate::sink::FilePart;
use crate::spec::{FlowChoice, Observe};

pub use crate::sink::{InMemory, Nowhere, Samples, Sink, Table};

/// A table is given away when it has this many rows.
const ROWS_MOST: usize = 1 << 14;

/// What is sampled, in terms of a network.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observation {
    /// The ports whose queues are sampled.
    pub queues: Vec<LinkId>,
    /// The links that are sampled.
    pub links: Vec<LinkId>,
    /// The flows that are sampled.
    pub flows: FlowChoice,
    /// Of these, only those of these tenants; empty for all.
    pub tenants: Vec<u16>,
    /// The hosts that are sampled.
    pub hosts: Vec<NodeId>,
    /// The time between two samples.
    pub period: Duration,
    /// The first instant.
    pub from: Time,
    /// The last instant.
    pub to: Time,
}

impl Observation {
    /// What a scenario asks for in this network.
    ///
    /// # Errors
    /// A link or a host that the network does not have.
    pub(crate) fn new(observe: &Observe, network: &Network) -> Result<Observation, ScenarioError> {
        let mut hosts = Vec::new();
        for (index, name) in observe.hosts.iter().enumerate() {
            hosts.extend(
                hosts_at(name, network).map_err(|message| ScenarioError::at_key(format!("observe.hosts.{index}"), message))?,
            );
        }
        hosts.sort_unstable();
        hosts.dedup();
        Ok(Observation {
            queues: links_of("observe.queues", &observe.queues, network)?,
            links: links_of("observe.links", &observe.links, network)?,
            flows: observe.flows.clone(),
            tenants: observe.tenants.clone(),
            hosts,
            period: observe.period.0,
            from: Time::ZERO + observe.from.0,
            to: observe.to.map_or(Time::LAST, |to| Time::ZERO + to.0),
        })
    }

    /// Whether nothing is sampled.
    fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.links.is_empty() && self.flows.is_empty() && self.hosts.is_empty()
    }

    /// Whether samples need to know which flows are open.
    pub(crate) fn follows_flows(&self) -> bool {
        !self.flows.is_empty() || !self.hosts.is_empty()
    }
}

fn hosts_at(name: &str, network: &Network) -> Result<Vec<NodeId>, String> {
    let called = |node: NodeId| network.node(node).name == name;
    let is_meant = |nic: &NodeId| name == "all" || called(*nic) || called(network.host_of(*nic));
    let found: Vec<NodeId> = network.nic_ids().filter(is_meant).collect();
    if found.is_empty() {
        let names = network.nic_ids().map(|nic| network.node(nic).name.as_str()).chain(["all"]);
        return Err(format!("no host is called \"{name}\"; {}", suggestion(name, names)));
    }
    Ok(found)
}

/// What samples see of a running simulation. Its methods are all that is compiled for each transport.
pub(crate) trait View {
    /// The port of a link.
    fn port(&self, link: LinkId) -> PortView<'_>;
    /// Calls `visit` with the class and the bytes of each packet that is queued at the port of a link.
    fn each_queued(&self, link: LinkId, visit: &mut dyn FnMut(u8, u32));
    /// How long a link was paused so far.
    fn paused(&self, link: LinkId, now: Time) -> Duration;
    /// A flow, and what has become of it so far.
    fn flow(&self, flow: FlowId) -> (Flow, FlowRecord);
    /// What both ends of a flow tell of it.
    fn gauge(&self, flow: &Flow, readings: &mut Readings<'_>);
    /// The flows that were opened since the last call, if they are recorded.
    fn take_opened(&mut self) -> Vec<FlowId>;
    /// When something happens next, while the run pauses.
    fn next_event(&self) -> Option<Time>;
}

/// Takes the samples of a run.
pub(crate) struct Sampler<'a> {
    sink: &'a mut dyn Sink,
    period: Duration,
    to: Time,
    /// The next instant; [`Time::MAX`] if there is none.
    next: Time,
    /// The last instant at which all was looked at.
    last: Time,
    queues: Option<Queues>,
    links: Option<Links>,
    open: OpenFlows,
    flows: Option<Flows>,
    hosts: Option<Hosts>,
}

impl<'a> Sampler<'a> {
    /// A sampler of a run in this network, whose hosts have these gauges.
    pub fn new(observation: &Observation, network: &Network, gauges: &'static [Gauge], sink: &'a mut dyn Sink) -> Sampler<'a> {
        let Observation { queues, links, flows, tenants, hosts, period, from, to } = observation;
        let names = |links: &[LinkId]| -> Arc<[String]> { links.iter().map(|link| network.link_name(*link)).collect() };
        Sampler {
            sink,
            period: *period,
            to: *to,
            next: match *from {
                _ if observation.is_empty() || from >= to => Time::MAX,
                Time::ZERO => (Time::ZERO + *period).min(*to),
                from => from,
            },
            last: *from,
            queues: (!queues.is_empty()).then(|| Queues::new(queues, names(queues))),
            links: (!links.is_empty()).then(|| Links::new(links, names(links), network)),
            open: OpenFlows::default(),
            flows: (!flows.is_empty()).then(|| Flows::new(flows, tenants, gauges)),
            hosts: (!hosts.is_empty()).then(|| Hosts::new(hosts, network)),
        }
    }

    /// The next instant at which the run must pause for a sample; [`Time::MAX`] if there is none.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Samples at [`Sampler::next`], up to which all events were handled.
    ///
    /// # Errors
    /// If the samples cannot be kept.
    pub fn sample(&mut self, view: &mut dyn View) -> Result<(), String> {
        let at = self.next;
        self.look(at, view);
        self.give_away(ROWS_MOST)?;
        // Until the next event, every sample would be the same.
        let idle = view.next_event().map_or(Duration::ZERO, |event| event.saturating_since(at));
        let periods = (idle.as_ps().saturating_sub(1) / self.period.as_ps()).max(1);
        let next = at.as_ps().saturating_add(self.period.as_ps().saturating_mul(periods));
        self.next = if at >= self.to { Time::MAX } else { Time::from_ps(next).min(self.to) };
        Ok(())
    }

    /// Takes the last sample of a run that ends now, and gives everything away.
    ///
    /// # Errors
    /// If the samples cannot be kept.
    pub fn finish(mut self, end: Time, view: &mut dyn View) -> Result<(), String> {
        let end = end.min(self.to);
        if end > self.last && self.next != Time::MAX {
            self.look(end, view);
        }
        self.give_away(0)
    }

    /// A look at the beginning, over no time, only remembers the counters.
    fn look(&mut self, at: Time, view: &mut dyn View) {
        let span = at.saturating_since(self.last);
        self.last = at;
        if let Some(queues) = &mut self.queues {
            queues.sample(at, span, view);
        }
        if let Some(links) = &mut self.links {
            links.sample(at, span, view);
        }
        if self.flows.is_none() && self.hosts.is_none() {
            return;
        }
        self.open.add(view);
        if let Some(flows) = &mut self.flows {
            flows.sample(at, span, &self.open, view);
        }
        if let Some(hosts) = &mut self.hosts {
            hosts.sample(at, span, &self.open, view);
        }
        self.open.settle(view);
    }

    /// Gives the next parts of files to the sink.
    ///
    /// # Errors
    /// If they cannot be kept.
    pub fn write(&mut self, parts: Vec<FilePart>) -> Result<(), String> {
        let mut some = parts.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        some.try_for_each(|(file, bytes)| self.sink.write(file, bytes))
    }

    /// Gives tables with at least this many rows to the sink.
    fn give_away(&mut self, rows: usize) -> Result<(), String> {
        let tables = [
            self.queues.as_mut().and_then(|queues| queues.rows.give_away(rows)),
            self.links.as_mut().and_then(|links| links.rows.give_away(rows)),
            self.flows.as_mut().and_then(|flows| flows.rows.give_away(rows)),
            self.hosts.as_mut().and_then(|hosts| hosts.rows.give_away(rows)),
        ];
        tables.into_iter().flatten().try_for_each(|table| self.sink.take(table))
    }
}

/// A rate in Gb/s; NaN over no time.
fn gbps(bytes: u64, span: Duration) -> f64 {
    if span == Duration::ZERO { f64::NAN } else { bytes as f64 * 8e3 / span.as_ps() as f64 }
}
