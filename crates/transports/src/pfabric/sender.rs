//! The sending end of pFabric's flows.

use std::collections::VecDeque;

use flowloom_core::{Bytes, Event, Flow, FlowId, Gauge, NodeId, Readings, Site, Time};

use super::{Config, Header, Outbox, Priority};
use crate::toolkit::{FlowTable, Framing, PathDealer, PathDeck, RangeSet, Timers};

/// How many packets of each path a sender that leaves out bad ones remembers. Losses are rare, since each keeps its flow waiting for a timeout, so it takes many packets to tell paths
/// apart. Beside a path of a quarter of the rate, three flows took 0.71 of the time that they take over all paths with 16, 0.43 with 64, 0.37 with 256, and 0.36 with 1024, with
/// which a flow that no path holds back loses time to paths that it leaves out by chance.
const REMEMBERED: u64 = 256;

/// The paths of a flow whose sender chooses them.
struct Choice {
    deck: PathDeck,
    /// The packets that were sent and not answered, with their labels, in the order of sending. A window of them is short enough to be searched.
    unanswered: VecDeque<(u32, Option<u16>)>,
}

impl Choice {
    /// The label of packet `number`, which is being sent.
    fn label(&mut self, number: u32, dealer: &mut PathDealer) -> Option<u16> {
        let label = dealer.draw(&mut self.deck);
        self.unanswered.push_back((number, label));
        label
    }

    /// All packets below `cumulative` have arrived, and packet `number` is answered. What became of the answers of the others is not known.
    fn answered(&mut self, number: u32, cumulative: u32) {
        if let Some(place) = self.unanswered.iter().position(|(sent, _)| *sent == number) {
            let (_, label) = self.unanswered.remove(place).expect("it was found");
            self.deck.tell(label, true);
        }
        while self.unanswered.front().is_some_and(|(sent, _)| *sent < cumulative) {
            self.unanswered.pop_front();
        }
    }

    /// The flow has timed out and sends all unanswered packets again.
    fn lost(&mut self) {
        for (_, label) in self.unanswered.drain(..) {
            self.deck.tell(label, false);
        }
    }
}

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    flow: FlowId,
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// The next packet to send. After a timeout it is the first unacknowledged one.
    next: u32,
    /// One past the highest packet ever sent.
    sent: u32,
    acked: RangeSet,
    /// In packets.
    window: u32,
    slow_start_threshold: u32,
    /// Acknowledgements towards the next additive increase.
    credit: u32,
    /// Consecutive timeouts.
    timeouts: u32,
    /// The priority number, if it is the same for all packets of the flow.
    fixed: u32,
    /// If the sender chooses paths.
    paths: Option<Box<Choice>>,
}

impl Sending {
    fn new(flow: &Flow, framing: &Framing, config: &Config) -> Sending {
        Sending {
            flow: flow.id,
            dst: flow.dst,
            size: flow.size,
            packets: framing.packets(flow.size),
            next: 0,
            sent: 0,
            acked: RangeSet::default(),
            window: config.initial_window,
            slow_start_threshold: u32::MAX,
            credit: 0,
            timeouts: 0,
            fixed: match config.priority {
                Priority::Deadline => flow.deadline.map_or(u32::MAX, |at| saturated(at.as_ps() / 1_000_000)),
                Priority::CoflowSize => framing.coflow_packets(flow),
                Priority::Remaining | Priority::BytesSent => 0,
            },
            paths: None,
        }
    }

    /// Bytes that are not acknowledged, cumulatively or selectively. The number saturates, since a flow beyond 4 GiB comes last anyway.
    fn remaining(&self, framing: &Framing) -> u32 {
        let full = framing.full_payload();
        let last = self.packets - 1;
        let short = full * u64::from(self.packets) - self.size.get();
        let acked = full * u64::from(self.acked.len()) - if self.acked.contains(last) { short } else { 0 };
        saturated(self.size.get() - acked)
    }

    /// Grows by one packet per acknowledgement below the threshold, and by one per window above.
    fn grow(&mut self, most: u32) {
        if self.window >= most {
            return;
        }
        self.credit += 1;
        if self.window < self.slow_start_threshold || self.credit >= self.window {
            self.window += 1;
            self.credit = 0;
        }
    }
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// All flows that this node sends.
pub(super) struct Sender {
    config: Config,
    framing: Framing,
    flows: FlowTable<Sending>,
    timers: Timers,
    dealer: PathDealer,
}

impl Sender {
    pub(super) fn new(config: &Config, framing: Framing, site: &Site<'_>) -> Sender {
        Sender {
            config: config.clone(),
            framing,
            flows: FlowTable::default(),
            timers: Timers::default(),
            dealer: PathDealer::new(site, config.avoid_paths.then_some(REMEMBERED)),
        }
    }

    pub(super) fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox) {
        let mut state = Sending::new(flow, &self.framing, &self.config);
        state.paths = self.dealer.deck(flow.dst).map(|deck| Box::new(Choice { deck, unanswered: VecDeque::new() }));
        let slot = self.flows.insert(flow.id, state);
        self.timers.set(slot, now + self.config.rto);
        self.transmit(slot, out);
    }

    pub(super) fn handle_ack(&mut self, now: Time, flow: FlowId, cumulative: u32, answers: Option<u32>, out: &mut Outbox) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if cumulative > state.packets || answers.is_some_and(|number| number >= state.packets) {
            return;
        }
        let before = state.acked.first_missing();
        if let Some(number) = answers {
            state.acked.insert(number);
            if let Some(paths) = &mut state.paths {
                paths.answered(number, cumulative);
            }
        }
        state.acked.insert_below(cumulative);
        if state.acked.is_complete(state.packets) {
            self.flows.remove(slot);
            self.timers.remove(slot);
            out.events.push_back(Event::Acknowledged { flow });
            return;
        }
        let was_probing = self.config.probe_after > 0 && state.timeouts >= self.config.probe_after;
        state.timeouts = 0;
        let advanced = state.acked.first_missing() > before;
        if advanced {
            state.grow(self.config.max_window);
        }
        // After a probe's answer, packets are sent again: they have a whole timeout, too.
        if advanced || was_probing {
            self.timers.set(slot, now + self.config.rto);
        }
        if advanced || was_probing || self.config.sack_clocking {
            self.transmit(slot, out);
        }
    }

    /// Sends what the window allows: packets below the first unacknowledged one plus the window plus the number of selectively
    /// acknowledged packets. It skips the latter.
    fn transmit(&mut self, slot: u32, out: &mut Outbox) {
        let remaining = self.flows[slot].remaining(&self.framing);
        let state = &mut self.flows[slot];
        let end = state.packets.min(state.acked.len().saturating_add(state.window));
        let mut number = state.next.max(state.acked.first_missing());
        while number < end {
            if state.acked.contains(number) {
                number = state.acked.next_missing_after(number);
                continue;
            }
            let priority = match self.config.priority {
                Priority::Remaining => remaining,
                Priority::Deadline | Priority::CoflowSize => state.fixed,
                // From 1, so that acknowledgements stay better than any data.
                Priority::BytesSent => saturated(self.framing.full_payload() * u64::from(number) + 1),
            };
            let path = state.paths.as_mut().and_then(|paths| paths.label(number, &mut self.dealer));
            let header = Header::Data { priority, number, packets: state.packets, path };
            let mut packet = self.framing.data(state.flow, state.dst, state.size, number, header);
            packet.class = 1;
            packet.retransmission = number < state.sent;
            out.packets.push_back(packet);
            number += 1;
            state.sent = state.sent.max(number);
        }
        state.next = number;
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(slot) = self.timers.expired(now) {
            self.timers.set(slot, now + self.config.rto);
            self.time_out(slot, out);
        }
    }

    fn time_out(&mut self, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.timeouts += 1;
        out.events.push_back(Event::TimedOut { flow: state.flow, in_a_row: state.timeouts });
        state.slow_start_threshold = (state.window / 2).max(2);
        state.window = 1;
        state.credit = 0;
        state.next = state.acked.first_missing();
        if let Some(paths) = &mut state.paths {
            paths.lost();
        }
        if self.config.probe_after > 0 && state.timeouts >= self.config.probe_after {
            out.packets.push_back(self.framing.control(state.flow, state.dst, Header::Probe { packets: state.packets }));
        } else {
            self.transmit(slot, out);
        }
    }

    /// Tells the window of a flow, and what it has on its way.
    pub(super) fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], self.framing.full_payload() as f64);
        readings.tell(Gauge::WINDOW, f64::from(state.window) * payload);
        readings.tell(Gauge::IN_FLIGHT, f64::from(state.next.saturating_sub(state.acked.len())) * payload);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::WireProfile;

    use super::*;

    fn flow(size: u64) -> Flow {
        let (src, dst) = (NodeId(0), NodeId(1));
        Flow {
            id: FlowId(0),
            src,
            dst,
            size: Bytes::new(size),
            start: Time::ZERO,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        }
    }

    #[test]
    fn remaining_counts_bytes_and_a_short_last_packet() {
        let framing = Framing::new(NodeId(0), &WireProfile::IP_1500);
        let mut state = Sending::new(&flow(2 * 1460 + 1), &framing, &Config::default());
        assert_eq!(state.remaining(&framing), 2921);
        state.acked.insert(2);
        assert_eq!(state.remaining(&framing), 2920);
        state.acked.insert(0);
        assert_eq!(state.remaining(&framing), 1460);
        let huge = Sending::new(&flow(1 << 33), &framing, &Config::default());
        assert_eq!(huge.remaining(&framing), u32::MAX);
    }

    #[test]
    fn the_window_doubles_per_round_trip_below_the_threshold_and_grows_by_one_above() {
        let framing = Framing::new(NodeId(0), &WireProfile::IP_1500);
        let mut state = Sending::new(&flow(1), &framing, &Config { initial_window: 1, ..Config::default() });
        state.slow_start_threshold = 4;
        let windows: Vec<u32> = (0..20)
            .map(|_| {
                state.grow(7);
                state.window
            })
            .collect();
        // One per acknowledgement up to 4; then 4 acknowledgements to 5, 5 to 6, 6 to 7, the most.
        assert_eq!(windows, [2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7, 7, 7]);
    }

    #[test]
    fn a_flow_takes_little_memory() {
        assert!(size_of::<Sending>() <= 128, "{} B", size_of::<Sending>());
    }
}
