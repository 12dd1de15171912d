//! Parameters of D3, each with where it comes from.

use flowloom_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::MOST_HOPS;
use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, NoLoss, span_of};

/// The queue length that reduces a port's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueSample {
    /// The least length in the interval, less a full packet: a queue that stands, not packets of several flows that came at one instant.
    Standing,
    /// The length at the end of the interval.
    Instant,
}

/// Parameters of D3. A round trip is the longest one of the idle network, unless the text says "measured".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whether a flow gives up when its deadline has passed or needs more than the host's rate (quenching, which is optional in the
    /// paper). If not, such a flow desires the host's rate until its deadline, and nothing after it.
    pub quenching: bool,
    /// Flows desire the rate with which their last byte is sent this many round trips before the deadline. By the letter of the paper there
    /// is no margin, and a flow that gets no more than it desires is late: its rate begins a round trip after it asks, and its last byte
    /// arrives half a round trip after it was sent.
    #[schemars(range(min = 0, max = 1000))]
    pub margin_rtts: f64,
    /// What a port allocates to a flow for which nothing is left, in header-only packets per round trip. Such a flow sends one request
    /// without payload per measured round trip. With 0, as in other implementations, allocations never exceed a port's capacity.
    #[schemars(range(min = 0, max = 1000))]
    pub base_packets: f64,
    /// Whether the desired rate and the fair share together are at most what is left. The paper's rule lacks this limit, and allocates more
    /// than a port's capacity while a new flow's share is still with the others.
    pub limit_to_left: bool,
    /// How often a port adapts its capacity, in round trips. A new capacity takes two round trips to change the arriving traffic: one until
    /// the flows ask, and one until they send at the new rate.
    #[schemars(range(min = 0.001, max = 1000))]
    pub adapt_rtts: f64,
    /// The share of a port's unused rate by which its capacity grows per interval (α = 0.1). With 0 and `queue_gain` = 0, the capacity is
    /// the link's rate.
    #[schemars(range(min = 0, max = 10))]
    pub spare_gain: f64,
    /// The share of the queue by which the capacity of an interval falls (β = 1).
    #[schemars(range(min = 0, max = 10))]
    pub queue_gain: f64,
    /// The queue that counts: `standing`, the least one in the interval less a packet, or `instant`, the one at its end.
    pub queue_sample: QueueSample,
    /// The largest capacity of a port, in link rates. A capacity above the link's rate makes up for flows that cannot use what they are
    /// allocated, because another port on their path allocates them less.
    #[schemars(range(min = 1, max = 1000))]
    pub capacity_max: f64,
    /// A port takes back what a flow does not renew within this many round trips, and at the latest within twice as many. The paper assumes
    /// that no request is lost.
    #[schemars(range(min = 1, max = 100_000))]
    pub hold_rtts: f64,
    /// A request or a flow's last packet that is not answered within this many round trips, base or measured, whichever are longer, is
    /// repeated; the time doubles up to 64-fold. From the first repetition on, the flow sends no data until it has an answer. It must be less
    /// than `hold_rtts`, so that no flow uses a rate that was taken back.
    #[schemars(range(min = 1, max = 1000))]
    pub timeout_rtts: f64,
    /// After this many requests in a row that brought no packet per round trip, a flow doubles the pause before each further request, up to 64
    /// measured round trips. This is our addition: where a round trip is short, the requests of some hundred waiting flows would fill the
    /// link, and none would ever send.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub patience: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            quenching: true,
            margin_rtts: 1.5,
            base_packets: 0.0,
            limit_to_left: true,
            adapt_rtts: 2.0,
            spare_gain: 0.1,
            queue_gain: 1.0,
            queue_sample: QueueSample::Standing,
            capacity_max: 1.0,
            hold_rtts: 8.0,
            timeout_rtts: 3.0,
            patience: 256,
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let values = [
            ("margin_rtts", self.margin_rtts, 0.0),
            ("base_packets", self.base_packets, 0.0),
            ("adapt_rtts", self.adapt_rtts, f64::MIN_POSITIVE),
            ("spare_gain", self.spare_gain, 0.0),
            ("queue_gain", self.queue_gain, 0.0),
            ("capacity_max", self.capacity_max, 1.0),
            ("timeout_rtts", self.timeout_rtts, 1.0),
        ];
        for (name, value, least) in values {
            if !value.is_finite() || value < least {
                return Err(format!("{name}: found {value}; it must be at least {least}"));
            }
        }
        if !self.hold_rtts.is_finite() || self.hold_rtts <= self.timeout_rtts {
            let (found, timeout) = (self.hold_rtts, self.timeout_rtts);
            return Err(format!("hold_rtts: found {found}; it must be more than timeout_rtts = {timeout}"));
        }
        if self.patience == 0 {
            return Err("patience: found 0; it must be 1 or more".into());
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        conditions.check_at_host_rates(|_, rtt| Spans::new(self, rtt))?;
        let longest = conditions.network.longest_path();
        if longest > MOST_HOPS {
            return Err(format!(
                "name: found \"d3\", but a path of this network has {longest} links, and a request carries the allocations of \
                 {MOST_HOPS}; use another transport or a network with shorter paths"
            ));
        }
        Ok(())
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        let within_capacity = self.base_packets == 0.0 && self.limit_to_left && self.capacity_max <= 1.0;
        within_capacity.then(|| NoLoss {
            how: "allocates no more than the rates of links",
            advice: "the requests of many flows filled ports, or ports had not adapted their capacity yet; raise fabric.buffer"
                .to_owned(),
        })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        Spans::new(self, conditions.network.base_rtt(&conditions.wire)).map_or(Duration::LONGEST, |spans| spans.longest_pause)
    }
}

/// How often the pause between two requests doubles.
pub(super) const MOST_DOUBLINGS: u32 = 6;

/// The configuration's times on one network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub round_trip: Duration,
    pub margin: Duration,
    /// How often a port adapts its capacity.
    pub interval: Duration,
    /// How long an allocation holds that is not renewed.
    pub hold: Duration,
    /// The first pause between two requests.
    pub timeout: Duration,
    /// The longest pause between two requests.
    pub longest_pause: Duration,
    /// How long a receiver remembers a flow.
    pub time_wait: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, round_trip: Duration) -> Result<Spans, String> {
        // A network of one host has no round trip, and no flow.
        let round_trip = round_trip.max(Duration::from_ps(1));
        let span = |key: &str, factor: f64| span_of(key, round_trip.checked_scale(factor));
        let margin = round_trip.checked_scale(config.margin_rtts).unwrap_or(Duration::LONGEST);
        let timeout = span("timeout_rtts", config.timeout_rtts)?;
        let longest_pause = span_of("timeout_rtts", timeout.checked_mul(1 << MOST_DOUBLINGS))?;
        Ok(Spans {
            round_trip,
            margin,
            interval: span("adapt_rtts", config.adapt_rtts)?,
            hold: span("hold_rtts", config.hold_rtts)?,
            timeout,
            longest_pause,
            time_wait: TimeWait::span(longest_pause),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
        default_text::<Config>();
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("margin_rtts = -1.0", "margin_rtts"),
            ("base_packets = nan", "base_packets"),
            ("adapt_rtts = 0.0", "adapt_rtts"),
            ("spare_gain = -0.1", "spare_gain"),
            ("queue_gain = inf", "queue_gain"),
            ("capacity_max = 0.5", "capacity_max"),
            ("timeout_rtts = 0.5", "timeout_rtts"),
            ("hold_rtts = 3.0", "hold_rtts"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
        }
    }
}
