//! Parameters of pHost, each with where it comes from.

use flowloom_core::{Attribute, Bytes, Duration, Need, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, span_of};

/// Which flows may start without a token from their receiver. The paper gives 8 to each flow (§3.2, §4.1), its authors' simulator to short flows
/// only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeTokenRule {
    /// Flows of at most `free_tokens` packets get a token for each packet, longer flows get none (the authors' simulator).
    ShortFlows,
    /// Every flow gets tokens for its first `free_tokens` packets (§4.1).
    EveryFlow,
}

/// How a receiver leaves room for the packets that are sent on free tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeTokenAccount {
    /// A new flow sets the number of token slots to skip to its own number of free tokens, as in the later version of the authors'
    /// simulator. Concurrent flows are under-counted, and a flow without free tokens ends the wait.
    Set,
    /// As `set`, but a flow without free tokens does not change the number.
    SetByShort,
    /// A new flow adds its free tokens to the slots to skip, as in the earlier version.
    Add,
}

/// Which flow gets the next token at a receiver, and which token is used next at a sender (§3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Shortest remaining flow first, which gives the least mean flow completion time.
    Srpt,
    /// Earliest deadline first. Flows without a deadline come last.
    Edf,
    /// Smallest coflow first, by the payload of all flows of the coflow, in packets. A flow without a coflow is one of its own.
    SmallestCoflow,
    /// The tenant that has been served least, and the shortest remaining flow of that tenant.
    TenantFair,
}

impl Policy {
    pub(super) fn need(self) -> Option<Need> {
        let (of, without) = match self {
            Policy::Srpt => return None,
            Policy::Edf => (Attribute::Deadline, "receivers serve flows in the order of their arrival"),
            Policy::SmallestCoflow => (Attribute::Coflow, "each flow counts as a coflow of its size"),
            Policy::TenantFair => (Attribute::Tenant, "flows are served as with \"srpt\""),
        };
        Some(Need { key: Some("policy"), of, without })
    }
}

/// Parameters of pHost. Times are in slots. A slot is the transmission time of a full packet at the host's rate, see `slot_with_token`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Free tokens per flow, in packets (§4.1: 8, the bandwidth-delay product).
    #[schemars(range(min = 0, max = 4096))]
    pub free_tokens: u32,
    /// Which flows get free tokens (§4.1: every flow).
    pub free_token_rule: FreeTokenRule,
    /// How receivers leave room for packets that are sent on free tokens.
    pub free_token_account: FreeTokenAccount,
    /// Whether a slot has room for a token beside the full packet. In the paper (§3.1), receivers ask for one full packet per full
    /// packet's time. Tokens, requests and acknowledgements come on top, so busy links are asked for more than they carry.
    pub slot_with_token: bool,
    /// A token is valid for this many slots after its arrival at the sender (§3.1: 1.5).
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub token_life_slots: f64,
    /// A flow with this many unanswered tokens is downgraded: it gets no tokens for a while. The default is a bandwidth-delay product
    /// (§3.2, §4.1: 8), as in the authors' simulator. The paper's text says that the count "exceeds" it, which would be 9 here.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub downgrade_threshold: u32,
    /// A downgraded flow may get tokens again this many slots after its last one (§4.1: 24, three round trips).
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub downgrade_slots: f64,
    /// How many tokens it may then get before it is downgraded again (1 in the authors' simulator; the paper is silent).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub downgrade_retry_tokens: u32,
    /// When every packet has had a token, the missing packets get another one this many slots after the last token (§3.4 "or timeout";
    /// 9 in the authors' simulator).
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub reissue_slots: f64,
    /// The same for flows that are sent wholly on free tokens, in slots per free token.
    #[schemars(range(min = 0.001, max = 1_000_000))]
    pub free_reissue_slots: f64,
    /// Flows of at most this many packets are short: their data has class 1 instead of 2 (§3.3, which gives no limit; the default is
    /// that of free tokens).
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub short_flow_packets: u32,
    /// The policy at both ends.
    pub policy: Policy,
    /// Whether short flows' data has a class of its own. If not, all data has class 1 (§4.4 turns it off for tenants).
    pub data_priorities: bool,
    /// Whether a full port drops the newest packet of a lower class to make room for an arrival of a higher class, as a commodity
    /// switch with per-class thresholds does. If not, it drops the arrival.
    pub push_out: bool,
    /// An RTS is repeated when nothing was received for this many base round trips, and then at intervals that double. The paper does
    /// not say what happens when an RTS or the final ACK is lost.
    #[schemars(range(min = 0.1, max = 1_000_000))]
    pub rts_retry_rtts: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            free_tokens: 8,
            free_token_rule: FreeTokenRule::EveryFlow,
            free_token_account: FreeTokenAccount::Add,
            slot_with_token: false,
            token_life_slots: 1.5,
            downgrade_threshold: 8,
            downgrade_slots: 24.0,
            downgrade_retry_tokens: 1,
            reissue_slots: 9.0,
            free_reissue_slots: 2.0,
            short_flow_packets: 8,
            policy: Policy::Srpt,
            data_priorities: true,
            push_out: true,
            rts_retry_rtts: 3.0,
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let slots = [
            ("token_life_slots", self.token_life_slots),
            ("downgrade_slots", self.downgrade_slots),
            ("reissue_slots", self.reissue_slots),
            ("free_reissue_slots", self.free_reissue_slots),
            ("rts_retry_rtts", self.rts_retry_rtts),
        ];
        if let Some((name, value)) = slots.into_iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
            return Err(format!("{name}: found {value}; it must be a positive number, such as 1.5"));
        }
        if !(1..=self.downgrade_threshold).contains(&self.downgrade_retry_tokens) {
            let (found, most) = (self.downgrade_retry_tokens, self.downgrade_threshold);
            return Err(format!("downgrade_retry_tokens: found {found}; it must be from 1 to downgrade_threshold = {most}"));
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        conditions.check_at_host_rates(|rate, rtt| Spans::new(self, rate, rtt, &conditions.wire))
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let [slowest, _] = conditions.host_rates();
        let rtt = conditions.network.base_rtt(&conditions.wire);
        Spans::new(self, slowest, rtt, &conditions.wire).map_or(Duration::LONGEST, |spans| spans.longest_pause())
    }

    /// Spans that stand for a bandwidth-delay product. The authors' values are three quarters of the round trip of their network, so only
    /// less than half of it counts.
    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let (fastest, rtt) = conditions.largest_product(&conditions.wire);
        let round_trip = rtt.as_ps() as f64 / fastest.transmit_time(conditions.wire.full).as_ps() as f64;
        [
            ("downgrade_threshold", f64::from(self.downgrade_threshold), "flows are downgraded while their data is on its way"),
            ("reissue_slots", self.reissue_slots, "packets get another token while they are on their way"),
        ]
        .into_iter()
        .filter(|(_, slots, _)| slots * 2.0 < round_trip)
        .map(|(key, slots, effect)| {
            format!("{key}: {slots} slots are less than half of a round trip, which takes {round_trip:.0} here, so {effect}; raise it to about {round_trip:.0}")
        })
        .collect()
    }
}

/// Request intervals double at most this many times.
pub(super) const RETRY_DOUBLINGS_MAX: u32 = 6;

/// The configuration's times on one network in which all hosts send at one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// The time that a token stands for: that of a full packet, even if the packet is shorter.
    pub slot: Duration,
    pub token_life: Duration,
    pub downgrade: Duration,
    pub reissue: Duration,
    /// The wait per free token.
    pub free_reissue: Duration,
    /// The first interval between two requests.
    pub retry: Duration,
    /// How long after a flow's end its receiver must remember it. A sender that has not received the final ACK repeats its request.
    pub time_wait: Duration,
    /// The time of all free tokens of a flow.
    free: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, rate: Rate, rtt: Duration, wire: &WireProfile) -> Result<Spans, String> {
        let control = if config.slot_with_token { wire.control } else { Bytes::ZERO };
        let slot = rate.transmit_time(wire.full + control);
        let slots = |key: &str, slots: f64| span_of(key, slot.checked_scale(slots));
        let free_reissue = slots("free_reissue_slots", config.free_reissue_slots)?;
        let free_tokens = u64::from(config.free_tokens.max(1));
        span_of("free_reissue_slots", free_reissue.checked_mul(free_tokens))?;
        let retry = span_of("rts_retry_rtts", rtt.checked_scale(config.rts_retry_rtts))?;
        Ok(Spans {
            slot,
            token_life: slots("token_life_slots", config.token_life_slots)?,
            downgrade: slots("downgrade_slots", config.downgrade_slots)?,
            reissue: slots("reissue_slots", config.reissue_slots)?,
            free_reissue,
            retry,
            time_wait: TimeWait::span(span_of("rts_retry_rtts", retry.checked_mul(1 << RETRY_DOUBLINGS_MAX))?),
            free: span_of("free_tokens", slot.checked_mul(free_tokens))?,
        })
    }

    /// The longest time for which a flow may be silent before one of its ends tries again.
    fn longest_pause(&self) -> Duration {
        let requests = self.retry * (1 << RETRY_DOUBLINGS_MAX);
        requests.max(self.reissue).max(self.downgrade).max(self.free_reissue).max(self.token_life) + self.free
    }
}
