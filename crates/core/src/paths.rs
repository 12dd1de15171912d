//! The paths that packets take: routing tables, and the choice among equal-cost next hops where it follows from the flow alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{FlowId, LinkId, Network, NodeId, NodeKind, Rate, mix};

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
    /// By the packet's path label ([`Wire::path_label`](crate::Wire::path_label)), which its sender chose. Packets without a label are
    /// routed as with [`Routing::SprayRandom`].
    SprayLabelled,
}

/// What a transport needs of the paths of a flow's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathNeed {
    /// Nothing: packets of one flow may take different paths.
    Any,
    /// All packets of a flow in one direction take one path.
    One,
    /// All packets of a flow take one path, in both directions.
    Symmetric,
    /// Either one path for both directions, or packets in both directions are sprayed over all paths.
    SymmetricOrSprayed,
}

/// The next hop from a switch to one destination, in one word: either the only link, or the number of a group of links. So most look-ups
/// are one memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NextHop(u32);

impl NextHop {
    const NONE: NextHop = NextHop(u32::MAX);
    const GROUP: u32 = 1 << 31;
}

/// Several links over which a switch can send a packet: see [`Paths::member`].
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The index of its first link in `candidates`.
    first: u32,
    count: u32,
    /// The rate of the fastest link of the group.
    rate: Rate,
}

impl Group {
    /// How many links there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// The links over which a switch can send a packet to its destination by a shortest path.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// There is one.
    Only(LinkId),
    /// There are several.
    OneOf(Group),
}

/// The routing tables of all switches, and the choice among equal-cost next hops by a hash of the flow. It never changes, so the
/// simulator and all endpoints share one. Copies are cheap: they share the tables.
#[derive(Clone)]
pub struct Paths {
    network: Arc<Network>,
    routing: Routing,
    seed: u64,
    /// The next hop by (switch, destination). The entries of a switch begin at its index in `rows`.
    table: Arc<[NextHop]>,
    rows: Arc<[u32]>,
    groups: Arc<[Group]>,
    candidates: Arc<[LinkId]>,
    /// For path labels, the stride of a group at the index of its first link: labels that differ by less lead to the same link,
    /// because later choices need them. Empty without labels.
    strides: Arc<[u16]>,
}

impl Paths {
    /// The routing tables of a network for which [`Network::check`] has succeeded. Hashes depend on `seed`.
    pub fn new(network: Arc<Network>, routing: Routing, seed: u64) -> Paths {
        let nodes = network.len();
        let mut rows = vec![u32::MAX; nodes];
        for (row, switch) in network.switches().enumerate() {
            rows[switch.index()] = (row * nodes) as u32;
        }
        let mut tables = Tables {
            table: vec![NextHop::NONE; network.switches().count() * nodes],
            rows,
            groups: Vec::new(),
            candidates: Vec::new(),
            strides: Vec::new(),
        };
        tables.fill(&network, routing == Routing::SprayLabelled);
        let Tables { table, rows, groups, candidates, strides } = tables;
        Paths {
            network,
            routing,
            seed,
            table: table.into(),
            rows: rows.into(),
            groups: groups.into(),
            candidates: candidates.into(),
            strides: strides.into(),
        }
    }

    /// The network.
    #[inline]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How a switch chooses one of several next hops.
    #[inline]
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// Whether there are several shortest paths between some nodes.
    pub fn is_multipath(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether packets of one flow may take different paths.
    pub fn reorders(&self) -> bool {
        !self.give(PathNeed::One)
    }

    /// Whether these paths are what a transport needs. Where there is one shortest path between any two nodes, every routing suffices.
    pub fn give(&self, need: PathNeed) -> bool {
        !self.is_multipath()
            || match need {
                PathNeed::Any => true,
                PathNeed::One => matches!(self.routing, Routing::Ecmp | Routing::EcmpSymmetric),
                PathNeed::Symmetric => self.routing == Routing::EcmpSymmetric,
                PathNeed::SymmetricOrSprayed => self.routing != Routing::Ecmp,
            }
    }

    /// The links over which switch `at` can send towards `to`.
    ///
    /// # Panics
    /// If `at` is not a switch, or there is no path.
    #[inline(always)]
    pub fn way(&self, at: NodeId, to: NodeId) -> Way {
        let next_hop = self.next_hop(at, to);
        if next_hop.0 & NextHop::GROUP == 0 {
            Way::Only(LinkId(next_hop.0))
        } else {
            Way::OneOf(self.groups[(next_hop.0 ^ NextHop::GROUP) as usize])
        }
    }

    /// Link number `index` of a group, counted from 0.
    #[inline(always)]
    pub fn member(&self, group: Group, index: u32) -> LinkId {
        self.candidates[(group.first + index) as usize]
    }

    /// How many path labels name all paths from host `src` to `dst`, from 0 on. `None` if they need more than 65,536, or if the routing
    /// is not [`Routing::SprayLabelled`].
    pub fn labels(&self, src: NodeId, dst: NodeId) -> Option<u32> {
        const MOST: u32 = 1 << u16::BITS;
        if self.routing != Routing::SprayLabelled {
            return None;
        }
        let mut at = self.network.link(self.network.ports(src)[0]).to;
        while at != dst {
            match self.way(at, dst) {
                Way::Only(link) => at = self.network.link(link).to,
                Way::OneOf(group) => return Some(group.count * self.stride(group)).filter(|labels| *labels <= MOST),
            }
        }
        Some(1)
    }

    /// The link of a group that a path label names. The routing is [`Routing::SprayLabelled`].
    #[inline]
    pub fn labelled(&self, group: Group, label: u16) -> LinkId {
        self.member(group, u32::from(label) / self.stride(group) % group.count)
    }

    #[inline]
    fn stride(&self, group: Group) -> u32 {
        u32::from(self.strides[group.first as usize])
    }

    /// The rate at which switch `at` sends towards `to`, the largest if there are several links.
    #[inline]
    pub fn rate(&self, at: NodeId, to: NodeId) -> Rate {
        let next_hop = self.next_hop(at, to);
        if next_hop.0 & NextHop::GROUP == 0 {
            self.network.link(LinkId(next_hop.0)).rate
        } else {
            self.groups[(next_hop.0 ^ NextHop::GROUP) as usize].rate
        }
    }

    /// The link on which node `at` sends packets of `flow` from `src` to `dst`. `None` if `at` is the destination, or is not on the
    /// flow's path, as far as can be determined, or if there is no such node.
    ///
    /// # Panics
    /// If packets of one flow take different paths ([`Paths::reorders`]).
    pub fn next_link(&self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> Option<LinkId> {
        assert!(!self.reorders(), "packets of one flow take different paths");
        let nodes = self.network.len();
        if at == dst || [at, src, dst].iter().any(|node| node.index() >= nodes) {
            return None;
        }
        if self.network.node(at).kind != NodeKind::Switch {
            return (at == src).then(|| self.network.ports(at)[0]);
        }
        if self.next_hop(at, dst) == NextHop::NONE {
            return None;
        }
        match self.way(at, dst) {
            Way::Only(link) => Some(link),
            Way::OneOf(_) if self.routing == Routing::EcmpSymmetric => self.symmetric(at, flow, src, dst),
            Way::OneOf(group) => Some(self.hashed(group, at, flow, src, dst)),
        }
    }

    /// The links that packets of `flow` cross from `src` to `dst`, in order. There are none if there is no such node.
    ///
    /// # Panics
    /// As [`Paths::next_link`].
    pub fn path(&self, flow: FlowId, src: NodeId, dst: NodeId) -> impl Iterator<Item = LinkId> {
        let next = move |at| self.next_link(at, flow, src, dst);
        std::iter::successors(next(src), move |link| next(self.network.link(*link).to))
    }

    /// The choice of [`Routing::Ecmp`] among the links of a group, on the way from switch `at` to `dst`.
    #[inline(always)]
    pub fn hashed(&self, group: Group, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> LinkId {
        self.member(group, self.hash(at, flow, src, dst) % group.count)
    }

    #[inline(always)]
    fn next_hop(&self, at: NodeId, to: NodeId) -> NextHop {
        self.table[self.rows[at.index()] as usize + to.index()]
    }

    fn hash(&self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> u32 {
        let ends = (u64::from(src.0) << 32) | u64::from(dst.0);
        (mix(mix(ends ^ self.seed) ^ ((u64::from(at.0) << 32) | u64::from(flow.0))) >> 32) as u32
    }

    /// The choice of [`Routing::EcmpSymmetric`] at switch `at`; `None` if `at` is found not to be on the flow's path.
    ///
    /// Both directions follow the path that starts at the lower-numbered end of the flow and is chosen hop by hop. The opposite direction
    /// finds its next hop by following that path from its start. This needs no state, works on any topology, and takes at most as many
    /// steps as the path has links.
    pub fn symmetric(&self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> Option<LinkId> {
        let (low, high) = (src.min(dst), src.max(dst));
        let step = |node: NodeId| -> LinkId {
            if self.network.node(node).kind != NodeKind::Switch {
                return self.network.ports(node)[0];
            }
            match self.way(node, high) {
                Way::Only(link) => link,
                Way::OneOf(group) => self.hashed(group, node, flow, low, high),
            }
        };
        if src == low {
            return Some(step(at));
        }
        let mut link = step(low);
        loop {
            let to = self.network.link(link).to;
            if to == at {
                return Some(link.reverse());
            }
            if to == high {
                return None;
            }
            link = step(to);
        }
    }
}

/// Routing tables that are being filled.
struct Tables {
    table: Vec<NextHop>,
    rows: Vec<u32>,
    groups: Vec<Group>,
    candidates: Vec<LinkId>,
    strides: Vec<u16>,
}

impl Tables {
    /// Groups have strides if there are labels.
    fn fill(&mut self, network: &Network, labels: bool) {
        let mut known: BTreeMap<u16, BTreeMap<Vec<LinkId>, NextHop>> = BTreeMap::new();
        let mut choice: Vec<LinkId> = Vec::new();
        let mut switches: Vec<NodeId> = network.switches().collect();
        // How many labels each node needs to name its paths to the target; at most `u16::MAX`.
        let mut needed: Vec<u16> = vec![1; network.len()];
        for target in network.node_ids() {
            let distance = network.distances(target);
            if labels {
                switches.sort_by_key(|switch| distance[switch.index()]);
                needed[target.index()] = 1;
            }
            for switch in switches.iter().copied().filter(|switch| *switch != target) {
                let nearer = |link: &&LinkId| {
                    let to = network.link(**link).to;
                    let forwards = to == target || network.node(to).kind == NodeKind::Switch;
                    forwards && distance[to.index()] < distance[switch.index()]
                };
                choice.clear();
                choice.extend(network.ports(switch).iter().filter(nearer));
                let stride = choice.iter().map(|link| needed[network.link(*link).to.index()]).max().unwrap_or(1);
                if labels {
                    needed[switch.index()] = stride.saturating_mul(u16::try_from(choice.len().max(1)).unwrap_or(u16::MAX));
                }
                let next_hop = match choice.as_slice() {
                    [] => NextHop::NONE,
                    [single_link] => NextHop(single_link.0),
                    several => {
                        let known = known.entry(stride).or_default();
                        known.get(several).copied().unwrap_or_else(|| {
                            let next_hop = self.add_group(network, several, labels.then_some(stride));
                            known.insert(several.to_vec(), next_hop);
                            next_hop
                        })
                    }
                };
                let row = self.rows[switch.index()] as usize;
                self.table[row + target.index()] = next_hop;
            }
        }
    }

    fn add_group(&mut self, network: &Network, links: &[LinkId], stride: Option<u16>) -> NextHop {
        let rate = links.iter().map(|link| network.link(*link).rate).max().unwrap_or_default();
        self.groups.push(Group { first: self.candidates.len() as u32, count: links.len() as u32, rate });
        self.candidates.extend(links);
        if let Some(stride) = stride {
            self.strides.resize(self.candidates.len(), stride);
        }
        NextHop(NextHop::GROUP | (self.groups.len() as u32 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{Duration, Switching};

    const MODES: [Routing; 5] =
        [Routing::SprayRandom, Routing::SprayLabelled, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric];

    fn fat_tree(routing: Routing) -> Paths {
        let network = topology::fat_tree(4, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward);
        Paths::new(Arc::new(network), routing, 7)
    }

    fn tree(routing: Routing) -> Paths {
        let rate = Rate::from_gbps(10);
        let network = topology::three_tier(4, 2, 2, rate, rate, rate, Duration::ZERO, Switching::StoreAndForward);
        Paths::new(Arc::new(network), routing, 7)
    }

    #[test]
    fn what_each_routing_gives() {
        use PathNeed::{Any, One, Symmetric};
        let needs = [Any, One, Symmetric];
        let given = |paths: &Paths| needs.map(|need| paths.give(need));
        let sprayed = [true, false, false];
        let expected = [sprayed, sprayed, sprayed, [true, true, false], [true; 3]];
        for (routing, expected) in MODES.into_iter().zip(expected) {
            assert_eq!(given(&fat_tree(routing)), expected, "{routing:?}");
            assert_eq!(given(&tree(routing)), [true; 3], "a tree has one path for each pair");
        }
    }

    /// Hosts 2 and 13 of a fat tree with k = 4 are in different pods: edge, aggregation, core, aggregation, edge.
    #[test]
    fn a_path_hop_by_hop() {
        let paths = fat_tree(Routing::EcmpSymmetric);
        let (src, dst) = (NodeId(2), NodeId(13));
        let mut uses = std::collections::BTreeSet::new();
        for flow in (0..64).map(FlowId) {
            let forth: Vec<LinkId> = paths.path(flow, src, dst).collect();
            let names: Vec<&str> =
                forth.iter().map(|link| &*paths.network().node(paths.network().link(*link).to).tier).collect();
            assert_eq!(names, ["edge", "agg", "core", "agg", "edge", "host"]);
            let back: Vec<LinkId> = paths.path(flow, dst, src).collect();
            assert!(back.iter().rev().map(|link| link.reverse()).eq(forth.iter().copied()));
            uses.insert(forth);
        }
        assert_eq!(uses.len(), 4);
    }

    #[test]
    fn nodes_that_are_not_on_the_way_have_no_next_link() {
        let paths = fat_tree(Routing::EcmpSymmetric);
        let (flow, src, dst) = (FlowId(1), NodeId(13), NodeId(2));
        let on_path: Vec<NodeId> = paths.path(flow, src, dst).map(|link| paths.network().link(link).from).collect();
        assert_eq!(paths.next_link(dst, flow, src, dst), None, "the destination");
        assert_eq!(paths.next_link(NodeId(5), flow, src, dst), None, "another host");
        for wrong in [NodeId(999), NodeId::LINK] {
            assert_eq!(paths.next_link(wrong, flow, src, dst), None);
            assert_eq!(paths.next_link(src, flow, wrong, dst), None);
            assert_eq!(paths.next_link(src, flow, src, wrong), None);
        }
        // Where a switch can choose, symmetric routing knows that it is not on the path.
        let astray = |node: &NodeId| !on_path.contains(node) && matches!(paths.way(*node, dst), Way::OneOf(_));
        let astray: Vec<NodeId> = paths.network().switches().filter(astray).collect();
        assert!(!astray.is_empty());
        assert!(astray.into_iter().all(|node| paths.next_link(node, flow, src, dst).is_none()));
    }

    /// The links that a labelled packet crosses behind its source's NIC.
    fn labelled(paths: &Paths, label: u16, src: NodeId, dst: NodeId) -> Vec<LinkId> {
        let network = paths.network();
        let mut at = network.link(network.ports(src)[0]).to;
        let mut links = Vec::new();
        while at != dst {
            links.push(match paths.way(at, dst) {
                Way::Only(link) => link,
                Way::OneOf(group) => paths.labelled(group, label),
            });
            at = network.link(links[links.len() - 1]).to;
        }
        links
    }

    /// A fat tree with k = 6 has 9 paths between pods, 3 within a pod and 1 at an edge switch.
    #[test]
    fn labels_name_each_path_of_a_fat_tree_once() {
        let network = topology::fat_tree(6, Rate::from_gbps(10), Duration::ZERO, Switching::StoreAndForward);
        let paths = Paths::new(Arc::new(network), Routing::SprayLabelled, 7);
        for (dst, expected) in [(1, 1), (3, 3), (8, 3), (9, 9), (53, 9)] {
            let (src, dst) = (NodeId(0), NodeId(dst));
            assert_eq!(paths.labels(src, dst), Some(expected), "to {dst:?}");
            let all: std::collections::BTreeSet<_> =
                (0..expected as u16).map(|label| labelled(&paths, label, src, dst)).collect();
            assert_eq!(all.len() as u32, expected, "to {dst:?}");
        }
        assert_eq!(fat_tree(Routing::SprayRandom).labels(NodeId(0), NodeId(15)), None, "switches choose");
    }

    /// From a there are two ways to b: over x, which has one link to b's switch, and over y, which has a choice of three more switches. Four
    /// paths need six labels, because both next hops get as many.
    #[test]
    fn labels_name_every_path_where_next_hops_differ() {
        let mut network = Network::new(2, Switching::StoreAndForward);
        let mut switch = |name: &str| network.add_switch(1, name, name);
        let [first, last, x, y, x2] = ["first", "last", "x", "y", "x2"].map(&mut switch);
        let middle = ["m0", "m1", "m2"].map(&mut switch);
        let mut connect = |a, b| {
            network.connect(a, b, Rate::from_gbps(10), Duration::ZERO);
        };
        for (a, b) in [(NodeId(0), first), (NodeId(1), last), (first, x), (first, y), (x, x2), (x2, last)] {
            connect(a, b);
        }
        for m in middle {
            connect(y, m);
            connect(m, last);
        }
        let paths = Paths::new(Arc::new(network), Routing::SprayLabelled, 7);
        assert_eq!(paths.labels(NodeId(0), NodeId(1)), Some(6));
        let count = |label| labelled(&paths, label, NodeId(0), NodeId(1));
        let all: std::collections::BTreeSet<_> = (0..6).map(count).collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    #[should_panic(expected = "packets of one flow take different paths")]
    fn there_is_no_one_path_where_packets_are_sprayed() {
        fat_tree(Routing::SprayRandom).next_link(NodeId(0), FlowId(0), NodeId(0), NodeId(15));
    }
}
