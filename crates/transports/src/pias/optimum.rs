//! Thresholds for a histogram of sizes: a queueing model's delay, minimised exactly over the histogram's edges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sizes::{BINS, Sizes, edge};

/// What the delay of a flow consists of: a queueing model of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The objective of §III-C, which is ambiguous: a flow is delayed once by each queue that it reaches.
    Exact,
    /// The same, but each of a flow's packets is delayed by the queue that it passes, one after the other.
    PerPacket,
    /// Not the paper's: the packets of a flow arrive together, and wait for each other and for those of other flows. The mean slowdown is
    /// minimised.
    Bursts,
}

/// What thresholds are to minimise, and on which link.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// The model.
    pub reading: Reading,
    /// The load of the link, from 0 to below 1.
    pub load: f64,
    /// What the link carries in the time that an empty flow takes in the idle network, in bytes. Only slowdowns depend on it.
    pub idle: f64,
}

/// The bins whose edges are the best thresholds for at most `queues` queues, ascending. The list is empty if the histogram is. It has
/// fewer than `queues - 1` entries if a further threshold would not help.
///
/// With strict priority, only higher queues delay a queue, so each objective is a sum over queues of a cost that depends only on where the
/// queue begins and ends. The best division of the edges is therefore a shortest path. No search finds a better one on this grid.
pub fn thresholds(sizes: &Sizes, queues: usize, objective: Objective) -> Vec<u8> {
    let Some(curve) = Curve::new(sizes, objective) else { return Vec::new() };
    // best[b]: the least cost below edge b with the queues so far; from[q][b]: the edge at which the last of these queues begins.
    let mut best: Vec<f64> = (0..=BINS).map(|end| curve.cost(0, end)).collect();
    let mut from = vec![vec![0; BINS + 1]];
    for _ in 1..queues {
        let (mut next, mut begin) = (best.clone(), vec![usize::MAX; BINS + 1]);
        for end in 1..=BINS {
            for (start, before) in best.iter().enumerate().take(end).skip(1) {
                let cost = before + curve.cost(start, end);
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

/// The mean slowdown that the model of bursts has with thresholds at the edges of these bins, ascending. It is 1 for an empty histogram.
pub fn slowdown(sizes: &Sizes, bins: impl IntoIterator<Item = u8>, load: f64, idle: f64) -> f64 {
    let Some(curve) = Curve::new(sizes, Objective { reading: Reading::Bursts, load, idle }) else { return 1.0 };
    let (mut start, mut waited) = (0, 0.0);
    for end in bins.into_iter().map(|bin| usize::from(bin) + 1).chain([BINS]) {
        if end > start {
            waited += curve.cost(start, end);
            start = end;
        }
    }
    waited + idle * curve.per_time[BINS]
}

/// The distribution of sizes at 0 and at every edge.
struct Curve {
    objective: Objective,
    /// The share of flows that are larger.
    larger: Vec<f64>,
    /// The load of the bytes that flows send up to there.
    load: Vec<f64>,
    /// The mean number of these bytes that are left to send when a flow arrives, if they are sent first, times 1 minus their load.
    residue: Vec<f64>,
    /// The sum of 1/(x + idle) over the flows that are no larger, per flow, for flows of x bytes.
    per_time: Vec<f64>,
    /// The sum of x/(x + idle) over the same flows.
    own: Vec<f64>,
}

impl Curve {
    fn new(sizes: &Sizes, objective: Objective) -> Option<Curve> {
        let Objective { load, idle, .. } = objective;
        let flows: f64 = sizes.counts().map(|(_, count)| count).sum();
        let mean = sizes.bytes() / flows;
        let mut count = [0.0; BINS];
        sizes.counts().for_each(|(bin, flows)| count[bin] = flows);
        let (mut larger, mut brought, mut before) = (vec![1.0], vec![0.0], 0.0);
        let (mut residue, mut per_time, mut own) = (vec![0.0], vec![0.0], vec![0.0]);
        for (bin, count) in count.into_iter().enumerate() {
            let (tail, up_to) = (larger[bin], edge(bin) as f64);
            let arrivals = load * tail * (up_to - before) / mean;
            brought.push(brought[bin] + arrivals);
            // Half of the second moment of what flows send up to here: the integral of y (1 - F(y)).
            residue.push(residue[bin] + arrivals * (up_to + before) / 2.0);
            let share = count / flows;
            per_time.push(per_time[bin] + share / (up_to + idle));
            own.push(own[bin] + share * up_to / (up_to + idle));
            larger.push((tail - share).max(0.0));
            before = up_to;
        }
        (flows > 0.0).then_some(Curve { objective, larger, load: brought, residue, per_time, own })
    }

    /// The cost of a queue that begins at edge `start` and ends at edge `end`. Edges are counted from 1; 0 stands for no bytes.
    ///
    /// With strict priority, the paper's delays telescope: queue i serves its λᵢ with a mean delay of 1/(1 - λ₁ - … - λᵢ). For bursts, the
    /// queue is one of Kleinrock's multilevel queues (Queueing Systems II, §4.7), first come, first served. A flow of x bytes that ends in
    /// it waits for all bytes up to `end` that are there, and sends its own, while bytes up to `start` that arrive meanwhile go first:
    /// (W + x) / (1 - load up to `start`), where W = residue / (1 - load up to `end`).
    fn cost(&self, start: usize, end: usize) -> f64 {
        let left = 1.0 - self.load[end];
        match self.objective.reading {
            Reading::Exact => self.larger[start] * (1.0 / left),
            Reading::PerPacket => (self.load[end] - self.load[start]) * (1.0 / left),
            Reading::Bursts => {
                let (flows, own) = (self.per_time[end] - self.per_time[start], self.own[end] - self.own[start]);
                (flows * self.residue[end] / left + own) / (1.0 - self.load[start])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(load: f64, reading: Reading) -> Objective {
        Objective { reading, load, idle: 5000.0 }
    }

    /// If each flow is delayed once by each queue, two sizes are divided at the smaller one, and a single size is not divided at all.
    #[test]
    fn two_sizes_are_divided_at_the_smaller() {
        let mut sizes = Sizes::default();
        sizes.add(0, 90.0);
        sizes.add(120, 10.0);
        assert_eq!(thresholds(&sizes, 2, at(0.8, Reading::Exact)), [0]);
        assert!(thresholds(&sizes, 1, at(0.8, Reading::Exact)).is_empty());
        // One size: dividing only adds the second queue's delay.
        let mut one = Sizes::default();
        one.add(60, 5.0);
        assert!(thresholds(&one, 8, at(0.8, Reading::Exact)).is_empty());
        assert!(thresholds(&Sizes::default(), 8, at(0.8, Reading::PerPacket)).is_empty());
    }

    /// If each packet is delayed by its queue, only the load that each queue gets matters: the derivative of
    /// x/(1 - x) + (y - x)/(1 - y) + … is zero where what is left idle falls by the same factor from queue to queue.
    #[test]
    fn delays_per_packet_make_idle_shares_a_geometric_series() {
        let mut sizes = Sizes::default();
        (0..200).for_each(|bin| sizes.add(bin, 0.97_f64.powi(bin as i32)));
        let curve = Curve::new(&sizes, at(0.8, Reading::PerPacket)).unwrap();
        let found = thresholds(&sizes, 4, at(0.8, Reading::PerPacket));
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
        for reading in [Reading::Exact, Reading::PerPacket, Reading::Bursts] {
            for load in [0.3, 0.8] {
                let curve = Curve::new(&sizes, at(load, reading)).unwrap();
                let cost = |edges: &[usize]| -> f64 {
                    let ends = edges.iter().copied().chain([BINS]);
                    let starts = [0].into_iter().chain(edges.iter().copied());
                    starts.zip(ends).map(|(start, end)| curve.cost(start, end)).sum()
                };
                let found: Vec<usize> =
                    thresholds(&sizes, 3, at(load, reading)).iter().map(|bin| usize::from(*bin) + 1).collect();
                let pairs = (1..BINS).flat_map(|a| (a + 1..BINS).map(move |b| vec![a, b]));
                let all = pairs.chain((1..BINS).map(|a| vec![a])).chain([vec![]]);
                let least = all.map(|edges| cost(&edges)).fold(f64::INFINITY, f64::min);
                assert!(cost(&found) <= least * (1.0 + 1e-12), "{found:?}: {} against {least}", cost(&found));
            }
        }
    }

    /// Nine of ten flows have one packet, one is longer. With one queue, all flows wait for what is left of all others (Pollaczek and
    /// Khinchine). With two, the short ones wait for first packets only, and the others also wait for first packets that arrive meanwhile.
    #[test]
    fn bursts_by_hand() {
        let (small, large, load, idle) = (1460.0, edge(46) as f64, 0.5, 1000.0);
        let mut sizes = Sizes::default();
        sizes.add(0, 0.9);
        sizes.add(46, 0.1);
        let mean = 0.9 * small + 0.1 * large;
        let first = load * small / mean;
        let all = load / mean * (0.9 * small * small + 0.1 * large * large) / 2.0 / (1.0 - load);
        let top = load / mean * small * small / 2.0 / (1.0 - first);
        let one = 0.9 * (all + small + idle) / (small + idle) + 0.1 * (all + large + idle) / (large + idle);
        let two = 0.9 * (top + small + idle) / (small + idle) + 0.1 * ((all + large) / (1.0 - first) + idle) / (large + idle);
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        near(slowdown(&sizes, [], load, idle), one);
        near(slowdown(&sizes, [0], load, idle), two);
        near(slowdown(&sizes, [0, 0, 46, 239], load, idle), two);
        assert_eq!(thresholds(&sizes, 2, Objective { reading: Reading::Bursts, load, idle }), [0]);
        assert_eq!(slowdown(&Sizes::default(), [3], load, idle), 1.0);
    }
}
