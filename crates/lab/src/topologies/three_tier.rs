//! `kind = "three_tier"`: a tree with one core.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, delays, gbps, ns};
use crate::ScenarioError;

/// A tree has top-of-rack switches under aggregation switches under one core.
///
/// Hops: `host-tor`, `tor-agg`, `agg-core` and the same the other way. The defaults are the PASE paper's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThreeTier {
    /// How many racks. It is a multiple of `aggregations`, among which the racks are shared out evenly.
    #[schemars(range(min = 1, max = 10_000))]
    pub racks: u32,
    /// How many hosts in each rack.
    #[schemars(range(min = 1, max = 10_000))]
    pub hosts_per_rack: u32,
    /// How many aggregation switches.
    #[schemars(range(min = 1, max = 10_000))]
    pub aggregations: u32,
    /// The rate of the hosts' links.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Quantity<Rate>,
    /// The rate of the links between top-of-rack and aggregation switches.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub aggregation_rate: Quantity<Rate>,
    /// The rate of the links between aggregation switches and the core.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub core_rate: Quantity<Rate>,
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
}

impl Default for ThreeTier {
    fn default() -> ThreeTier {
        ThreeTier {
            racks: 4,
            hosts_per_rack: 40,
            aggregations: 2,
            host_rate: gbps(1),
            aggregation_rate: gbps(10),
            core_rate: gbps(10),
            delay: ns(25_000),
            host_delay: None,
            core_delay: None,
        }
    }
}

impl Shape for ThreeTier {
    fn small() -> &'static str {
        "kind = \"three_tier\", racks = 2, hosts_per_rack = 2"
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let ThreeTier { racks, aggregations, .. } = self;
        if racks.is_multiple_of(*aggregations) {
            return Ok(());
        }
        let message = format!("found {racks}; it is a multiple of aggregations, {aggregations}");
        Err(ScenarioError::at_key("topology.racks", message))
    }

    fn size(&self) -> Option<Size> {
        let [racks, hosts_per_rack, aggregations] = [self.racks, self.hosts_per_rack, self.aggregations].map(u64::from);
        let links = racks * (hosts_per_rack + 1) + aggregations;
        Some(Size { hosts: racks * hosts_per_rack, switches: racks + aggregations + 1, links })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let counts = [self.racks, self.hosts_per_rack, self.aggregations].map(|count| count as usize);
        let rates = [self.host_rate, self.aggregation_rate, self.core_rate].map(|rate| rate.0);
        let ([racks, hosts, aggregations], [host_rate, aggregation_rate, core_rate]) = (counts, rates);
        let delays = delays(self.delay, [self.host_delay, self.core_delay]);
        Ok(topology::three_tier(racks, hosts, aggregations, host_rate, aggregation_rate, core_rate, delays, switching))
    }
}
