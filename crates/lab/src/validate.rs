//! From a scenario as it was written to one that is valid: every rule that needs neither the network nor another file is checked here,
//! and values become the types that the simulator works with. The schema has checked each value alone by then.

use std::path::Path;

use flowloom_core::{Bytes, Duration, Memory, Switching, Time, WireProfile};
use flowloom_fabric::Routing;
use flowloom_transports::pfc::Pfc;

use crate::catalogue::{self, TransportEntry};
use crate::faults::FaultSpec;
use crate::parameters::{BadParameter, Parameters};
use crate::spec::{Fabric, Metrics, Observe, PacketTrace, Quantity, Run, Scenario, SharingMode, SizeBins, Spec, SwitchingMode};
use crate::topologies::Topology;
use crate::workload::{NicChoice, WorkloadTable};
use crate::{ScenarioError, faults, spec, workload};

/// A valid scenario: only the network, and the files that the scenario names, can still be at fault.
#[derive(Clone, Copy)]
pub struct ValidSpec<'a> {
    scenario: &'a Scenario,
    /// The seed of all random choices.
    pub seed: u64,
    /// No event after this instant is handled; [`Time::LAST`] where the scenario does not say.
    pub time_limit: Time,
    /// How long a run may make no progress, if the scenario says so.
    pub stall_limit: Option<Duration>,
    /// The shape of the network.
    pub topology: &'a Topology,
    /// How many bytes packets take on a link.
    pub wire: WireProfile,
    /// The memory of ports and switches, as far as the scenario says it.
    pub memory: MemoryRule,
    /// The choice among equally short paths.
    pub routing: Routing,
    /// How the NICs of a flow are chosen, if the scenario says so.
    pub nics: Option<NicChoice>,
    /// When a switch may begin to forward a packet.
    pub switching: Switching,
    /// Priority flow control, if the scenario has it.
    pub pfc: Option<&'a Pfc>,
    /// What goes wrong.
    pub faults: &'a [FaultSpec],
    /// Which flows there are.
    pub workload: &'a WorkloadTable,
    /// The transport that runs.
    pub transport: &'static TransportEntry,
    /// The parameters of the transport that runs.
    pub parameters: &'a Parameters,
    /// What results are made of.
    pub metrics: &'a Metrics,
    /// What is recorded over the course of the run.
    pub observe: &'a Observe,
    /// Which packets are recorded one by one.
    pub trace: Option<&'a PacketTrace>,
}

impl Scenario {
    /// Checks how the values of the scenario fit together.
    ///
    /// # Errors
    /// The first rule that is broken, with file, line and key.
    pub fn validate(&self) -> Result<ValidSpec<'_>, ScenarioError> {
        ValidSpec::new(self).map_err(|error| self.place(error))
    }
}

impl<'a> ValidSpec<'a> {
    fn new(scenario: &'a Scenario) -> Result<ValidSpec<'a>, ScenarioError> {
        let Spec { run, topology, fabric, faults, workload, transport, metrics, observe, trace } = &scenario.spec;
        check_parameters(transport)?;
        topology.check()?;
        faults::check(faults, fabric.pfc.is_some())?;
        workload::check(workload)?;
        check_metrics(metrics)?;
        check_span("observe", observe.from, observe.to)?;
        trace.as_ref().map_or(Ok(()), |trace| check_span("trace", trace.from, trace.to))?;
        let (wire, entry) = (fabric.wire.profile(), transport.entry());
        Ok(ValidSpec {
            scenario,
            seed: run.seed,
            time_limit: time_limit(run)?,
            stall_limit: run.stall_limit.map(|limit| limit.0),
            topology,
            wire,
            memory: memory(fabric, &wire, entry)?,
            routing: fabric.routing(entry.routing)?,
            nics: fabric.nics,
            switching: switching(fabric, &wire),
            pfc: pfc(fabric, entry)?,
            faults,
            workload,
            transport: entry,
            parameters: transport.chosen(),
            metrics,
            observe,
            trace: trace.as_ref(),
        })
    }

    /// The folder that the files which the scenario names are relative to.
    pub fn base_dir(&self) -> &'a Path {
        &self.scenario.base_dir
    }

    /// Whether the scenario chooses the routing, and does not leave it to the transport.
    pub(crate) fn chooses_routing(&self) -> bool {
        self.scenario.spec.fabric.routing.is_some()
    }

    /// An error about a key of this scenario, with its file and line, or the override that set it.
    pub(crate) fn place(&self, error: ScenarioError) -> ScenarioError {
        self.scenario.place(error)
    }
}

/// The rules of every transport whose parameters are given.
fn check_parameters(transport: &spec::TransportSpec) -> Result<(), ScenarioError> {
    for (name, parameters) in &transport.parameters {
        parameters.check().map_err(|BadParameter { key, message }| {
            let key = key.map_or(String::new(), |key| format!(".{key}"));
            ScenarioError::at_key(format!("transport.{name}{key}"), message)
        })?;
    }
    Ok(())
}

fn time_limit(run: &Run) -> Result<Time, ScenarioError> {
    match run.time_limit {
        Some(limit) if limit.0 > Time::LAST - Time::ZERO => {
            Err(ScenarioError::at_key("run.time_limit", format!("found {}; a run lasts at most {}", limit.0, Time::LAST)))
        }
        Some(limit) => Ok(Time::ZERO + limit.0),
        None => Ok(Time::LAST),
    }
}

fn switching(fabric: &Fabric, wire: &WireProfile) -> Switching {
    match fabric.switching {
        SwitchingMode::StoreAndForward => Switching::StoreAndForward,
        // A switch decides on what every packet has: as much as the smallest one.
        SwitchingMode::CutThrough => Switching::CutThrough { header: wire.control },
    }
}

/// How much memory ports and switches have.
#[derive(Clone, Copy)]
pub struct MemoryRule {
    /// What the scenario says of it.
    pub given: Option<Bytes>,
    /// The factor of the dynamic threshold if the ports of a switch share its memory.
    pub alpha: Option<f64>,
}

impl MemoryRule {
    /// This much for each port, or for each switch.
    pub fn of(self, bytes: Bytes) -> Memory {
        match self.alpha {
            Some(alpha) => Memory::PerSwitch { bytes, alpha },
            None => Memory::PerPort(bytes),
        }
    }
}

/// The factor of the dynamic threshold of a shared memory, where the scenario does not give it.
const ALPHA: f64 = 1.0;

fn memory(fabric: &Fabric, wire: &WireProfile, entry: &TransportEntry) -> Result<MemoryRule, ScenarioError> {
    let given = fabric.buffer.map(|buffer| buffer.0);
    if let Some(bytes) = given.filter(|bytes| *bytes < wire.full) {
        let message = format!("found {bytes}; a port holds at least one full packet, {}", wire.full);
        return Err(ScenarioError::at_key("fabric.buffer", message));
    }
    match (fabric.sharing, fabric.alpha) {
        (SharingMode::Port, None) => Ok(MemoryRule { given, alpha: None }),
        (SharingMode::Port, Some(alpha)) => Err(ScenarioError::at_key(
            "fabric.alpha",
            format!("found {alpha}, which has no effect unless fabric.sharing = \"switch\"; leave it out"),
        )),
        (SharingMode::Switch, alpha) if entry.shares_memory || fabric.pfc.is_some() => {
            Ok(MemoryRule { given, alpha: Some(alpha.unwrap_or(ALPHA)) })
        }
        (SharingMode::Switch, _) => {
            let able = catalogue::TRANSPORTS.iter().filter(|entry| entry.shares_memory);
            let able: Vec<&str> = able.map(|entry| entry.name).collect();
            let right = format!("it must be \"port\", or transport.name one of {}", able.join(", "));
            let message = format!("found \"switch\", but ports of {} cannot share a memory; {right}", entry.name);
            Err(ScenarioError::at_key("fabric.sharing", message))
        }
    }
}

/// Flow control, which the ports of the transport must be able to obey. The oracle ignores it, as it ignores memory.
fn pfc<'a>(fabric: &'a Fabric, entry: &TransportEntry) -> Result<Option<&'a Pfc>, ScenarioError> {
    let Some(pfc) = &fabric.pfc else { return Ok(None) };
    if catalogue::classes_to_pause(entry.name).is_none() && entry.name != catalogue::IDEAL {
        let able: Vec<&str> = catalogue::PAUSABLE.iter().map(|(name, _)| *name).collect();
        let message = format!("ports of {} cannot be paused; transport.name must be one of {}", entry.name, able.join(", "));
        return Err(ScenarioError::at_key("fabric.pfc", message));
    }
    Ok(Some(pfc))
}

fn check_metrics(metrics: &Metrics) -> Result<(), ScenarioError> {
    let SizeBins::Above(bins) = &metrics.size_bins else { return Ok(()) };
    if bins.first().is_none_or(|first| first.0 != Bytes::ZERO) || !bins.is_sorted_by(|a, b| a < b) {
        return Err(ScenarioError::at_key(
            "metrics.size_bins",
            "the bins start at \"0B\" and ascend, such as [\"0B\", \"10kB\", \"100kB\"]",
        ));
    }
    Ok(())
}

/// What is recorded between two instants.
fn check_span(section: &str, from: Quantity<Duration>, to: Option<Quantity<Duration>>) -> Result<(), ScenarioError> {
    if let Some(to) = to.filter(|to| to.0 <= from.0) {
        let message = format!("found {}, which is not after {section}.from ({})", to.0, from.0);
        return Err(ScenarioError::at_key(format!("{section}.to"), message));
    }
    Ok(())
}
