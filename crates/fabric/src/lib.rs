//! The simulated network: an event loop over links, ports, routes and endpoints. It knows no protocol.
//!
//! [`Sim`] runs one [`Transport`](flowloom_core::Transport) over one [`Network`](flowloom_core::Network) with a list of flows, and
//! returns a [`Report`]. Time is in integer picoseconds. Events are ordered by (time, source). This order is total, so the result does
//! not depend on the event queue.

pub mod calendar;
mod counted;
mod fault;
mod observer;
mod outage;
pub mod pair;
mod plane;
mod region;
mod regions;
mod remains;
mod report;
mod routing;
pub mod seed;
mod sim;
mod sources;
mod tasks;

pub use fault::{Aim, AimedFault, Fate, Fault, Faulty, Injector, LinkFaults, PacketKind};
pub use flowloom_core::Routing;
pub use observer::Observer;
pub use outage::Outage;
pub use report::{Abort, CLASSES, ControlCounters, FlowRecord, PortCounters, PortView, Report, SentCounters, Violation};
pub use routing::{Origin, Routes};
pub use sim::{CONTROL_HOST, REGIONS_MAX, RoutedSetup, Sim, SimSetup, Vitals, Windows, crossing_time, with_control_host};
pub use tasks::{End, Next, Task, TaskList, Tasks};
