//! What a run leaves behind: a record per flow, counters per port, and totals.

use flowloom_core::{Duration, Flow, Network, Time};

/// Counted for every flow, always. Byte counts are payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// When the last byte reached the receiver, [`Time::MAX`] if it never did.
    pub received: Time,
    /// When the sender learned it, [`Time::MAX`] if it never did.
    pub acknowledged: Time,
    /// Put into the network by the source, every transmission counted.
    pub sent_bytes: u64,
    /// Handed to the receiver's endpoint, duplicates counted.
    pub arrived_bytes: u64,
    /// Reported by the receiver's endpoint as new.
    pub delivered_bytes: u64,
    /// Lost on the way, or cut off by trimming.
    pub dropped_bytes: u64,
    /// Made on the way by fault injection.
    pub duplicated_bytes: u64,
    /// Data packets that the source sent again.
    pub retransmissions: u32,
    /// Data packets lost on the way.
    pub dropped_packets: u32,
    /// How often the source's retransmission timer expired.
    pub timeouts: u32,
    /// Of these, the second of consecutive ones.
    pub second_timeouts: u32,
}

impl FlowRecord {
    /// Nothing has happened yet.
    pub const NEW: FlowRecord = FlowRecord {
        received: Time::MAX,
        acknowledged: Time::MAX,
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
}

/// Priority classes that are counted apart; higher ones share the last place.
pub const CLASSES: usize = 8;

/// What left a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SentCounters {
    /// How many packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Counted for every directed link and its egress port, always.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)] // the first line is counted at every packet-hop
pub struct PortCounters {
    /// By class.
    pub sent: [SentCounters; CLASSES],
    /// Packets dropped here, by [`DropReason`](flowloom_core::DropReason) in the order of `DropReason::ALL`.
    pub dropped_packets: [u64; 7],
    /// Of these, data packets.
    pub dropped_data_packets: u64,
    /// Packets marked with congestion experienced.
    pub marked_packets: u64,
    /// Packets that lost their payload but not their header.
    pub trimmed_packets: u64,
    /// The most bytes that were ever queued.
    pub peak_bytes: u64,
    /// Integral of queued bytes over time, in byte-picoseconds.
    pub byte_time: u128,
    /// Integral of queued packets over time, in packet-picoseconds: divided by the packets sent, the mean wait (Little's law).
    pub packet_time: u128,
}

impl PortCounters {
    /// Packets sent in all classes.
    pub fn packets(&self) -> u64 {
        self.sent.iter().map(|sent| sent.packets).sum()
    }
    /// Wire bytes sent in all classes.
    pub fn bytes(&self) -> u64 {
        self.sent.iter().map(|sent| sent.bytes).sum()
    }
    /// Packets dropped for whatever reason.
    pub fn drops(&self) -> u64 {
        self.dropped_packets.iter().sum()
    }
    /// Time-average of queued bytes over a run of length `span`.
    pub fn mean_queue_bytes(&self, span: Duration) -> f64 {
        if span == Duration::ZERO { 0.0 } else { self.byte_time as f64 / span.as_ps() as f64 }
    }
}

/// All that a run leaves behind.
#[derive(Debug)]
pub struct Report {
    /// The network it ran on; with the control host, if the transport has one.
    pub network: Network,
    /// The flows that started, in order of start and id.
    pub flows: Vec<Flow>,
    /// How many more there would have been, had the run lasted.
    pub not_started: usize,
    /// One record for each of `flows`.
    pub records: Vec<FlowRecord>,
    /// One set of counters for each directed link of the network.
    pub ports: Vec<PortCounters>,
    /// Packets, data and control, that left a port.
    pub packet_hops: u64,
    /// Data packets that left a source, retransmissions counted.
    pub data_packets: u64,
    /// Events handled.
    pub events: u64,
    /// When the last event was handled.
    pub end: Time,
}
