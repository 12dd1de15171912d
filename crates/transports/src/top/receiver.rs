//! TOP's receiving side: new flows, data, and what is missing.

use flowloom_core::{FlowId, NodeId, Packet, Readings, Time};

use super::header::Header;
use super::priorities::Standing;
use super::scheme::Inbound;
use super::{LEVEL, Top};
use crate::expresspass::credits::{Credits, Echo};
use crate::expresspass::scheme::Rules;
use crate::toolkit::{Arrival, Outbox, Reassembly};

/// How many missing packets a receiver asks for at a time.
const NACKS_MOST: u32 = 64;

pub(super) struct Receiver {
    reassembly: Reassembly,
    pub tokens: Credits<Top>,
}

/// Asks for the missing packets of a flow from `from` to `to`, and returns the first for which it did not ask.
fn ask(arrival: &Arrival<'_>, from: u32, to: u32, mut nack: impl FnMut(u32)) -> u32 {
    let is_missing = |number: u32| arrival.arrived.is_none_or(|arrived| !arrived.contains(number));
    let after = |number: u32| arrival.arrived.map_or(number + 1, |arrived| arrived.next_missing_after(number));
    let mut number = from.max(arrival.cumulative);
    if number < to && !is_missing(number) {
        number = after(number);
    }
    for _ in 0..NACKS_MOST {
        if number >= to {
            break;
        }
        nack(number);
        number = after(number);
    }
    number
}

impl Receiver {
    pub fn new(rules: &Rules<Top>, seed: u64) -> Receiver {
        Receiver { reassembly: Reassembly::new(rules.spans.time_wait), tokens: Credits::new(seed) }
    }

    /// Handles the SYNC of a flow, of which `remaining` packets want tokens and `unscheduled` come without. The first token leaves at once, or
    /// when packets that come without have had the time to arrive.
    pub fn sync(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        standing: Standing,
        [remaining, unscheduled]: [u32; 2],
        rules: &Rules<Top>,
        out: &mut Outbox<Header>,
    ) {
        let (flow, packets) = (packet.flow, standing.packets);
        if self.reassembly.cumulative(now, flow, packets) >= packets {
            return out.packets.push_back(rules.framing.control(flow, packet.src, Header::Ack));
        }
        if let Some(slot) = self.tokens.slot_of(flow) {
            return self.tokens.flow_mut(slot).hear(now);
        }
        let unscheduled = unscheduled.min(rules.node.unscheduled);
        let first = if unscheduled > 0 { now + rules.spans.rtt + rules.spans.slot * u64::from(unscheduled) } else { now };
        let inbound = Inbound { standing, unscheduled, reported: 0, reported_at: now };
        self.tokens.start(now, packet, remaining, inbound, first, rules, out);
    }

    /// Sends the tokens that are due.
    pub fn timeout(&mut self, now: Time, rules: &Rules<Top>, out: &mut Outbox<Header>) {
        while let Some(slot) = self.tokens.due(now, rules) {
            let unscheduled = std::mem::take(&mut self.tokens.flow_mut(slot).more.unscheduled);
            if unscheduled > 0 {
                let (flow, src) = self.tokens.ends(slot);
                self.ask_for_all(now, flow, src, unscheduled, rules, out);
            }
            self.tokens.send(now, slot, rules, out);
        }
    }

    /// Asks for what is missing of the first `packets` of a flow.
    fn ask_for_all(
        &mut self,
        now: Time,
        flow: FlowId,
        src: NodeId,
        packets: u32,
        rules: &Rules<Top>,
        out: &mut Outbox<Header>,
    ) {
        let arrival = self.reassembly.query(now, flow, packets);
        ask(&arrival, 0, packets, |number| {
            out.packets.push_back(rules.framing.control(flow, src, Header::Nack { number }));
        });
    }

    /// Handles packet `number` of a flow's `packets`, which answers the token in `echo`.
    #[allow(clippy::too_many_arguments)] // the fields of one packet
    pub fn data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        packets: u32,
        echo: Echo,
        rules: &Rules<Top>,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        let Some(arrival) = self.reassembly.receive(now, packet, number, packets, &mut out.events) else { return };
        let slot = self.tokens.slot_of(flow);
        let Some(arrived) = arrival.arrived else { return self.complete(packet, slot, rules, out) };
        // Where the sender has sent all packets, its repeated FIN finds what is missing.
        let Some(slot) = slot else { return };
        let state = self.tokens.flow_mut(slot);
        state.hear(now);
        state.count_answer(now, Echo { sent: rules.node.when(echo.sent), ..echo }, rules);
        state.more.standing.received = arrived.len();
        let newest = arrived.end() - 1;
        let lost_to = newest.saturating_sub(rules.node.reorder_window);
        if lost_to > arrival.cumulative {
            // The answer to an earlier request takes a round trip.
            let (more, patience) = (&state.more, state.rtt() * 2);
            let (waiting, again) = (more.reported > arrival.cumulative, now - more.reported_at > patience);
            let from = if again { 0 } else { more.reported };
            let reported = ask(&arrival, from, lost_to, |number| {
                out.packets.push_back(rules.framing.control(flow, packet.src, Header::Nack { number }));
            });
            let more = &mut state.more;
            (more.reported, more.reported_at) = (reported, if waiting && !again { more.reported_at } else { now });
        }
        if state.holds() {
            self.tokens.resume(now, slot, rules, out);
        }
    }

    fn complete(&mut self, packet: &Packet<Header>, slot: Option<u32>, rules: &Rules<Top>, out: &mut Outbox<Header>) {
        out.packets.push_back(rules.framing.control(packet.flow, packet.src, Header::Ack));
        if let Some(slot) = slot {
            self.tokens.stop(slot);
        }
    }

    /// Handles the end of a flow of `packets` packets. If it is a repeated FIN (`again`), all packets under way have arrived or are lost.
    pub fn fin(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        packets: u32,
        again: bool,
        rules: &Rules<Top>,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        let before = out.events.len();
        let arrival = if rules.node.priorities.sizes_are_unknown() {
            self.reassembly.end(now, flow, packets, &mut out.events)
        } else {
            self.reassembly.query(now, flow, packets)
        };
        let is_complete = arrival.cumulative >= packets;
        let is_news = out.events.len() > before;
        if let Some(slot) = self.tokens.slot_of(flow) {
            self.tokens.stop(slot);
        }
        // A flow that was complete before has been acknowledged.
        if is_complete && (again || is_news) {
            out.packets.push_back(rules.framing.control(flow, packet.src, Header::Ack));
        } else if again {
            self.ask_for_all(now, flow, packet.src, packets, rules, out);
        }
    }

    /// Tells the rate and the priority of a flow's tokens.
    pub fn gauge(&self, now: Time, flow: FlowId, rules: &Rules<Top>, readings: &mut Readings<'_>) {
        self.tokens.gauge(flow, rules, readings);
        if let Some(more) = self.tokens.more_of(flow) {
            readings.tell(LEVEL, rules.node.priorities.rank(&more.standing, now).level.into());
        }
    }
}
