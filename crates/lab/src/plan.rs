//! From a valid scenario to what a run needs: the network, its faults, and the flows.

use flowloom_core::{Duration, Flow, Memory, Network, Time, WireProfile};
use flowloom_fabric::{AimedFault, Outage, Routing, SimSetup, Successor};
use flowloom_transports::pfc::{Pfc, Storm};

use crate::catalogue::TransportEntry;
use crate::faults::{Faults, LinkOutage};
use crate::observe::Observation;
use crate::parameters::Parameters;
use crate::spec::Metrics;
use crate::trace::TraceChoice;
use crate::validate::ValidSpec;
use crate::workload::{self, CoflowWorkload, Workload};
use crate::{ScenarioError, limits, misfits, network};

/// Everything that a run needs.
#[derive(Clone)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// The shape of the network.
    pub network: Network,
    /// How many bytes packets take on a link.
    pub wire: WireProfile,
    /// The memory of ports and switches.
    pub memory: Memory,
    /// The choice among equally short paths.
    pub routing: Routing,
    /// Priority flow control, if the scenario has it.
    pub pfc: Option<Pfc>,
    /// No event after this instant is handled; [`Time::LAST`] where the scenario says nothing.
    pub time_limit: Time,
    /// How long a run may make no progress, if the scenario says so.
    pub stall_limit: Option<Duration>,
    /// The faults of each directed link, by its index.
    pub faults: Vec<Vec<AimedFault>>,
    /// The links that go down for a while. They are in `faults`, too.
    pub link_outages: Vec<LinkOutage>,
    /// The nodes that go down for a while.
    pub outages: Vec<Outage>,
    /// The nodes that pause their neighbours without need; none unless there is flow control.
    pub storms: Vec<Storm>,
    /// Sorted by (start, id); ids are indices. Flows that wait for others have the start [`Time::MAX`].
    pub flows: Vec<Flow>,
    /// For each flow, which flow starts after it was received, if any does; empty where no flow waits.
    pub successors: Vec<Option<Successor>>,
    /// How the workloads of coflows were made, if there are any.
    pub coflow_workloads: Vec<CoflowWorkload>,
    /// The transport that runs.
    pub transport: &'static TransportEntry,
    /// Its parameters, with those filled in that follow from the workload.
    pub parameters: Parameters,
    /// What results are made of.
    pub metrics: Metrics,
    /// Whether the backlog at the sources is recorded.
    pub pending: bool,
    /// What is sampled over the course of the run.
    pub observation: Observation,
    /// Which packets are recorded one by one, if any are.
    pub trace: Option<TraceChoice>,
}

impl Plan {
    /// Builds the network, places the faults, and generates the flows.
    ///
    /// # Errors
    /// With file, line and key: a network that is not connected, a file that cannot be read or is wrong, a fault on links that do not
    /// exist, a workload that does not fit the network or the transport.
    pub fn new(spec: &ValidSpec<'_>) -> Result<Plan, ScenarioError> {
        Plan::unplaced(spec).map_err(|error| spec.place(error))
    }

    /// The same, with errors that lack the file and line of their key.
    fn unplaced(spec: &ValidSpec<'_>) -> Result<Plan, ScenarioError> {
        let network = network::build(spec)?;
        network::check_paths(&network, spec.routing, spec.transport.name, spec.transport.paths)?;
        let Workload { flows, successors, coflows } = flows(spec, &network)?;
        let Faults { by_link, link_outages, outages, storms } = Faults::place(spec, &network, flows.len())?;
        let mut plan = Plan {
            seed: spec.seed,
            wire: spec.wire,
            memory: spec.memory,
            routing: spec.routing,
            pfc: spec.pfc.cloned(),
            time_limit: spec.time_limit,
            stall_limit: spec.stall_limit,
            faults: by_link,
            link_outages,
            outages,
            storms,
            flows,
            successors,
            coflow_workloads: coflows,
            transport: spec.transport,
            parameters: spec.parameters.clone(),
            metrics: spec.metrics.clone(),
            pending: spec.observe.pending,
            observation: Observation::new(spec.observe, &network)?,
            trace: spec.trace.map(|trace| TraceChoice::new(trace, &network)).transpose()?,
            network,
        };
        limits::check_plan(&plan)?;
        let sizes = || workload::size_shares(spec.workload, &plan.flows, spec.base_dir());
        plan.parameters = plan.parameters.clone().fitted(&limits::conditions(&plan), &sizes);
        Ok(plan)
    }

    /// The transport's parameters that follow from the network and the workload, with the values that a run has.
    pub fn fitted(&self, spec: &ValidSpec<'_>) -> toml::Table {
        let given = spec.parameters.to_table();
        let mut used = self.parameters.to_table();
        used.retain(|key, value| given.get(key) != Some(value));
        used
    }

    /// Whether nothing goes wrong in the network.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults.iter().all(Vec::is_empty) && self.outages.is_empty()
    }

    /// Values that do not suit the network or the flows: sentences that start with the whole key.
    pub fn misfits(&self) -> Vec<String> {
        misfits::of(self)
    }

    /// What the simulator needs besides a transport and the flows.
    pub fn setup(&self) -> SimSetup {
        SimSetup {
            network: self.network.clone(),
            wire: self.wire,
            memory: self.memory,
            routing: self.routing,
            seed: self.seed,
            time_limit: self.time_limit,
        }
    }
}

fn flows(spec: &ValidSpec<'_>, network: &Network) -> Result<Workload, ScenarioError> {
    let workload = workload::generate(spec.workload, network, &spec.wire, spec.seed, spec.base_dir())?;
    if !workload.successors.is_empty() && !spec.transport.closed_loops {
        let name = spec.transport.name;
        let message = format!("{name} is computed from the flows' starts, which closed loops do not have before they run");
        return Err(ScenarioError::at_key("transport.name", message));
    }
    Ok(workload)
}
