//! The division of a network into regions.

use std::collections::VecDeque;

use flowloom_core::{Network, NodeId, NodeKind};

use super::RegionId;

/// The region of each node.
pub(crate) struct Partition {
    regions: Vec<RegionId>,
    count: usize,
}

impl Partition {
    /// Divides a network into `count` regions. A host is with its switch, so that only links between switches are cut. The switches at the same distance from hosts are
    /// dealt out in the order of their numbers, an equal share to each region: racks and pods stay together, and so do the switches above them.
    pub fn of(network: &Network, count: usize) -> Partition {
        let mut distance = vec![u32::MAX; network.len()];
        let mut queue = VecDeque::new();
        for node in network.node_ids().filter(|node| network.node(*node).kind != NodeKind::Switch) {
            distance[node.index()] = 0;
            queue.push_back(node);
        }
        while let Some(node) = queue.pop_front() {
            for link in network.ports(node) {
                let next = network.link(*link).to;
                if distance[next.index()] == u32::MAX {
                    distance[next.index()] = distance[node.index()] + 1;
                    queue.push_back(next);
                }
            }
        }
        let mut regions = vec![0; network.len()];
        let tiers = distance.iter().filter(|distance| **distance < u32::MAX).max().copied().unwrap_or_default();
        for tier in 1..=tiers {
            let switches: Vec<NodeId> = network.node_ids().filter(|node| distance[node.index()] == tier).collect();
            for (place, switch) in switches.iter().enumerate() {
                regions[switch.index()] = (place * count / switches.len()) as RegionId;
            }
        }
        for host in network.node_ids().filter(|node| distance[node.index()] == 0) {
            if let Some(link) = network.ports(host).first() {
                regions[host.index()] = regions[network.link(*link).to.index()];
            }
        }
        Partition { regions, count }
    }

    /// How many regions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The region of a node.
    pub fn region(&self, node: NodeId) -> RegionId {
        self.regions[node.index()]
    }
}
