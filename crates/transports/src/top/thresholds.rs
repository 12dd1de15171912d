//! Thresholds that split a workload's bytes equally among the queues of tokens (§3.2).

use flowloom_core::{Bytes, WireProfile};

use super::config::Priority;
use crate::SizeShare;

/// The sizes of a workload's flows, and what a priority counts.
pub(super) struct Split<'a> {
    sizes: &'a [SizeShare],
    wire: &'a WireProfile,
    /// Whether a flow has one priority from its first packet to its last. If not, it passes through those below its size.
    whole: bool,
}

impl<'a> Split<'a> {
    pub fn new(sizes: &'a [SizeShare], wire: &'a WireProfile, priority: Priority) -> Split<'a> {
        Split { sizes, wire, whole: priority == Priority::Size }
    }

    /// The largest size of each of `levels` priorities but the last, ascending. Priorities that would have no bytes are left out.
    pub fn cutoffs(&self, levels: u8) -> Vec<Bytes> {
        let mut packets = self.few_sizes(levels).unwrap_or_else(|| self.equal(levels));
        packets.dedup();
        packets.into_iter().map(|packets| self.wire.payload() * packets).collect()
    }

    /// The cutoffs if there are no more sizes than priorities. Each size has a priority of its own then, whatever its share of the bytes.
    fn few_sizes(&self, levels: u8) -> Option<Vec<u64>> {
        if !self.whole || self.sizes.iter().any(|size| size.low < size.high) {
            return None;
        }
        let mut packets: Vec<u64> = self.sizes.iter().map(|size| self.wire.packets(size.high)).collect();
        packets.sort_unstable();
        packets.dedup();
        (packets.len() <= usize::from(levels)).then(|| {
            packets.pop();
            packets
        })
    }

    /// The number of packets below which the share of all bytes is nearest to each multiple of `1 / levels`.
    fn equal(&self, levels: u8) -> Vec<u64> {
        let largest = self.sizes.iter().map(|size| self.wire.packets(size.high)).max().unwrap_or(0);
        let all = self.bytes_within(largest);
        let nearest = |index: u8| {
            let target = all * f64::from(index) / f64::from(levels);
            let (mut low, mut high) = (0, largest);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.bytes_within(middle) >= target { high = middle } else { low = middle }
            }
            let low_is_nearer = low > 0 && target - self.bytes_within(low) < self.bytes_within(high) - target;
            if low_is_nearer { low } else { high }
        };
        (1..levels).map(nearest).collect()
    }

    /// The mean number of bytes of a flow that have the priority of at most this many packets, times the sum of all shares.
    fn bytes_within(&self, packets: u64) -> f64 {
        let most = (self.wire.payload() * packets).get() as f64;
        let of = |size: &SizeShare| {
            let [low, high] = [size.low, size.high].map(|size| size.get() as f64);
            // Sizes up to `most` are a part of those of this share, and they have a mean.
            let part = if high <= most { 1.0 } else { ((most - low) / (high - low)).max(0.0) };
            let below = part * f64::midpoint(low, high.min(most.max(low)));
            let above = if self.whole { 0.0 } else { (1.0 - part) * most };
            size.share * (below + above)
        };
        self.sizes.iter().map(of).sum()
    }
}
