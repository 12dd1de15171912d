//! The result of a run: a record for each flow, counters for each port, and totals.

use std::fmt;
use std::sync::Arc;

use flowloom_core::{AbortReason, DropReason, Duration, Flow, Network, NodeId, Time};

/// Why a run has no report: what went into the network is not what came out of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Bytes of a flow were received again after the flow was complete, since packets were lost or late for longer than its receiver
    /// remembers finished flows. No error of the simulator, but faults beyond what the transport was made for.
    Forgotten(String),
    /// Bytes vanished or were invented.
    Bytes(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Violation::Forgotten(what) | Violation::Bytes(what)) = self;
        write!(out, "conservation violated: {what}")
    }
}

impl std::error::Error for Violation {}

/// When and why a flow was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// When.
    pub at: Time,
    /// Why.
    pub reason: AbortReason,
}

/// What is recorded for every flow. Byte counts are payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// When the receiver had all bytes, [`Time::MAX`] if it never had.
    pub received: Time,
    /// When the sender knew this, [`Time::MAX`] if it never did.
    pub acknowledged: Time,
    /// When and why it was aborted, if it was. An aborted flow is over, but not finished.
    pub aborted: Option<Abort>,
    /// Sent by the source, retransmissions included.
    pub sent_bytes: u64,
    /// Received by the destination's endpoint, duplicates included.
    pub arrived_bytes: u64,
    /// Reported by the destination's endpoint as received for the first time.
    pub delivered_bytes: u64,
    /// Dropped in the network, or cut off by trimming.
    pub dropped_bytes: u64,
    /// Added in the network by fault injection.
    pub duplicated_bytes: u64,
    /// Data packets that the source retransmitted.
    pub retransmissions: u32,
    /// Data packets that were dropped or trimmed in the network.
    pub dropped_packets: u32,
    /// How often the source's retransmission timer expired.
    pub timeouts: u32,
    /// How often the timer expired for the second time in a row.
    pub second_timeouts: u32,
}

impl FlowRecord {
    /// The record of a flow that has not started.
    pub const NEW: FlowRecord = FlowRecord {
        received: Time::MAX,
        acknowledged: Time::MAX,
        aborted: None,
        sent_bytes: 0,
        arrived_bytes: 0,
        delivered_bytes: 0,
        dropped_bytes: 0,
        duplicated_bytes: 0,
        retransmissions: 0,
        dropped_packets: 0,
        timeouts: 0,
        second_timeouts: 0,
    };

    /// Adds what was recorded of the same flow in another region. Its source is in one region, its destination in one, and its packets may be lost in any.
    pub(crate) fn join(&mut self, other: &FlowRecord) {
        let FlowRecord { received, acknowledged, aborted, sent_bytes, arrived_bytes, delivered_bytes, dropped_bytes, .. } =
            *other;
        self.received = self.received.min(received);
        self.acknowledged = self.acknowledged.min(acknowledged);
        self.aborted = self.aborted.or(aborted);
        self.sent_bytes += sent_bytes;
        self.arrived_bytes += arrived_bytes;
        self.delivered_bytes += delivered_bytes;
        self.dropped_bytes += dropped_bytes;
        self.duplicated_bytes += other.duplicated_bytes;
        self.retransmissions += other.retransmissions;
        self.dropped_packets += other.dropped_packets;
        self.timeouts += other.timeouts;
        self.second_timeouts += other.second_timeouts;
    }

    /// Whether its sender is done with it: it is acknowledged or aborted.
    pub fn is_over(&self) -> bool {
        self.acknowledged != Time::MAX || self.aborted.is_some()
    }
}

/// The number of priority classes with their own counters. Classes with larger numbers are counted in the last one.
pub const CLASSES: usize = 8;

/// Counters of sent packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SentCounters {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Counters of one direction of a link and its egress port.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)] // the counters in the first cache line change at every packet-hop
pub struct PortCounters {
    /// Sent packets by class.
    pub sent: [SentCounters; CLASSES],
    /// Packets dropped here, by [`DropReason`](flowloom_core::DropReason) in the order of `DropReason::ALL`.
    pub dropped_packets: [u64; DropReason::ALL.len()],
    /// Of these, data packets.
    pub dropped_data_packets: u64,
    /// Packets marked with congestion experienced.
    pub marked_packets: u64,
    /// Packets whose payload was cut off.
    pub trimmed_packets: u64,
    /// The largest number of queued bytes. A packet that a free port sends when another one arrives does not count: it leaves at once, and so does a packet that finds the port free and empty.
    pub peak_bytes: u64,
    /// The integral of queued bytes over time, in byte-picoseconds.
    pub byte_time: u128,
    /// The integral of queued packets over time, in packet-picoseconds. Divided by the packets sent it is the mean wait (Little's law).
    pub packet_time: u128,
}

impl PortCounters {
    /// Adds the counters of the same port in another region: a packet that is lost on a link is counted where the link ends.
    pub(crate) fn join(&mut self, other: &PortCounters) {
        for (sent, more) in self.sent.iter_mut().zip(&other.sent) {
            sent.packets += more.packets;
            sent.bytes += more.bytes;
        }
        for (dropped, more) in self.dropped_packets.iter_mut().zip(&other.dropped_packets) {
            *dropped += more;
        }
        self.dropped_data_packets += other.dropped_data_packets;
        self.marked_packets += other.marked_packets;
        self.trimmed_packets += other.trimmed_packets;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
        self.byte_time = self.byte_time.wrapping_add(other.byte_time);
        self.packet_time = self.packet_time.wrapping_add(other.packet_time);
    }

    /// Packets sent in all classes.
    pub fn packets(&self) -> u64 {
        self.sent.iter().map(|sent| sent.packets).sum()
    }
    /// Wire bytes sent in all classes.
    pub fn bytes(&self) -> u64 {
        self.sent.iter().map(|sent| sent.bytes).sum()
    }
    /// Packets dropped for any reason.
    pub fn drops(&self) -> u64 {
        self.dropped_packets.iter().sum()
    }
    /// The time average of queued bytes over a run of length `span`.
    pub fn mean_queue_bytes(&self, span: Duration) -> f64 {
        if span == Duration::ZERO { 0.0 } else { self.byte_time as f64 / span.as_ps() as f64 }
    }
}

/// A port in the course of a run.
#[derive(Clone, Copy, Debug)]
pub struct PortView<'a> {
    /// Its counters. The integrals over time are not as in a report: see [`PortView::byte_time`] and [`PortView::packet_time`].
    pub counters: &'a PortCounters,
    /// Bytes queued.
    pub queued_bytes: u64,
    /// Packets queued.
    pub queued_packets: u32,
}

impl PortView<'_> {
    /// The integral of queued bytes over time up to this instant, since when nothing has happened, in byte-picoseconds.
    pub fn byte_time(&self, at: Time) -> u128 {
        self.counters.byte_time.wrapping_add(u128::from(self.queued_bytes) * u128::from(at.as_ps()))
    }
    /// The integral of queued packets over time up to this instant, since when nothing has happened, in packet-picoseconds.
    pub fn packet_time(&self, at: Time) -> u128 {
        self.counters.packet_time.wrapping_add(u128::from(self.queued_packets) * u128::from(at.as_ps()))
    }
    /// The counters with the integrals up to this instant, since when nothing has happened.
    pub fn counters_at(&self, at: Time) -> PortCounters {
        PortCounters { byte_time: self.byte_time(at), packet_time: self.packet_time(at), ..*self.counters }
    }
}

/// The messages of one control endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlCounters {
    /// Its node.
    pub node: NodeId,
    /// Packets that were delivered to it.
    pub received: u64,
    /// Packets that it sent.
    pub sent: u64,
    /// The largest number of flows whose states it kept, as it was after each packet that was delivered to it.
    pub known_flows_peak: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The network, including the control host if the transport has one.
    pub network: Arc<Network>,
    /// The flows that started, in the order of start time and id.
    pub flows: Vec<Flow>,
    /// How many of the planned flows, background flows excepted, had not started when the run ended.
    pub not_started: usize,
    /// One record for each of `flows`.
    pub records: Vec<FlowRecord>,
    /// The counters of each direction of each link, indexed by [`LinkId`](flowloom_core::LinkId).
    pub ports: Vec<PortCounters>,
    /// The counters of each control endpoint, in order of node.
    pub controls: Vec<ControlCounters>,
    /// Packets sent by all ports, data and control.
    pub packet_hops: u64,
    /// Data packets sent by sources, retransmissions included.
    pub data_packets: u64,
    /// Events handled.
    pub events: u64,
    /// When the last event was handled.
    pub end: Time,
}
