//! Routing: the next hop of each packet, also where packets of one flow take several paths.

use flowloom_core::{Duration, FlowId, Group, LinkId, NodeId, Paths, Rate, Routing, Time, Way};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::seed::{Purpose, stream_seed};

/// The choice of every packet's next hop: the [`Paths`] of flows, and the state of switches that do not choose by flow alone.
pub struct Routes {
    paths: Paths,
    /// Whether packets took other paths before, so that some can be where their flow has no path any more.
    changed: bool,
    /// The counters of round robin: one per ingress link, and one per node for packets created there.
    counters: Vec<u32>,
    /// The random streams, one per node.
    streams: Vec<Xoshiro256PlusPlus>,
    /// The link that was best last time, by node.
    best: Vec<LinkId>,
    /// The flowlets at each node, by a hash of their flow; empty until the first one comes.
    flowlets: Vec<Box<[Flowlet]>>,
}

/// What a switch knows of the flow, or the flows, that share an entry of its table.
#[derive(Clone, Copy)]
struct Flowlet {
    link: LinkId,
    /// When the last packet came.
    last: Time,
}

/// The flowlets that a switch can tell apart. Flows beyond share entries, and with them their links, as they do in switches.
const FLOWLETS: usize = 1 << 14;

/// No link.
const NOWHERE: LinkId = LinkId(u32::MAX);

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
            best: vec![NOWHERE; network.len()],
            flowlets: vec![Box::default(); network.len()],
            changed: false,
            paths,
        }
    }

    /// The paths that packets take now.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Makes packets take other paths in the same network from now on.
    pub fn change(&mut self, paths: Paths) {
        self.paths = paths;
        self.changed = true;
    }

    /// The rate at which switch `at` sends towards `to`.
    #[inline]
    pub fn rate(&self, at: NodeId, to: NodeId) -> Rate {
        self.paths.rate(at, to)
    }

    /// The link on which switch `at` sends a packet of `flow` from `src` to `dst`, which may have a path label. The label is read only where senders choose paths. `None` if the choice
    /// depends on more than that: see [`Routes::pick_by_load`].
    #[inline(always)]
    pub fn pick(
        &mut self,
        at: NodeId,
        origin: Origin,
        flow: FlowId,
        src: NodeId,
        dst: NodeId,
        label: impl FnOnce() -> Option<u16>,
    ) -> Option<LinkId> {
        let Routes { paths, counters, streams, .. } = self;
        let group = match paths.way(at, dst) {
            Way::Only(link) => return Some(link),
            Way::OneOf(group) => group,
        };
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
            Routing::SprayLabelled => match label() {
                Some(label) => return Some(paths.labelled(group, at, dst, label)),
                None => below(group.count(), &mut streams[at.index()]),
            },
            Routing::SprayRandom => below(group.count(), &mut streams[at.index()]),
            Routing::Ecmp => return Some(paths.hashed(group, at, flow, src, dst)),
            Routing::EcmpSymmetric => return paths.symmetric(at, flow, src, dst),
            Routing::LeastQueue | Routing::Drill(_) | Routing::Flowlet(_) => return None,
        };
        Some(group.links[choice as usize])
    }

    /// The choice where [`Routes::pick`] makes none: by the queues of the switch, by pauses of the flow, or of a packet that is not on its flow's path any more. `drains` says for a
    /// link how long it takes to send what is queued for it.
    ///
    /// It is apart from `pick`, because all transports took 1 to 2 % more instructions for each hop with one function for both.
    ///
    /// # Panics
    /// If a packet has left its flow's path, although routes have not changed.
    #[cold]
    #[inline(never)]
    pub fn pick_by_load(
        &mut self,
        at: NodeId,
        flow: FlowId,
        src: NodeId,
        dst: NodeId,
        now: Time,
        drains: impl Fn(LinkId) -> Duration,
    ) -> LinkId {
        let Routes { paths, changed, streams, best, flowlets, .. } = self;
        let group = match paths.way(at, dst) {
            Way::Only(link) => return link,
            Way::OneOf(group) => group,
        };
        let stream = &mut streams[at.index()];
        match paths.routing() {
            Routing::LeastQueue => least(group, group.count(), NOWHERE, stream, drains),
            Routing::Drill(samples) => {
                let best = &mut best[at.index()];
                *best = least(group, u32::from(samples), *best, stream, drains);
                *best
            }
            Routing::Flowlet(gap) => {
                flowlet(group, paths.hash(at, flow, src, dst), now, gap, &mut flowlets[at.index()], stream)
            }
            _ => {
                assert!(*changed, "a packet is on its flow's path");
                paths.hashed(group, at, flow, src, dst)
            }
        }
    }
}

/// A number below `count`, each as likely as the others.
#[inline]
fn below(count: u32, stream: &mut Xoshiro256PlusPlus) -> u32 {
    ((u64::from(stream.next_u32()) * u64::from(count)) >> 32) as u32
}

/// The link whose queue is sent first of `samples` links of a group, which are drawn at random, and of `known`, if it is in the group. Among equals, each is as likely as the others.
fn least(
    group: Group<'_>,
    samples: u32,
    known: LinkId,
    stream: &mut Xoshiro256PlusPlus,
    drains: impl Fn(LinkId) -> Duration,
) -> LinkId {
    let (count, all) = (group.count(), samples >= group.count());
    let mut best = (Duration::MAX, NOWHERE);
    let mut equals = 0;
    let mut consider = |link: LinkId, stream: &mut Xoshiro256PlusPlus| {
        let time = drains(link);
        if time < best.0 {
            (best, equals) = ((time, link), 1);
        } else if time == best.0 && link != best.1 {
            equals += 1;
            if below(equals, stream) == 0 {
                best.1 = link;
            }
        }
    };
    for sample in 0..samples.min(count) {
        let index = if all { sample } else { below(count, stream) };
        consider(group.links[index as usize], stream);
    }
    if group.links.contains(&known) {
        consider(known, stream);
    }
    best.1
}

/// The link of a packet's flowlet, which is drawn at random when it begins.
fn flowlet(
    group: Group<'_>,
    hash: u32,
    now: Time,
    gap: Duration,
    table: &mut Box<[Flowlet]>,
    stream: &mut Xoshiro256PlusPlus,
) -> LinkId {
    if table.is_empty() {
        *table = vec![Flowlet { link: NOWHERE, last: Time::ZERO }; FLOWLETS].into();
    }
    let entry = &mut table[hash as usize % FLOWLETS];
    if now.saturating_since(entry.last) > gap || !group.links.contains(&entry.link) {
        entry.link = group.links[below(group.count(), stream) as usize];
    }
    entry.last = now;
    entry.link
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use flowloom_core::topology;
    use flowloom_core::{Network, Switching};

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
            let picked = routes.pick(at, Origin::Link(last), FlowId(flow), src, dst, || label);
            let by_load = |routes: &mut Routes| routes.pick_by_load(at, FlowId(flow), src, dst, Time::ZERO, |_| Duration::ZERO);
            path.push(picked.unwrap_or_else(|| by_load(routes)));
        }
    }

    #[test]
    fn every_mode_reaches_every_host_by_a_shortest_path() {
        let network = fat_tree();
        for routing in Routing::EVERY {
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

    /// Where switch 4 of a leaf-spine with four uplinks sends packets from host 0 to host 3, if its uplinks take these times to drain.
    struct Leaf {
        routes: Routes,
        uplinks: Vec<LinkId>,
    }

    impl Leaf {
        fn new(routing: Routing) -> Leaf {
            let network: Arc<Network> = topology::leaf_spine(
                2,
                2,
                4,
                Rate::from_gbps(10),
                Rate::from_gbps(40),
                Duration::ZERO,
                Switching::StoreAndForward,
            )
            .into();
            let uplinks = network.ports(NodeId(4))[2..].to_vec();
            Leaf { routes: routes(&network, routing, 1), uplinks }
        }

        /// The number of the uplink.
        fn pick(&mut self, flow: u32, now_us: u64, drains_us: [u64; 4]) -> usize {
            let Leaf { routes, uplinks } = self;
            let place = |link: LinkId| uplinks.iter().position(|uplink| *uplink == link).expect("it is an uplink");
            let drains = |link| Duration::from_us(drains_us[place(link)]);
            let now = Time::ZERO + Duration::from_us(now_us);
            let (at, flow, src, dst) = (NodeId(4), FlowId(flow), NodeId(0), NodeId(3));
            assert_eq!(routes.pick(at, Origin::Link(LinkId(0)), flow, src, dst, || None), None);
            place(routes.pick_by_load(at, flow, src, dst, now, drains))
        }
    }

    #[test]
    fn the_least_queue_gets_the_packet_and_equals_share() {
        let mut leaf = Leaf::new(Routing::LeastQueue);
        assert!((0..100).all(|flow| leaf.pick(flow, 0, [3, 2, 1, 2]) == 2));
        let mut counts = [0_u32; 4];
        (0..3000).for_each(|flow| counts[leaf.pick(flow, 0, [1, 5, 1, 1])] += 1);
        // Five standard deviations of a binomial distribution: √(3000 × ⅓ × ⅔) = 26.
        assert!(counts[1] == 0 && [0, 2, 3].iter().all(|link| counts[*link].abs_diff(1000) < 130), "{counts:?}");
    }

    /// Two samples of four links miss the best one in 9 of 16 cases, but once it was found, it is compared every time.
    #[test]
    fn drill_remembers_the_best() {
        let mut leaf = Leaf::new(Routing::Drill(2));
        let picks: Vec<usize> = (0..100).map(|flow| leaf.pick(flow, 0, [4, 3, 2, 1])).collect();
        let found = picks.iter().position(|link| *link == 3).expect("it is drawn some time");
        assert!(picks[found..].iter().all(|link| *link == 3), "{picks:?}");
        assert!(picks.is_sorted(), "no pick is worse than the one before: {picks:?}");
        // When it has become the worst, a sample that is better replaces it. With two samples, one is, in 15 of 16 cases.
        let later: Vec<usize> = (0..100).map(|flow| leaf.pick(flow, 0, [2, 2, 2, 9])).collect();
        assert!(later.iter().filter(|link| **link == 3).count() < 5, "{later:?}");
    }

    #[test]
    fn a_flowlet_stays_and_the_next_one_is_drawn_again() {
        let mut leaf = Leaf::new(Routing::Flowlet(Duration::from_us(100)));
        let first = leaf.pick(7, 0, [0; 4]);
        // Each packet follows the last one within 100 µs, although the whole flowlet takes longer.
        assert!((1..=50).all(|packet| leaf.pick(7, 100 * packet, [0; 4]) == first));
        let mut counts = [0_u32; 4];
        (1..=2000).for_each(|flowlet| counts[leaf.pick(7, 5000 + 101 * flowlet, [9, 0, 0, 0])] += 1);
        // Five standard deviations of a binomial distribution: √(2000 × ¼ × ¾) = 19.4.
        assert!(counts.iter().all(|count| count.abs_diff(500) < 97), "queues do not matter: {counts:?}");
    }
}
