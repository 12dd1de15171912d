//! Time, durations, rates and byte counts as types, so that a signature says its unit.

use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const PS_PER_S: u64 = 1_000_000_000_000;

/// An instant, in integer picoseconds since the start of the run (sim) or of the process (host).
///
/// The range is 213 days. A run ends at [`Time::LAST`] at the latest, and no configuration, link or flow brings in a span longer than
/// [`Duration::LONGEST`], which is a tenth of that. So an instant of a run plus several spans stays within the range, and the sums that are
/// made for every packet are checked in debug builds only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A span of time, in integer picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A transmission rate, in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// The last instant of a run: 10^7 s, or 115 days.
    pub const LAST: Time = Time(10_000_000 * PS_PER_S);
    /// Later than any instant of a run; stands for "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Seconds since the start, rounded to a double.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// The span from `earlier` to here, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// The longest span that a run's input may bring in: 10^6 s, or eleven days.
    pub const LONGEST: Duration = Duration(1_000_000 * PS_PER_S);
    /// Longer than any run.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Duration {
        Duration(ps)
    }
    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Duration {
        Duration(ns * 1_000)
    }
    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Duration {
        Duration(us * 1_000_000)
    }
    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Duration {
        Duration(ms * 1_000_000_000)
    }
    /// A span of `s` seconds, rounded to the nearest picosecond; `None` if it is negative, NaN or longer than [`Duration::LONGEST`].
    pub fn checked_from_secs_f64(s: f64) -> Option<Duration> {
        Duration::checked_from_f64(s * PS_PER_S as f64)
    }
    fn checked_from_f64(ps: f64) -> Option<Duration> {
        let longest = Duration::LONGEST.0 as f64;
        (0.0..=longest).contains(&ps).then(|| Duration(ps.round() as u64))
    }
    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Seconds, rounded to a double.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// Microseconds, rounded to a double.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// This span times a factor, rounded to the nearest picosecond; `None` if that is negative, NaN or longer than
    /// [`Duration::LONGEST`].
    pub fn checked_scale(self, factor: f64) -> Option<Duration> {
        Duration::checked_from_f64(self.0 as f64 * factor)
    }
    /// As [`checked_scale`](Duration::checked_scale), where the product is known to be in range.
    ///
    /// # Panics
    /// Where it is not.
    pub fn scale(self, factor: f64) -> Duration {
        self.checked_scale(factor).unwrap_or_else(|| panic!("{self} times {factor} is no span of a run"))
    }
    /// This span `n` times; `None` if that is longer than [`Duration::LONGEST`].
    pub fn checked_mul(self, n: u64) -> Option<Duration> {
        self.0.checked_mul(n).map(Duration).filter(|product| *product <= Duration::LONGEST)
    }
}

impl Rate {
    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }
    /// A rate of `gbps` times 10^9 bits per second.
    pub const fn from_gbps(gbps: u64) -> Rate {
        Rate(gbps * 1_000_000_000)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// How long `bytes` take at this rate, rounded up to a whole picosecond.
    ///
    /// # Panics
    /// Where the rate is zero, or the time is beyond the range of a [`Duration`].
    #[inline]
    pub fn transmit_time(self, bytes: Bytes) -> Duration {
        // 2 MB is the most that fits in 64 bits; only closed forms ask for more.
        if bytes.0 < 2_000_000 {
            Duration((bytes.0 * 8 * PS_PER_S).div_ceil(self.0))
        } else {
            self.transmit_time_of_many(bytes)
        }
    }
    #[inline(never)]
    fn transmit_time_of_many(self, bytes: Bytes) -> Duration {
        Duration(u64::try_from(self.transmit_ps(bytes)).expect("a transfer takes less than 213 days"))
    }
    /// The same for any number of bytes; `None` if that takes longer than [`Duration::LONGEST`].
    ///
    /// # Panics
    /// Where the rate is zero.
    pub fn checked_transmit_time(self, bytes: Bytes) -> Option<Duration> {
        u64::try_from(self.transmit_ps(bytes)).ok().map(Duration).filter(|time| *time <= Duration::LONGEST)
    }
    fn transmit_ps(self, bytes: Bytes) -> u128 {
        (u128::from(bytes.0) * 8 * u128::from(PS_PER_S)).div_ceil(u128::from(self.0))
    }
    /// How many whole bytes fit into `span` at this rate.
    ///
    /// # Panics
    /// Where they are 2^64 or more.
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.0) / (8 * u128::from(PS_PER_S));
        Bytes(u64::try_from(bytes).expect("fewer than 2^64 bytes"))
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }
    /// The count as a bare integer.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// How many pieces of at most `piece` bytes this makes; at least one, since a flow of zero bytes still needs a packet.
    pub const fn pieces(self, piece: Bytes) -> u64 {
        let n = self.0.div_ceil(piece.0);
        if n == 0 { 1 } else { n }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    /// Without a check in release builds: see [`Time`] for why the sum is in range.
    #[inline]
    fn add(self, span: Duration) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}
impl Sub for Time {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        debug_assert!(self >= earlier, "time runs backwards");
        Duration(self.0.wrapping_sub(earlier.0))
    }
}
impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}
impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    #[inline]
    fn mul(self, n: u64) -> Duration {
        Duration(self.0 * n)
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, n: u64) -> Duration {
        Duration(self.0 / n)
    }
}
impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    #[inline]
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, n: u64) -> Bytes {
        Bytes(self.0 * n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmit_time_is_exact_for_common_rates_and_rounds_up_otherwise() {
        assert_eq!(Rate::from_gbps(10).transmit_time(Bytes::new(1500)), Duration::from_ns(1200));
        assert_eq!(Rate::from_gbps(40).transmit_time(Bytes::new(1500)), Duration::from_ns(300));
        assert_eq!(Rate::from_bps(3).transmit_time(Bytes::new(1)), Duration::from_ps(2_666_666_666_667));
        // 1 GB at 10 Gb/s is 0.8 s; the value crosses the 64-bit product.
        assert_eq!(Rate::from_gbps(10).transmit_time(Bytes::new(1_000_000_000)), Duration::from_ms(800));
    }

    #[test]
    fn what_input_decides_is_checked() {
        let second = Duration::from_ms(1000);
        assert_eq!(second.checked_scale(1e6), Some(Duration::LONGEST));
        assert_eq!(Duration::LONGEST.checked_scale(0.5), Duration::checked_from_secs_f64(5e5));
        for factor in [1.000_001e6, 1e15, f64::MAX, f64::INFINITY, f64::NAN, -1e-6] {
            assert_eq!(second.checked_scale(factor), None, "{factor}");
            assert_eq!(Duration::checked_from_secs_f64(factor), None, "{factor}");
        }
        assert_eq!(second.checked_mul(1_000_000), Some(Duration::LONGEST));
        assert_eq!(second.checked_mul(1_000_001), None);
        assert_eq!(second.checked_mul(u64::MAX), None);
        assert_eq!(Rate::from_bps(8).checked_transmit_time(Bytes::new(1_000_000)), Some(Duration::LONGEST));
        assert_eq!(Rate::from_bps(8).checked_transmit_time(Bytes::new(u64::MAX)), None);
    }

    #[test]
    #[should_panic(expected = "is no span of a run")]
    fn a_product_out_of_range_does_not_saturate() {
        let _ = Duration::from_us(10).scale(1e15);
    }

    /// The promise that unchecked sums rest on: the last instant of a run plus eight of the longest spans.
    #[test]
    fn an_instant_plus_several_spans_is_in_range() {
        assert!(Time::LAST.0.checked_add(8 * Duration::LONGEST.0).is_some());
    }

    #[test]
    fn bytes_in_inverts_transmit_time() {
        let rate = Rate::from_gbps(40);
        assert_eq!(rate.bytes_in(rate.transmit_time(Bytes::new(12_345))), Bytes::new(12_345));
    }

    #[test]
    fn display_picks_the_largest_unit() {
        assert_eq!(Duration::from_ns(1200).to_string(), "1.2us");
        assert_eq!(Rate::from_gbps(10).to_string(), "10Gb/s");
        assert_eq!(Bytes::new(36_864).to_string(), "36.864kB");
        assert_eq!(Bytes::ZERO.to_string(), "0B");
    }

    #[test]
    fn a_flow_of_no_bytes_is_one_packet() {
        assert_eq!(Bytes::new(0).pieces(Bytes::new(1460)), 1);
        assert_eq!(Bytes::new(1460).pieces(Bytes::new(1460)), 1);
        assert_eq!(Bytes::new(1461).pieces(Bytes::new(1460)), 2);
    }
}
