//! Next hops from the positions of switches, without a table.

use std::sync::OnceLock;

use super::table::Table;
use super::{Group, Way};
use crate::{LinkId, Network, NodeId, NodeKind, Rate};

/// The next hops in a network whose switches have positions.
pub(super) struct Structure {
    /// How many hosts there are, which is also the id of the first switch.
    hosts: u32,
    places: Box<[Place]>,
    /// The links that leave the switches, in port order, those of the first switch first.
    ports: Box<[LinkId]>,
    /// The next hops to switches, which few transports need. They are searched for when a first packet is sent to one.
    table: OnceLock<Table>,
}

/// The [`Position`](crate::Position) of a switch, with its links.
struct Place {
    /// The first of the hosts below.
    first: u32,
    /// How many hosts are below.
    below: u32,
    /// How many of them are behind each port.
    span: u32,
    /// The index of the first link that leads down.
    down: u32,
    /// The index of the first link that leads up.
    up: u32,
    /// How many links lead up; none if all hosts are below.
    ups: u32,
    /// The rate of the fastest of them.
    rate: Rate,
}

impl Structure {
    /// `None` if the switches have no positions.
    pub(super) fn new(network: &Network) -> Option<Structure> {
        if network.positions().is_empty() {
            return None;
        }
        let hosts = network.hosts() as u32;
        let mut ports = Vec::new();
        let mut places = Vec::new();
        for (switch, position) in network.switches().zip(network.positions()) {
            let links = network.ports(switch);
            let below = position.span * position.children;
            let lead_up = |link: &&LinkId| network.node(network.link(**link).to).kind == NodeKind::Switch;
            let above = || links[position.children as usize..].iter().filter(lead_up);
            let down = ports.len() as u32;
            ports.extend(&links[..position.children as usize]);
            let up = ports.len() as u32;
            if below < hosts {
                ports.extend(above());
            }
            let rate = above().map(|link| network.link(*link).rate).max().unwrap_or_default();
            let ups = ports.len() as u32 - up;
            places.push(Place { first: position.first, below, span: position.span, down, up, ups, rate });
        }
        Some(Structure { hosts, places: places.into(), ports: ports.into(), table: OnceLock::new() })
    }

    pub(super) fn is_multipath(&self) -> bool {
        self.places.iter().any(|place| place.ups > 1)
    }

    /// Whether a node is a host, to which positions lead.
    #[inline(always)]
    pub(super) fn has_host(&self, node: NodeId) -> bool {
        node.0 < self.hosts
    }

    /// The next hops from a switch to a host.
    #[inline(always)]
    pub(super) fn way(&self, at: NodeId, to: NodeId) -> Way<'_> {
        let place = self.place(at);
        let offset = to.0.wrapping_sub(place.first);
        if offset < place.below {
            return Way::Only(self.ports[(place.down + offset / place.span) as usize]);
        }
        if place.ups == 1 {
            return Way::Only(self.ports[place.up as usize]);
        }
        let links = &self.ports[place.up as usize..(place.up + place.ups) as usize];
        Way::OneOf(Group { links, rate: place.rate })
    }

    /// The next hops from a switch to a control host, which is beside the first host, or to another switch.
    #[cold]
    pub(super) fn way_to_others(&self, network: &Network, at: NodeId, to: NodeId) -> Way<'_> {
        if network.node(to).kind == NodeKind::Switch {
            return self.table(network).way(at, to);
        }
        let nic = network.ports(to)[0];
        if network.link(nic).to == at { Way::Only(nic.reverse()) } else { self.way(at, NodeId(0)) }
    }

    /// The number of choices behind the next hop from a switch to a host. All ways up are alike, so the first one counts.
    pub(super) fn stride(&self, network: &Network, mut at: NodeId, to: NodeId) -> u32 {
        let mut stride = 1;
        loop {
            at = network.link(self.ports[self.place(at).up as usize]).to;
            let place = self.place(at);
            if to.0.wrapping_sub(place.first) < place.below {
                return stride;
            }
            stride *= place.ups;
        }
    }

    /// The next hops to switches.
    pub(super) fn table(&self, network: &Network) -> &Table {
        self.table.get_or_init(|| Table::new(network, &|_| true))
    }

    #[inline(always)]
    fn place(&self, switch: NodeId) -> &Place {
        &self.places[switch.0.wrapping_sub(self.hosts) as usize]
    }
}
