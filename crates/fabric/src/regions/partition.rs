//! The division of a network into regions.

use flowloom_core::{LinkId, Network, NodeId, NodeKind};

use super::RegionId;

/// The region of each node.
pub(crate) struct Partition {
    regions: Vec<RegionId>,
    count: usize,
    cut: Vec<LinkId>,
}

impl Partition {
    /// Divides a network into `count` regions. A host is with its switch, so that only links between switches are cut, and those of the further NICs of hosts: a host is with
    /// the switch of its first NIC, or is dealt out as switches are if that is joined to another host. The switches at the same
    /// distance from hosts are dealt out in the order of their numbers, an equal share to each region: racks and pods stay together, and so do
    /// the switches above them.
    pub fn of(network: &Network, count: usize) -> Partition {
        let is_switch = |node: &NodeId| network.node(*node).kind == NodeKind::Switch;
        let distance = network.distances_to_any(network.node_ids().filter(|node| !is_switch(node)));
        let mut tiers: Vec<Vec<NodeId>> = Vec::new();
        // A switch that reaches no host forwards nothing.
        for switch in network.node_ids().filter(|node| is_switch(node) && distance[node.index()] < u32::MAX) {
            let tier = distance[switch.index()] as usize;
            tiers.resize_with(tiers.len().max(tier + 1), Vec::new);
            tiers[tier].push(switch);
        }
        let mut regions = vec![0; network.len()];
        for tier in tiers {
            for (place, switch) in tier.iter().enumerate() {
                regions[switch.index()] = (place * count / tier.len()) as RegionId;
            }
        }
        for node in network.node_ids().filter(|node| !is_switch(node)) {
            let host = network.host_of(node);
            let next = network.ports(host).first().map(|link| network.link(*link).to);
            regions[node.index()] = match next.filter(is_switch) {
                Some(switch) => regions[switch.index()],
                None => (host.index() * count / network.hosts().max(1)) as RegionId,
            };
        }
        let region = |node: NodeId| regions[node.index()];
        let links = (0..).map(LinkId).zip(network.links());
        let cut = links.filter(|(_, link)| region(link.from) != region(link.to)).map(|(id, _)| id).collect();
        Partition { regions, count, cut }
    }

    /// How many regions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The region of a node.
    pub fn region(&self, node: NodeId) -> RegionId {
        self.regions[node.index()]
    }

    /// The links from one region to another.
    pub fn cut(&self) -> &[LinkId] {
        &self.cut
    }
}
