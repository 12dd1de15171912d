//! Cuts in proportion to the share of marked packets.

use std::marker::PhantomData;

use super::alpha::Alpha;
use super::{Config, Controller, Progress};

/// How a descendant of DCTCP uses the estimate and the flow's state. The defaults are DCTCP's own.
pub trait DctcpVariant {
    /// The penalty for marks: the window loses half of it.
    fn penalty(alpha: f64, config: &Config, progress: &Progress) -> f64 {
        let _ = (config, progress);
        alpha
    }
    /// See [`Controller::growth`].
    fn growth(config: &Config, sent_bytes: u64) -> f64 {
        let _ = (config, sent_bytes);
        1.0
    }
}

/// DCTCP (RFC 8257): a mark costs half the estimated share of marked packets, once per window.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl DctcpVariant for Plain {}

/// A controller that estimates the share of marked packets.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp<T = Plain> {
    alpha: Alpha,
    variant: PhantomData<T>,
}

impl<T: DctcpVariant> Dctcp<T> {
    pub(super) fn new(config: &Config) -> Dctcp<T> {
        Dctcp { alpha: Alpha::new(config.initial_alpha), variant: PhantomData }
    }
}

impl<T: DctcpVariant> Controller for Dctcp<T> {
    fn reacts_to_marks(&self) -> bool {
        true
    }
    #[inline]
    fn acknowledged(&mut self, packets: u32, echo: bool) {
        self.alpha.acknowledged(packets, echo);
    }
    fn round_ends(&mut self, config: &Config) {
        self.alpha.round_ends(config.gain);
    }
    fn keeps(&self, config: &Config, progress: &Progress) -> f64 {
        1.0 - T::penalty(self.alpha.get(), config, progress) / 2.0
    }
    fn alpha(&self) -> Option<f64> {
        Some(self.alpha.get())
    }
    #[inline]
    fn growth(&self, config: &Config, sent_bytes: u64) -> f64 {
        T::growth(config, sent_bytes)
    }
}
