//! Deadlines of flows.

use flowloom_core::{Duration, Flow};
use flowloom_fabric::seed::Purpose;

use super::Context;
use crate::ScenarioError;
use crate::ideal::UnloadedTimes;
use crate::random::Stream;
use crate::spec::{Deadline, ExponentialDeadline, UniformDeadline};

/// Gives each flow a deadline: its start, plus the larger of a random span and `floor` times what the flow takes alone
/// ([`Network::flow_time`](flowloom_core::Network::flow_time), after a handshake if the scenario says so), as the pHost paper has it (§4.3).
pub(super) fn assign(flows: &mut [Flow], spec: &Deadline, context: &Context<'_>) -> Result<(), ScenarioError> {
    let (Deadline::Exponential(ExponentialDeadline { floor, handshake, .. })
    | Deadline::Uniform(UniformDeadline { floor, handshake, .. })) = spec;
    let stream = |host| Stream::new(context.seed, Purpose::Deadlines, host);
    let mut streams: Vec<Stream> = (0..context.network.hosts() as u64).map(stream).collect();
    let mut unloaded = UnloadedTimes::new(context.network, context.wire);
    for flow in flows {
        let handshake = if *handshake { unloaded.handshake(flow) } else { Duration::ZERO };
        let least = (handshake + unloaded.received(flow)).checked_scale(*floor).ok_or_else(|| too_late("floor", flow))?;
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
