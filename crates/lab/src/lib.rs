//! From a scenario to results.
//!
//! A scenario is read ([`spec`]), validated ([`ValidSpec`]), planned ([`Plan`]: the network, its faults, and the flows of a
//! [`workload`]), simulated ([`simulate`](fn@simulate)), and judged ([`metrics`]). [`run`](fn@run) does all of this. The [`catalogue`](mod@catalogue) lists what a
//! scenario can name, and [`ideal`] computes the reference line.

mod blocking;
pub mod catalogue;
pub mod cdf;
pub mod cdf_file;
mod changing;
mod conservation;
mod dead_links;
pub mod deployment;
mod error;
pub mod faults;
mod files;
mod findings;
pub mod fitting;
mod headroom;
pub mod ideal;
mod limits;
mod listing;
pub mod measured;
mod memory;
pub mod metrics;
mod misfits;
mod network;
pub mod observe;
pub mod parameters;
mod places;
mod plan;
mod planning;
pub mod random;
mod reading;
pub mod record;
mod row;
mod run;
mod simulate;
mod sink;
mod solo;
pub mod spec;
pub mod tables;
pub mod topologies;
pub mod trace;
mod validate;
mod watchdog;
pub mod workload;
pub mod zero_loss;

pub use error::ScenarioError;
pub use listing::catalogue;
pub use plan::{Extremes, Fitted, Plan, Setup};
pub use planning::refusals;
pub use run::{Outcome, run, run_plan};
pub use simulate::{Execution, Progress, RunError, Simulated, simulate};
pub use validate::ValidSpec;
