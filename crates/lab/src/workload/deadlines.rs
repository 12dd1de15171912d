//! Deadlines of flows.

use flowloom_core::{Duration, Flow};
use flowloom_fabric::seed::Purpose;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Context;
use crate::ScenarioError;
use crate::ideal::UnloadedTimes;
use crate::random::Stream;

/// The deadline of a flow is a random time after its start, but never less than `floor` times what the flow would need alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Deadline {
    /// The time is exponentially distributed.
    Exponential(ExponentialDeadline),
    /// The time is uniformly distributed.
    Uniform(UniformDeadline),
}

/// Exponentially distributed deadlines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExponentialDeadline {
    /// The mean time before the floor is applied.
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub mean: Quantity<Duration>,
    /// No deadline is below this many times the flow's optimum.
    #[serde(default = "usual_floor")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: f64,
    /// Whether the flow's optimum has a handshake before it, as with `metrics.optimum = "handshake"`. Without it, a transport that asks before
    /// it sends misses the deadline of a short flow that is drawn early.
    #[serde(default)]
    pub handshake: bool,
}

/// Uniformly distributed deadlines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UniformDeadline {
    /// The shortest time before the floor is applied.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub min: Quantity<Duration>,
    /// The longest time before the floor is applied.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub max: Quantity<Duration>,
    /// No deadline is below this many times the flow's optimum.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: f64,
    /// Whether the flow's optimum has a handshake before it, as with `metrics.optimum = "handshake"`. Without it, a transport that asks before
    /// it sends misses the deadline of a short flow that is drawn early.
    #[serde(default)]
    pub handshake: bool,
}

/// The pHost paper's, §4.3.
fn usual_floor() -> f64 {
    1.25
}

impl Deadline {
    /// Checks that the shortest time is no longer than the longest.
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        match self {
            Deadline::Uniform(spec) if spec.max < spec.min => {
                let message = format!("found {}, which is before min, {}", spec.max.0, spec.min.0);
                Err(ScenarioError::at_key("workload.deadline.max", message))
            }
            Deadline::Exponential(_) | Deadline::Uniform(_) => Ok(()),
        }
    }
}

/// Gives each flow a deadline: its start, plus the larger of a random span and `floor` times what the flow takes alone
/// ([`Network::flow_time`](flowloom_core::Network::flow_time), after a handshake if the scenario says so), as the pHost paper has it (§4.3). Where hosts have several NICs, the slowest
/// pair that it may use counts.
pub(super) fn assign(flows: &mut [Flow], spec: &Deadline, context: &Context<'_>) -> Result<(), ScenarioError> {
    let (Deadline::Exponential(ExponentialDeadline { floor, handshake, .. })
    | Deadline::Uniform(UniformDeadline { floor, handshake, .. })) = spec;
    let stream = |host| Stream::new(context.seed, Purpose::Deadlines, host);
    let mut streams: Vec<Stream> = (0..context.network.hosts() as u64).map(stream).collect();
    let mut unloaded = UnloadedTimes::new(context.network, context.wire);
    let mut alone = |flow: &Flow| {
        let handshake = if *handshake { unloaded.handshake(flow) } else { Duration::ZERO };
        handshake + unloaded.received(flow)
    };
    for flow in flows {
        // The flow's number, which its NICs follow from, is not known yet.
        let alone = match context.nics {
            None => alone(flow),
            Some(nics) => {
                let pairs = nics.pairs(flow.src, flow.dst);
                pairs.map(|(src, dst)| alone(&Flow { src, dst, ..*flow })).max().unwrap_or_default()
            }
        };
        let least = alone.checked_scale(*floor).ok_or_else(|| too_late("floor", flow))?;
        let drawn = draw(spec, &mut streams[flow.src.index()]).map_err(|key| too_late(key, flow))?;
        flow.deadline = Some(flow.start + drawn.max(least));
    }
    Ok(())
}

/// The span, or the key that makes it longer than any span of a run.
fn draw(spec: &Deadline, stream: &mut Stream) -> Result<Duration, &'static str> {
    match spec {
        Deadline::Exponential(spec) => spec.mean.0.checked_scale(stream.exponential()).ok_or("mean"),
        Deadline::Uniform(spec) if spec.max.0 > Duration::LONGEST => Err("max"),
        Deadline::Uniform(spec) => Ok(spec.min.0 + (spec.max.0 - spec.min.0).scale(stream.unit())),
    }
}

fn too_late(key: &str, flow: &Flow) -> ScenarioError {
    let message = format!("a flow of {} would have more than {} until its deadline; give less", flow.size, Duration::LONGEST);
    ScenarioError::at_key(format!("workload.deadline.{key}"), message)
}
