//! `kind = "single_switch"`: one switch.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, gbps, ns};
use crate::ScenarioError;

/// All hosts are on one switch.
///
/// Hops: `host-switch`, `switch-host`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SingleSwitch {
    /// How many hosts.
    #[schemars(range(min = 2, max = 65_000))]
    pub hosts: u32,
    /// The rate of every link.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Quantity<Rate>,
    /// The propagation delay of every link, one way.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
}

impl Default for SingleSwitch {
    fn default() -> SingleSwitch {
        SingleSwitch { hosts: 16, host_rate: gbps(10), delay: ns(200) }
    }
}

impl Shape for SingleSwitch {
    fn small() -> &'static str {
        "kind = \"single_switch\", hosts = 3"
    }

    fn size(&self) -> Option<Size> {
        let hosts = self.hosts.into();
        Some(Size { hosts, switches: 1, links: hosts })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        Ok(topology::single_switch(self.hosts as usize, self.host_rate.0, self.delay.0, switching))
    }
}
