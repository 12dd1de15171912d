//! Parameters of PASE, each with where it comes from. "A1" to "A36" are the open points of the README.

use flowloom_core::{Attribute, Bytes, Duration, Need, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arbiter::{Rounding, Rules};
use crate::disciplines::{EcnConfig, MarkAt, Marking, Split};
use crate::{Checked, Conditions, PortMemory, check_deadline, quantity, span_of};

/// Whose answers a source waits for and uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arbitration {
    /// Those of all links on the flow's path.
    EndToEnd,
    /// Those of all links on the way up from the source, and of the destination's access link: an ablation of the destination's half.
    SourceHalf,
    /// Those of the flow's two access links, which its ends give without messages (§4.3.1).
    Local,
}

/// What makes one flow more critical than another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Fewer bytes left.
    Remaining,
    /// Fewer bytes in all.
    Size,
    /// An earlier deadline. Flows without a deadline come last. See `late_last` for those that have missed it.
    Deadline,
    /// An earlier task: the flow's coflow. Flows without one come last.
    Task,
}

impl Criterion {
    pub(super) fn need(self) -> Option<Need> {
        let of = match self {
            Criterion::Remaining | Criterion::Size => return None,
            Criterion::Deadline => Attribute::Deadline,
            Criterion::Task => Attribute::Coflow,
        };
        Some(Need { key: Some("criterion"), of, without: "all flows are equally critical" })
    }
}

/// What a flow claims of a link: the demand that arbitrators count before less critical flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// What is left, sent within [`Config::demand_rtts`], at most the rate of the NIC.
    Remaining,
    /// Always the rate of the NIC.
    Line,
    /// As `remaining`, but one packet per round trip if the rest of the path does not grant the top queue.
    Granted,
}

/// How often marks cut a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// At most once per round trip (RFC 8257, DCTCP).
    PerRtt,
    /// With every acknowledgement that carries a mark (equation 2 and Algorithm 2 as printed).
    PerMark,
}

/// When a flow sends a probe, which is a packet without payload, instead of a data packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Probing {
    /// When a flow outside the top queue times out (§3.2).
    OnTimeout,
    /// The same, and in the lowest queue also before each data packet (§4.3.2).
    EveryRtt,
    /// Never: a timeout resends data in every queue.
    Never,
}

/// The round-trip time that turns a reference rate into a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowRtt {
    /// That of the flow's idle path.
    Base,
    /// The smoothed measured one, once there is a sample.
    Measured,
}

/// Parameters of PASE. The defaults are those of the paper's simulations (table 3) where it gives them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whose answers a source uses: those of all links on the path (`end_to_end`), of those on the way up and the destination's access link
    /// (`source_half`), or of the two access links (`local`), which take no messages.
    pub arbitration: Arbitration,
    /// What makes a flow more critical: fewer bytes left (`remaining`), fewer in all (`size`), an earlier deadline (`deadline`) or an earlier
    /// coflow (`task`). Flows without a deadline or coflow come last (A5).
    pub criterion: Criterion,
    /// What a flow claims of each link, which arbitrators count before less critical flows: the rate that sends what is left within
    /// `demand_rtts` (`remaining`), the rate of its NIC (`line`), or as `remaining` but only one packet per round trip while another link
    /// keeps it from the top queue (`granted`: our addition). With the first two, a flow that waits elsewhere keeps others from the top
    /// queue of a link that it cannot use (A3).
    pub demand: Demand,
    /// The horizon of `demand`, in round trips of the flow's idle path. A flow that has less left than its NIC sends in this time leaves the
    /// rest of its links to others. By default, it is the longest time from the end of a flow until its successor sends in its place, which
    /// follows from the path, `arbitration`, `period_rtts`, `processing_delay` and `promotion_guard` (A3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 1_000_000))]
    pub demand_rtts: Option<f64>,
    /// With `criterion = "deadline"`: whether flows that have missed their deadline come after those that can still meet it. The paper does
    /// not say. If not, the flows that are late the longest come first, and delay the others until these are late, too.
    pub late_last: bool,
    /// Priority queues of a port. The last one is for background flows, the others are for arbitrated flows (§3.3; A17).
    #[schemars(range(min = 2, max = 8))]
    pub queues: u8,
    /// The queue of a flow whose higher demand is a whole number of capacities: the lower of two queues (`floor`, the text of §3.1.1) or the
    /// higher (`ceiling`, Algorithm 1 as printed) (A2).
    pub rounding: Rounding,
    /// Only flows in this many top queues are passed on to the next arbitrator (§3.1.2: 2). With 8, all are (A11).
    #[schemars(range(min = 1, max = 8))]
    pub pruning_depth: u8,
    /// Whether top-of-rack switches arbitrate shares of the links above the aggregation switches (§3.1.2).
    pub delegation: bool,
    /// How often these shares are adapted, in base round trips between the hosts that are furthest apart (A13).
    #[schemars(range(min = 0.01, max = 1_000_000))]
    pub delegation_rtts: f64,
    /// The least share while more is demanded than the link has, relative to an equal share (A13).
    #[schemars(range(min = 0.001, max = 1))]
    pub delegation_floor: f64,
    /// How often a flow asks its arbitrators, in base round trips between the hosts that are furthest apart (A6).
    #[schemars(range(min = 0.01, max = 1_000_000))]
    pub period_rtts: f64,
    /// An arbitrator forgets a flow that has not asked for this many periods (A7).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub expiry_periods: f64,
    /// A flow whose arbitrator has not answered for this many periods continues without it, as a self-adjusting flow in the second queue.
    /// An answer that took as long is not used. A period is the longest round trip, and half a period is for queues.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub answer_timeout_periods: f64,
    /// The time from a request's arrival at a switch's arbitrator to its answer (A15).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "1000s"))]
    pub processing_delay: Duration,
    /// The size of arbitration messages on the wire, at least that of a control packet (A15).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "9kB"))]
    pub message_size: Bytes,
    /// Whether queue and reference rate guide the window (Algorithm 2). If not, every flow is a DCTCP flow in the queue that arbitration
    /// gives it (PASE-DCTCP, §4.3.2).
    pub reference_rate: bool,
    /// The round-trip time in the window of a flow in the top queue, which is its reference rate times this: that of the idle path (`base`) or
    /// the smoothed measured one (`measured`), with which windows grow as queues do (A22).
    pub window_rtt: WindowRtt,
    /// How often marks cut the window of an arbitrated flow: at most once per round trip (`per_rtt`: DCTCP, on which PASE builds), or with every
    /// marked acknowledgement (`per_mark`: equation 2 and Algorithm 2 as printed). Flows without a guide follow DCTCP (A23).
    pub cut: Cut,
    /// Whether a window that a mark has cut in the top queue stays cut for a round trip. If not, the next acknowledgement without a mark
    /// sets it to the reference rate again (Algorithm 2 as printed; A23).
    pub hold_cut: bool,
    /// Whether the window doubles per round trip in the intermediate queues, until the first mark. If not, it grows by a packet per round trip
    /// (Algorithm 2).
    pub slow_start: bool,
    /// Packets that a self-adjusting flow may send before the first acknowledgement: a background flow, one without an answer, and any flow
    /// without `reference_rate`.
    #[schemars(range(min = 1, max = 65536))]
    pub initial_window: u32,
    /// The most packets a flow may have unacknowledged.
    #[schemars(range(min = 1, max = 65536))]
    pub max_window: u32,
    /// Weight of the latest round trip in the estimated share of marked packets (A30; RFC 8257: 1/16).
    #[schemars(range(min = 0, max = 1))]
    pub gain: f64,
    /// The estimate that a flow starts with (RFC 8257: 1; ns-2: 0).
    #[schemars(range(min = 0, max = 1))]
    pub initial_alpha: f64,
    /// When a flow sends a probe instead of data: when it times out outside the top queue (`on_timeout`), also before each data packet in
    /// the lowest queue (`every_rtt`), or `never` (A26).
    pub probing: Probing,
    /// Whether a flow that moves to a higher queue sends nothing until all that it has sent in the old one is acknowledged (§3.2; A29). If
    /// not, it uses the new queue at once, and its packets may overtake each other.
    pub promotion_guard: bool,
    /// How many selectively acknowledged packets beyond a missing one show that it is lost.
    #[schemars(range(min = 1, max = 65536))]
    pub dup_ack_threshold: u32,
    /// The least retransmission timeout of a flow in the top queue (table 3: 10 ms).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_top: Duration,
    /// The least retransmission timeout of a flow in any other queue (table 3: 200 ms).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_lower: Duration,
    /// The longest timeout that back-off reaches (RFC 6298: 60 s or more).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_max: Duration,
    /// How long a receiver remembers a finished flow after its last duplicate, so that it acknowledges late duplicates.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100000s"))]
    pub time_wait: Duration,
    /// Which bytes are compared with `mark_above`: those of the packet's own `queue` (§3.3: each class has a RED queue), those of the whole
    /// `port`, or none (`off`) (A18).
    pub ecn: Marking,
    /// A data packet is marked if more than this is queued, the packet included (65 packets of 1000 B; the testbed: 20 packets) (A18).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_above: Bytes,
    /// If more than this is queued, each data packet is marked, and between `mark_above` and this, packets are marked at random: their share grows from 0 to `mark_share` (RED, which the paper has with both
    /// thresholds alike). Without it, each is marked above `mark_above`.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_all_above: Option<Bytes>,
    /// The share of data packets that are marked when `mark_all_above` is queued.
    #[schemars(range(min = 0, max = 1))]
    pub mark_share: f64,
    /// The rate of the links that both thresholds are for. Ports of other links have them in proportion to their rates, and at least one full packet. Without it, all ports have the same.
    #[serde(with = "quantity::rate::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::rate::schema", extend("x-min" = "1kb/s", "x-max" = "10Tb/s"))]
    pub marks_for: Option<Rate>,
    /// When packets are marked: at `enqueue`, by the queue that a packet joins, or at `dequeue`, by the queue that it leaves behind.
    pub mark_at: MarkAt,
    /// Whether each queue has as much memory as the port is given (`per_class`: each class of ns-2 and Linux has its own queue) or all queues
    /// of a port share it (`shared`) (A19).
    pub split: Split,
    /// Whether every flow looks at its share at the end of each period, also where this changes nothing.
    #[cfg(test)]
    #[serde(skip)]
    pub never_rests: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            arbitration: Arbitration::EndToEnd,
            criterion: Criterion::Remaining,
            demand: Demand::Granted,
            demand_rtts: None,
            late_last: true,
            queues: 8,
            rounding: Rounding::Floor,
            pruning_depth: 2,
            delegation: true,
            delegation_rtts: 1.0,
            delegation_floor: 0.1,
            period_rtts: 1.0,
            expiry_periods: 3.0,
            answer_timeout_periods: 1.5,
            processing_delay: Duration::ZERO,
            message_size: Bytes::new(64),
            reference_rate: true,
            window_rtt: WindowRtt::Base,
            cut: Cut::PerRtt,
            hold_cut: false,
            slow_start: false,
            initial_window: 10,
            max_window: 65_536,
            gain: 1.0 / 16.0,
            initial_alpha: 1.0,
            probing: Probing::OnTimeout,
            promotion_guard: true,
            dup_ack_threshold: 3,
            rto_top: Duration::from_ms(10),
            rto_lower: Duration::from_ms(200),
            rto_max: Duration::from_ms(60_000),
            time_wait: Duration::from_ms(20_000_000),
            ecn: Marking::Queue,
            mark_above: Bytes::new(65_000),
            mark_all_above: None,
            mark_share: 1.0,
            marks_for: None,
            mark_at: MarkAt::Enqueue,
            split: Split::PerClass,
            #[cfg(test)]
            never_rests: false,
        }
    }
}

/// What a queue holds.
const QUEUE_PACKETS: u64 = 500;

/// The blocks of an acknowledgement cannot describe packets more than this beyond the first missing one.
const MOST_WINDOW: u32 = 1 << 16;

impl Config {
    /// The ports.
    pub fn port(&self) -> EcnConfig {
        EcnConfig {
            ecn: self.ecn,
            mark_above: Some(self.mark_above),
            mark_all_above: self.mark_all_above,
            mark_share: self.mark_share,
            marks_for: self.marks_for,
            mark_at: self.mark_at,
            split: self.split,
        }
    }
    /// The class of background flows.
    pub(super) fn background_class(&self) -> u8 {
        self.queues - 1
    }
    /// The class of the lowest queue of arbitrated flows.
    pub(super) fn lowest_class(&self) -> u8 {
        self.queues - 2
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        if !(2..=8).contains(&self.queues) {
            return Err(format!("queues: found {}; it must be from 2 to 8, one of which is for background flows", self.queues));
        }
        if !(1..=8).contains(&self.pruning_depth) {
            return Err(format!("pruning_depth: found {}; it must be from 1 to 8", self.pruning_depth));
        }
        for (key, found) in [
            ("period_rtts", self.period_rtts),
            ("expiry_periods", self.expiry_periods),
            ("answer_timeout_periods", self.answer_timeout_periods),
            ("delegation_rtts", self.delegation_rtts),
            ("delegation_floor", self.delegation_floor),
            ("demand_rtts", self.demand_rtts.unwrap_or(1.0)),
        ] {
            if !found.is_finite() || found <= 0.0 {
                return Err(format!("{key}: found {found}; it must be a positive number"));
            }
        }
        let (initial, most) = (self.initial_window, self.max_window);
        if initial == 0 {
            return Err("initial_window: found 0, and no flow could start; it must be 1 or more, such as 10".into());
        }
        if most < initial || most > MOST_WINDOW {
            return Err(format!("max_window: found {most}; it must be from initial_window = {initial} to {MOST_WINDOW}"));
        }
        if self.dup_ack_threshold == 0 {
            return Err("dup_ack_threshold: found 0; it must be 1 or more".into());
        }
        let least = self.rto_top.min(self.rto_lower);
        if least == Duration::ZERO {
            let key = if self.rto_top == least { "rto_top" } else { "rto_lower" };
            return Err(format!("{key}: found 0; it must exceed a round trip, such as \"10ms\""));
        }
        let least = self.rto_top.max(self.rto_lower);
        for (key, found) in [("rto_max", self.rto_max), ("time_wait", self.time_wait)] {
            if found < least {
                return Err(format!("{key}: found {found}; it must be at least rto_top and rto_lower, {least}"));
            }
        }
        self.port().check()
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        conditions.check_at_host_rates(|_, rtt| Spans::new(self, rtt, &conditions.wire))?;
        if let Some(rtts) = self.demand_rtts {
            span_of("demand_rtts", conditions.network.base_rtt(&conditions.wire).checked_scale(rtts))?;
        }
        if self.criterion == Criterion::Deadline {
            check_deadline("criterion", conditions.last_deadline)?;
        }
        Ok(())
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let answer = Spans::new(self, conditions.network.base_rtt(&conditions.wire), &conditions.wire)
            .map_or(Duration::LONGEST, |spans| spans.answer_timeout);
        self.rto_max.max(answer)
    }

    /// Table 3.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let holds = format!("the {QUEUE_PACKETS} packets of each queue in the paper's table 3");
        Some(PortMemory { bytes: conditions.wire.full * QUEUE_PACKETS, holds })
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        conditions.small_window("max_window", self.max_window).into_iter().collect()
    }
}

/// The configuration's times and rates on one network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// Between two requests of a flow.
    pub period: Duration,
    /// For which an arbitrator remembers a flow that does not ask.
    pub lifetime: Duration,
    /// For which a flow waits for an answer.
    pub answer_timeout: Duration,
    /// Between two reports of what the flows of a virtual link demand.
    pub delegation: Duration,
    /// One full packet per round trip (A4).
    pub base_rate: Rate,
    /// For the answer of one switch.
    processing: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, rtt: Duration, wire: &WireProfile) -> Result<Spans, String> {
        let period = span_of("period_rtts", rtt.checked_scale(config.period_rtts))?;
        Ok(Spans {
            period,
            lifetime: span_of("expiry_periods", period.checked_scale(config.expiry_periods))?,
            answer_timeout: span_of("answer_timeout_periods", period.checked_scale(config.answer_timeout_periods))?,
            delegation: span_of("delegation_rtts", rtt.checked_scale(config.delegation_rtts))?,
            base_rate: rate_of(wire.full, rtt),
            processing: config.processing_delay,
        })
    }

    /// The longest time from the last packet of a flow to the first packet that its successor sends in its place, from the top queue. Both have
    /// a path with this idle round trip, and `switches` of each half of it arbitrate.
    ///
    /// * The source's half: the successor asks within a period, the answer crosses half the path and comes back, and the window opens with
    ///   the next acknowledgement, within a round trip.
    /// * The destination's half: the last packet takes half a round trip to show that the flow is over. The next packet of the successor
    ///   comes within another round trip, and an acknowledgement brings the share back in half a one. If switches arbitrate there, the
    ///   packet has to come after the end of a period, because it makes the destination ask them, and their answer waits for one more packet.
    ///   Then the guard waits for what was sent before.
    pub fn reaction(&self, config: &Config, rtt: Duration, switches: u64) -> Duration {
        let answer =
            if switches > 0 { Duration::from_ps(rtt.as_ps() / 2) + self.processing * switches } else { Duration::ZERO };
        let source = self.period + answer + rtt;
        let share = match config.arbitration {
            Arbitration::EndToEnd if switches > 0 => self.period.max(rtt) + answer.max(rtt),
            _ => rtt,
        };
        let guard = if config.promotion_guard { rtt } else { Duration::ZERO };
        source.max(rtt + share + guard)
    }

    /// What all arbitrators have in common.
    pub fn rules(&self, config: &Config) -> Rules {
        Rules { queues: config.queues - 1, base_rate: self.base_rate, rounding: config.rounding, lifetime: self.lifetime }
    }
}

/// The rate that sends `bytes` in `span`, rounded up. A span of 0 has no limit.
pub(super) fn rate_of(bytes: Bytes, span: Duration) -> Rate {
    const BIT_PS: u128 = 8 * 1_000_000_000_000;
    let bits = u128::from(bytes.get()) * BIT_PS;
    let bps = bits.div_ceil(u128::from(span.as_ps().max(1)));
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Switching, topology};

    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        let text = default_text::<Config>();
        assert!(text.contains("rto_top = \"10ms\"") && text.contains("mark_above = \"65kB\""), "{text}");
        assert!(toml::from_str::<Config>("queus = 3").is_err());
    }

    #[test]
    fn what_could_not_run_is_refused_by_name() {
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("queues = 1", "queues"),
            ("queues = 9", "queues"),
            ("pruning_depth = 0", "pruning_depth"),
            ("period_rtts = 0", "period_rtts"),
            ("demand_rtts = 0", "demand_rtts"),
            ("expiry_periods = -1", "expiry_periods"),
            ("answer_timeout_periods = 0", "answer_timeout_periods"),
            ("delegation_floor = 0", "delegation_floor"),
            ("delegation_rtts = 0.0", "delegation_rtts"),
            ("initial_window = 0", "initial_window"),
            ("max_window = 9", "max_window"),
            ("dup_ack_threshold = 0", "dup_ack_threshold"),
            ("rto_top = \"0s\"", "rto_top"),
            ("rto_lower = \"0s\"", "rto_lower"),
            ("rto_max = \"100ms\"", "rto_max"),
            ("time_wait = \"100ms\"", "time_wait"),
            ("mark_above = \"0B\"", "mark_above"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
        }
    }

    /// By hand, on the paper's tree: 12 × 25 us of propagation, a packet of 1000 B over two links of 1 Gb/s and four of 10 Gb/s, and 40 B
    /// back.
    #[test]
    fn times_follow_from_the_longest_round_trip() {
        let gbps = Rate::from_gbps;
        let delay = Duration::from_us(25);
        let network = topology::three_tier(4, 40, 2, gbps(1), gbps(10), gbps(10), delay, Switching::StoreAndForward);
        let spans = Spans::new(&Config::default(), network.base_rtt(&WireProfile::NS2_1000), &WireProfile::NS2_1000).unwrap();
        let rtt = Duration::from_ns(300_000 + 2 * 8000 + 4 * 800 + 2 * 320 + 4 * 32);
        assert_eq!((spans.period, spans.lifetime, spans.answer_timeout), (rtt, rtt * 3, rtt.scale(1.5)));
        // 8000 bit in 319.968 us are 25.0025 Mb/s.
        assert_eq!(spans.base_rate, Rate::from_bps(25_002_501));
        let endless = Config { period_rtts: 1e12, ..Config::default() };
        assert!(
            Spans::new(&endless, network.base_rtt(&WireProfile::NS2_1000), &WireProfile::NS2_1000)
                .unwrap_err()
                .starts_with("period_rtts: ")
        );
    }
}
