//! The transports, one folder each, and what they share.
//!
//! * [`parts`]: containers and the [`Pair`](parts::Pair) test harness.
//! * [`quantity`]: quantities with units in configurations.

pub mod parts;
pub mod quantity;
