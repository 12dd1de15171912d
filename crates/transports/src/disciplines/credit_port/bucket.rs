//! A token bucket that does not round.

use flowloom_core::{Bytes, Rate, Time};

/// Bits per byte times picoseconds per second.
const BYTE_AT_ONE_BPS: u128 = 8_000_000_000_000;

/// A bucket that fills at a fraction of a link's rate. It counts in a unit of which both a byte and the inflow of a picosecond are whole
/// multiples, so it is exact however long the run. A count of picoseconds would round once per packet: credits of 76 B at 84/1622 of
/// 10 Gb/s are 1,174,019 1/21 ps apart.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Units per byte.
    byte: u128,
    /// Units that flow in per picosecond.
    inflow: u128,
    capacity: u128,
    /// Units by which the bucket was not full at `at`.
    missing: u128,
    at: Time,
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Bucket {
    /// A full bucket of `capacity`, which fills at `part / whole` of `rate`.
    ///
    /// # Panics
    /// If the rate, `part` or `whole` is zero.
    pub fn new(rate: Rate, part: Bytes, whole: Bytes, capacity: Bytes) -> Bucket {
        let byte = u128::from(whole.get()) * BYTE_AT_ONE_BPS;
        let inflow = u128::from(rate.as_bps()) * u128::from(part.get());
        assert!(byte > 0 && inflow > 0, "a bucket fills");
        let unit = common_divisor(byte, inflow);
        let (byte, inflow) = (byte / unit, inflow / unit);
        Bucket { byte, inflow, capacity: byte * u128::from(capacity.get()), missing: 0, at: Time::ZERO }
    }

    fn cost(&self, size: u32) -> u128 {
        self.byte * u128::from(size)
    }

    /// Whether a packet of `size` bytes fits into the full bucket. One that does not can never leave.
    #[inline]
    pub fn can_hold(&self, size: u32) -> bool {
        self.cost(size) <= self.capacity
    }

    /// Takes out `size` bytes if there are as many.
    ///
    /// # Errors
    /// The time, rounded up, from which there will be. It is later than `now`.
    #[inline]
    pub fn take(&mut self, now: Time, size: u32) -> Result<(), Time> {
        let inflow = u128::from(now.saturating_since(self.at).as_ps()) * self.inflow;
        self.missing = self.missing.saturating_sub(inflow);
        self.at = now;
        let missing = self.missing + self.cost(size);
        if missing <= self.capacity {
            self.missing = missing;
            return Ok(());
        }
        let wait = (missing - self.capacity).div_ceil(self.inflow);
        Err(Time::from_ps(u64::try_from(wait).map_or(u64::MAX, |wait| now.as_ps().saturating_add(wait))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 84 B at 84/1622 of 10 Gb/s take 1297.6 ns. The first two leave at once, and after a million of them the time is still exact.
    #[test]
    fn it_is_exact_over_a_long_run() {
        let mut bucket = Bucket::new(Rate::from_gbps(10), Bytes::new(84), Bytes::new(1622), Bytes::new(168));
        assert_eq!((bucket.take(Time::ZERO, 84), bucket.take(Time::ZERO, 84)), (Ok(()), Ok(())));
        let mut now = Time::ZERO;
        for credit in 1..=1_000_000 {
            now = bucket.take(now, 84).unwrap_err();
            assert_eq!(now.as_ps(), credit * 1_297_600);
            assert_eq!(bucket.take(now, 84), Ok(()));
        }
    }

    proptest! {
        /// Packets that always leave as early as they may, at any rate and of any sizes. What has left never exceeds the capacity and what
        /// has flowed in, and a packet that had to wait could not have left a picosecond earlier.
        #[test]
        fn what_leaves_is_what_flows_in(bps in 1_000_u64..400_000_000_000, sizes in prop::collection::vec(40_u32..100, 1..200)) {
            let (part, whole, capacity) = (84, 1622, 168);
            let mut bucket = Bucket::new(Rate::from_bps(bps), Bytes::new(part), Bytes::new(whole), Bytes::new(capacity));
            let unit = BYTE_AT_ONE_BPS * u128::from(whole);
            let allowed = |ps: u64| u128::from(bps) * u128::from(part) * u128::from(ps) + u128::from(capacity) * unit;
            let (mut now, mut left) = (Time::ZERO, 0_u128);
            for size in sizes {
                left += u128::from(size) * unit;
                if let Err(at) = bucket.take(now, size) {
                    prop_assert!(at > now);
                    prop_assert!(left > allowed(at.as_ps() - 1));
                    prop_assert_eq!(bucket.take(at, size), Ok(()));
                    now = at;
                }
                prop_assert!(left <= allowed(now.as_ps()));
            }
        }
    }
}
