//! Parameters of PDQ.

use flowloom_core::{Bytes, Duration, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::Feedback;
use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, NoLoss, PortMemory, quantity, span_of};

/// The round-trip times in which early start counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EarlyStartRtt {
    /// The least that the sender has measured to the flow's destination, with any flow.
    #[default]
    Least,
    /// The last that the flow has measured.
    Measured,
}

/// Parameters of PDQ. The defaults are the paper's where it is known to give a value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Early start: flows that need less than this many round trips to finish do not count against the next ones, up to this many round
    /// trips in total (§3.3.2: 2). 0 turns it off: the next flow starts when the last one has left the list.
    #[schemars(range(min = 0, max = 1000))]
    pub early_start_rtts: f64,
    /// The round-trip times in which early start counts. The paper has the flow's measured one, and does not say how it is estimated. The last
    /// one grows with the queue that early start makes, so at high load more and more flows start early.
    pub early_start_rtt: EarlyStartRtt,
    /// Suppressed probing: the time between two probes of a paused flow, in round trips for each flow before it on the list (§3.3.2:
    /// 0.2). It is never less than one round trip. 0 turns it off.
    #[schemars(range(min = 0, max = 100))]
    pub probe_rtts_per_flow: f64,
    /// Dampening: after a switch has accepted a flow, it accepts no other paused flow on the same link for this many average round trips
    /// (the paper says "a given small period of time"). So of a burst of flows that start at once, only a few are accepted in turn. 0 turns
    /// it off.
    #[schemars(range(min = 0, max = 100))]
    pub dampening_rtts: f64,
    /// A paused flow is accepted if it gets at least this part of the rate of the link or, if that is less, of the slowest link before it. This is our addition:
    /// without it, whenever the rate controller raises the capacity by a few per cent, the next flow would start at that rate.
    #[schemars(range(min = 0, max = 0.5))]
    pub accept_min: f64,
    /// Whether a switch counts the rate that it has promised to a flow before the acknowledgement commits it. If not, it may promise the
    /// same rate to other flows for a round trip; only dampening limits that.
    pub reserve_promises: bool,
    /// Whether a flow with a deadline gives up when it can no longer meet it (early termination, §3.1).
    pub early_termination: bool,
    /// The flows that a switch lists for each link: this many for each flow that is sending (§3.3.1: 2), and at least `list_min`. The
    /// other flows share what the listed ones leave, as under RCP.
    #[schemars(range(min = 1, max = 1000))]
    pub list_per_sender: u32,
    /// The least number of flows that a switch lists for each link, if it has that many. The default is that of a public simulator.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub list_min: u32,
    /// A flow on a list is forgotten when it was silent for this many times the longest of its probe intervals. This is our addition: the
    /// paper does not say what happens when the last packet of a flow is lost.
    #[schemars(range(min = 2, max = 1000))]
    pub expiry_rtts: f64,
    /// How often the rate controller adapts to the queue, in average round trips (§3.3.3: 2).
    #[schemars(range(min = 0.1, max = 1000))]
    pub rate_control_rtts: f64,
    /// The gain on spare capacity of the RCP share of flows that are not on the list (RCP's alpha).
    #[schemars(range(min = 0, max = 1))]
    pub rcp_alpha: f64,
    /// Its gain on the queue (RCP's beta).
    #[schemars(range(min = 0, max = 10))]
    pub rcp_beta: f64,
    /// Whether a flow opens with a SYN and sends its first probe when that is answered (§3.1). If not, it begins with the probe, which
    /// saves a round trip.
    pub handshake: bool,
    /// The size of the scheduling header, which every packet carries (§3.1: 16 B). Full packets stay as long as they are and carry less
    /// payload.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1kB"))]
    pub header: Bytes,
    /// The least retransmission timeout.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub rto_min: Duration,
    /// The retransmission timeout in measured round trips. It doubles with each timeout in a row, up to 64 times.
    #[schemars(range(min = 1, max = 1000))]
    pub rto_rtts: f64,
    /// A packet is lost when this many packets above it are acknowledged. 0 means that only a timeout tells.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub reordering: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            early_start_rtts: 2.0,
            early_start_rtt: EarlyStartRtt::default(),
            probe_rtts_per_flow: 0.2,
            dampening_rtts: 0.1,
            accept_min: 0.1,
            reserve_promises: true,
            early_termination: true,
            list_per_sender: 2,
            list_min: 100,
            expiry_rtts: 10.0,
            rate_control_rtts: 2.0,
            rcp_alpha: 0.1,
            rcp_beta: 1.0,
            handshake: true,
            header: Bytes::new(16),
            rto_min: Duration::from_ms(1),
            rto_rtts: 4.0,
            reordering: 3,
        }
    }
}

impl Config {
    /// The sizes of packets with their scheduling header.
    pub fn wire(&self, wire: &WireProfile) -> WireProfile {
        WireProfile { overhead: wire.overhead + self.header, control: wire.control + self.header, ..*wire }
    }

    pub(super) fn link_rules(&self) -> LinkRules {
        LinkRules {
            early_start_rtts: self.early_start_rtts,
            probe_rtts_per_flow: self.probe_rtts_per_flow,
            dampening_rtts: self.dampening_rtts,
            accept_min: self.accept_min,
            reserve_promises: self.reserve_promises,
            list_per_sender: self.list_per_sender,
            list_min: self.list_min,
            expiry_rtts: self.expiry_rtts,
            rate_control_rtts: self.rate_control_rtts,
            rcp_alpha: self.rcp_alpha,
            rcp_beta: self.rcp_beta,
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let least = [
            ("early_start_rtts", self.early_start_rtts, 0.0),
            ("probe_rtts_per_flow", self.probe_rtts_per_flow, 0.0),
            ("dampening_rtts", self.dampening_rtts, 0.0),
            ("accept_min", self.accept_min, 0.0),
            ("expiry_rtts", self.expiry_rtts, 2.0),
            ("rate_control_rtts", self.rate_control_rtts, 0.1),
            ("rcp_alpha", self.rcp_alpha, 0.0),
            ("rcp_beta", self.rcp_beta, 0.0),
            ("rto_rtts", self.rto_rtts, 1.0),
        ];
        for (name, value, least) in least {
            if !value.is_finite() || value < least {
                return Err(format!("{name}: found {value}; it must be at least {least}"));
            }
        }
        for (name, value) in [("list_per_sender", self.list_per_sender), ("list_min", self.list_min)] {
            if value == 0 {
                return Err(format!("{name}: found 0, and no flow could be listed; it must be 1 or more"));
            }
        }
        if self.rto_min == Duration::ZERO {
            return Err("rto_min: found 0; it must be a time such as \"1ms\"".into());
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let (full, rest) = (conditions.wire.full, conditions.wire.overhead + self.header);
        if rest >= full {
            return Err(format!("header: found {}; headers of {rest} leave no payload in a packet of {full}", self.header));
        }
        let payload = full - rest;
        if conditions.largest_flow.pieces(payload) >= u64::from(u32::MAX) {
            let (header, flow) = (self.header, conditions.largest_flow);
            return Err(format!(
                "header: found {header}, which leaves {payload} of payload in a packet; a flow of {flow} would have more than 2^32 - 2 packets"
            ));
        }
        Spans::new(self, conditions.network.base_rtt(&self.wire(&conditions.wire))).map(drop)
    }

    /// With early start, a flow sends while the last packets of the one before it are under way.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let product = conditions.bandwidth_delay_product(&self.wire(&conditions.wire));
        Some(PortMemory { bytes: product, holds: "what a flow can have under way when the next one starts".to_owned() })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        Some(NoLoss {
            how: "gives flows no more than the rates of links",
            advice: "flows overlapped by up to a round trip when one followed another, or many started in one round trip; raise fabric.buffer or \
                     transport.pdq.dampening_rtts, or lower transport.pdq.early_start_rtts"
                .to_owned(),
        })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        Spans::new(self, conditions.network.base_rtt(&self.wire(&conditions.wire)))
            .map_or(Duration::LONGEST, |spans| spans.rto_max)
    }
}

/// Timeouts double at most this many times.
pub(super) const RTO_DOUBLINGS_MAX: u32 = 6;

/// The configuration's times on one network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// The round-trip time of the idle network.
    pub rtt: Duration,
    /// The longest timeout on the idle network. No measured round trip and no probe interval counts for more.
    pub rto_max: Duration,
    /// How long after a flow's end its receiver must remember it.
    pub time_wait: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, rtt: Duration) -> Result<Spans, String> {
        let from_rtt = span_of("rto_rtts", rtt.checked_scale(config.rto_rtts))?;
        let rto = from_rtt.max(config.rto_min);
        // The key to change is that of the part that makes the span long.
        let at_fault = |key| if rto > from_rtt { "rto_min" } else { key };
        let rto_max = span_of(at_fault("rto_rtts"), rto.checked_mul(1 << RTO_DOUBLINGS_MAX))?;
        let rules = config.link_rules();
        span_of(at_fault("expiry_rtts"), rto_max.checked_scale(rules.expiry_rtts(rules.list_length(rules.list_min) - 1)))?;
        span_of(at_fault("dampening_rtts"), rto_max.checked_scale(config.dampening_rtts.max(1.0)))?;
        span_of(at_fault("rate_control_rtts"), rto_max.checked_scale(config.rate_control_rtts))?;
        Ok(Spans { rtt, rto_max, time_wait: TimeWait::span(rto_max) })
    }
}

/// The parameters of a link's flow list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkRules {
    pub early_start_rtts: f64,
    pub dampening_rtts: f64,
    pub accept_min: f64,
    pub reserve_promises: bool,
    pub rate_control_rtts: f64,
    pub rcp_alpha: f64,
    pub rcp_beta: f64,
    probe_rtts_per_flow: f64,
    expiry_rtts: f64,
    list_per_sender: u32,
    list_min: u32,
}

impl LinkRules {
    /// The most flows that a link lists while `sending` of them send.
    pub fn list_length(&self, sending: u32) -> usize {
        self.list_per_sender.saturating_mul(sending).max(self.list_min) as usize
    }

    /// The time between two probes of the flow that has `before` flows before it, in thousandths of a round trip.
    pub fn probe_interval(&self, before: usize) -> u32 {
        (self.probe_rtts_per_flow * before as f64 * f64::from(Feedback::ROUND_TRIP)) as u32
    }

    /// After how many round trips of silence that flow is forgotten.
    pub fn expiry_rtts(&self, before: usize) -> f64 {
        self.expiry_rtts * (self.probe_rtts_per_flow * before as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
        let text = default_text::<Config>();
        assert!(text.contains("rto_min = \"1ms\""), "{text}");
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("early_start_rtts = -1.0", "early_start_rtts"),
            ("probe_rtts_per_flow = nan", "probe_rtts_per_flow"),
            ("dampening_rtts = inf", "dampening_rtts"),
            ("expiry_rtts = 1.0", "expiry_rtts"),
            ("rate_control_rtts = 0.0", "rate_control_rtts"),
            ("rcp_alpha = -0.1", "rcp_alpha"),
            ("rcp_beta = nan", "rcp_beta"),
            ("rto_rtts = 0.5", "rto_rtts"),
            ("list_per_sender = 0", "list_per_sender"),
            ("list_min = 0", "list_min"),
            ("rto_min = \"0us\"", "rto_min"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }

    #[test]
    fn a_list_holds_two_flows_for_each_that_sends_and_at_least_its_minimum() {
        let rules = Config { list_min: 5, ..Config::default() }.link_rules();
        assert_eq!([0, 2, 3, 100].map(|sending| rules.list_length(sending)), [5, 5, 6, 200]);
        assert_eq!([0, 1, 5, 6, 50].map(|before| rules.probe_interval(before)), [0, 200, 1000, 1200, 10_000]);
        assert_eq!([0, 5, 50].map(|before| rules.expiry_rtts(before)), [10.0, 10.0, 100.0]);
    }
}
