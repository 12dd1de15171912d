//! Flows that start when others have been received.

use std::collections::HashSet;

use flowloom_core::{NodeId, Time};
use flowloom_fabric::Successor;
use flowloom_fabric::seed::Purpose;

use super::arrivals::check_length;
use super::hosts::find_host;
use super::sizes::distribution;
use super::{Context, FlowList, Workload};
use crate::ScenarioError;
use crate::random::Stream;
use crate::spec::ClosedLoop;

/// Makes the first flow of every loop, at time 0 and in order of source and loop, and then all that wait, loop by loop.
pub(super) fn workload(spec: &ClosedLoop, context: &Context<'_>) -> Result<Workload, ScenarioError> {
    let (sources, to) = ends(spec, context)?;
    check_length("workload.requests", f64::from(spec.requests) * spec.think.0.as_secs_f64())?;
    let cdf = distribution(&spec.sizes, context.base_dir, "workload.sizes")?;
    let places = sources.iter().flat_map(|src| (0..u64::from(spec.loops)).map(|number| (*src, number)));
    let stream =
        |(src, number): (NodeId, u64)| (src, Stream::new(context.seed, Purpose::Sizes, number << 32 | u64::from(src.0)));
    let mut loops: Vec<(NodeId, Stream)> = places.map(stream).collect();
    let mut flows = FlowList::with_capacity(sources.len() as u64 * u64::from(spec.loops) * u64::from(spec.requests))?;
    for (src, sizes) in &mut loops {
        flows.push(Time::ZERO, *src, to, cdf.sample(sizes.unit()));
    }
    let mut successors = vec![None; flows.0.len()];
    for (first, (src, sizes)) in loops.iter_mut().enumerate() {
        let mut last = first;
        for _ in 1..spec.requests {
            let next = flows.push(Time::MAX, *src, to, cdf.sample(sizes.unit())).id;
            successors[last] = Some(Successor { flow: next, think: spec.think.0 });
            successors.push(None);
            last = next.0 as usize;
        }
    }
    Ok(Workload { successors, ..flows.0.into() })
}

fn ends(spec: &ClosedLoop, context: &Context<'_>) -> Result<(Vec<NodeId>, NodeId), ScenarioError> {
    let to = find_host(&spec.to, context.network, "workload.to")?;
    let mut seen = HashSet::new();
    let mut sources = Vec::with_capacity(spec.from.len());
    for (index, host) in spec.from.iter().enumerate() {
        let key = format!("workload.from.{index}");
        let source = find_host(host, context.network, &key)?;
        let name = &context.network.node(source).name;
        if source == to {
            return Err(ScenarioError::at_key(key, format!("{name} is where the flows go to; it cannot send them")));
        }
        if !seen.insert(source) {
            return Err(ScenarioError::at_key(
                key,
                format!("{name} is there already; give loops = 2 for two loops of each sender"),
            ));
        }
        sources.push(source);
    }
    Ok((sources, to))
}
