//! What a run needs: its setup, and its flows.

use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, Memory, Network, Paths, Routing, Time, WireProfile};
use flowloom_fabric::{AimedFault, Outage, RoutedSetup};
use flowloom_transports::Conditions;
use flowloom_transports::pfc::{Pfc, Storm};

use crate::ScenarioError;
use crate::catalogue::TransportEntry;
use crate::faults::LinkOutage;
use crate::observe::Observation;
use crate::parameters::{BadParameter, Parameters};
use crate::spec::Metrics;
use crate::trace::TraceChoice;
use crate::workload::{CoflowWorkload, Flows};

/// Everything that a run needs. [`simulate`](fn@crate::simulate) takes it, since the simulator changes its flows.
#[derive(Clone)]
pub struct Plan {
    /// All but the flows.
    pub setup: Setup,
    /// The flows.
    pub flows: Flows,
}

/// A plan without its flows: what never changes during a run, and serves before and after it.
#[derive(Clone)]
pub struct Setup {
    /// The seed of all random choices.
    pub seed: u64,
    /// The network that the scenario describes.
    pub network: Arc<Network>,
    /// The paths that packets take. Their network also has a control host, if the transport needs one.
    pub paths: Paths,
    /// How many bytes packets take on a link.
    pub wire: WireProfile,
    /// The memory of ports and switches.
    pub memory: Memory,
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
    /// When switches get new routes because they have noticed that links are down or up again, or when links change their rates.
    pub reroutes: Vec<(Time, Paths)>,
    /// The nodes that go down for a while.
    pub outages: Vec<Outage>,
    /// The nodes that pause their neighbours without need; none unless there is flow control.
    pub storms: Vec<Storm>,
    /// The extremes of the flows.
    pub extremes: Extremes,
    /// How the workloads of coflows were made, if there are any.
    pub coflow_workloads: Vec<CoflowWorkload>,
    /// The transport that runs.
    pub transport: &'static TransportEntry,
    /// Its parameters, with those filled in that follow from the network and the workload.
    pub parameters: Parameters,
    /// What a run has where the scenario leaves it open.
    pub fitted: Vec<Fitted>,
    /// What results are made of.
    pub metrics: Metrics,
    /// Whether the backlog at the sources is recorded.
    pub pending: bool,
    /// What is sampled over the course of the run.
    pub observation: Observation,
    /// Which packets are recorded one by one, if any are.
    pub trace: Option<TraceChoice>,
    /// Values that do not suit the network or the flows: sentences that start with the whole key.
    pub misfits: Vec<String>,
    /// How long it took to make the plan.
    pub planned_in: std::time::Duration,
}

/// The value of a key in a run whose scenario leaves it open.
#[derive(Clone, PartialEq, Debug)]
pub struct Fitted {
    /// The whole key.
    pub key: String,
    /// Its value.
    pub value: toml::Value,
    /// What the value follows from.
    pub why: String,
}

/// The extremes of some flows, which a transport's parameters are checked against.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extremes {
    /// The latest deadline, if any flow has one.
    pub last_deadline: Option<Time>,
    /// The size of the largest flow.
    pub largest_flow: Bytes,
    /// The size of the largest coflow.
    pub largest_coflow: Bytes,
}

impl Extremes {
    /// Those of these flows.
    pub(crate) fn of(flows: impl Iterator<Item = Flow>) -> Extremes {
        flows.fold(Extremes::default(), |all, flow| Extremes {
            last_deadline: all.last_deadline.max(flow.deadline),
            largest_flow: all.largest_flow.max(flow.size),
            largest_coflow: all.largest_coflow.max(flow.coflow_size()),
        })
    }
}

impl Setup {
    /// What the simulator needs besides a transport and the flows. It shares the network and the paths.
    pub fn routed(&self) -> RoutedSetup {
        let Setup { paths, wire, memory, seed, time_limit, .. } = self;
        RoutedSetup { paths: paths.clone(), wire: *wire, memory: *memory, seed: *seed, time_limit: *time_limit }
    }

    /// Whether nothing goes wrong in the network.
    pub(crate) fn is_calm(&self) -> bool {
        // Links that are down are in `faults`.
        let Setup { faults, reroutes, outages, storms, .. } = self;
        faults.iter().all(Vec::is_empty) && reroutes.is_empty() && outages.is_empty() && storms.is_empty()
    }

    /// The same setup, in which nothing goes wrong in the network.
    pub(crate) fn calm(&self) -> Setup {
        Setup {
            faults: vec![Vec::new(); self.faults.len()],
            link_outages: Vec::new(),
            reroutes: Vec::new(),
            outages: Vec::new(),
            storms: Vec::new(),
            ..self.clone()
        }
    }

    /// What the transport's parameters are checked against.
    pub(crate) fn conditions(&self) -> Conditions<'_> {
        let Extremes { last_deadline, largest_flow, largest_coflow } = self.extremes;
        Conditions {
            pauses: self.pfc.is_some(),
            senders_choose_paths: self.paths.routing() == Routing::SprayLabelled,
            last_deadline,
            largest_flow,
            largest_coflow,
            ..Conditions::new(&self.network, self.wire, self.memory.bytes())
        }
    }

    /// The longest time for which a flow of the transport may be silent before it tries again.
    ///
    /// # Errors
    /// If the transport's parameters make no sense in this plan.
    pub(crate) fn longest_pause(&self) -> Result<Duration, ScenarioError> {
        self.parameters.longest_pause(&self.conditions()).map_err(|BadParameter { key, message }| {
            let below = key.map_or(String::new(), |key| format!(".{key}"));
            ScenarioError::at_key(format!("transport.{}{below}", self.transport.name), message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Scenario;

    fn setup(fault: &str) -> Setup {
        const SCENARIO: &str = "topology = { kind = \"leaf_spine\", racks = 2, hosts_per_rack = 1, spines = 2 }\n\
             workload = { kind = \"burst\", flows = 1, sizes = { fixed = \"1kB\" } }\nfabric.buffer = \"1MB\"\nfabric.pfc = {}\ntransport.name = \"dctcp\"\n";
        let scenario = Scenario::load(SCENARIO, "", &[format!("fault=[{fault}]")]).expect("it fits the schema");
        Plan::new(&scenario.validate().expect("its rules hold")).expect("it can be planned").setup
    }

    #[test]
    fn no_kind_of_fault_is_calm() {
        assert!(setup("").is_calm());
        for (kind, keys) in [
            ("loss", "where = \"all\", probability = 0.1"),
            ("corrupt", "where = \"all\", probability = 0.1"),
            ("duplicate", "where = \"all\", probability = 0.1"),
            ("reorder", "where = \"all\", probability = 0.1, delay = \"1us\""),
            ("link_down", "where = \"l0-s0\", from = \"0s\", to = \"1s\""),
            ("link_down", "where = \"l0-s0\", from = \"0s\", to = \"1s\", reroute_after = \"0s\""),
            ("link_rate", "where = \"l0-s0\", rate = \"1Gb/s\", from = \"0s\", to = \"1s\""),
            ("node_down", "node = \"h0\", from = \"0s\", to = \"1s\""),
            ("pause_storm", "node = \"h0\", from = \"0s\", to = \"1s\""),
        ] {
            let setup = setup(&format!("{{ kind = \"{kind}\", {keys} }}"));
            assert!(!setup.is_calm() && setup.calm().is_calm(), "{kind}");
        }
    }
}
