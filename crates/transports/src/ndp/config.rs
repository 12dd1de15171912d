//! Parameters of NDP, each with where it comes from.

use flowloom_core::{Ability, Bytes, Duration, Feature, PortProfile, PortSite, QueueLimit, QueueProfile, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, quantity, span_of};

/// Which flow a receiver pulls from next (§3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullOrder {
    /// Flows take turns.
    Fair,
    /// The flow with the fewest missing packets comes first, then the one that came first.
    Srpt,
}

/// Parameters of NDP. `fabric.buffer` has no effect on it, because its ports have memories of their own sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How many packets a flow sends at once, at line rate (§3). It should cover a bandwidth-delay product. The default is what the paper
    /// uses for large simulations, with packets of 9000 B.
    #[schemars(range(min = 1, max = 65536))]
    pub initial_window: u32,
    /// How many data packets wait in a switch port at most (§3.1: 8). The packet that is being sent does not count.
    #[schemars(range(min = 1, max = 65536))]
    pub data_queue: u32,
    /// The memory for headers and control packets at a switch port, as a multiple of the memory of `data_queue` full packets. The paper
    /// (§3.1) gives both as much; in the authors' simulator, this is 2.
    #[schemars(range(min = 0.001, max = 1000))]
    pub header_memory: f64,
    /// While data waits too, a switch port sends this many headers and control packets for each data packet (§3.1: 10).
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub headers_per_data: u32,
    /// Whether a header that finds its queue full goes back to its sender. If not, it is dropped.
    pub return_to_sender: bool,
    /// Which flow a receiver pulls from next.
    pub pull_order: PullOrder,
    /// The share of the receiver's link that pulls ask for. With 1, there is one pull in the time of a full packet and of a control packet.
    #[schemars(range(min = 0.01, max = 10))]
    pub pull_rate: f64,
    /// Whether an acknowledgement carries the pull if the receiver may pull at once. If not, or while pulls wait, a pull is a packet of
    /// its own.
    pub pull_in_answer: bool,
    /// Whether senders that choose paths leave out a path that trims or loses more than others, such as one over a slow link. The paper's senders have such a scoreboard; what counts as
    /// more is our choice: twice the share of the flow's paths together.
    pub avoid_paths: bool,
    /// A packet is sent again this long after it was sent, if nothing has been heard of it, and a receiver repeats its last pull if nothing
    /// follows it for as long. Both double with each repetition. It must exceed the longest wait in full queues. In an incast over
    /// links of 10 Gb/s, a header can wait for 1 ms at one port, since each ten headers let one packet of 9000 B go first.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub rto: Duration,
}

/// What a switch does with a packet that finds the data queue full (§3.1).
const TRIMS: Feature = Feature {
    ability: Ability::Trim,
    what: "it cuts the payload off a packet that finds the data queue full, and sends the header before all data",
    without: "receivers do not learn what was lost, and each loss costs a timeout",
    essential: true,
    key: Some("data_queue"),
};
/// Which packet that is.
const AT_RANDOM: Feature = Feature {
    ability: Ability::DropAtRandom,
    what: "it trims the arriving packet or the newest one in the queue, each with probability one half",
    without: "the packets of some senders are trimmed again and again",
    essential: false,
    key: None,
};
/// How headers and data share the link.
const IN_TURN: Feature = Feature {
    ability: Ability::Interleave,
    what: "it sends some headers and then a data packet in turn while both wait",
    without: "headers of a large incast keep all data from the link",
    essential: false,
    key: Some("headers_per_data"),
};
/// What happens to headers that find their queue full.
const RETURNS: Feature = Feature {
    ability: Ability::ReturnToSender,
    what: "it sends a header that finds its queue full back to its sender",
    without: "a header that finds its queue full is lost, and its sender waits for a timeout",
    essential: false,
    key: Some("return_to_sender"),
};

impl Default for Config {
    fn default() -> Config {
        Config {
            initial_window: 30,
            data_queue: 8,
            header_memory: 1.0,
            headers_per_data: 10,
            return_to_sender: true,
            pull_order: PullOrder::Fair,
            pull_rate: 1.0,
            pull_in_answer: true,
            avoid_paths: false,
            rto: Duration::from_ms(5),
        }
    }
}

impl Config {
    /// Bytes of headers and control packets that wait in a switch port at most.
    pub(super) fn header_queue(&self, wire: &WireProfile) -> u64 {
        let memory = wire.full * u64::from(self.data_queue);
        (memory.get() as f64 * self.header_memory) as u64
    }

    /// Describes a port. That of a host has no limits and does nothing but keep the order.
    pub(super) fn port_profile(&self, site: &PortSite<'_>) -> PortProfile {
        let limit = |bytes, key| site.at_switch().then_some(QueueLimit { bytes, key });
        let queue = |holds: &str, limit| QueueProfile { holds: holds.to_owned(), limit };
        let mut port = PortProfile::of_queues([""; 0], Bytes::ZERO).and(IN_TURN);
        port.memory = None;
        port.queues = vec![
            queue("headers and control packets", limit(Bytes::new(self.header_queue(&site.wire)), "header_memory")),
            queue("data", limit(site.wire.full * u64::from(self.data_queue), "data_queue")),
        ];
        if !site.at_switch() {
            return port;
        }
        let port = port.and(TRIMS).and(AT_RANDOM);
        if self.return_to_sender { port.and(RETURNS) } else { port }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        for (name, value) in [("header_memory", self.header_memory), ("pull_rate", self.pull_rate)] {
            if !value.is_finite() || value <= 0.0 {
                return Err(format!("{name}: found {value}; it must be a positive number, such as 1"));
            }
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let (found, least) = (self.header_queue(&conditions.wire), conditions.wire.control);
        if found < least.get() {
            let (found, name) = (Bytes::new(found), conditions.wire.name);
            let value = self.header_memory;
            return Err(format!(
                "header_memory: found {value}, which gives {found}; a control packet of {name} has {least}; raise it"
            ));
        }
        conditions.check_at_host_rates(|rate, _| Spans::new(self, rate, &conditions.wire))
    }

    fn longest_pause(&self, _: &Conditions<'_>) -> Duration {
        self.rto * (1 << DOUBLINGS_MAX)
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let window = conditions.small_window("initial_window", self.initial_window);
        let paths = conditions.unchosen_paths("avoid_paths", self.avoid_paths);
        conditions.early_timeout("rto", self.rto).into_iter().chain(window).chain(paths).collect()
    }
}

/// Timeouts double at most this many times.
pub(super) const DOUBLINGS_MAX: u32 = 6;
/// It is assumed that this many packets in a row, one per timeout, are never all lost.
pub(super) const SILENT_RETRIES: u32 = 16;

/// The configuration's times at one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    /// The time from one pull to the next: that of a full packet and a control packet, so that pulled packets do not fill a link on which
    /// headers and answers come too.
    pub slot: Duration,
    pub rto: Duration,
    /// How long after a flow's end its receiver must remember it.
    pub time_wait: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, rate: Rate, wire: &WireProfile) -> Result<Spans, String> {
        let slot = rate.transmit_time(wire.full + wire.control).checked_scale(1.0 / config.pull_rate);
        let longest_pause = span_of("rto", config.rto.checked_mul(1 << DOUBLINGS_MAX))?;
        Ok(Spans { slot: span_of("pull_rate", slot)?, rto: config.rto, time_wait: TimeWait::span(longest_pause) })
    }

    /// The timeout after this many doublings.
    pub fn timeout(&self, doublings: u32) -> Duration {
        self.rto * (1 << doublings.min(DOUBLINGS_MAX))
    }
}
