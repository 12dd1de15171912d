//! `[transport]` and `[metrics]`: what runs, and what it is judged by.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Quantity;
use crate::metrics::FctEnd;
use crate::registry;

/// Which transport runs, and the parameters of this one and possibly of others. Only those of the one that runs are used, so that
/// one scenario serves to compare several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TransportSpec {
    /// The name of the transport that runs.
    pub name: String,
    /// By transport: its parameters. Once a scenario is loaded, every default is filled in, and the running transport is here.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, toml::Table>,
}

impl JsonSchema for TransportSpec {
    fn schema_name() -> Cow<'static, str> {
        "Transport".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = registry::names().collect();
        let name = json_schema!({ "description": "The name of the transport that runs.", "type": "string", "enum": names });
        let mut properties = Map::from_iter([("name".to_owned(), Value::from(name))]);
        properties.extend(registry::ENTRIES.iter().map(|entry| (entry.name.to_owned(), (entry.schema)(generator).into())));
        json_schema!({
            "description": "Which transport runs, and the parameters of this one and possibly of others.",
            "type": "object",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": false,
        })
    }
}

/// What results are made of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// What ends a flow.
    pub fct_end: FctEnd,
    /// What a flow completion time is divided by to make a slowdown.
    pub optimum: Optimum,
    /// A constant that is added to every flow's completion time and to its optimum, and to the completion time of every request: the
    /// way of the request that the flow answers, and the application's time, which a simulation of the flow alone does not show.
    pub request_delay: Quantity<Duration>,
    /// Slowdowns and completion times are also given by flow size: above each of these sizes, up to the next. Ascending, from 0.
    pub size_bins: Vec<Quantity<Bytes>>,
}

/// What a flow completion time is divided by to make a slowdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Optimum {
    /// The time for the flow's packets back to back over the idle network.
    #[default]
    ClosedForm,
    /// The time that the transport itself takes for the flow, alone in the network.
    Solo,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let size_bins = [0, 10_000, 100_000, 10_000_000].map(|bytes| Quantity(Bytes::new(bytes))).to_vec();
        Metrics { fct_end: FctEnd::default(), optimum: Optimum::default(), request_delay: Quantity::default(), size_bins }
    }
}
