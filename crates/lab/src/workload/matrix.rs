//! Who sends to whom.

use std::ops::Range;

use flowloom_core::{Network, NodeId};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::{NETWORK, Stream};

/// A traffic matrix: which host sends to which.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatrixKind {
    /// Every host offers load in proportion to the rate of its links; each flow goes to any other host with equal probability.
    #[default]
    AllToAll,
    /// Every ordered pair of hosts is equally likely. The same as `all_to_all` where all hosts' links are alike.
    RandomPairs,
    /// Every host sends all its flows to one partner of its own.
    Permutation,
    /// Hosts of the first half send to hosts of the second half (the PASE paper's left-right).
    LeftRight,
    /// Each host of the first half sends to one host of the second half: the first to the first, the second to the second, and so on.
    LeftRightPairs,
    /// Hosts of either half send to hosts of the other (the TOP paper's dumbbell).
    Across,
    /// All hosts send to host 0 (the rack of the PIAS paper's testbed).
    ManyToOne,
    /// Every ordered pair of hosts whose sender has the smaller number is equally likely (one tenant of the PIAS paper's heterogeneous
    /// traffic).
    Upward,
    /// Every ordered pair of hosts whose sender has the larger number is equally likely (the other tenant).
    Downward,
}

impl MatrixKind {
    /// Every kind.
    pub const ALL: [MatrixKind; 9] = [
        MatrixKind::AllToAll,
        MatrixKind::RandomPairs,
        MatrixKind::Permutation,
        MatrixKind::LeftRight,
        MatrixKind::LeftRightPairs,
        MatrixKind::Across,
        MatrixKind::ManyToOne,
        MatrixKind::Upward,
        MatrixKind::Downward,
    ];
}

/// A traffic matrix: each host's share of all traffic, and the hosts among which it chooses destinations uniformly.
pub struct Matrix {
    /// Each host's share of all traffic. The shares add up to 1.
    weights: Vec<f64>,
    /// For each host, the hosts it sends to. The host itself does not count.
    targets: Vec<Range<u32>>,
}

impl Matrix {
    /// The matrix of this kind over the hosts of `network`, which has at least two.
    pub fn new(kind: MatrixKind, network: &Network, seed: u64) -> Matrix {
        let hosts = network.hosts() as u32;
        let half = hosts / 2;
        let partners = if kind == MatrixKind::Permutation { partners(hosts, seed) } else { Vec::new() };
        let targets = |host: u32| match kind {
            MatrixKind::AllToAll | MatrixKind::RandomPairs => 0..hosts,
            MatrixKind::Permutation => partners[host as usize]..partners[host as usize] + 1,
            MatrixKind::LeftRight if host < half => half..hosts,
            MatrixKind::LeftRightPairs if host < half => half + host..half + host + 1,
            MatrixKind::LeftRight | MatrixKind::LeftRightPairs => 0..0,
            MatrixKind::Across if host < half => half..hosts,
            MatrixKind::Across => 0..half,
            MatrixKind::ManyToOne => 0..1,
            MatrixKind::Upward => host + 1..hosts,
            MatrixKind::Downward => 0..host,
        };
        let mut matrix = Matrix { weights: vec![0.0; hosts as usize], targets: (0..hosts).map(targets).collect() };
        for (host, bps) in (0..hosts).zip(network.host_bps()) {
            matrix.weights[host as usize] = match kind {
                _ if matrix.target_count(host) == 0 => 0.0,
                MatrixKind::RandomPairs => 1.0,
                MatrixKind::Upward | MatrixKind::Downward => matrix.target_count(host) as f64,
                _ => bps as f64,
            };
        }
        let total: f64 = matrix.weights.iter().sum();
        matrix.weights.iter_mut().for_each(|weight| *weight /= total);
        matrix
    }

    /// All hosts but one send equally to that one.
    pub fn to_one(receiver: NodeId, network: &Network) -> Matrix {
        let hosts = network.hosts() as u32;
        let weight = |host| if host == receiver.0 { 0.0 } else { 1.0 / f64::from(hosts - 1) };
        let targets = vec![receiver.0..receiver.0 + 1; hosts as usize];
        Matrix { weights: (0..hosts).map(weight).collect(), targets }
    }

    /// Each host's share of all traffic that is sent. The shares add up to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Each host's share of all traffic that is received.
    pub fn received(&self) -> Vec<f64> {
        // Each source adds the same to a range of hosts: add where it begins, take away where it ends, and sum up.
        let mut steps = vec![0.0; self.weights.len() + 1];
        let mut own = vec![0.0; self.weights.len()];
        for (host, range) in (0u32..).zip(&self.targets).filter(|(host, _)| self.target_count(*host) > 0) {
            let share = self.weights[host as usize] / self.target_count(host) as f64;
            steps[range.start as usize] += share;
            steps[range.end as usize] -= share;
            own[host as usize] = if range.contains(&host) { share } else { 0.0 };
        }
        let mut sum = 0.0;
        let received = steps.iter().zip(own).map(|(step, own)| {
            sum += step;
            sum - own
        });
        received.collect()
    }

    /// How many hosts `host` sends to.
    fn target_count(&self, host: u32) -> usize {
        let range = &self.targets[host as usize];
        range.len() - usize::from(range.contains(&host))
    }

    /// The share of all traffic that goes from one host to another.
    pub fn pair_share(&self, src: u32, dst: u32) -> f64 {
        if src == dst || !self.targets[src as usize].contains(&dst) {
            return 0.0;
        }
        self.weights[src as usize] / self.target_count(src) as f64
    }

    /// A destination for a flow from `src`.
    ///
    /// # Panics
    /// If `src` sends to nobody.
    pub fn destination(&self, src: u32, stream: &mut Stream) -> NodeId {
        let range = &self.targets[src as usize];
        let chosen = range.start + stream.below(self.target_count(src)) as u32;
        // Everything from the source on moves up by one, to leave it out.
        NodeId(if range.contains(&src) && chosen >= src { chosen + 1 } else { chosen })
    }
}

/// The partner that each host sends to. Partners form a uniformly random cycle through all hosts (Sattolo's algorithm), so that no host is
/// its own partner and nothing needs to be drawn twice.
pub fn partners(hosts: u32, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed, Purpose::Destinations, NETWORK);
    let mut partner: Vec<u32> = (0..hosts).collect();
    for last in (1..partner.len()).rev() {
        partner.swap(last, stream.below(last));
    }
    partner
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::topology::single_switch;
    use flowloom_core::{Duration, Rate, Switching};
    use proptest::prelude::*;

    fn network(hosts: usize) -> Network {
        single_switch(hosts, Rate::from_gbps(10), Duration::ZERO, Switching::StoreAndForward)
    }

    proptest! {
        #[test]
        fn partners_are_a_permutation_without_fixed_points(hosts in 2u32..200, seed in any::<u64>()) {
            let mut partner = partners(hosts, seed);
            prop_assert!(partner.iter().enumerate().all(|(host, other)| host as u32 != *other));
            partner.sort_unstable();
            prop_assert_eq!(partner, (0..hosts).collect::<Vec<u32>>());
        }

        #[test]
        fn pair_shares_add_up_and_nobody_sends_to_itself(hosts in 2usize..40, kind in 0..MatrixKind::ALL.len(), seed in any::<u64>()) {
            let matrix = Matrix::new(MatrixKind::ALL[kind], &network(hosts), seed);
            let hosts = hosts as u32;
            let total: f64 = (0..hosts).flat_map(|src| (0..hosts).map(move |dst| (src, dst))).map(|(src, dst)| matrix.pair_share(src, dst)).sum();
            prop_assert!((total - 1.0).abs() < 1e-9);
            let mut stream = Stream::new(seed, Purpose::Destinations, 0);
            for src in (0..hosts).filter(|src| matrix.weights()[*src as usize] > 0.0) {
                let dst = matrix.destination(src, &mut stream).0;
                prop_assert!(matrix.pair_share(src, dst) > 0.0);
            }
        }
    }

    /// Six of the twelve ordered pairs of four hosts each way, and all twelve alike when the two are mixed in halves.
    #[test]
    fn upward_and_downward_share_the_pairs() {
        let network = network(4);
        let [up, down] = [MatrixKind::Upward, MatrixKind::Downward].map(|kind| Matrix::new(kind, &network, 1));
        for (src, dst) in (0..4).flat_map(|src| (0..4).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst) {
            let expected = if src < dst { [1.0 / 6.0, 0.0] } else { [0.0, 1.0 / 6.0] };
            let found = [up.pair_share(src, dst), down.pair_share(src, dst)];
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{src} to {dst}: {found:?}");
        }
    }

    #[test]
    fn destinations_are_uniform() {
        let matrix = Matrix::new(MatrixKind::AllToAll, &network(8), 1);
        let mut stream = Stream::new(1, Purpose::Destinations, 3);
        let mut counts = [0f64; 8];
        (0..70_000).for_each(|_| counts[matrix.destination(3, &mut stream).index()] += 1.0);
        assert_eq!(counts[3], 0.0);
        // Chi squared with 6 degrees of freedom: 22.5 is exceeded once in a thousand.
        assert!(counts.iter().filter(|n| **n > 0.0).map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum::<f64>() < 22.5);
    }

    /// Of a random cycle through n hosts, each of the n - 1 others is equally likely to be host 0's partner.
    #[test]
    fn partners_are_uniform() {
        let mut counts = [0f64; 5];
        (0..40_000).for_each(|seed| counts[partners(5, seed)[0] as usize] += 1.0);
        assert_eq!(counts[0], 0.0);
        // Chi squared with 3 degrees of freedom: 16.3 is exceeded once in a thousand.
        assert!(counts[1..].iter().map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum::<f64>() < 16.3);
    }
}
