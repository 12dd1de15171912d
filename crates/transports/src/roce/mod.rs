//! What transports over RoCE share: the numbers of packets, acknowledgements, the recovery of losses, and packets that leave at a rate. How fast a flow may
//! send is up to a [`Controller`].
//!
//! A data packet asks for an acknowledgement, as RoCE's packets do by the bit AckReq of the base transport header. Every `ack_every`-th packet asks, the
//! last one of a flow, and one after which the sender would wait otherwise. The receiver answers gaps at once, whether it is asked or not.

mod config;
pub(crate) mod header;
mod host;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{Recovery, Reliability, Service, Spans};
pub use header::{Envelope, Kind};
pub use host::Host;
pub use sender::Controller;
