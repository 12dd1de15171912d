//! What regions leave behind at the end of a run, put together.

use std::sync::Arc;

use flowloom_core::{Flow, FlowId, Network, NodeId, Time};

use crate::report::{ControlCounters, FlowRecord, PortCounters, Report, Violation};

/// What a region, or several together, leave behind. Lists of flows and ports are those of the whole network.
pub(crate) struct Remains<O> {
    /// First those with a start of their own, and then those of tasks, up to the last one that has begun. In this and the next two lists, a flow beyond the end has not
    /// been here.
    pub flows: Vec<Flow>,
    pub records: Vec<FlowRecord>,
    /// Payload bytes of each flow that are in the network.
    pub in_flight: Vec<u64>,
    pub ports: Vec<PortCounters>,
    pub controls: Vec<ControlCounters>,
    /// The first `arrivals` flows have a start of their own, and those before `next_flow` have started.
    pub arrivals: usize,
    pub next_flow: usize,
    pub not_started: usize,
    pub packet_hops: u64,
    pub data_packets: u64,
    pub events: u64,
    /// A flow that its receiver reported as complete twice.
    pub received_again: Option<FlowId>,
    /// Nodes that were down for a while.
    pub restarted: Vec<NodeId>,
    pub observer: O,
}

impl<O> Remains<O> {
    /// Adds what another region leaves behind, but for its observer.
    pub fn join(&mut self, other: Remains<O>) -> O {
        self.flows.extend(other.flows.iter().skip(self.flows.len()));
        self.records.resize(self.records.len().max(other.records.len()), FlowRecord::NEW);
        self.in_flight.resize(self.in_flight.len().max(other.in_flight.len()), 0);
        let waited = self.flows.iter_mut().zip(&other.flows).skip(self.arrivals);
        waited.for_each(|(flow, same)| flow.start = flow.start.min(same.start));
        self.records.iter_mut().zip(&other.records).for_each(|(record, same)| record.join(same));
        self.in_flight.iter_mut().zip(&other.in_flight).for_each(|(bytes, more)| *bytes += more);
        self.ports.iter_mut().zip(&other.ports).for_each(|(port, same)| port.join(same));
        self.controls.extend(other.controls);
        self.not_started += other.not_started;
        self.packet_hops += other.packet_hops;
        self.data_packets += other.data_packets;
        self.events += other.events;
        self.received_again = self.received_again.or(other.received_again);
        other.observer
    }

    /// Makes the report of a run that ended at `end`.
    ///
    /// # Errors
    /// If conservation is violated.
    pub fn report(mut self, network: Arc<Network>, end: Time) -> Result<(Report, O), Violation> {
        self.forget_repetitions();
        self.records.resize(self.flows.len(), FlowRecord::NEW);
        check_conservation(self.flows.iter(), self.records.iter().copied(), &self.in_flight, self.received_again)?;
        let Remains { not_started, mut controls, packet_hops, data_packets, events, .. } = self;
        controls.sort_by_key(|counters| counters.node);
        let (ports, observer) = (std::mem::take(&mut self.ports), self.observer);
        let (flows, records) = started(self.flows, self.records, self.arrivals, self.next_flow);
        Ok((Report { network, not_started, flows, records, ports, controls, packet_hops, data_packets, events, end }, observer))
    }

    /// A host that was down reports bytes as new that it had received before. Here, each byte of a flow counts once.
    fn forget_repetitions(&mut self) {
        if self.restarted.is_empty() {
            return;
        }
        for (flow, record) in self.flows.iter().zip(&mut self.records) {
            if self.restarted.contains(&flow.dst) {
                record.delivered_bytes = record.delivered_bytes.min(flow.size.get());
            }
        }
    }
}

/// The flows that have started, in the order of start time and id, and their records.
fn started(
    mut flows: Vec<Flow>,
    mut records: Vec<FlowRecord>,
    arrivals: usize,
    next_flow: usize,
) -> (Vec<Flow>, Vec<FlowRecord>) {
    let waited = flows.len() > arrivals;
    flows.drain(next_flow..arrivals);
    records.drain(next_flow..arrivals);
    if !waited {
        return (flows, records); // without a copy: there may be a hundred million flows
    }
    let pairs = flows.into_iter().zip(records);
    let mut started: Vec<(Flow, FlowRecord)> = pairs.filter(|(flow, _)| flow.start < Time::MAX).collect();
    started.sort_by_key(|(flow, _)| (flow.start, flow.id));
    started.into_iter().unzip()
}

/// Checks that no byte of these flows was lost or invented. Flows beyond the end of `in_flight` have nothing there.
pub(crate) fn check_conservation<'a>(
    flows: impl Iterator<Item = &'a Flow>,
    records: impl Iterator<Item = FlowRecord>,
    in_flight: &[u64],
    received_again: Option<FlowId>,
) -> Result<(), Violation> {
    let in_flight = in_flight.iter().copied().chain(std::iter::repeat(0));
    for ((flow, record), in_flight) in flows.zip(records).zip(in_flight) {
        let put_in = record.sent_bytes + record.duplicated_bytes;
        let accounted = record.arrived_bytes + record.dropped_bytes + in_flight;
        if put_in != accounted {
            return Err(Violation::Bytes(format!(
                "{put_in} payload bytes of flow {flow:?} entered the network, but {accounted} arrived, \
                 were dropped or are in flight: {record:?}"
            )));
        }
        let again = received_again == Some(flow.id) || record.delivered_bytes > flow.size.get();
        if record.received != Time::MAX && again {
            return Err(Violation::Forgotten(format!(
                "flow {} of {} was received completely at {}, and later some of its bytes were received again: all packets of its sender \
                 were lost or late for longer than its receiver remembers finished flows",
                flow.id.0, flow.size, record.received
            )));
        }
        if record.received != Time::MAX && record.delivered_bytes != flow.size.get() {
            return Err(Violation::Bytes(format!(
                "flow {flow:?} is complete, but its delivered bytes are not its size: {record:?}"
            )));
        }
        if record.delivered_bytes > record.arrived_bytes {
            return Err(Violation::Bytes(format!("more bytes of flow {flow:?} were delivered than arrived: {record:?}")));
        }
    }
    Ok(())
}
