//! The capacity that a port allocates, adapted to what flows use of their allocations.

use flowloom_core::{Rate, Time};

use super::config::QueueSample;
use super::rules::Rules;

/// Once per interval T: C ← C + α·(link − u) − β·q/T, where u is the rate at which packets came and q is the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    /// In bits per second; not set before the first interval.
    bps: f64,
    /// When the current interval began, and when it ends.
    since: Time,
    until: Time,
    /// Bytes that came in this interval.
    arrived: u64,
    /// The least number of bytes queued in this interval.
    least: u64,
}

impl Capacity {
    /// Counts a packet that comes to a port with this many bytes queued. `flows` is the number of flows with allocations.
    #[inline]
    pub fn arrival(&mut self, now: Time, size: u32, queued: u64, link: Rate, flows: u64, rules: &Rules) {
        if now >= self.until {
            self.adapt(now, queued, link, flows, rules);
        }
        self.arrived += u64::from(size);
    }

    /// A packet left, and this many bytes are still queued.
    #[inline]
    pub fn departure(&mut self, queued: u64) {
        self.least = self.least.min(queued);
    }

    /// Ends the interval, and those after it in which nothing came.
    #[cold]
    #[inline(never)]
    fn adapt(&mut self, now: Time, queued: u64, link: Rate, flows: u64, rules: &Rules) {
        let seconds = rules.interval.as_secs_f64();
        let link_bps = link.as_bps() as f64;
        if flows == 0 || self.until == Time::ZERO {
            // Nobody holds an allocation, so nothing is known about its use.
            self.bps = link_bps;
        } else {
            let bits = |bytes: u64| (bytes * 8) as f64;
            // The number of whole packets in an interval varies by one. One more than the link can send is no overload.
            let most = link.bytes_in(rules.interval).get();
            let arrived = if self.arrived > most { most + (self.arrived - most).saturating_sub(rules.full.get()) } else { self.arrived };
            let queue = match rules.queue_sample {
                QueueSample::Standing => self.least.min(queued),
                QueueSample::Instant => queued,
            };
            let spare = link_bps - bits(arrived) / seconds;
            let silent = ((now - self.until).as_ps() / rules.interval.as_ps()) as f64;
            self.bps += rules.spare_gain * spare - rules.queue_gain * bits(queue) / seconds;
            self.bps = (self.bps.max(0.0) + silent * rules.spare_gain * link_bps).min(rules.capacity_max * link_bps);
        }
        let elapsed = (now - self.since).as_ps() / rules.interval.as_ps();
        self.since = if self.until == Time::ZERO { now } else { self.since + rules.interval * elapsed };
        self.until = self.since + rules.interval;
        self.arrived = 0;
        self.least = queued;
    }

    /// The capacity.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.bps as u64)
    }
}
