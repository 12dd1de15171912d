//! From a scenario to what a run needs.

use flowloom_core::topology::{self, Delays};
use flowloom_core::{Bytes, Duration, Flow, Link, LinkId, Memory, Network, Switching, Time, WireProfile};
use flowloom_fabric::{Fault, Routing, SimSetup, Successor};

use crate::custom;
use crate::error::suggestion;
use crate::spec::{self, Metrics, Quantity, Scenario, SharingMode, SwitchingMode, Topology};
use crate::workload::{self, Workload};
use crate::{ScenarioError, limits, registry};

/// Everything a run needs, checked.
#[derive(Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The shape.
    pub network: Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The memory of ports and switches.
    pub memory: Memory,
    /// The choice among equal paths.
    pub routing: Routing,
    /// No event after this instant is handled; [`Time::LAST`] where the scenario says nothing.
    pub time_limit: Time,
    /// How long a run may make no progress, if the scenario says so.
    pub stall_limit: Option<Duration>,
    /// What goes wrong, by the directed link's index; empty where nothing does.
    pub faults: Vec<Vec<Fault>>,
    /// Sorted by (start, id); ids are indices. Flows that wait for others have the start [`Time::MAX`].
    pub flows: Vec<Flow>,
    /// By flow: what starts after it was received, if anything; empty where no flow waits.
    pub successors: Vec<Option<Successor>>,
    /// The name of the transport that runs.
    pub transport: String,
    /// Its parameters, all of them.
    pub parameters: toml::Table,
    /// What results are made of.
    pub metrics: Metrics,
}

impl Plan {
    /// Builds the network, generates the flows, and places the faults.
    ///
    /// # Errors
    /// With file, line and key: a topology that cannot be built or is not connected, a buffer below one packet or beyond 2 GiB, a
    /// shared memory where the transport's ports cannot share, a fault on links that do not exist, and whatever [`workload::generate`] refuses.
    pub fn new(scenario: &Scenario) -> Result<Plan, ScenarioError> {
        Plan::unplaced(scenario).map_err(|error| scenario.place(error))
    }

    fn unplaced(scenario: &Scenario) -> Result<Plan, ScenarioError> {
        let spec = &scenario.spec;
        let wire = spec.fabric.wire.profile();
        let network = network(scenario, &wire)?;
        let Workload { flows, successors } = flows(scenario, &network, &wire)?;
        let plan = Plan {
            seed: spec.run.seed,
            wire,
            memory: memory(spec, &wire)?,
            routing: spec.fabric.routing.into(),
            time_limit: time_limit(spec.run.time_limit)?,
            stall_limit: spec.run.stall_limit.map(|limit| limit.0),
            faults: faults(&spec.faults, &network)?,
            flows,
            successors,
            transport: spec.transport.name.clone(),
            parameters: spec.transport.parameters.get(&spec.transport.name).cloned().unwrap_or_default(),
            metrics: metrics(&spec.metrics)?,
            network,
        };
        limits::check_plan(&plan)?;
        Ok(plan)
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

/// Ports count their bytes in 32 bits, with room for a packet beyond the limit.
const BUFFER_MAX: Bytes = Bytes::new(i32::MAX as u64);

fn buffer(fabric: &spec::Fabric, wire: &WireProfile) -> Result<Bytes, ScenarioError> {
    let found = fabric.buffer.0;
    let right = if found < wire.full {
        format!("a port holds at least one full packet, {}", wire.full)
    } else if found > BUFFER_MAX {
        "it must be less than 2 GiB".to_owned()
    } else {
        return Ok(found);
    };
    Err(ScenarioError::at_key("fabric.buffer", format!("found {found}; {right}")))
}

fn memory(spec: &spec::Spec, wire: &WireProfile) -> Result<Memory, ScenarioError> {
    let bytes = buffer(&spec.fabric, wire)?;
    let name = &spec.transport.name;
    let can = |entry: &&registry::Entry| entry.shares_memory;
    match (spec.fabric.sharing, spec.fabric.alpha) {
        (SharingMode::Port, None) => Ok(Memory::PerPort(bytes)),
        (SharingMode::Port, Some(alpha)) => Err(ScenarioError::at_key(
            "fabric.alpha",
            format!("found {alpha}, which has no effect unless fabric.sharing = \"switch\"; leave it out"),
        )),
        (SharingMode::Switch, alpha) if registry::entry(name).as_ref().is_some_and(can) => {
            Ok(Memory::PerSwitch { bytes, alpha: alpha.unwrap_or(ALPHA) })
        }
        (SharingMode::Switch, _) => {
            let able: Vec<&str> = registry::ENTRIES.iter().filter(can).map(|entry| entry.name).collect();
            let right = format!("it must be \"port\", or transport.name one of {}", able.join(", "));
            let message = format!("found \"switch\", but ports of {name} cannot share a memory; {right}");
            Err(ScenarioError::at_key("fabric.sharing", message))
        }
    }
}

/// Of dynamic thresholds, where the scenario does not say.
const ALPHA: f64 = 1.0;

fn flows(scenario: &Scenario, network: &Network, wire: &WireProfile) -> Result<Workload, ScenarioError> {
    let spec = &scenario.spec;
    let workload = workload::generate(&spec.workload, network, wire, spec.run.seed, &scenario.base_dir)?;
    let name = &spec.transport.name;
    if !workload.successors.is_empty() && registry::entry(name).is_some_and(|entry| !entry.closed_loops) {
        let message = format!("{name} is computed from the flows' starts, which closed loops do not have before they run");
        return Err(ScenarioError::at_key("transport.name", message));
    }
    Ok(workload)
}

fn time_limit(limit: Option<Quantity<Duration>>) -> Result<Time, ScenarioError> {
    match limit {
        Some(limit) if limit.0 == Duration::ZERO => {
            Err(ScenarioError::at_key("run.time_limit", "found 0; the limit is above zero"))
        }
        Some(limit) if limit.0 > Time::LAST - Time::ZERO => {
            Err(ScenarioError::at_key("run.time_limit", format!("found {}; a run lasts at most {}", limit.0, Time::LAST)))
        }
        Some(limit) => Ok(Time::ZERO + limit.0),
        None => Ok(Time::LAST),
    }
}

/// Far beyond any request, and far within what a [`Duration`] holds.
const REQUEST_DELAY_MAX: Duration = Duration::from_ms(3_600_000);

fn metrics(metrics: &Metrics) -> Result<Metrics, ScenarioError> {
    let bins = &metrics.size_bins;
    if bins.first().is_none_or(|first| first.0 != Bytes::ZERO) || !bins.is_sorted_by(|a, b| a < b) {
        return Err(ScenarioError::at_key(
            "metrics.size_bins",
            "the bins start at \"0B\" and ascend, such as [\"0B\", \"10kB\", \"100kB\"]",
        ));
    }
    let delay = metrics.request_delay.0;
    if delay > REQUEST_DELAY_MAX {
        return Err(ScenarioError::at_key("metrics.request_delay", format!("found {delay}; the limit is {REQUEST_DELAY_MAX}")));
    }
    Ok(metrics.clone())
}

fn network(scenario: &Scenario, wire: &WireProfile) -> Result<Network, ScenarioError> {
    let switching = match scenario.spec.fabric.switching {
        SwitchingMode::StoreAndForward => Switching::StoreAndForward,
        // A switch decides on what every packet has: as much as the smallest one.
        SwitchingMode::CutThrough => Switching::CutThrough { header: wire.control },
    };
    let network = build(&scenario.spec.topology, scenario, switching)?;
    network.check().map_err(|error| ScenarioError::at_key("topology", error.to_string()))?;
    limits::check_network(&network, wire, scenario.spec.fabric.buffer.0)?;
    Ok(network)
}

/// More would take more memory than machines have; routes alone grow with hosts times switches.
const HOSTS_MAX: u64 = 100_000;

fn build(topology: &Topology, scenario: &Scenario, switching: Switching) -> Result<Network, ScenarioError> {
    let hosts = match topology {
        Topology::LeafSpine(t) => u64::from(t.racks) * u64::from(t.hosts_per_rack),
        Topology::ThreeTier(t) => u64::from(t.racks) * u64::from(t.hosts_per_rack),
        _ => 0, // limited by the range of one number, or by a file
    };
    if hosts > HOSTS_MAX {
        return Err(ScenarioError::at_key(
            "topology.hosts_per_rack",
            format!("this makes {hosts} hosts; the limit is {HOSTS_MAX}"),
        ));
    }
    Ok(match topology {
        Topology::SingleSwitch(t) => topology::single_switch(t.hosts as usize, t.host_rate.0, t.delay.0, switching),
        Topology::Dumbbell(t) => {
            topology::dumbbell(t.hosts_per_side as usize, t.host_rate.0, t.middle_rate.0, t.delay.0, switching)
        }
        Topology::LeafSpine(t) => topology::leaf_spine(
            t.racks as usize,
            t.hosts_per_rack as usize,
            t.spines as usize,
            t.host_rate.0,
            t.spine_rate.0,
            delays(t.delay, t.host_delay),
            switching,
        ),
        Topology::ThreeTier(t) if !t.racks.is_multiple_of(t.aggregations) => {
            let message = format!("found {}; it is a multiple of aggregations, {}", t.racks, t.aggregations);
            return Err(ScenarioError::at_key("topology.racks", message));
        }
        Topology::ThreeTier(t) => topology::three_tier(
            t.racks as usize,
            t.hosts_per_rack as usize,
            t.aggregations as usize,
            t.host_rate.0,
            t.aggregation_rate.0,
            t.core_rate.0,
            delays(t.delay, t.host_delay),
            switching,
        ),
        Topology::FatTree(t) if !t.k.is_multiple_of(2) => {
            return Err(ScenarioError::at_key("topology.k", format!("found {}; a fat-tree's k is even", t.k)));
        }
        Topology::FatTree(t) => topology::fat_tree(t.k as usize, t.rate.0, delays(t.delay, t.host_delay), switching),
        Topology::Custom(t) => custom::network(&t.file, &scenario.base_dir, switching)?,
    })
}

fn delays(delay: Quantity<Duration>, hosts: Option<Quantity<Duration>>) -> Delays {
    Delays { hosts: hosts.unwrap_or(delay).0, switches: delay.0 }
}

fn faults(specs: &[spec::FaultSpec], network: &Network) -> Result<Vec<Vec<Fault>>, ScenarioError> {
    let mut by_link = vec![Vec::new(); network.links().len()];
    for (index, spec) in specs.iter().enumerate() {
        let fault = match spec {
            spec::FaultSpec::Loss(random) => Fault::Loss(random.probability),
            spec::FaultSpec::Corrupt(random) => Fault::Corrupt(random.probability),
            spec::FaultSpec::Duplicate(random) => Fault::Duplicate(random.probability),
            spec::FaultSpec::Reorder(reorder) => Fault::Reorder(reorder.probability, reorder.delay.0),
            spec::FaultSpec::LinkDown(down) if down.to <= down.from => {
                let message = format!("found {}; the link comes up after it went down at {}", down.to.0, down.from.0);
                return Err(ScenarioError::at_key(format!("fault.{index}.to"), message));
            }
            spec::FaultSpec::LinkDown(down) => Fault::Down(Time::ZERO + down.from.0, Time::ZERO + down.to.0),
        };
        let mut links = links_at(spec.place(), network);
        if links.is_empty() {
            return Err(ScenarioError::at_key(format!("fault.{index}.where"), no_such_links(spec.place(), network)));
        }
        if matches!(spec, spec::FaultSpec::LinkDown(_)) {
            // A cable does not break one way.
            links.extend(links.clone().into_iter().map(LinkId::reverse));
            links.sort_unstable();
            links.dedup();
        }
        links.into_iter().for_each(|link| by_link[link.index()].push(fault));
    }
    Ok(by_link)
}

/// The links that a fault's `where` names.
fn links_at(place: &str, network: &Network) -> Vec<LinkId> {
    let by_name = |link: &LinkId| {
        let Link { from, to, .. } = *network.link(*link);
        let nodes = || format!("{}-{}", network.node(from).name, network.node(to).name);
        place == "all" || network.hop_name(*link) == place || nodes() == place
    };
    (0..network.links().len() as u32).map(LinkId).filter(by_name).collect()
}

fn no_such_links(place: &str, network: &Network) -> String {
    let mut hops: Vec<String> = (0..network.links().len() as u32).map(|link| network.hop_name(LinkId(link))).collect();
    hops.sort_unstable();
    hops.dedup();
    hops.push("all".to_owned());
    let suggestion = suggestion(place, hops.iter().map(String::as_str));
    format!("no link is called \"{place}\"; {suggestion} (or two nodes' names, as in \"{}\")", example_link(network))
}

fn example_link(network: &Network) -> String {
    let Link { from, to, .. } = network.links()[0];
    format!("{}-{}", network.node(from).name, network.node(to).name)
}
