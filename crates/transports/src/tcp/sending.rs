//! One flow that is being sent.

use flowloom_core::{Bytes, Ecn, Flow, FlowId, NodeId, Packet, Time};

use super::config::{MarkedGrowth, RecoveryAfterCut, TimeoutAfterCut};
use super::connection::Connection;
use super::controllers::{Controller, Progress};
use super::{Config, Header};
use crate::toolkit::{Framing, RangeSet};

/// The phase of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It waits for the handshake of a new connection.
    Connecting,
    /// No packet counts as lost.
    Open,
    /// Duplicate acknowledgements have shown a loss (fast recovery). The phase lasts until all that was outstanding then has arrived.
    Recovery,
    /// The timer has expired, and everything outstanding counts as lost.
    Loss,
}

/// Marks that no packet is being timed.
const UNTIMED: (u32, Time) = (u32::MAX, Time::MAX);

/// One flow that is being sent. It holds a connection until it is complete. Packets are numbered from 0.
pub(super) struct Sending {
    pub(super) flow: FlowId,
    pub(super) dst: NodeId,
    size: Bytes,
    pub(super) packets: u32,
    /// The next packet to send. After a timeout it is the first unacknowledged one.
    next: u32,
    /// One past the highest packet ever sent.
    pub(super) sent: u32,
    /// The scoreboard.
    pub(super) acked: RangeSet,
    pub(super) phase: Phase,
    /// Whether the window was used up when the flow could last send. Only then does it grow.
    limited: bool,
    /// The recovery or loss phase ends when all packets below this one have arrived.
    recover: u32,
    /// In recovery, all packets below this one that were found lost have been resent (RFC 6675: HighRxt).
    resent: u32,
    /// Whether the last outstanding packet was resent in this recovery (RFC 6675: RescueRxt).
    rescued: bool,
    /// The controller's round ends when a packet from here on is acknowledged.
    round_end: u32,
    /// The window is not cut again before a packet from here on is acknowledged.
    cut_end: u32,
    /// Whether the last reduction of the window answered a mark and not a loss.
    cut_for_mark: bool,
    /// Whether the last acknowledgement echoed a mark.
    echoed: bool,
    /// Duplicate acknowledgements since the last advance.
    pub(super) duplicates: u32,
    /// Consecutive timeouts.
    pub(super) timeouts: u32,
    /// The packet being timed, and since when.
    timed: (u32, Time),
    deadline: Option<Time>,
    pub(super) connection: Connection,
}

impl Sending {
    pub(super) fn new(flow: &Flow, packets: u32, connection: Connection, phase: Phase) -> Sending {
        Sending {
            flow: flow.id,
            dst: flow.dst,
            size: flow.size,
            packets,
            next: 0,
            sent: 0,
            acked: RangeSet::default(),
            phase,
            limited: true,
            recover: 0,
            resent: 0,
            rescued: false,
            round_end: 0,
            cut_end: 0,
            cut_for_mark: false,
            echoed: false,
            duplicates: 0,
            timeouts: 0,
            timed: UNTIMED,
            deadline: flow.deadline,
            connection,
        }
    }

    /// The first packet that is not acknowledged.
    #[inline]
    pub(super) fn first_missing(&self) -> u32 {
        self.acked.first_missing()
    }

    /// Packets below `end` that are neither acknowledged cumulatively nor selectively.
    fn unacked_below(&self, end: u32) -> u32 {
        let missing = self.first_missing();
        end.saturating_sub(missing) - if self.has_islands() { self.acked.count_in(missing..end.max(missing)) } else { 0 }
    }

    fn has_islands(&self) -> bool {
        self.acked.len() > self.first_missing()
    }

    /// Packets that are assumed to be in the network: FlightSize (RFC 5681), or after a timeout the packets that were sent again.
    #[inline]
    pub(super) fn flight(&self) -> u32 {
        if self.phase == Phase::Loss { self.unacked_below(self.next) } else { self.next - self.first_missing() }
    }

    /// Starts to time the request for a connection.
    pub(super) fn time_handshake(&mut self, now: Time) {
        self.timed = (0, now);
    }

    /// The other end has agreed on the connection. A repeated request gives no sample.
    pub(super) fn establish(&mut self, now: Time) {
        if self.timeouts == 0 {
            self.connection.rtt.sample(now - self.timed.1);
        }
        self.timed = UNTIMED;
        self.timeouts = 0;
        self.phase = Phase::Open;
    }

    /// A timed packet was acknowledged: takes the sample.
    #[inline]
    pub(super) fn take_sample(&mut self, now: Time) {
        if self.first_missing() > self.timed.0 {
            self.connection.rtt.sample(now - self.timed.1);
            self.timed = UNTIMED;
        }
    }

    /// Reports `packets` acknowledged packets to the controller, and the end of a round if it ends.
    #[inline]
    pub(super) fn inform_controller(&mut self, packets: u32, echo: bool, config: &Config) {
        self.connection.controller.acknowledged(packets, echo);
        if self.first_missing() > self.round_end {
            self.connection.controller.round_ends(config);
            self.round_end = self.next;
        }
    }

    /// Whether a mark is answered now: once per window, and not while a loss is being answered.
    #[inline]
    pub(super) fn may_cut(&self) -> bool {
        self.phase == Phase::Open && !self.is_window_cut() && self.connection.controller.reacts_to_marks()
    }

    /// Whether a packet that was sent before the last cut is still unacknowledged.
    #[inline]
    fn is_window_cut(&self) -> bool {
        self.first_missing() <= self.cut_end
    }

    /// Answers a mark (RFC 3168 §6.1.2).
    pub(super) fn cut(&mut self, now: Time, config: &Config, framing: &Framing) {
        let progress = self.progress(now, framing);
        let kept = self.connection.window * self.connection.controller.keeps(config, &progress);
        self.connection.window = kept.max(f64::from(config.min_window));
        self.connection.threshold = self.connection.window.max(2.0);
        self.cut_end = self.next;
        self.cut_for_mark = true;
    }

    fn progress(&self, now: Time, framing: &Framing) -> Progress {
        let packet_bytes = framing.full_payload();
        let bytes = |packets: u32| (packet_bytes * u64::from(packets)).min(self.size.get());
        Progress {
            now,
            window: self.connection.window,
            sent_bytes: bytes(self.sent),
            left_bytes: self.size.get() - bytes(self.first_missing()),
            packet_bytes,
            rtt: self.connection.rtt.smoothed(),
            deadline: self.deadline,
        }
    }

    /// Whether an acknowledgement of new packets grows the window, by its echo and the previous one. The window does not grow while
    /// fast recovery repairs a loss.
    #[inline]
    pub(super) fn may_grow(&self, echo: bool, config: &Config) -> bool {
        self.phase != Phase::Recovery
            && match config.growth_under_marks {
                MarkedGrowth::Unmarked => !echo,
                MarkedGrowth::AfterFirst => !echo || self.echoed,
                MarkedGrowth::NextWindow => !echo && (self.phase != Phase::Open || !self.is_window_cut()),
            }
    }

    /// Remembers the echo of an acknowledgement for the next one.
    #[inline]
    pub(super) fn note_echo(&mut self, echo: bool) {
        self.echoed = echo;
    }

    /// Grows the window for `packets` acknowledged packets: by one per acknowledgement in slow start, and by the controller's number
    /// per round trip above the threshold (RFC 5681 §3.1). With validation, it grows only if the window limited the flow (the concern
    /// of RFC 7661).
    #[inline]
    pub(super) fn grow(&mut self, packets: u32, config: &Config, framing: &Framing) {
        let most = f64::from(config.max_window);
        let Connection { window, threshold, controller, .. } = &mut self.connection;
        if (config.window_validation && !self.limited) || *window >= most {
            return;
        }
        *window += if *window < *threshold {
            1.0
        } else {
            let sent_bytes = framing.full_payload() * u64::from(self.sent);
            controller.growth(config, sent_bytes) * f64::from(packets) / *window
        };
        *window = window.min(most);
    }

    /// Whether the first missing packet is lost, by the count of duplicates or by the packets acknowledged beyond it (RFC 6675 §5,
    /// steps 1 and 2). It is false until the losses that the timer found are repaired (RFC 6582 §4).
    pub(super) fn is_hole_lost(&self, config: &Config) -> bool {
        if self.duplicates < config.dup_ack_threshold && self.acked.highest(config.dup_ack_threshold).is_none() {
            return false;
        }
        // Without selective acknowledgement, what was sent again without need causes duplicates of exactly this number (RFC 6582 §3.2 step 2, RFC 6675 §5.1).
        let may_be_needless = !config.sack && self.recover > 0;
        self.first_missing() >= self.recover + u32::from(may_be_needless)
    }

    /// Halves the window for a loss. Packets that limited transmit sent beyond the window do not count (RFC 5681 §3.2 step 2).
    fn halve(&mut self) {
        let within_window = f64::from(self.flight()).min(self.connection.window);
        self.connection.threshold = (within_window / 2.0).max(2.0);
    }

    /// Enters fast recovery (RFC 6675 §5 step 4, RFC 6582 §3.2 step 2). The lost packet is to be resent at once.
    pub(super) fn enter_recovery(&mut self, config: &Config) {
        if self.cut_for_mark && self.is_window_cut() && config.recovery_after_cut == RecoveryAfterCut::OncePerWindow {
            self.connection.threshold = self.connection.window.max(2.0);
        } else {
            self.halve();
        }
        self.phase = Phase::Recovery;
        self.recover = self.sent;
        self.cut_end = self.sent;
        self.cut_for_mark = false;
        self.resent = self.first_missing();
        self.rescued = false;
        self.timed = UNTIMED;
        // Without selective acknowledgement, each duplicate stands for a packet that has left the network.
        let inflation = if config.sack { 0.0 } else { f64::from(config.dup_ack_threshold) };
        self.connection.window = self.connection.threshold + inflation;
    }

    /// Fast recovery is over if all that was outstanding when it began has arrived.
    pub(super) fn leave_recovery_if_complete(&mut self, config: &Config) -> bool {
        let complete = self.first_missing() >= self.recover;
        if complete {
            self.phase = Phase::Open;
            let window = self.connection.threshold;
            // A burst of all that the window now allows is worse than a round trip of slow start (RFC 6582 §3.2 step 3, option 1).
            self.connection.window = if config.sack { window } else { window.min(f64::from(self.flight() + 1)) };
        }
        complete
    }

    /// Handles a partial acknowledgement of `packets` packets without selective ones: the next hole is lost as well (RFC 6582 §3.2 step
    /// 3).
    pub(super) fn deflate(&mut self, packets: u32) {
        self.connection.window = (self.connection.window - f64::from(packets) + 1.0).max(1.0);
        self.resent = self.first_missing();
    }

    /// Handles a duplicate in recovery without selective acknowledgement: one more packet has left the network.
    pub(super) fn inflate(&mut self) {
        self.connection.window += 1.0;
    }

    /// The timer expired (RFC 5681 §3.1, RFC 6298 §5).
    pub(super) fn time_out(&mut self, config: &Config) {
        let answered = self.cut_for_mark
            && match config.timeout_after_cut {
                TimeoutAfterCut::Halve => false,
                TimeoutAfterCut::OncePerWindow => self.is_window_cut(),
                TimeoutAfterCut::Keep => true,
            };
        // Only once for the same packets.
        if self.phase != Phase::Loss && !answered {
            self.halve();
        }
        self.cut_for_mark = false;
        self.connection.window = 1.0;
        self.connection.rtt.back_off();
        self.phase = Phase::Loss;
        self.recover = self.sent;
        self.cut_end = self.sent;
        self.next = self.first_missing();
        self.duplicates = 0;
        self.timed = UNTIMED;
    }

    /// Ends the loss phase if all that was outstanding when the timer expired has arrived.
    pub(super) fn leave_loss_if_complete(&mut self) {
        if self.first_missing() >= self.recover {
            self.phase = Phase::Open;
        }
        self.next = self.next.max(self.first_missing());
    }

    /// The next packet that the window allows. After a timeout the flow goes back and skips packets that were acknowledged selectively.
    /// The first two duplicate acknowledgements allow one packet each beyond the window (RFC 3042).
    #[inline]
    pub(super) fn next_in_window(&mut self, limited_transmit: u32) -> Option<u32> {
        if self.phase == Phase::Loss && self.next < self.sent && self.acked.contains(self.next) {
            self.next = self.acked.next_missing_after(self.next);
        }
        let number = self.next;
        self.limited = number < self.packets;
        if !self.limited || self.flight() >= self.connection.window as u32 + limited_transmit {
            return None;
        }
        self.next += 1;
        Some(number)
    }

    /// The next packet that fast recovery allows with selective acknowledgement (RFC 6675 §5 step C, §4 NextSeg).
    pub(super) fn next_in_recovery(&mut self, config: &Config) -> Option<u32> {
        self.resent = self.resent.max(self.first_missing());
        let edge = self.acked.highest(config.dup_ack_threshold).unwrap_or(0);
        if self.pipe(edge) >= self.connection.window as u32 {
            return None;
        }
        let hole = if self.acked.contains(self.resent) { self.acked.next_missing_after(self.resent) } else { self.resent };
        let highest = self.acked.highest(1).unwrap_or(0);
        if hole >= edge && self.next < self.packets {
            self.next += 1;
            return Some(self.next - 1);
        }
        if hole < edge.max(highest) {
            self.resent = hole + 1;
            return Some(hole);
        }
        // Rule 4, the rescue: no packet follows the end of a flow, so nothing shows that its last packets are lost. A packet resent by
        // this rule does not count in `resent`.
        if self.rescued {
            return None;
        }
        self.rescued = true;
        let last = self.acked.islands().next().filter(|island| island.end == self.sent);
        Some(last.map_or(self.sent, |island| island.start) - 1)
    }

    /// How many packets are in the network (RFC 6675 §4, SetPipe): those that are neither acknowledged nor lost, and those that were
    /// resent. A packet is lost if `dup_ack_threshold` packets beyond it have arrived, that is, below `edge`.
    fn pipe(&self, edge: u32) -> u32 {
        let outstanding = self.unacked_below(self.sent);
        let unacked_between = |from: u32, to: u32| to.saturating_sub(from) - self.acked.count_in(from..to.max(from));
        outstanding - unacked_between(self.resent, edge) + unacked_between(edge.max(self.first_missing()), self.resent)
    }

    /// Resends the first missing packet, whatever the window says.
    pub(super) fn resend_first(&mut self) -> u32 {
        self.resent = self.first_missing() + 1;
        self.first_missing()
    }

    /// Makes packet `number`.
    #[inline]
    pub(super) fn packet(&mut self, now: Time, number: u32, framing: &Framing) -> Packet<Header> {
        let header = Header::Data { number, packets: self.packets };
        let mut packet = framing.data(self.flow, self.dst, self.size, number, header);
        packet.ecn = ecn(self.connection.controller.reacts_to_marks());
        packet.retransmission = number < self.sent;
        if !packet.retransmission {
            self.sent = number + 1;
            if self.timed == UNTIMED {
                self.timed = (number, now);
            }
        }
        packet
    }
}

/// Every packet of a connection that answers marks is ECN-capable. Otherwise a switch would drop it where it marks capable ones (PIAS
/// paper, §IV-A3).
#[inline]
pub(super) fn ecn(reacts_to_marks: bool) -> Ecn {
    if reacts_to_marks { Ecn::Capable } else { Ecn::NotCapable }
}
