//! One flow that is being sent.

use flowloom_core::{Bytes, Duration, FlowId, NodeId, Rate, Time};

use super::arbiter::{Request, Share};
use super::config::{Criterion, Demand, WindowRtt, rate_of};
use super::header::Asking;
use super::scoreboard::Scoreboard;
use super::window::{Guide, Place, Window};
use super::{Config, Course};
use crate::tcp::controllers::Alpha;
use crate::tcp::{RtoRule, RttEstimator, Timeouts};

/// After this many periods without an answer, a flow's periods become longer.
const PATIENCE: u32 = 8;

/// A flow and its arbitrators at switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// It has none: it stays in its rack, or arbitration is local.
    Nobody,
    /// It is pruned by its own host: they do not know it.
    Pruned,
    /// It has asked, and has had no answer since this time.
    Waiting(Time),
    /// The last request was answered.
    Answered,
    /// All is sent, and nothing is known to be lost: it needs no more of the links, and has left its arbitrators.
    Sent,
}

/// What does not change about a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub flow: FlowId,
    pub dst: NodeId,
    pub size: Bytes,
    pub packets: u32,
    pub background: bool,
    /// The source's half of its path.
    pub course: Course,
    /// The arbitrator above the host.
    pub parent: Option<NodeId>,
    /// The key, unless it changes with what is left.
    pub key: Option<u32>,
    /// After this time the flow is late; [`Time::MAX`] if that does not change its key.
    pub deadline: Time,
    /// Payload of a full packet.
    pub payload: u64,
    /// A full packet on the wire.
    pub full: Bytes,
    /// The rate that sends one full packet per round trip on the idle path.
    pub packet_rate: u64,
    /// The rate that sends one full packet within the horizon of demands.
    pub demand_rate: u64,
    /// The rate of the NIC.
    pub line: Rate,
}

/// One flow that is being sent.
pub(super) struct Sending {
    pub fixed: Fixed,
    /// Its place at the arbitrator of the uplink, which does not know background traffic.
    pub place: u32,
    pub board: Scoreboard,
    pub window: Window,
    pub alpha: Alpha,
    /// The estimator's round ends when a packet from here on is acknowledged.
    round_end: u32,
    /// A mark or a loss cuts the window only once a packet from here on is acknowledged.
    cut_end: u32,
    pub rtt: RttEstimator,
    /// The packet being timed, and since when.
    timed: Option<(u32, Time)>,
    /// Consecutive timeouts.
    pub timeouts: u32,
    /// Since when it has waited for an acknowledgement, `None` if nothing is outstanding.
    armed: Option<Time>,
    /// When the flow times out; [`Time::MAX`] if nothing is outstanding.
    due: Time,
    /// When its period ends. Of a flow that rests, when the first one did, or will, that it has not looked at.
    pub tick: Time,
    /// Whether the ends of periods may pass without it: see [`Sender`](super::sender::Sender).
    pub resting: bool,
    /// Periods in which it asked its destination or its arbitrators since it heard from them.
    pub unheard: u32,
    /// Whether it may send.
    pub started: bool,
    /// When it last told its destination what it asks for.
    pub spoke: Time,
    pub asked: Asked,
    /// When it sent the last request.
    pub last_ask: Time,
    /// When the last request was sent that was answered. Answers may overtake each other.
    pub answered: Time,
    /// The share on the uplink of the host.
    pub here: Option<Share>,
    /// The share on the links above the host.
    pub upper: Option<Share>,
    /// The share of the destination's half.
    pub beyond: Option<Share>,
    /// After how many periods without data it asks its destination again.
    pub patience: u8,
    /// The combined share: what the flow is assigned.
    pub share: Share,
    /// Whether it goes on without its arbitrators, which are silent.
    pub alone: bool,
    /// The class in which it sends. It lags behind the assigned queue while the promotion guard waits.
    pub class: u8,
    /// All packets below this one were sent before the last probe; `None` after its answer.
    pub probed: Option<u32>,
    /// Whether a probe's answer allows a data packet in the lowest queue.
    pub credit: bool,
}

/// In the key of a flow that has missed its deadline, this bit is set, so that the flow comes after those that have not.
const LATE: u32 = 1 << 31;

/// A deadline in a key, in microseconds. It is less than [`LATE`].
fn microseconds(at: Time) -> u32 {
    u32::try_from(at.as_ps() / 1_000_000).unwrap_or(u32::MAX).min(LATE - 1)
}

/// The key of a flow, unless it changes with what is left.
pub(super) fn fixed_key(criterion: Criterion, flow: &flowloom_core::Flow) -> Option<u32> {
    match criterion {
        Criterion::Remaining => None,
        Criterion::Size => Some(u32::try_from(flow.size.get()).unwrap_or(u32::MAX)),
        Criterion::Deadline => Some(flow.deadline.map_or(u32::MAX, microseconds)),
        Criterion::Task => Some(flow.coflow.map_or(u32::MAX, |coflow| coflow.number)),
    }
}

/// The rate that sends one packet of `full` bytes per round trip.
pub(super) fn packet_rate(full: Bytes, rtt: Duration) -> u64 {
    rate_of(full, rtt).as_bps().max(1)
}

impl Sending {
    pub fn new(now: Time, fixed: Fixed, config: &Config) -> Sending {
        Sending {
            fixed,
            place: 0,
            board: Scoreboard::default(),
            window: Window::new(config.max_window, config.slow_start),
            alpha: Alpha::new(config.initial_alpha),
            round_end: 0,
            cut_end: 0,
            rtt: RttEstimator::NEW,
            timed: None,
            timeouts: 0,
            armed: None,
            due: Time::MAX,
            // Flows that are opened at one instant are all known when the first of them gets its share.
            tick: now + Duration::from_ps(1),
            resting: false,
            unheard: 0,
            started: false,
            spoke: now,
            asked: if fixed.parent.is_some() { Asked::Pruned } else { Asked::Nobody },
            last_ask: now,
            answered: Time::ZERO,
            here: None,
            upper: None,
            beyond: None,
            patience: 1,
            share: Share::FREE,
            alone: false,
            class: 0,
            probed: None,
            credit: false,
        }
    }

    /// What the flow asks of an arbitrator now. The rest of its path grants `elsewhere`.
    #[inline(always)] // it is computed for each packet and each acknowledgement
    pub fn request(&self, now: Time, rule: Demand, elsewhere: [Option<Share>; 2]) -> Request {
        let Fixed { size, packets, payload, packet_rate, deadline, .. } = self.fixed;
        let left = u64::from(packets - self.board.acked());
        let key = self.fixed.key.unwrap_or_else(|| u32::try_from(size.get().min(left * payload)).unwrap_or(u32::MAX));
        let key = if now > deadline { key | LATE } else { key };
        let demand = self.demand(rule);
        let waits = rule == Demand::Granted && elsewhere.into_iter().flatten().any(|share| share.queue > 0);
        let demand = if waits { demand.min(Rate::from_bps(packet_rate)) } else { demand };
        Request { key, demand }
    }

    /// What the flow says to its destination.
    pub fn asking(&self, now: Time, config: &Config) -> Asking {
        if self.fixed.background {
            return Asking::default();
        }
        self.request(now, config.demand, [self.here, self.upper]).into()
    }

    /// Whether the source's half of the path has pruned the flow. Then its destination need not be reminded of it either. When each flow that
    /// waited reminded its destination once per period, 14,000 flows across a core of 10 Gb/s filled it with these messages, and no data passed.
    pub fn is_pruned(&self, config: &Config) -> bool {
        let half = self.here.unwrap_or(Share::FREE).and(self.upper.unwrap_or(Share::FREE));
        !self.alone && half.queue >= config.pruning_depth
    }

    /// Packets that are still to be sent, or to be sent again.
    #[inline]
    pub fn unsent(&self) -> u32 {
        self.board.unsent(self.fixed.packets)
    }

    /// The most that the flow can send: what is left to send, within the horizon. Packets in flight are not counted, or the next flow would
    /// have to wait for the last acknowledgement. It is above 0, which would mean that the flow is not arbitrated.
    fn demand(&self, rule: Demand) -> Rate {
        let Fixed { demand_rate, line, .. } = self.fixed;
        match rule {
            Demand::Line => line,
            Demand::Remaining | Demand::Granted => {
                line.min(Rate::from_bps(demand_rate.saturating_mul(u64::from(self.unsent())).max(1)))
            }
        }
    }

    /// What guides the window now. A flow that gets all that it demands is limited by its NIC alone.
    #[inline]
    pub fn guide(&self, config: &Config) -> Guide {
        if self.alone || self.fixed.background || !config.reference_rate {
            return Guide::Nothing;
        }
        let demand = self.demand(config.demand);
        let reference = self.share.reference(demand);
        let rate = if reference < demand { reference } else { self.fixed.line };
        let packet_rate = match config.window_rtt {
            WindowRtt::Measured if self.rtt.smoothed() > Duration::ZERO => packet_rate(self.fixed.full, self.rtt.smoothed()),
            _ => self.fixed.packet_rate,
        };
        let reference = rate.as_bps().div_ceil(packet_rate);
        let place = Place::of(self.share.queue, config.lowest_class());
        Guide::Reference(place, u32::try_from(reference).unwrap_or(u32::MAX))
    }

    /// Starts to send in the assigned queue.
    pub fn start(&mut self, config: &Config) {
        self.started = true;
        self.class = self.share.queue;
        self.window.start(self.guide(config), config.initial_window);
    }

    /// Sends in the assigned queue from now on, unless the guard makes the flow wait for what it has sent in a lower one. Returns whether it
    /// may send at all.
    pub fn follow_queue(&mut self, guard: bool) -> bool {
        let waits = guard && self.share.queue < self.class && self.board.in_flight() > 0;
        if !waits {
            self.class = self.share.queue;
        }
        !waits
    }

    /// Whether a mark may cut the window: at most once per round trip.
    pub fn may_cut(&self) -> bool {
        self.board.first_missing() >= self.cut_end
    }
    /// Begins the round trip in which the window is not cut again.
    pub fn note_cut(&mut self) {
        self.cut_end = self.board.sent() + 1;
    }

    /// Counts acknowledged packets for the share of marked ones.
    pub fn estimate(&mut self, packets: u32, echo: bool, gain: f64) {
        self.alpha.acknowledged(packets, echo);
        if self.board.first_missing() > self.round_end {
            self.alpha.round_ends(gain);
            self.round_end = self.board.sent();
        }
    }

    /// Times a new packet if none is being timed.
    pub fn time(&mut self, now: Time, number: u32) {
        self.timed.get_or_insert((number, now));
    }
    /// Stops timing: an acknowledgement may now be that of a packet that was resent.
    pub fn stop_timing(&mut self) {
        self.timed = None;
    }
    /// Takes a sample if the timed packet has been acknowledged.
    pub fn take_sample(&mut self, now: Time) {
        if let Some((number, since)) = self.timed
            && self.board.first_missing() > number
        {
            self.rtt.sample(now - since);
            self.timed = None;
        }
    }

    /// The present timeout: the queue that the flow is assigned decides the least one (A28).
    fn timeout(&self, config: &Config) -> Duration {
        let least = if self.share.queue == 0 { config.rto_top } else { config.rto_lower };
        self.rtt.timeout(&Timeouts { rule: RtoRule::Rfc6298, least, initial: least, most: config.rto_max })
    }

    /// Starts to wait for an acknowledgement now.
    pub fn arm(&mut self, now: Time, config: &Config) {
        self.armed = Some(now);
        self.due = now + self.timeout(config);
    }

    /// Waits if packets are in flight, and if it does not wait yet.
    pub fn arm_if_outstanding(&mut self, now: Time, config: &Config) {
        if self.board.in_flight() == 0 {
            self.armed = None;
            self.due = Time::MAX;
        } else if self.armed.is_none() {
            self.arm(now, config);
        }
    }

    /// The flow moves to the top queue or leaves it, and its timeout changes. The wait keeps its start, so a flow that moves often times out,
    /// too. Timeouts in lower queues say nothing about the top queue. When their back-off lasted, flows that had lost a packet again and
    /// again waited for up to half a second in an idle network.
    pub fn adapt_timer(&mut self, now: Time, config: &Config) {
        if self.share.queue == 0 {
            self.rtt.forget_back_off();
        }
        if let Some(armed) = self.armed {
            self.due = (armed + self.timeout(config)).max(now + Duration::from_ps(1));
        }
    }

    /// The flow has heard something, so that its periods are short again.
    pub fn hear(&mut self, now: Time, period: Duration) {
        if self.unheard > PATIENCE {
            self.tick = self.tick.min(now + period);
        }
        self.unheard = 0;
    }

    /// How long the present period is. A flow that hears nothing at all asks less and less often, but no less often than its longest timeout.
    fn pause(&self, period: Duration, longest: Duration) -> Duration {
        const MOST_DOUBLINGS: u32 = 20;
        let doublings = self.unheard.saturating_sub(PATIENCE).min(MOST_DOUBLINGS);
        let pause = Duration::from_ps(period.as_ps().saturating_mul(1 << doublings));
        pause.min(longest.max(period))
    }

    /// The next period ends.
    pub fn begin_period(&mut self, now: Time, period: Duration, longest: Duration) {
        // A flow of background traffic has nothing to ask.
        self.tick = if self.fixed.background { Time::MAX } else { now + self.pause(period, longest) };
    }

    /// How long it may be silent before it speaks to its destination.
    fn silence(&self, period: Duration) -> Duration {
        period * u64::from(self.patience)
    }

    /// Whether it has to speak to its destination at the end of a period.
    pub fn is_quiet(&self, now: Time, period: Duration) -> bool {
        self.started && !self.fixed.background && now - self.spoke >= self.silence(period)
    }

    /// Ends a rest. It is as if the flow had looked at the end of each period before `from`, and had sent nothing, as it did before the rest.
    pub fn wake(&mut self, from: Time, period: Duration, longest: Duration) {
        self.resting = false;
        if self.tick >= from {
            return;
        }
        let (pause, silence) = (self.pause(period, longest), self.silence(period));
        let missed = (from - self.tick).as_ps().div_ceil(pause.as_ps());
        // It was silent for long enough at the first of the missed ends from `quiet` on, and again after each `apart` of them.
        let quiet = (self.spoke + silence).as_ps().saturating_sub(self.tick.as_ps()).div_ceil(pause.as_ps());
        let apart = silence.as_ps().div_ceil(pause.as_ps()).max(1);
        if let Some(since) = (missed - 1).checked_sub(quiet) {
            self.spoke = self.tick + pause * (quiet + since / apart * apart);
        }
        self.tick += pause * missed;
    }

    /// Whether the flow has timed out.
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// When to look at the flow next.
    #[inline]
    pub fn next(&self) -> Time {
        if self.resting { self.due } else { self.due.min(self.tick) }
    }

    /// The reference rate: what is left of the links on the path for this flow, and no more than it demands.
    pub fn reference(&self, config: &Config) -> Rate {
        self.share.reference(self.demand(config.demand))
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::Half;
    use super::super::{Arbiter, Rounding, Rules};
    use super::*;

    /// A flow of 100 packets of 1000 B over a path of 200 us, at 1 Gb/s: 25 packets per round trip. The horizon is three round trips.
    fn flow(config: &Config) -> Sending {
        let (flow, dst) = (FlowId(0), NodeId(1));
        let fixed = Fixed {
            flow,
            dst,
            size: Bytes::new(96_000),
            packets: 100,
            background: false,
            course: Course { flow, src: NodeId(0), dst, half: Half::Source },
            parent: None,
            key: None,
            deadline: Time::MAX,
            payload: 960,
            full: Bytes::new(1000),
            packet_rate: packet_rate(Bytes::new(1000), Duration::from_us(200)),
            demand_rate: packet_rate(Bytes::new(1000), Duration::from_us(600)),
            line: Rate::from_gbps(1),
        };
        Sending { started: true, ..Sending::new(Time::ZERO, fixed, config) }
    }

    fn send(state: &mut Sending, packets: u32) {
        for _ in 0..packets {
            state.board.pick(100).expect("there are more packets");
        }
    }

    fn acknowledge(state: &mut Sending, below: u32) {
        state.board.acknowledge(below, std::iter::empty());
    }

    #[test]
    fn a_flow_that_is_late_comes_after_those_that_are_not() {
        let deadline = Time::ZERO + Duration::from_us(5000);
        let mut state = flow(&Config::default());
        (state.fixed.key, state.fixed.deadline) = (Some(microseconds(deadline)), deadline);
        let key = |now| state.request(now, Demand::Remaining, [None; 2]).key;
        assert_eq!(key(deadline), 5000);
        assert_eq!(key(deadline + Duration::from_ps(1)), LATE + 5000);
        // The latest deadline that a key can tell, and the key of a flow without one.
        assert_eq!(microseconds(Time::MAX), LATE - 1);
        assert_eq!(LATE | microseconds(Time::MAX), u32::MAX);
    }

    /// By hand: 25 packets per round trip and a horizon of three. With 25, 50, 75 or 100 packets left, the flow claims 1/3, 2/3, all and all of its NIC's rate.
    #[test]
    fn a_flow_claims_what_is_left_within_the_horizon() {
        let config = Config::default();
        for (sent, thirds) in [(0, 3), (25, 3), (50, 2), (75, 1)] {
            let mut state = flow(&config);
            send(&mut state, sent);
            let claim = state.request(Time::ZERO, Demand::Remaining, [None; 2]).demand.as_bps();
            assert!(claim.abs_diff(thirds * 1_000_000_000 / 3) < 100_000, "{sent} sent: {claim}");
        }
    }

    /// A flow that waits for its destination claims a packet per round trip of its uplink, which is idle. As soon as the destination grants
    /// the top queue, its window is that of the idle link, and not the packet that it has claimed.
    #[test]
    fn what_a_flow_may_use_is_not_limited_by_what_it_claimed() {
        let config = Config { demand: Demand::Granted, ..Config::default() };
        let mut state = flow(&config);
        let waits = Share { queue: 1, rate: Rate::from_bps(state.fixed.packet_rate) };
        let request = state.request(Time::ZERO, config.demand, [None, Some(waits)]);
        assert_eq!(request.demand, waits.rate);
        let rules = Rules { queues: 7, base_rate: waits.rate, rounding: Rounding::Floor, lifetime: Duration::from_us(600) };
        let mut uplink = Arbiter::<()>::new(Rate::from_gbps(1), rules);
        let place = uplink.update(Time::ZERO, state.fixed.flow, request);
        state.share = uplink.share_at(place).and(Share::FREE);
        assert_eq!(state.guide(&config), Guide::Reference(Place::Top, 25));
    }

    /// Three packets are out in the second queue when the flow is promoted. Without the guard, it uses the first queue at once.
    #[test]
    fn a_promotion_takes_effect_when_all_is_acknowledged() {
        for guard in [true, false] {
            let mut state = flow(&Config::default());
            state.share.queue = 1;
            assert!(state.follow_queue(guard)); // demotion is immediate
            assert_eq!(state.class, 1);
            send(&mut state, 3);
            state.share.queue = 0;
            for below in [0, 2, 3] {
                acknowledge(&mut state, below);
                let may_send = !guard || below == 3;
                assert_eq!(state.follow_queue(guard), may_send, "below {below}");
                assert_eq!(state.class, u8::from(!may_send), "below {below}");
            }
        }
    }

    /// A second promotion during the wait goes on with the same wait, and a demotion below the class of the packets that are out ends it.
    #[test]
    fn a_demotion_ends_the_wait() {
        let mut state = flow(&Config::default());
        state.share.queue = 3;
        state.follow_queue(true);
        send(&mut state, 2);
        for (queue, class, may_send) in [(2, 3, false), (1, 3, false), (4, 4, true), (3, 4, false)] {
            state.share.queue = queue;
            assert_eq!(state.follow_queue(true), may_send, "assigned {queue}");
            assert_eq!(state.class, class, "assigned {queue}");
        }
    }

    /// In the last queue, a flow times out at 200, 600 and 1400 ms. If it comes to the top queue then, it times out 10 ms later, and at once if it
    /// has waited for longer.
    #[test]
    fn back_off_ends_in_the_top_queue() {
        let config = Config::default();
        let at = |ms: u64| Time::ZERO + Duration::from_ms(ms);
        let mut state = flow(&config);
        state.share.queue = 6;
        send(&mut state, 1);
        state.arm(Time::ZERO, &config);
        for due in [200, 600, 1400] {
            assert!(state.is_due(at(due)) && !state.is_due(at(due - 1)));
            state.rtt.back_off();
            state.arm(at(due), &config);
        }
        state.share.queue = 0;
        state.adapt_timer(at(1401), &config);
        assert!(state.is_due(at(1410)) && !state.is_due(at(1409)));
        state.share.queue = 6;
        state.adapt_timer(at(1402), &config);
        assert!(state.is_due(at(1600)) && !state.is_due(at(1599)));
        state.share.queue = 0;
        state.adapt_timer(at(1500), &config);
        assert!(state.is_due(at(1501)));
    }

    /// The period after twelve unanswered ones is sixteen times as long. An answer makes it end a period later, and changes nothing about one of the usual length.
    #[test]
    fn an_answer_ends_a_long_period() {
        let config = Config::default();
        let at = |us: u64| Time::ZERO + Duration::from_us(us);
        let (period, longest) = (Duration::from_us(300), Duration::from_ms(60_000));
        let mut state = flow(&config);
        for (unheard, end, after) in [(12, 4800, 1300), (8, 300, 300)] {
            state.unheard = unheard;
            state.begin_period(Time::ZERO, period, longest);
            assert_eq!(state.tick, at(end));
            state.hear(at(if unheard > 8 { 1000 } else { 100 }), period);
            assert_eq!((state.tick, state.unheard), (at(after), 0));
        }
    }

    /// The window of the top queue is the reference rate times the base or the measured round-trip time.
    #[test]
    fn the_window_follows_the_chosen_round_trip() {
        for (window_rtt, after) in [(WindowRtt::Base, 25), (WindowRtt::Measured, 50)] {
            let config = Config { window_rtt, ..Config::default() };
            let mut state = flow(&config);
            assert_eq!(state.guide(&config), Guide::Reference(Place::Top, 25));
            state.rtt.sample(Duration::from_us(400));
            assert_eq!(state.guide(&config), Guide::Reference(Place::Top, after));
        }
    }
}
