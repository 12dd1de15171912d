//! Parameters of Fastpass.

use flowloom_core::{Attribute, Duration, Need, Network, NodeId, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::MOST_SLOTS;
use crate::toolkit::TimeWait;
use crate::{Checked, Conditions, NoLoss, PortMemory, check_deadline, span_of};

/// Which flow the arbiter serves first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The flow with the fewest packets left.
    Srpt,
    /// The flow with the earliest deadline; flows without one come last.
    Deadline,
}

impl Policy {
    pub(super) fn need(self) -> Option<Need> {
        let without = "the arbiter serves flows in the order of their numbers";
        (self == Policy::Deadline).then_some(Need { key: Some("policy"), of: Attribute::Deadline, without })
    }
}

/// When the first slot of a schedule begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleStart {
    /// With the epoch after the one in which it was made, at all hosts at once. Clocks are perfect.
    Epoch,
    /// When the schedule arrives.
    Arrival,
}

/// Parameters of Fastpass as the pHost paper, §4.1, evaluates it. A slot is the time of a full packet at a host's rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The largest number of packets that one schedule grants, 1 to 8 (pHost paper §4.1: 8).
    #[schemars(range(min = 1, max = 8))]
    pub epoch_slots: u32,
    /// The length of an epoch beyond its packets, in slots. It leaves room for control packets (0.5 in the simulator behind the pHost
    /// paper's figures, so that an epoch is 10.2 µs at 10 Gb/s).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub epoch_slack_slots: f64,
    /// Which flow the arbiter serves first: `srpt`, or `deadline` for the pHost paper's figure 5(c).
    pub policy: Policy,
    /// When the first slot of a schedule begins: on `arrival`, as in the pHost authors' simulator, or with the next `epoch`.
    pub schedule_start: ScheduleStart,
    /// How long a sender waits for acknowledgements after its last granted packet before it requests the rest again, in epochs (1 in
    /// that simulator). It is never less than two round trips.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub ack_wait_epochs: f64,
    /// How long a sender waits for a grant before it repeats its request, in epochs, on top of two round trips. The time doubles up to
    /// eightfold. This is our addition: that simulator loses no control packet.
    #[schemars(range(min = 2, max = 1_000_000))]
    pub request_timeout_epochs: f64,
    /// Whether a full port drops data to make room for control packets, as in that simulator. If not, it drops the arrival.
    pub push_out: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            epoch_slots: 8,
            epoch_slack_slots: 0.5,
            policy: Policy::Srpt,
            schedule_start: ScheduleStart::Arrival,
            ack_wait_epochs: 1.0,
            request_timeout_epochs: 10.0,
            push_out: true,
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        if !(1..=MOST_SLOTS as u32).contains(&self.epoch_slots) {
            return Err(format!("epoch_slots: found {}; it must be 1 to {MOST_SLOTS}", self.epoch_slots));
        }
        let spans = [
            ("epoch_slack_slots", self.epoch_slack_slots, 0.0),
            ("ack_wait_epochs", self.ack_wait_epochs, 0.0),
            ("request_timeout_epochs", self.request_timeout_epochs, 2.0),
        ];
        for (name, value, least) in spans {
            if !value.is_finite() || value < least {
                return Err(format!("{name}: found {value}; it must be at least {least}"));
            }
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        conditions.check_at_host_rates(|rate, _| Spans::new(self, rate, conditions.network, &conditions.wire))?;
        if self.policy == Policy::Deadline {
            check_deadline("policy", conditions.last_deadline)?;
        }
        Ok(())
    }

    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let [_, fastest] = conditions.host_rates();
        let holds =
            "what comes too early or too late at one host, because hosts are not equally far from the arbiter and from each other"
                .to_owned();
        Some(PortMemory { bytes: fastest.bytes_in(spread(conditions.network)), holds })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        Some(NoLoss {
            how: "gives each packet a time slot of its own",
            advice: "packets of different slots met at a port, because hosts are not equally far from the arbiter and from each other, or because links \
                     between switches carry less than hosts send, which the arbiter does not know; raise fabric.buffer or the rates of these links"
                .to_owned(),
        })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let [slowest, _] = conditions.host_rates();
        Spans::new(self, slowest, conditions.network, &conditions.wire).map_or(Duration::LONGEST, |spans| spans.longest_pause)
    }
}

/// By how much the delays from the arbiter, by way of a source, to a destination differ. The arbiter is at the switch of the first host.
fn spread(network: &Network) -> Duration {
    let first = NodeId(0);
    let distance = network.distances(first);
    let others = || (1..network.nics() as u32).map(NodeId);
    let delay = |host: NodeId| -> Duration {
        network.path(first, host).iter().map(|link| network.link(*link).delay).fold(Duration::ZERO, |sum, delay| sum + delay)
    };
    let Some((near, far)) =
        others().min_by_key(|host| distance[host.index()]).zip(others().max_by_key(|host| distance[host.index()]))
    else {
        return Duration::ZERO;
    };
    let to_arbiter = network.link(network.ports(first)[0]).delay;
    let grants = delay(far) - (to_arbiter * 2).min(delay(far));
    grants + (delay(far) - delay(near).min(delay(far)))
}

/// How often the pause between two requests doubles. It grows so that flows that wait long for their turn do not fill the arbiter's
/// link.
pub(super) const MOST_DOUBLINGS: u8 = 3;

/// The configuration's times on one network in which all hosts send at one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub epoch: Duration,
    /// From the last granted packet to the request for what is not acknowledged.
    pub ack_wait: Duration,
    /// The first pause between two requests.
    pub request_timeout: Duration,
    /// The longest pause between two requests.
    pub longest_pause: Duration,
    /// How long a receiver remembers a flow.
    pub time_wait: Duration,
}

impl Spans {
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(config: &Config, rate: Rate, network: &Network, wire: &WireProfile) -> Result<Spans, String> {
        let slot = rate.transmit_time(wire.full);
        let slots = f64::from(config.epoch_slots) + config.epoch_slack_slots;
        let epoch = span_of("epoch_slack_slots", slot.checked_scale(slots))?;
        let round_trips = network.base_rtt(wire) * 2;
        let ack_wait = epoch.checked_scale(config.ack_wait_epochs).map(|wait| wait.max(round_trips));
        let request_timeout = epoch.checked_scale(config.request_timeout_epochs).map(|wait| wait + round_trips);
        let request_timeout = span_of("request_timeout_epochs", request_timeout)?;
        let longest_pause = span_of("request_timeout_epochs", request_timeout.checked_mul(1 << MOST_DOUBLINGS))?;
        Ok(Spans {
            epoch,
            ack_wait: span_of("ack_wait_epochs", ack_wait)?,
            request_timeout,
            longest_pause,
            time_wait: TimeWait::span(longest_pause),
        })
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{NodeId, Switching};

    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn an_epoch_is_eight_and_a_half_packets() {
        let rate = Rate::from_gbps(10);
        let mut network = Network::new(2, Switching::StoreAndForward);
        let switch = network.add_switch(1, "switch", "s");
        for host in [0, 1].map(NodeId) {
            network.connect(host, switch, rate, Duration::ZERO);
        }
        let epoch = |config: &Config| Spans::new(config, rate, &network, &WireProfile::IP_1500).map(|spans| spans.epoch);
        assert_eq!(epoch(&Config::default()), Ok(Duration::from_ns(10_200)));
        let endless = Config { epoch_slack_slots: 1e12, ..Config::default() };
        assert!(
            epoch(&endless)
                .unwrap_err()
                .starts_with("epoch_slack_slots: the span that follows from it on this network is more than 1000000s")
        );
    }

    #[test]
    fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
        default_text::<Config>();
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("epoch_slots = 9", "epoch_slots"),
            ("epoch_slack_slots = -0.5", "epoch_slack_slots"),
            ("ack_wait_epochs = nan", "ack_wait_epochs"),
            ("request_timeout_epochs = 1.0", "request_timeout_epochs"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
