//! What follows from the transport and the network where the scenario leaves it open: the memory of ports, the routing, and parameters of the transport.

use std::fmt::Write as _;
use std::sync::Arc;

use flowloom_core::{Bytes, Network, Paths};
use flowloom_transports::{Conditions, PortMemory};
use toml::{Table, Value};

use crate::plan::{Fitted, Setup};
use crate::spec::{Quantity, RoutingMode, Scenario, Spec};
use crate::validate::ValidSpec;
use crate::{catalogue, network, zero_loss};

/// The memory of a port under a transport that says nothing of it: 24 packets (pHost paper, §4.1).
const LEAST: Bytes = Bytes::new(36_864);
/// The most that a scenario can give.
const MOST: Bytes = Bytes::new(2_000_000_000);

/// The memory of each port, or of each switch, where the scenario does not give it, and what it holds.
pub(crate) fn memory(spec: &ValidSpec<'_>, network: &Network, paths: &Paths) -> PortMemory {
    let conditions = Conditions { pauses: spec.pfc.is_some(), ..Conditions::new(network, spec.wire, Bytes::ZERO) };
    let need = spec.parameters.port_memory(&conditions).or_else(|| scheduled_data(spec, paths));
    let name = spec.transport.name;
    let least = LEAST.max(spec.wire.full);
    let mut memory = match need.filter(|need| need.bytes > least) {
        Some(PortMemory { bytes, holds }) => PortMemory { bytes, holds: format!("{name} needs it for {holds}") },
        None => PortMemory { bytes: least, holds: format!("{name} needs no more") },
    };
    if let Some((pfc, classes)) = spec.pfc.zip(catalogue::classes_to_pause(name)) {
        let classes = u64::from(classes(spec.parameters));
        let headroom = network.links().iter().map(|link| pfc.headroom(link, &spec.wire)).max().unwrap_or_default();
        memory.bytes = (memory.bytes.max(pfc.xoff.unwrap_or_default()) + headroom) * classes;
        let _ = write!(memory.holds, "; each of {classes} classes has as much, and a headroom of {headroom}");
    }
    if spec.memory.alpha.is_some() {
        let ports = network.switches().map(|switch| network.ports(switch).len() as u64).max().unwrap_or(1);
        memory.bytes = memory.bytes * ports;
        let _ = write!(memory.holds, "; a switch has it for each of up to {ports} ports");
    }
    memory.bytes = memory.bytes.min(MOST);
    memory
}

/// The longest queue of data where credits schedule all data.
fn scheduled_data(spec: &ValidSpec<'_>, paths: &Paths) -> Option<PortMemory> {
    let bytes = zero_loss::bounds(spec.parameters, paths, &spec.wire)?.into_iter().max()?;
    Some(PortMemory { bytes, holds: "the longest queue of data that credits allow".to_owned() })
}

/// How much memory the ports of a scenario have, and why, if the scenario does not give it. `None` if it does, and if it is not valid or has no network.
pub fn memory_of(scenario: &Scenario) -> Option<(Bytes, String)> {
    let spec = scenario.validate().ok().filter(|spec| spec.memory.given.is_none())?;
    let network = Arc::new(network::build(&spec).ok()?);
    let paths = Paths::new(network.clone(), spec.routing, spec.seed);
    let PortMemory { bytes, holds } = memory(&spec, &network, &paths);
    Some((bytes, holds))
}

/// What a run has where its scenario leaves it open. `memory` says why ports have the memory that they have, if the scenario does not say how much that is.
pub(crate) fn all(spec: &ValidSpec<'_>, setup: &Setup, memory: Option<String>) -> Vec<Fitted> {
    let mut fitted = Vec::new();
    if let Some(why) = memory {
        fitted.push(Fitted { key: "fabric.buffer".to_owned(), value: Value::String(setup.memory.bytes().to_string()), why });
    }
    if !spec.chooses_routing() {
        let name = setup.transport.name;
        let why = format!("{name} runs on it where nothing else is chosen");
        fitted.push(Fitted { key: "fabric.routing".to_owned(), value: RoutingMode::from(spec.routing).word(), why });
    }
    let (given, used) = (spec.parameters.to_table(), setup.parameters.to_table());
    let key = format!("transport.{}", setup.transport.name);
    changed(&key, Some(&Value::Table(given)), &Value::Table(used), &mut fitted);
    fitted
}

/// Adds the keys below `key` that have other values than given.
fn changed(key: &str, given: Option<&Value>, used: &Value, fitted: &mut Vec<Fitted>) {
    match used {
        Value::Table(table) => {
            for (below, value) in table {
                changed(&format!("{key}.{below}"), given.and_then(|given| given.get(below)), value, fitted);
            }
        }
        value if given != Some(value) => {
            let why = "it follows from the network and the workload".to_owned();
            fitted.push(Fitted { key: key.to_owned(), value: value.clone(), why });
        }
        _ => {}
    }
}

impl Setup {
    /// The scenario of this setup with a value for every key: those that a run has where the scenario leaves keys out.
    pub fn resolved(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        spec.fabric.buffer.get_or_insert(Quantity(self.memory.bytes()));
        spec.fabric.routing.get_or_insert(self.paths.routing().into());
        let parameters =
            spec.transport.parameters.get_mut(self.transport.name).expect("the transport that runs has parameters");
        let mut table = parameters.to_table();
        fill(&mut table, self.parameters.to_table());
        *parameters = (self.transport.read)(table).expect("parameters that were written can be read");
        spec
    }
}

/// Adds what a table lacks.
fn fill(table: &mut Table, all: Table) {
    for (key, value) in all {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(all)) => fill(below, all),
            (Some(_), _) => {}
            (None, value) => drop(table.insert(key, value)),
        }
    }
}
