//! What every driver of endpoints and ports does, written once. The simulator and the UDP loop both use it, each with its own clock and
//! links.
//!
//! * [`Attachment`] is what surrounds an endpoint. [`start`], [`open`], [`deliver`], [`wake`] and [`refill`] call the endpoint, in the order
//!   that [`Endpoint`](crate::Endpoint) promises.
//! * [`LinkLayer`] is what egress ports send on. [`Ports`] calls their disciplines, as [`Discipline`](crate::Discipline) promises.

mod attachment;
mod ports;
#[cfg(test)]
mod tests;

pub use attachment::{Attachment, deliver, open, refill, start, wake};
pub use ports::{LinkLayer, Ports};
