//! As much less as was marked.

use super::alpha::Alpha;
use super::{Config, Controller, Progress};

/// DCTCP (RFC 8257): a mark costs half the estimated share of marked packets, once per window.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    alpha: Alpha,
}

impl Dctcp {
    pub(super) fn new(config: &Config) -> Dctcp {
        Dctcp { alpha: Alpha::new(config) }
    }
}

impl Controller for Dctcp {
    fn reacts_to_marks(&self) -> bool {
        true
    }
    #[inline]
    fn acknowledged(&mut self, packets: u32, echo: bool) {
        self.alpha.acknowledged(packets, echo);
    }
    fn round_ends(&mut self, config: &Config) {
        self.alpha.round_ends(config);
    }
    fn keeps(&self, _: &Config, _: &Progress) -> f64 {
        1.0 - self.alpha.get() / 2.0
    }
}
