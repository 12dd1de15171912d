//! What ports had counted before the flows that a run is about.

use flowloom_core::Time;
use flowloom_fabric::PortCounters;

/// What ports had counted when the first flow started, in a run with background flows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Before {
    /// When the first flow that is no background flow started.
    pub at: Time,
    /// By directed link.
    pub ports: Vec<Counted>,
}

/// What a port had counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Wire bytes sent.
    pub bytes: u64,
    /// The integral of queued bytes over time, in byte-picoseconds.
    pub byte_time: u128,
}

impl From<PortCounters> for Counted {
    fn from(counters: PortCounters) -> Counted {
        Counted { bytes: counters.bytes(), byte_time: counters.byte_time }
    }
}
