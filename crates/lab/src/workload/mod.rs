//! `[workload]`: which flows there are. Each kind is a module with its keys, its rules and its generator, and has a place in the list below.
//!
//! # Load
//!
//! A load is the expected utilisation of the **busiest** link of a class: the hosts' links (`load_link = "host"`) or the links
//! between switches (`"core"`); or that of all hosts' links together (`"network"`). It counts the bytes on the wire of every data packet sent once, payload and headers
//! ([`WireProfile::flow_wire_bytes`]). Their expectation over the flow sizes has a closed form
//! ([`Cdf::mean_wire_bytes`](crate::cdf::Cdf::mean_wire_bytes)). It does not count control packets and retransmissions. A link's share of
//! the traffic follows from the traffic matrix, where switches split traffic evenly among equally short next hops ([`load`]). Where all
//! hosts send and receive alike, the load is that of every host's link, which is the usual definition.
//!
//! # Randomness
//!
//! Each purpose has its own random stream at each source host, so that a change of one kind of choice does not change the others, and
//! nothing depends on the transport or on the number of threads. Choices that belong to no host (requests, coflows, bursts, partners) are drawn
//! from streams at [`NETWORK`](crate::random::NETWORK). Each part of a mix has a seed of its own, derived from the run's seed and the
//! part's position. Background flows have streams by their position in the scenario.

mod arrivals;
mod background;
mod burst;
mod closed_loop;
mod coflows;
mod collective;
mod deadlines;
mod hosts;
mod incast;
pub mod load;
pub mod matrix;
mod mix;
mod nics;
mod permutation;
mod poisson;
mod sizes;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;
mod waiting;

use std::path::Path;

use flowloom_core::{Bytes, Duration, Flow, FlowId, Network, NodeId, Time, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ScenarioError, limits, memory};

pub use background::{Background, WorkloadTable};
pub use coflows::CoflowWorkload;
#[cfg(test)]
pub(crate) use coflows::numbered;
pub(crate) use coflows::{LONG_BYTES, NARROW_FLOWS, complete};
pub use collective::{Job, Operation, Step};
pub use deadlines::{Deadline, ExponentialDeadline, UniformDeadline};
pub use hosts::HostRef;
pub use incast::Receivers;
pub use load::LoadLink;
pub use matrix::MatrixKind;
pub use mix::{Mix, Part, Parts, WorkloadSpec};
pub use nics::{NicChoice, Nics};
pub use poisson::Sources;
pub use sizes::{Bimodal, CdfFile, Fixed, Sizes, Uniform, distribution};
pub(crate) use sizes::{shares_of_flows, size_shares};
pub use traffic::Tenant;
pub use waiting::{Flows, RunTasks, Waiting};

/// The most flows that a workload may have, as the schema says for the kinds that give their number.
pub const FLOWS_MAX: u32 = 100_000_000;

/// The default of keys that say how many times there is something.
fn one() -> u32 {
    1
}

/// A kind of workload. Its fields are the keys of `[workload]`; its documentation says which flows there are.
trait Kind {
    /// Checks the rules that several keys obey together, or that the schema cannot say, but for those of deadlines and tenants.
    ///
    /// # Errors
    /// The first rule that is broken, with its key.
    fn check(&self) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// Makes the flows, without deadlines.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong, hosts that do not exist, a load on links that carry nothing, more flows than there is memory for.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError>;

    /// How many flows there are between so many hosts, if the keys say that.
    fn number(&self, _hosts: u64) -> Option<u64> {
        None
    }

    /// The distribution of the sizes of all flows but those of tenants with sizes of their own, if there is one.
    fn sizes(&self) -> Option<&Sizes> {
        None
    }

    /// The traffic matrix of all flows, if there is one.
    fn matrix(&self) -> Option<MatrixKind> {
        None
    }

    /// The deadlines, if they are drawn.
    fn deadline(&self) -> Option<&Deadline> {
        None
    }

    /// The tenants; none if there is just one.
    fn tenants(&self) -> &[Tenant] {
        &[]
    }
}

/// Makes the choice between the kinds.
macro_rules! kinds {
    ($($module:ident :: $kind:ident),* $(,)?) => {
        $(pub use $module::$kind;)*

        /// Flows of one kind.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[allow(missing_docs)] // the documentation of the types is that of the kinds
        pub enum WorkloadKind {
            $($kind($kind)),*
        }

        impl WorkloadKind {
            fn kind(&self) -> &dyn Kind {
                match self {
                    $(WorkloadKind::$kind(kind) => kind),*
                }
            }
        }
    };
}

kinds![
    poisson::Poisson,
    incast::Incast,
    permutation::Permutation,
    burst::Burst,
    closed_loop::ClosedLoop,
    collective::Collective,
    trace::Trace,
    coflows::CoflowTrace,
    coflows::CoflowSynthetic,
];

impl WorkloadKind {
    /// How many flows there are between so many hosts, if the keys say that.
    pub fn number(&self, hosts: u64) -> Option<u64> {
        self.kind().number(hosts)
    }

    fn sizes(&self) -> Option<&Sizes> {
        self.kind().sizes()
    }

    fn tenants(&self) -> &[Tenant] {
        self.kind().tenants()
    }

    fn check(&self) -> Result<(), ScenarioError> {
        self.kind().check()?;
        traffic::check_tenants(self.tenants())?;
        self.kind().deadline().map_or(Ok(()), Deadline::check)
    }

    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let mut workload = self.kind().flows(context)?;
        limits::check_flows(workload.all_flows(), context.network, context.wire)?;
        complete(&mut workload.flows);
        if let Some(deadline) = self.kind().deadline() {
            deadlines::assign(&mut workload.flows, deadline, context)?;
        }
        Ok(workload)
    }
}

/// Checks the rules of a workload that need neither the network nor a file.
///
/// # Errors
/// The first rule that is broken, with its key.
pub(crate) fn check(table: &WorkloadTable) -> Result<(), ScenarioError> {
    match &table.spec {
        WorkloadSpec::One(kind) => kind.check()?,
        WorkloadSpec::Several(Mix::Mix(mix)) => mix::check_parts(&mix.parts)?,
    }
    table.background.iter().enumerate().try_for_each(|(index, flows)| {
        flows.check().map_err(|(key, message)| ScenarioError::at_key(format!("workload.background.{index}.{key}"), message))
    })
}

/// The flows of a run, or of a part of its workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Those with a start of their own, sorted by (start, id); ids are indices.
    pub flows: Vec<Flow>,
    /// Those that wait for others.
    pub waiting: Waiting,
    /// How the workloads of coflows among the parts were made.
    pub coflows: Vec<CoflowWorkload>,
}

impl From<Vec<Flow>> for Workload {
    fn from(flows: Vec<Flow>) -> Workload {
        Workload { flows, waiting: Waiting::default(), coflows: Vec::new() }
    }
}

impl Workload {
    /// Makes all flows those of a tenant.
    fn belong_to(&mut self, tenant: u16) {
        self.flows.iter_mut().for_each(|flow| flow.tenant = tenant);
        self.coflows.iter_mut().for_each(|coflows| coflows.tenant = tenant);
        self.waiting.belong_to(tenant);
    }

    /// Adds the flows of a workload that begins `later`. Their ids go on from those before them, and its coflows have the numbers from `first_coflow` on. Returns the
    /// first number after these; `None` if there is no such number.
    fn append(&mut self, more: Workload, later: Duration, first_coflow: u32) -> Option<u32> {
        let before = self.flows.len() as u32;
        let mut next_coflow = first_coflow;
        self.waiting.append(more.waiting, before, later);
        self.coflows.extend(more.coflows);
        for mut flow in more.flows {
            flow.id.0 += before;
            flow.start += later;
            flow.deadline = flow.deadline.map(|deadline| deadline + later);
            if let Some(coflow) = &mut flow.coflow {
                coflow.number = first_coflow.checked_add(coflow.number)?;
                coflow.start += later;
                next_coflow = next_coflow.max(coflow.number.checked_add(1)?);
            }
            self.flows.push(flow);
        }
        Some(next_coflow)
    }

    /// Sorts the flows with a start of their own by it, and renumbers them. Flows with the same start keep their order.
    fn in_order(mut self) -> Workload {
        self.flows.sort_by_key(|flow| flow.start);
        let mut places = vec![0; self.flows.len()];
        self.flows.iter().zip(0..).for_each(|(flow, place)| places[flow.id.0 as usize] = place);
        self.waiting.renumber(&places);
        self.flows.iter_mut().zip(0..).for_each(|(flow, id)| flow.id = FlowId(id));
        self
    }

    /// The flows of a run that has no others, between the NICs of hosts that have several.
    pub(crate) fn into_flows(self, nics: Option<Nics>) -> (Flows, Vec<CoflowWorkload>) {
        (Flows::new(self.flows, self.waiting, nics), self.coflows)
    }

    /// All flows. Those that wait have the start [`Time::MAX`], and ids that mean nothing yet.
    fn all_flows(&self) -> impl Iterator<Item = Flow> {
        self.flows.iter().copied().chain(self.waiting.flows())
    }
}

/// The flows of a run, between hosts, of which some have several NICs if `nics` says which. The same arguments give the same flows on every machine.
///
/// Files that the workload names are relative to `base_dir`.
///
/// # Errors
/// With the key, or the file and line: a file that cannot be read, sizes from a file that are no distribution, more senders than other
/// hosts, a load on links that carry nothing, a trace that does not fit the network, more flows than there is memory for.
pub fn generate(
    table: &WorkloadTable,
    network: &Network,
    nics: Option<&Nics>,
    wire: &WireProfile,
    seed: u64,
    base_dir: &Path,
) -> Result<Workload, ScenarioError> {
    if network.hosts() < 2 {
        return Err(ScenarioError::at_key("topology", "found one host; flows need two"));
    }
    let context = Context { network, nics, wire, seed, base_dir };
    let (workload, matrix) = match &table.spec {
        WorkloadSpec::One(kind) => (kind.flows(&context)?, kind.kind().matrix()),
        WorkloadSpec::Several(Mix::Mix(parts)) => (mix::workload(&parts.parts, &context)?, None),
    };
    let workload = background::add(workload, &table.background, matrix, &context)?;
    workload.waiting.check()?;
    if let Some(nics) = nics {
        nics.check(workload.all_flows(), network)?;
    }
    memory::check((workload.flows.len() + workload.waiting.count()) as u64, workload.flows.len())?;
    Ok(workload)
}

/// What a generator of flows needs besides its workload.
struct Context<'a> {
    network: &'a Network,
    nics: Option<&'a Nics>,
    wire: &'a WireProfile,
    seed: u64,
    base_dir: &'a Path,
}

/// Flows in order of start; each gets its index as its id.
struct FlowList(Vec<Flow>);

impl FlowList {
    /// # Errors
    /// If there is no memory for so many flows.
    fn with_capacity(count: u64) -> Result<FlowList, ScenarioError> {
        memory::check(count, 0)?;
        memory::room_for(count).map(FlowList)
    }

    /// Appends a flow without deadline, tenant and coflow, and returns it, so that the caller can set these.
    fn push(&mut self, start: Time, src: NodeId, dst: NodeId, size: Bytes) -> &mut Flow {
        let id = FlowId(u32::try_from(self.0.len()).expect("fewer than 2^32 flows"));
        self.0.push(Flow { id, src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: false });
        self.0.last_mut().expect("just pushed")
    }
}
