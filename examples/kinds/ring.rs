//! `kind = "ring"`: switches in a ring.

use std::path::Path;

use flowloom_core::{Duration, Network, NodeId, Rate, Switching};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, gbps, ns};
use crate::ScenarioError;

/// Switches form a ring, and each has hosts.
///
/// Hops: `host-switch`, `switch-switch`, `switch-host`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ring {
    /// How many switches.
    #[schemars(range(min = 3, max = 10_000))]
    pub switches: u32,
    /// How many hosts each switch has.
    #[schemars(range(min = 1, max = 10_000))]
    pub hosts_per_switch: u32,
    /// The rate of every link.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// The propagation delay of every link, one way.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring { switches: 4, hosts_per_switch: 2, rate: gbps(10), delay: ns(200) }
    }
}

impl Shape for Ring {
    fn small() -> &'static str {
        "kind = \"ring\""
    }

    fn size(&self) -> Option<Size> {
        let [switches, hosts_per_switch] = [self.switches, self.hosts_per_switch].map(u64::from);
        let hosts = switches * hosts_per_switch;
        Some(Size { hosts, switches, links: hosts + switches })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let mut network = Network::new((self.switches * self.hosts_per_switch) as usize, switching);
        let switches: Vec<NodeId> =
            (0..self.switches).map(|number| network.add_switch(1, "switch", format!("s{number}"))).collect();
        for (number, switch) in (0..).zip(&switches) {
            for host in number * self.hosts_per_switch..(number + 1) * self.hosts_per_switch {
                network.connect(NodeId(host), *switch, self.rate.0, self.delay.0);
            }
        }
        for (switch, next) in switches.iter().zip(switches.iter().cycle().skip(1)) {
            network.connect(*switch, *next, self.rate.0, self.delay.0);
        }
        Ok(network)
    }
}
