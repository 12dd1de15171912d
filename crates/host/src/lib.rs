//! Transports on real hosts: runs the simulator's endpoints over UDP between real processes.
//!
//! A [`Node`] is one host of a [`Cluster`]. It drives a transport's endpoint with the machine's clock and a socket, emulates
//! the NIC that the endpoint expects, and sends and receives the application's data:
//!
//! ```text
//! application ──▶ Node ──▶ Endpoint ──▶ Nic ──▶ frame + TOS byte ──▶ Datagrams (Udp, or wrapped in Faulty)
//!             ◀──      ◀──          ◀────────── frame + TOS byte ◀──
//! ```
//!
//! The crate's README describes the frame format, the limits of the kernel's timers, and what is missing. The crate needs Linux.

mod cluster;
mod datagrams;
mod driver;
mod faulty;
mod flow_ids;
pub mod flow_list;
#[cfg(test)]
mod frame_tests;
mod nic;
mod node;
#[cfg(test)]
mod probe;
mod records;
mod stats;
mod store;
mod sys;
mod transfers;
mod trust;

pub use cluster::{Cluster, Member, Profile};
pub use datagrams::{Arrival, Datagrams, Udp};
pub use driver::{Cause, Notice};
pub use faulty::{FaultCounts, Faults, Faulty};
pub use flowloom_core::{frame, marking};
pub use node::{Node, START};
pub use records::Records;
pub use stats::Stats;
pub use store::{Discard, InFiles, InMemory, Store};
pub use sys::processor_time;
pub use transfers::Sent;
pub use trust::Key;
