//! From `[workload]` to a list of flows.
//!
//! # Load
//!
//! A load is the expected utilisation of the **busiest** link of a class: the hosts' links (`load_link = "host"`) or the links
//! between switches (`"core"`). It counts the bytes on the wire of every data packet sent once, payload and headers
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
mod closed_loop;
mod coflows;
mod deadlines;
mod hosts;
mod incast;
pub mod load;
pub mod matrix;
mod mix;
mod sizes;
#[cfg(test)]
mod tests;
mod trace;
mod traffic;

use std::path::Path;

use flowloom_core::{Bytes, Flow, FlowId, Network, NodeId, Time, WireProfile};
use flowloom_fabric::Successor;

use crate::spec::{self, WorkloadKind, WorkloadSpec, WorkloadTable};
use crate::{ScenarioError, limits, memory};

pub use coflows::CoflowWorkload;
#[cfg(test)]
pub(crate) use coflows::numbered;
pub(crate) use coflows::{LONG_BYTES, NARROW_FLOWS, complete};
pub use sizes::distribution;
pub(crate) use sizes::{shares_of_flows, size_shares};

/// The flows of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Sorted by (start, id); ids are indices. Flows that wait for others have the start [`Time::MAX`].
    pub flows: Vec<Flow>,
    /// For each flow, which flow starts after it was received, if any does; empty where no flow waits.
    pub successors: Vec<Option<Successor>>,
    /// How the workloads of coflows among the parts were made.
    pub coflows: Vec<CoflowWorkload>,
}

impl From<Vec<Flow>> for Workload {
    fn from(flows: Vec<Flow>) -> Workload {
        Workload { flows, successors: Vec::new(), coflows: Vec::new() }
    }
}

/// The flows of a run. The same arguments give the same flows on every machine.
///
/// Files that the workload names are relative to `base_dir`.
///
/// # Errors
/// With the key, or the file and line: a file that cannot be read, sizes from a file that are no distribution, more senders than other
/// hosts, a load on links that carry nothing, a trace that does not fit the network, more flows than there is memory for.
pub fn generate(
    table: &WorkloadTable,
    network: &Network,
    wire: &WireProfile,
    seed: u64,
    base_dir: &Path,
) -> Result<Workload, ScenarioError> {
    if network.hosts() < 2 {
        return Err(ScenarioError::at_key("topology", "found one host; flows need two"));
    }
    let context = Context { network, wire, seed, base_dir };
    let (workload, matrix) = match &table.spec {
        WorkloadSpec::One(kind) => (of_kind(kind, &context)?, kind.matrix()),
        WorkloadSpec::Several(spec::Mix::Mix(parts)) => (mix::workload(&parts.parts, &context)?, None),
    };
    let workload = background::add(workload, &table.background, matrix, &context)?;
    memory::check(workload.flows.len() as u64, workload.flows.len())?;
    Ok(workload)
}

fn of_kind(kind: &WorkloadKind, context: &Context<'_>) -> Result<Workload, ScenarioError> {
    let mut workload: Workload = match kind {
        WorkloadKind::Poisson(poisson) => arrivals::poisson(poisson, context)?.into(),
        WorkloadKind::Incast(incast) => incast::flows(incast, context)?.into(),
        WorkloadKind::Permutation(permutation) => arrivals::permutation(permutation, context)?.into(),
        WorkloadKind::Burst(burst) => arrivals::burst(burst, context)?.into(),
        WorkloadKind::ClosedLoop(closed_loop) => closed_loop::workload(closed_loop, context)?,
        WorkloadKind::Trace(trace) => trace::read(&trace.file, context)?.into(),
        WorkloadKind::CoflowTrace(trace) => coflows::trace(trace, context)?,
        WorkloadKind::CoflowSynthetic(synthetic) => coflows::synthetic(synthetic, context)?,
    };
    limits::check_flows(&workload.flows, context.network, context.wire)?;
    complete(&mut workload.flows);
    if let Some(deadline) = kind.deadline() {
        deadlines::assign(&mut workload.flows, deadline, context)?;
    }
    Ok(workload)
}

/// What a generator of flows needs besides its workload.
struct Context<'a> {
    network: &'a Network,
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
