//! Parameters of pHost, each with where it comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Checked;

/// Which flows may start without a token from their receiver (§3.2 says "8 per flow"; the authors' simulator gives them to
/// short flows only).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeTokenRule {
    /// Flows of at most `free_tokens` packets get a token for each packet, longer flows get none.
    ShortFlows,
    /// Every flow gets tokens for its first `free_tokens` packets.
    EveryFlow,
}

/// How a receiver makes room for the packets that free tokens let loose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeTokenAccount {
    /// A new flow sets the number of token slots to skip to its own free tokens, as in the authors' simulator. Concurrent short
    /// flows are under-counted, and a flow without free tokens ends the wait.
    Set,
    /// The same, but a flow without free tokens leaves the number as it is.
    SetByShort,
    /// A new flow adds its free tokens to the slots to skip.
    Add,
}

/// Which flow gets the next token at a receiver, and which token is used next at a sender (§3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Shortest remaining first: least mean flow completion time.
    Srpt,
    /// Earliest deadline first; flows without a deadline last.
    Edf,
    /// The tenant that has been served least, and the shortest remaining flow of that tenant.
    TenantFair,
}

/// Parameters of pHost. Times are in slots: the transmission time of a full packet at the host's rate, see `slot_with_token`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Free tokens per flow, in packets (§4.1: 8, the bandwidth-delay product).
    pub free_tokens: u32,
    /// Which flows get free tokens.
    pub free_token_rule: FreeTokenRule,
    /// How receivers make room for packets sent on free tokens.
    pub free_token_account: FreeTokenAccount,
    /// Whether a slot has room for a token beside the full packet. As the paper has it (§3.1), receivers ask for a full packet per
    /// full packet's time, and tokens, requests and acknowledgements come on top: busy links are asked for more than they carry.
    pub slot_with_token: bool,
    /// A token is good for this many slots after its arrival at the sender (§3.1: 1.5).
    pub token_life_slots: f64,
    /// A flow with this many unanswered tokens is downgraded: it gets no tokens for a while. The default is a bandwidth-delay product
    /// (§3.2, §4.1: 8), as in the authors' simulator; the text says that the count "exceeds" it, which would be 9 here.
    pub downgrade_threshold: u32,
    /// A downgraded flow may have tokens again this many slots after its last one (§4.1: 24, three round trips).
    pub downgrade_slots: f64,
    /// How many tokens it may then have before it is downgraded again.
    pub downgrade_retry_tokens: u32,
    /// When every packet has had a token, the missing ones get another this many slots after the last (§3.4 "or timeout";
    /// 9 in the authors' simulator).
    pub reissue_slots: f64,
    /// The same for flows sent wholly on free tokens, in slots per free token.
    pub free_reissue_slots: f64,
    /// Flows of at most this many packets are short: class 1 instead of 2 (§3.3, whose limit is not given; the free-token limit).
    pub short_flow_packets: u32,
    /// The policy at both ends.
    pub policy: Policy,
    /// Whether short flows' data goes in a class of its own; off, all data is class 1 (§4.4 turns it off for tenants).
    pub data_priorities: bool,
    /// A full port gives up a lower class's newest packet for a higher class's arrival, as a commodity switch with
    /// per-class thresholds does; off, it drops the arrival.
    pub push_out: bool,
    /// An RTS is repeated when nothing was heard for this many base round trips, and then at twice the interval each time. The
    /// paper does not say what happens when an RTS or the final ACK is lost.
    pub rts_retry_rtts: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            free_tokens: 8,
            free_token_rule: FreeTokenRule::ShortFlows,
            free_token_account: FreeTokenAccount::Set,
            slot_with_token: false,
            token_life_slots: 1.5,
            downgrade_threshold: 8,
            downgrade_slots: 24.0,
            downgrade_retry_tokens: 8,
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
}
