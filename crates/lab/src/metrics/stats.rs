//! Means and percentiles.

use serde::Serialize;

/// The arithmetic mean, `None` of nothing. Rounding errors are carried along and put back at the end (Neumaier), so the order
/// of the values does not show in more than the last digit.
pub fn mean(values: &[f64]) -> Option<f64> {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    (!values.is_empty()).then(|| (sum + lost) / values.len() as f64)
}

/// The nearest-rank percentile of ascending values: the least value that at least `percent` % of the values do not exceed,
/// which is number ⌈percent × n / 100⌉ of n, counted from 1. It is always one of the values. `None` of nothing.
///
/// # Panics
/// Where `percent` is 0 or more than 100.
pub fn percentile(ascending: &[f64], percent: usize) -> Option<f64> {
    assert!((1..=100).contains(&percent), "a percentile is one of 1 to 100");
    let rank = (ascending.len() * percent).div_ceil(100);
    rank.checked_sub(1).map(|index| ascending[index])
}

/// How values are spread. All `None` of nothing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// [`mean`].
    pub mean: Option<f64>,
    /// The median, by [`percentile`].
    pub p50: Option<f64>,
    /// 95th [`percentile`].
    pub p95: Option<f64>,
    /// 99th [`percentile`].
    pub p99: Option<f64>,
}

impl Stats {
    /// Of values in any order; summed in ascending order, so that the order they came in cannot show at all.
    pub fn of(mut values: Vec<f64>) -> Stats {
        values.sort_by(f64::total_cmp);
        Stats { mean: mean(&values), p50: percentile(&values, 50), p95: percentile(&values, 95), p99: percentile(&values, 99) }
    }
}
