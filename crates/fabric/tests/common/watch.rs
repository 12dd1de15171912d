//! Observers.

use flowloom_core::{DropReason, LinkId, NodeId, Packet, Time};
use flowloom_fabric::Observer;

/// Keeps every packet that left a port, was dropped or arrived, with time and place.
#[derive(Clone, Debug)]
pub struct Log<H> {
    pub sent: Vec<(Time, LinkId, Packet<H>)>,
    pub dropped: Vec<(Time, LinkId, Packet<H>, DropReason)>,
    pub arrived: Vec<(Time, NodeId, Packet<H>)>,
}

impl<H> Default for Log<H> {
    fn default() -> Self {
        Log { sent: Vec::new(), dropped: Vec::new(), arrived: Vec::new() }
    }
}

impl<H: Copy> Log<H> {
    /// The packets that left on a link, in order.
    pub fn on(&self, link: LinkId) -> impl Iterator<Item = (Time, &Packet<H>)> {
        self.sent.iter().filter(move |(_, at, _)| *at == link).map(|(time, _, packet)| (*time, packet))
    }
}

impl<H: Copy> Observer<H> for Log<H> {
    fn packet_sent(&mut self, now: Time, link: LinkId, packet: &Packet<H>) {
        self.sent.push((now, link, *packet));
    }
    fn packet_dropped(&mut self, now: Time, link: LinkId, packet: &Packet<H>, why: DropReason) {
        self.dropped.push((now, link, *packet, why));
    }
    fn packet_arrived(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        self.arrived.push((now, node, *packet));
    }
}
