//! Random draws that are the same on every machine. They use integer operations, comparisons and exact divisions by powers of two,
//! and never the platform's mathematical library.

use flowloom_fabric::seed::{Purpose, stream_seed};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The place of a stream that belongs to no host in particular.
pub const NETWORK: u64 = u64::MAX;

/// The random numbers for one purpose at one place.
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream for `purpose` at `place`, a host's number or [`NETWORK`], in the run with this seed.
    pub fn new(seed: u64, purpose: Purpose, place: u64) -> Stream {
        Stream(Xoshiro256PlusPlus::seed_from_u64(stream_seed(seed, purpose, place)))
    }

    /// A number uniform in (0, 1], in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.0.next_u64() >> 11) + 1) as f64 * STEP
    }

    /// A whole number uniform in `0..n`. The bias is below n / 2^64.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// An exponential number with mean 1.
    ///
    /// Von Neumann's method: a run of falling uniforms that begins with x is of odd length with probability e^-x. It needs comparisons
    /// only. The last bit of a logarithm may differ between machines, and would change every arrival.
    pub fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.unit();
            let (mut last, mut length) = (first, 1);
            loop {
                let next = self.unit();
                if next >= last {
                    break;
                }
                last = next;
                length += 1;
            }
            if length % 2 == 1 {
                return whole + first;
            }
            whole += 1.0;
        }
    }

    /// An index drawn in proportion to weights, given their running sums.
    pub fn weighted(&mut self, running_sums: &[f64]) -> usize {
        let total = running_sums.last().expect("at least one weight");
        let target = self.unit() * total;
        running_sums.partition_point(|sum| *sum < target).min(running_sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(7, Purpose::Arrivals, 3)
    }

    /// The largest distance between an empirical and an exact distribution function.
    fn kolmogorov_smirnov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let n = sample.len() as f64;
        sample
            .iter()
            .enumerate()
            .map(|(i, x)| (cdf(*x) - i as f64 / n).abs().max((cdf(*x) - (i + 1) as f64 / n).abs()))
            .fold(0.0, f64::max)
    }

    #[test]
    fn exponential_has_its_distribution() {
        let mut stream = stream();
        let sample: Vec<f64> = (0..100_000).map(|_| stream.exponential()).collect();
        // 1.95 / sqrt(n): exceeded by one seed in a thousand.
        assert!(kolmogorov_smirnov(sample, |x| 1.0 - (-x).exp()) < 1.95 / 100_000f64.sqrt());
    }

    #[test]
    fn unit_is_uniform_and_never_zero() {
        let mut stream = stream();
        let sample: Vec<f64> = (0..100_000).map(|_| stream.unit()).collect();
        assert!(sample.iter().all(|u| *u > 0.0 && *u <= 1.0));
        assert!(kolmogorov_smirnov(sample, |x| x) < 1.95 / 100_000f64.sqrt());
    }

    #[test]
    fn below_reaches_every_value_equally_often() {
        let mut stream = stream();
        let mut counts = [0f64; 7];
        (0..70_000).for_each(|_| counts[stream.below(7)] += 1.0);
        // Chi squared with 6 degrees of freedom: 22.5 is exceeded once in a thousand.
        assert!(counts.iter().map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum::<f64>() < 22.5);
    }

    #[test]
    fn weights_are_proportions() {
        let mut stream = stream();
        let drawn = (0..30_000).filter(|_| stream.weighted(&[1.0, 3.0]) == 1).count() as f64;
        assert!((drawn - 20_000.0).abs() < 3.3 * (30_000.0f64 * 2.0 / 9.0).sqrt());
        assert!((0..1000).all(|_| stream.weighted(&[0.0, 1.0, 1.0]) == 1));
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_place() {
        let first = |seed, purpose, place| Stream::new(seed, purpose, place).unit();
        let base = first(1, Purpose::Arrivals, 0);
        assert_eq!(base, first(1, Purpose::Arrivals, 0));
        assert_ne!(base, first(2, Purpose::Arrivals, 0));
        assert_ne!(base, first(1, Purpose::Sizes, 0));
        assert_ne!(base, first(1, Purpose::Arrivals, 1));
    }
}
