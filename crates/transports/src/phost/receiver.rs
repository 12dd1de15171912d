//! pHost's receiving side (§3.1, Algorithm 2; §3.2): one token per slot to one of the pending flows.

use flowloom_core::{Bytes, Event, FlowId, NodeId, Packet, Readings, Time};

use super::TOKENS_OUT;
use super::config::{FreeTokenAccount, Policy};
use super::header::Header;
use super::host::{Rules, count};
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RangeSet, TimeWait};

/// Whether a pending flow is paused, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// It may get tokens.
    No,
    /// Too many of its tokens went unanswered (§3.2): its sender serves other flows.
    Downgraded,
    /// Every packet has had a token. The missing packets get another one later (§3.4).
    Waiting,
}

/// The content of a request.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub size: Bytes,
    pub deadline: Time,
    pub coflow: u32,
    pub tenant: u16,
}

/// A flow that this node receives.
struct Receiving {
    src: NodeId,
    packets: u32,
    tenant: u16,
    class: u8,
    pause: Pause,
    /// Order of arrival at this node, to break ties.
    order: u32,
    deadline: Time,
    /// The payload of its coflow, in packets.
    coflow: u32,
    received: RangeSet,
    /// Tokens issued, free ones included. It is the serial number of the last one.
    issued: u32,
    /// The largest serial number that came back in data.
    answered: u32,
    /// When this many tokens have been issued, every missing packet has had one.
    goal: u32,
    /// The packet that the last token named.
    last_packet: u32,
    last_token: Time,
}

impl Receiving {
    fn remaining(&self) -> u32 {
        self.packets - self.received.len()
    }
    fn unanswered(&self) -> u32 {
        self.issued.saturating_sub(self.answered)
    }
    /// The next missing packet after the last one that had a token. After the end, the search starts again from the first hole.
    fn next_packet(&self) -> u32 {
        let next = self.received.next_missing_after(self.last_packet);
        if self.issued == 0 || next >= self.packets { self.received.first_missing() } else { next }
    }
}

/// The order of service, least first: the value that the policy compares, then the order of arrival.
type Rank = (u64, u32);

pub(super) struct Receiver {
    flows: FlowTable<Receiving>,
    /// Flows that may get a token now: one heap per tenant under [`Policy::TenantFair`], otherwise one heap in all.
    ready: Vec<IndexedHeap<Rank>>,
    by_tenant: bool,
    /// When each paused flow may get tokens again.
    paused: IndexedHeap<Time>,
    finished: TimeWait,
    /// Packets received by tenant, counted if the policy needs them.
    served: Vec<u64>,
    /// No token is issued before this time: one per slot.
    next_token: Time,
    /// No token is issued before this time: slots are left to packets on free tokens.
    hold_until: Time,
    arrivals: u32,
}

impl Receiver {
    pub fn new(rules: &Rules) -> Receiver {
        Receiver {
            flows: FlowTable::default(),
            ready: vec![IndexedHeap::default()],
            by_tenant: rules.policy == Policy::TenantFair,
            paused: IndexedHeap::default(),
            finished: TimeWait::new(rules.spans.time_wait),
            served: Vec::new(),
            next_token: Time::ZERO,
            hold_until: Time::ZERO,
            arrivals: 0,
        }
    }

    /// Handles a request: the flow is pending from now on.
    pub fn request(&mut self, now: Time, packet: &Packet<Header>, request: Request, rules: &Rules, out: &mut Outbox<Header>) {
        let id = packet.flow;
        if let Some(slot) = self.flows.slot_of(id) {
            // Data overtook the request, which has more information; or the request is repeated.
            let heap = self.heap(slot);
            let was_ready = self.ready[heap].remove(slot).is_some();
            let flow = &mut self.flows[slot];
            (flow.deadline, flow.coflow, flow.tenant) = (request.deadline, request.coflow, request.tenant);
            self.make_heap(request.tenant);
            if was_ready {
                self.resume(slot, rules);
            }
        } else if self.finished.refresh(now, id) {
            out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
        } else {
            self.admit(now, packet, request, rules);
        }
        self.issue(now, rules, out);
    }

    /// Adds a flow, unless its size is impossibly large.
    fn admit(&mut self, now: Time, packet: &Packet<Header>, request: Request, rules: &Rules) -> Option<u32> {
        let Request { size, deadline, coflow, tenant } = request;
        let packets = rules.framing.checked_packets(size)?;
        let free = rules.free_tokens(packets);
        self.arrivals += 1;
        self.make_heap(tenant);
        let slot = self.flows.insert(
            packet.flow,
            Receiving {
                src: packet.src,
                packets,
                tenant,
                class: rules.data_class(packets),
                pause: Pause::No,
                order: self.arrivals,
                deadline,
                coflow,
                received: RangeSet::default(),
                issued: free,
                answered: free,
                goal: packets,
                last_packet: free.saturating_sub(1),
                last_token: now,
            },
        );
        let room = rules.spans.slot * u64::from(free);
        self.hold_until = match rules.free_token_account {
            FreeTokenAccount::SetByShort if free == 0 => self.hold_until,
            FreeTokenAccount::Set | FreeTokenAccount::SetByShort => now + room,
            // The sum over many flows may pass the last instant of a run. All later times are equivalent.
            FreeTokenAccount::Add => self.hold_until.max(now).min(Time::LAST) + room,
        };
        if free == packets {
            self.pause(slot, Pause::Waiting, now + rules.spans.free_reissue * u64::from(free));
        } else {
            self.resume(slot, rules);
        }
        Some(slot)
    }

    /// Handles packet `number` of a flow of `size`, which answers token `serial`. Reports its new bytes, and acknowledges a complete
    /// flow.
    #[allow(clippy::too_many_arguments)] // the fields of one packet
    pub fn data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        size: Bytes,
        number: u32,
        serial: u32,
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let id = packet.flow;
        let slot = match self.flows.slot_of(id) {
            Some(slot) => slot,
            None if self.finished.refresh(now, id) => {
                return out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
            }
            None => match self.admit(now, packet, Request { size, deadline: Time::MAX, coflow: u32::MAX, tenant: 0 }, rules) {
                Some(slot) => slot,
                None => return,
            },
        };
        let flow = &mut self.flows[slot];
        flow.answered = flow.answered.max(serial.min(flow.issued));
        if number < flow.packets && flow.received.insert(number) {
            if self.by_tenant {
                count(&mut self.served, flow.tenant);
            }
            if packet.payload_bytes > 0 {
                out.events.push_back(Event::Delivered { flow: id, offset: packet.offset, bytes: packet.payload() });
            }
            if flow.received.is_complete(flow.packets) {
                out.events.push_back(Event::Received { flow: id });
                out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
                self.finish(now, id, slot);
                return self.issue(now, rules, out);
            }
        }
        match flow.pause {
            Pause::No => self.resume(slot, rules),
            Pause::Downgraded if flow.unanswered() < rules.downgrade_threshold => self.resume(slot, rules),
            Pause::Downgraded | Pause::Waiting => {}
        }
        self.issue(now, rules, out);
    }

    fn finish(&mut self, now: Time, id: FlowId, slot: u32) {
        let heap = self.heap(slot);
        self.ready[heap].remove(slot);
        self.paused.remove(slot);
        self.flows.remove(slot);
        self.finished.insert(now, id);
    }

    /// The heap in which the flow waits for tokens.
    fn heap(&self, slot: u32) -> usize {
        if self.by_tenant { usize::from(self.flows[slot].tenant) } else { 0 }
    }

    fn make_heap(&mut self, tenant: u16) {
        if self.by_tenant && self.ready.len() <= usize::from(tenant) {
            self.ready.resize_with(usize::from(tenant) + 1, IndexedHeap::default);
        }
    }

    fn pause(&mut self, slot: u32, pause: Pause, until: Time) {
        let heap = self.heap(slot);
        self.ready[heap].remove(slot);
        self.flows[slot].pause = pause;
        self.paused.set(slot, until);
    }

    /// Makes a flow ready, or updates the rank of a ready one.
    fn resume(&mut self, slot: u32, rules: &Rules) {
        let flow = &mut self.flows[slot];
        if flow.pause != Pause::No {
            flow.pause = Pause::No;
            self.paused.remove(slot);
        }
        let remaining = u64::from(flow.remaining());
        let rank = match rules.policy {
            Policy::Srpt | Policy::TenantFair => remaining,
            Policy::Edf => flow.deadline.as_ps(),
            Policy::SmallestCoflow => flow.coflow.into(),
        };
        let order = flow.order;
        let heap = self.heap(slot);
        self.ready[heap].set(slot, (rank, order));
    }

    /// Ends the pauses that are over.
    fn unpause(&mut self, now: Time, rules: &Rules) {
        while let Some((until, slot)) = self.paused.peek()
            && until <= now
        {
            let flow = &mut self.flows[slot];
            let again = flow.last_token + rules.spans.downgrade;
            if flow.pause == Pause::Waiting {
                flow.goal = flow.issued + flow.remaining();
                if flow.unanswered() >= rules.downgrade_threshold && again > now {
                    self.pause(slot, Pause::Downgraded, again);
                    continue;
                }
            }
            if flow.unanswered() >= rules.downgrade_threshold {
                // All tokens but this many count as answered, so this many may be issued before the flow is downgraded again.
                let tolerated = rules.downgrade_threshold - rules.downgrade_retry;
                flow.answered = flow.issued - tolerated.min(flow.issued);
            }
            self.resume(slot, rules);
        }
    }

    /// The flow to serve next.
    fn pick(&self) -> Option<u32> {
        let first = |heap: &IndexedHeap<Rank>| heap.peek().map(|(_, slot)| slot);
        if let [only] = self.ready.as_slice() {
            return first(only);
        }
        let served = |tenant: usize| self.served.get(tenant).copied().unwrap_or(0);
        let tenants =
            self.ready.iter().enumerate().filter_map(|(tenant, heap)| first(heap).map(|slot| (served(tenant), tenant, slot)));
        tenants.min().map(|(_, _, slot)| slot)
    }

    /// Sends a token if one is due and a flow may get it.
    fn issue(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        if now < self.next_token.max(self.hold_until) {
            return;
        }
        self.unpause(now, rules);
        let Some(slot) = self.pick() else { return };
        self.next_token = now + rules.spans.slot;
        let flow = &mut self.flows[slot];
        let packet = flow.next_packet();
        flow.issued += 1;
        flow.last_packet = packet;
        flow.last_token = now;
        let header = Header::Token { packet, serial: flow.issued, remaining: flow.remaining(), class: flow.class };
        let (src, issued, goal, unanswered) = (flow.src, flow.issued, flow.goal, flow.unanswered());
        out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), src, header));
        if issued >= goal {
            self.pause(slot, Pause::Waiting, now + rules.spans.reissue);
        } else if unanswered >= rules.downgrade_threshold {
            self.pause(slot, Pause::Downgraded, now + rules.spans.downgrade);
        }
    }

    /// When a token may be due next.
    pub fn next_timeout(&self) -> Option<Time> {
        let slot = self.next_token.max(self.hold_until);
        let is_ready = match self.ready.as_slice() {
            [only] => !only.is_empty(),
            all => all.iter().any(|heap| !heap.is_empty()),
        };
        if is_ready {
            return Some(slot);
        }
        self.paused.peek().map(|(until, _)| until.max(slot))
    }

    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        self.issue(now, rules, out);
    }

    /// Tells the unanswered tokens of a flow.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        if let Some(slot) = self.flows.slot_of(flow) {
            readings.tell(TOKENS_OUT, self.flows[slot].unanswered().into());
        }
    }
}
