//! Observers of a running network. An observer is a type parameter of the simulator, so the one that does nothing costs nothing.

use flowloom_core::{DropReason, Event, Flow, LinkId, NodeId, Packet, PacketId, Time};

/// Callbacks for everything that happens in the network. The default of each method does nothing. The id of a packet is its own for as long as it is in the
/// network, and may be another packet's after that.
pub trait Observer<H>: Send {
    /// A flow starts. Every region is told of a flow whose start was known from the beginning, and the region of its source of one that has
    /// waited for others. Those of one instant come in the same order everywhere, and each is opened before the next one is due.
    #[inline]
    fn flow_due(&mut self, now: Time, flow: &Flow) {
        let _ = (now, flow);
    }
    /// A flow was handed to its source, which is in this region.
    #[inline]
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        let _ = (now, flow);
    }
    /// An endpoint handed a packet to the network.
    #[inline]
    fn packet_injected(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        let _ = (now, node, packet);
    }
    /// A packet was added to a port's queue, which now holds `queued_bytes`.
    #[inline]
    fn packet_queued(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, queued_bytes: u64) {
        let _ = (now, link, id, packet, queued_bytes);
    }
    /// A packet's first bit left a port.
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>) {
        let _ = (now, link, id, packet);
    }
    /// A packet was dropped at a port or on its link.
    #[inline]
    fn packet_dropped(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, why: DropReason) {
        let _ = (now, link, id, packet, why);
    }
    /// A packet reached its destination's endpoint.
    #[inline]
    fn packet_arrived(&mut self, now: Time, node: NodeId, id: PacketId, packet: &Packet<H>) {
        let _ = (now, node, id, packet);
    }
    /// An endpoint reported an event.
    #[inline]
    fn flow_event(&mut self, now: Time, node: NodeId, event: &Event) {
        let _ = (now, node, event);
    }
}

impl<H> Observer<H> for () {}

/// An observer that may be off.
impl<H, O: Observer<H>> Observer<H> for Option<O> {
    #[inline]
    fn flow_due(&mut self, now: Time, flow: &Flow) {
        if let Some(observer) = self {
            observer.flow_due(now, flow);
        }
    }
    #[inline]
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        if let Some(observer) = self {
            observer.flow_opened(now, flow);
        }
    }
    #[inline]
    fn packet_injected(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        if let Some(observer) = self {
            observer.packet_injected(now, node, packet);
        }
    }
    #[inline]
    fn packet_queued(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, queued_bytes: u64) {
        if let Some(observer) = self {
            observer.packet_queued(now, link, id, packet, queued_bytes);
        }
    }
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>) {
        if let Some(observer) = self {
            observer.packet_sent(now, link, id, packet);
        }
    }
    #[inline]
    fn packet_dropped(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, why: DropReason) {
        if let Some(observer) = self {
            observer.packet_dropped(now, link, id, packet, why);
        }
    }
    #[inline]
    fn packet_arrived(&mut self, now: Time, node: NodeId, id: PacketId, packet: &Packet<H>) {
        if let Some(observer) = self {
            observer.packet_arrived(now, node, id, packet);
        }
    }
    #[inline]
    fn flow_event(&mut self, now: Time, node: NodeId, event: &Event) {
        if let Some(observer) = self {
            observer.flow_event(now, node, event);
        }
    }
}

/// Two observers; every callback goes to the first one and then to the second.
impl<H, A: Observer<H>, B: Observer<H>> Observer<H> for (A, B) {
    fn flow_due(&mut self, now: Time, flow: &Flow) {
        self.0.flow_due(now, flow);
        self.1.flow_due(now, flow);
    }
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        self.0.flow_opened(now, flow);
        self.1.flow_opened(now, flow);
    }
    fn packet_injected(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        self.0.packet_injected(now, node, packet);
        self.1.packet_injected(now, node, packet);
    }
    fn packet_queued(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, queued_bytes: u64) {
        self.0.packet_queued(now, link, id, packet, queued_bytes);
        self.1.packet_queued(now, link, id, packet, queued_bytes);
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>) {
        self.0.packet_sent(now, link, id, packet);
        self.1.packet_sent(now, link, id, packet);
    }
    fn packet_dropped(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, why: DropReason) {
        self.0.packet_dropped(now, link, id, packet, why);
        self.1.packet_dropped(now, link, id, packet, why);
    }
    fn packet_arrived(&mut self, now: Time, node: NodeId, id: PacketId, packet: &Packet<H>) {
        self.0.packet_arrived(now, node, id, packet);
        self.1.packet_arrived(now, node, id, packet);
    }
    fn flow_event(&mut self, now: Time, node: NodeId, event: &Event) {
        self.0.flow_event(now, node, event);
        self.1.flow_event(now, node, event);
    }
}
