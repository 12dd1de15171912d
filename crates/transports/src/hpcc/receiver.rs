//! The receiving end: packets are taken in order only, and a gap makes the sender go back.

use std::collections::VecDeque;

use flowloom_core::{Duration, Event, Packet, Time};

use super::{Header, Kind};
use crate::toolkit::{FlowTable, TimeWait};

/// One flow that is being received.
struct Receiving {
    packets: u32,
    /// All packets below this one have arrived.
    expected: u32,
    /// The packet that was missing when the last NACK was sent, and when the next one about the same packet may be sent.
    nacked: Option<(u32, Time)>,
}

/// All flows that a node receives, and those that have just finished.
pub(super) struct Receiver {
    flows: FlowTable<Receiving>,
    finished: TimeWait,
    nack_interval: Duration,
}

impl Receiver {
    pub fn new(nack_interval: Duration, time_wait: Duration) -> Receiver {
        Receiver { flows: FlowTable::default(), finished: TimeWait::new(time_wait), nack_interval }
    }

    /// Handles data packet `number` of `packets`. Returns the answer, if there is one: a gap is reported once per interval, and packets
    /// that contradict themselves or others of their flow are ignored.
    #[inline]
    pub fn receive(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        packets: u32,
        events: &mut VecDeque<Event>,
    ) -> Option<Kind> {
        if number >= packets {
            return None;
        }
        let flow = packet.flow;
        let slot = match self.flows.slot_of(flow) {
            Some(slot) if self.flows[slot].packets != packets => return None,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return Some(Kind::Ack { cumulative: packets, nack: false }),
            None => self.flows.insert(flow, Receiving { packets, expected: 0, nacked: None }),
        };
        let state = &mut self.flows[slot];
        if number > state.expected {
            return state.gap(now, self.nack_interval);
        }
        if number == state.expected {
            state.expected += 1;
            events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
        }
        let cumulative = state.expected;
        if cumulative == packets {
            events.push_back(Event::Received { flow });
            self.flows.remove(slot);
            self.finished.insert(now, flow);
        }
        Some(Kind::Ack { cumulative, nack: false })
    }
}

impl Receiving {
    /// The answer to a packet after a gap.
    #[cold]
    fn gap(&mut self, now: Time, interval: Duration) -> Option<Kind> {
        let told = self.nacked.is_some_and(|(missing, again)| missing == self.expected && now < again);
        if told {
            return None;
        }
        self.nacked = Some((self.expected, now + interval));
        Some(Kind::Ack { cumulative: self.expected, nack: true })
    }
}
