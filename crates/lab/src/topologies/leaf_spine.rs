//! `kind = "leaf_spine"`: leaves and spines.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, delays, gbps, ns, planes};
use crate::ScenarioError;

/// Racks are under leaf switches, and each leaf is joined to every spine.
///
/// Hops: `host-leaf`, `leaf-spine`, `spine-leaf`, `leaf-host`. The defaults are the pHost paper's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeafSpine {
    /// How many racks, which is how many leaves.
    #[schemars(range(min = 1, max = 10_000))]
    pub racks: u32,
    /// How many hosts in each rack.
    #[schemars(range(min = 1, max = 10_000))]
    pub hosts_per_rack: u32,
    /// How many spines.
    #[schemars(range(min = 1, max = 10_000))]
    pub spines: u32,
    /// The rate of the hosts' links.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Quantity<Rate>,
    /// The rate of the links between leaves and spines.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub spine_rate: Quantity<Rate>,
    /// The propagation delay of every link, one way. Hosts' links have `host_delay` instead, if it is given.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
    /// The propagation delay of the hosts' links, one way, including the time that hosts take to send and receive. Without it, hosts'
    /// links have the same delay as all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub host_delay: Option<Quantity<Duration>>,
    /// How many planes: networks of this shape beside each other. Each host has a link in each, and no packet goes from one plane to another. Without it, there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16))]
    pub planes: Option<u32>,
}

impl Default for LeafSpine {
    fn default() -> LeafSpine {
        LeafSpine {
            racks: 9,
            hosts_per_rack: 16,
            spines: 4,
            host_rate: gbps(10),
            spine_rate: gbps(40),
            delay: ns(200),
            host_delay: None,
            planes: None,
        }
    }
}

impl Shape for LeafSpine {
    fn small() -> &'static str {
        "kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 2"
    }

    fn size(&self) -> Option<Size> {
        let [racks, hosts_per_rack, spines] = [self.racks, self.hosts_per_rack, self.spines].map(u64::from);
        let size = Size { hosts: racks * hosts_per_rack, switches: racks + spines, links: racks * (hosts_per_rack + spines) };
        Some(size.planes(self.planes))
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let [racks, hosts_per_rack, spines] = [self.racks, self.hosts_per_rack, self.spines].map(|count| count as usize);
        let delays = delays(self.delay, [self.host_delay, None]);
        let (host_rate, spine_rate) = (self.host_rate.0, self.spine_rate.0);
        Ok(planes(topology::leaf_spine(racks, hosts_per_rack, spines, host_rate, spine_rate, delays, switching), self.planes))
    }
}
