//! From a valid scenario to a plan.

use std::sync::Arc;
use std::time::Instant;

use flowloom_core::{Bytes, Duration, Network, Paths};
use flowloom_fabric::{AimedFault, Fault, with_control_host};
use flowloom_transports::PortMemory;

use crate::faults::{Faults, Site};
use crate::observe::Observation;
use crate::parameters::BadParameter;
use crate::plan::{Extremes, Plan, Setup};
use crate::spec::Scenario;
use crate::trace::TraceChoice;
use crate::validate::ValidSpec;
use crate::workload::{self, CoflowWorkload, Flows, Nics};
use crate::{ScenarioError, catalogue, faults, fitting, limits, misfits, network};

impl Plan {
    /// Builds the network with its paths, places the faults, and generates the flows.
    ///
    /// # Errors
    /// With file, line and key: a network that is not connected, a file that cannot be read or is wrong, a fault on links that do not
    /// exist, a workload that does not fit the network or the transport.
    pub fn new(spec: &ValidSpec<'_>) -> Result<Plan, ScenarioError> {
        let begin = Instant::now();
        let (network, flows, coflows) = ground(spec)?;
        let mut setup = Setup::new(spec, network, &flows, &coflows)?;
        setup.planned_in = begin.elapsed();
        Ok(Plan { setup, flows })
    }
}

/// What is wrong with each of some scenarios that differ in their transports alone, if anything is. They share one network and its flows.
///
/// # Errors
/// If there is no such network, or no such flows.
pub fn refusals(scenarios: &[Result<Scenario, ScenarioError>]) -> Result<Vec<Option<ScenarioError>>, ScenarioError> {
    let specs: Vec<Result<ValidSpec<'_>, ScenarioError>> =
        scenarios.iter().map(|scenario| scenario.as_ref().map_err(Clone::clone).and_then(Scenario::validate)).collect();
    let Some(first) = specs.iter().flatten().next() else { return Ok(specs.into_iter().map(Result::err).collect()) };
    let (network, flows, coflows) = ground(first)?;
    let refusal = |spec: Result<ValidSpec<'_>, ScenarioError>| Setup::new(&spec?, network.clone(), &flows, &coflows).map(drop);
    Ok(specs.into_iter().map(|spec| refusal(spec).err()).collect())
}

/// The network and the flows, which do not depend on the transport, and how workloads of coflows were made.
fn ground(spec: &ValidSpec<'_>) -> Result<(Arc<Network>, Flows, Vec<CoflowWorkload>), ScenarioError> {
    let make = || -> Result<_, ScenarioError> {
        let network = network::build(spec)?;
        let outages = faults::known_nic_outages(spec.faults, &network);
        let nics = Nics::new(&network, spec.nics.unwrap_or_default(), outages, spec.seed);
        if nics.is_none() && spec.nics.is_some() {
            return Err(ScenarioError::at_key("fabric.nics", "each host of this network has one link; leave it out"));
        }
        let workload = workload::generate(spec.workload, &network, nics.as_ref(), &spec.wire, spec.seed, spec.base_dir())?;
        let (flows, coflows) = workload.into_flows(nics);
        Ok((Arc::new(network), flows, coflows))
    };
    make().map_err(|error| spec.place(error))
}

impl Setup {
    /// The setup of a run of these flows.
    fn new(
        spec: &ValidSpec<'_>,
        network: Arc<Network>,
        flows: &Flows,
        coflows: &[CoflowWorkload],
    ) -> Result<Setup, ScenarioError> {
        Setup::unplaced(spec, network, flows, coflows).map_err(|error| spec.place(error))
    }

    /// The same, with errors that lack the file and line of their key.
    fn unplaced(
        spec: &ValidSpec<'_>,
        network: Arc<Network>,
        flows: &Flows,
        coflows: &[CoflowWorkload],
    ) -> Result<Setup, ScenarioError> {
        check_waiting(spec, flows)?;
        let placement = (spec.transport.placement)(spec.parameters);
        network::check_control_host(&network, spec.transport.name, placement)?;
        let paths = Paths::new(with_control_host(network.clone(), placement), spec.routing, spec.seed);
        network::check_paths(&paths, spec.transport.name, spec.transport.paths)?;
        let site = Site {
            network: &network,
            flows: flows.ids(),
            transport: spec.transport.name,
            fixed_routes: spec.transport.fixed_routes,
            fixed_rates: spec.transport.fixed_rates,
            placement,
            index: 0,
        };
        let mut faults = Faults::place(spec.faults, site)?;
        let reroutes = faults.reroutes(&paths)?;
        let Faults { by_link, link_outages, outages, storms, .. } = faults;
        let (memory, why) = match spec.memory.given {
            Some(memory) => (memory, None),
            None => {
                let PortMemory { bytes, holds } = fitting::memory(spec, &network, &paths);
                (bytes, Some(holds))
            }
        };
        limits::check_buffer(&network, memory)?;
        let mut setup = Setup {
            seed: spec.seed,
            paths,
            wire: spec.wire,
            memory: spec.memory.of(memory),
            pfc: spec.pfc.cloned(),
            time_limit: spec.time_limit,
            stall_limit: spec.stall_limit,
            faults: by_link,
            link_outages,
            reroutes,
            outages,
            storms,
            extremes: Extremes::of(flows.iter()),
            coflow_workloads: coflows.to_vec(),
            transport: spec.transport,
            parameters: spec.parameters.clone(),
            fitted: Vec::new(),
            metrics: spec.metrics.clone(),
            pending: spec.observe.pending,
            observation: Observation::new(spec.observe, &network)?,
            trace: spec.trace.map(|trace| TraceChoice::new(trace, &network)).transpose()?,
            network,
            misfits: Vec::new(),
            planned_in: Default::default(),
        };
        check(&setup, flows)?;
        let sizes = || workload::size_shares(spec.workload, flows, spec.base_dir());
        setup.parameters = spec.parameters.clone().fitted(&setup.conditions(), &sizes);
        setup.fitted = fitting::all(spec, &setup, why);
        setup.misfits = misfits::of(&setup, flows);
        Ok(setup)
    }
}

/// Checks that the transport can run flows that wait for others, if there are any.
fn check_waiting(spec: &ValidSpec<'_>, flows: &Flows) -> Result<(), ScenarioError> {
    if !flows.wait() || spec.transport.waiting_flows {
        return Ok(());
    }
    let name = spec.transport.name;
    let message =
        format!("{name} is computed from the flows' starts, which flows that wait for others do not have before they run");
    Err(ScenarioError::at_key("transport.name", message))
}

/// Checks that a run's clock and counters can hold the faults, pauses and sums, and that memory holds its headrooms.
fn check(setup: &Setup, flows: &Flows) -> Result<(), ScenarioError> {
    let too_long = |aimed: &AimedFault| matches!(aimed.fault, Fault::Reorder(_, delay) if delay > Duration::LONGEST);
    if setup.faults.iter().flatten().any(too_long) {
        return Err(ScenarioError::at_key("fault", format!("packets are held back for at most {}", Duration::LONGEST)));
    }
    setup.longest_pause()?;
    check_pfc(setup)?;
    let bytes = flows.iter().map(|flow| setup.wire.flow_wire_bytes(flow.size).get()).try_fold(0, u64::checked_add);
    if bytes.is_none() {
        return Err(ScenarioError::at_key("workload", "all flows together are more than 2^64 bytes"));
    }
    if setup.transport.name == catalogue::IDEAL {
        // The oracle serves all flows but background flows, however long that takes.
        let slowest = setup.network.links().iter().map(|link| link.rate).min().expect("a checked network has links");
        let served = flows.iter().filter(|flow| !flow.background).map(|flow| setup.wire.flow_wire_bytes(flow.size).get());
        let time = slowest.checked_transmit_time(Bytes::new(served.sum()));
        if time.is_none() {
            let message = format!("all flows together take more than {} over a link of {slowest}", Duration::LONGEST);
            return Err(ScenarioError::at_key("workload", message));
        }
    }
    Ok(())
}

/// Checks that the memory of each switch holds its headrooms.
fn check_pfc(setup: &Setup) -> Result<(), ScenarioError> {
    let Some((pfc, classes)) = setup.pfc.as_ref().zip(catalogue::classes_to_pause(setup.transport.name)) else { return Ok(()) };
    let classes = classes(&setup.parameters);
    for switch in setup.network.switches() {
        pfc.limits(&setup.network, switch, &setup.wire, setup.memory, classes).map_err(|message| {
            let BadParameter { key, message } = message.into();
            let key = key.unwrap_or_default();
            ScenarioError::at_key(if key == "buffer" { format!("fabric.{key}") } else { format!("fabric.pfc.{key}") }, message)
        })?;
    }
    Ok(())
}
