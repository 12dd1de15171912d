//! Deadlines of flows.

use flowloom_core::{Duration, Flow};
use flowloom_fabric::seed::Purpose;

use super::Context;
use crate::ideal::UnloadedTimes;
use crate::random::Stream;
use crate::spec::{Deadline, ExponentialDeadline, UniformDeadline};

/// Gives each flow a deadline: its start, plus the larger of a random span and `floor` times what the flow takes alone
/// ([`Network::flow_time`](flowloom_core::Network::flow_time)), as the pHost paper has it (§4.3).
pub(super) fn assign(flows: &mut [Flow], spec: &Deadline, context: &Context<'_>) {
    let (Deadline::Exponential(ExponentialDeadline { floor, .. }) | Deadline::Uniform(UniformDeadline { floor, .. })) = spec;
    let stream = |host| Stream::new(context.seed, Purpose::Deadlines, host);
    let mut streams: Vec<Stream> = (0..context.network.hosts() as u64).map(stream).collect();
    let mut unloaded = UnloadedTimes::new(context.network, context.wire);
    for flow in flows {
        let span = draw(spec, &mut streams[flow.src.index()]).max(unloaded.received(flow).scale(*floor));
        flow.deadline = Some(flow.start + span);
    }
}

fn draw(spec: &Deadline, stream: &mut Stream) -> Duration {
    match spec {
        Deadline::Exponential(spec) => spec.mean.0.scale(stream.exponential()),
        Deadline::Uniform(spec) => spec.min.0 + (spec.max.0 - spec.min.0).scale(stream.unit()),
    }
}
