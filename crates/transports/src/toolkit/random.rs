//! Random choices of one node or port.

use flowloom_core::mix;

/// A random stream (SplitMix64), which starts from the seed of a [`Site`](flowloom_core::Site) or [`PortSite`](flowloom_core::PortSite).
#[derive(Clone, Debug)]
pub struct RandomStream(u64);

impl RandomStream {
    /// The stream of a seed.
    pub fn new(seed: u64) -> RandomStream {
        RandomStream(seed)
    }
    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        word
    }
    /// True or false with probability one half each.
    #[inline]
    pub fn coin(&mut self) -> bool {
        self.word() >> 63 == 1
    }
    /// Uniform in `0..n`, up to a bias of n / 2³².
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.word() >> 32) * u64::from(n)) >> 32) as u32
    }
    /// Uniform from -1 to below 1.
    #[inline]
    pub fn around_zero(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand draws: five standard deviations of a coin are 250, those of one of ten values 150. The mean of draws from -1 to 1 has a
    /// standard deviation of 1 / sqrt(30,000), and the mean of their squares one of sqrt(4 / 45) / 100.
    #[test]
    fn draws_are_even() {
        let mut random = RandomStream::new(1);
        let heads = (0..10_000).filter(|_| random.coin()).count();
        assert!(heads.abs_diff(5000) < 250, "{heads}");
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
        let draws: Vec<f64> = (0..10_000).map(|_| random.around_zero()).collect();
        let mean = |of: fn(f64) -> f64| draws.iter().map(|draw| of(*draw)).sum::<f64>() / 1e4;
        assert!(draws.iter().all(|draw| (-1.0..1.0).contains(draw)));
        assert!(mean(|draw| draw).abs() < 0.029 && (mean(|draw| draw * draw) - 1.0 / 3.0).abs() < 0.015);
    }
}
