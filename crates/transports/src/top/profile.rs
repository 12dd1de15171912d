//! Describes TOP's ports.

use flowloom_core::{Ability, Feature, LimiterProfile, PortProfile, PortSite, QueueLimit, QueueProfile};

use super::FIRST_TOKENS;
use super::config::{Config, SwitchForm};
use crate::disciplines::CreditDrop;
use crate::expresspass::random_drop;

/// Tokens that waited for too long (§3.1).
const EXPIRE: Feature = Feature {
    ability: Ability::Expire,
    what: "it drops a token that has waited for longer than its lifetime",
    without: "old tokens of low priority ask for more data than links carry, and data is lost; switch = \"remedy\" lets senders drop them",
    essential: true,
    key: Some("lifetime"),
};
/// The way of tokens through commodity switches (§4.2).
const TWO_PASSES: Feature = Feature {
    ability: Ability::TwoPasses,
    what: "it sends tokens through a sub-port and an assistant switch, whose queues and limiter stand for its own",
    without: "there is no place for several queues of tokens under one limit; figure 7 of the paper shows the cables that it takes",
    essential: true,
    key: Some("switch"),
};
/// As many priorities as there are flows (§3.2).
const SORTED: Feature = Feature {
    ability: Ability::OrderByNumber,
    what: "it sends the token with the most urgent of all keys first",
    without: "flows of different urgency share a priority; switch = \"hypothetical\" has as many priorities as queues",
    essential: true,
    key: Some("switch"),
};

pub(super) fn port(config: &Config, site: &PortSite<'_>) -> PortProfile {
    let (wire, credits) = (&site.wire, &config.credits);
    let ideal = config.switch == SwitchForm::Ideal;
    let limit = match config.switch {
        SwitchForm::Ideal => QueueLimit { bytes: wire.control * u64::from(config.ideal_queue), key: "ideal_queue" },
        SwitchForm::Hypothetical | SwitchForm::Remedy => credits.credit_limit("credits.credit_queue", wire),
    };
    let mut port = PortProfile::of_queues(["signals"], site.memory.bytes());
    for level in 0..config.token_classes() {
        let holds = if ideal { "tokens".to_owned() } else { format!("tokens of priority {level}") };
        port.queues.push(QueueProfile { holds, limit: Some(limit) });
    }
    port.queues.push(QueueProfile { holds: "data".to_owned(), limit: None });
    if config.unscheduled > 0 {
        let packets = if !site.at_switch() { u64::from(config.unscheduled) } else { 1 };
        let limit = Some(QueueLimit { bytes: wire.full * packets, key: "unscheduled" });
        port.queues.push(QueueProfile { holds: "packets of short flows that no token asked for".to_owned(), limit });
    }
    port.queues_key = (!ideal).then_some("levels");
    port.limiter = Some(LimiterProfile {
        first: FIRST_TOKENS,
        queues: config.token_classes(),
        part: wire.control,
        whole: config.slot(wire),
        burst: wire.control * u64::from(credits.credit_burst),
        share_key: (config.token_share > 0.0).then_some("token_share"),
        burst_key: "credits.credit_burst",
    });
    if credits.credit_drop == CreditDrop::Random && !ideal {
        port = port.and(random_drop("credits.credit_drop"));
    }
    match config.switch {
        SwitchForm::Hypothetical => port.and(EXPIRE),
        SwitchForm::Ideal => port.and(EXPIRE).and(SORTED),
        SwitchForm::Remedy if !site.at_switch() => port,
        SwitchForm::Remedy => port.and(TWO_PASSES),
    }
}
