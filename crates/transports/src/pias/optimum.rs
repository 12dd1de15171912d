//! Thresholds for a histogram of sizes: the objective of §III-C, minimised exactly over the histogram's edges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sizes::{BINS, Sizes, edge};

/// The readings of the paper's objective, which is ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// A flow is delayed once by each queue that it reaches.
    Exact,
    /// Each of its packets is delayed by the queue that it passes, one after the other.
    PerPacket,
}

/// The bins whose edges are the best thresholds for at most `queues` queues, ascending, at a load from 0 to below 1. The list is empty
/// if the histogram is. It has fewer than `queues - 1` entries if a further threshold would not help.
///
/// With strict priority, the delays telescope: queue i serves its λᵢ with a mean delay of 1/(1 - λ₁ - … - λᵢ). So the objective is a
/// sum over queues of a cost that depends only on where the queue begins and ends, and the best division of the edges is a shortest
/// path. No search finds a better one on this grid.
pub fn thresholds(sizes: &Sizes, load: f64, queues: usize, reading: Reading) -> Vec<u8> {
    let Some(curve) = Curve::new(sizes, load) else { return Vec::new() };
    // best[b]: the least cost below edge b with the queues so far; from[q][b]: the edge at which the last of these queues begins.
    let mut best: Vec<f64> = (0..=BINS).map(|end| curve.cost(0, end, reading)).collect();
    let mut from = vec![vec![0; BINS + 1]];
    for _ in 1..queues {
        let (mut next, mut begin) = (best.clone(), vec![usize::MAX; BINS + 1]);
        for end in 1..=BINS {
            for (start, before) in best.iter().enumerate().take(end).skip(1) {
                let cost = before + curve.cost(start, end, reading);
                if cost < next[end] {
                    (next[end], begin[end]) = (cost, start);
                }
            }
        }
        best = next;
        from.push(begin);
    }
    let (mut edges, mut end) = (Vec::new(), BINS);
    for begin in from[1..].iter().rev() {
        if begin[end] != usize::MAX {
            end = begin[end];
            edges.push(end as u8 - 1);
        }
    }
    edges.reverse();
    edges
}

/// The distribution of sizes at 0 and at every edge.
struct Curve {
    /// The share of flows that are larger.
    larger: Vec<f64>,
    /// The load of the bytes that flows send up to there.
    load: Vec<f64>,
}

impl Curve {
    fn new(sizes: &Sizes, load: f64) -> Option<Curve> {
        let flows: f64 = sizes.counts().map(|(_, count)| count).sum();
        let mean = sizes.bytes() / flows;
        let mut count = [0.0; BINS];
        sizes.counts().for_each(|(bin, flows)| count[bin] = flows);
        let (mut larger, mut brought, mut before) = (vec![1.0], vec![0.0], 0.0);
        for (bin, count) in count.into_iter().enumerate() {
            let (tail, up_to) = (larger[bin], edge(bin) as f64);
            brought.push(brought[bin] + load * tail * (up_to - before) / mean);
            larger.push((tail - count / flows).max(0.0));
            before = up_to;
        }
        (flows > 0.0).then_some(Curve { larger, load: brought })
    }

    /// The cost of a queue that begins at edge `start` and ends at edge `end`. Edges are counted from 1; 0 stands for no bytes.
    fn cost(&self, start: usize, end: usize, reading: Reading) -> f64 {
        let delay = 1.0 / (1.0 - self.load[end]);
        match reading {
            Reading::Exact => self.larger[start] * delay,
            Reading::PerPacket => (self.load[end] - self.load[start]) * delay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If each flow is delayed once by each queue, two sizes are divided at the smaller one, and a single size is not divided at all.
    #[test]
    fn two_sizes_are_divided_at_the_smaller() {
        let mut sizes = Sizes::default();
        sizes.add(0, 90.0);
        sizes.add(120, 10.0);
        assert_eq!(thresholds(&sizes, 0.8, 2, Reading::Exact), [0]);
        assert!(thresholds(&sizes, 0.8, 1, Reading::Exact).is_empty());
        // One size: dividing only adds the second queue's delay.
        let mut one = Sizes::default();
        one.add(60, 5.0);
        assert!(thresholds(&one, 0.8, 8, Reading::Exact).is_empty());
        assert!(thresholds(&Sizes::default(), 0.8, 8, Reading::PerPacket).is_empty());
    }

    /// If each packet is delayed by its queue, only the load that each queue gets matters: the derivative of
    /// x/(1 - x) + (y - x)/(1 - y) + … is zero where what is left idle falls by the same factor from queue to queue.
    #[test]
    fn delays_per_packet_make_idle_shares_a_geometric_series() {
        let mut sizes = Sizes::default();
        (0..200).for_each(|bin| sizes.add(bin, 0.97_f64.powi(bin as i32)));
        let curve = Curve::new(&sizes, 0.8).unwrap();
        let found = thresholds(&sizes, 0.8, 4, Reading::PerPacket);
        assert_eq!(found.len(), 3);
        for (queue, bin) in (1..).zip(found) {
            let (idle, expected) = (1.0 - curve.load[usize::from(bin) + 1], 0.2_f64.powf(f64::from(queue) / 4.0));
            assert!((idle / expected - 1.0).abs() < 0.03, "queue {queue}: {idle} {expected}");
        }
    }

    /// Against every way to set one or two thresholds.
    #[test]
    fn no_choice_of_edges_is_better() {
        let mut sizes = Sizes::default();
        for (bin, count) in [(0, 50.0), (7, 10.0), (30, 8.0), (55, 4.0), (80, 3.0), (110, 2.0), (150, 1.0), (180, 0.3)] {
            sizes.add(bin, count);
        }
        for reading in [Reading::Exact, Reading::PerPacket] {
            for load in [0.3, 0.8] {
                let curve = Curve::new(&sizes, load).unwrap();
                let cost = |edges: &[usize]| -> f64 {
                    let ends = edges.iter().copied().chain([BINS]);
                    let starts = [0].into_iter().chain(edges.iter().copied());
                    starts.zip(ends).map(|(start, end)| curve.cost(start, end, reading)).sum()
                };
                let found: Vec<usize> = thresholds(&sizes, load, 3, reading).iter().map(|bin| usize::from(*bin) + 1).collect();
                let pairs = (1..BINS).flat_map(|a| (a + 1..BINS).map(move |b| vec![a, b]));
                let all = pairs.chain((1..BINS).map(|a| vec![a])).chain([vec![]]);
                let least = all.map(|edges| cost(&edges)).fold(f64::INFINITY, f64::min);
                assert!(cost(&found) <= least * (1.0 + 1e-12), "{found:?}: {} against {least}", cost(&found));
            }
        }
    }
}
