//! Parameters of Fastpass.

use flowloom_core::{Duration, Rate, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::MOST_SLOTS;
use crate::Checked;

/// Which flow the arbiter serves first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The flow with the fewest packets left.
    Srpt,
    /// The flow with the earliest deadline; flows without one come last.
    Deadline,
}

/// When the first slot of a schedule begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleStart {
    /// With the epoch after the one in which it was made, at all hosts at once; clocks are perfect.
    Epoch,
    /// When the schedule arrives.
    Arrival,
}

/// Parameters of Fastpass as the pHost paper, §4.1, evaluates it. A slot is the time of a full packet at a host's rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Packets that one schedule grants at most, 1 to 8 (pHost paper §4.1: 8).
    pub epoch_slots: u32,
    /// What an epoch lasts beyond its packets, in slots; leaves room for control packets (0.5 in the simulator behind the pHost
    /// paper's figures, so that an epoch is 10.2 µs at 10 Gb/s).
    pub epoch_slack_slots: f64,
    /// Which flow the arbiter serves first: `srpt`, or `deadline` for the pHost paper's figure 5(c).
    pub policy: Policy,
    /// When the first slot of a schedule begins: on `arrival`, as in the pHost authors' simulator, or with the next `epoch`.
    pub schedule_start: ScheduleStart,
    /// How long a sender waits for acknowledgements after its last granted packet before it requests the rest anew, in epochs
    /// (1 in that simulator); never less than two round trips.
    pub ack_wait_epochs: f64,
    /// How long a sender waits for a grant before it repeats its request, in epochs, besides two round trips; doubles up to
    /// eightfold. Ours: that simulator loses no control packet.
    pub request_timeout_epochs: f64,
    /// Whether a full port drops data to make room for control packets (so in that simulator), instead of whatever arrives.
    pub push_out: bool,
    /// How long a receiver remembers a finished flow, so as to acknowledge late duplicates, in longest pauses between two requests
    /// since the last of them: as many losses in a row do no harm.
    pub time_wait_requests: u32,
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
            time_wait_requests: 12,
        }
    }
}

impl Config {
    /// What an epoch lasts where hosts send at `rate`.
    pub fn epoch(&self, rate: Rate, wire: &WireProfile) -> Duration {
        rate.transmit_time(wire.full).scale(f64::from(self.epoch_slots) + self.epoch_slack_slots)
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
        if self.time_wait_requests == 0 {
            return Err(
                "time_wait_requests: found 0, and a retransmission would open a finished flow anew; it must be 1 or more"
                    .into(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn an_epoch_is_eight_and_a_half_packets() {
        let epoch = Config::default().epoch(Rate::from_gbps(10), &WireProfile::IP_1500);
        assert_eq!(epoch, Duration::from_ns(10_200));
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
            ("time_wait_requests = 0", "time_wait_requests"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
