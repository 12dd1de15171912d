//! The scenario as a user writes it. Every key has a documentation comment, from which the JSON schema and the reference are made.

mod background;
mod check;
mod coflow;
mod fabric;
mod host;
mod mix;
mod observe;
mod packet_trace;
mod requests;
#[cfg(test)]
mod tests;
mod toml_text;
mod topology;
mod transport;
mod workload;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use flowloom_transports::quantity::Quantity;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Table;

pub use background::{Background, WorkloadTable};
pub use coflow::{CoflowSynthetic, CoflowTrace};
pub use fabric::{
    Fabric, FaultPackets, FaultSpec, LinkDown, NodeDown, PauseStorm, Random, Reorder, RoutingMode, Run, SharingMode,
    SwitchingMode, WirePreset,
};
pub use host::HostRef;
pub use mix::{Mix, Part, Parts};
pub use observe::{AllFlows, FlowChoice, Observe};
pub use packet_trace::PacketTrace;
pub(crate) use requests::{PayloadOf, RequestStarts};
pub(crate) use toml_text::TomlText;
pub use topology::{
    Custom, Dumbbell, FatTree, HostEntry, LeafSpine, LinkEntry, NetworkFile, NodeEntry, SingleSwitch, SwitchEntry, ThreeTier,
    Topology,
};
pub use transport::{FctEnd, Metrics, Optimum, TransportSpec};
pub use workload::{
    Bimodal, Burst, CdfFile, ClosedLoop, Deadline, ExponentialDeadline, FLOWS_MAX, Fixed, Incast, LoadLink, MatrixKind,
    Permutation, Poisson, Receivers, Sizes, Sources, Tenant, Trace, Uniform, UniformDeadline, WorkloadKind, WorkloadSpec,
};

use crate::ScenarioError;

/// Everything that determines a run's results. Quantities are text with units: `"10Gb/s"`, `"200ns"`, `"36kB"` (1000 B) or
/// `"36KiB"` (1024 B).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Flowloom scenario")]
pub struct Spec {
    /// The run as a whole.
    #[serde(default)]
    pub run: Run,
    /// The shape of the network.
    pub topology: Topology,
    /// Links and switches.
    #[serde(default)]
    pub fabric: Fabric,
    /// What goes wrong, any number of times.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
    /// Which flows there are.
    pub workload: WorkloadTable,
    /// Which transport runs.
    pub transport: TransportSpec,
    /// What results are made of.
    #[serde(default)]
    pub metrics: Metrics,
    #[serde(default)]
    #[expect(missing_docs)] // the type's documentation is the section's
    pub observe: Observe,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[expect(missing_docs)] // likewise
    pub trace: Option<PacketTrace>,
}

impl Spec {
    /// The scenario as TOML with every default filled in. It reads back as the same scenario.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a scenario is written as TOML")
    }
}

/// The JSON schema of a scenario, with everything inlined.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<Spec>); // it takes longer than to read a scenario
    &SCHEMA
}

/// The JSON schema of the file of a custom topology.
pub(crate) fn network_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<NetworkFile>);
    &SCHEMA
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    SchemaGenerator::new(settings).into_root_schema_for::<T>().into()
}

/// A scenario, and where it came from.
pub struct Scenario {
    /// What it says.
    pub spec: Spec,
    /// The folder that the files it names are relative to.
    pub base_dir: PathBuf,
    source: TomlText,
}

impl Scenario {
    /// Reads a scenario from `text`, which came from the file `path`, and applies `key.path=value` overrides.
    ///
    /// # Errors
    /// If the text is no TOML or not a scenario: unknown and missing keys, wrong types, units and ranges. How values fit together is
    /// checked by [`Scenario::validate`], and what depends on the network and on other files by [`Plan::new`](crate::Plan::new).
    pub fn load(text: &str, path: &str, overrides: &[String]) -> Result<Scenario, ScenarioError> {
        let (source, table) = TomlText::parse(text, path, overrides)?;
        let spec: Spec = read(table, schema(), path, &source)?;
        let base_dir = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        Ok(Scenario { spec, base_dir, source })
    }

    /// An error about a key of this scenario, with its file and line, or the override that set it.
    pub(crate) fn place(&self, error: ScenarioError) -> ScenarioError {
        self.source.place(error)
    }
}

/// Checks a table against the schema of `T`, then makes a `T` of it.
pub(crate) fn read<T: DeserializeOwned>(
    table: Table,
    schema: &Value,
    file: &str,
    source: &TomlText,
) -> Result<T, ScenarioError> {
    check::check(&table, schema, source)?;
    table.try_into().map_err(|error: toml::de::Error| ScenarioError::at_place(file, error.message()))
}
