//! Parameters of LAS.

use flowloom_core::{Bytes, Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Checked, Conditions, pfabric, quantity};

/// Parameters of LAS. They have the same meaning as pFabric's. The defaults are those of the PIAS paper, §V-C.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Packets a flow may send before the first acknowledgement (PIAS paper §V-C: 70, the bandwidth-delay product).
    #[schemars(range(min = 1, max = 65536))]
    pub initial_window: u32,
    /// The most packets a flow may have unacknowledged (139: one less than a port holds, as in the PIAS authors' simulator).
    #[schemars(range(min = 1, max = 65536))]
    pub max_window: u32,
    /// Retransmission timeout, fixed (PIAS paper §V-C: 250 µs, three round trips).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto: Duration,
    /// After this many consecutive timeouts a flow sends only a header at each timeout until it is answered; 0 means never (5 in the
    /// PIAS authors' simulator).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub probe_after: u32,
    /// Whether senders that choose paths (`fabric.routing = "spray_labelled"`) leave out a path that loses more than others.
    pub avoid_paths: bool,
    /// The most bytes that a port holds, even if it has more memory (PIAS paper §V-C: 210 kB, two bandwidth-delay products).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "2GB"))]
    pub port_most: Bytes,
    /// How long a receiver remembers a finished flow after its last duplicate.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100000s"))]
    pub time_wait: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initial_window: 70,
            max_window: 139,
            rto: Duration::from_us(250),
            probe_after: 5,
            avoid_paths: false,
            port_most: Bytes::new(210_000),
            time_wait: Duration::from_ms(1_000_000),
        }
    }
}

impl Config {
    /// The equivalent configuration of pFabric, with the priority number that makes it LAS.
    pub fn pfabric(&self) -> pfabric::Config {
        pfabric::Config {
            initial_window: self.initial_window,
            max_window: self.max_window,
            rto: self.rto,
            probe_after: self.probe_after,
            sack_clocking: false,
            priority: pfabric::Priority::BytesSent,
            avoid_paths: self.avoid_paths,
            port_most: Some(self.port_most),
            time_wait: self.time_wait,
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        self.pfabric().check()
    }
    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        self.pfabric().check_under(conditions)
    }
    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        self.pfabric().longest_pause(conditions)
    }
    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        self.pfabric().misfits(conditions)
    }
}
