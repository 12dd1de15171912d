//! Queueing disciplines that switch ports share.

mod classes;
mod credit_port;
mod data_queues;
mod drop_tail;
mod ecn_priority;
mod pausable;
#[cfg(test)]
pub(crate) mod rig;
mod strict_priority;
mod telemetry;

pub use classes::{ClassSet, MOST_CLASSES};
pub(crate) use credit_port::Bucket;
pub use credit_port::{Beyond, CreditDrop, CreditLayout, CreditPort, DataQueue, Limit, WatchesData};
pub use data_queues::{CreditSchedule, data_queue_bounds};
pub use drop_tail::DropTail;
pub use ecn_priority::{EcnConfig, EcnPriority, MarkAt, Marking, SharedMemory, Split};
pub use pausable::Pausable;
pub use strict_priority::{Buffer, StrictPriority};
pub use telemetry::{Backlog, HopRecord, Instrumented, LinkRates, Stamped, Telemetry};
