//! Routing: shortest paths, and the choice among equal-cost next hops.

use std::collections::HashMap;

use flowloom_core::{LinkId, Network, NodeId, NodeKind, Rate};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::seed::{Purpose, mix, stream_seed};

/// How a switch chooses one of several equal-cost next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// For each packet independently and uniformly.
    SprayRandom,
    /// Round robin over packets, with one counter per ingress link that starts at a random value.
    SprayRoundRobin,
    /// By a hash of the flow, its direction and the switch.
    Ecmp,
    /// By a hash of the flow, so that both directions of a flow use the same links.
    EcmpSymmetric,
}

/// The next hop from a switch to one destination, in one word: either the only link, or the number of a group of links. So most look-ups
/// are one memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NextHop(u32);

impl NextHop {
    const NONE: NextHop = NextHop(u32::MAX);
    const GROUP: u32 = 1 << 31;

    #[inline]
    fn single_link(self) -> Option<LinkId> {
        (self.0 & NextHop::GROUP == 0).then_some(LinkId(self.0))
    }
}

#[derive(Clone, Copy)]
struct Group {
    /// The index of its first link in `candidates`.
    first: u32,
    count: u32,
    /// The rate of the fastest link of the group.
    rate: Rate,
}

/// The routing tables of all switches, and the choice among equal-cost next hops.
pub struct Routes {
    routing: Routing,
    seed: u64,
    /// The next hop by (switch, destination). The entries of a switch begin at its index in `rows`.
    table: Vec<NextHop>,
    rows: Vec<u32>,
    groups: Vec<Group>,
    candidates: Vec<LinkId>,
    /// The counters of round robin: one per ingress link, and one per node for packets created there.
    counters: Vec<u32>,
    /// The random streams of spraying, one per node.
    streams: Vec<Xoshiro256PlusPlus>,
}

/// Where a switch got a packet from.
#[derive(Clone, Copy)]
pub enum Origin {
    /// It arrived over this link.
    Link(LinkId),
    /// It was created at this node, the switch itself.
    Local(NodeId),
}

impl Routes {
    /// The routing tables of a network for which [`Network::check`] has succeeded.
    pub fn new(network: &Network, routing: Routing, seed: u64) -> Routes {
        let nodes = network.len();
        let mut rows = vec![u32::MAX; nodes];
        for (row, switch) in network.switches().enumerate() {
            rows[switch.index()] = (row * nodes) as u32;
        }
        let switches = network.switches().count();
        let mut routes = Routes {
            routing,
            seed,
            table: vec![NextHop::NONE; switches * nodes],
            rows,
            groups: Vec::new(),
            candidates: Vec::new(),
            counters: (0..network.links().len() + nodes)
                .map(|index| stream_seed(seed, Purpose::Spray, index as u64) as u32)
                .collect(),
            streams: network
                .node_ids()
                .map(|node| Xoshiro256PlusPlus::seed_from_u64(stream_seed(seed, Purpose::Spray, u64::from(node.0))))
                .collect(),
        };
        routes.fill(network);
        routes
    }

    /// Whether packets of one flow may take different paths.
    pub fn reorders(&self) -> bool {
        matches!(self.routing, Routing::SprayRandom | Routing::SprayRoundRobin) && !self.groups.is_empty()
    }

    fn fill(&mut self, network: &Network) {
        let mut known: HashMap<Vec<LinkId>, NextHop> = HashMap::new();
        for target in network.node_ids() {
            let distance = network.distances(target);
            for switch in network.switches().filter(|switch| *switch != target) {
                let nearer = |link: &&LinkId| {
                    let to = network.link(**link).to;
                    let forwards = to == target || network.node(to).kind == NodeKind::Switch;
                    forwards && distance[to.index()] < distance[switch.index()]
                };
                let choice: Vec<LinkId> = network.ports(switch).iter().filter(nearer).copied().collect();
                let next_hop = *known.entry(choice).or_insert_with_key(|choice| match choice.as_slice() {
                    [] => NextHop::NONE,
                    [single_link] => NextHop(single_link.0),
                    several => self.add_group(network, several),
                });
                let row = self.rows[switch.index()] as usize;
                self.table[row + target.index()] = next_hop;
            }
        }
    }

    fn add_group(&mut self, network: &Network, links: &[LinkId]) -> NextHop {
        let rate = links.iter().map(|link| network.link(*link).rate).max().unwrap_or_default();
        self.groups.push(Group { first: self.candidates.len() as u32, count: links.len() as u32, rate });
        self.candidates.extend(links);
        NextHop(NextHop::GROUP | (self.groups.len() as u32 - 1))
    }

    #[inline]
    fn next_hop(&self, at: NodeId, to: NodeId) -> NextHop {
        self.table[self.rows[at.index()] as usize + to.index()]
    }

    #[inline]
    fn group(&self, next_hop: NextHop) -> Group {
        self.groups[(next_hop.0 ^ NextHop::GROUP) as usize]
    }

    /// The rate at which switch `at` sends towards `to`.
    pub fn rate(&self, network: &Network, at: NodeId, to: NodeId) -> Rate {
        let next_hop = self.next_hop(at, to);
        next_hop.single_link().map_or_else(|| self.group(next_hop).rate, |link| network.link(link).rate)
    }

    /// The link on which switch `at` sends a packet of `flow` from `src` to `dst`.
    #[inline(always)]
    pub fn pick(&mut self, network: &Network, at: NodeId, origin: Origin, flow: u32, src: NodeId, dst: NodeId) -> LinkId {
        let next_hop = self.next_hop(at, dst);
        if let Some(link) = next_hop.single_link() {
            return link;
        }
        let group = self.group(next_hop);
        let choice = match self.routing {
            Routing::SprayRoundRobin => {
                let counter = match origin {
                    Origin::Link(link) => link.index(),
                    Origin::Local(node) => network.links().len() + node.index(),
                };
                let turn = &mut self.counters[counter];
                *turn = turn.wrapping_add(1);
                *turn % group.count
            }
            Routing::SprayRandom => {
                let word = u64::from(self.streams[at.index()].next_u32());
                ((word * u64::from(group.count)) >> 32) as u32
            }
            Routing::Ecmp => self.hash(at, flow, src, dst) % group.count,
            Routing::EcmpSymmetric => return self.symmetric(network, at, flow, src, dst),
        };
        self.candidates[(group.first + choice) as usize]
    }

    fn hash(&self, at: NodeId, flow: u32, src: NodeId, dst: NodeId) -> u32 {
        let ends = (u64::from(src.0) << 32) | u64::from(dst.0);
        (mix(mix(ends ^ self.seed) ^ ((u64::from(at.0) << 32) | u64::from(flow))) >> 32) as u32
    }

    /// Both directions follow the path that starts at the lower-numbered end of the flow and is chosen hop by hop. The opposite direction
    /// finds its next hop by following that path from its start. This needs no state, works on any topology, and takes at most as many
    /// steps as the path has links.
    fn symmetric(&self, network: &Network, at: NodeId, flow: u32, src: NodeId, dst: NodeId) -> LinkId {
        let (low, high) = (src.min(dst), src.max(dst));
        let step = |node: NodeId| -> LinkId {
            if network.node(node).kind != NodeKind::Switch {
                return network.ports(node)[0];
            }
            let next_hop = self.next_hop(node, high);
            if let Some(link) = next_hop.single_link() {
                return link;
            }
            let group = self.group(next_hop);
            self.candidates[(group.first + self.hash(node, flow, low, high) % group.count) as usize]
        };
        if src == low {
            return step(at);
        }
        let mut link = step(low);
        while network.link(link).to != at {
            link = step(network.link(link).to);
        }
        link.reverse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::topology;
    use flowloom_core::{Duration, Switching};

    fn fat_tree() -> Network {
        topology::fat_tree(4, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward)
    }

    /// The links a packet crosses from `src` to `dst`.
    fn walk(routes: &mut Routes, network: &Network, flow: u32, src: NodeId, dst: NodeId) -> Vec<LinkId> {
        let mut path = vec![network.ports(src)[0]];
        loop {
            let last = *path.last().expect("not empty");
            let at = network.link(last).to;
            if at == dst {
                return path;
            }
            assert!(path.len() < 8, "a loop");
            path.push(routes.pick(network, at, Origin::Link(last), flow, src, dst));
        }
    }

    #[test]
    fn every_mode_reaches_every_host_by_a_shortest_path() {
        let network = fat_tree();
        for routing in [Routing::SprayRandom, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric] {
            let mut routes = Routes::new(&network, routing, 7);
            for src in 0..16 {
                for dst in (0..16).filter(|dst| *dst != src) {
                    let (src, dst) = (NodeId(src), NodeId(dst));
                    let path = walk(&mut routes, &network, 3, src, dst);
                    assert_eq!(path.len(), network.path(src, dst).len());
                }
            }
        }
    }

    #[test]
    fn symmetric_routing_shares_every_link_and_uses_many_paths() {
        let network = fat_tree();
        let mut routes = Routes::new(&network, Routing::EcmpSymmetric, 7);
        let mut used = std::collections::BTreeSet::new();
        for flow in 0..64 {
            let (a, b) = (NodeId(1), NodeId(14));
            let forth = walk(&mut routes, &network, flow, a, b);
            let back: Vec<LinkId> = walk(&mut routes, &network, flow, b, a).into_iter().rev().map(LinkId::reverse).collect();
            assert_eq!(forth, back);
            used.insert(forth);
        }
        assert_eq!(used.len(), 4, "all four paths between pods carry some of 64 flows");
    }

    #[test]
    fn ecmp_keeps_a_flow_on_one_path_and_spraying_spreads_it() {
        let network = fat_tree();
        let paths = |routing| {
            let mut routes = Routes::new(&network, routing, 1);
            let paths: std::collections::BTreeSet<_> =
                (0..400).map(|_| walk(&mut routes, &network, 5, NodeId(0), NodeId(15))).collect();
            paths.len()
        };
        assert_eq!(paths(Routing::Ecmp), 1);
        assert_eq!(paths(Routing::SprayRandom), 4);
        assert_eq!(paths(Routing::SprayRoundRobin), 4);
    }

    /// If two kinds of packets alternate on one ingress link, such as a busy host's data and acknowledgements, each kind uses
    /// single_link every other uplink: round robin is even over all packets, not over each kind. If the hosts of a rack are in step by
    /// chance, two of its four uplinks are overloaded with data.
    #[test]
    fn packets_that_alternate_use_every_other_uplink_under_round_robin() {
        let delay = Duration::ZERO;
        let network =
            topology::leaf_spine(2, 2, 4, Rate::from_gbps(10), Rate::from_gbps(40), delay, Switching::StoreAndForward);
        let uplinks = |routing| {
            let mut routes = Routes::new(&network, routing, 1);
            let mut used = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
            for packet in 0..400 {
                used[packet % 2].insert(walk(&mut routes, &network, packet as u32 % 2, NodeId(0), NodeId(3))[1]);
            }
            used.map(|links| links.len())
        };
        assert_eq!(uplinks(Routing::SprayRoundRobin), [2, 2]);
        assert_eq!(uplinks(Routing::SprayRandom), [4, 4]);
    }

    #[test]
    fn round_robin_is_even() {
        let network =
            topology::leaf_spine(2, 2, 4, Rate::from_gbps(10), Rate::from_gbps(40), Duration::ZERO, Switching::StoreAndForward);
        let mut routes = Routes::new(&network, Routing::SprayRoundRobin, 1);
        let mut counts = HashMap::new();
        for _ in 0..400 {
            *counts.entry(walk(&mut routes, &network, 5, NodeId(0), NodeId(3))[1]).or_insert(0) += 1;
        }
        assert_eq!(counts.into_values().collect::<Vec<_>>(), vec![100; 4]);
    }
}
