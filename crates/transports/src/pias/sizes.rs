//! Histograms of flow sizes, as hosts report them or as a workload has them.

use crate::SizeShare;

/// Bins of a histogram of sizes.
pub const BINS: usize = 240;
/// Bins from a size to its double.
const PER_OCTAVE: f64 = 12.0;
/// Where the first bin ends, in bytes: about a packet.
const FIRST: f64 = 1460.0;

/// The upper edge of a bin, in bytes; bin i holds sizes above edge i - 1. There are twelve bins to an octave, from 1460 B to 1.4 GB;
/// the last one holds all larger sizes.
pub fn edge(bin: usize) -> u64 {
    // libm's power is the same on every machine.
    (FIRST * libm::exp2(bin as f64 / PER_OCTAVE)).round() as u64
}

/// A histogram of sizes. Counts are numbers of flows, which smoothing makes fractional.
#[derive(Clone, Debug)]
pub struct Sizes {
    edges: Vec<u64>,
    counts: Vec<f64>,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { edges: (0..BINS).map(edge).collect(), counts: vec![0.0; BINS] }
    }
}

impl Sizes {
    /// The sizes of a workload. Those between two bounds are spread evenly over the bins between them.
    pub fn of(shares: &[SizeShare]) -> Sizes {
        let mut sizes = Sizes::default();
        for share in shares {
            let (low, high) = (share.low.get(), share.high.get());
            let (first, last) = (sizes.bin(low), sizes.bin(high));
            let mut from = low;
            for bin in first..=last {
                // The last bin has no upper edge.
                let to = if bin == last { high } else { sizes.edges[bin] };
                let part = if low == high { 1.0 } else { (to - from) as f64 / (high - low) as f64 };
                sizes.add(bin, share.share * part);
                from = to;
            }
        }
        sizes
    }
    /// The bin of a size in bytes.
    pub fn bin(&self, size: u64) -> usize {
        self.edges.partition_point(|edge| *edge < size).min(BINS - 1)
    }
    /// Counts flows into a bin.
    pub fn add(&mut self, bin: usize, flows: f64) {
        self.counts[bin] += flows;
    }
    /// The bins that are not empty, and their counts.
    pub fn counts(&self) -> impl Iterator<Item = (usize, f64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0.0)
    }
    /// Bytes of all flows. Each flow is taken to be as large as its bin allows.
    pub fn bytes(&self) -> f64 {
        self.counts().map(|(bin, count)| count * self.edges[bin] as f64).sum()
    }
    /// Multiplies all counts.
    pub fn scale(&mut self, factor: f64) {
        self.counts.iter_mut().for_each(|count| *count *= factor);
    }
    /// Adds another histogram, and empties that one.
    pub fn take_in(&mut self, other: &mut Sizes) {
        for (count, more) in self.counts.iter_mut().zip(&mut other.counts) {
            *count += std::mem::take(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::Bytes;

    use super::*;

    #[test]
    fn a_size_is_in_the_first_bin_that_reaches_it() {
        let sizes = Sizes::default();
        for (size, bin) in [(0, 0), (1, 0), (1460, 0), (1461, 1), (2920, 12), (2921, 13), (1460 << 10, 120), (u64::MAX, 239)] {
            assert_eq!(sizes.bin(size), bin, "{size}");
        }
        assert!(sizes.edges.is_sorted_by(|a, b| a < b));
        assert_eq!(edge(BINS - 1), 1_444_996_969);
    }

    /// From 1000 B to 3000 B, 23 % are at most 1460 B, 73 % lie above, up to 2920 B, and 4 % in the bin after that.
    #[test]
    fn a_workload_is_spread_over_the_bins() {
        let share = |low, high, share| SizeShare { low: Bytes::new(low), high: Bytes::new(high), share };
        let sizes = Sizes::of(&[share(1000, 3000, 2.0), share(5000, 5000, 1.0), share(1 << 40, 1 << 41, 0.5)]);
        let counts: Vec<_> = sizes.counts().collect();
        assert_eq!(counts[0], (0, 0.46));
        let sum = |bins: std::ops::Range<usize>| -> f64 {
            counts.iter().filter(|(bin, _)| bins.contains(bin)).map(|(_, count)| count).sum()
        };
        assert!((sum(1..13) - 1.46).abs() < 1e-12 && (sum(13..14) - 0.08).abs() < 1e-12, "{counts:?}");
        assert_eq!(counts[14..], [(sizes.bin(5000), 1.0), (BINS - 1, 0.5)]);
    }

    #[test]
    fn histograms_add_up() {
        let (mut one, mut other) = (Sizes::default(), Sizes::default());
        one.add(0, 3.0);
        other.add(0, 1.0);
        other.add(12, 2.0);
        one.scale(0.5);
        one.take_in(&mut other);
        assert_eq!(one.counts().collect::<Vec<_>>(), [(0, 2.5), (12, 2.0)]);
        assert_eq!(other.counts().count(), 0);
        assert!((one.bytes() - (2.5 * 1460.0 + 2.0 * 2920.0)).abs() < 1e-9);
    }
}
