//! `kind = "fat_tree"`: the k-ary fat-tree.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, delays, gbps, ns};
use crate::ScenarioError;

/// The k-ary fat-tree, all links alike: k pods, k³/4 hosts.
///
/// Hops: `host-edge`, `edge-agg`, `agg-core` and the same the other way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FatTree {
    /// How many ports each switch has, an even number.
    #[schemars(range(min = 2, max = 64))]
    pub k: u32,
    /// The rate of every link.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// The propagation delay of every link, one way. Hosts' links have `host_delay` instead, if it is given.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
    /// The propagation delay of the hosts' links, one way, including the time that hosts take to send and receive. Without it, hosts'
    /// links have the same delay as all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub host_delay: Option<Quantity<Duration>>,
}

impl Default for FatTree {
    fn default() -> FatTree {
        FatTree { k: 4, rate: gbps(10), delay: ns(200), host_delay: None }
    }
}

impl Shape for FatTree {
    fn small() -> &'static str {
        "kind = \"fat_tree\""
    }

    fn check(&self) -> Result<(), ScenarioError> {
        if self.k.is_multiple_of(2) {
            return Ok(());
        }
        Err(ScenarioError::at_key("topology.k", format!("found {}; a fat-tree's k is even", self.k)))
    }

    fn size(&self) -> Option<Size> {
        let k = u64::from(self.k);
        Some(Size { hosts: k.pow(3) / 4, switches: k * k * 5 / 4, links: k.pow(3) * 3 / 4 })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        Ok(topology::fat_tree(self.k as usize, self.rate.0, delays(self.delay, self.host_delay), switching))
    }
}
