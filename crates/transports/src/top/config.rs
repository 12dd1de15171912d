//! Parameters of TOP, each with the section of the paper that it comes from.

use flowloom_core::{Attribute, Bytes, Duration, Need, Rate, WireProfile};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::thresholds::Split;
use crate::disciplines::{CreditDrop, CreditSchedule};
use crate::{Checked, Conditions, NoLoss, SizeShare, expresspass, quantity, span_of};

/// How switches order tokens and limit their rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchForm {
    /// One rate limiter for several queues of tokens, and tokens that expire in the queue (§3.1).
    Hypothetical,
    /// Commodity switches: tokens cross each switch twice, and senders drop those that are too old (§4).
    Remedy,
    /// As many priorities as there are flows (§3.2).
    Ideal,
}

/// What decides the priority of a flow's tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The flow's size: short flows first (§3.2).
    Size,
    /// The packets that have not arrived yet: flows that are nearly complete first.
    Remaining,
    /// The packets that have arrived: flows whose size nobody knows in advance (§3.2, §4.4).
    Attained,
    /// The time that is left until the flow's deadline.
    Deadline,
    /// The payload of the flow's coflow: the smallest first. A flow without a coflow is one of its own.
    Coflow,
}

impl Priority {
    pub(super) fn need(self) -> Option<Need> {
        let (of, without) = match self {
            Priority::Size | Priority::Remaining | Priority::Attained => return None,
            Priority::Deadline => (Attribute::Deadline, "all tokens have the lowest priority"),
            Priority::Coflow => (Attribute::Coflow, "each flow counts as a coflow of its size"),
        };
        Some(Need { key: Some("priority"), of, without })
    }
}

/// How the sizes that separate priorities follow from the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Thresholds {
    /// Each priority has equally many of the workload's bytes (§3.2: "their total size are equally split to queues"). For coflows, and where sizes are not
    /// known in advance, this is `"heavy_tail"`.
    EqualBytes,
    /// The paper's formula for an inverse proportional density of sizes: powers of the largest size (§3.2). Each priority has equally many flows then.
    HeavyTail,
    /// The same for an exponential density, which follows from the mean size (§3.2, "in a similar way").
    LightTail,
}

/// Parameters of TOP.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How switches order tokens and limit their rate.
    pub switch: SwitchForm,
    /// What decides the priority of a flow's tokens.
    pub priority: Priority,
    /// Queues of tokens in each port (K of §3.2). 0 means the most that eight queues allow: 6, or 5 with unscheduled packets. With
    /// `switch = "ideal"`, it counts for `priority = "attained"` only, where 0 means the paper's 8 (§5.3).
    #[schemars(range(min = 0, max = 8))]
    pub levels: u8,
    /// Sizes that separate the priorities, ascending. A flow has the first priority whose cutoff it does not exceed. An empty list means that
    /// they follow from `thresholds`.
    #[serde(with = "quantity::bytes::list")]
    #[schemars(schema_with = "quantity::cutoffs_schema", length(max = 7))]
    pub cutoffs: Vec<Bytes>,
    /// How `cutoffs` follow from the workload if they are not given.
    pub thresholds: Thresholds,
    /// With the thresholds of a formula, a flow of x packets counts as one of ax + b (§3.2, without values).
    #[schemars(range(min = 0.0001, max = 10_000))]
    pub a: f64,
    /// The summand beside `a`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub b: f64,
    /// `thresholds = "heavy_tail"`: the largest flow (p of §3.2), or the largest coflow with `priority = "coflow"`. 0 means that of the workload, or 1 GB on real hosts.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1000TB"))]
    pub largest: Bytes,
    /// `thresholds = "light_tail"`: the mean flow size. 0 means that of the workload, or 1 MB on real hosts.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1000TB"))]
    pub mean: Bytes,
    /// `priority = "deadline"`: the mean time until a deadline. Thresholds of the time that is left follow from it as those of sizes do with a
    /// light tail.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "1000s"))]
    pub deadline_mean: Duration,
    /// `priority = "deadline"`: whether flows that are late have the lowest priority. The paper does not say. If not, the flows that are
    /// late the longest come first, and delay the others until these are late, too.
    pub late_last: bool,
    /// The share of a link that is for tokens. 0 means the size of a token in that of a token and a full packet, which is 5.18 % on
    /// `ethernet_1538`; the paper rounds it to 5 % (§3.1). A larger share asks for more data than a link carries, so data is lost. Otherwise, it
    /// is at least 0.001.
    #[schemars(range(min = 0, max = 0.5))]
    pub token_share: f64,
    /// How long a token may wait at each hop, in token slots of that link (§3.1, §4.3: 8). A port drops older ones; with
    /// `switch = "remedy"`, the sender does, and it must be at least `credits.credit_queue`.
    #[schemars(range(min = 0.5, max = 10_000))]
    pub lifetime: f64,
    /// `switch = "ideal"`: how many tokens a port holds in all, of which `credits.credit_queue` may have the same priority. A full port drops the least
    /// urgent one. The default is the room of six queues of 8.
    #[schemars(range(min = 1, max = 10_000))]
    pub ideal_queue: u32,
    /// Flows of at most this many packets are sent at once, with the lowest priority (m of §4.4). 0 turns this off. It costs a queue of tokens.
    #[schemars(range(min = 0, max = 1000))]
    pub unscheduled: u32,
    /// Whether a receiver that knows the size sends no token while as many are under way as packets are missing (§3.1, §4.4: each token has a packet). One
    /// more follows a round trip after the last one. If not, it sends tokens until the flow is complete, as ExpressPass does.
    pub one_to_one: bool,
    /// A packet counts as lost when a packet that is more than this many further has arrived (§4.4, "much larger"). 0 means 3, or the
    /// bandwidth-delay product where packets are sprayed over several paths.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub reorder_window: u32,
    /// `switch = "remedy"`: how old a token may be when it comes to the sender (T of §5.4). 0 means the time of its path on an idle network
    /// and `lifetime` for each hop.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "100s"))]
    pub token_age: Duration,
    /// `switch = "remedy"`: how far each host's clock may be ahead or behind. Each host draws a fixed offset (§5.1: about 100 ns).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "1s"))]
    pub clock_error: Duration,
    /// `switch = "remedy"`: into how many sub-ports a port is split by a breakout cable (§4.2: 4). Tokens cross two of them.
    #[schemars(range(min = 1, max = 64))]
    pub sub_ports: u32,
    /// `switch = "remedy"`: what a token's way through the assistant switch takes besides the transmission on two sub-ports: two cables and
    /// the forwarding. The paper gives no value.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "1s"))]
    pub detour: Duration,
    /// The feedback control of each flow's tokens, and their queues in ports: ExpressPass's parameters, where tokens are called credits. Their
    /// defaults are ExpressPass's but for three: `feedback` is `"paper"`, whose target loss of 10 % is also TOP's (§3.1), `credit_spread` is 0 and no other
    /// value is possible, because TOP's tokens are all of one size, and `credit_drop` is `"random"`.
    #[serde(deserialize_with = "credits")]
    pub credits: expresspass::Config,
}

/// TOP's defaults of ExpressPass's parameters. All tokens have the size of the smallest frame (§3.1), so what keeps flows apart that would meet a full queue
/// in step is not the size, but the lot.
fn default_credits() -> expresspass::Config {
    let feedback = expresspass::Feedback::Paper;
    expresspass::Config {
        feedback,
        credit_spread: Bytes::ZERO,
        credit_drop: CreditDrop::Random,
        ..expresspass::Config::default()
    }
}

/// Reads a table whose missing keys have [`default_credits`]. Without this, they would have ExpressPass's defaults.
fn credits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<expresspass::Config, D::Error> {
    let given = serde_json::Map::deserialize(deserializer)?;
    let mut all = serde_json::to_value(default_credits()).map_err(D::Error::custom)?;
    all.as_object_mut().expect("a table").extend(given);
    expresspass::Config::deserialize(all).map_err(D::Error::custom)
}

impl Default for Config {
    fn default() -> Config {
        Config {
            switch: SwitchForm::Hypothetical,
            priority: Priority::Size,
            levels: 0,
            cutoffs: Vec::new(),
            thresholds: Thresholds::EqualBytes,
            a: 1.0,
            b: 0.0,
            largest: Bytes::ZERO,
            mean: Bytes::ZERO,
            deadline_mean: Duration::from_ms(1),
            late_last: true,
            token_share: 0.0,
            lifetime: 8.0,
            ideal_queue: 48,
            unscheduled: 0,
            one_to_one: true,
            reorder_window: 0,
            token_age: Duration::ZERO,
            clock_error: Duration::from_ns(100),
            sub_ports: 4,
            detour: Duration::from_ns(500),
            credits: default_credits(),
        }
    }
}

impl Config {
    /// The number of priorities.
    pub(super) fn levels(&self) -> u8 {
        match (self.levels, self.switch, self.priority) {
            (0, SwitchForm::Ideal, Priority::Attained) => 8,
            (0, ..) => 6 - u8::from(self.unscheduled > 0),
            (levels, ..) => levels,
        }
    }

    /// The number of classes of tokens in ports.
    pub(super) fn token_classes(&self) -> u8 {
        if self.switch == SwitchForm::Ideal { 1 } else { self.levels() }
    }

    /// What a token and the packet that it asks for take of a link.
    pub(super) fn slot(&self, wire: &WireProfile) -> Bytes {
        if self.token_share == 0.0 {
            return wire.control + wire.full;
        }
        Bytes::new((wire.control.get() as f64 / self.token_share).round() as u64)
    }

    /// How long a token may wait in front of a link of this rate.
    pub(super) fn lifetime(&self, rate: Rate, wire: &WireProfile) -> Option<Duration> {
        rate.transmit_time(self.slot(wire)).checked_scale(self.lifetime)
    }

    /// How long a token is on its way through the assistant switch of a port of this rate, and how long it takes to enter it.
    pub(super) fn detour(&self, rate: Rate, token: Bytes) -> (Duration, Duration) {
        let transmission = rate.transmit_time(token * u64::from(self.sub_ports));
        (transmission * 2 + self.detour, transmission)
    }

    fn check_ranges(&self) -> Result<(), String> {
        let ranges = [
            ("a", self.a, 0.0001, 1e4),
            ("b", self.b, 0.0, 1e6),
            ("token_share", self.token_share, 0.0, 0.5),
            ("lifetime", self.lifetime, 0.5, 1e4),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{name}: found {value}; it must be from {least} to {most}"));
            }
        }
        if self.token_share > 0.0 && self.token_share < 0.001 {
            return Err(format!("token_share: found {}; it must be 0, or from 0.001 to 0.5", self.token_share));
        }
        for (name, value) in [("ideal_queue", self.ideal_queue), ("sub_ports", self.sub_ports)] {
            if value == 0 {
                return Err(format!("{name}: found 0; it must be 1 or more"));
            }
        }
        if self.deadline_mean == Duration::ZERO {
            return Err("deadline_mean: found 0; it must be a time such as \"1ms\"".into());
        }
        Ok(())
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        self.check_ranges()?;
        let most = 6 - u8::from(self.unscheduled > 0);
        if self.switch != SwitchForm::Ideal && self.levels > most {
            let found = self.levels;
            return Err(format!(
                "levels: found {found}; with a queue for signals and those for data, there are {most} for tokens"
            ));
        }
        let queue = self.credits.credit_queue;
        if self.switch == SwitchForm::Remedy && self.lifetime < f64::from(queue) {
            let found = self.lifetime;
            return Err(format!(
                "lifetime: found {found}; with switch = \"remedy\", it must be at least credits.credit_queue = {queue}, or all tokens of a full \
                 queue would be too old, and no flow would send"
            ));
        }
        if self.unscheduled > 0 && self.priority == Priority::Attained {
            return Err(
                "unscheduled: priority = \"attained\" is for flows of unknown size, and these cannot be short; it must be 0"
                    .into(),
            );
        }
        let (levels, cutoffs) = (usize::from(self.levels()), self.cutoffs.len());
        if cutoffs >= levels {
            return Err(format!("cutoffs: found {cutoffs}; there may be up to {}, one less than levels", levels - 1));
        }
        if self.cutoffs.contains(&Bytes::ZERO) || !self.cutoffs.is_sorted() {
            return Err("cutoffs: they must be above 0 and ascend, such as [\"10kB\", \"1MB\"]".to_owned());
        }
        if self.credits.credit_spread > Bytes::ZERO {
            let found = self.credits.credit_spread;
            return Err(format!(
                "credits.credit_spread: found {found}; it must be 0B, because a limiter in bytes lets more of the small tokens through before the others \
                 expire, and each asks for a full packet"
            ));
        }
        self.credits.check().map_err(|why| format!("credits.{why}"))
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let credits = |why| format!("credits.{why}");
        self.credits.check_under(conditions).map_err(credits)?;
        self.credits.check_spans(self.slot(&conditions.wire), conditions).map_err(credits)?;
        let (links, hops) = (conditions.network.links(), conditions.network.len() as u64);
        let slowest = links.iter().map(|link| link.rate).min().unwrap_or_default();
        let token = conditions.wire.control;
        span_of("lifetime", self.lifetime(slowest, &conditions.wire).and_then(|span| span.checked_mul(hops)))?;
        if self.switch == SwitchForm::Remedy {
            span_of(
                "detour",
                Some(self.detour(slowest, token).0.max(Duration::from_ps(1))).and_then(|span| span.checked_mul(hops)),
            )?;
        }
        let slot = slowest.transmit_time(self.slot(&conditions.wire));
        span_of("unscheduled", slot.checked_mul(u64::from(self.unscheduled) + 1))?;
        Ok(())
    }

    /// A port drops a token that waits for longer than its lifetime, in the order of priorities or not. In the remedy, tokens wait at ports for as long as
    /// others are more urgent, so that the argument gives no bound.
    fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule> {
        let slot = self.slot(wire);
        (self.switch != SwitchForm::Remedy).then(|| CreditSchedule {
            slot,
            burst: wire.control * u64::from(self.credits.credit_burst),
            spread: Bytes::ZERO,
            credit_wait: Bytes::new((slot.get() as f64 * self.lifetime).ceil() as u64),
            // A host's packets of one flow, and the one that has begun to leave.
            unscheduled: if self.unscheduled == 0 { Bytes::ZERO } else { wire.full * u64::from(self.unscheduled + 1) },
            host_jitter: Duration::ZERO,
        })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        if self.unscheduled > 0 {
            return None;
        }
        let mut advice = expresspass::lost_to_requests("transport.top.credits.retry");
        if self.token_share > 0.0 {
            let share = self.token_share;
            advice += &format!(
                ". Or transport.top.token_share = {share} lets tokens ask for more data than a link carries; 0 does not"
            );
        }
        Some(NoLoss { how: "schedules all data by tokens", advice })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let slot = self.slot(&conditions.wire);
        let [slowest, _] = conditions.host_rates();
        let unscheduled =
            slowest.transmit_time(slot) * u64::from(self.unscheduled) + conditions.network.base_rtt(&conditions.wire);
        self.credits.pause_with(slot, conditions).max(unscheduled)
    }

    /// What separates priorities, if it follows from the workload's flows or coflows and is not given.
    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Config> {
        if self.priority == Priority::Deadline || !self.cutoffs.is_empty() {
            return None;
        }
        let nothing = |given: Bytes| given == Bytes::ZERO;
        if self.priority == Priority::Coflow {
            let largest = conditions.largest_coflow;
            return nothing(self.largest).then(|| Config { largest, ..self.clone() });
        }
        match self.thresholds {
            Thresholds::EqualBytes => {
                let cutoffs = Split::new(&sizes(), &conditions.wire, self.priority).cutoffs(self.levels());
                Some(Config { cutoffs, ..self.clone() })
            }
            Thresholds::HeavyTail if nothing(self.largest) => {
                Some(Config { largest: sizes().iter().map(|size| size.high).max()?, ..self.clone() })
            }
            Thresholds::LightTail if nothing(self.mean) => {
                let sizes = sizes();
                let all: f64 = sizes.iter().map(|size| size.share).sum();
                let sum: f64 = sizes.iter().map(|size| size.share * (size.low + size.high).get() as f64 / 2.0).sum();
                let mean = Bytes::new(((sum / all).round() as u64).max(1));
                (!sizes.is_empty()).then(|| Config { mean, ..self.clone() })
            }
            _ => None,
        }
    }
}
