//! A first step onto real hosts: the endpoints that the simulator runs, over UDP between real processes.
//!
//! A [`Node`] is one host of a [`Cluster`]. It drives a transport's endpoint with the machine's clock and a socket, emulates
//! the NIC that the endpoint expects, and hands the application's bytes in and out:
//!
//! ```text
//! application ──▶ Node ──▶ Endpoint ──▶ Nic ──▶ frame + TOS byte ──▶ Datagrams (Udp, or wrapped in Faulty)
//!             ◀──      ◀──          ◀────────── frame + TOS byte ◀──
//! ```
//!
//! The README beside this crate has the frame format, what the kernel's clock allows, and what is not there yet. Linux only.

mod cluster;
mod datagrams;
mod driver;
mod faulty;
mod flow_ids;
pub mod frame;
pub mod marking;
mod nic;
mod node;
#[cfg(test)]
mod probe;
mod stats;
mod sys;
mod transfers;

pub use cluster::{Cluster, Profile};
pub use datagrams::{Arrival, Datagrams, Udp};
pub use driver::Notice;
pub use faulty::{FaultCounts, Faults, Faulty};
pub use node::Node;
pub use stats::Stats;
