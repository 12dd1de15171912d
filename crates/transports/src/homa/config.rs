//! Parameters of Homa, each with where it comes from.

use flowloom_core::{Bytes, Duration, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cutoffs::Blind;
use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, PortMemory, SizeShare, quantity, span_of};

/// What decides the level of an unscheduled packet (§3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// The size of the message: all of its unscheduled packets have one level, as in the paper.
    Size,
    /// What is left of the message from this packet on, so that later packets have better levels, as in the authors' simulator. Scheduled
    /// packets among the last `rtt_bytes` of a message are treated alike.
    Remaining,
}

/// Parameters of Homa. The defaults are the paper's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `RTTbytes`, on the wire: how much of a message is sent before the first grant, and how much may be granted beyond what has arrived
    /// (§3.2, §3.3). It is rounded up to whole packets. 0 means the bandwidth-delay product of the host's link and the largest round trip
    /// between idle hosts. The paper's is 10 kB, at 10 Gb/s.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1GB"))]
    pub rtt_bytes: Bytes,
    /// Priority levels of the switches (§5: 8). Level 0 is the highest. Control packets have it, too.
    #[schemars(range(min = 1, max = 8))]
    pub levels: u8,
    /// How many of the levels, from the highest on, unscheduled packets have. 0 means that the workload decides: their share of the levels
    /// is that of unscheduled bytes in all bytes, rounded, but at least one level is left to either kind of packets (§3.4). On real hosts,
    /// where the workload is not known, 0 means one level.
    #[schemars(range(min = 0, max = 8))]
    pub unscheduled_levels: u8,
    /// Message sizes that separate the unscheduled levels, ascending. A message has the level of the first cutoff that it does not exceed.
    /// An empty list means that they follow from the workload, so that each level carries equally many unscheduled bytes (§3.4). On real
    /// hosts, an empty list means one level.
    #[serde(with = "quantity::bytes::list")]
    #[schemars(schema_with = "quantity::cutoffs_schema", length(max = 7))]
    pub cutoffs: Vec<Bytes>,
    /// What decides the level of an unscheduled packet.
    pub assignment: Assignment,
    /// How many messages a receiver grants to at the same time (§3.5). 0 means as many as there are scheduled levels, as in the paper.
    #[schemars(range(min = 0, max = 64))]
    pub overcommitment: u8,
    /// Whether these messages all have different senders, as in the authors' simulator: two messages of one sender cannot arrive at the
    /// same time anyway.
    pub one_per_sender: bool,
    /// Whether all packets that were granted and have not arrived together are at most `overcommitment` times `rtt_bytes`. Otherwise, as in
    /// the authors' simulator, only each message is limited, and messages that have their last grant, or have made way for shorter ones,
    /// do not count.
    pub limit_total: bool,
    /// A receiver asks again for packets that it expects when none of the message's have come for this long (§3.7: "a few milliseconds").
    /// A sender that has nothing to send and hears nothing asks for news after twice this time, and then at intervals that double. If
    /// a packet may wait longer than this in a queue, packets are sent twice.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub resend_timeout: Duration,
    /// After this many requests in a row without any answer, a receiver takes the sender for dead, and grants to other messages until it
    /// hears from it again (5 in the authors' Linux implementation).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub resends: u32,
    /// Whether a full port drops the newest packet of a lower level to make room for an arrival of a higher level, as a commodity
    /// switch with per-class thresholds does. If not, it drops the arrival. The paper's switches never overflow.
    pub push_out: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rtt_bytes: Bytes::ZERO,
            levels: 8,
            unscheduled_levels: 0,
            cutoffs: Vec::new(),
            assignment: Assignment::Size,
            overcommitment: 0,
            one_per_sender: true,
            limit_total: false,
            resend_timeout: Duration::from_ms(5),
            resends: 5,
            push_out: true,
        }
    }
}

impl Config {
    /// The number of levels of unscheduled packets, if the workload does not decide it.
    pub(super) fn unscheduled_levels_or_one(&self) -> u8 {
        if self.unscheduled_levels == 0 { self.cutoffs.len() as u8 + 1 } else { self.unscheduled_levels }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        if self.cutoffs.contains(&Bytes::ZERO) || !self.cutoffs.is_sorted() {
            return Err("cutoffs: they must be above 0 and ascend, such as [\"300B\", \"1kB\"]".to_owned());
        }
        let (unscheduled, cutoffs) = (usize::from(self.unscheduled_levels), self.cutoffs.len());
        if unscheduled > usize::from(self.levels) {
            let most = self.levels;
            return Err(format!("unscheduled_levels: found {unscheduled}; it must be at most levels = {most}"));
        }
        if cutoffs >= usize::from(self.levels) {
            let most = self.levels - 1;
            return Err(format!("cutoffs: found {cutoffs}; there may be up to {most}, one less than levels"));
        }
        if unscheduled > 0 && cutoffs > 0 && cutoffs + 1 != unscheduled {
            let right = unscheduled - 1;
            return Err(format!("cutoffs: found {cutoffs}; {unscheduled} unscheduled levels have {right} between them"));
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        Spans::new(self).map(drop)?;
        conditions.check_at_host_rates(|rate, rtt| window(self, rate, rtt, &conditions.wire))
    }

    fn longest_pause(&self, _: &Conditions<'_>) -> Duration {
        Spans::new(self).map_or(Duration::LONGEST, |spans| spans.timeout * (2 << DOUBLINGS_MAX))
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        conditions.early_timeout("resend_timeout", self.resend_timeout).into_iter().collect()
    }

    /// A receiver grants `rtt_bytes` to each of `overcommitment` messages, and new messages send as much unasked (§3.5: buffers are the price of
    /// overcommitment).
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let (fastest, rtt) = conditions.largest_product(&conditions.wire);
        let packets = window(self, fastest, rtt, &conditions.wire).ok()?;
        let messages = match self.overcommitment {
            0 => self.levels.saturating_sub(self.unscheduled_levels_or_one()).max(1),
            given => given,
        };
        let bytes = conditions.wire.full * u64::from(packets) * (u64::from(messages) + 1);
        Some(PortMemory {
            bytes,
            holds: format!("the first {packets} packets of a message, and the granted ones of {messages} messages"),
        })
    }

    /// The unscheduled levels and their cutoffs that suit the workload, where they are not given.
    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Config> {
        if !self.cutoffs.is_empty() {
            return None;
        }
        let sizes = sizes();
        let (fastest, rtt) = conditions.largest_product(&conditions.wire);
        let packets = window(self, fastest, rtt, &conditions.wire).ok()?;
        let blind = Blind::new(&sizes, conditions.wire.payload() * u64::from(packets), self.assignment)?;
        let levels = if self.unscheduled_levels == 0 { blind.levels(self.levels) } else { self.unscheduled_levels };
        Some(Config { unscheduled_levels: levels, cutoffs: blind.cutoffs(levels), ..self.clone() })
    }
}

/// The intervals of a sender's questions double at most this many times.
pub(super) const DOUBLINGS_MAX: u32 = 6;

/// The configuration's times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub timeout: Duration,
    /// How long after a message's end its receiver must remember it, so that it can acknowledge the message again.
    pub time_wait: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config) -> Result<Spans, String> {
        let timeout = config.resend_timeout;
        let time_wait = TimeWait::span(span_of("resend_timeout", timeout.checked_mul(2 << DOUBLINGS_MAX))?);
        Ok(Spans { timeout, time_wait })
    }
}

/// `RTTbytes` in whole packets, for a host that sends at `rate`.
///
/// # Errors
/// If there are 2³² packets or more. The message names the key.
pub(super) fn window(config: &Config, rate: Rate, rtt: Duration, wire: &WireProfile) -> Result<u32, String> {
    let bytes = match config.rtt_bytes {
        Bytes::ZERO => rate.bytes_in(rtt),
        given => given,
    };
    u32::try_from(bytes.pieces(wire.full))
        .map_err(|_| format!("rtt_bytes: the bandwidth-delay product here is {bytes}; give the key a smaller number"))
}
