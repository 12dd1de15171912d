//! The oracle: how soon flows could finish if everything about all of them were known and nothing but access links were scarce.
//! It is the reference line of every plot, and its single link is an M/G/1 queue whose mean is known ([`srpt_mean_response`]).
//!
//! Flows are a fluid: they can be preempted at any bit, and their bits take the links' time that their packets would take, that
//! is [`WireProfile::flow_wire_bytes`] sent once, headers included. There are no control packets and no losses.

mod bound;
mod link;
mod matching;
mod queueing;
#[cfg(test)]
mod tests;
mod unloaded;

use flowloom_core::{Flow, Network, Time, WireProfile};
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
    /// A lower bound of the mean flow completion time. One side's access links are kept: each is served preemptively in the
    /// given order, independently of all else. The answer is that of the receivers' or of the senders' links, whichever has
    /// the larger mean. O(n log n) for n flows.
    ///
    /// Proof, for SRPT. A first bit cannot be on its receiver's link earlier than its flow's latency (propagation and storing
    /// on the way) after its flow's start, and a last bit cannot be received earlier than that latency after leaving its
    /// sender's link; so any schedule of the network is, on each link of one side, a preemptive schedule of one machine,
    /// where a flow needs its service time, is released at its start (plus latency, at receivers) and completes when it leaves
    /// the link (minus latency, at senders). Of those, SRPT has the least sum of completion times (Schrage 1968). The latency
    /// may be added because it is a constant of the flow that no order of service changes: at senders to the completion,
    /// at receivers to the release, since added afterwards it would forbid serving a near flow while a far one's bits are
    /// still travelling.
    ///
    /// Not bounded are any one flow's time and the mean slowdown: SRPT minimises the sum, and another order may be better for
    /// some, or in another weighting. To the packet, the bound holds to within the largest latency: a last packet that is
    /// shorter than the first is stored for a shorter time, and a schedule may profit by letting it overtake.
    ///
    /// Where a path has a link slower than its access links, or these are not alike, a third relaxation may have the largest
    /// mean, and is the answer then: every flow alone. So a lone flow takes exactly [`Network::flow_time`], always.
    #[default]
    Bound,
    /// The greedy schedule that the pFabric paper (SIGCOMM 2013, §3, Algorithm 1) calls ideal: whenever a flow comes or goes,
    /// flows are visited in order, and one whose two access links are both free gets all of both. Each flow's own latency
    /// comes on top, so that a lone flow takes exactly [`Network::flow_time`]. It is a feasible schedule of the access links
    /// as far as latencies are equal; it bounds nothing.
    ///
    /// An event costs O(c (w + log n)), where c is the number of flows that it starts or stops, at most one for each host,
    /// and w the number of waiting flows of one host that are looked at.
    Matching,
}

/// Who is served first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The shortest remaining service time.
    #[default]
    Srpt,
    /// The earliest deadline, counted at the link; then flows without one. If, on either side's links alone, EDF is late, then
    /// no schedule meets all deadlines; how many can be met and the mean time are not bounded.
    Edf,
}

/// Parameters of the oracle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Oracle {
    /// The constraint that is relaxed.
    pub model: Model,
    /// Which flow goes first.
    pub order: Order,
}

impl Checked for Oracle {}

/// When each flow's last byte is at its receiver, in the order of `flows`, which may be any.
///
/// # Panics
/// If a flow has the same host at both ends, or there is no path.
pub fn run(network: &Network, wire: &WireProfile, flows: &[Flow], model: Model, order: Order) -> Vec<Time> {
    match model {
        Model::Bound => bound::run(network, wire, flows, order),
        Model::Matching => matching::run(network, wire, flows, order),
    }
}

/// The oracle's answer as a run that was perfect: every byte sent once, acknowledged as fast as an empty network allows. A
/// fluid has no packets and no ports, so all that is counted at ports is left out.
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
