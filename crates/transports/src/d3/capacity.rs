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
            let bits = |bytes: u64| bytes as f64 * 8.0;
            // The number of whole packets in an interval varies by one. One more than the link can send is no overload.
            let most = link_bps * seconds;
            let beyond = (bits(self.arrived) - most - bits(rules.full.get())).max(0.0);
            let arrived = bits(self.arrived).min(most) + beyond;
            let queue = match rules.queue_sample {
                QueueSample::Standing => self.least.min(queued).saturating_sub(rules.full.get()),
                QueueSample::Instant => queued,
            };
            let spare = link_bps - arrived / seconds;
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

#[cfg(test)]
mod tests {
    use flowloom_core::Duration;

    use super::*;

    const LINK: Rate = Rate::from_gbps(10);

    /// Intervals of 100 us, in which the link sends 125 kB.
    fn rules(capacity_max: f64) -> Rules {
        Rules { capacity_max, interval: Duration::from_us(100), ..Rules::default() }
    }

    fn at_us(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// The capacity in Mb/s at the beginning of each interval in which this many bytes come, evenly, and this many are queued.
    fn after(intervals: &[(u32, u64)], rules: &Rules) -> Vec<u64> {
        let mut capacity = Capacity::default();
        let mut result = Vec::new();
        for (interval, (bytes, queued)) in (0..).zip(intervals) {
            for part in 0..10 {
                let at = at_us(interval * 100 + part * 10);
                capacity.arrival(at, bytes / 10, *queued, LINK, 1, rules);
                capacity.departure(*queued);
            }
            result.push(capacity.rate().as_bps() / 1_000_000);
        }
        result
    }

    /// By hand: 62.5 kB are half of the link, so a tenth of the other half is added. 12.5 kB of queue beyond a packet are 1 Gb/s in an
    /// interval.
    #[test]
    fn the_capacity_follows_the_formula_interval_by_interval() {
        let half = (62_500, 0);
        let full_and_queue = (125_000, 14_000);
        let capacities = after(&[half, half, full_and_queue, full_and_queue, full_and_queue, (125_000, 0)], &rules(2.0));
        assert_eq!(capacities, [10_000, 10_500, 11_000, 10_000, 9000, 9000]);
    }

    #[test]
    fn it_stays_between_zero_and_the_largest() {
        assert_eq!(after(&[(0, 0); 5], &rules(1.25)), [10_000, 11_000, 12_000, 12_500, 12_500]);
        assert_eq!(after(&[(125_000, 200_000), (125_000, 200_000), (125_000, 0)], &rules(1.0)), [10_000, 0, 0]);
    }

    /// Silent intervals count as empty ones. A port without flows starts anew.
    #[test]
    fn silence_is_unused_capacity_while_flows_hold_it() {
        let rules = rules(2.0);
        for (flows, expected) in [(1, 12_988), (0, 10_000)] {
            let mut capacity = Capacity::default();
            capacity.arrival(at_us(0), 1500, 0, LINK, flows, &rules);
            capacity.arrival(at_us(399), 1500, 0, LINK, flows, &rules);
            // 1500 of 125,000 bytes came in the first interval: 10 + 0.988 + 1 + 1.
            assert_eq!(capacity.rate().as_bps().div_ceil(1_000_000), expected);
        }
    }

    /// 83 or 84 packets of 1500 B come in an interval of a full link.
    #[test]
    fn the_packet_that_an_interval_has_more_is_no_overload() {
        let capacities = after(&[(126_000, 0), (126_500, 0), (127_750, 0), (0, 0)], &rules(2.0));
        // 127,750 B are 1250 B more than a packet beyond 125,000 B: 0.1 times 0.1 Gb/s.
        assert_eq!(capacities, [10_000, 10_000, 10_000, 9990]);
    }

    /// Packets of several flows that come at one instant are gone before the interval ends.
    #[test]
    fn only_a_queue_that_stands_counts_by_default() {
        for (queue_sample, expected) in [(QueueSample::Standing, 10_000), (QueueSample::Instant, 9000)] {
            let rules = Rules { queue_sample, ..rules(1.0) };
            let mut capacity = Capacity::default();
            capacity.arrival(at_us(0), 62_500, 0, LINK, 1, &rules);
            capacity.arrival(at_us(10), 62_500, 0, LINK, 1, &rules);
            capacity.departure(0);
            capacity.arrival(at_us(100), 1500, 12_500, LINK, 1, &rules);
            assert_eq!(capacity.rate().as_bps() / 1_000_000, expected);
        }
    }
}
