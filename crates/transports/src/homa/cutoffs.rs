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

    /// The cutoffs between this many levels: each is the least size at which the levels so far carry their share of bytes.
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
                Assignment::Remaining => mean(low, high, [x.min(most), x.max(most), x + most], |size| {
                    (x.min(size) - (size - most).max(0.0)).max(0.0)
                }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(ranges: &[(u64, u64, f64)]) -> Vec<SizeShare> {
        ranges
            .iter()
            .map(|(low, high, share)| SizeShare { low: Bytes::new(*low), high: Bytes::new(*high), share: *share })
            .collect()
    }

    fn cutoffs(sizes: &[SizeShare], most: u64, assignment: Assignment, levels: u8) -> Vec<u64> {
        let blind = Blind::new(sizes, Bytes::new(most), assignment).expect("there are sizes");
        blind.cutoffs(levels).into_iter().map(Bytes::get).collect()
    }

    /// Sizes are uniform up to 10 kB, and all bytes are unscheduled. Messages of up to x bytes carry x² / 10 kB² of them: quarters end
    /// at 5 kB, 7.07 kB and 8.66 kB. Of a message, min(x, size) bytes have at most x left, x - x² / 20 kB in the mean, of 5 kB: half of
    /// them at 10 kB (1 - 1 / √2).
    #[test]
    fn uniform_sizes_by_hand() {
        let uniform = sizes(&[(0, 10_000, 3.0)]);
        assert_eq!(cutoffs(&uniform, 10_000, Assignment::Size, 4), [5000, 7072, 8661]);
        assert_eq!(cutoffs(&uniform, 10_000, Assignment::Remaining, 2), [2929]);
        assert!(cutoffs(&uniform, 10_000, Assignment::Size, 1).is_empty());
    }

    /// Half of the messages have 1 kB and half are uniform from 8 to 16 kB, of which 2 kB are unscheduled: these carry 1 of 1.5 kB in the
    /// mean. Thirds end at 1 kB and in the middle of the longer sizes. Of a longer message, from its size down to 2 kB less are left when an
    /// unscheduled byte is sent, 1 kB less in the mean. The sizes and the offsets are uniform, so half of these bytes have up to 11 kB left.
    #[test]
    fn blind_bytes_of_long_messages_have_much_left() {
        let two = sizes(&[(1000, 1000, 0.5), (8000, 16_000, 0.5)]);
        assert_eq!(cutoffs(&two, 2000, Assignment::Size, 3), [1000, 12_000]);
        assert_eq!(cutoffs(&two, 2000, Assignment::Remaining, 3), [1000, 11_000]);
    }

    /// Unscheduled are 1.5 kB of 6.5 kB in the mean: 1.85 of 8 levels. All or next to nothing leaves a level to the others.
    #[test]
    fn levels_are_shared_by_bytes() {
        let levels = |ranges: &[(u64, u64, f64)], all| {
            let sizes = sizes(ranges);
            Blind::new(&sizes, Bytes::new(2000), Assignment::Size).expect("there are sizes").levels(all)
        };
        let two = [(1000, 1000, 0.5), (8000, 16_000, 0.5)];
        assert_eq!([levels(&two, 8), levels(&two, 4), levels(&two, 1)], [2, 1, 1]);
        assert_eq!([levels(&[(1, 2000, 1.0)], 8), levels(&[(1_000_000, 1_000_000, 1.0)], 8)], [7, 1]);
    }

    #[test]
    fn no_bytes_have_no_cutoffs() {
        assert!(Blind::new(&[], Bytes::new(2000), Assignment::Size).is_none());
        assert!(Blind::new(&sizes(&[(0, 0, 1.0)]), Bytes::new(2000), Assignment::Size).is_none());
    }
}
