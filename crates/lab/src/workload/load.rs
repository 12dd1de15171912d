//! What a load means: how much traffic there is in all if the busiest link of a class is this busy.

use flowloom_core::{LinkId, Network, NodeId, NodeKind, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Nics;
use super::matrix::Matrix;
use crate::ScenarioError;

/// Which links a load is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadLink {
    /// The hosts' links.
    #[default]
    Host,
    /// The links between switches.
    Core,
    /// All hosts' links together: the load is what hosts send over what their links carry. Where some hosts get more traffic than others, their links can be busier, and even overloaded.
    Network,
}

/// Wire bytes per second of all flows together, such that the expected utilisation of the busiest link, or of all hosts' links together, is `load`.
/// `traffic` lists the matrices, each with the share of the bytes that follows it.
///
/// # Errors
/// If no link of the class carries traffic.
pub fn total_bytes_per_second(
    load: f64,
    class: LoadLink,
    network: &Network,
    nics: Option<&Nics>,
    traffic: &[(&Matrix, f64)],
) -> Result<f64, ScenarioError> {
    let busiest = match class {
        LoadLink::Host => busiest_host(network, nics, traffic),
        LoadLink::Core => busiest_core(network, nics, traffic),
        LoadLink::Network => 1.0 / network.nic_ids().map(|nic| bytes_per_second(network.nic_rate(nic))).sum::<f64>(),
    };
    if busiest == 0.0 {
        return Err(ScenarioError::at_key(
            "workload.load_link",
            "no link between switches carries any of this traffic; give \"host\"",
        ));
    }
    Ok(load / busiest)
}

/// The utilisation of the busiest host link, per byte per second of all traffic together.
fn busiest_host(network: &Network, nics: Option<&Nics>, traffic: &[(&Matrix, f64)]) -> f64 {
    let [sent, received] = match nics {
        None => [
            sum_of(traffic, network.hosts(), |matrix| matrix.weights().to_vec()),
            sum_of(traffic, network.hosts(), Matrix::received),
        ],
        Some(nics) => {
            let mut ends = [vec![0.0; network.nics()], vec![0.0; network.nics()]];
            for (matrix, weight) in traffic {
                nics.each_share(matrix, |src, dst, share| {
                    ends[0][src.index()] += weight * share;
                    ends[1][dst.index()] += weight * share;
                });
            }
            ends
        }
    };
    let ends = sent.into_iter().zip(received);
    let rates = (0u32..).map(|nic| network.nic_rate(NodeId(nic)));
    ends.zip(rates).map(|((sent, received), rate)| sent.max(received) / bytes_per_second(rate)).fold(0.0, f64::max)
}

/// The same for links between switches.
fn busiest_core(network: &Network, nics: Option<&Nics>, traffic: &[(&Matrix, f64)]) -> f64 {
    let is_switch = |node: NodeId| network.node(node).kind == NodeKind::Switch;
    let links = network.links().iter().zip(sum_of(traffic, network.links().len(), |matrix| link_shares(network, nics, matrix)));
    let core = links.filter(|(link, _)| is_switch(link.from) && is_switch(link.to));
    core.map(|(link, share)| share / bytes_per_second(link.rate)).fold(0.0, f64::max)
}

/// The sum of what `of` gives for each matrix, weighted by the matrices' shares.
fn sum_of(traffic: &[(&Matrix, f64)], len: usize, of: impl Fn(&Matrix) -> Vec<f64>) -> Vec<f64> {
    let mut sum = vec![0.0; len];
    for (matrix, share) in traffic {
        sum.iter_mut().zip(of(matrix)).for_each(|(sum, one)| *sum += share * one);
    }
    sum
}

fn bytes_per_second(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

/// The share of all traffic that crosses each directed link. Each switch splits traffic evenly among the next hops on shortest paths.
pub fn link_shares(network: &Network, nics: Option<&Nics>, matrix: &Matrix) -> Vec<f64> {
    let mut shares = vec![0.0; network.links().len()];
    let hosts = network.hosts() as u32;
    let mut at_node = vec![0.0; network.len()];
    let mut send = |target: NodeId, sent: &mut dyn FnMut(&mut [f64])| {
        at_node.fill(0.0);
        sent(&mut at_node);
        if at_node.iter().any(|share| *share > 0.0) {
            spread(network, target, &mut at_node, &mut shares);
        }
    };
    match nics {
        None => {
            for target in 0..hosts {
                send(NodeId(target), &mut |at_node| {
                    (0..hosts).for_each(|src| at_node[src as usize] = matrix.pair_share(src, target));
                });
            }
        }
        Some(nics) => {
            let mut to = vec![Vec::new(); network.nics()];
            nics.each_share(matrix, |src, dst, share| to[dst.index()].push((src, share)));
            for (target, from) in (0..).map(NodeId).zip(to) {
                send(target, &mut |at_node| from.iter().for_each(|(src, share)| at_node[src.index()] += share));
            }
        }
    }
    shares
}

/// Moves the traffic at each node on towards `target`, farthest nodes first, and adds it to the links that it crosses.
fn spread(network: &Network, target: NodeId, at_node: &mut [f64], shares: &mut [f64]) {
    let distance = network.distances(target);
    let mut order: Vec<NodeId> = network.node_ids().filter(|node| distance[node.index()] != u32::MAX).collect();
    order.sort_by_key(|node| std::cmp::Reverse(distance[node.index()]));
    for node in order {
        let here = at_node[node.index()];
        if here == 0.0 || node == target {
            continue;
        }
        let nearer = |link: &&LinkId| {
            let to = network.link(**link).to;
            let forwards = to == target || network.node(to).kind == NodeKind::Switch;
            forwards && distance[to.index()] < distance[node.index()]
        };
        let ways = network.ports(node).iter().filter(nearer).count() as f64;
        for link in network.ports(node).iter().filter(nearer) {
            shares[link.index()] += here / ways;
            at_node[network.link(*link).to.index()] += here / ways;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::MatrixKind;
    use flowloom_core::topology;
    use flowloom_core::{Duration, Switching};

    const SF: Switching = Switching::StoreAndForward;
    const D: Duration = Duration::ZERO;

    fn rate(load: f64, class: LoadLink, network: &Network, kind: MatrixKind) -> f64 {
        total_bytes_per_second(load, class, network, None, &[(&Matrix::new(kind, network, 1), 1.0)]).unwrap()
    }
    fn gbps(n: u64) -> Rate {
        Rate::from_gbps(n)
    }

    /// 144 hosts of 10 Gb/s at 0.6 send 0.6 × 144 × 1.25 GB/s.
    #[test]
    fn the_load_of_hosts_is_that_of_each() {
        let network = topology::leaf_spine(9, 16, 4, gbps(10), gbps(40), D, SF);
        for kind in [MatrixKind::AllToAll, MatrixKind::RandomPairs, MatrixKind::Permutation, MatrixKind::Across] {
            assert!((rate(0.6, LoadLink::Host, &network, kind) / (0.6 * 144.0 * 1.25e9) - 1.0).abs() < 1e-9);
        }
        assert!((rate(0.6, LoadLink::Host, &network, MatrixKind::LeftRight) / (0.6 * 72.0 * 1.25e9) - 1.0).abs() < 1e-9);
        assert!((rate(0.6, LoadLink::Host, &network, MatrixKind::ManyToOne) / (0.6 * 1.25e9) - 1.0).abs() < 1e-9);
    }

    /// Half of what 144 hosts can send, wherever it goes: with all of it to one host, that is 72 times what the host's link carries.
    #[test]
    fn the_load_of_the_network_is_that_of_all_hosts() {
        let network = topology::leaf_spine(9, 16, 4, gbps(10), gbps(40), D, SF);
        for kind in [MatrixKind::AllToAll, MatrixKind::LeftRight, MatrixKind::ManyToOne] {
            assert!((rate(0.5, LoadLink::Network, &network, kind) / (0.5 * 144.0 * 1.25e9) - 1.0).abs() < 1e-9);
        }
    }

    /// A leaf's four 40 Gb/s uplinks carry what its 16 hosts send to the 128 of 143 others outside the rack.
    #[test]
    fn the_load_of_the_core_counts_what_crosses_it() {
        let network = topology::leaf_spine(9, 16, 4, gbps(10), gbps(40), D, SF);
        let per_leaf = 0.8 * 4.0 * 5e9;
        let expected = per_leaf * 9.0 * 143.0 / 128.0;
        assert!((rate(0.8, LoadLink::Core, &network, MatrixKind::AllToAll) / expected - 1.0).abs() < 1e-9);
    }

    /// Of 144 hosts, the first sends 143 of all 144 × 143 / 2 pairs' traffic, and the last receives as much. Both ways in equal shares,
    /// hosts are alike again.
    #[test]
    fn the_load_of_several_matrices_is_that_of_their_sum() {
        let network = topology::leaf_spine(9, 16, 4, gbps(10), gbps(40), D, SF);
        for kind in [MatrixKind::Upward, MatrixKind::Downward] {
            assert!((rate(0.6, LoadLink::Host, &network, kind) / (0.6 * 72.0 * 1.25e9) - 1.0).abs() < 1e-9);
        }
        let [up, down] = [MatrixKind::Upward, MatrixKind::Downward].map(|kind| Matrix::new(kind, &network, 1));
        let total = |class, shares: [f64; 2]| {
            total_bytes_per_second(0.6, class, &network, None, &[(&up, shares[0]), (&down, shares[1])]).unwrap()
        };
        assert!((total(LoadLink::Host, [0.5, 0.5]) / (0.6 * 144.0 * 1.25e9) - 1.0).abs() < 1e-9);
        let all = rate(0.6, LoadLink::Core, &network, MatrixKind::AllToAll);
        assert!((total(LoadLink::Core, [0.5, 0.5]) / all - 1.0).abs() < 1e-9);
        // Three quarters upward: the first host sends 0.75 of 143 / (144 × 143 / 2), and no host more.
        assert!((total(LoadLink::Host, [0.75, 0.25]) / (0.6 * 72.0 * 1.25e9 / 0.75) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_dumbbell_crossed_both_ways_and_a_tree_crossed_one_way() {
        let dumbbell = topology::dumbbell(40, gbps(10), gbps(100), D, SF);
        assert!((rate(0.6, LoadLink::Core, &dumbbell, MatrixKind::Across) / (2.0 * 0.6 * 12.5e9) - 1.0).abs() < 1e-9);
        // The PASE paper's tree: the one aggregation-core link of the left half carries everything.
        let tree = topology::three_tier(4, 40, 2, gbps(1), gbps(10), gbps(10), D, SF);
        assert!((rate(0.7, LoadLink::Core, &tree, MatrixKind::LeftRight) / (0.7 * 1.25e9) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_single_switch_has_no_core() {
        let network = topology::single_switch(4, gbps(10), D, SF);
        let matrix = Matrix::new(MatrixKind::AllToAll, &network, 1);
        assert!(total_bytes_per_second(0.5, LoadLink::Core, &network, None, &[(&matrix, 1.0)]).is_err());
    }

    #[test]
    fn shares_of_host_links_are_what_hosts_send_and_receive() {
        let network = topology::three_tier(4, 3, 2, gbps(1), gbps(10), gbps(10), D, SF);
        for kind in MatrixKind::ALL {
            let matrix = Matrix::new(kind, &network, 3);
            let shares = link_shares(&network, None, &matrix);
            for (host, received) in (0u32..).zip(matrix.received()) {
                let up = network.ports(NodeId(host))[0];
                assert!((shares[up.index()] - matrix.weights()[host as usize]).abs() < 1e-12);
                assert!((shares[up.reverse().index()] - received).abs() < 1e-12);
            }
        }
    }

    /// Whatever leaves the hosts arrives at hosts, and what enters a switch leaves it.
    #[test]
    fn shares_are_conserved_at_every_switch() {
        let network = topology::fat_tree(4, gbps(10), D, SF);
        let shares = link_shares(&network, None, &Matrix::new(MatrixKind::AllToAll, &network, 1));
        for switch in network.switches() {
            let out: f64 = network.ports(switch).iter().map(|link| shares[link.index()]).sum();
            let into: f64 = network.ports(switch).iter().map(|link| shares[link.reverse().index()]).sum();
            assert!(out > 0.0);
            assert!((out - into).abs() < 1e-12);
        }
    }
}
