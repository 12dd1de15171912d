//! Means and percentiles.

use serde::Serialize;

/// The arithmetic mean; `None` if there is no value. The sum is compensated (Neumaier), so the order of the values changes the last
/// digit at most.
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
/// which is number ⌈percent × n / 100⌉ of n, counted from 1. It is always one of the values. `None` if there is no value.
///
/// # Panics
/// If `percent` is 0 or more than 100.
pub fn percentile(ascending: &[f64], percent: usize) -> Option<f64> {
    assert!((1..=100).contains(&percent), "a percentile is one of 1 to 100");
    let rank = (ascending.len() * percent).div_ceil(100);
    rank.checked_sub(1).map(|index| ascending[index])
}

/// Statistics of some values. All are `None` if there is no value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stats {
    /// The [`mean`].
    pub mean: Option<f64>,
    /// The median, by [`percentile`].
    pub p50: Option<f64>,
    /// The 95th [`percentile`].
    pub p95: Option<f64>,
    /// The 99th [`percentile`].
    pub p99: Option<f64>,
}

impl Stats {
    /// The statistics of values in any order. They are summed in ascending order, so the order they came in does not matter at all.
    pub fn of(mut values: Vec<f64>) -> Stats {
        values.sort_by(f64::total_cmp);
        Stats { mean: mean(&values), p50: percentile(&values, 50), p95: percentile(&values, 95), p99: percentile(&values, 99) }
    }
}
