//! Parameters of ExpressPass, each with where it comes from.

use flowloom_core::{Bytes, Duration, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::disciplines::{CreditDrop, CreditSchedule};
use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, NoLoss, quantity, span_of};

/// How a receiver adapts a flow's credit rate to the credits that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Feedback {
    /// Algorithm 1 of the paper: credits are sent at up to 1 + `target_loss` times the rate that the link can carry, and the weight of an
    /// increase approaches `w_max` by halves.
    Paper,
    /// The authors' simulator: credits are sent at up to the rate that the link can carry, the target loss falls to 0 as a flow approaches
    /// it, and the weight of an increase grows by `w_step`.
    Released,
}

/// Parameters of ExpressPass. Rates of credits are in parts of the rate at which a link can carry credits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The form of the feedback control. The default is what the authors' simulator runs; with it, short flows are faster, and two flows share
    /// a link more evenly.
    pub feedback: Feedback,
    /// The credit rate of a new flow (1/2; 1/16 in the authors' runs of realistic workloads).
    #[schemars(range(min = 0.001, max = 1))]
    pub alpha: f64,
    /// A flow of fewer packets starts at a rate that is lower in proportion. 1 turns this off. The authors' simulator has 40, which makes
    /// short flows a fifth slower.
    #[schemars(range(min = 1, max = 10_000))]
    pub ramp_packets: u32,
    /// The weight of a new flow's first increase (1/2; 1/16 in the authors' runs of realistic workloads).
    #[schemars(range(min = 0.0001, max = 1))]
    pub w_init: f64,
    /// The least weight.
    #[schemars(range(min = 0.0001, max = 1))]
    pub w_min: f64,
    /// The largest weight.
    #[schemars(range(min = 0.0001, max = 1))]
    pub w_max: f64,
    /// `feedback = "released"`: how much the weight grows with each further increase in a row.
    #[schemars(range(min = 0, max = 1))]
    pub w_step: f64,
    /// `feedback = "paper"`: a flow's rate grows while at most this part of its credits is lost.
    #[schemars(range(min = 0, max = 0.9))]
    pub target_loss: f64,
    /// `feedback = "released"`: the same for a flow whose rate is close to 0. It falls to 0 at the largest rate.
    #[schemars(range(min = 0, max = 0.9))]
    pub target_loss_scale: f64,
    /// The gap between two credits of a flow is uniform within this part of its mean, above and below. With equal gaps, the credits of some
    /// flows would always meet a full queue.
    #[schemars(range(min = 0, max = 0.9))]
    pub jitter: f64,
    /// The size of a credit is uniform within this many bytes of that of a control packet, above and below, for the same purpose. With the
    /// default, credits have 76 to 92 B on `ethernet_1538`, as in the authors' simulator.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1kB"))]
    pub credit_spread: Bytes,
    /// How many credits a port queues. The default is that of the authors' fat tree.
    #[schemars(range(min = 1, max = 100_000))]
    pub credit_queue: u32,
    /// What a port drops when its queue of credits is full. With `"newest"` and credits of one size (`credit_spread = "0B"`), a flow may get no
    /// credits until another one ends.
    pub credit_drop: CreditDrop,
    /// How many credits of mean size may leave a port in a burst.
    #[schemars(range(min = 1, max = 1000))]
    pub credit_burst: u32,
    /// Whether a sender stops the credits when it expects those under way to suffice: once per round trip, if the last round trip brought as
    /// many credits as there are packets left, as in the authors' simulator. Otherwise, it stops them with its last packet.
    pub early_stop: bool,
    /// If no data came for this many round trips, the receiver counts all credits that are not answered as lost. This is our addition:
    /// otherwise a flow whose credits are all lost would go on at its rate, because only data tells of lost credits.
    #[schemars(range(min = 1, max = 1000))]
    pub silence_rtts: f64,
    /// After this time at the earliest, a sender repeats a request that brought no credit, or a stop that was not acknowledged (100 us in the
    /// authors' fat tree).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub retry: Duration,
    /// The least time before such a repetition, in base round trips. The time doubles with each repetition, up to 256 times.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub retry_rtts: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            feedback: Feedback::Released,
            alpha: 0.5,
            ramp_packets: 1,
            w_init: 0.5,
            w_min: 0.01,
            w_max: 0.5,
            w_step: 0.05,
            target_loss: 0.1,
            target_loss_scale: 0.125,
            jitter: 0.1,
            credit_spread: Bytes::new(8),
            credit_queue: 8,
            credit_drop: CreditDrop::Newest,
            credit_burst: 2,
            early_stop: false,
            silence_rtts: 3.0,
            retry: Duration::from_us(100),
            retry_rtts: 3.0,
        }
    }
}

/// What fills ports although credits schedule all data, and what helps. A host asks for credits again after the time that `retry` gives.
pub(crate) fn lost_to_requests(retry: &str) -> String {
    format!(
        "ports have less memory than the queues of data need (`flowloom show` of the scenario prints the bounds), or the requests of many flows filled \
         it; raise fabric.buffer or {retry}"
    )
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let ranges = [
            ("alpha", self.alpha, 0.001, 1.0),
            ("w_init", self.w_init, 0.0001, 1.0),
            ("w_min", self.w_min, 0.0001, 1.0),
            ("w_max", self.w_max, 0.0001, 1.0),
            ("w_step", self.w_step, 0.0, 1.0),
            ("target_loss", self.target_loss, 0.0, 0.9),
            ("target_loss_scale", self.target_loss_scale, 0.0, 0.9),
            ("jitter", self.jitter, 0.0, 0.9),
            ("silence_rtts", self.silence_rtts, 1.0, 1000.0),
            ("retry_rtts", self.retry_rtts, 1.0, 1e6),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{name}: found {value}; it must be from {least} to {most}"));
            }
        }
        let Config { w_init, w_min, w_max, .. } = self;
        if !(w_min..=w_max).contains(&w_init) {
            return Err(format!("w_init: found {w_init}; it must be from w_min = {w_min} to w_max = {w_max}"));
        }
        for (name, value) in
            [("ramp_packets", self.ramp_packets), ("credit_queue", self.credit_queue), ("credit_burst", self.credit_burst)]
        {
            if value == 0 {
                return Err(format!("{name}: found 0; it must be 1 or more"));
            }
        }
        if self.retry == Duration::ZERO {
            return Err("retry: found 0; it must be a time such as \"100us\"".into());
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let (spread, control) = (self.credit_spread, conditions.wire.control);
        if spread >= control {
            return Err(format!("credit_spread: found {spread}; it must be less than a control packet, {control}"));
        }
        let (burst, largest) = (control * u64::from(self.credit_burst), control + spread);
        if burst < largest {
            let found = self.credit_burst;
            return Err(format!("credit_burst: found {found}, which is {burst} and less than the largest credit, {largest}"));
        }
        self.check_spans(control + conditions.wire.full, conditions)
    }

    fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule> {
        let slot = wire.control + wire.full;
        let queue = (wire.control + self.credit_spread) * u64::from(self.credit_queue);
        Some(CreditSchedule {
            slot,
            burst: wire.control * u64::from(self.credit_burst),
            spread: self.credit_spread,
            credit_wait: Bytes::new((queue.get() * slot.get()).div_ceil(wire.control.get())),
            unscheduled: Bytes::ZERO,
            host_jitter: Duration::ZERO,
        })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        Some(NoLoss { how: "schedules all data by credits", advice: lost_to_requests("transport.expresspass.retry") })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        self.pause_with(conditions.wire.control + conditions.wire.full, conditions)
    }
}

impl Config {
    /// Checks the times that follow if a credit and its packet take `slot` of the link.
    pub(crate) fn check_spans(&self, slot: Bytes, conditions: &Conditions<'_>) -> Result<(), String> {
        conditions.check_at_host_rates(|rate, rtt| Spans::new(self, slot, rate, rtt))
    }

    /// [`Checked::longest_pause`] if a credit and its packet take `slot` of the link.
    pub(crate) fn pause_with(&self, slot: Bytes, conditions: &Conditions<'_>) -> Duration {
        let [slowest, _] = conditions.host_rates();
        let spans = Spans::new(self, slot, slowest, conditions.network.base_rtt(&conditions.wire));
        spans.map_or(Duration::LONGEST, |spans| spans.longest_pause())
    }
}

/// The intervals between repetitions double at most this many times.
pub(super) const RETRY_DOUBLINGS_MAX: u32 = 8;

/// The configuration's times on one network in which all hosts send at one rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    /// The gap between credits at the rate that the link can carry: for ExpressPass, the time of a credit and a full packet.
    pub slot: Duration,
    /// The round-trip time of the idle network, until a flow has measured its own.
    pub rtt: Duration,
    /// No measured round trip counts for more.
    pub rtt_max: Duration,
    /// The first interval between two repetitions.
    pub retry: Duration,
    /// A receiver sends no more credits to a sender that was silent for this long: a live sender repeats its message more often.
    pub quiet: Duration,
    /// How long after a flow's end its receiver must remember it.
    pub time_wait: Duration,
    /// The longest gap between the first two credits of a flow.
    first_gap: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, slot: Bytes, rate: Rate, rtt: Duration) -> Result<Spans, String> {
        let slot = rate.transmit_time(slot);
        let retry = span_of("retry_rtts", rtt.checked_scale(config.retry_rtts))?.max(config.retry);
        let quiet = span_of("retry", retry.checked_mul(2 << RETRY_DOUBLINGS_MAX))?;
        span_of("silence_rtts", quiet.checked_scale(config.silence_rtts))?;
        let slowest = f64::from(config.ramp_packets) / config.alpha;
        Ok(Spans {
            slot,
            rtt,
            rtt_max: quiet,
            retry,
            quiet,
            time_wait: TimeWait::span(quiet),
            first_gap: span_of("ramp_packets", slot.checked_scale(slowest * (1.0 + config.jitter)))?,
        })
    }

    /// The longest time for which a flow may be silent before one of its ends tries again.
    fn longest_pause(&self) -> Duration {
        self.quiet.max(self.first_gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
        let text = default_text::<Config>();
        assert!(text.contains("feedback = \"released\"") && text.contains("retry = \"100us\""), "{text}");
        assert_eq!(refused::<Config>("feedback = \"paper\""), Ok(()));
        for (text, key) in [
            ("alpha = 0.0", "alpha"),
            ("alpha = nan", "alpha"),
            ("w_init = 0.6", "w_init"),
            ("w_min = 0.6", "w_init"),
            ("w_step = -0.1", "w_step"),
            ("target_loss = 1.0", "target_loss"),
            ("target_loss_scale = inf", "target_loss_scale"),
            ("jitter = 1.0", "jitter"),
            ("silence_rtts = 0.5", "silence_rtts"),
            ("retry_rtts = 0.0", "retry_rtts"),
            ("ramp_packets = 0", "ramp_packets"),
            ("credit_queue = 0", "credit_queue"),
            ("credit_burst = 0", "credit_burst"),
            ("retry = \"0us\"", "retry"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
        }
    }

    /// With one credit of burst, a credit of 92 B could never leave.
    #[test]
    fn credits_that_no_port_could_send_are_refused() {
        use flowloom_core::{Switching, topology};
        let network = topology::single_switch(2, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
        let conditions = Conditions::new(&network, WireProfile::ETHERNET_1538, Bytes::new(100_000));
        let check = |config: Config| config.check_under(&conditions);
        assert_eq!(check(Config::default()), Ok(()));
        assert_eq!(check(Config { credit_burst: 1, credit_spread: Bytes::ZERO, ..Config::default() }), Ok(()));
        let refused = |config, key: &str| check(config).unwrap_err().starts_with(&format!("{key}: found"));
        assert!(refused(Config { credit_burst: 1, ..Config::default() }, "credit_burst"));
        assert!(refused(Config { credit_spread: Bytes::new(84), ..Config::default() }, "credit_spread"));
    }
}
