//! `[[workload.background]]`: flows that nobody waits for.

use flowloom_core::{Bytes, Duration, Flow, FlowId, Network, NodeId, Time, WireProfile};
use flowloom_fabric::seed::Purpose;
use flowloom_transports::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::hosts::{HostRef, find_host};
use super::matrix::{Matrix, MatrixKind};
use super::mix::WorkloadSpec;
use super::{Context, FLOWS_MAX, Workload};
use crate::random::Stream;
use crate::{ScenarioError, limits};

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

impl Background {
    /// Either `src` and `dst`, or `pairs`. An error has the key at fault, and what would be right.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        match (&self.src, &self.dst, self.pairs, self.matrix) {
            (Some(_), Some(_), None, None) | (None, None, Some(_), _) => Ok(()),
            (Some(_), None, None, _) => Err(("dst", "missing; give the host that receives the flow")),
            (None, Some(_), None, _) => Err(("src", "missing; give the host that sends the flow")),
            (None, None, None, _) => {
                Err(("pairs", "missing; give src and dst for one flow, or pairs = 2 for two between random hosts"))
            }
            (_, _, Some(_), _) => Err(("pairs", "src or dst is given too; give either both of them or pairs")),
            (Some(_), Some(_), None, Some(_)) => Err(("matrix", "it has no effect where src and dst are given; leave it out")),
        }
    }
}

/// Adds background flows to a workload. `matrix` is the workload's, if it has one.
///
/// # Errors
/// Hosts that do not exist, or more flows than a run can have.
pub(super) fn add(
    mut workload: Workload,
    specs: &[Background],
    matrix: Option<MatrixKind>,
    context: &Context<'_>,
) -> Result<Workload, ScenarioError> {
    if specs.is_empty() {
        return Ok(workload);
    }
    let first = workload.flows.len();
    for (index, spec) in specs.iter().enumerate() {
        let key = format!("workload.background.{index}");
        for (src, dst) in ends(spec, index, matrix, context, &key)? {
            let size = spec.size.map_or_else(|| endless(context.network, context.wire), |size| size.0);
            let id = FlowId(workload.flows.len() as u32);
            let start = Time::ZERO + spec.start.0;
            workload.flows.push(Flow { id, src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: true });
        }
        if workload.flows.len() > FLOWS_MAX as usize {
            let count = workload.flows.len();
            return Err(ScenarioError::at_key(key, format!("with these, there are {count} flows; the limit is {FLOWS_MAX}")));
        }
    }
    limits::check_flows(workload.flows[first..].iter().copied(), context.network, context.wire)
        .map_err(|error| error.moved("workload", "workload.background"))?;
    Ok(workload.in_order())
}

/// The ends of each flow.
fn ends(
    spec: &Background,
    index: usize,
    matrix: Option<MatrixKind>,
    context: &Context<'_>,
    key: &str,
) -> Result<Vec<(NodeId, NodeId)>, ScenarioError> {
    if let (Some(src), Some(dst)) = (&spec.src, &spec.dst) {
        let find = |host: &HostRef, name: &str| find_host(host, context.network, &format!("{key}.{name}"));
        let (src, dst) = (find(src, "src")?, find(dst, "dst")?);
        if src == dst {
            let name = &context.network.node(src).name;
            return Err(ScenarioError::at_key(
                format!("{key}.dst"),
                format!("found {name}, which is src as well; give another host"),
            ));
        }
        return Ok(vec![(src, dst)]);
    }
    let kind = spec.matrix.or(matrix).unwrap_or_default();
    let matrix = Matrix::new(kind, context.network, context.seed);
    let mut sum = 0.0;
    let running = matrix.weights().iter().map(|weight| {
        sum += weight;
        sum
    });
    let running: Vec<f64> = running.collect();
    let mut stream = Stream::new(context.seed, Purpose::Background, index as u64);
    let pair = |_| {
        let src = stream.weighted(&running) as u32;
        (NodeId(src), matrix.destination(src, &mut stream))
    };
    Ok((0..spec.pairs.unwrap_or(0)).map(pair).collect())
}

/// A size that no run transmits, and that every transport can count: see [`limits::check_flows`].
fn endless(network: &Network, wire: &WireProfile) -> Bytes {
    let slowest = network.links().iter().map(|link| link.rate).min().expect("a checked network has links");
    // A tenth of the longest time, so that the fastest link does not transmit more bytes than a number can hold.
    let packets = slowest.bytes_in(Duration::LONGEST / 10).get() / wire.full.get();
    // Half of what can be counted, because the headers of some transports leave less room for payload in a packet.
    wire.payload() * packets.clamp(1, u64::from(u32::MAX / 2))
}
