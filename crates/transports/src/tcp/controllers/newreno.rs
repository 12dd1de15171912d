//! No reaction to marks.

use super::{Config, Controller, Progress};

/// TCP NewReno (RFC 5681, RFC 6582): one more packet per round trip, and half the window for a loss. Packets are not ECN-capable.
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
