//! The oracle computes how soon flows could finish if it knew all flows in advance and only access links were scarce. Plots show it as
//! the reference line. For a single link it is an M/G/1 queue, whose mean is known ([`srpt_mean_response`]).
//!
//! The oracle treats flows as a fluid, which it can preempt at any bit. A flow occupies a link for as long as its packets would, headers
//! included and each sent once ([`WireProfile::flow_wire_bytes`]). There are no control packets and no losses.

mod bound;
mod link;
mod matching;
mod queueing;
#[cfg(test)]
mod tests;
mod unloaded;

use flowloom_core::{Attribute, Flow, Need, Network, Time, WireProfile};
use flowloom_fabric::{FlowRecord, Report};
use flowloom_transports::Checked;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use queueing::srpt_mean_response;
pub use unloaded::{Access, UnloadedTimes};

/// Which constraints of the network the oracle keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// A lower bound of the mean flow completion time. The bound keeps the access links of one side, senders or receivers, and
    /// ignores all other links. It serves each access link preemptively in the given order. It does so once for the senders'
    /// links and once for the receivers' links, and takes the result with the larger mean. This takes O(n log n) for n flows.
    ///
    /// Proof, for SRPT. Call the time for propagation and storing on the way the latency of a flow. The first bit of a flow
    /// reaches its receiver's link at least one latency after the flow's start. The last bit is received at least one latency
    /// after it leaves its sender's link. So any schedule of the network is, on each link of one side, a preemptive schedule of
    /// a single machine. A flow's job is its service time on that link. At senders, a job is released at the flow's start, and
    /// the flow completes one latency after its job. At receivers, a job is released one latency after the flow's start, and
    /// the flow completes with its job. Among such schedules, SRPT has the least sum of completion times (Schrage 1968). The
    /// latency does not change this, because no order of service changes it. At receivers it is part of the release: if it were
    /// added after service, the link could not serve a near flow while the bits of a far one are still travelling.
    ///
    /// The bound does not hold for single flows or for the mean slowdown: SRPT minimises the sum of the times, and another order
    /// can be better for some flows, or for a weighted sum. With whole packets, the bound holds up to the largest latency: a last
    /// packet that is shorter than the first is stored for a shorter time, so a schedule may gain by letting it overtake.
    ///
    /// If a path has a link that is slower than its access links, or access links differ, a third relaxation may have the largest
    /// mean: every flow alone in the network. The bound is then this one. So a lone flow always takes exactly
    /// [`Network::flow_time`].
    #[default]
    Bound,
    /// The greedy schedule that the pFabric paper (SIGCOMM 2013, §3, Algorithm 1) calls ideal. Whenever a flow starts or
    /// finishes, the schedule visits all flows in order, and a flow whose two access links are both free gets both links
    /// completely. Each flow's own latency is added, so a lone flow takes exactly [`Network::flow_time`]. If all latencies are
    /// equal, this is a feasible schedule of the access links. It is not a bound.
    ///
    /// An event costs O(c (w + log n)). Here c is the number of flows that it starts or stops, at most one for each host, and w
    /// is the number of waiting flows of one host that it examines.
    Matching,
}

/// Which flow is served first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The shortest remaining service time.
    #[default]
    Srpt,
    /// The flow whose deadline at the link is the earliest; flows without a deadline come last. If EDF misses a deadline on the
    /// links of one side alone, no schedule of the network meets all deadlines. The result bounds neither the number of deadlines
    /// that can be met nor the mean time.
    Edf,
}

impl Order {
    /// What the order goes by, if that is something that flows may lack.
    pub fn need(self) -> Option<Need> {
        let without = "flows are served as with \"srpt\"";
        (self == Order::Edf).then_some(Need { key: Some("order"), of: Attribute::Deadline, without })
    }
}

/// Parameters of the oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Oracle {
    /// Which constraints are kept.
    pub model: Model,
    /// Which flow is served first.
    pub order: Order,
}

impl Checked for Oracle {}

/// When the last byte of each flow arrives at its receiver. The times are in the order of `flows`, which may be any.
///
/// # Panics
/// If a flow has the same host at both ends, or there is no path.
pub fn run(network: &Network, wire: &WireProfile, flows: &[Flow], model: Model, order: Order) -> Vec<Time> {
    match model {
        Model::Bound => bound::run(network, wire, flows, order),
        Model::Matching => matching::run(network, wire, flows, order),
    }
}

/// The oracle's result as the report of a perfect run: every byte is sent once and acknowledged as fast as an empty network allows.
/// A fluid has no packets and no ports, so the report has no counters of ports.
pub fn report(network: &Network, wire: &WireProfile, flows: &[Flow], received: &[Time]) -> Report {
    assert_eq!(flows.len(), received.len(), "one instant for each flow");
    let mut unloaded = UnloadedTimes::new(network, wire);
    let records: Vec<FlowRecord> = flows
        .iter()
        .zip(received)
        .map(|(flow, received)| FlowRecord {
            received: *received,
            acknowledged: *received + unloaded.acknowledgement(flow),
            sent_bytes: flow.size.get(),
            arrived_bytes: flow.size.get(),
            delivered_bytes: flow.size.get(),
            ..FlowRecord::NEW
        })
        .collect();
    Report {
        network: network.clone().into(),
        flows: flows.to_vec(),
        not_started: 0,
        end: records.iter().map(|record| record.acknowledged).max().unwrap_or(Time::ZERO),
        records,
        ports: Vec::new(),
        controls: Vec::new(),
        packet_hops: 0,
        data_packets: flows.iter().map(|flow| wire.packets(flow.size)).sum(),
        events: 0,
    }
}
