//! The transports, one folder each, and what they share.
//!
//! * [`parts`]: containers and the [`Pair`](parts::Pair) test harness.
//! * [`ports`]: disciplines of switch ports.
//! * [`quantity`]: quantities with units in configurations.

pub mod parts;
pub mod ports;
pub mod quantity;
