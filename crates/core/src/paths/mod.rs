//! The paths that packets take: the next hops of each switch, and the choice among equal-cost next hops where it follows from the flow alone.

mod structure;
mod table;

use std::sync::Arc;

use self::structure::Structure;
use self::table::Table;
use crate::{Duration, FlowId, LinkId, Network, NodeId, NodeKind, Rate, mix};

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
    /// For each packet the link whose queue is sent first, at random among equals.
    LeastQueue,
    /// For each packet the best of as many links as this, which are drawn at random, and of the one that was best last time (DRILL, SIGCOMM 2017, with one unit of memory).
    Drill(u8),
    /// At random for each flowlet: a packet that follows its flow's last one at this switch within this time takes the same link (LetFlow, NSDI 2017).
    Flowlet(Duration),
}

impl Routing {
    /// One of each kind. Those that look at queues and at pauses come before those that go by the flow alone.
    pub const EVERY: [Routing; 8] = [
        Routing::SprayRandom,
        Routing::SprayLabelled,
        Routing::SprayRoundRobin,
        Routing::LeastQueue,
        Routing::Drill(2),
        Routing::Flowlet(Duration::from_us(100)),
        Routing::Ecmp,
        Routing::EcmpSymmetric,
    ];
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

impl PathNeed {
    /// The routing that meets it where nobody has chosen one.
    pub const fn routing(self) -> Routing {
        match self {
            PathNeed::Any | PathNeed::SymmetricOrSprayed => Routing::SprayRoundRobin,
            PathNeed::One => Routing::Ecmp,
            PathNeed::Symmetric => Routing::EcmpSymmetric,
        }
    }
}

/// Several links over which a switch can send a packet to its destination by a shortest path.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The links, in port order.
    pub links: &'a [LinkId],
    /// The rate of the fastest of them.
    pub rate: Rate,
}

impl Group<'_> {
    /// How many links there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.links.len() as u32
    }
}

/// The links over which a switch can send a packet to its destination by a shortest path.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// There is one.
    Only(LinkId),
    /// There are several.
    OneOf(Group<'a>),
}

impl<'a> Way<'a> {
    /// All of them, in port order.
    pub fn links(&'a self) -> &'a [LinkId] {
        match self {
            Way::Only(link) => std::slice::from_ref(link),
            Way::OneOf(group) => group.links,
        }
    }
}

/// How the next hops are found.
enum NextHops {
    /// From the positions of the switches.
    Structure(Structure),
    /// By a search from every switch.
    Table(Table),
}

/// The next hops of all switches, and the choice among equal-cost next hops by a hash of the flow. It never changes, so the simulator and all
/// endpoints share one. Copies are cheap: they share the next hops.
#[derive(Clone)]
pub struct Paths {
    network: Arc<Network>,
    routing: Routing,
    seed: u64,
    next_hops: Arc<NextHops>,
}

impl Paths {
    /// The paths in a network for which [`Network::check`] has succeeded. Hashes depend on `seed`.
    pub fn new(network: Arc<Network>, routing: Routing, seed: u64) -> Paths {
        let next_hops = match Structure::new(&network) {
            Some(structure) => NextHops::Structure(structure),
            None => NextHops::Table(Table::new(&network, &|_| true)),
        };
        Paths { network, routing, seed, next_hops: Arc::new(next_hops) }
    }

    /// The paths that are left without some links, both directions of which are dead. `None` if a node is then cut off.
    pub fn without(&self, dead: &[LinkId]) -> Option<Paths> {
        self.over(self.network.clone(), dead)
    }

    /// The same in a network that differs in the rates of links alone.
    pub fn over(&self, network: Arc<Network>, dead: &[LinkId]) -> Option<Paths> {
        if dead.is_empty() {
            return Some(Paths::new(network, self.routing, self.seed));
        }
        let mut is_up = vec![true; network.links().len()];
        for link in dead {
            is_up[link.index()] = false;
            is_up[link.reverse().index()] = false;
        }
        let is_up = |link: LinkId| is_up[link.index()];
        if !network.is_connected_by(is_up) {
            return None;
        }
        let next_hops = Arc::new(NextHops::Table(Table::new(&network, &is_up)));
        Some(Paths { network, next_hops, ..self.clone() })
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
        match &*self.next_hops {
            NextHops::Structure(structure) => structure.is_multipath(),
            NextHops::Table(table) => table.is_multipath(),
        }
    }

    /// Whether all packets of a flow in one direction take one path.
    pub fn are_fixed(&self) -> bool {
        self.give(PathNeed::One)
    }

    /// Whether packets of one flow may overtake each other. Between flowlets, there is time enough for the packets before.
    pub fn reorders(&self) -> bool {
        !self.are_fixed() && !matches!(self.routing, Routing::Flowlet(_))
    }

    /// Whether these paths are what a transport needs. Where there is one shortest path between any two nodes, every routing suffices.
    pub fn give(&self, need: PathNeed) -> bool {
        !self.is_multipath()
            || match need {
                PathNeed::Any => true,
                PathNeed::One => matches!(self.routing, Routing::Ecmp | Routing::EcmpSymmetric),
                PathNeed::Symmetric => self.routing == Routing::EcmpSymmetric,
                PathNeed::SymmetricOrSprayed => matches!(
                    self.routing,
                    Routing::EcmpSymmetric | Routing::SprayRandom | Routing::SprayRoundRobin | Routing::SprayLabelled
                ),
            }
    }

    /// The links over which switch `at` can send towards `to`.
    ///
    /// # Panics
    /// If `at` is not a switch, or there is no path.
    #[inline(always)]
    pub fn way(&self, at: NodeId, to: NodeId) -> Way<'_> {
        match &*self.next_hops {
            NextHops::Structure(structure) if structure.has_host(to) => structure.way(at, to),
            NextHops::Structure(structure) => structure.way_to_others(&self.network, at, to),
            NextHops::Table(table) => table.way(at, to),
        }
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
                Way::OneOf(group) => return Some(group.count() * self.stride(at, dst)).filter(|labels| *labels <= MOST),
            }
        }
        Some(1)
    }

    /// The link of a group that a path label names, on the way from switch `at` to `dst`.
    #[inline]
    pub fn labelled(&self, group: Group<'_>, at: NodeId, dst: NodeId, label: u16) -> LinkId {
        group.links[(u32::from(label) / self.stride(at, dst) % group.count()) as usize]
    }

    /// How many labels in a row name the same link at switch `at` on the way to `to`, because later choices need them.
    fn stride(&self, at: NodeId, to: NodeId) -> u32 {
        match &*self.next_hops {
            NextHops::Structure(structure) if structure.has_host(to) => structure.stride(&self.network, at, to),
            NextHops::Structure(structure) => structure.table(&self.network).stride(at, to),
            NextHops::Table(table) => table.stride(at, to),
        }
    }

    /// The rate at which switch `at` sends towards `to`, the largest if there are several links.
    #[inline]
    pub fn rate(&self, at: NodeId, to: NodeId) -> Rate {
        match self.way(at, to) {
            Way::Only(link) => self.network.link(link).rate,
            Way::OneOf(group) => group.rate,
        }
    }

    /// The link on which node `at` sends packets of `flow` from `src` to `dst`. `None` if `at` is the destination, or is not on the
    /// flow's path, as far as can be determined, or if there is no such node.
    ///
    /// # Panics
    /// If packets of one flow take different paths ([`Paths::are_fixed`]).
    pub fn next_link(&self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> Option<LinkId> {
        assert!(self.are_fixed(), "packets of one flow take different paths");
        let nodes = self.network.len();
        if at == dst || [at, src, dst].iter().any(|node| node.index() >= nodes) {
            return None;
        }
        if self.network.node(at).kind != NodeKind::Switch {
            return (at == src).then(|| self.network.ports(at)[0]);
        }
        if !self.has_way(at, dst) {
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

    /// Whether switch `at` is on any path to another node. In a custom network, there can be switches that are not.
    fn has_way(&self, at: NodeId, to: NodeId) -> bool {
        match &*self.next_hops {
            NextHops::Structure(_) => true,
            NextHops::Table(table) => table.has_way(at, to),
        }
    }

    /// The choice of [`Routing::Ecmp`] among the links of a group, on the way from switch `at` to `dst`.
    #[inline(always)]
    pub fn hashed(&self, group: Group<'_>, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> LinkId {
        group.links[(self.hash(at, flow, src, dst) % group.count()) as usize]
    }

    /// A hash of a flow's direction at switch `at`.
    #[inline]
    pub fn hash(&self, at: NodeId, flow: FlowId, src: NodeId, dst: NodeId) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{Duration, Switching};

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
        let expected = [sprayed; 6].into_iter().chain([[true, true, false], [true; 3]]);
        for (routing, expected) in Routing::EVERY.into_iter().zip(expected) {
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
                Way::OneOf(group) => paths.labelled(group, at, dst, label),
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

    /// The next hops and the numbers of labels against their definition: a next hop is nearer, and a path is a choice at each switch. In networks
    /// with positions and in the same ones without, to hosts, control hosts and switches.
    #[test]
    fn next_hops_are_the_nearer_neighbours() {
        let (slow, fast) = (Rate::from_gbps(1), Rate::from_gbps(10));
        let (delay, switching) = (Duration::from_ns(200), Switching::StoreAndForward);
        let oversubscribed =
            topology::FatTree { k: 4, hosts_per_edge: 5, host_rate: slow, rate: slow, core_rate: fast, delays: delay.into() };
        let mut networks = vec![
            topology::single_switch(1, slow, delay, switching),
            topology::single_switch(3, slow, delay, switching),
            topology::dumbbell(3, slow, fast, delay, switching),
            topology::leaf_spine(1, 3, 2, slow, fast, delay, switching),
            topology::leaf_spine(3, 4, 5, slow, fast, delay, switching),
            topology::three_tier(6, 3, 2, slow, fast, fast, delay, switching),
            topology::three_tier(2, 1, 2, slow, fast, fast, delay, switching),
            oversubscribed.build(switching),
            topology::fat_tree(2, slow, delay, switching),
            topology::fat_tree(6, slow, delay, switching),
        ];
        for network in &mut networks {
            network.add_control_host("control");
        }
        let placed = networks.len();
        for index in 0..placed {
            let mut again = networks[index].clone();
            let switch = again.switches().next().expect("a switch");
            let leaf = again.add_switch(1, "leaf", "without hosts");
            again.connect(leaf, switch, slow, delay);
            networks.push(again);
        }
        for (index, network) in networks.into_iter().map(Arc::new).enumerate() {
            let paths = Paths::new(network.clone(), Routing::SprayLabelled, 7);
            assert_eq!(matches!(*paths.next_hops, NextHops::Structure(_)), index < placed);
            for dst in network.node_ids() {
                let distance = network.distances(dst);
                let last_farthest = (0..network.hosts() as u32).map(NodeId).max_by_key(|host| distance[host.index()]);
                assert_eq!(Some(network.farthest(dst)), last_farthest, "network {index}, from {dst:?}");
                let nearer = |at: NodeId| {
                    let is_nearer = |link: &&LinkId| {
                        let to = network.link(**link).to;
                        (to == dst || network.node(to).kind == NodeKind::Switch) && distance[to.index()] < distance[at.index()]
                    };
                    network.ports(at).iter().filter(is_nearer).copied().collect::<Vec<LinkId>>()
                };
                for at in network.switches().filter(|at| *at != dst) {
                    let expected = nearer(at);
                    assert_eq!(paths.way(at, dst).links(), expected, "network {index}, from {at:?} to {dst:?}");
                    assert_eq!(paths.rate(at, dst), expected.iter().map(|link| network.link(*link).rate).max().unwrap());
                }
                for src in network.node_ids() {
                    let step = |at: NodeId| {
                        *network
                            .ports(at)
                            .iter()
                            .find(|link| distance[network.link(**link).to.index()] < distance[at.index()])
                            .unwrap()
                    };
                    let next = |at: NodeId| (at != dst).then(|| step(at));
                    let lowest = std::iter::successors(next(src), |link| next(network.link(*link).to));
                    assert!(network.path(src, dst).into_iter().eq(lowest), "network {index}, from {src:?} to {dst:?}");
                }
                for src in network.endpoints().filter(|src| *src != dst && network.node(dst).kind == NodeKind::Host) {
                    // In these networks, all paths of a pair have the same number of choices.
                    let first = network.link(network.ports(src)[0]).to;
                    let next = |at: &NodeId| (*at != dst).then(|| network.link(nearer(*at)[0]).to);
                    let on_the_way = std::iter::successors(Some(first), next).filter(|at| *at != dst);
                    let count: usize = on_the_way.map(|at| nearer(at).len()).product();
                    assert_eq!(paths.labels(src, dst), Some(count as u32), "network {index}, from {src:?} to {dst:?}");
                    let all: std::collections::BTreeSet<_> =
                        (0..count as u16).map(|label| labelled(&paths, label, src, dst)).collect();
                    assert_eq!(all.len(), count, "network {index}, from {src:?} to {dst:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "packets of one flow take different paths")]
    fn there_is_no_one_path_where_packets_are_sprayed() {
        fat_tree(Routing::SprayRandom).next_link(NodeId(0), FlowId(0), NodeId(0), NodeId(15));
    }
}
