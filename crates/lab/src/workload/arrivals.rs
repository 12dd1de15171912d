//! When flows start: what the kinds have in common.

use flowloom_core::Time;

use crate::ScenarioError;
use crate::random::Stream;

/// A workload whose last start is expected later than this is refused: a load or a rate has a slip, and later starts would leave the
/// range of [`Time`].
pub(super) const START_S_MAX: f64 = 1e6;
pub(super) const PS_PER_S: f64 = 1e12;

/// The start after `last` in a Poisson process. It may saturate, and is then later than any run: a host that seldom sends may have its
/// first flow that late.
pub(super) fn next_start(last: Time, stream: &mut Stream, mean_gap_ps: f64) -> Time {
    let gap_ps = (stream.exponential() * mean_gap_ps).round() as u64;
    Time::from_ps(last.as_ps().saturating_add(gap_ps))
}

/// Refuses a workload whose last start is expected more than [`START_S_MAX`] after its first.
pub(super) fn check_length(key: &str, seconds: f64) -> Result<(), ScenarioError> {
    if seconds <= START_S_MAX {
        return Ok(());
    }
    let message = format!("the last start would be {seconds:.3e} s after the first; the limit is {START_S_MAX:e} s");
    Err(ScenarioError::at_key(key, message))
}
