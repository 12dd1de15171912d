//! How the unscheduled levels follow from the sizes of messages (§3.4).

use flowloom_core::Bytes;

use super::config::Assignment;
use crate::SizeShare;

/// The blind part of all messages: the first bytes of each, which are sent before any grant.
pub(super) struct Blind<'a> {
    sizes: &'a [SizeShare],
    /// The most that a message has of them.
    most: f64,
    assignment: Assignment,
    largest: u64,
}

impl<'a> Blind<'a> {
    /// `None` if there are no bytes.
    pub fn new(sizes: &'a [SizeShare], most: Bytes, assignment: Assignment) -> Option<Blind<'a>> {
        let largest = sizes.iter().map(|sizes| sizes.high.get()).max().filter(|largest| *largest > 0)?;
        Some(Blind { sizes, most: most.get() as f64, assignment, largest })
    }

    /// The share of unscheduled bytes in all bytes decides how many of the levels are theirs; either kind has one at least.
    pub fn levels(&self, all: u8) -> u8 {
        let bytes = |sizes: &SizeShare| sizes.share * mean(sizes.low.get() as f64, sizes.high.get() as f64, [], |size| size);
        let share = self.up_to(self.largest) / self.sizes.iter().map(bytes).sum::<f64>();
        ((share * f64::from(all)).round() as u8).clamp(1, (all - 1).max(1))
    }

    /// The cutoffs between this many levels: each is the least size up to which the levels so far carry their part of the bytes.
    pub fn cutoffs(&self, levels: u8) -> Vec<Bytes> {
        let total = self.up_to(self.largest);
        let least = |wanted: f64| {
            let (mut below, mut enough) = (0, self.largest);
            while enough - below > 1 {
                let middle = below + (enough - below) / 2;
                if self.up_to(middle) < wanted { below = middle } else { enough = middle }
            }
            Bytes::new(enough)
        };
        (1..levels).map(|level| least(total * f64::from(level) / f64::from(levels))).collect()
    }

    /// Unscheduled bytes per message, in expectation, that a cutoff at `x` assigns to the levels above it.
    fn up_to(&self, x: u64) -> f64 {
        let (x, most) = (x as f64, self.most);
        let of = |sizes: &SizeShare| {
            let (low, high) = (sizes.low.get() as f64, sizes.high.get() as f64);
            match self.assignment {
                Assignment::Size if low > x => 0.0,
                Assignment::Size => {
                    let part = if high <= x { 1.0 } else { (x - low) / (high - low) };
                    part * mean(low, high.min(x), [most], |size| size.min(most))
                }
                // Of a message's bytes, the unscheduled ones have between `size - most` and `size` bytes left.
                Assignment::Remaining => {
                    mean(low, high, [x.min(most), x.max(most), x + most], |size| (x.min(size) - (size - most).max(0.0)).max(0.0))
                }
            }
        };
        self.sizes.iter().map(|sizes| sizes.share * of(sizes)).sum()
    }
}

/// The mean of a function over a range; the function is linear between the breaks, which ascend.
fn mean<const N: usize>(low: f64, high: f64, breaks: [f64; N], value: impl Fn(f64) -> f64) -> f64 {
    if low >= high {
        return value(low);
    }
    let (mut from, mut area) = (low, 0.0);
    for to in breaks.into_iter().filter(|at| (low..high).contains(at)).chain([high]) {
        area += (value(from) + value(to)) / 2.0 * (to - from);
        from = to;
    }
    area / (high - low)
}
