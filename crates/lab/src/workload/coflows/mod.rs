//! Workloads of coflows: M mappers send to R reducers, which makes M × R flows that all start at once.

mod classes;
mod synthetic;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::HashMap;

use flowloom_core::{Bytes, Coflow, Flow, NodeId, Time};
use serde::Serialize;

use super::incast::share;
use super::{Context, FLOWS_MAX, FlowList, Workload};

pub(crate) use classes::{LONG_BYTES, NARROW_FLOWS};
pub use synthetic::CoflowSynthetic;
pub use trace::CoflowTrace;

/// How a workload of coflows was made, as its results report it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CoflowWorkload {
    /// The tenant of its flows: in a mix the number of its part, otherwise 0.
    pub tenant: u16,
    /// How many coflows were read or drawn.
    pub coflows: u32,
    /// How many hosts the racks of a trace were mapped to, or from which random ones were drawn.
    pub hosts: usize,
    /// What sizes were divided by.
    pub size_divisor: f64,
    /// What times between arrivals were divided by; `None` if arrivals were drawn.
    pub time_divisor: Option<f64>,
    /// The wire bytes of all flows, each sent once, over what the hosts' links could send until the last arrival. `None` if that is at time 0.
    pub load: Option<f64>,
    /// Flows that were left out because both of their ends are one host.
    pub local_flows: u64,
    /// Payload of these flows, after the division.
    pub local_bytes: u64,
    /// Coflows that have no other flows. They are missing from the results.
    pub local_coflows: u32,
}

fn one() -> f64 {
    1.0
}

/// The ends of one coflow's flows, as hosts, and how much each reducer gets, in bytes.
struct Shuffle {
    mappers: Vec<u32>,
    reducers: Vec<(u32, f64)>,
}

/// Makes flows of coflows.
struct Expansion {
    flows: FlowList,
    size_divisor: f64,
    local_flows: u64,
    local_bytes: u64,
    local_coflows: u32,
}

impl Expansion {
    fn new(size_divisor: f64) -> Expansion {
        Expansion { flows: FlowList(Vec::new()), size_divisor, local_flows: 0, local_bytes: 0, local_coflows: 0 }
    }

    /// Makes the flows of one coflow. Each reducer gets an equal share from each mapper, where the first ones carry the remainder, a byte
    /// each.
    ///
    /// # Errors
    /// If there are too many flows.
    fn add(&mut self, number: u32, start: Time, shuffle: &Shuffle) -> Result<(), String> {
        let Shuffle { mappers, reducers } = shuffle;
        let count = self.flows.0.len() as u64 + mappers.len() as u64 * reducers.len() as u64;
        if count > u64::from(FLOWS_MAX) {
            return Err(format!("with this coflow, there are {count} flows; the limit is {FLOWS_MAX}"));
        }
        let before = self.flows.0.len();
        let senders = mappers.len() as u64;
        for (reducer, bytes) in reducers {
            let bytes = ((bytes / self.size_divisor).round() as u64).max(senders);
            for (index, mapper) in (0..).zip(mappers) {
                let size = share(bytes, senders, index);
                if mapper == reducer {
                    self.local_flows += 1;
                    self.local_bytes = self.local_bytes.saturating_add(size);
                } else {
                    self.flows.push(start, NodeId(*mapper), NodeId(*reducer), Bytes::new(size)).coflow = numbered(number);
                }
            }
        }
        self.local_coflows += u32::from(self.flows.0.len() == before);
        Ok(())
    }

    fn wire_bytes(&self, context: &Context<'_>) -> f64 {
        self.flows.0.iter().map(|flow| context.wire.flow_wire_bytes(flow.size).get() as f64).sum()
    }

    fn into_workload(self, coflows: u32, time_divisor: Option<f64>, context: &Context<'_>) -> Workload {
        let hosts = context.network.hosts();
        let last = self.flows.0.iter().map(|flow| flow.start).max().filter(|last| *last > Time::ZERO);
        let bits_per_s: f64 = context.network.host_bps().into_iter().map(|bps| bps as f64).sum();
        let about = CoflowWorkload {
            tenant: 0,
            coflows,
            hosts,
            size_divisor: self.size_divisor,
            time_divisor,
            load: last.map(|last| 8.0 * self.wire_bytes(context) / (bits_per_s * last.as_secs_f64())),
            local_flows: self.local_flows,
            local_bytes: self.local_bytes,
            local_coflows: self.local_coflows,
        };
        Workload { coflows: vec![about], ..self.flows.0.into() }
    }
}

/// A coflow of which only the number is known: [`complete`] fills in the rest.
pub(crate) fn numbered(number: u32) -> Option<Coflow> {
    Some(Coflow { number, size: Bytes::ZERO, start: Time::MAX })
}

/// Tells each flow the size and the start of its coflow.
pub(crate) fn complete(flows: &mut [Flow]) {
    let mut coflows: HashMap<u32, (Bytes, Time)> = HashMap::new();
    for flow in flows.iter() {
        let Some(Coflow { number, .. }) = flow.coflow else { continue };
        let (size, start) = coflows.entry(number).or_insert((Bytes::ZERO, Time::MAX));
        // It saturates beyond 2^64 bytes; a plan with so many is refused.
        *size = Bytes::new(size.get().saturating_add(flow.size.get()));
        *start = flow.start.min(*start);
    }
    for coflow in flows.iter_mut().filter_map(|flow| flow.coflow.as_mut()) {
        (coflow.size, coflow.start) = coflows[&coflow.number];
    }
}
