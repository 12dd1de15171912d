//! A distribution of flow sizes, with samples and exact means.

use flowloom_core::{Bytes, WireProfile};
use flowloom_transports::SizeShare;

/// The largest size that a distribution may have, in bytes. Sums over all sizes stay exact in 128 bits.
pub const BYTES_MAX: u64 = 1_000_000_000_000_000;

/// One row of a table: the share of flows that are at most this large.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Flow size, bytes.
    pub bytes: u64,
    /// Cumulative probability, 0 to 1.
    pub probability: f64,
}

/// A cumulative distribution of flow sizes, linear in bytes between its points. The probability of the first point, and a step between
/// two points of one size, is an atom. Sizes are rounded to whole bytes and are at least 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Cdf {
    points: Vec<Point>,
}

/// Why a table is no distribution.
#[derive(Clone, PartialEq, Debug)]
pub struct CdfError {
    /// The point at fault, counted from 0.
    pub point: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Cdf {
    /// The distribution through these points.
    ///
    /// # Errors
    /// If there is no point, a size or a probability falls, a probability is outside [0, 1], a size exceeds
    /// [`BYTES_MAX`], or the last probability is not 1.
    pub fn new(points: Vec<Point>) -> Result<Cdf, CdfError> {
        let fault = |point, message| Err(CdfError { point, message });
        for (index, point) in points.iter().enumerate() {
            let Point { bytes, probability } = *point;
            if !(0.0..=1.0).contains(&probability) {
                return fault(index, format!("the cumulative probability {probability} is outside 0 to 1"));
            }
            if bytes > BYTES_MAX {
                return fault(index, format!("a flow of {bytes} bytes is too large; the limit is {BYTES_MAX}"));
            }
            let Some(before) = index.checked_sub(1).map(|before| points[before]) else { continue };
            if bytes < before.bytes {
                return fault(index, format!("size {bytes} follows the larger {}; rows ascend", before.bytes));
            }
            if probability < before.probability {
                let earlier = before.probability;
                return fault(
                    index,
                    format!("the cumulative probability falls from {earlier} to {probability}; it must not fall"),
                );
            }
        }
        match points.last() {
            None => fault(0, "the table has no rows".to_owned()),
            Some(last) if last.probability != 1.0 => {
                fault(points.len() - 1, format!("the last cumulative probability is {}, not 1", last.probability))
            }
            Some(_) => Ok(Cdf { points }),
        }
    }

    /// Every flow has this size.
    pub fn fixed(bytes: u64) -> Cdf {
        Cdf { points: vec![Point { bytes, probability: 1.0 }] }
    }

    /// Sizes are uniform from `low` to `high`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn uniform(low: u64, high: u64) -> Cdf {
        assert!(low <= high);
        Cdf { points: vec![Point { bytes: low, probability: 0.0 }, Point { bytes: high, probability: 1.0 }] }
    }

    /// A flow has the size `small` with probability `small_share`, otherwise `large`.
    ///
    /// # Panics
    /// If `small > large` or the share is outside [0, 1].
    pub fn bimodal(small: u64, large: u64, small_share: f64) -> Cdf {
        assert!(small <= large);
        assert!((0.0..=1.0).contains(&small_share));
        let point = |bytes, probability| Point { bytes, probability };
        Cdf { points: vec![point(small, small_share), point(large, small_share), point(large, 1.0)] }
    }

    /// The points it goes through.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The size at quantile `u` in (0, 1].
    pub fn sample(&self, u: f64) -> Bytes {
        let index = self.points.partition_point(|point| point.probability < u).min(self.points.len() - 1);
        let here = self.points[index];
        let Some(before) = index.checked_sub(1).map(|before| self.points[before]) else {
            return Bytes::new(here.bytes.max(1));
        };
        let part = (u - before.probability) / (here.probability - before.probability);
        let bytes = before.bytes as f64 + part * (here.bytes - before.bytes) as f64;
        Bytes::new((bytes.round() as u64).max(1))
    }

    /// The share of flows of at most `bytes` bytes, before sizes are rounded to whole bytes.
    pub fn share_up_to(&self, bytes: f64) -> f64 {
        let index = self.points.partition_point(|point| point.bytes as f64 <= bytes);
        let Some(before) = index.checked_sub(1).map(|before| self.points[before]) else { return 0.0 };
        let Some(after) = self.points.get(index) else { return 1.0 };
        let part = (bytes - before.bytes as f64) / (after.bytes - before.bytes) as f64;
        before.probability + part * (after.probability - before.probability)
    }

    /// The same distribution as shares of flows: one for the first point, and one for each pair of points.
    pub(crate) fn size_shares(&self) -> Vec<SizeShare> {
        let at = |point: Point| Bytes::new(point.bytes.max(1));
        let first = self.points[0];
        let atom = SizeShare { low: at(first), high: at(first), share: first.probability };
        let ranges = self.points.windows(2).map(|pair| SizeShare {
            low: at(pair[0]),
            high: at(pair[1]),
            share: pair[1].probability - pair[0].probability,
        });
        std::iter::once(atom).chain(ranges).filter(|sizes| sizes.share > 0.0).collect()
    }

    /// The exact mean of the sizes that [`Cdf::sample`] returns, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.expectation(|bytes| bytes, |n| u128::from(n) * (u128::from(n) + 1) / 2)
    }

    /// The exact mean of [`WireProfile::flow_wire_bytes`] over the sizes that [`Cdf::sample`] returns: payload and headers of
    /// every data packet sent once.
    pub fn mean_wire_bytes(&self, wire: &WireProfile) -> f64 {
        self.expectation(|bytes| wire.flow_wire_bytes(Bytes::new(bytes)).get(), |n| wire_bytes_up_to(wire, n))
    }

    /// The mean of `value`, given `sum(n)` = `value(1)` + … + `value(n)`.
    ///
    /// Between two points the sizes are uniform before rounding, so after it every whole size strictly between them is
    /// equally likely and the two ends are half as likely.
    fn expectation(&self, value: impl Fn(u64) -> u64, sum: impl Fn(u64) -> u128) -> f64 {
        let at = |bytes: u64| value(bytes.max(1)) as f64;
        let first = self.points[0];
        let segments = self.points.windows(2).map(|pair| {
            let (low, high) = (pair[0].bytes, pair[1].bytes);
            let mean = if low == high {
                at(low)
            } else {
                let between = (sum(high - 1) - sum(low)) as f64;
                (0.5 * at(low) + between + 0.5 * at(high)) / (high - low) as f64
            };
            (pair[1].probability - pair[0].probability) * mean
        });
        first.probability * at(first.bytes) + segments.sum::<f64>()
    }
}

/// The wire bytes of one flow of each size from 1 to `n` bytes together.
fn wire_bytes_up_to(wire: &WireProfile, n: u64) -> u128 {
    let (payload, overhead, control) = (wire.payload().get(), wire.overhead.get(), wire.control.get());
    // A last packet of 1 to `rest` bytes of payload: the first few are padded to the least size of a packet.
    let last_packets = |rest: u64| -> u128 {
        let padded = rest.min(control.saturating_sub(overhead));
        let sum = |k: u64| u128::from(k) * u128::from(k + 1) / 2;
        u128::from(padded) * u128::from(control) + sum(rest) - sum(padded) + u128::from(rest - padded) * u128::from(overhead)
    };
    let (blocks, rest) = (u128::from(n / payload), n % payload);
    let full = u128::from(wire.full.get());
    // Block b holds the sizes that take b full packets and one more.
    let full_before_blocks = full * u128::from(payload) * (blocks * blocks.saturating_sub(1) / 2);
    full_before_blocks + blocks * last_packets(payload) + full * blocks * u128::from(rest) + last_packets(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use flowloom_fabric::seed::Purpose;
    use proptest::prelude::*;

    fn cdf(points: &[(u64, f64)]) -> Cdf {
        Cdf::new(points.iter().map(|(bytes, probability)| Point { bytes: *bytes, probability: *probability }).collect())
            .unwrap()
    }

    #[test]
    fn quantiles_by_hand() {
        let cdf = cdf(&[(10, 0.25), (20, 0.75), (20, 0.875), (100, 1.0)]);
        let sizes = [0.1, 0.25, 0.5, 0.75, 0.8, 0.875, 0.9375, 1.0].map(|u| cdf.sample(u).get());
        assert_eq!(sizes, [10, 10, 15, 20, 20, 20, 60, 100]);
        assert_eq!(Cdf::uniform(0, 100).sample(0.001).get(), 1, "a flow has at least a byte");
    }

    #[test]
    fn share_up_to_inverts_sample() {
        let cdf = cdf(&[(10, 0.25), (20, 0.75), (20, 0.875), (100, 1.0)]);
        assert_eq!(
            [9.0, 10.0, 15.0, 20.0, 60.0, 100.0, 1e9].map(|x| cdf.share_up_to(x)),
            [0.0, 0.25, 0.5, 0.875, 0.9375, 1.0, 1.0]
        );
    }

    #[test]
    fn bad_tables_say_which_row() {
        let fault = |points: &[(u64, f64)]| {
            Cdf::new(points.iter().map(|(bytes, probability)| Point { bytes: *bytes, probability: *probability }).collect())
                .unwrap_err()
        };
        assert_eq!(fault(&[(1, 0.5), (2, 0.4), (3, 1.0)]).point, 1);
        assert_eq!(fault(&[(1, 0.5), (3, 0.6), (2, 1.0)]).point, 2);
        assert_eq!(fault(&[(1, 0.5), (2, 0.9)]).point, 1);
        assert_eq!(fault(&[(1, -0.5), (2, 1.0)]).point, 0);
        assert_eq!(fault(&[(1, f64::NAN), (2, 1.0)]).point, 0);
        assert_eq!(fault(&[(BYTES_MAX + 1, 1.0)]).point, 0);
        assert_eq!(fault(&[]).point, 0);
    }

    /// The mean over all sizes, each weighted with the length of the quantile interval that maps to it.
    fn mean_by_enumeration(low: u64, high: u64, value: impl Fn(u64) -> u64) -> f64 {
        let width = (high - low) as f64;
        let weight = |k: u64| if k == low || k == high { 0.5 / width } else { 1.0 / width };
        (low..=high).map(|k| weight(k) * value(k.max(1)) as f64).sum()
    }

    proptest! {
        #[test]
        fn closed_forms_equal_enumeration(low in 0u64..9_000, width in 1u64..9_000) {
            let high = low + width;
            let uniform = Cdf::uniform(low, high);
            prop_assert!((uniform.mean_bytes() / mean_by_enumeration(low, high, |k| k) - 1.0).abs() < 1e-12);
            for wire in WireProfile::ALL {
                let expected = mean_by_enumeration(low, high, |k| wire.flow_wire_bytes(Bytes::new(k)).get());
                prop_assert!((uniform.mean_wire_bytes(&wire) / expected - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn sums_equal_enumeration(n in 0u64..20_000) {
            for wire in WireProfile::ALL {
                let expected: u128 = (1..=n).map(|k| u128::from(wire.flow_wire_bytes(Bytes::new(k)).get())).sum();
                prop_assert_eq!(wire_bytes_up_to(&wire, n), expected);
            }
        }
    }

    #[test]
    fn atoms_count_in_full() {
        let cdf = cdf(&[(1460, 0.5), (1460, 0.75), (2920, 0.75), (2920, 1.0)]);
        assert_eq!(cdf.mean_bytes(), 0.75 * 1460.0 + 0.25 * 2920.0);
        assert_eq!(cdf.mean_wire_bytes(&WireProfile::IP_1500), 0.75 * 1500.0 + 0.25 * 3000.0);
        // Three packets and seven hundred, 30 % short: the bimodal workload of the pHost paper, §4.3.
        assert!(
            (Cdf::bimodal(4380, 1_022_000, 0.3).mean_wire_bytes(&WireProfile::IP_1500) - (0.3 * 4500.0 + 0.7 * 1_050_000.0))
                .abs()
                < 1e-6
        );
        assert_eq!(Cdf::fixed(1).mean_wire_bytes(&WireProfile::ETHERNET_1538), 84.0);
    }

    #[test]
    fn the_sample_mean_approaches_the_mean() {
        let cdf = cdf(&[(0, 0.0), (2, 0.3), (50, 0.6), (50, 0.7), (900, 1.0)]);
        let mut stream = Stream::new(1, Purpose::Sizes, 0);
        let n = 200_000;
        let sample: Vec<f64> = (0..n).map(|_| cdf.sample(stream.unit()).get() as f64).collect();
        let mean = sample.iter().sum::<f64>() / f64::from(n);
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n - 1);
        // 3.3 standard errors: exceeded by one seed in a thousand.
        assert!((mean - cdf.mean_bytes()).abs() < 3.3 * (variance / f64::from(n)).sqrt());
    }
}
