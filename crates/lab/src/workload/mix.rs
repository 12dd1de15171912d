//! `kind = "mix"`: several workloads at the same time.

use std::borrow::Cow;

use flowloom_core::Duration;
use flowloom_fabric::seed::{Purpose, stream_seed};
use flowloom_transports::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::traffic::first_repeated;
use super::{Context, FLOWS_MAX, Workload, WorkloadKind};
use crate::ScenarioError;

/// Which flows there are, and when they start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = join_kinds)]
pub enum WorkloadSpec {
    /// Flows of one kind.
    One(WorkloadKind),
    /// Several workloads at the same time.
    Several(Mix),
}

/// Several workloads at the same time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mix {
    /// Several workloads run at the same time.
    ///
    /// The random choices of a part do not depend on the other parts, so a part can be added after them without changing them. In the
    /// results, a part is a tenant: all flows of the first part have tenant 0, and so on. Parts have no tenants of their own.
    Mix(Parts),
}

/// The parts of a mix.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The parts of the mix.
    #[serde(rename = "part")]
    #[schemars(length(min = 1, max = 1000))]
    pub parts: Vec<Part>,
}

/// One workload of a mix, of any other kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// The instant that its own times count from.
    #[serde(default)]
    pub start: Quantity<Duration>,
    /// What it is.
    #[serde(flatten)]
    pub kind: WorkloadKind,
}

impl JsonSchema for Part {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Part".into()
    }
    /// The kinds, each with the keys that all parts have.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut start = generator.subschema_for::<Quantity<Duration>>();
        start.insert("description".to_owned(), "The instant that all times of the part count from.".into());
        start.insert("default".to_owned(), Duration::ZERO.to_string().into());
        start.insert("x-min".to_owned(), "0s".into());
        start.insert("x-max".to_owned(), "1000000s".into());
        let about = "The part's name, which no other part has. It serves readers of the scenario. Results number parts from 0, in this order.";
        let name = json!({ "description": about, "type": "string", "examples": ["background"] });
        let mut schema = WorkloadKind::json_schema(generator);
        schema.insert("description".to_owned(), "One workload of a mix, of any other kind.".into());
        let branches = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for branch in branches.expect("a choice of kinds") {
            let properties = branch["properties"].as_object_mut().expect("a kind is a table");
            properties.insert("name".to_owned(), name.clone());
            properties.insert("start".to_owned(), start.clone().into());
            branch["required"].as_array_mut().expect("a kind has a tag").push("name".into());
        }
        schema
    }
}

/// Makes one choice of a choice between choices.
fn join_kinds(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.remove("anyOf") else { return };
    let kinds = |mut choice: Value| choice["oneOf"].take().as_array().cloned().expect("a choice of kinds");
    let all: Vec<Value> = choices.into_iter().flat_map(kinds).collect();
    schema.insert("oneOf".to_owned(), all.into());
}

/// Checks each part, and that it has a name of its own.
pub(super) fn check_parts(parts: &[Part]) -> Result<(), ScenarioError> {
    if let Some(index) = first_repeated(parts.iter().map(|part| &part.name)) {
        let message = format!("a second part is called \"{}\"", parts[index].name);
        return Err(ScenarioError::at_key(format!("workload.part.{index}.name"), message));
    }
    for (index, part) in parts.iter().enumerate() {
        let key = format!("workload.part.{index}");
        if !part.kind.tenants().is_empty() {
            let message = "a part has no tenants of its own, since each part is a tenant; make a part of each";
            return Err(ScenarioError::at_key(format!("{key}.tenant"), message));
        }
        part.kind.check().map_err(|error| error.moved("workload", &key))?;
    }
    Ok(())
}

/// The flows of all parts, in order of (start, part). A part's number is the tenant of its flows. Numbers of coflows go on from part to
/// part.
pub(super) fn workload(parts: &[Part], context: &Context<'_>) -> Result<Workload, ScenarioError> {
    let mut all = Workload::from(Vec::new());
    let mut coflows = 0;
    for (index, part) in parts.iter().enumerate() {
        let key = format!("workload.part.{index}");
        let seed = stream_seed(context.seed, Purpose::Parts, index as u64);
        let mut own = part.kind.flows(&Context { seed, ..*context }).map_err(|error| error.moved("workload", &key))?;
        if own.all_flows().any(|flow| flow.tenant != 0) {
            let message = "a part has no tenants of its own, since each part is a tenant; make a part of each";
            return Err(ScenarioError::at_key(format!("{key}.file"), message));
        }
        own.belong_to(index as u16);
        coflows = all
            .append(own, part.start.0, coflows)
            .ok_or_else(|| ScenarioError::at_key(&key, "with this part, the mix has more than 2^32 coflow numbers"))?;
        let count = all.flows.len() + all.waiting.count();
        if count > FLOWS_MAX as usize {
            return Err(ScenarioError::at_key(
                key,
                format!("with this part, the mix has {count} flows; the limit is {FLOWS_MAX}"),
            ));
        }
    }
    Ok(all.in_order())
}
