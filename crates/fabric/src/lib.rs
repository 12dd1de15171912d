//! The simulated network.

mod report;

pub use report::{CLASSES, FlowRecord, PortCounters, Report};
