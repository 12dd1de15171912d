//! `kind = "single_switch"`: one switch.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, gbps, ns, planes};
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
    /// How many planes: networks of this shape beside each other. Each host has a link in each, and no packet goes from one plane to another. Without it, there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub planes: Option<u32>,
}

impl Default for SingleSwitch {
    fn default() -> SingleSwitch {
        SingleSwitch { hosts: 16, host_rate: gbps(10), delay: ns(200), planes: None }
    }
}

impl Shape for SingleSwitch {
    fn small() -> &'static str {
        "kind = \"single_switch\", hosts = 3"
    }

    fn size(&self) -> Option<Size> {
        let hosts = self.hosts.into();
        Some(Size { hosts, switches: 1, links: hosts }.planes(self.planes))
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        Ok(planes(topology::single_switch(self.hosts as usize, self.host_rate.0, self.delay.0, switching), self.planes))
    }
}
