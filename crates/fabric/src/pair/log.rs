//! What a pair observes, and what must hold in every test.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, DropReason, Event, FlowId, LinkId, NodeId, Packet, Time};

use super::Delivery;
use crate::Observer;

/// The observer of a pair. It asserts that endpoints keep to their contract.
pub struct Log {
    shortest: Bytes,
    pub(super) events: Vec<(Time, NodeId, Event)>,
    pub(super) dropped: Vec<(Time, FlowId, DropReason)>,
    pub(super) flows: BTreeMap<FlowId, Delivery>,
}

impl Log {
    /// `shortest` is the smallest size of a packet.
    pub(super) fn new(shortest: Bytes) -> Log {
        Log { shortest, events: Vec::new(), dropped: Vec::new(), flows: BTreeMap::new() }
    }
}

impl<H> Observer<H> for Log {
    fn packet_injected(&mut self, _: Time, node: NodeId, packet: &Packet<H>) {
        assert_eq!(packet.src, node, "a node sends in its own name");
        assert_ne!(packet.dst, node, "a node does not send to itself");
        assert!(packet.size() >= self.shortest, "a packet of {} is shorter than any on the wire", packet.size());
    }

    fn packet_dropped(&mut self, now: Time, _: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>, why: DropReason) {
        // Only the hook loses packets, and `sent` has their fate.
        if !matches!(why, DropReason::Lost | DropReason::Corrupted) {
            self.dropped.push((now, packet.flow, why));
        }
    }

    fn flow_event(&mut self, now: Time, node: NodeId, event: &Event) {
        self.events.push((now, node, *event));
        let (Event::Delivered { flow, .. }
        | Event::Received { flow }
        | Event::Acknowledged { flow }
        | Event::Aborted { flow, .. }
        | Event::TimedOut { flow, .. }) = *event;
        let delivery = self.flows.get_mut(&flow).expect("events name flows that were opened");
        let at_source = matches!(event, Event::Acknowledged { .. } | Event::Aborted { .. } | Event::TimedOut { .. });
        let end = if at_source { delivery.flow.src } else { delivery.flow.dst };
        assert_eq!(node, end, "{event:?} belongs to the other end");
        match *event {
            Event::Delivered { offset, bytes, .. } => delivery.deliver(offset.get(), bytes.get()),
            Event::Received { .. } => {
                assert_eq!(delivery.bytes, delivery.flow.size, "flow {} was not complete", flow.0);
                assert!(delivery.received.replace(now).is_none(), "flow {} received twice", flow.0);
            }
            Event::TimedOut { .. } => assert!(delivery.acknowledged.is_none(), "flow {} timed out when it was over", flow.0),
            Event::Acknowledged { .. } => {
                assert!(delivery.received.is_some(), "flow {} acknowledged before it was received", flow.0);
                assert!(delivery.acknowledged.replace(now).is_none(), "flow {} acknowledged twice", flow.0);
            }
            Event::Aborted { .. } => {
                assert!(delivery.acknowledged.is_none(), "flow {} aborted after it was acknowledged", flow.0);
                assert!(delivery.aborted.replace(now).is_none(), "flow {} aborted twice", flow.0);
            }
        }
    }
}
