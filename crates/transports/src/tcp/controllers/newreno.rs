//! No answer but to loss.

use super::{Config, Controller, Progress};

/// TCP NewReno (RFC 5681, RFC 6582): one packet more per round trip, half the window at a loss; packets are not ECN-capable.
#[derive(Clone, Copy, Debug)]
pub struct NewReno;

impl Controller for NewReno {
    fn reacts_to_marks(&self) -> bool {
        false
    }
    fn keeps(&self, _: &Config, _: &Progress) -> f64 {
        1.0
    }
}
