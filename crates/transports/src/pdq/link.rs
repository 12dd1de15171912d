//! What a node knows of the flows on one direction of a link, and the rate that it gives each of them (PDQ §3.3).

use flowloom_core::{Bytes, Duration, FlowId, NodeId, Rate, Time};

use super::config::LinkRules;
use super::header::{Feedback, LineRate, Pauser, Request, RoundTrip};

/// A flow on the list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: FlowId,
    /// The rate that the flow's last acknowledgement carried to its sender; zero while it is paused.
    rate: Rate,
    deadline: Time,
    transmission: Duration,
    rtt: RoundTrip,
    /// The round-trip time in which early start counts.
    early_start_rtt: RoundTrip,
    /// When a packet of the flow last passed.
    heard: Time,
    /// The rate that a packet was promised, if that is higher, and the time until which its acknowledgement is expected.
    promised: Rate,
    promised_until: Time,
}

impl Entry {
    /// The order of criticality: EDF, then the shortest remaining transmission, then the flow id. Smaller is more critical.
    fn key(&self) -> (Time, Duration, FlowId) {
        (self.deadline, self.transmission, self.flow)
    }
    /// The rate that it may have now or in a moment.
    fn used(&self, now: Time) -> Rate {
        if now < self.promised_until { self.rate.max(self.promised) } else { self.rate }
    }
    fn is_sending(&self) -> bool {
        self.rate > Rate::default()
    }
}

/// What asks for a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A packet of a flow that is sending.
    Data,
    /// The probe of a flow that is paused or new.
    Probe,
}

/// One direction of a link, at the node that sends on it. Data and probes pass `Link::forward` before they leave; their
/// acknowledgements come back to the same node and pass `Link::reverse`.
///
/// The list is sorted, so the flows that a packet's flow must wait for are those before it. Most packets belong to the flows at the top,
/// and find their place after a step or two.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its node, as packets name it.
    node: Pauser,
    /// The rate of the link.
    rate: Rate,
    /// The same, as packets carry it.
    line: LineRate,
    /// What the rate controller leaves to flows.
    capacity: Rate,
    /// The most critical flows, in order.
    list: Vec<Entry>,
    /// How many of them are sending.
    sending: u32,
    /// The sum of their rates, in bit/s.
    committed: u64,
    /// The flow whose probe was accepted last, and the time until which no other probe is accepted.
    accepted: Option<FlowId>,
    dampened_until: Time,
    /// The moving average of the round-trip times that packets carry.
    rtt: Duration,
    /// When the rate controller runs next.
    control_at: Time,
    leftover: Leftover,
}

impl Link {
    /// A link of `node` that sends at `rate`. Its flows are assumed to have the round-trip time `rtt` until packets carry their own.
    pub fn new(node: NodeId, rate: Rate, rtt: Duration) -> Link {
        Link {
            node: node.into(),
            rate,
            line: rate.into(),
            capacity: rate,
            list: Vec::new(),
            sending: 0,
            committed: 0,
            accepted: None,
            dampened_until: Time::ZERO,
            rtt,
            control_at: Time::ZERO,
            leftover: Leftover { share: rate.as_bps() as f64, arrived: 0, since: Time::ZERO },
        }
    }

    /// Counts a packet that is to be sent on the link.
    #[inline]
    pub fn count(&mut self, size: u32) {
        self.leftover.arrived += u64::from(size);
    }

    /// Handles a data packet or a probe (Algorithm 1): lowers its rate to what the flow may have here, or pauses the flow. `waiting` is the
    /// queue in front of the packet.
    pub(super) fn forward(
        &mut self,
        rules: &LinkRules,
        now: Time,
        waiting: Bytes,
        flow: FlowId,
        kind: Kind,
        request: &mut Request,
    ) {
        self.control(rules, now, waiting, request.rtt.into());
        request.slowest = request.slowest.min(self.line);
        if request.pauser.is_some_and(|node| node != self.node) {
            // Another node pauses the flow, so it needs no place here.
            self.remove(flow);
            return;
        }
        let Some(at) = self.admit(rules, now, flow, request) else {
            let granted = self.leftover_share().min(request.rate);
            self.answer(request, granted);
            return;
        };
        let mut granted = self.available(rules, now, at).min(request.rate);
        if !self.list[at].is_sending() && !self.accepts(rules, now, flow, kind, granted, request.slowest) {
            granted = Rate::default();
        }
        let entry = &mut self.list[at];
        entry.promised = if rules.reserve_promises && granted > entry.rate { granted } else { Rate::default() };
        entry.promised_until = now + self.rtt;
        self.answer(request, granted);
    }

    /// Whether a flow that has no rate here may have the rate that is left for it. Dampening concerns flows that do not send yet, so it
    /// applies to probes only. Data on its way may come when the flow has lost its place here, because a link further on has paused it for
    /// a moment. If dampening held back these packets too, or if they started it again, several busy links on one path would stand still.
    ///
    /// What a flow can use, `usable`, may be little of a fast link.
    fn accepts(&mut self, rules: &LinkRules, now: Time, flow: FlowId, kind: Kind, rate: Rate, usable: LineRate) -> bool {
        let probes = kind == Kind::Probe;
        let dampened = probes && now < self.dampened_until && self.accepted != Some(flow);
        if dampened || rate == Rate::default() || (rate.as_bps() as f64) < usable.as_bps() * rules.accept_min {
            return false;
        }
        if probes {
            self.accepted = Some(flow);
            self.dampened_until = now + self.rtt.scale(rules.dampening_rtts);
        }
        true
    }

    fn answer(&self, request: &mut Request, granted: Rate) {
        request.rate = granted;
        request.pauser = (granted == Rate::default()).then_some(self.node);
    }

    /// Handles an acknowledgement (Algorithm 3): commits the rate that its data packet was promised on its way.
    pub(super) fn reverse(&mut self, rules: &LinkRules, now: Time, flow: FlowId, feedback: &mut Feedback) {
        match feedback.pauser {
            Some(node) if node != self.node => {
                self.remove(flow);
                feedback.rate = Rate::default();
                return;
            }
            Some(_) => feedback.rate = Rate::default(),
            None => {}
        }
        let place = self.position(flow);
        if let Some(at) = place {
            self.list[at].heard = now;
            self.commit(at, feedback.rate);
        }
        // A flow that is not on the list comes after all that are (suppressed probing).
        if place.is_some() || feedback.pauser.is_some() {
            feedback.probe_interval = feedback.probe_interval.max(rules.probe_interval(place.unwrap_or(self.list.len())));
        }
    }

    /// Forgets a flow.
    pub(super) fn remove(&mut self, flow: FlowId) {
        if let Some(at) = self.position(flow) {
            self.commit(at, Rate::default());
            self.list.remove(at);
        }
    }

    fn position(&self, flow: FlowId) -> Option<usize> {
        self.list.iter().position(|entry| entry.flow == flow)
    }

    fn commit(&mut self, at: usize, rate: Rate) {
        let before = std::mem::replace(&mut self.list[at].rate, rate);
        self.committed = self.committed - before.as_bps() + rate.as_bps();
        self.sending = self.sending + u32::from(rate > Rate::default()) - u32::from(before > Rate::default());
    }

    /// Updates the flow's entry, or makes one, and returns its place. `None` if the list is full of more critical flows.
    fn admit(&mut self, rules: &LinkRules, now: Time, flow: FlowId, request: &Request) -> Option<usize> {
        let entry = Entry {
            flow,
            rate: Rate::default(),
            deadline: request.deadline,
            transmission: request.transmission,
            rtt: request.rtt,
            early_start_rtt: request.early_start_rtt,
            heard: now,
            promised: Rate::default(),
            promised_until: Time::ZERO,
        };
        if let Some(at) = self.position(flow) {
            let Entry { rate, promised, promised_until, .. } = self.list[at];
            return Some(self.place(at, Entry { rate, promised, promised_until, ..entry }));
        }
        let most = rules.list_length(self.sending);
        if self.list.len() >= most {
            if self.list[most - 1].key() < entry.key() {
                return None;
            }
            while self.list.len() >= most {
                self.commit(self.list.len() - 1, Rate::default());
                self.list.pop();
            }
        }
        self.list.push(entry);
        Some(self.place(self.list.len() - 1, entry))
    }

    /// Writes an entry at place `at` and moves it to where it belongs.
    fn place(&mut self, mut at: usize, entry: Entry) -> usize {
        while at > 0 && entry.key() < self.list[at - 1].key() {
            self.list[at] = self.list[at - 1];
            at -= 1;
        }
        while at + 1 < self.list.len() && self.list[at + 1].key() < entry.key() {
            self.list[at] = self.list[at + 1];
            at += 1;
        }
        self.list[at] = entry;
        at
    }

    /// The rate that more critical flows leave to the flow at place `at` (Algorithm 2). Flows that are nearly finished do not count, up to
    /// a number of round trips in total, so that the next flow starts before the link falls idle (early start).
    fn available(&self, rules: &LinkRules, now: Time, at: usize) -> Rate {
        let (mut used, mut credit) = (0, 0.0);
        for entry in &self.list[..at] {
            let rtts = || entry.transmission.as_ps() as f64 / f64::from(entry.early_start_rtt.as_ps().max(1.0));
            if credit < rules.early_start_rtts && rtts() < rules.early_start_rtts {
                credit += rtts();
            } else {
                used += entry.used(now).as_bps();
                if used >= self.capacity.as_bps() {
                    return Rate::default();
                }
            }
        }
        Rate::from_bps(self.capacity.as_bps().saturating_sub(used))
    }

    /// The rate of each flow that is not on the list.
    fn leftover_share(&self) -> Rate {
        let left = self.capacity.as_bps().saturating_sub(self.committed);
        Rate::from_bps(left.min(self.leftover.share as u64))
    }

    /// Averages round-trip times, and adapts the capacity and the leftover share to what has arrived.
    #[inline]
    fn control(&mut self, rules: &LinkRules, now: Time, waiting: Bytes, rtt: Duration) {
        self.rtt = (self.rtt * 7 + rtt) / 8;
        if now >= self.leftover.since + self.rtt {
            self.leftover.update(rules, now, self.rate, waiting, self.rtt);
        }
        if now >= self.control_at {
            self.control_at = now + self.rtt.scale(rules.rate_control_rtts);
            self.capacity = drained(self.rate, waiting, self.rtt);
            self.expire(rules, now);
        }
    }

    /// Forgets flows that have been silent for too long: their TERM was lost, or their sender died.
    fn expire(&mut self, rules: &LinkRules, now: Time) {
        for at in (0..self.list.len()).rev() {
            let entry = &self.list[at];
            let silence =
                Duration::from(entry.rtt).max(self.rtt).checked_scale(rules.expiry_rtts(at)).unwrap_or(Duration::LONGEST);
            if now.saturating_since(entry.heard) > silence {
                self.remove(entry.flow);
            }
        }
    }
}

/// The rate controller (§3.3.3): what is left of `rate` if the queue is to drain in two round trips.
fn drained(rate: Rate, waiting: Bytes, rtt: Duration) -> Rate {
    let drain = waiting.get() as f64 * 8.0 / (2.0 * rtt.as_secs_f64());
    Rate::from_bps(rate.as_bps().saturating_sub(drain as u64))
}

/// RCP for the flows that are not on the list. There is no count of them: as in RCP, their number is estimated by the capacity over the
/// share.
#[derive(Clone, Debug)]
struct Leftover {
    /// In bit/s.
    share: f64,
    /// Bytes that have arrived for the link since the last update.
    arrived: u64,
    since: Time,
}

impl Leftover {
    /// The share never falls below this part of the link's rate, from which it can grow again.
    const SHARE_MIN: f64 = 1e-3;

    fn update(&mut self, rules: &LinkRules, now: Time, rate: Rate, waiting: Bytes, rtt: Duration) {
        let (span, rtt) = ((now - self.since).as_secs_f64(), rtt.as_secs_f64());
        let rate = rate.as_bps() as f64;
        let spare = rate - self.arrived as f64 * 8.0 / span;
        let queue = waiting.get() as f64 * 8.0 / rtt;
        let change = (span / rtt).min(1.0) * (rules.rcp_alpha * spare - rules.rcp_beta * queue) / rate;
        self.share = (self.share * (1.0 + change)).clamp(rate * Self::SHARE_MIN, rate);
        self.arrived = 0;
        self.since = now;
    }
}

#[cfg(test)]
mod tests;
