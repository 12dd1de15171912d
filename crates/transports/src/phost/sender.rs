//! pHost's sending side (§3.1, Algorithm 1): requests, tokens in hand, and which of them to use next.

use flowloom_core::{Bytes, Flow, FlowId, Gauge, NodeId, Packet, Readings, Time};

use super::config::{FreeTokenRule, Policy, RETRY_DOUBLINGS_MAX};
use super::header::Header;
use super::host::{Rules, count};
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RangeSet};

/// A flow that this node sends.
struct Sending {
    dst: NodeId,
    size: Bytes,
    packets: u32,
    start: Time,
    deadline: Time,
    /// The payload of its coflow, in packets.
    coflow: u32,
    /// Packets that the receiver misses, according to its tokens.
    remaining: u32,
    tenant: u16,
    doublings: u32,
    last_heard: Time,
    sent: RangeSet,
}

/// A token that the sender holds.
#[derive(Clone, Copy)]
struct Token {
    flow: u32,
    packet: u32,
    serial: u32,
    class: u8,
    expires: Time,
}

pub(super) struct Sender {
    flows: FlowTable<Sending>,
    /// There are few: a token is valid for 1.5 slots, in which only a handful can arrive.
    tokens: Vec<Token>,
    /// When to repeat each flow's request. A flow that is heard from postpones it, which is noticed only when the timer expires.
    retries: IndexedHeap<Time>,
    /// Packets sent by tenant, counted if the policy needs them.
    served: Vec<u64>,
}

impl Sender {
    pub fn new() -> Sender {
        Sender { flows: FlowTable::default(), tokens: Vec::new(), retries: IndexedHeap::default(), served: Vec::new() }
    }

    pub fn open(&mut self, now: Time, flow: &Flow, rules: &Rules, out: &mut Outbox<Header>) {
        let packets = rules.framing.packets(flow.size);
        let slot = self.flows.insert(
            flow.id,
            Sending {
                dst: flow.dst,
                size: flow.size,
                packets,
                start: flow.start,
                deadline: flow.deadline.unwrap_or(Time::MAX),
                coflow: rules.framing.coflow_packets(flow),
                remaining: packets,
                tenant: flow.tenant,
                doublings: 0,
                last_heard: now,
                sent: RangeSet::default(),
            },
        );
        self.request(slot, rules, out);
        let free = rules.free_tokens(packets);
        let free_slots = rules.spans.slot * u64::from(free);
        // Packets on free tokens take their time before any answer can arrive.
        self.retries.set(slot, now + rules.spans.retry + free_slots);
        let expires = now + free_slots + rules.spans.token_life;
        let class = rules.data_class(packets);
        self.tokens.extend((0..free).map(|packet| Token { flow: slot, packet, serial: packet + 1, class, expires }));
    }

    fn request(&self, slot: u32, rules: &Rules, out: &mut Outbox<Header>) {
        let flow = &self.flows[slot];
        let Sending { size, deadline, coflow, tenant, .. } = *flow;
        let header = Header::Rts { size, deadline, coflow, tenant };
        out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), flow.dst, header));
    }

    /// Handles a token, which is valid for 1.5 slots from now (§3.1).
    #[allow(clippy::too_many_arguments)] // the fields of one packet
    pub fn token(&mut self, now: Time, flow: FlowId, packet: u32, serial: u32, remaining: u32, class: u8, rules: &Rules) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let sending = &mut self.flows[slot];
        if packet >= sending.packets {
            return;
        }
        sending.remaining = remaining;
        sending.last_heard = now;
        if std::mem::take(&mut sending.doublings) > 0 {
            self.retries.set(slot, now + rules.spans.retry);
        }
        self.tokens.push(Token { flow: slot, packet, serial, class, expires: now + rules.spans.token_life });
    }

    /// The receiver has the whole flow. Returns whether that is new.
    pub fn acknowledged(&mut self, flow: FlowId) -> bool {
        let Some(slot) = self.flows.slot_of(flow) else { return false };
        self.flows.remove(slot);
        self.retries.remove(slot);
        self.tokens.retain(|token| token.flow != slot);
        true
    }

    /// Whether the sender holds any token. It may have expired.
    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Uses the best unexpired token (§3.3), by the policy, then the earlier start, then the earlier expiry.
    pub fn data(&mut self, now: Time, rules: &Rules) -> Option<Packet<Header>> {
        // Mostly there is one token, which needs no rank.
        if let [only] = *self.tokens.as_slice() {
            self.tokens.clear();
            return (only.expires >= now).then(|| self.packet(&only, rules));
        }
        let mut best: Option<(usize, (u64, u64, Time, Time))> = None;
        let mut index = 0;
        while index < self.tokens.len() {
            let token = self.tokens[index];
            if token.expires < now {
                self.tokens.swap_remove(index);
                continue;
            }
            let key = self.rank(&token, rules.policy);
            if best.is_none_or(|(_, least)| key < least) {
                best = Some((index, key));
            }
            index += 1;
        }
        let token = self.tokens.swap_remove(best?.0);
        Some(self.packet(&token, rules))
    }

    fn rank(&self, token: &Token, policy: Policy) -> (u64, u64, Time, Time) {
        let flow = &self.flows[token.flow];
        let remaining = u64::from(flow.remaining);
        match policy {
            Policy::Srpt => (0, remaining, flow.start, token.expires),
            Policy::Edf => (flow.deadline.as_ps(), remaining, flow.start, token.expires),
            Policy::SmallestCoflow => (flow.coflow.into(), remaining, flow.start, token.expires),
            Policy::TenantFair => {
                let served = self.served.get(usize::from(flow.tenant)).copied().unwrap_or(0);
                (served, remaining, flow.start, token.expires)
            }
        }
    }

    fn packet(&mut self, token: &Token, rules: &Rules) -> Packet<Header> {
        let id = self.flows.flow_of(token.flow);
        let flow = &mut self.flows[token.flow];
        if rules.policy == Policy::TenantFair {
            count(&mut self.served, flow.tenant);
        }
        let header = Header::Data { packet: token.packet, serial: token.serial, size: flow.size };
        let mut packet = rules.framing.data(id, flow.dst, flow.size, token.packet, header);
        packet.class = token.class;
        packet.retransmission = !flow.sent.insert(token.packet);
        packet
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.retries.peek().map(|(at, _)| at)
    }

    /// Repeats the requests of flows that were not heard from for an interval.
    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        while let Some(slot) = self.retries.expired(now, |slot| self.flows[slot].last_heard + rules.spans.retry) {
            let flow = &mut self.flows[slot];
            flow.doublings = (flow.doublings + 1).min(RETRY_DOUBLINGS_MAX);
            self.retries.set(slot, now + rules.spans.retry * (1 << flow.doublings));
            self.request(slot, rules, out);
        }
    }

    /// The number of a flow's free tokens. The sender and the receiver both use this rule.
    pub fn free_tokens(rule: FreeTokenRule, count: u32, packets: u32) -> u32 {
        match rule {
            FreeTokenRule::ShortFlows if packets <= count => packets,
            FreeTokenRule::ShortFlows => 0,
            FreeTokenRule::EveryFlow => packets.min(count),
        }
    }

    /// Tells the valid tokens of a flow, and its class.
    pub fn gauge(&self, now: Time, flow: FlowId, rules: &Rules, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let tokens = self.tokens.iter().filter(|token| token.flow == slot && token.expires >= now).count();
        readings.tell(Gauge::TOKENS, tokens as f64);
        readings.tell(Gauge::PRIORITY, rules.data_class(self.flows[slot].packets).into());
    }
}
