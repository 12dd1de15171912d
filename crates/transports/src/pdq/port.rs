//! PDQ's switch.

use flowloom_core::{Bytes, Dequeue, Discipline, NodeKind, Packet, PacketId, Pool, PortCall, PortNumber, Site, Time};

use super::Config;
use super::config::LinkRules;
use super::header::Header;
use super::link::{Kind, Link};
use crate::disciplines::DropTail;

/// The flow lists of one switch, one for each of its ports. A host has none here: its endpoint schedules its own NIC.
#[derive(Debug, Default)]
pub struct Switch {
    rules: LinkRules,
    links: Vec<Link>,
}

impl Switch {
    /// The lists of the node at `site`.
    pub fn new(config: &Config, site: &Site<'_>) -> Switch {
        let rules = config.link_rules();
        if site.network.node(site.node).kind != NodeKind::Switch {
            return Switch { rules, links: Vec::new() };
        }
        let rtt = site.base_rtt(&config.wire(&site.wire));
        let links = site.network.ports(site.node).iter().map(|link| site.network.link(*link).rate);
        Switch { rules, links: links.map(|rate| Link::new(site.node, rate, rtt)).collect() }
    }

    /// The flows of the link of a port.
    pub fn link(&self, port: PortNumber) -> Option<&Link> {
        self.links.get(usize::from(port.0))
    }

    /// Handles a packet that came in at port `ingress` and is to leave by port `egress`, behind `waiting` bytes. An acknowledgement
    /// belongs to the link that it came in by, over which the data left before.
    #[inline]
    fn handle(&mut self, now: Time, ingress: PortNumber, egress: PortNumber, waiting: Bytes, packet: &mut Packet<Header>) {
        let Switch { rules, links } = self;
        let Some(link) = links.get_mut(usize::from(egress.0)) else { return };
        link.count(packet.size_bytes);
        match &mut packet.header {
            Header::Data { request, .. } => link.forward(rules, now, waiting, packet.flow, Kind::Data, request),
            Header::Probe { request, .. } => link.forward(rules, now, waiting, packet.flow, Kind::Probe, request),
            Header::Ack { feedback, .. } => {
                if let Some(link) = links.get_mut(usize::from(ingress.0)) {
                    link.reverse(rules, now, packet.flow, feedback);
                }
            }
            Header::Term { .. } => link.remove(packet.flow),
            Header::Syn { .. } | Header::SynAck { .. } => {}
        }
    }
}

/// One queue, first in, first out, in front of a link. The flows that share the link are on its switch's lists.
#[derive(Clone, Debug)]
pub struct Port {
    queue: DropTail,
}

impl Port {
    /// A port that holds at most `limit`.
    pub fn new(limit: Bytes) -> Port {
        Port { queue: DropTail::new(limit) }
    }
}

impl Discipline<Header> for Port {
    type Shared = Switch;

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, Switch>, packet: PacketId) {
        call.shared.handle(call.now, call.ingress, call.number, self.queue.used(), &mut call.pool[packet]);
        self.queue.accept(call, packet);
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, Header, Switch>, packet: PacketId) -> bool {
        let passes = self.queue.passes(call.pool[packet].size_bytes);
        if passes {
            call.shared.handle(call.now, call.ingress, call.number, Bytes::ZERO, &mut call.pool[packet]);
        }
        passes
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, Switch>) -> Dequeue {
        self.queue.take(call.pool)
    }

    fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.each_queued(pool, visit);
    }
}
