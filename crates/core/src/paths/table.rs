//! Next hops by a search from every switch, for networks of any form.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::ops::Range;
use std::thread;

use super::{Group, Way};
use crate::{LinkId, Network, NodeId, NodeKind, Rate};

/// The next hops between all switches. The hosts behind a switch share what leads to the switch, since a host has one link.
pub(super) struct Table {
    /// For each node, where it is attached.
    places: Box<[Place]>,
    /// The next hop by destination and switch: one row for each destination.
    next_hops: Box<[NextHop]>,
    switches: u32,
    groups: Box<[Choice]>,
    /// The links of all groups.
    links: Box<[LinkId]>,
}

/// Where a node is attached.
#[derive(Clone, Copy)]
struct Place {
    /// The number of its switch, or a switch's own number.
    switch: u32,
    /// The link from the switch to a host.
    last: NextHop,
}

/// The next hop from a switch to another, in one word: either the only link, or the number of a group of links.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NextHop(u32);

impl NextHop {
    const NONE: NextHop = NextHop(u32::MAX);
    const GROUP: u32 = 1 << 31;
}

/// A group of links.
#[derive(Clone, Copy)]
struct Choice {
    /// The index of its first link.
    first: u32,
    count: u32,
    /// How many labels in a row name the same link, because later choices need them; at most `u16::MAX`.
    stride: u16,
    rate: Rate,
}

impl Table {
    /// The next hops in a network for which [`Network::check`] has succeeded, over the links that `is_up` names. There is none from a switch to another if no such link
    /// leads there.
    pub(super) fn new(network: &Network, is_up: &dyn Fn(LinkId) -> bool) -> Table {
        let graph = Graph::new(network, is_up);
        let switches = graph.nodes.len();
        let mut next_hops = vec![NextHop::NONE; switches * switches];
        let workers = if switches < 128 { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
        let share = switches.div_ceil(workers).max(1);
        let found: Vec<Groups> = thread::scope(|scope| {
            let rows = next_hops.chunks_mut(share * switches.max(1)).enumerate();
            let search = |(worker, rows): (usize, _)| {
                let graph = &graph;
                let targets = worker * share..switches.min((worker + 1) * share);
                scope.spawn(move || graph.search(targets, rows))
            };
            // All threads have begun before the first one is waited for.
            let threads: Vec<_> = rows.map(search).collect();
            threads.into_iter().map(|thread| thread.join().expect("a search does not panic")).collect()
        });
        let (mut groups, mut links) = (Vec::new(), Vec::new());
        for (rows, part) in next_hops.chunks_mut(share * switches.max(1)).zip(found) {
            let (earlier, first) = (groups.len() as u32, links.len() as u32);
            for next_hop in rows.iter_mut().filter(|next_hop| **next_hop != NextHop::NONE && next_hop.0 & NextHop::GROUP != 0) {
                next_hop.0 += earlier;
            }
            groups.extend(part.groups.into_iter().map(|group| Choice { first: first + group.first, ..group }));
            links.extend(part.links);
        }
        Table {
            places: graph.places,
            next_hops: next_hops.into(),
            switches: switches as u32,
            groups: groups.into(),
            links: links.into(),
        }
    }

    pub(super) fn is_multipath(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The next hops from a switch to any node.
    #[inline(always)]
    pub(super) fn way(&self, at: NodeId, to: NodeId) -> Way<'_> {
        let next_hop = self.next_hop(at, to);
        if next_hop.0 & NextHop::GROUP == 0 {
            return Way::Only(LinkId(next_hop.0));
        }
        let Choice { first, count, rate, .. } = self.group(next_hop);
        Way::OneOf(Group { links: &self.links[first as usize..(first + count) as usize], rate })
    }

    /// Whether there is a path.
    pub(super) fn has_way(&self, at: NodeId, to: NodeId) -> bool {
        self.next_hop(at, to) != NextHop::NONE
    }

    /// The number of choices behind the group of next hops from a switch to a node.
    pub(super) fn stride(&self, at: NodeId, to: NodeId) -> u32 {
        u32::from(self.group(self.next_hop(at, to)).stride)
    }

    #[inline(always)]
    fn next_hop(&self, at: NodeId, to: NodeId) -> NextHop {
        let (from, to) = (self.places[at.index()].switch, self.places[to.index()]);
        if from == to.switch { to.last } else { self.next_hops[to.switch as usize * self.switches as usize + from as usize] }
    }

    #[inline(always)]
    fn group(&self, next_hop: NextHop) -> Choice {
        self.groups[(next_hop.0 ^ NextHop::GROUP) as usize]
    }
}

/// The switches of a network with the links between them.
struct Graph<'a> {
    network: &'a Network,
    nodes: Vec<NodeId>,
    places: Box<[Place]>,
    /// For each switch, its links to other switches, in port order, and the numbers of these.
    neighbours: Vec<Vec<(LinkId, u32)>>,
}

/// The groups that one search has found.
#[derive(Default)]
struct Groups {
    /// By stride and links.
    known: BTreeMap<(u16, Vec<LinkId>), NextHop>,
    groups: Vec<Choice>,
    links: Vec<LinkId>,
}

impl Graph<'_> {
    fn new<'a>(network: &'a Network, is_up: &dyn Fn(LinkId) -> bool) -> Graph<'a> {
        let nodes: Vec<NodeId> = network.switches().collect();
        let mut places = vec![Place { switch: u32::MAX, last: NextHop::NONE }; network.len()];
        for (number, switch) in (0..).zip(&nodes) {
            places[switch.index()].switch = number;
        }
        for endpoint in network.endpoints() {
            let nic = network.ports(endpoint)[0];
            let switch = places[network.link(nic).to.index()].switch;
            places[endpoint.index()] = Place { switch, last: NextHop(nic.reverse().0) };
        }
        let neighbours = nodes.iter().map(|switch| {
            let links = network.ports(*switch).iter().filter(|link| is_up(**link)).map(|link| (*link, network.link(*link).to));
            let switches = links.filter(|(_, to)| network.node(*to).kind == NodeKind::Switch);
            switches.map(|(link, to)| (link, places[to.index()].switch)).collect()
        });
        Graph { network, neighbours: neighbours.collect(), nodes, places: places.into() }
    }

    /// Fills the rows of some destinations.
    fn search(&self, targets: Range<usize>, rows: &mut [NextHop]) -> Groups {
        let switches = self.nodes.len();
        let mut found = Groups::default();
        let mut distance = vec![u32::MAX; switches];
        let mut order = VecDeque::new();
        // How many labels each switch needs to name its paths to the destination; at most `u16::MAX`.
        let mut needed = vec![1u16; switches];
        let mut choice = Vec::new();
        for (target, row) in targets.zip(rows.chunks_mut(switches)) {
            distance.fill(u32::MAX);
            distance[target] = 0;
            needed[target] = 1;
            order.push_back(target);
            // A switch leaves the queue after all that are nearer.
            while let Some(at) = order.pop_front() {
                for (_, next) in &self.neighbours[at] {
                    let next = *next as usize;
                    if distance[next] == u32::MAX {
                        distance[next] = distance[at] + 1;
                        order.push_back(next);
                    }
                }
                if at == target {
                    continue;
                }
                let nearer = self.neighbours[at].iter().filter(|(_, next)| distance[*next as usize] < distance[at]);
                let stride = nearer.clone().map(|(_, next)| needed[*next as usize]).max().unwrap_or(1);
                choice.clear();
                choice.extend(nearer.map(|(link, _)| *link));
                needed[at] = stride.saturating_mul(u16::try_from(choice.len()).unwrap_or(u16::MAX));
                row[at] = match choice.as_slice() {
                    [only] => NextHop(only.0),
                    several => found.group(self.network, several, stride),
                };
            }
        }
        found
    }
}

impl Groups {
    /// The group of these links. Groups with the same links and stride are one.
    fn group(&mut self, network: &Network, links: &[LinkId], stride: u16) -> NextHop {
        *self.known.entry((stride, links.to_vec())).or_insert_with(|| {
            let rate = links.iter().map(|link| network.link(*link).rate).max().unwrap_or_default();
            self.groups.push(Choice { first: self.links.len() as u32, count: links.len() as u32, stride, rate });
            self.links.extend(links);
            NextHop(NextHop::GROUP | (self.groups.len() as u32 - 1))
        })
    }
}
