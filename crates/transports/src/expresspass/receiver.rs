//! ExpressPass's receiving side: it sends each flow's credits at the rate that the flow's feedback control sets.

use flowloom_core::{Duration, NodeId, Packet, Time};

use super::CREDIT;
use super::config::Spans;
use super::feedback::{Control, Outcomes};
use super::header::Header;
use super::host::Rules;
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RandomStream, Reassembly};

/// What a data packet says of the credit that it answers.
#[derive(Clone, Copy)]
pub(super) struct Echo {
    pub credit: u32,
    /// When this receiver sent it.
    pub sent: Time,
}

/// A flow that gets credits. This is soft state: if it is lost, the sender's next request makes it anew.
struct Crediting {
    src: NodeId,
    control: Control,
    /// The round-trip time of credit and data, smoothed once it `is_measured`.
    rtt: Duration,
    is_measured: bool,
    /// The sequence number of the next credit. It may wrap around.
    next: u32,
    /// The oldest credit whose fate is not known.
    unknown: u32,
    /// Credits whose fate became known since the last update, and how many of them were lost.
    known: u32,
    lost: u32,
    updated: Time,
    /// When the sender asked for credits. Earlier credits were those of another request.
    opened: Time,
    /// When the last packet came from the sender.
    heard: Time,
    /// When the last credit was answered.
    answered: Time,
    /// The packet that the last NACK named, and when.
    nacked: Option<(u32, Time)>,
}

pub(super) struct Receiver {
    reassembly: Reassembly,
    flows: FlowTable<Crediting>,
    /// When each flow's next credit leaves.
    departures: IndexedHeap<Time>,
    random: RandomStream,
}

impl Receiver {
    pub fn new(spans: &Spans, seed: u64) -> Receiver {
        Receiver {
            reassembly: Reassembly::new(spans.time_wait),
            flows: FlowTable::default(),
            departures: IndexedHeap::default(),
            random: RandomStream::new(seed),
        }
    }

    /// The number of flows that get credits.
    #[cfg(test)]
    pub fn credited(&self) -> usize {
        self.flows.len()
    }

    /// Handles a request for credits for `remaining` of a flow's `packets`. The first credit leaves at once.
    pub fn request(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        packets: u32,
        remaining: u32,
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        if self.reassembly.cumulative(now, flow, packets) >= packets {
            return out.packets.push_back(rules.framing.control(flow, packet.src, Header::Ack));
        }
        if let Some(slot) = self.flows.slot_of(flow) {
            self.flows[slot].heard = now;
            return;
        }
        let slot = self.flows.insert(
            flow,
            Crediting {
                src: packet.src,
                control: Control::new(&rules.feedback, remaining),
                rtt: rules.spans.rtt,
                is_measured: false,
                next: 0,
                unknown: 0,
                known: 0,
                lost: 0,
                updated: now,
                opened: now,
                heard: now,
                answered: now,
                nacked: None,
            },
        );
        self.credit(now, slot, rules, out);
    }

    /// Sends a flow's next credit and plans the one after it.
    fn credit(&mut self, now: Time, slot: u32, rules: &Rules, out: &mut Outbox<Header>) {
        let (flow, state) = (self.flows.flow_of(slot), &mut self.flows[slot]);
        let mut credit = rules.framing.control(flow, state.src, Header::Credit { credit: state.next, sent: now });
        credit.size_bytes = credit.size_bytes - rules.credit_spread + self.random.below(2 * rules.credit_spread + 1);
        credit.class = CREDIT;
        out.packets.push_back(credit);
        state.next = state.next.wrapping_add(1);
        let gap = rules.spans.slot.scale((1.0 + rules.jitter * self.random.around_zero()) / state.control.rate());
        self.departures.set(slot, now + gap.max(Duration::from_ps(1)));
    }

    /// When the next credit leaves.
    pub fn next_timeout(&self) -> Option<Time> {
        self.departures.peek().map(|(at, _)| at)
    }

    /// Sends the credits that are due.
    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        while let Some((at, slot)) = self.departures.peek()
            && at <= now
        {
            let state = &mut self.flows[slot];
            if now.saturating_since(state.heard) > rules.spans.quiet {
                self.stop_credits(slot);
                continue;
            }
            state.count_silence(now, rules);
            self.credit(now, slot, rules, out);
        }
    }

    fn stop_credits(&mut self, slot: u32) {
        self.departures.remove(slot);
        self.flows.remove(slot);
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
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        let Some(arrival) = self.reassembly.receive(now, packet, number, packets, &mut out.events) else { return };
        let (missing, complete) = (arrival.cumulative, arrival.arrived.is_none());
        let slot = self.flows.slot_of(flow);
        if complete {
            out.packets.push_back(rules.framing.control(flow, packet.src, Header::Ack));
            if let Some(slot) = slot {
                self.stop_credits(slot);
            }
            return;
        }
        // Where the sender has stopped the credits, its repeated stop finds what is missing.
        let Some(slot) = slot else { return };
        let state = &mut self.flows[slot];
        state.heard = now;
        state.count_answer(now, echo, rules);
        // Packets keep their order on one path, so a gap is a loss.
        if number > missing && state.may_nack(now, missing) {
            state.nacked = Some((missing, now));
            out.packets.push_back(rules.framing.control(flow, packet.src, Header::Nack { from: missing }));
        }
    }

    /// Handles the end of a sender's need for credits. If the sender says so `again`, everything that was under way has arrived or is lost.
    pub fn stop(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        packets: u32,
        again: bool,
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let flow = packet.flow;
        if let Some(slot) = self.flows.slot_of(flow) {
            self.stop_credits(slot);
        }
        if again {
            let missing = self.reassembly.cumulative(now, flow, packets);
            let answer = if missing >= packets { Header::Ack } else { Header::Nack { from: missing } };
            out.packets.push_back(rules.framing.control(flow, packet.src, answer));
        }
    }
}

impl Crediting {
    /// Counts the credit that a data packet answers, and those before it that were not answered as lost. Changes the rate if a round trip
    /// has passed since the last change.
    fn count_answer(&mut self, now: Time, echo: Echo, rules: &Rules) {
        let gap = echo.credit.wrapping_sub(self.unknown);
        // A credit of an earlier request, one that was counted as lost before, or one that was never sent.
        if echo.sent < self.opened || echo.sent > now || gap >= self.next.wrapping_sub(self.unknown) {
            return;
        }
        let sample = (now - echo.sent).min(rules.spans.rtt_max);
        self.rtt = if self.is_measured { (self.rtt * 4 + sample) / 5 } else { sample };
        self.is_measured = true;
        self.answered = now;
        self.unknown = echo.credit.wrapping_add(1);
        self.known += gap + 1;
        self.lost += gap;
        if now - self.updated >= self.rtt {
            self.update(now, rules);
        }
    }

    /// Counts all credits under way as lost if none was answered for some round trips. Only data tells of lost credits, so a flow whose credits
    /// are all lost would otherwise go on at its rate.
    fn count_silence(&mut self, now: Time, rules: &Rules) {
        let waiting = self.next.wrapping_sub(self.unknown);
        let since = self.answered.max(self.updated);
        if waiting > 0 && now.saturating_since(since) >= self.rtt.scale(rules.silence_rtts) {
            self.known += waiting;
            self.lost += waiting;
            self.unknown = self.next;
            self.update(now, rules);
        }
    }

    fn update(&mut self, now: Time, rules: &Rules) {
        let outcomes = Outcomes { credits: self.known, lost: self.lost, elapsed: now - self.updated };
        self.control.update(&rules.feedback, outcomes, rules.spans.slot, self.rtt);
        (self.known, self.lost, self.updated) = (0, 0, now);
    }

    /// Whether a NACK for this packet is due: the answer to one for the same packet takes a round trip.
    fn may_nack(&self, now: Time, missing: u32) -> bool {
        self.nacked.is_none_or(|(packet, at)| packet != missing || now - at > self.rtt * 2)
    }
}

#[cfg(test)]
impl Receiver {
    /// The credit rate of a flow that gets credits.
    pub fn rate_of(&self, flow: flowloom_core::FlowId) -> Option<f64> {
        self.flows.slot_of(flow).map(|slot| self.flows[slot].control.rate())
    }
}
