//! The retransmission timeout.

use flowloom_core::{Duration, Time};

use super::config::RtoRule;

/// How the timeout follows from measured round-trip times, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The rule.
    pub rule: RtoRule,
    /// The least timeout.
    pub least: Duration,
    /// The timeout before the first sample.
    pub initial: Duration,
    /// The longest timeout that back-off reaches.
    pub most: Duration,
}

/// The round-trip time and the timeout that follows from it (RFC 6298). One packet per round trip is timed, and never a retransmitted
/// one (Karn's rule).
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    /// Zero before the first sample.
    smoothed: Duration,
    variation: Duration,
    /// Timeouts since the last sample; each has doubled the timeout.
    backoff: u32,
}

impl RttEstimator {
    /// The state before any measurement.
    pub const NEW: RttEstimator = RttEstimator { smoothed: Duration::ZERO, variation: Duration::ZERO, backoff: 0 };

    /// Takes a sample (RFC 6298 §2.2, §2.3).
    pub fn sample(&mut self, rtt: Duration) {
        self.backoff = 0;
        if self.smoothed == Duration::ZERO {
            self.smoothed = rtt;
            self.variation = rtt / 2;
            return;
        }
        let error = if rtt > self.smoothed { rtt - self.smoothed } else { self.smoothed - rtt };
        self.variation = (self.variation * 3 + error) / 4;
        self.smoothed = (self.smoothed * 7 + rtt) / 8;
    }

    /// The timer expired: the next timeout is twice as long, until there is a sample (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(30);
    }

    /// The next timeout is as long as if there had been none so far.
    pub fn forget_back_off(&mut self) {
        self.backoff = 0;
    }

    /// The smoothed round-trip time, zero before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The current timeout.
    #[inline]
    pub fn timeout(&self, of: &Timeouts) -> Duration {
        let base = match of.rule {
            RtoRule::Fixed => return of.least,
            _ if self.smoothed == Duration::ZERO => of.initial,
            RtoRule::Rfc6298 => (self.smoothed + self.variation * 4).max(of.least),
            RtoRule::Linux => self.smoothed + (self.variation * 4).max(of.least),
        };
        // It may saturate, since the longest timeout is less.
        let backed_off = base.as_ps().saturating_mul(1 << self.backoff);
        Duration::from_ps(backed_off).min(of.most)
    }

    /// When a packet sent now times out.
    #[inline]
    pub fn due(&self, now: Time, of: &Timeouts) -> Time {
        now + self.timeout(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Config;

    const fn us(us: u64) -> Duration {
        Duration::from_us(us)
    }

    #[test]
    fn the_first_samples_give_the_numbers_of_the_rfc() {
        let config = Config { rto_min: us(1), rto_initial: us(1_000_000), rto_max: us(60_000_000), ..Config::default() };
        let mut rtt = RttEstimator::NEW;
        assert_eq!(rtt.timeout(&config.timeouts()), us(1_000_000));
        rtt.sample(us(800));
        // SRTT = 800, RTTVAR = 400: 800 + 4 * 400.
        assert_eq!(rtt.timeout(&config.timeouts()), us(2400));
        rtt.sample(us(1600));
        // RTTVAR = 3/4 * 400 + 1/4 * 800 = 500, SRTT = 7/8 * 800 + 1/8 * 1600 = 900.
        assert_eq!((rtt.smoothed(), rtt.timeout(&config.timeouts())), (us(900), us(2900)));
    }

    #[test]
    fn timeouts_double_up_to_the_most_and_a_sample_ends_that() {
        let config = Config { rto_min: us(10_000), rto_max: us(70_000), ..Config::default() };
        let mut rtt = RttEstimator::NEW;
        rtt.sample(us(100));
        let mut spans = Vec::new();
        for _ in 0..5 {
            spans.push(rtt.timeout(&config.timeouts()));
            rtt.back_off();
        }
        assert_eq!(spans, [10_000, 20_000, 40_000, 70_000, 70_000].map(us));
        rtt.sample(us(100));
        assert_eq!(rtt.timeout(&config.timeouts()), us(10_000));
    }

    /// Linux keeps 4·RTTVAR above the least timeout, not their sum with SRTT (P. Sarolahti and A. Kuznetsov, *Congestion Control in Linux
    /// TCP*, USENIX 2002, §3.2).
    #[test]
    fn linux_adds_the_least_timeout_to_the_round_trip() {
        let config = Config { rto_rule: RtoRule::Linux, rto_min: us(10_000), rto_max: us(60_000_000), ..Config::default() };
        let mut rtt = RttEstimator::NEW;
        rtt.sample(us(800));
        assert_eq!(rtt.timeout(&config.timeouts()), us(10_800));
        rtt.back_off();
        assert_eq!(rtt.timeout(&config.timeouts()), us(21_600));
        // RTTVAR = 3/4 * 400 + 1/4 * 40000 = 10300, SRTT = 7/8 * 800 + 1/8 * 40800 = 5800.
        rtt.sample(us(40_800));
        assert_eq!(rtt.timeout(&config.timeouts()), us(5800 + 41_200));
    }

    #[test]
    fn a_fixed_timeout_knows_neither_samples_nor_back_off() {
        let config = Config { rto_rule: RtoRule::Fixed, rto_min: us(2000), ..Config::default() };
        let mut rtt = RttEstimator::NEW;
        rtt.sample(us(90_000));
        rtt.back_off();
        assert_eq!(rtt.timeout(&config.timeouts()), us(2000));
    }
}
