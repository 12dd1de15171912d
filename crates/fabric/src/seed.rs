//! One independent random stream for each purpose and link or node, all derived from the run's seed.

pub use flowloom_core::mix;

/// The purpose of a stream. A change to one consumer of random numbers must not change the numbers that another one draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Random spraying and the initial values of round-robin counters, by switch or link.
    Spray = 1,
    /// Hash salts.
    Ecmp = 2,
    /// Injected faults, by link.
    Fault = 3,
    /// An endpoint's own choices, by node.
    Endpoint = 4,
    /// Flow arrivals, by source.
    Arrivals = 5,
    /// Flow sizes, by source.
    Sizes = 6,
    /// Destinations, by source.
    Destinations = 7,
    /// Deadlines, by source.
    Deadlines = 8,
    /// Parts of a mixed workload, by position. Each part has its own streams.
    Parts = 9,
    /// Pairs of hosts of background flows, by position.
    Background = 10,
    /// A port's own choices, by link.
    Port = 11,
    /// The order of events at the same time.
    Ties = 12,
    /// The hosts of a job's ranks, and those that take part in a permutation.
    Placement = 13,
}

/// The seed of the stream for `purpose` at `place`, the number of a node, link or part.
pub const fn stream_seed(seed: u64, purpose: Purpose, place: u64) -> u64 {
    mix(mix(mix(seed) ^ purpose as u64) ^ place)
}
