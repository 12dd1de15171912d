//! ExpressPass's receiving side: requests, data and stops.

use flowloom_core::{Packet, Time};

use super::ExpressPass;
use super::credits::{Credits, Echo};
use super::header::Header;
use super::scheme::Rules;
use crate::toolkit::{Outbox, Reassembly};

pub(super) struct Receiver {
    reassembly: Reassembly,
    pub credits: Credits<ExpressPass>,
}

impl Receiver {
    pub fn new(rules: &Rules<ExpressPass>, seed: u64) -> Receiver {
        Receiver { reassembly: Reassembly::new(rules.spans.time_wait), credits: Credits::new(seed) }
    }

    /// Handles a request for credits for `remaining` of a flow's `packets`. The first credit leaves at once.
    pub fn request(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        packets: u32,
        remaining: u32,
        rules: &Rules<ExpressPass>,
        out: &mut Outbox<Header>,
    ) {
        if self.reassembly.cumulative(now, packet.flow, packets) >= packets {
            return out.packets.push_back(rules.framing.control(packet.flow, packet.src, Header::Ack));
        }
        match self.credits.slot_of(packet.flow) {
            Some(slot) => self.credits.flow_mut(slot).hear(now),
            None => self.credits.start(now, packet, remaining, (), now, rules, out),
        }
    }

    /// Sends the credits that are due.
    pub fn timeout(&mut self, now: Time, rules: &Rules<ExpressPass>, out: &mut Outbox<Header>) {
        while let Some(slot) = self.credits.due(now, rules) {
            self.credits.send(now, slot, rules, out);
        }
    }

    /// Handles packet `number` of a flow's `packets`, which answers the credit in `echo`.
    #[allow(clippy::too_many_arguments)] // the fields of one packet
    pub fn data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        packets: u32,
        echo: Echo,
        rules: &Rules<ExpressPass>,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        let Some(arrival) = self.reassembly.receive(now, packet, number, packets, &mut out.events) else { return };
        let (missing, complete) = (arrival.cumulative, arrival.arrived.is_none());
        let slot = self.credits.slot_of(flow);
        if complete {
            out.packets.push_back(rules.framing.control(flow, packet.src, Header::Ack));
            if let Some(slot) = slot {
                self.credits.stop(slot);
            }
            return;
        }
        // Where the sender has stopped the credits, its repeated stop finds what is missing.
        let Some(slot) = slot else { return };
        let state = self.credits.flow_mut(slot);
        state.hear(now);
        state.count_answer(now, echo, rules);
        // Packets keep their order on one path, so a gap is a loss.
        if number > missing && state.nack(now, missing) {
            out.packets.push_back(rules.framing.control(flow, packet.src, Header::Nack { from: missing }));
        }
    }

    /// Handles the end of a sender's need for credits. If it is a repeated stop (`again`), all packets under way have arrived or are lost.
    pub fn stop(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        packets: u32,
        again: bool,
        rules: &Rules<ExpressPass>,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        if let Some(slot) = self.credits.slot_of(flow) {
            self.credits.stop(slot);
        }
        if again {
            let missing = self.reassembly.cumulative(now, flow, packets);
            let answer = if missing >= packets { Header::Ack } else { Header::Nack { from: missing } };
            out.packets.push_back(rules.framing.control(flow, packet.src, answer));
        }
    }
}
