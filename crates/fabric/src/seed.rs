//! One independent random stream for each purpose and link or node, all derived from the run's seed.

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
}

/// The finaliser of SplitMix64: every output bit depends on every input bit.
pub const fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The seed of the stream for `purpose` at `place`, the number of a node, link or part.
pub const fn stream_seed(seed: u64, purpose: Purpose, place: u64) -> u64 {
    mix(mix(mix(seed) ^ purpose as u64) ^ place)
}
