//! From a scenario to results: scenario schema, workloads, the plan of a run, the ideal, metrics.

pub mod cdf;
pub mod cdf_file;
mod error;
pub mod random;
pub mod tables;

pub use error::ScenarioError;
