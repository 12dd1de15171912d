//! The sizes of flows.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::Bytes;
use flowloom_transports::SizeShare;
use flowloom_transports::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::waiting::Flows;
use super::{WorkloadSpec, WorkloadTable};
use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::cdf_file::{self, Dialect};
use crate::files;
use crate::tables::{self, TABLES};

/// The sizes of flows: the name of a table, or a distribution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sizes {
    /// The name of a table that comes with the simulator.
    #[schemars(schema_with = "table_names")]
    Table(String),
    /// `{ fixed = "100kB" }`: all flows have this size.
    Fixed(Fixed),
    /// `{ uniform = ["2kB", "198kB"] }`: sizes are uniform from the first to the second.
    Uniform(Uniform),
    /// `{ bimodal = ["4380B", "1022000B"], first_share = 0.9 }`: a flow has one of two sizes.
    Bimodal(Bimodal),
    /// `{ cdf = "my.csv", dialect = "bytes_percent" }`: a file has the distribution.
    Cdf(CdfFile),
}

/// Gives the items of a list the range of flow sizes.
fn size_range(schema: &mut Schema) {
    if let Some(items) = schema.get_mut("items").and_then(serde_json::Value::as_object_mut) {
        items.insert("x-min".to_owned(), "1B".into());
        items.insert("x-max".to_owned(), "1000TB".into());
    }
}

fn table_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// All flows have one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// The size of every flow.
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"))]
    pub fixed: Quantity<Bytes>,
}

/// Uniform between two sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// The smallest and the largest size.
    #[schemars(transform = size_range)]
    pub uniform: [Quantity<Bytes>; 2],
}

/// One of two sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bimodal {
    /// The smaller and the larger size.
    #[schemars(transform = size_range)]
    pub bimodal: [Quantity<Bytes>; 2],
    /// The share of flows that have the first size.
    #[schemars(range(min = 0, max = 1), example = 0.9)]
    pub first_share: f64,
}

/// The distribution is in a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CdfFile {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "my.csv")]
    pub cdf: String,
    /// What its columns mean. It is required unless the file names its columns, or its last row says 100 (percent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
}

impl Sizes {
    /// Checks that the smaller of two sizes comes first. `key` is where the scenario says the sizes.
    pub(super) fn check(&self, key: &str) -> Result<(), ScenarioError> {
        let ([low, high], key) = match self {
            Sizes::Uniform(Uniform { uniform }) => (uniform, format!("{key}.uniform")),
            Sizes::Bimodal(Bimodal { bimodal, .. }) => (bimodal, format!("{key}.bimodal")),
            Sizes::Table(_) | Sizes::Fixed(_) | Sizes::Cdf(_) => return Ok(()),
        };
        if low <= high {
            return Ok(());
        }
        Err(ScenarioError::at_key(key, format!("{} comes before the smaller {}; give the smaller size first", low.0, high.0)))
    }
}

/// The distribution that `sizes` names. `key` is where the scenario says it.
///
/// # Errors
/// An unknown table, a file that cannot be read or is no distribution.
pub fn distribution(sizes: &Sizes, base_dir: &Path, key: &str) -> Result<Cdf, ScenarioError> {
    match sizes {
        Sizes::Table(name) => match tables::table(name) {
            Some(table) => Ok(table.cdf()),
            None => Err(ScenarioError::at_key(key, format!("\"{name}\" is no table of flow sizes"))),
        },
        Sizes::Fixed(Fixed { fixed }) => Ok(Cdf::fixed(fixed.0.get())),
        Sizes::Uniform(Uniform { uniform: [low, high] }) => Ok(Cdf::uniform(low.0.get(), high.0.get())),
        Sizes::Bimodal(Bimodal { bimodal: [small, large], first_share }) => {
            Ok(Cdf::bimodal(small.0.get(), large.0.get(), *first_share))
        }
        Sizes::Cdf(file) => {
            let (name, text) = files::read(base_dir, &file.cdf, &format!("{key}.cdf"))?;
            cdf_file::parse(&text, file.dialect, &name)
        }
    }
}

/// The sizes of a workload's flows: its distribution if it has one only, otherwise the sizes of the flows that it waits for.
pub(crate) fn size_shares(table: &WorkloadTable, flows: &Flows, base_dir: &Path) -> Vec<SizeShare> {
    // The file of a distribution has been read before. If it is gone now, the flows still have sizes.
    let cdf = only_sizes(table).and_then(|sizes| distribution(sizes, base_dir, "workload.sizes").ok());
    cdf.map_or_else(|| shares_of_flows(flows), |cdf| cdf.size_shares())
}

/// The distribution of all flows, if they have the same.
fn only_sizes(table: &WorkloadTable) -> Option<&Sizes> {
    match &table.spec {
        WorkloadSpec::One(kind) if kind.tenants().is_empty() => kind.sizes(),
        _ => None,
    }
}

/// The sizes of the flows that the run waits for.
pub(crate) fn shares_of_flows(flows: &Flows) -> Vec<SizeShare> {
    let mut numbers: BTreeMap<Bytes, u32> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| !flow.background) {
        *numbers.entry(flow.size).or_default() += 1;
    }
    numbers.into_iter().map(|(size, number)| SizeShare { low: size, high: size, share: number.into() }).collect()
}
