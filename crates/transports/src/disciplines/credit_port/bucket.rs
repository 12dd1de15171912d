//! A token bucket that does not round.

use flowloom_core::{Bytes, Rate, Time};

/// Bits per byte times picoseconds per second.
const BYTE_AT_ONE_BPS: u128 = 8_000_000_000_000;

/// A bucket that fills at a fraction of a link's rate. It counts in a unit of which both a byte and the inflow of a picosecond are whole
/// multiples, so it is exact however long the run. A count of picoseconds would round once per packet: credits of 76 B at 84/1622 of
/// 10 Gb/s are 1,174,019 1/21 ps apart.
///
/// If a full bucket has too many such units for a word, the unit becomes larger, and slightly less flows in than should. No usual rate needs
/// this.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Units per byte.
    byte: u64,
    /// Units that flow in per picosecond.
    inflow: u64,
    capacity: u64,
    /// Picoseconds in which an empty bucket becomes full.
    filled_in: u64,
    /// See [`Bucket::holds`].
    holds: u32,
    /// Units by which the bucket was not full at `at`.
    missing: u64,
    at: Time,
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Bucket {
    /// A full bucket of `capacity`, which fills at `part / whole` of `rate`.
    ///
    /// # Panics
    /// If the rate, `part` or `whole` is zero, or the bucket holds 4 GiB or more.
    pub fn new(rate: Rate, part: Bytes, whole: Bytes, capacity: Bytes) -> Bucket {
        let byte = u128::from(whole.get()) * BYTE_AT_ONE_BPS;
        let inflow = u128::from(rate.as_bps()) * u128::from(part.get());
        let holds = u32::try_from(capacity.get()).expect("a bucket holds less than 4 GiB");
        let capacity = u128::from(holds);
        assert!(byte > 0 && inflow > 0, "a bucket fills");
        let unit = common_divisor(byte, inflow);
        let (mut byte, mut inflow) = (byte / unit, inflow / unit);
        while byte * capacity > u128::from(u64::MAX / 4) {
            (byte, inflow) = (byte.div_ceil(2), inflow / 2);
        }
        let [byte, inflow, capacity] = [byte, inflow.max(1), byte * capacity].map(|units| units as u64);
        Bucket { byte, inflow, capacity, filled_in: capacity.div_ceil(inflow), holds, missing: 0, at: Time::ZERO }
    }

    /// The most that the full bucket can hold, in bytes. A larger packet can never leave.
    pub fn holds(&self) -> u32 {
        self.holds
    }

    /// Takes out `size` bytes, at most what the full bucket [holds](Bucket::holds), if there are as many.
    #[inline(always)]
    pub fn take(&mut self, now: Time, size: u32) -> bool {
        let elapsed = now.saturating_since(self.at).as_ps();
        self.missing = if elapsed >= self.filled_in { 0 } else { self.missing.saturating_sub(elapsed * self.inflow) };
        self.at = now;
        let missing = self.missing + self.byte * u64::from(size);
        let enough = missing <= self.capacity;
        if enough {
            self.missing = missing;
        }
        enough
    }

    /// The earliest time, rounded up, at which `size` bytes can be taken. The full bucket can hold them.
    #[inline]
    pub fn ready_at(&self, size: u32) -> Time {
        let missing = self.missing + self.byte * u64::from(size);
        let wait = missing.saturating_sub(self.capacity).div_ceil(self.inflow);
        Time::from_ps(self.at.as_ps().saturating_add(wait))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes out `size` bytes, or says when that will be possible.
    fn take(bucket: &mut Bucket, now: Time, size: u32) -> Result<(), Time> {
        if bucket.take(now, size) { Ok(()) } else { Err(bucket.ready_at(size)) }
    }

    /// 84 B at 84/1622 of 10 Gb/s take 1297.6 ns. The first two leave at once, and after a million of them the time is still exact.
    #[test]
    fn it_is_exact_over_a_long_run() {
        let mut bucket = Bucket::new(Rate::from_gbps(10), Bytes::new(84), Bytes::new(1622), Bytes::new(168));
        assert_eq!((bucket.take(Time::ZERO, 84), bucket.take(Time::ZERO, 84)), (true, true));
        let mut now = Time::ZERO;
        for credit in 1..=1_000_000 {
            now = take(&mut bucket, now, 84).unwrap_err();
            assert_eq!(now.as_ps(), credit * 1_297_600);
            assert!(bucket.take(now, 84));
        }
    }

    /// At a rate that shares no factor with a second's picoseconds, a burst of 84 kB has too many exact units for a word. The rate is then a
    /// little lower: by less than 1e-9 here, which is 0.2 ps of the 184.5 us until the bucket is full. A whole picosecond is added by rounding.
    #[test]
    fn a_rate_without_small_units_is_nearly_exact() {
        let bps = 399_999_999_949_u64;
        let mut bucket = Bucket::new(Rate::from_bps(bps), Bytes::new(83), Bytes::new(9117), Bytes::new(84_000));
        assert!(bucket.take(Time::ZERO, 84_000));
        let exact = 84_000.0 * 8e12 * 9117.0 / 83.0 / bps as f64;
        let excess = bucket.ready_at(84_000).as_ps() as f64 - exact;
        assert!((0.0..1.2).contains(&excess), "{excess} ps");
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
                if let Err(at) = take(&mut bucket, now, size) {
                    prop_assert!(at > now);
                    prop_assert!(left > allowed(at.as_ps() - 1));
                    prop_assert!(bucket.take(at, size));
                    now = at;
                }
                prop_assert!(left <= allowed(now.as_ps()));
            }
        }
    }
}
