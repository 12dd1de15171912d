//! Parameters of stop-and-wait.

use flowloom_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Checked, Conditions, quantity};

/// Parameters of stop-and-wait.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The most packets a flow may have unacknowledged; 1 is stop-and-wait.
    #[schemars(range(min = 1, max = 65536))]
    pub window: u32,
    /// Retransmission timeout, fixed. It must exceed a round trip through full queues.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub rto: Duration,
    /// How long a receiver remembers a finished flow, so as to acknowledge late duplicates, in timeouts since the last of them.
    #[schemars(range(min = 1, max = 10_000))]
    pub time_wait_rtos: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { window: 1, rto: Duration::from_ms(1), time_wait_rtos: 100 }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        if self.window == 0 {
            return Err("window: found 0, and nothing could be sent; it must be 1 or more".into());
        }
        if self.rto == Duration::ZERO {
            return Err("rto: found 0; it must exceed a round trip, such as \"1ms\"".into());
        }
        if self.time_wait_rtos == 0 {
            return Err("time_wait_rtos: found 0, and a late duplicate would open a flow anew; it must be 1 or more".into());
        }
        Ok(())
    }

    fn longest_pause(&self, _: &Conditions<'_>) -> Duration {
        self.rto
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        let text = default_text::<Config>();
        assert!(text.contains("rto = \"1ms\""), "{text}");
        assert!(toml::from_str::<Config>("windw = 3").is_err());
    }

    #[test]
    fn what_could_not_run_is_refused_by_name() {
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [("window = 0", "window"), ("rto = \"0us\"", "rto"), ("time_wait_rtos = 0", "time_wait_rtos")] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
