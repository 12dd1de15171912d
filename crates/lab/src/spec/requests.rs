//! What an incast's keys say of its requests.

use flowloom_core::{Bytes, Duration};

use super::{Incast, Sizes};
use crate::ScenarioError;

/// What an incast gives a size to.
#[derive(Clone, Copy)]
pub(crate) enum PayloadOf<'a> {
    /// A whole request, which its senders share.
    Request(Bytes),
    /// Each flow.
    Flow(&'a Sizes),
}

/// When the requests of an incast start.
#[derive(Clone, Copy)]
pub(crate) enum RequestStarts {
    /// As a Poisson process that loads the busiest of the hosts' links by this much.
    PoissonOfLoad(f64),
    /// As a Poisson process with this mean time between requests.
    PoissonOfGap(Duration),
    /// One every period.
    Periodic(Duration),
}

impl Incast {
    /// Which of the two keys gives the payload.
    ///
    /// # Errors
    /// Neither of the keys, or both.
    pub(crate) fn request_sizes(&self) -> Result<PayloadOf<'_>, ScenarioError> {
        match (self.bytes, &self.sizes) {
            (Some(bytes), None) => Ok(PayloadOf::Request(bytes.0)),
            (None, Some(sizes)) => Ok(PayloadOf::Flow(sizes)),
            (None, None) => {
                let message = "missing; give the payload of a request, such as \"1MB\", or sizes for that of each of its flows";
                Err(ScenarioError::at_key("workload.bytes", message))
            }
            (Some(_), Some(_)) => {
                Err(ScenarioError::at_key("workload.sizes", "bytes is given too; a request's payload follows one of them"))
            }
        }
    }

    /// Which of the three keys the requests follow.
    ///
    /// # Errors
    /// None of the keys, or more than one.
    pub(crate) fn request_starts(&self) -> Result<RequestStarts, ScenarioError> {
        let (key, found) = match (self.load, self.mean_gap, self.period) {
            (Some(load), None, None) => return Ok(RequestStarts::PoissonOfLoad(load)),
            (None, Some(gap), None) => return Ok(RequestStarts::PoissonOfGap(gap.0)),
            (None, None, Some(period)) => return Ok(RequestStarts::Periodic(period.0)),
            (None, None, None) => {
                let message =
                    "missing; give load = 0.6 or mean_gap = \"1ms\" (Poisson arrivals), or period = \"1ms\" (one every period)";
                return Err(ScenarioError::at_key("workload.load", message));
            }
            (Some(_), Some(_), _) => ("workload.mean_gap", "both load and mean_gap are"),
            (Some(_), None, Some(_)) => ("workload.period", "both load and period are"),
            (None, Some(_), Some(_)) => ("workload.period", "both mean_gap and period are"),
        };
        Err(ScenarioError::at_key(key, format!("{found} given; requests follow one of them")))
    }
}
