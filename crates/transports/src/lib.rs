//! The transports, one folder each, and what they share.
//!
//! * [`parts`]: containers and the [`Pair`](parts::Pair) test harness.

pub mod parts;
