//! The receiving end of a host's flows: when it acknowledges packets, and with which echo.

use flowloom_core::{Ecn, FlowId, NodeId, Packet, Time};

use super::header::Blocks;
use super::{Config, Header, Outbox};
use crate::toolkit::{Arrival, FlowTable, Framing, IndexedHeap, Reassembly};

/// An acknowledgement that waits for further packets.
struct Delayed {
    src: NodeId,
    /// The number of packets that it covers.
    packets: u32,
    cumulative: u32,
    /// Whether they arrived marked (RFC 8257 §3.2: DCTCP.CE).
    echo: bool,
}

/// All flows that this node receives.
pub(super) struct Receiver {
    config: Config,
    framing: Framing,
    ecn: Ecn,
    reassembly: Reassembly,
    /// Empty if no acknowledgement waits.
    delayed: FlowTable<Delayed>,
    /// By slot, when a delayed acknowledgement is sent at the latest.
    timers: IndexedHeap<Time>,
}

impl Receiver {
    pub(super) fn new(config: &Config, framing: Framing, ecn: Ecn) -> Receiver {
        Receiver {
            config: config.clone(),
            framing,
            ecn,
            reassembly: Reassembly::new(config.time_wait),
            delayed: FlowTable::default(),
            timers: IndexedHeap::default(),
        }
    }

    pub(super) fn handle_syn(&self, packet: &Packet<Header>, out: &mut Outbox) {
        let mut answer = self.framing.control(packet.flow, packet.src, Header::SynAck);
        answer.ecn = self.ecn;
        out.packets.push_back(answer);
    }

    #[inline]
    pub(super) fn handle_data(&mut self, now: Time, packet: &Packet<Header>, number: u32, packets: u32, out: &mut Outbox) {
        let Some(Arrival { cumulative, arrived }) = self.reassembly.receive(now, packet, number, packets, &mut out.events)
        else {
            return;
        };
        let blocks = match arrived {
            Some(set) if self.config.sack && set.len() > cumulative => Blocks::answering(number, cumulative, set),
            _ => Blocks::NONE,
        };
        let echo = packet.ecn == Ecn::Marked;
        if self.config.ack_every > 1 {
            // The packet is in order, is not the last one, and nothing beyond it has arrived.
            let in_order = number + 1 == cumulative && arrived.is_some_and(|set| set.len() == cumulative);
            return self.delay(now, packet, Delayed { src: packet.src, packets: 1, cumulative, echo }, in_order, blocks, out);
        }
        self.acknowledge(packet.flow, packet.src, Header::Ack { echo, cumulative, blocks }, out);
    }

    /// Delayed acknowledgements (RFC 5681 §4.2) with the state machine of RFC 8257 §3.2: a change of marking is acknowledged at once.
    fn delay(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        mut new: Delayed,
        in_order: bool,
        blocks: Blocks,
        out: &mut Outbox,
    ) {
        let flow = packet.flow;
        if let Some(slot) = self.delayed.slot_of(flow) {
            let before = self.delayed.remove(slot);
            self.timers.remove(slot);
            if before.echo == new.echo {
                new.packets += before.packets;
            } else {
                self.tell(flow, &before, Blocks::NONE, out);
            }
        }
        if !in_order || new.packets >= self.config.ack_every {
            return self.tell(flow, &new, blocks, out);
        }
        let slot = self.delayed.insert(flow, new);
        self.timers.set(slot, now + self.config.ack_delay);
    }

    fn tell(&self, flow: FlowId, what: &Delayed, blocks: Blocks, out: &mut Outbox) {
        let header = Header::Ack { echo: what.echo, cumulative: what.cumulative, blocks };
        self.acknowledge(flow, what.src, header, out);
    }

    #[inline]
    fn acknowledge(&self, flow: FlowId, to: NodeId, header: Header, out: &mut Outbox) {
        let mut answer = self.framing.control(flow, to, header);
        answer.ecn = self.ecn;
        out.packets.push_back(answer);
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|(at, _)| at)
    }

    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some((_, slot)) = self.timers.peek().filter(|(at, _)| *at <= now) {
            self.timers.remove(slot);
            let flow = self.delayed.flow_of(slot);
            let waiting = self.delayed.remove(slot);
            self.tell(flow, &waiting, Blocks::NONE, out);
        }
    }
}
