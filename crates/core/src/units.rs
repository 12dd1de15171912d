//! Times, durations, rates and byte counts as types, so that every signature shows its units.

use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in time, in integer picoseconds since the start of the run (simulator) or of the process (real host).
///
/// The range is 213 days. A run ends at [`Time::LAST`] at the latest, and no configuration, link or flow contains a duration longer than
/// [`Duration::LONGEST`], which is a tenth of that. So a time of a run plus several durations stays within the range, and the additions
/// for every packet are checked in debug builds only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time, in integer picoseconds.
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
    /// The latest time of a run: 10^7 s, or 115 days.
    pub const LAST: Time = Time(10_000_000 * PS_PER_S);
    /// Later than any time of a run; means "never".
    pub const MAX: Time = Time(u64::MAX);

    /// The time `ps` picoseconds after the start.
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
    /// The duration from `earlier` to this time, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration that a run's input may contain: 10^6 s, or eleven days.
    pub const LONGEST: Duration = Duration(1_000_000 * PS_PER_S);
    /// Longer than any run.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A duration of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Duration {
        Duration(ps)
    }
    /// A duration of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Duration {
        Duration(ns * 1_000)
    }
    /// A duration of `us` microseconds.
    pub const fn from_us(us: u64) -> Duration {
        Duration(us * 1_000_000)
    }
    /// A duration of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Duration {
        Duration(ms * 1_000_000_000)
    }
    /// A duration of `s` seconds, rounded to the nearest picosecond; `None` if it is negative, NaN or longer than [`Duration::LONGEST`].
    pub fn checked_from_secs_f64(s: f64) -> Option<Duration> {
        Duration::checked_from_f64(s * PS_PER_S as f64)
    }
    fn checked_from_f64(ps: f64) -> Option<Duration> {
        let longest = Duration::LONGEST.0 as f64;
        (0.0..=longest).contains(&ps).then(|| {
            // `f64::round` is a call of the mathematics library on most targets, and credits and tokens are paced with this. The longest
            // duration fits a signed integer, whose conversions take a third of the instructions.
            let whole = ps as i64;
            Duration(whole as u64 + u64::from(ps - whole as f64 >= 0.5))
        })
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
    /// This duration times a factor, rounded to the nearest picosecond; `None` if the product is negative, NaN or longer than
    /// [`Duration::LONGEST`].
    pub fn checked_scale(self, factor: f64) -> Option<Duration> {
        Duration::checked_from_f64(self.0 as f64 * factor)
    }
    /// As [`checked_scale`](Duration::checked_scale), for a product that is known to be in range.
    ///
    /// # Panics
    /// If the product is out of range.
    pub fn scale(self, factor: f64) -> Duration {
        self.checked_scale(factor).unwrap_or_else(|| panic!("{self} times {factor} is out of the range of durations"))
    }
    /// This duration times `n`; `None` if the product is longer than [`Duration::LONGEST`].
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
    /// The time to transmit `bytes` at this rate, rounded up to a whole picosecond. It is at most [`Duration::LONGEST`] for the packets,
    /// queues and flows of a run, which is checked before the run; [`Rate::checked_transmit_time`] is for any other number of bytes.
    ///
    /// # Panics
    /// If the rate is zero.
    #[inline]
    pub fn transmit_time(self, bytes: Bytes) -> Duration {
        // The product fits in 64 bits up to 2 MB; only closed forms need more.
        if bytes.0 < 2_000_000 {
            Duration((bytes.0 * 8 * PS_PER_S).div_ceil(self.0))
        } else {
            let ps = self.transmit_ps(bytes);
            debug_assert!(ps <= u128::from(u64::MAX), "{bytes} at {self} take longer than a run");
            Duration(ps as u64)
        }
    }
    /// As [`transmit_time`](Rate::transmit_time); `None` if it is longer than [`Duration::LONGEST`].
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn checked_transmit_time(self, bytes: Bytes) -> Option<Duration> {
        u64::try_from(self.transmit_ps(bytes)).ok().map(Duration).filter(|time| *time <= Duration::LONGEST)
    }
    fn transmit_ps(self, bytes: Bytes) -> u128 {
        (u128::from(bytes.0) * 8 * u128::from(PS_PER_S)).div_ceil(u128::from(self.0))
    }
    /// How many whole bytes can be transmitted in `span` at this rate.
    ///
    /// # Panics
    /// If they are 2^64 or more.
    pub fn bytes_in(self, span: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.0) / (8 * u128::from(PS_PER_S));
        Bytes(u64::try_from(bytes).expect("fewer than 2^64 bytes"))
    }
}

impl Bytes {
    /// Zero.
    pub const ZERO: Bytes = Bytes(0);
    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }
    /// The count as a bare integer.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Into how many pieces of at most `piece` bytes this divides. At least one, because a flow of zero bytes still needs a packet.
    pub const fn pieces(self, piece: Bytes) -> u64 {
        let n = self.0.div_ceil(piece.0);
        if n == 0 { 1 } else { n }
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    /// The sum is not checked in release builds; [`Time`] says why it is in range.
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
    fn values_from_input_are_range_checked() {
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

    /// Halves, their neighbours, and doubles that have no fraction left: the mathematics library rounds all of them to the same numbers.
    #[test]
    fn products_are_rounded_to_the_nearest() {
        let powers = (0..60).map(|bits| (1_u64 << bits) as f64).filter(|power| *power <= Duration::LONGEST.0 as f64);
        for value in powers.flat_map(|power| [power - 0.5, power, power + 0.5, power * 1.3]) {
            for ps in [value.next_down(), value, value.next_up()] {
                assert_eq!(Duration::from_ps(1).scale(ps).as_ps(), ps.round() as u64, "{ps}");
            }
        }
        assert_eq!(Duration::from_ps(5).scale(0.5), Duration::from_ps(3));
    }

    #[test]
    #[should_panic(expected = "is out of the range of durations")]
    fn a_product_out_of_range_does_not_saturate() {
        let _ = Duration::from_us(10).scale(1e15);
    }

    /// Unchecked sums rely on this: the latest time of a run plus eight of the longest durations is in range.
    #[test]
    fn a_time_plus_several_durations_is_in_range() {
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
    fn a_flow_of_zero_bytes_is_one_packet() {
        assert_eq!(Bytes::new(0).pieces(Bytes::new(1460)), 1);
        assert_eq!(Bytes::new(1460).pieces(Bytes::new(1460)), 1);
        assert_eq!(Bytes::new(1461).pieces(Bytes::new(1460)), 2);
    }
}
