//! Routing: the next hop of each packet, also where packets of one flow are sprayed over several paths.

use flowloom_core::{FlowId, LinkId, NodeId, Paths, Rate, Routing, Way};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::seed::{Purpose, stream_seed};

/// The choice of every packet's next hop: the [`Paths`] of flows, and the state of spraying.
pub struct Routes {
    paths: Paths,
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
    /// The routes along these paths. The state of spraying begins as `seed` says.
    pub fn new(paths: Paths, seed: u64) -> Routes {
        let network = paths.network();
        Routes {
            counters: (0..network.links().len() + network.len())
                .map(|index| stream_seed(seed, Purpose::Spray, index as u64) as u32)
                .collect(),
            streams: network
                .node_ids()
                .map(|node| Xoshiro256PlusPlus::seed_from_u64(stream_seed(seed, Purpose::Spray, u64::from(node.0))))
                .collect(),
            paths,
        }
    }

    /// The part of the routes that never changes.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The rate at which switch `at` sends towards `to`.
    #[inline]
    pub fn rate(&self, at: NodeId, to: NodeId) -> Rate {
        self.paths.rate(at, to)
    }

    /// The link on which switch `at` sends a packet of `flow` from `src` to `dst`, which may have a path label.
    #[inline(always)]
    pub fn pick(&mut self, at: NodeId, origin: Origin, flow: FlowId, src: NodeId, dst: NodeId, label: Option<u16>) -> LinkId {
        let Routes { paths, counters, streams } = self;
        let group = match paths.way(at, dst) {
            Way::Only(link) => return link,
            Way::OneOf(group) => group,
        };
        // The compiler removes this where headers have no labels.
        if let Some(label) = label
            && paths.routing() == Routing::SprayLabelled
        {
            return paths.labelled(group, at, dst, label);
        }
        let choice = match paths.routing() {
            Routing::SprayRoundRobin => {
                let counter = match origin {
                    Origin::Link(link) => link.index(),
                    Origin::Local(node) => paths.network().links().len() + node.index(),
                };
                let turn = &mut counters[counter];
                *turn = turn.wrapping_add(1);
                *turn % group.count()
            }
            Routing::SprayRandom | Routing::SprayLabelled => {
                let word = u64::from(streams[at.index()].next_u32());
                ((word * u64::from(group.count())) >> 32) as u32
            }
            Routing::Ecmp => return paths.hashed(group, at, flow, src, dst),
            Routing::EcmpSymmetric => return paths.symmetric(at, flow, src, dst).expect("a packet is on its flow's path"),
        };
        group.links[choice as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use flowloom_core::topology;
    use flowloom_core::{Duration, Network, Switching};

    fn fat_tree() -> Arc<Network> {
        topology::fat_tree(4, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward).into()
    }

    fn routes(network: &Arc<Network>, routing: Routing, seed: u64) -> Routes {
        Routes::new(Paths::new(network.clone(), routing, seed), seed)
    }

    /// The links a packet crosses from `src` to `dst`.
    fn walk(routes: &mut Routes, network: &Network, flow: u32, src: NodeId, dst: NodeId) -> Vec<LinkId> {
        labelled(routes, network, flow, src, dst, None)
    }

    /// The links that it crosses with a path label.
    fn labelled(
        routes: &mut Routes,
        network: &Network,
        flow: u32,
        src: NodeId,
        dst: NodeId,
        label: Option<u16>,
    ) -> Vec<LinkId> {
        let mut path = vec![network.ports(src)[0]];
        loop {
            let last = *path.last().expect("not empty");
            let at = network.link(last).to;
            if at == dst {
                return path;
            }
            assert!(path.len() < 8, "a loop");
            path.push(routes.pick(at, Origin::Link(last), FlowId(flow), src, dst, label));
        }
    }

    #[test]
    fn every_mode_reaches_every_host_by_a_shortest_path() {
        let network = fat_tree();
        for routing in
            [Routing::SprayRandom, Routing::SprayLabelled, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric]
        {
            let mut routes = routes(&network, routing, 7);
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
        let mut routes = routes(&network, Routing::EcmpSymmetric, 7);
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
            let mut routes = routes(&network, routing, 1);
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
        let network: Arc<Network> =
            topology::leaf_spine(2, 2, 4, Rate::from_gbps(10), Rate::from_gbps(40), delay, Switching::StoreAndForward).into();
        let uplinks = |routing| {
            let mut routes = routes(&network, routing, 1);
            let mut used = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
            for packet in 0..400 {
                used[packet % 2].insert(walk(&mut routes, &network, packet as u32 % 2, NodeId(0), NodeId(3))[1]);
            }
            used.map(|links| links.len())
        };
        assert_eq!(uplinks(Routing::SprayRoundRobin), [2, 2]);
        assert_eq!(uplinks(Routing::SprayRandom), [4, 4]);
    }

    /// Labels choose under one routing only, and packets without a label are sprayed there.
    #[test]
    fn a_label_keeps_its_path_only_where_labels_choose() {
        let network = fat_tree();
        for (routing, label, expected) in
            [(Routing::SprayLabelled, Some(3), 1), (Routing::SprayLabelled, None, 4), (Routing::SprayRandom, Some(3), 4)]
        {
            let mut routes = routes(&network, routing, 1);
            let paths: std::collections::BTreeSet<_> =
                (0..400).map(|_| labelled(&mut routes, &network, 5, NodeId(0), NodeId(15), label)).collect();
            assert_eq!(paths.len(), expected, "{routing:?}, {label:?}");
        }
    }

    #[test]
    fn round_robin_is_even() {
        let network: Arc<Network> =
            topology::leaf_spine(2, 2, 4, Rate::from_gbps(10), Rate::from_gbps(40), Duration::ZERO, Switching::StoreAndForward)
                .into();
        let mut routes = routes(&network, Routing::SprayRoundRobin, 1);
        let mut counts = HashMap::new();
        for _ in 0..400 {
            *counts.entry(walk(&mut routes, &network, 5, NodeId(0), NodeId(3))[1]).or_insert(0) += 1;
        }
        assert_eq!(counts.into_values().collect::<Vec<_>>(), vec![100; 4]);
    }
}
