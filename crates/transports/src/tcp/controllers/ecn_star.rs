//! Half the window for a mark.

use super::{Config, Controller, Progress};

/// ECN*: the standard answer of TCP to marks (RFC 3168 §6.1.2) with switches that mark by the instantaneous queue (H. Wu et al.,
/// *Tuning ECN for Data Center Networks*, CoNEXT 2012; PIAS paper, §III-B3).
#[derive(Clone, Copy, Debug)]
pub struct EcnStar;

impl Controller for EcnStar {
    fn reacts_to_marks(&self) -> bool {
        true
    }
    fn keeps(&self, _: &Config, _: &Progress) -> f64 {
        0.5
    }
}
