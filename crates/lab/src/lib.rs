//! From a scenario to results: scenario schema, workloads, the plan of a run, the ideal, metrics.

mod catalogue;
pub mod cdf;
pub mod cdf_file;
mod custom;
mod error;
mod files;
pub mod ideal;
mod limits;
pub mod metrics;
mod plan;
pub mod random;
pub mod registry;
mod run;
mod solo;
pub mod spec;
pub mod tables;
mod watchdog;
pub mod workload;

pub use catalogue::catalogue;
pub use error::ScenarioError;
pub use plan::Plan;
pub use run::{Outcome, Progress, RunError, run};
