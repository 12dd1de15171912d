//! `kind = "dumbbell"`: two racks.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, gbps, ns};
use crate::ScenarioError;

/// Two racks are joined by one link.
///
/// Hops: `host-leaf`, `leaf-leaf`, `leaf-host`. The defaults are the TOP paper's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dumbbell {
    /// How many hosts in each rack.
    #[schemars(range(min = 1, max = 65_000))]
    pub hosts_per_side: u32,
    /// The rate of the hosts' links.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Quantity<Rate>,
    /// The rate of the link between the racks.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub middle_rate: Quantity<Rate>,
    /// The propagation delay of every link, one way.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
}

impl Default for Dumbbell {
    fn default() -> Dumbbell {
        Dumbbell { hosts_per_side: 40, host_rate: gbps(10), middle_rate: gbps(100), delay: ns(4_000) }
    }
}

impl Shape for Dumbbell {
    fn small() -> &'static str {
        "kind = \"dumbbell\", hosts_per_side = 2"
    }

    fn size(&self) -> Option<Size> {
        let hosts = 2 * u64::from(self.hosts_per_side);
        Some(Size { hosts, switches: 2, links: hosts + 1 })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let Dumbbell { hosts_per_side, host_rate, middle_rate, delay } = self;
        Ok(topology::dumbbell(*hosts_per_side as usize, host_rate.0, middle_rate.0, delay.0, switching))
    }
}
