//! Algorithm 1: the window of one flow, from what ports report.

#[cfg(test)]
mod tests;

use flowloom_core::{Duration, Rate, Time};

use super::Header;
use crate::disciplines::{HopRecord, LinkRates, Telemetry};
use crate::roce::Controller;

/// What the windows of all flows of a host have in common.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The utilisation at which windows aim (η).
    pub target: f64,
    /// After this many additive increases in a row, the next change is multiplicative (maxStage).
    pub stages: u32,
    /// The additive increase in bytes (W_AI).
    pub increase: f64,
    /// Whether acknowledgements between two updates of the reference change the window, too.
    pub fast_reaction: bool,
    /// The base round-trip time in nanoseconds (T).
    pub rtt: f64,
    /// What a host sends in this time at the rate of its NIC, in bytes: the first and largest window.
    pub most: f64,
    /// The least window in bytes.
    pub least: f64,
    /// By number, the nanoseconds that a byte takes at each rate of the network.
    pub byte_time: [f64; LinkRates::MOST],
    /// Records that are older cannot be compared with new ones, because their counters may have wrapped.
    pub lifetime: Duration,
}

impl Rules {
    /// The nanoseconds that a byte takes at each rate, by number.
    pub fn byte_times(rates: &LinkRates) -> [f64; LinkRates::MOST] {
        let mut times = [0.0; LinkRates::MOST];
        times.iter_mut().zip(rates.rates()).for_each(|(time, rate)| *time = 8e9 / rate.as_bps() as f64);
        times
    }

    /// For how long two records can be compared: half of the range of each counter. The number of bytes wraps after this time at the
    /// earliest on a link of rate `fastest`.
    pub fn lifetime(fastest: Rate) -> Duration {
        let time = Duration::from_ns(HopRecord::TIME_WRAP_NS);
        time.min(fastest.checked_transmit_time(HopRecord::SENT_WRAP).unwrap_or(time)) / 2
    }

    /// The utilisation of the busiest link between two reports (u, the largest of all u'), and how many nanoseconds they are apart there
    /// (τ). `None` if the second report is not later than the first.
    #[inline]
    fn busiest(&self, before: &Telemetry, after: &Telemetry) -> Option<(f64, f64)> {
        let mut found: Option<(f64, f64)> = None;
        for (old, new) in before.hops().iter().zip(after.hops()) {
            let Some((elapsed, sent)) = new.since(*old) else { continue };
            let elapsed = elapsed as f64;
            let queue = old.queued().min(new.queued()) as f64;
            let used = (queue / self.rtt + sent as f64 / elapsed) * self.byte_time[new.rate()];
            if found.is_none_or(|(most, _)| used > most) {
                found = Some((used, elapsed));
            }
        }
        found
    }
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Window {
    /// W, in bytes.
    bytes: f64,
    /// The reference window (W_c), which changes once per round trip, in bytes.
    reference: f64,
    /// The smoothed utilisation of the busiest link (U).
    utilisation: f64,
    /// Additive increases of the reference since its last multiplicative change (incStage).
    stage: u32,
    /// The reference changes when a packet beyond this number of packets is acknowledged (lastUpdateSeq).
    update_after: u32,
    /// The last report (L).
    last: Telemetry,
    /// When it came.
    last_at: Time,
}

impl Window {
    /// Takes a report as the first one.
    #[cold]
    fn remember(&mut self, now: Time, next: u32, report: &Telemetry) {
        self.update_after = self.update_after.max(next);
        self.last = *report;
        self.last_at = now;
    }

    #[inline]
    fn is_multiplicative(&self, rules: &Rules) -> bool {
        self.utilisation >= rules.target || self.stage >= rules.stages
    }

    /// The window before it is clamped (function ComputeWind).
    #[inline]
    fn following(&self, rules: &Rules) -> f64 {
        if self.is_multiplicative(rules) {
            self.reference * (rules.target / self.utilisation) + rules.increase
        } else {
            self.reference + rules.increase
        }
    }
}

impl Controller for Window {
    type Rules = Rules;
    type Header = Header;
    const TIMED: bool = false;

    /// A flow begins at line rate.
    fn new(rules: &Rules) -> Window {
        Window {
            bytes: rules.most,
            reference: rules.most,
            utilisation: 1.0,
            stage: 0,
            update_after: 0,
            last: Telemetry::default(),
            last_at: Time::ZERO,
        }
    }

    /// W.
    #[inline]
    fn window(&self, _: &Rules) -> f64 {
        self.bytes
    }

    /// Packets leave at W/T.
    #[inline]
    fn gap(&self, rules: &Rules, line: Duration) -> Duration {
        Duration::from_ps((line.as_ps() as f64 * (rules.most / self.bytes)) as u64)
    }

    /// Procedure NewAck.
    #[inline]
    fn on_ack(&mut self, rules: &Rules, now: Time, acknowledged: u32, next: u32, report: &Telemetry) {
        let update = acknowledged > self.update_after;
        if !update && !rules.fast_reaction {
            return;
        }
        // A report tells nothing if it is the first of a flow or of a path, or comes so late that counters may have wrapped.
        if !self.last.same_path(report) || now - self.last_at >= rules.lifetime {
            self.remember(now, next, report);
            return;
        }
        let Some((used, elapsed)) = rules.busiest(&self.last, report) else { return };
        let weight = (elapsed / rules.rtt).min(1.0);
        self.utilisation = (1.0 - weight) * self.utilisation + weight * used;
        self.bytes = self.following(rules).clamp(rules.least, rules.most);
        if update {
            let multiplicative = self.is_multiplicative(rules);
            self.stage = if multiplicative { 0 } else { self.stage + 1 };
            self.reference = self.bytes;
            self.update_after = self.update_after.max(next);
        }
        self.last = *report;
        self.last_at = now;
    }
}
