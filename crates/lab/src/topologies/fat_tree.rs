//! `kind = "fat_tree"`: the k-ary fat-tree.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, delays, gbps, ns, planes};
use crate::ScenarioError;

/// The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches each, and (k/2)² core switches. By default all links are alike, and there are k³/4 hosts.
///
/// Hops: `host-edge`, `edge-agg`, `agg-core` and the same the other way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FatTree {
    /// How many ports each switch has, an even number: half of them to the switches above.
    #[schemars(range(min = 2, max = 64))]
    pub k: u32,
    /// How many hosts each edge switch has. Without it, k/2; with more, the switches above are oversubscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub hosts_per_edge: Option<u32>,
    /// The rate of every link, but for those that `host_rate` and `core_rate` are for.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// The rate of the hosts' links. Without it, `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Option<Quantity<Rate>>,
    /// The rate of the links between aggregation switches and the core. Without it, `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub core_rate: Option<Quantity<Rate>>,
    /// The propagation delay of every link, one way. Hosts' links have `host_delay` instead, if it is given.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
    /// The propagation delay of the hosts' links, one way, including the time that hosts take to send and receive. Without it, hosts'
    /// links have the same delay as all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub host_delay: Option<Quantity<Duration>>,
    /// The propagation delay of the links between aggregation switches and the core, one way. Without it, they have `delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub core_delay: Option<Quantity<Duration>>,
    /// How many planes: networks of this shape beside each other. Each host has a link in each, and no packet goes from one plane to another. Without it, there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub planes: Option<u32>,
}

impl Default for FatTree {
    fn default() -> FatTree {
        FatTree {
            k: 4,
            hosts_per_edge: None,
            rate: gbps(10),
            host_rate: None,
            core_rate: None,
            delay: ns(200),
            host_delay: None,
            core_delay: None,
            planes: None,
        }
    }
}

impl FatTree {
    fn hosts_per_edge(&self) -> u32 {
        self.hosts_per_edge.unwrap_or(self.k / 2)
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
        let [k, hosts_per_edge] = [self.k, self.hosts_per_edge()].map(u64::from);
        let hosts = k * k / 2 * hosts_per_edge;
        Some(Size { hosts, switches: k * k * 5 / 4, links: hosts + k.pow(3) / 2 }.planes(self.planes))
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let tree = topology::FatTree {
            k: self.k as usize,
            hosts_per_edge: self.hosts_per_edge() as usize,
            host_rate: self.host_rate.unwrap_or(self.rate).0,
            rate: self.rate.0,
            core_rate: self.core_rate.unwrap_or(self.rate).0,
            delays: delays(self.delay, [self.host_delay, self.core_delay]),
        };
        Ok(planes(tree.build(switching), self.planes))
    }
}
