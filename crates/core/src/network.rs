//! Network topology: nodes, links, shortest paths, and closed forms for transfer times on an idle network.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::{Bytes, Duration, PortNumber, Rate, WireProfile};

/// Identifies a host, a switch or a control host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The destination of a link frame: the port at the other end of the link. Such a packet is never forwarded.
    pub const LINK: NodeId = NodeId(u32::MAX);
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies one direction of a link; the other direction is [`LinkId::reverse`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The opposite direction of the same link.
    pub const fn reverse(self) -> LinkId {
        LinkId(self.0 ^ 1)
    }
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Runs an endpoint and takes part in the workload.
    Host,
    /// Forwards packets. It also runs a control endpoint if the transport places one there.
    Switch,
    /// Runs a control endpoint and takes no part in the workload.
    ControlHost,
}

/// A node of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Its level above the hosts: 0 for a host, 1 for a leaf or ToR, and so on.
    pub level: u8,
    /// The name of its tier in results: `host`, `leaf`, `spine`, …
    pub tier: String,
    /// Its own name, in error messages and custom topologies.
    pub name: String,
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Transmission rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// The port at `from`.
    pub from_port: PortNumber,
    /// The port at `to`.
    pub to_port: PortNumber,
}

/// Where a switch stands in a network whose hosts are numbered from left to right. Behind each of its first `children` ports are `span` hosts, in order,
/// and the first of them all is host `first`. All other hosts are behind each of its other ports that lead to switches, at the same distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// The first host below.
    pub first: u32,
    /// How many hosts are behind each port that leads down.
    pub span: u32,
    /// How many ports lead down.
    pub children: u32,
}

/// When a switch may begin to forward a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switching {
    /// After its last byte has arrived.
    StoreAndForward,
    /// After its first `header` bytes have arrived, if the egress link is not faster than the ingress link. Otherwise as
    /// [`Switching::StoreAndForward`], because a port cannot send bytes that have not arrived yet.
    CutThrough {
        /// How many bytes a switch needs to choose the egress port.
        header: Bytes,
    },
}

/// Why a network cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkError {
    /// There is no path from the first to the second node.
    Disconnected(String, String),
    /// A NIC has no link, or more than one.
    HostLinks(String, usize),
    /// There are no hosts.
    NoHosts,
}

impl std::fmt::Display for NetworkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NetworkError::Disconnected(a, b) => write!(f, "there is no path from {a} to {b}"),
            NetworkError::HostLinks(host, 0) => write!(f, "host {host} has no link"),
            NetworkError::HostLinks(host, n) => write!(f, "host {host} has {n} links and one NIC; each link needs a NIC"),
            NetworkError::NoHosts => write!(f, "there is no host"),
        }
    }
}
impl std::error::Error for NetworkError {}

/// Nodes and links. A host has a NIC for each of its links. Each NIC is a node with one link, and with an address and an endpoint of its own.
///
/// The first NICs of all hosts come first: node ids `0..hosts()`, so a host's number is the id of its first NIC. The further NICs of hosts that have several links follow,
/// up to `nics()`.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: Vec<Node>,
    links: Vec<Link>,
    ports: Vec<Vec<LinkId>>,
    /// The position of each switch, from the first on, if they have positions.
    positions: Vec<Position>,
    hosts: usize,
    /// The host of each further NIC, by its id less `hosts`.
    further_nics: Vec<NodeId>,
    /// How many NICs each host has; empty if each has one.
    nic_counts: Vec<u32>,
    /// The first control host, if there is one.
    control_host: Option<NodeId>,
    switching: Switching,
    /// They are kept because each node of a run asks for [`Network::base_rtt_at`]; a change of the network empties it.
    parts: OnceLock<Parts>,
}

/// The parts of a network: nodes that links join to each other.
#[derive(Clone, Debug)]
struct Parts {
    /// By their first NIC.
    all: Vec<Part>,
    /// By node, the first node of its part.
    first: Vec<NodeId>,
}

#[derive(Clone, Debug)]
struct Part {
    /// The first NIC, which is the first node.
    first: NodeId,
    /// The path from there to the NIC that is farthest.
    there: Vec<LinkId>,
    /// The path back.
    back: Vec<LinkId>,
    /// The rates of its slowest and of its fastest NIC.
    rates: [Rate; 2],
}

impl Network {
    /// A network of `hosts` hosts and no links yet.
    pub fn new(hosts: usize, switching: Switching) -> Network {
        let (nodes, links, ports, positions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (further_nics, nic_counts, control_host, parts) = (Vec::new(), Vec::new(), None, OnceLock::new());
        let mut network =
            Network { nodes, links, ports, positions, hosts, further_nics, nic_counts, control_host, switching, parts };
        for index in 0..hosts {
            network.push(NodeKind::Host, 0, "host", format!("h{index}"));
        }
        network
    }

    fn push(&mut self, kind: NodeKind, level: u8, tier: &str, name: String) -> NodeId {
        self.nodes.push(Node { kind, level, tier: tier.to_owned(), name });
        self.ports.push(Vec::new());
        NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes"))
    }

    /// Adds a further NIC of a host. It is called as the host is, with its number among the host's NICs: `h0:2`, `h0:3` and so on.
    ///
    /// # Panics
    /// If there are other nodes than NICs already.
    pub fn add_nic(&mut self, host: NodeId) -> NodeId {
        assert!(host.index() < self.hosts, "there is such a host");
        assert_eq!(self.nodes.len(), self.nics(), "NICs come before other nodes");
        self.nic_counts.resize(self.hosts, 1);
        self.nic_counts[host.index()] += 1;
        self.further_nics.push(host);
        let name = format!("{}:{}", self.node(host).name, self.nic_counts[host.index()]);
        self.push(NodeKind::Host, 0, "host", name)
    }

    /// Adds a switch `level` tiers above the hosts.
    pub fn add_switch(&mut self, level: u8, tier: &str, name: impl Into<String>) -> NodeId {
        assert!(level > 0, "level 0 is the hosts'");
        self.positions.clear();
        self.push(NodeKind::Switch, level, tier, name.into())
    }

    /// Adds a control host to the first host's switch, on a link like that of the first host.
    pub fn add_control_host(&mut self, name: impl Into<String>) -> NodeId {
        let first = *self.link(self.ports(NodeId(0))[0]);
        let control = self.push(NodeKind::ControlHost, 0, "control", name.into());
        // A control host takes no part in the positions of switches.
        let positions = std::mem::take(&mut self.positions);
        self.connect(control, first.to, first.rate, first.delay);
        self.positions = positions;
        self.control_host.get_or_insert(control);
        control
    }

    /// Adds both directions of a link and returns the one from `a` to `b`. Switches have no positions after that, nor after
    /// [`Network::add_switch`].
    pub fn connect(&mut self, a: NodeId, b: NodeId, rate: Rate, delay: Duration) -> LinkId {
        let forward = LinkId(u32::try_from(self.links.len()).expect("fewer than 2^32 links"));
        let port = |ports: &Vec<LinkId>| PortNumber(u16::try_from(ports.len()).expect("fewer than 2^16 ports at a node"));
        let (from_port, to_port) = (port(&self.ports[a.index()]), port(&self.ports[b.index()]));
        self.parts = OnceLock::new();
        self.positions.clear();
        self.links.push(Link { from: a, to: b, rate, delay, from_port, to_port });
        self.links.push(Link { from: b, to: a, rate, delay, from_port: to_port, to_port: from_port });
        self.ports[a.index()].push(forward);
        self.ports[b.index()].push(forward.reverse());
        forward
    }

    /// Says where each switch stands, in the order in which they were added. [`Paths`](crate::Paths) follow from positions without a search.
    ///
    /// # Panics
    /// If there are not as many positions as switches, or if other nodes were added between hosts and switches.
    pub fn set_positions(&mut self, positions: Vec<Position>) {
        assert!(self.further_nics.is_empty(), "positions lead to hosts with one link");
        let switches = self.hosts..self.hosts + positions.len();
        assert!(self.switches().map(NodeId::index).eq(switches), "each switch has a position");
        self.positions = positions;
    }

    /// The position of each switch, from the first on; empty if they have none.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Renames a node (custom topologies).
    pub fn set_name(&mut self, node: NodeId, name: impl Into<String>) {
        self.nodes[node.index()].name = name.into();
    }

    /// Checks what every run needs: at least one host, one link for each NIC, and a path between any two nodes that are no switches. The network may be in
    /// [parts](Network::parts) if hosts have several NICs.
    pub fn check(&self) -> Result<(), NetworkError> {
        if self.hosts == 0 {
            return Err(NetworkError::NoHosts);
        }
        for node in self.endpoints() {
            let links = self.ports(node).len();
            if links != 1 {
                return Err(NetworkError::HostLinks(self.node(node).name.clone(), links));
            }
        }
        if self.has_several_nics() {
            return Ok(());
        }
        let distance = self.distances(NodeId(0));
        match self.endpoints().find(|node| distance[node.index()] == u32::MAX) {
            Some(far) => Err(NetworkError::Disconnected(self.nodes[0].name.clone(), self.node(far).name.clone())),
            None => Ok(()),
        }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts
    }
    /// How many NICs there are: node ids `0..nics()`.
    pub fn nics(&self) -> usize {
        self.hosts + self.further_nics.len()
    }
    /// All NICs.
    pub fn nic_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nics() as u32).map(NodeId)
    }
    /// Whether some hosts have several NICs.
    pub fn has_several_nics(&self) -> bool {
        !self.further_nics.is_empty()
    }
    /// The host that a NIC belongs to; any other node itself.
    pub fn host_of(&self, nic: NodeId) -> NodeId {
        let further = nic.index().checked_sub(self.hosts).and_then(|index| self.further_nics.get(index));
        further.copied().unwrap_or(nic)
    }
    /// The NICs of all hosts, by host, in order.
    pub fn nics_by_host(&self) -> Vec<Vec<NodeId>> {
        let mut nics: Vec<Vec<NodeId>> = (0..self.hosts as u32).map(|host| vec![NodeId(host)]).collect();
        for (nic, host) in (self.hosts as u32..).map(NodeId).zip(&self.further_nics) {
            nics[host.index()].push(nic);
        }
        nics
    }
    /// All node ids.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
    /// NICs and control hosts.
    pub fn endpoints(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.node_ids().filter(|id| self.node(*id).kind != NodeKind::Switch)
    }
    /// All switches, in the order they were added.
    pub fn switches(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.node_ids().filter(|id| self.node(*id).kind == NodeKind::Switch)
    }
    /// The first control host, if there is one.
    pub fn control_host(&self) -> Option<NodeId> {
        self.control_host
    }
    /// All links; index by [`LinkId::index`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }
    /// Gives one direction of a link another rate.
    pub fn set_rate(&mut self, id: LinkId, rate: Rate) {
        self.parts = OnceLock::new();
        self.links[id.index()].rate = rate;
    }
    /// One direction of a link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }
    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
    /// The links that leave a node, in port order.
    pub fn ports(&self, node: NodeId) -> &[LinkId] {
        &self.ports[node.index()]
    }
    /// When switches forward packets.
    pub fn switching(&self) -> Switching {
        self.switching
    }
    /// The name of a link's hop in results: the two tiers that it joins, such as `host-leaf`.
    pub fn hop_name(&self, link: LinkId) -> String {
        let Link { from, to, .. } = *self.link(link);
        format!("{}-{}", self.node(from).tier, self.node(to).tier)
    }
    /// The names of the nodes that a link joins, in the direction of travel, such as `h0-l0`. Parallel links have the same.
    pub fn ends_name(&self, link: LinkId) -> String {
        let Link { from, to, .. } = *self.link(link);
        format!("{}-{}", self.node(from).name, self.node(to).name)
    }
    /// A link's name: that of its ends, and among parallel links also its number, from 1 on, such as `l0-s0:2`.
    pub fn link_name(&self, link: LinkId) -> String {
        let Link { from, to, .. } = *self.link(link);
        let parallel = || self.ports(from).iter().filter(|other| self.link(**other).to == to);
        let name = self.ends_name(link);
        match parallel().nth(1) {
            None => name,
            Some(_) => format!("{name}:{}", 1 + parallel().take_while(|other| **other != link).count()),
        }
    }
    /// The rate of a NIC's link.
    pub fn nic_rate(&self, nic: NodeId) -> Rate {
        self.link(self.ports(nic)[0]).rate
    }
    /// The rate of the links of each host together, by host, in bits per second.
    pub fn host_bps(&self) -> Vec<u64> {
        let mut bps = vec![0; self.hosts];
        for nic in self.nic_ids() {
            bps[self.host_of(nic).index()] += self.nic_rate(nic).as_bps();
        }
        bps
    }

    /// The first NIC of each part of the network: of all nodes that links join. There is one part if no host has several NICs.
    pub fn parts(&self) -> Vec<NodeId> {
        self.known_parts().all.iter().map(|part| part.first).collect()
    }

    fn known_parts(&self) -> &Parts {
        self.parts.get_or_init(|| {
            let first = if self.has_several_nics() { self.joined(|_| true) } else { vec![NodeId(0); self.nodes.len()] };
            let mut all: Vec<Part> = Vec::new();
            let mut places = vec![usize::MAX; self.nodes.len()];
            for nic in self.nic_ids() {
                let rate = self.nic_rate(nic);
                let place = &mut places[first[nic.index()].index()];
                if *place == usize::MAX {
                    *place = all.len();
                    let [there, back] = self.longest_from(nic);
                    all.push(Part { first: nic, there, back, rates: [rate; 2] });
                }
                let [slowest, fastest] = all[*place].rates;
                all[*place].rates = [slowest.min(rate), fastest.max(rate)];
            }
            Parts { all, first }
        })
    }

    /// The path from a NIC to the first of those that are farthest from it, and the path back.
    fn longest_from(&self, nic: NodeId) -> [Vec<LinkId>; 2] {
        let distance = self.distances(nic);
        let reached = self.nic_ids().filter(|other| distance[other.index()] < u32::MAX);
        let far = reached.max_by_key(|other| (distance[other.index()], std::cmp::Reverse(*other))).unwrap_or(nic);
        [self.path(nic, far), self.path(far, nic)]
    }

    /// By node, the first of the nodes that links of this kind join to it.
    fn joined(&self, is_up: impl Fn(LinkId) -> bool) -> Vec<NodeId> {
        let unknown = NodeId(u32::MAX);
        let mut joined = vec![unknown; self.nodes.len()];
        let mut left = Vec::new();
        for first in self.node_ids() {
            left.push(first);
            while let Some(node) = left.pop() {
                if joined[node.index()] == unknown {
                    joined[node.index()] = first;
                    left.extend(self.ports(node).iter().filter(|link| is_up(**link)).map(|link| self.link(*link).to));
                }
            }
        }
        joined
    }

    /// The number of links on a shortest path from every node to `target`, `u32::MAX` if there is no path. Hosts do not forward.
    pub fn distances(&self, target: NodeId) -> Vec<u32> {
        self.distances_to_any([target])
    }

    /// The number of links on a shortest path from every node to the nearest of `targets`, `u32::MAX` if there is no path. Hosts do not forward.
    pub fn distances_to_any(&self, targets: impl IntoIterator<Item = NodeId>) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.nodes.len()];
        let mut queue: VecDeque<NodeId> = targets.into_iter().collect();
        queue.iter().for_each(|target| distance[target.index()] = 0);
        while let Some(node) = queue.pop_front() {
            if distance[node.index()] > 0 && self.node(node).kind != NodeKind::Switch {
                continue;
            }
            for link in self.ports(node) {
                let neighbour = self.link(*link).to;
                if distance[neighbour.index()] == u32::MAX {
                    distance[neighbour.index()] = distance[node.index()] + 1;
                    queue.push_back(neighbour);
                }
            }
        }
        distance
    }

    /// Whether the nodes of each part of the network can reach each other over links of this kind, too. NICs with other links do not count if their hosts have NICs that do.
    pub fn is_connected_by(&self, is_up: impl Fn(LinkId) -> bool) -> bool {
        let mut has_way = vec![false; self.hosts];
        let is_nic_up = |nic: NodeId| self.ports(nic).iter().any(|link| is_up(*link));
        for nic in self.nic_ids().filter(|nic| is_nic_up(*nic)) {
            has_way[self.host_of(nic).index()] = true;
        }
        let is_spare = |node: NodeId| node.index() < self.nics() && !is_nic_up(node) && has_way[self.host_of(node).index()];
        let [whole, left] = [self.joined(|_| true), self.joined(&is_up)];
        // By part, where its nodes are that count.
        let mut place = vec![None; self.nodes.len()];
        self.node_ids().filter(|node| !is_spare(*node)).all(|node| {
            let at = left[node.index()];
            *place[whole[node.index()].index()].get_or_insert(at) == at
        })
    }

    /// A shortest path. Of several, it is the one through the lowest port numbers.
    ///
    /// # Panics
    /// If there is no path.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<LinkId> {
        if to.index() < self.hosts && !self.positions.is_empty() {
            return self.walk(from, to, |at| self.step(at, to));
        }
        let distance = self.distances(to);
        assert!(distance[from.index()] != u32::MAX, "no path between the nodes");
        let is_nearer = |at: NodeId, link: &LinkId| distance[self.link(*link).to.index()] < distance[at.index()];
        self.walk(from, to, |at| *self.ports(at).iter().find(|link| is_nearer(at, link)).expect("a neighbour that is nearer"))
    }

    /// The path of these steps.
    fn walk(&self, from: NodeId, to: NodeId, step: impl Fn(NodeId) -> LinkId) -> Vec<LinkId> {
        let next = |at: NodeId| (at != to).then(|| step(at));
        std::iter::successors(next(from), |link| next(self.link(*link).to)).collect()
    }

    /// The first link from a node towards a host, by the node's position if it is a switch.
    fn step(&self, at: NodeId, to: NodeId) -> LinkId {
        let port = self.position(at).map_or(0, |Position { first, span, children }| {
            let offset = to.0.wrapping_sub(first);
            if offset < span * children { offset / span } else { children }
        });
        self.ports(at)[port as usize]
    }

    /// The position of a switch.
    fn position(&self, node: NodeId) -> Option<Position> {
        self.positions.get(node.index().checked_sub(self.hosts)?).copied()
    }

    /// The NIC that is farthest from a node, of those that it can reach. Of several, it is the last.
    pub fn farthest(&self, node: NodeId) -> NodeId {
        let hosts = self.hosts as u32;
        if node.0 >= hosts || self.positions.is_empty() {
            let distance = self.distances(node);
            let reached = self.nic_ids().filter(|nic| distance[nic.index()] < u32::MAX);
            return reached.max_by_key(|nic| distance[nic.index()]).unwrap_or(node);
        }
        // The higher a path leads, the longer it is. So the farthest hosts are all those outside the largest part that is not the whole network.
        let mut near = node.0..node.0 + 1;
        let mut at = self.link(self.ports(node)[0]).to;
        while let Some(Position { first, span, children }) = self.position(at) {
            let below = first..first + span * children;
            if below.len() == self.hosts || !below.contains(&node.0) {
                break;
            }
            near = below;
            at = self.link(self.ports(at)[children as usize]).to;
        }
        NodeId(if near.end < hosts { hosts - 1 } else { near.start.saturating_sub(1) })
    }

    /// The time from the arrival of a packet's first bit over link `index` of `path` until the next node can use the packet. At its
    /// destination and under store-and-forward this is the time of the whole packet, under cut-through the time of its first bytes.
    fn hold(&self, path: &[LinkId], index: usize, size: Bytes) -> Duration {
        let link = self.link(path[index]);
        let next = path.get(index + 1).map(|next| self.link(*next).rate);
        self.hold_time(link.rate, next, size)
    }

    /// The time from the arrival of a packet's first bit over a link of rate `ingress` until it can be forwarded at rate `egress`,
    /// or be used by its destination if `egress` is `None`.
    #[inline]
    pub fn hold_time(&self, ingress: Rate, egress: Option<Rate>, size: Bytes) -> Duration {
        match (self.switching, egress) {
            (Switching::CutThrough { header }, Some(egress)) if egress <= ingress => ingress.transmit_time(header.min(size)),
            _ => ingress.transmit_time(size),
        }
    }

    /// The time that one packet of `size` takes along `path` on an idle network, from sending its first bit to receiving its last.
    pub fn packet_time(&self, path: &[LinkId], size: Bytes) -> Duration {
        path.iter()
            .enumerate()
            .fold(Duration::ZERO, |sum, (index, link)| sum + self.link(*link).delay + self.hold(path, index, size))
    }

    /// The time that a flow of `size` payload bytes, sent back to back, takes along `path` on an idle network, from sending its first
    /// bit to receiving its last. This is `OPT` of the pHost paper, §4.1, without an acknowledgement.
    ///
    /// Full packets pass a tandem queue of constant servers: packet k leaves server h at (sum of the first packet's hold times up
    /// to h) + (k-1) × (slowest service up to h). Only the last, shorter packet needs its own recursion.
    pub fn flow_time(&self, path: &[LinkId], size: Bytes, wire: &WireProfile) -> Duration {
        let full_packets = wire.packets(size) - 1;
        let last = wire.data_size(wire.payload_of(size, full_packets));
        if full_packets == 0 {
            return self.packet_time(path, last);
        }
        let mut ready_full = Duration::ZERO; // when the first full packet may start on this link
        let mut slowest = Duration::ZERO;
        let mut ready_last = Duration::ZERO; // when the last packet may start on this link
        let mut arrived = Duration::ZERO;
        for (index, id) in path.iter().enumerate() {
            let link = self.link(*id);
            let service = link.rate.transmit_time(wire.full);
            slowest = slowest.max(service);
            let full_done = ready_full + slowest * (full_packets - 1) + service;
            let start = ready_last.max(full_done);
            ready_full = ready_full + link.delay + self.hold(path, index, wire.full);
            ready_last = start + link.delay + self.hold(path, index, last);
            arrived = ready_last;
        }
        arrived
    }

    /// The longest round-trip time of any pair of NICs on the idle network, with a full data packet and a control packet as its answer.
    /// Only pairs with the first NIC of a part are compared: in every topology built here, one of them is as far apart as any pair.
    pub fn base_rtt(&self, wire: &WireProfile) -> Duration {
        self.rates_and_rtts(wire).map(|(_, rtt)| rtt).max().unwrap_or_default()
    }

    /// The same for the part of the network that a node is in.
    pub fn base_rtt_at(&self, node: NodeId, wire: &WireProfile) -> Duration {
        let Parts { all, first } = self.known_parts();
        let place = all.binary_search_by_key(&first[node.index()], |part| part.first);
        place.map_or(Duration::ZERO, |place| self.part_rtt(&all[place], wire))
    }

    /// For each part of the network, the rates of its slowest and of its fastest NIC, and its longest round-trip time.
    pub fn rates_and_rtts(&self, wire: &WireProfile) -> impl Iterator<Item = ([Rate; 2], Duration)> {
        self.known_parts().all.iter().map(|part| (part.rates, self.part_rtt(part, wire)))
    }

    fn part_rtt(&self, part: &Part, wire: &WireProfile) -> Duration {
        self.packet_time(&part.there, wire.full) + self.packet_time(&part.back, wire.control)
    }

    /// How many links the longest path between two NICs has, of the pairs that [`Network::base_rtt`] compares.
    pub fn longest_path(&self) -> usize {
        self.known_parts().all.iter().map(|part| part.there.len()).max().unwrap_or_default()
    }

    /// The round-trip time between two nodes on the idle network, with a full data packet and a control packet as its answer.
    pub fn rtt(&self, a: NodeId, b: NodeId, wire: &WireProfile) -> Duration {
        self.packet_time(&self.path(a, b), wire.full) + self.packet_time(&self.path(b, a), wire.control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts, each on its own switch, and a link between the switches: h0 - a - b - h1.
    fn line(switching: Switching, middle: Rate) -> Network {
        let mut network = Network::new(2, switching);
        let a = network.add_switch(1, "leaf", "a");
        let b = network.add_switch(1, "leaf", "b");
        let delay = Duration::from_ns(200);
        network.connect(NodeId(0), a, Rate::from_gbps(10), delay);
        network.connect(a, b, middle, delay);
        network.connect(NodeId(1), b, Rate::from_gbps(10), delay);
        network
    }

    #[test]
    fn store_and_forward_times_by_hand() {
        let network = line(Switching::StoreAndForward, Rate::from_gbps(40));
        let path = network.path(NodeId(0), NodeId(1));
        assert_eq!(path.len(), 3);
        // 1.2 + 0.3 + 1.2 us of transmission, 0.6 us of propagation
        assert_eq!(network.packet_time(&path, Bytes::new(1500)), Duration::from_ns(3300));
        let wire = WireProfile::IP_1500;
        // Ten full packets: nine more packet times of 1.2 us after the first.
        assert_eq!(network.flow_time(&path, Bytes::new(14_600), &wire), Duration::from_ns(3300 + 9 * 1200));
        // The last packet, of 41 B, catches up: it waits at the last link for the full packet (3.3 us), then takes 32.8 ns.
        assert_eq!(network.flow_time(&path, Bytes::new(1461), &wire), Duration::from_ps(3_300_000 + 32_800));
    }

    #[test]
    fn cut_through_waits_where_the_egress_is_faster() {
        let network = line(Switching::CutThrough { header: Bytes::new(40) }, Rate::from_gbps(40));
        let path = network.path(NodeId(0), NodeId(1));
        // 10 -> 40 Gb/s is stored (1.2 us); 40 -> 10 cuts through after 40 B (8 ns); 1.2 us at the end; 0.6 us propagation.
        assert_eq!(network.packet_time(&path, Bytes::new(1500)), Duration::from_ns(1200 + 8 + 1200 + 600));
    }

    #[test]
    fn hosts_do_not_forward() {
        let mut network = line(Switching::StoreAndForward, Rate::from_gbps(40));
        assert!(network.check().is_ok());
        // With a second link at its NIC, h0 would be a shortcut, so the network is refused.
        let b = NodeId(3);
        network.connect(NodeId(0), b, Rate::from_gbps(10), Duration::ZERO);
        assert_eq!(network.check(), Err(NetworkError::HostLinks("h0".into(), 2)));
    }

    #[test]
    fn parallel_links_have_numbers() {
        let mut network = line(Switching::StoreAndForward, Rate::from_gbps(40));
        let (a, b) = (NodeId(2), NodeId(3));
        let first = network.ports(a)[1];
        assert_eq!((network.link_name(first), network.ends_name(first)), ("a-b".into(), "a-b".into()));
        let second = network.connect(a, b, Rate::from_gbps(40), Duration::ZERO);
        for (link, number) in [(first, 1), (second, 2)] {
            assert_eq!((network.link_name(link), network.ends_name(link)), (format!("a-b:{number}"), "a-b".into()));
            assert_eq!(network.link_name(link.reverse()), format!("b-a:{number}"));
        }
    }

    #[test]
    fn a_cut_off_host_is_named() {
        let mut network = Network::new(2, Switching::StoreAndForward);
        let a = network.add_switch(1, "leaf", "a");
        let b = network.add_switch(1, "leaf", "b");
        network.connect(NodeId(0), a, Rate::from_gbps(1), Duration::ZERO);
        network.connect(NodeId(1), b, Rate::from_gbps(1), Duration::ZERO);
        assert_eq!(network.check(), Err(NetworkError::Disconnected("h0".into(), "h1".into())));
    }
}
