//! `kind = "closed_loop"`: flows that start when others have been received.

use std::collections::HashSet;

use flowloom_core::{Duration, Flow, NodeId, Time};
use flowloom_fabric::End;
use flowloom_fabric::calendar::PAYLOADS_MAX;
use flowloom_fabric::seed::Purpose;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::check_length;
use super::hosts::{HostRef, find_host};
use super::sizes::distribution;
use super::waiting::Before;
use super::{Context, FlowList, Kind, Sizes, Waiting, Workload};
use crate::random::Stream;
use crate::{ScenarioError, memory};

/// Flows form loops: the next flow starts when the last one has been received.
///
/// Each loop sends one flow after the other from a host of `from` to `to`, as an application does that asks for the next one
/// when it has all of the last. The first flow of each loop starts at time 0. Flows that have not started when the run ends are left
/// out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// The hosts that send, by number or name.
    #[schemars(length(min = 1, max = 65_000))]
    pub from: Vec<HostRef>,
    /// The host that receives, by number or name.
    pub to: HostRef,
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// How many flows each loop has.
    #[schemars(range(min = 1, max = 16_000_000), example = 1_000)]
    pub requests: u32,
    /// How many loops each sender has.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = 65_000))]
    pub loops: u32,
    /// The time between a flow's last byte at the receiver and the start of the next flow, such as the delay of the request.
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub think: Quantity<Duration>,
}

impl Kind for ClosedLoop {
    fn check(&self) -> Result<(), ScenarioError> {
        let loop_count = self.from.len() as u64 * u64::from(self.loops);
        let flow_count = loop_count * u64::from(self.requests);
        if flow_count > PAYLOADS_MAX as u64 {
            let requests = self.requests;
            let message = format!("{loop_count} loops of {requests} flows make {flow_count}; the limit is {PAYLOADS_MAX}");
            return Err(ScenarioError::at_key("workload.requests", message));
        }
        self.sizes.check("workload.sizes")
    }

    /// The first flow of every loop, at time 0 and in order of source and loop. All that wait are listed loop by loop.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let (sources, to) = ends(self, context)?;
        check_length("workload.requests", f64::from(self.requests) * self.think.0.as_secs_f64())?;
        let cdf = distribution(&self.sizes, context.base_dir, "workload.sizes")?;
        let places = sources.iter().flat_map(|src| (0..u64::from(self.loops)).map(|number| (*src, number)));
        let stream =
            |(src, number): (NodeId, u64)| (src, Stream::new(context.seed, Purpose::Sizes, number << 32 | u64::from(src.0)));
        let mut loops: Vec<(NodeId, Stream)> = places.map(stream).collect();
        let mut flows = FlowList::with_capacity(loops.len() as u64)?;
        memory::check(loops.len() as u64 * u64::from(self.requests), 0)?;
        for (src, sizes) in &mut loops {
            flows.push(Time::ZERO, *src, to, cdf.sample(sizes.unit()));
        }
        let mut waiting = Waiting::default();
        for (number, (_, sizes)) in (0..).zip(&mut loops) {
            let first = flows.0[number as usize];
            let mut last = Before::Flow(number);
            for _ in 1..self.requests {
                let next = Flow { size: cdf.sample(sizes.unit()), ..first };
                last = Before::Task(waiting.push(next, &[(last, End::Received, self.think.0)]));
            }
        }
        Ok(Workload { waiting, ..flows.0.into() })
    }

    fn number(&self, _: u64) -> Option<u64> {
        Some(self.from.len() as u64 * u64::from(self.loops) * u64::from(self.requests))
    }

    fn sizes(&self) -> Option<&Sizes> {
        Some(&self.sizes)
    }
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
