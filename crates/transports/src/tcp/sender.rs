//! The sending end of a host's flows.

use flowloom_core::{Event, Flow, FlowId, Gauge, Readings, Time};

use super::connection::Connections;
use super::controllers::{Controller, Kind};
use super::header::Blocks;
use super::sending::{Phase, Sending, ecn};
use super::{Config, Header, Outbox};
use crate::toolkit::{FlowTable, Framing, Timers};

/// All flows that this node sends.
pub(super) struct Sender {
    config: Config,
    framing: Framing,
    /// Whether duplicate acknowledgements indicate losses.
    fast_retransmit: bool,
    connections: Connections,
    flows: FlowTable<Sending>,
    timers: Timers,
}

impl Sender {
    pub(super) fn new(config: &Config, kind: Kind, framing: Framing, fast_retransmit: bool) -> Sender {
        Sender {
            config: config.clone(),
            framing,
            fast_retransmit,
            connections: Connections::new(kind),
            flows: FlowTable::default(),
            timers: Timers::default(),
        }
    }

    pub(super) fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox) {
        let (connection, needs_handshake) = self.connections.take(now, flow.dst, &self.config);
        let due = connection.rtt.due(now, &self.config.timeouts());
        let phase = if needs_handshake { Phase::Connecting } else { Phase::Open };
        let slot = self.flows.insert(flow.id, Sending::new(flow, self.framing.packets(flow.size), connection, phase));
        self.timers.set(slot, due);
        if needs_handshake {
            self.request_connection(now, slot, out);
        } else {
            self.fill_window(now, slot, 0, out);
        }
    }

    fn request_connection(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.time_handshake(now);
        let mut packet = self.framing.control(state.flow, state.dst, Header::Syn);
        packet.ecn = ecn(state.connection.controller.reacts_to_marks());
        out.packets.push_back(packet);
    }

    /// The other end has agreed on a connection.
    pub(super) fn handle_syn_ack(&mut self, now: Time, flow: FlowId, out: &mut Outbox) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if state.phase == Phase::Connecting {
            state.establish(now);
            self.timers.set(slot, state.connection.rtt.due(now, &self.config.timeouts()));
            self.fill_window(now, slot, 0, out);
        }
    }

    #[inline]
    pub(super) fn handle_ack(&mut self, now: Time, flow: FlowId, ack: (bool, u32, Blocks), out: &mut Outbox) {
        let (echo, cumulative, blocks) = ack;
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if cumulative > state.sent {
            return; // it acknowledges packets that were never sent
        }
        let before = state.first_missing();
        let known = state.acked.len();
        if cumulative > before {
            state.acked.insert_below(cumulative);
        }
        for range in blocks.ranges(cumulative).filter(|range| range.end <= state.sent) {
            state.acked.insert_range(range);
        }
        let advance = state.first_missing() - before;
        state.inform_controller(advance, echo, &self.config);
        state.take_sample(now);
        if state.first_missing() == state.packets {
            return self.complete(now, slot, out);
        }
        if advance > 0 {
            state.timeouts = 0;
            state.duplicates = 0;
            self.timers.set(slot, state.connection.rtt.due(now, &self.config.timeouts()));
        }
        if echo && state.may_cut() {
            state.cut(now, &self.config, &self.framing);
        } else if advance > 0 && state.may_grow(echo, &self.config) {
            state.grow(advance, &self.config, &self.framing);
        }
        state.note_echo(echo);
        if state.phase == Phase::Open && !self.fast_retransmit {
            if advance > 0 {
                self.fill_window(now, slot, 0, out);
            }
            return;
        }
        let is_duplicate = advance == 0 && cumulative == before && (!self.config.sack || state.acked.len() > known);
        self.detect_losses(now, slot, advance, is_duplicate, out);
    }

    /// Detects losses by an acknowledgement, and sends what is now allowed.
    fn detect_losses(&mut self, now: Time, slot: u32, advance: u32, is_duplicate: bool, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        match state.phase {
            Phase::Connecting => {}
            Phase::Loss => {
                state.leave_loss_if_complete();
                self.fill_window(now, slot, 0, out);
            }
            Phase::Open => {
                state.duplicates += u32::from(is_duplicate);
                if state.is_hole_lost(&self.config) {
                    state.enter_recovery(&self.config);
                    self.resend_first(now, slot, out);
                    self.recover(now, slot, out);
                } else {
                    let limited_transmit = if is_duplicate { state.duplicates.min(2) } else { 0 };
                    self.fill_window(now, slot, limited_transmit, out);
                }
            }
            Phase::Recovery => {
                if state.leave_recovery_if_complete(&self.config) {
                    return self.fill_window(now, slot, 0, out);
                }
                if !self.config.sack && advance > 0 {
                    state.deflate(advance);
                    self.resend_first(now, slot, out);
                } else if !self.config.sack && is_duplicate {
                    state.inflate();
                }
                self.recover(now, slot, out);
            }
        }
    }

    fn resend_first(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        let number = state.resend_first();
        out.packets.push_back(state.packet(now, number, &self.framing));
    }

    /// Sends what fast recovery allows.
    fn recover(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        if !self.config.sack {
            return self.fill_window(now, slot, 0, out);
        }
        let state = &mut self.flows[slot];
        while let Some(number) = state.next_in_recovery(&self.config) {
            out.packets.push_back(state.packet(now, number, &self.framing));
        }
    }

    /// Sends what the window allows.
    #[inline]
    fn fill_window(&mut self, now: Time, slot: u32, limited_transmit: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        while let Some(number) = state.next_in_window(limited_transmit) {
            out.packets.push_back(state.packet(now, number, &self.framing));
        }
    }

    fn complete(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = self.flows.remove(slot);
        self.timers.remove(slot);
        self.connections.release(now, state.dst, state.connection, &self.config);
        out.events.push_back(Event::Acknowledged { flow: state.flow });
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(slot) = self.timers.expired(now) {
            self.time_out(now, slot, out);
        }
    }

    fn time_out(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.timeouts += 1;
        out.events.push_back(Event::TimedOut { flow: state.flow, in_a_row: state.timeouts });
        if state.phase == Phase::Connecting {
            state.connection.rtt.back_off();
            self.timers.set(slot, state.connection.rtt.due(now, &self.config.timeouts()));
            return self.request_connection(now, slot, out);
        }
        state.time_out(&self.config);
        self.timers.set(slot, state.connection.rtt.due(now, &self.config.timeouts()));
        self.fill_window(now, slot, 0, out);
    }

    /// Tells what it knows of a flow; see [`GAUGES`](super::GAUGES).
    pub(super) fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], self.framing.full_payload() as f64);
        readings.tell(Gauge::WINDOW, state.connection.window * payload);
        readings.tell(Gauge::IN_FLIGHT, f64::from(state.flight()) * payload);
        readings.tell_span(Gauge::RTT, state.connection.rtt.smoothed());
        if let Some(alpha) = state.connection.controller.alpha() {
            readings.tell(Gauge::MARKED, alpha);
        }
    }

    pub(super) fn unsent_from(&self, flow: FlowId) -> Option<u64> {
        let slot = self.flows.slot_of(flow)?;
        Some(self.framing.full_payload() * u64::from(self.flows[slot].sent))
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Bytes, Duration, NodeId, WireProfile};

    use super::*;
    use crate::tcp::{MarkedGrowth, RecoveryAfterCut, TimeoutAfterCut};

    const FLOW: FlowId = FlowId(3);

    /// A DCTCP sender with one flow of this many packets. The estimate stays at `initial_alpha`.
    fn sender(packets: u64, config: Config) -> Sender {
        let framing = Framing::new(NodeId(0), &WireProfile::IP_1500);
        let mut sender = Sender::new(&Config { gain: 0.0, ..config }, Kind::Dctcp, framing, true);
        let (src, dst, size) = (NodeId(0), NodeId(1), Bytes::new(1460 * packets));
        let flow =
            Flow { id: FLOW, src, dst, size, start: Time::ZERO, deadline: None, tenant: 0, coflow: None, background: false };
        sender.open(Time::ZERO, &flow, &mut Outbox::default());
        sender
    }

    fn acknowledge(sender: &mut Sender, cumulative: u32, echo: bool) {
        sender.handle_ack(Time::ZERO, FLOW, (echo, cumulative, Blocks::NONE), &mut Outbox::default());
    }

    fn time_out(sender: &mut Sender) {
        let at = sender.next_timeout().expect("a timer") + Duration::from_ms(10_000);
        sender.handle_timeout(at, &mut Outbox::default());
    }

    fn state(sender: &Sender) -> &Sending {
        &sender.flows[sender.flows.slot_of(FLOW).expect("a flow under way")]
    }

    /// Slow start lasts until the first mark, at a window of 5. The mark costs nothing, as alpha is 0. From there on, congestion
    /// avoidance grows the window by 1/window. Packets up to the sixth were sent before the cut.
    #[test]
    fn which_acknowledgements_grow_the_window_depends_on_their_echo_and_on_the_cut() {
        let echoes = [false, true, true, true, false, false, false];
        let (one, two) = (5.2, 5.2 + 1.0 / 5.2);
        let three = two + 1.0 / two;
        let four = three + 1.0 / three;
        for (growth_under_marks, expected) in [
            (MarkedGrowth::Unmarked, [5.0, 5.0, 5.0, 5.0, one, two, three]),
            (MarkedGrowth::AfterFirst, [5.0, 5.0, one, two, three, four, four + 1.0 / four]),
            (MarkedGrowth::NextWindow, [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, one]),
        ] {
            let mut sender =
                sender(100, Config { initial_window: 4, initial_alpha: 0.0, growth_under_marks, ..Config::default() });
            for (number, (echo, window)) in (1..).zip(echoes.into_iter().zip(expected)) {
                acknowledge(&mut sender, number, echo);
                let found = state(&sender).connection.window;
                assert!((found - window).abs() < 1e-12, "{growth_under_marks:?}, packet {number}: {found}, not {window}");
            }
        }
    }

    /// A window of 16 is cut to 8. The timer expires in the same window, or in the next one, in which 9 packets are outstanding.
    #[test]
    fn a_timeout_after_a_cut_halves_the_threshold_or_not() {
        for (timeout_after_cut, same_window, next_window) in
            [(TimeoutAfterCut::Halve, 4.0, 4.5), (TimeoutAfterCut::OncePerWindow, 8.0, 4.5), (TimeoutAfterCut::Keep, 8.0, 8.0)]
        {
            let config = Config { initial_window: 16, initial_alpha: 1.0, timeout_after_cut, ..Config::default() };
            let cut = |config: &Config| {
                let mut sender = sender(1000, config.clone());
                acknowledge(&mut sender, 1, true);
                assert_eq!((state(&sender).connection.window, state(&sender).connection.threshold), (8.0, 8.0));
                sender
            };
            let mut early = cut(&config);
            time_out(&mut early);
            assert_eq!((state(&early).connection.window, state(&early).connection.threshold), (1.0, same_window));
            time_out(&mut early);
            assert_eq!(state(&early).connection.threshold, same_window, "once for the same packets");
            let mut late = cut(&config);
            acknowledge(&mut late, 16, false);
            acknowledge(&mut late, 17, false);
            assert_eq!(state(&late).sent - state(&late).first_missing(), 9);
            time_out(&mut late);
            assert_eq!(state(&late).connection.threshold, next_window);
            // A timeout answers a loss: the next one halves in any case.
            for _ in 0..2 {
                let all = state(&late).sent;
                acknowledge(&mut late, all, false);
            }
            time_out(&mut late);
            assert_eq!(state(&late).connection.threshold, 2.0);
        }
    }

    /// A window of 16 is cut to 8 for a mark. Then packets 2, 3 and 4 arrive, and packet 1 is lost.
    #[test]
    fn fast_recovery_after_a_cut_halves_the_window_or_not() {
        for (recovery_after_cut, window) in [(RecoveryAfterCut::Halve, 4.0), (RecoveryAfterCut::OncePerWindow, 8.0)] {
            let config = Config { initial_window: 16, initial_alpha: 1.0, recovery_after_cut, ..Config::default() };
            let mut sender = sender(1000, config);
            acknowledge(&mut sender, 1, true);
            assert_eq!(state(&sender).connection.window, 8.0);
            let blocks = |end| Blocks::new(1, std::iter::once(2..end));
            for end in 3..=5 {
                sender.handle_ack(Time::ZERO, FLOW, (false, 1, blocks(end)), &mut Outbox::default());
            }
            assert_eq!((state(&sender).phase, state(&sender).connection.window), (Phase::Recovery, window));
        }
    }

    /// 12 packets, 10 of them in the initial window: the first acknowledgement releases the other two. Later acknowledgements do not
    /// show that a larger window is needed.
    #[test]
    fn what_is_acknowledged_when_nothing_is_left_to_send_grows_the_window_only_without_validation() {
        for (window_validation, expected) in [(true, 11.0), (false, 21.0)] {
            let mut sender = sender(12, Config { initial_window: 10, window_validation, ..Config::default() });
            for number in 1..=11 {
                acknowledge(&mut sender, number, false);
            }
            assert_eq!(state(&sender).connection.window, expected);
        }
    }
}
