//! `[transport]` and `[metrics]`: what runs, and what it is judged by.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::Quantity;
use crate::catalogue;
use crate::parameters::Parameters;

/// Which transport runs, and the parameters of this one and possibly of others. Only those of the one that runs are used, so that
/// one scenario serves to compare several.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TransportSpec {
    /// The name of the transport that runs.
    pub name: String,
    /// The parameters of each transport that the scenario has a table for, and of the one that runs.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Parameters>,
}

impl TransportSpec {
    /// The transport that runs, in the catalogue.
    pub fn entry(&self) -> &'static catalogue::TransportEntry {
        catalogue::transport(&self.name).expect("reading found the name in the catalogue")
    }

    /// The parameters of the transport that runs.
    pub fn chosen(&self) -> &Parameters {
        &self.parameters[&self.name]
    }
}

impl<'de> Deserialize<'de> for TransportSpec {
    /// Reads each transport's table as the parameters of that transport.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TransportSpec, D::Error> {
        #[derive(Deserialize)]
        struct Tables {
            name: String,
            #[serde(flatten)]
            tables: BTreeMap<String, toml::Table>,
        }
        let Tables { name, mut tables } = Tables::deserialize(deserializer)?;
        tables.entry(name.clone()).or_default();
        let read = |(name, table): (String, toml::Table)| {
            let entry =
                catalogue::transport(&name).ok_or_else(|| de::Error::custom(format!("there is no transport {name}")))?;
            let parameters = (entry.read)(table);
            let parameters = parameters.map_err(|error| de::Error::custom(format!("transport.{name}: {}", error.message())))?;
            Ok((name, parameters))
        };
        Ok(TransportSpec { name, parameters: tables.into_iter().map(read).collect::<Result<_, D::Error>>()? })
    }
}

impl JsonSchema for TransportSpec {
    fn schema_name() -> Cow<'static, str> {
        "Transport".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = catalogue::transport_names().collect();
        let name = json_schema!({ "description": "The name of the transport that runs.", "type": "string", "enum": names });
        let mut properties = Map::from_iter([("name".to_owned(), Value::from(name))]);
        let tables = catalogue::TRANSPORTS.iter().map(|entry| (entry.name.to_owned(), (entry.schema)(generator).into()));
        properties.extend(tables);
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
    /// Which event ends a flow.
    pub fct_end: FctEnd,
    /// The time that a flow completion time is divided by to make a slowdown.
    pub optimum: Optimum,
    /// A constant that is added to every flow's completion time and to its optimum, and to the completion time of every request. It
    /// stands for the delay of the request that the flow answers, and for the application's time, which a simulation of the flow
    /// alone does not include.
    #[schemars(extend("x-min" = "0s", "x-max" = "3600s"))]
    pub request_delay: Quantity<Duration>,
    /// Whether background flows count as all others in the results. Otherwise they are left out of everything but the summary's `background`,
    /// and of course the counters of ports, which see all packets.
    pub background: bool,
    /// Slowdowns and completion times are also given for bins of flow sizes. A bin has the flows above one of these sizes and up to the
    /// next. The sizes ascend from 0. With `"deciles"`, each bin has a tenth of the flows: its sizes follow from the flows that started, and bins
    /// whose sizes would be the same are one.
    pub size_bins: SizeBins,
    /// Whether the summary says how long links to hosts are idle while flows to these hosts are open (`gaps`). A run that records this
    /// takes a little more time.
    pub gaps: bool,
}

/// The bins of flow sizes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SizeBins {
    /// Each bin has a tenth of the flows.
    Deciles(Deciles),
    /// The bins begin above these sizes.
    Above(#[schemars(transform = bin_range)] Vec<Quantity<Bytes>>),
}

/// The word for bins of a tenth of the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Deciles {
    /// A tenth of the flows each.
    Deciles,
}

impl SizeBins {
    /// The sizes above which bins begin, ascending from 0. They follow from the sizes of these flows if bins are deciles.
    pub(crate) fn edges(&self, sizes: impl Iterator<Item = Bytes>) -> Vec<Bytes> {
        let SizeBins::Above(edges) = self else {
            let mut sizes: Vec<Bytes> = sizes.collect();
            sizes.sort_unstable();
            let tenth = |tenths: usize| sizes.get((sizes.len() * tenths).div_ceil(10).checked_sub(1)?).copied();
            // A flow as large as an edge is below it, so the largest size would begin an empty bin.
            let inner = (1..10).filter_map(tenth).filter(|edge| Some(edge) < sizes.last() && *edge > Bytes::ZERO);
            let mut edges: Vec<Bytes> = std::iter::once(Bytes::ZERO).chain(inner).collect();
            edges.dedup();
            return edges;
        };
        edges.iter().map(|edge| edge.0).collect()
    }
}

/// Gives the edges of the size bins their range.
fn bin_range(schema: &mut Schema) {
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("x-min".to_owned(), "0B".into());
        items.insert("x-max".to_owned(), "1000TB".into());
    }
}

/// Which event ends a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FctEnd {
    /// The last byte is delivered (PIAS, ExpressPass).
    #[default]
    Receiver,
    /// The sender has the final acknowledgement (pHost).
    Sender,
}

/// The time that a flow completion time is divided by to make a slowdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Optimum {
    /// The time for the flow's packets back to back over the idle network.
    #[default]
    ClosedForm,
    /// The closed form behind a handshake: the round trip of two control packets. A transport that asks for credits cannot be faster (TOP, footnote 1).
    Handshake,
    /// The time that the transport itself takes for the flow, alone in the network.
    Solo,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let size_bins = [0, 10_000, 100_000, 10_000_000].map(|bytes| Quantity(Bytes::new(bytes))).to_vec();
        Metrics {
            fct_end: FctEnd::default(),
            optimum: Optimum::default(),
            request_delay: Quantity::default(),
            background: false,
            size_bins: SizeBins::Above(size_bins),
            gaps: false,
        }
    }
}
