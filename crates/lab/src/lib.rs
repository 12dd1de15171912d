//! From a scenario to results: scenario schema, workloads, the plan of a run, the ideal, metrics.

pub mod catalogue;
pub mod cdf;
pub mod cdf_file;
mod custom;
mod error;
mod faults;
mod files;
pub mod ideal;
pub mod metrics;
mod network;
pub mod parameters;
mod plan;
pub mod random;
pub mod record;
mod run;
mod solo;
pub mod spec;
pub mod tables;
mod validate;
pub mod workload;

pub use catalogue::catalogue;
pub use error::ScenarioError;
pub use plan::Plan;
pub use run::{Outcome, Progress, RunError, Simulated, run, simulate};
pub use validate::ValidSpec;
