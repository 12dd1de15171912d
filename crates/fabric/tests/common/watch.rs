//! Observers.

use std::collections::{BTreeMap, HashMap};

use flowloom_core::{DropReason, Event, FlowId, LinkId, NodeId, Packet, Time};
use flowloom_fabric::Observer;

/// Records every packet that was created, sent by a port, dropped or received, with time and place.
#[derive(Clone, Debug)]
pub struct Log<H> {
    pub injected: Vec<(Time, NodeId, Packet<H>)>,
    pub sent: Vec<(Time, LinkId, Packet<H>)>,
    pub dropped: Vec<(Time, LinkId, Packet<H>, DropReason)>,
    pub arrived: Vec<(Time, NodeId, Packet<H>)>,
}

impl<H> Default for Log<H> {
    fn default() -> Self {
        Log { injected: Vec::new(), sent: Vec::new(), dropped: Vec::new(), arrived: Vec::new() }
    }
}

impl<H: Copy> Log<H> {
    /// The packets sent over a link, in order.
    pub fn on(&self, link: LinkId) -> impl Iterator<Item = (Time, &Packet<H>)> {
        self.sent.iter().filter(move |(_, at, _)| *at == link).map(|(time, _, packet)| (*time, packet))
    }
}

impl<H: Copy + Send> Observer<H> for Log<H> {
    fn packet_injected(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        self.injected.push((now, node, *packet));
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>) {
        self.sent.push((now, link, *packet));
    }
    fn packet_dropped(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>, why: DropReason) {
        self.dropped.push((now, link, *packet, why));
    }
    fn packet_arrived(&mut self, now: Time, node: NodeId, _: flowloom_core::PacketId, packet: &Packet<H>) {
        self.arrived.push((now, node, *packet));
    }
}

/// The byte ranges that each flow's receiver reported, and the bytes that were reported twice.
#[derive(Default)]
pub struct Coverage {
    pub ranges: HashMap<FlowId, BTreeMap<u64, u64>>,
    pub twice: Vec<(Time, FlowId, u64)>,
}

impl<H> Observer<H> for Coverage {
    fn flow_event(&mut self, now: Time, _: NodeId, event: &Event) {
        let Event::Delivered { flow, offset, bytes } = *event else { return };
        let ranges = self.ranges.entry(flow).or_default();
        let (from, to) = (offset.get(), offset.get() + bytes.get());
        if ranges.range(..to).next_back().is_some_and(|(_, end)| *end > from) {
            self.twice.push((now, flow, from));
        }
        ranges.insert(from, to);
    }
}
