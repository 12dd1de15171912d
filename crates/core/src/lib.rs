//! The vocabulary of Flowloom: time, rates, bytes, packets, flows, the shape of a network, and the four traits that a
//! transport is written against. Nothing here does I/O, reads a clock or depends on another crate.
//!
//! * [`Endpoint`]: one node's protocol state, for all its flows.
//! * [`Discipline`]: what one egress port does to packets: order, drop, mark, trim, stamp, pace.
//! * [`Transport`]: defines the endpoint, the port, the header and the control nodes that make up one scheme.
//! * [`Paths`]: the way of a flow's packets through the network, which endpoints may ask for.
//! * [`Wire`]: how a header is written on a real network. [`wire_format!`] derives it from the header's definition.
//!
//! What the drivers of endpoints and ports have in common is in [`driver`]. [`frame`] and [`marking`] say what a packet is in a UDP datagram: between real hosts,
//! and in traces.

mod deployment;
pub mod driver;
mod endpoint;
mod flow;
pub mod frame;
mod gauge;
mod hash;
pub mod marking;
mod memory;
mod network;
mod packet;
mod parts;
mod paths;
mod pool;
mod port;
mod profile;
mod quantity;
pub mod topology;
mod transport;
mod units;
mod wire;
pub mod wire_format;

pub use deployment::{
    Ability, Division, Feature, HostProfile, KernelTcp, Knob, LimiterProfile, MarkProfile, MemoryProfile, PortProfile,
    QueueLimit, QueueProfile, Tagging,
};
pub use endpoint::{Endpoint, NoControl};
pub use flow::{AbortReason, Coflow, Event, Flow, FlowId};
pub use gauge::{Gauge, Readings};
pub use hash::mix;
pub use memory::Memory;
pub use network::{Link, LinkId, Network, NetworkError, Node, NodeId, NodeKind, Position, Switching};
pub use packet::{Ecn, Packet};
pub use parts::{Assembly, Parts, PartsOf};
pub use paths::{Group, PathNeed, Paths, Routing, Way};
pub use pool::{Fifo, PacketId, Pool, PoolFull};
pub use port::{Dequeue, Discipline, DropReason, Effects, Onward, PortCall, PortNumber};
pub use profile::{Family, Profile};
pub use quantity::QuantityError;
pub use transport::{Attribute, Need, Nic, Placement, PortSite, Site, Transport};
pub use units::{Bytes, Duration, Rate, Time};
pub use wire::{Field, Layout, Message, Wire, WireProfile, WireUnit};
