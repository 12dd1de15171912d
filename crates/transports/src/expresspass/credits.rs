//! The credits that a receiver sends: each flow's at the rate that the flow's feedback control sets.

use flowloom_core::{Duration, FlowId, Gauge, NodeId, Packet, Readings, Time};

use super::CREDIT_RATE;
use super::feedback::{Control, Outcomes};
use super::scheme::{Rules, Scheme};
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RandomStream};

/// What a data packet says of the credit that it answers.
#[derive(Clone, Copy)]
pub(crate) struct Echo {
    pub credit: u32,
    /// When this receiver sent it.
    pub sent: Time,
}

/// A flow that gets credits. This is soft state: if it is lost, the sender's next request creates it again.
pub(crate) struct Crediting<F> {
    src: NodeId,
    control: Control,
    /// The round-trip time of credit and data, smoothed once it `is_measured`.
    rtt: Duration,
    is_measured: bool,
    /// The sequence number of the next credit. It may wrap around.
    next: u32,
    /// The oldest credit whose fate is not known.
    unknown: u32,
    /// When the last credit left.
    sent: Time,
    /// Whether the next credit waits because those under way may suffice.
    holds: bool,
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
    /// What the transport knows of the flow.
    pub more: F,
}

/// The flows of one receiver that get credits.
pub(crate) struct Credits<S: Scheme> {
    flows: FlowTable<Crediting<S::Inbound>>,
    /// When each flow's next credit leaves.
    departures: IndexedHeap<Time>,
    random: RandomStream,
}

impl<S: Scheme> Credits<S> {
    pub fn new(seed: u64) -> Credits<S> {
        Credits { flows: FlowTable::default(), departures: IndexedHeap::default(), random: RandomStream::new(seed) }
    }

    /// The number of flows.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    #[inline]
    pub fn slot_of(&self, flow: FlowId) -> Option<u32> {
        self.flows.slot_of(flow)
    }

    /// The flow in a slot, and its sender.
    pub fn ends(&self, slot: u32) -> (FlowId, NodeId) {
        (self.flows.flow_of(slot), self.flows[slot].src)
    }

    #[inline]
    pub fn flow_mut(&mut self, slot: u32) -> &mut Crediting<S::Inbound> {
        &mut self.flows[slot]
    }

    /// Starts to send credits for `remaining` packets of the flow of this packet. The first leaves at `first`, which may be now.
    #[allow(clippy::too_many_arguments)] // what a request says
    pub fn start(
        &mut self,
        now: Time,
        request: &Packet<S::Header>,
        remaining: u32,
        more: S::Inbound,
        first: Time,
        rules: &Rules<S>,
        out: &mut Outbox<S::Header>,
    ) {
        let slot = self.flows.insert(
            request.flow,
            Crediting {
                src: request.src,
                control: Control::new(&rules.feedback, remaining),
                rtt: rules.spans.rtt,
                is_measured: false,
                next: 0,
                unknown: 0,
                sent: first,
                holds: false,
                known: 0,
                lost: 0,
                updated: first,
                opened: now,
                heard: now,
                answered: first,
                nacked: None,
                more,
            },
        );
        if first > now {
            self.departures.set(slot, first);
        } else {
            self.send(now, slot, rules, out);
        }
    }

    /// Sends a flow's next credit and plans the one after it.
    pub fn send(&mut self, now: Time, slot: u32, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let (flow, state) = (self.flows.flow_of(slot), &mut self.flows[slot]);
        let (header, class) = S::credit(rules, &state.more, now, state.next);
        let mut credit = rules.framing.control(flow, state.src, header);
        credit.size_bytes = credit.size_bytes - rules.credit_spread + self.random.below(2 * rules.credit_spread + 1);
        credit.class = class;
        out.packets.push_back(credit);
        state.next = state.next.wrapping_add(1);
        (state.sent, state.holds) = (now, false);
        let gap = rules.spans.slot.scale((1.0 + rules.jitter * self.random.around_zero()) / state.control.rate());
        self.departures.set(slot, now + gap.max(Duration::from_ps(1)));
    }

    /// When the next credit leaves.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.departures.peek().map(|(at, _)| at)
    }

    /// A flow whose next credit is due, at the rate of a control that knows all that came before. The caller sends it, or stops the flow's
    /// credits. A flow whose sender is gone gets no more.
    pub fn due(&mut self, now: Time, rules: &Rules<S>) -> Option<u32> {
        while let Some((at, slot)) = self.departures.peek()
            && at <= now
        {
            let state = &mut self.flows[slot];
            if now.saturating_since(state.heard) > rules.spans.quiet {
                self.stop(slot);
                continue;
            }
            state.count_silence(now, rules);
            state.adapt(now, rules);
            if state.suffices(rules) {
                // A credit under way may be lost without a sign, so one more leaves after a round trip.
                let again = state.sent + state.rtt;
                if now < again {
                    state.holds = true;
                    self.departures.set(slot, again);
                    continue;
                }
            }
            return Some(slot);
        }
        None
    }

    /// Sends a credit that was held back, if those under way no longer suffice. Each answer may tell of others that were lost.
    pub fn resume(&mut self, now: Time, slot: u32, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        if !self.flows[slot].suffices(rules) {
            self.send(now, slot, rules, out);
        }
    }

    /// Sends no more credits to a flow.
    pub fn stop(&mut self, slot: u32) {
        self.departures.remove(slot);
        self.flows.remove(slot);
    }

    /// Tells the rate of the payload that a flow's credits ask for, and the round-trip time of a credit and its data, if it has been measured.
    pub fn gauge(&self, flow: FlowId, rules: &Rules<S>, readings: &mut Readings<'_>) {
        let Some(slot) = self.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], rules.framing.full_payload() as f64);
        readings.tell(CREDIT_RATE, state.control.rate() * payload * 8e3 / rules.spans.slot.as_ps() as f64);
        readings.tell_span(Gauge::RTT, if state.is_measured { state.rtt } else { Duration::ZERO });
    }

    /// What the transport knows of a flow that gets credits.
    pub fn more_of(&self, flow: FlowId) -> Option<&S::Inbound> {
        self.slot_of(flow).map(|slot| &self.flows[slot].more)
    }
}

impl<F> Crediting<F> {
    /// The round-trip time.
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Whether the next credit waits because those under way may suffice.
    #[inline]
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// Whether as many credits are under way as packets are missing, as far as the receiver may know.
    #[inline]
    fn suffices<S: Scheme<Inbound = F>>(&self, rules: &Rules<S>) -> bool {
        S::missing(rules, &self.more).is_some_and(|missing| self.next.wrapping_sub(self.unknown) >= missing)
    }

    /// The sender has sent something.
    pub fn hear(&mut self, now: Time) {
        self.heard = now;
    }

    /// Counts the credit that a data packet answers, and those before it that were not answered as lost.
    pub fn count_answer<S: Scheme>(&mut self, now: Time, echo: Echo, rules: &Rules<S>) {
        let gap = echo.credit.wrapping_sub(self.unknown);
        // A credit of an earlier request, one that was counted as lost before, or one that was never sent.
        if echo.sent < self.opened || echo.sent > now || gap >= self.next.wrapping_sub(self.unknown) {
            return self.count_late_answer(now, echo, rules);
        }
        let sample = (now - echo.sent).min(rules.spans.rtt_max);
        self.rtt = if self.is_measured { (self.rtt * 4 + sample) / 5 } else { sample };
        self.is_measured = true;
        self.answered = now;
        self.unknown = echo.credit.wrapping_add(1);
        self.known += gap + 1;
        self.lost += gap;
    }

    /// Where packets of one flow may overtake each other, a credit that was counted as lost may have been overtaken only.
    fn count_late_answer<S: Scheme>(&mut self, now: Time, echo: Echo, rules: &Rules<S>) {
        if rules.reorders && (self.opened..=now).contains(&echo.sent) {
            self.lost = self.lost.saturating_sub(1);
        }
    }

    /// Counts all credits under way as lost if none was answered for some round trips. Only data reveals lost credits, so a flow whose credits
    /// are all lost would otherwise keep its rate.
    fn count_silence<S: Scheme>(&mut self, now: Time, rules: &Rules<S>) {
        let waiting = self.next.wrapping_sub(self.unknown);
        let silent = now.saturating_since(self.answered.max(self.updated));
        // `silence_rtts` is at least 1, so most calls need not multiply.
        if waiting > 0 && silent >= self.rtt && silent >= self.rtt.scale(rules.silence_rtts) {
            self.known += waiting;
            self.lost += waiting;
            self.unknown = self.next;
        }
    }

    /// Changes the rate if a round trip has passed since the last change and the fate of a credit is known. As in the authors' simulator, this is
    /// done when a credit is sent, not when data arrives.
    fn adapt<S: Scheme>(&mut self, now: Time, rules: &Rules<S>) {
        if self.known > 0 && now.saturating_since(self.updated) >= self.rtt {
            self.update(now, rules);
        }
    }

    fn update<S: Scheme>(&mut self, now: Time, rules: &Rules<S>) {
        let outcomes = Outcomes { credits: self.known, lost: self.lost, elapsed: now - self.updated };
        self.control.update(&rules.feedback, outcomes, rules.spans.slot, self.rtt);
        (self.known, self.lost, self.updated) = (0, 0, now);
    }

    /// Whether a NACK for this packet is due: the answer to one for the same packet takes a round trip. The caller sends it.
    pub fn nack(&mut self, now: Time, missing: u32) -> bool {
        let due = self.nacked.is_none_or(|(packet, at)| packet != missing || now - at > self.rtt * 2);
        if due {
            self.nacked = Some((missing, now));
        }
        due
    }
}

#[cfg(test)]
impl<S: Scheme> Credits<S> {
    /// The credit rate of a flow that gets credits.
    pub fn rate_of(&self, flow: FlowId) -> Option<f64> {
        self.flows.slot_of(flow).map(|slot| self.flows[slot].control.rate())
    }
}
