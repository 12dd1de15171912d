//! `[[workload.background]]`: flows that nobody waits for.

use flowloom_core::{Bytes, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HostRef, MatrixKind, Quantity, WorkloadSpec};

/// Background flows: either one flow from `src` to `dst`, or `pairs` of them between hosts that are drawn from a traffic matrix.
///
/// They run beside the workload's flows, but the run does not wait for them. They do not count in the workload's load. They are left out
/// of the results unless `metrics.background` is set; the summary has their goodput.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// The sending host, by number or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<HostRef>,
    /// The receiving host, by number or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<HostRef>,
    /// How many flows there are, if `src` and `dst` are not given. Each has a pair of hosts that is drawn from `matrix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), example = 2)]
    pub pairs: Option<u32>,
    /// The traffic matrix of `pairs`. By default, it is the workload's, or `all_to_all` if the workload has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<MatrixKind>,
    /// When they start.
    #[serde(default)]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub start: Quantity<Duration>,
    /// The size of each flow. By default, it is as large as a flow can be, so that no flow ends before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"))]
    pub size: Option<Quantity<Bytes>>,
}

/// A workload, and the flows in its background.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadTable {
    /// The flows that the run is about.
    #[serde(flatten)]
    pub spec: WorkloadSpec,
    /// The flows in the background.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
}

impl JsonSchema for WorkloadTable {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Workload".into()
    }
    /// The kinds of workloads, each with the key that all have.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut background = generator.subschema_for::<Vec<Background>>();
        background.insert("description".to_owned(), "Flows in the background, any number of times.".into());
        background.insert("default".to_owned(), Value::Array(Vec::new()));
        background.insert("maxItems".to_owned(), 1000.into());
        let mut schema = WorkloadSpec::json_schema(generator);
        let branches = schema.get_mut("oneOf").and_then(Value::as_array_mut).expect("a choice of kinds");
        for branch in branches {
            let properties = branch["properties"].as_object_mut().expect("a kind is a table");
            properties.insert("background".to_owned(), background.clone().into());
        }
        schema
    }
}
