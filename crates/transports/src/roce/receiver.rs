//! The receiving end.

use std::collections::VecDeque;

use flowloom_core::{Duration, Event, Packet, Time};

use super::{Kind, Recovery, Service};
use crate::toolkit::{FlowTable, RangeSet, TimeWait};

/// One flow that is being received.
struct Receiving {
    packets: u32,
    /// Under [`Recovery::GoBackN`], there are no holes in it.
    arrived: RangeSet,
    /// The packet that was missing when the last NACK was sent, and when the next one about the same packet may be sent.
    nacked: Option<(u32, Time)>,
    /// Before this, no congestion is reported.
    quiet_until: Time,
}

/// All flows that a node receives, and those that have just finished.
pub(super) struct Receiver {
    flows: FlowTable<Receiving>,
    finished: TimeWait,
    recovery: Recovery,
    nack_interval: Duration,
    /// The least time from one report of congestion of a flow to the next; `None` if there are none.
    congestion_interval: Option<Duration>,
}

impl Receiver {
    pub fn new(service: &Service) -> Receiver {
        Receiver {
            flows: FlowTable::default(),
            finished: TimeWait::new(service.spans.time_wait),
            recovery: service.reliability.recovery,
            nack_interval: service.reliability.nack_interval,
            congestion_interval: service.congestion_interval,
        }
    }

    /// Handles data packet `number` of `packets`, which asks for an acknowledgement or does not. Returns the answer, if there is one. Packets that contradict themselves or
    /// others of their flow are ignored.
    #[inline]
    pub fn receive<H>(
        &mut self,
        now: Time,
        packet: &Packet<H>,
        [number, packets]: [u32; 2],
        asks: bool,
        events: &mut VecDeque<Event>,
    ) -> Option<Kind> {
        if number >= packets {
            return None;
        }
        let flow = packet.flow;
        let slot = match self.flows.slot_of(flow) {
            Some(slot) if self.flows[slot].packets != packets => return None,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return Some(Kind::Ack { cumulative: packets }),
            None => {
                let arrived = RangeSet::default();
                self.flows.insert(flow, Receiving { packets, arrived, nacked: None, quiet_until: Time::ZERO })
            }
        };
        let state = &mut self.flows[slot];
        let expected = state.arrived.first_missing();
        if number > expected && self.recovery == Recovery::GoBackN {
            return state.discard(now, number, self.nack_interval);
        }
        let is_new = state.arrived.insert(number);
        if is_new {
            events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
        }
        let cumulative = state.arrived.first_missing();
        if cumulative == packets {
            events.push_back(Event::Received { flow });
            self.flows.remove(slot);
            self.finished.insert(now, flow);
            return Some(Kind::Ack { cumulative });
        }
        if number > expected && is_new {
            return Some(Kind::Nack { cumulative, arrived: number });
        }
        // What was received twice and what has filled a gap is acknowledged at once.
        let is_plain = is_new && cumulative == number + 1;
        (asks || !is_plain).then_some(Kind::Ack { cumulative })
    }

    /// Whether the sender of this packet, which was marked, must be told of congestion now. That of a flow which has finished need not.
    #[inline]
    pub fn must_tell_of_congestion<H>(&mut self, now: Time, packet: &Packet<H>) -> bool {
        let Some(interval) = self.congestion_interval else { return false };
        let Some(slot) = self.flows.slot_of(packet.flow) else { return false };
        let state = &mut self.flows[slot];
        let tells = now >= state.quiet_until;
        if tells {
            state.quiet_until = now + interval;
        }
        tells
    }
}

impl Receiving {
    /// The answer to a packet after a gap, which is thrown away.
    #[cold]
    fn discard(&mut self, now: Time, number: u32, interval: Duration) -> Option<Kind> {
        let expected = self.arrived.first_missing();
        let told = self.nacked.is_some_and(|(missing, again)| missing == expected && now < again);
        if told {
            return None;
        }
        self.nacked = Some((expected, now + interval));
        Some(Kind::Nack { cumulative: expected, arrived: number })
    }
}
