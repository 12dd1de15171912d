//! The scenario as a user writes it. Every key has a documentation comment, from which the JSON schema and the reference are made.

mod fabric;
mod observe;
mod packet_trace;
#[cfg(test)]
mod tests;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use fabric::{Fabric, RoutingMode, Run, SharingMode, SwitchingMode, WirePreset};
pub use observe::{AllFlows, FlowChoice, Observe};
pub use packet_trace::PacketTrace;
pub use transport::{Deciles, FctEnd, Metrics, Optimum, SizeBins, TransportSpec};

use crate::ScenarioError;
use crate::faults::FaultSpec;
use crate::reading::{TomlText, read, schema_of};
use crate::topologies::Topology;
use crate::workload::WorkloadTable;

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
