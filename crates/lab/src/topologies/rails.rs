//! `kind = "rails"`: servers with accelerators, on rails.

use std::path::Path;

use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Shape, Size, delays, gbps, ns};
use crate::ScenarioError;

/// Servers with accelerators, each of which is a host with a NIC. Accelerators with the same number in the servers of a pod are on one rail: one leaf switch. Each leaf is joined to
/// every spine.
///
/// Hosts are numbered server by server: with 8 accelerators per server, host 11 is the fourth of the second server. Leaf `l0r3` is the fourth rail of the first pod. With `inside_rate`, the
/// accelerators of a server are also joined by a switch inside it (`n0` and so on), through a second link of each, and flows between them take this way.
///
/// Hops: `host-leaf`, `leaf-spine`, `spine-leaf`, `leaf-host`, and `host-inner`, `inner-host` inside servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rails {
    /// How many pods.
    #[schemars(range(min = 1, max = 10_000))]
    pub pods: u32,
    /// How many servers in each pod.
    #[schemars(range(min = 1, max = 10_000))]
    pub servers_per_pod: u32,
    /// How many accelerators in each server, which is how many rails there are.
    #[schemars(range(min = 1, max = 1_000))]
    pub accelerators: u32,
    /// How many spines.
    #[schemars(range(min = 1, max = 10_000))]
    pub spines: u32,
    /// The rate of the links between hosts and leaves.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub host_rate: Quantity<Rate>,
    /// The rate of the links between leaves and spines.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub spine_rate: Quantity<Rate>,
    /// The rate of each accelerator's link to the switch inside its server. Without it, there is no such switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub inside_rate: Option<Quantity<Rate>>,
    /// The propagation delay of every link, one way. Hosts' links to leaves have `host_delay` instead, if it is given, and links inside servers `inside_delay`.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
    /// The propagation delay of the links between hosts and leaves, one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub host_delay: Option<Quantity<Duration>>,
    /// The propagation delay of the links inside servers, one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub inside_delay: Option<Quantity<Duration>>,
}

impl Default for Rails {
    fn default() -> Rails {
        Rails {
            pods: 2,
            servers_per_pod: 8,
            accelerators: 8,
            spines: 8,
            host_rate: gbps(100),
            spine_rate: gbps(100),
            inside_rate: None,
            delay: ns(500),
            host_delay: None,
            inside_delay: None,
        }
    }
}

impl Shape for Rails {
    fn small() -> &'static str {
        "kind = \"rails\", pods = 2, servers_per_pod = 2, accelerators = 2, spines = 2, inside_rate = \"400Gb/s\""
    }

    fn check(&self) -> Result<(), ScenarioError> {
        if self.inside_delay.is_some() && self.inside_rate.is_none() {
            return Err(ScenarioError::at_key(
                "topology.inside_delay",
                "there are no links inside servers; give inside_rate, too",
            ));
        }
        Ok(())
    }

    fn size(&self) -> Option<Size> {
        let counts = [self.pods, self.servers_per_pod, self.accelerators, self.spines];
        let [pods, servers_per_pod, accelerators, spines] = counts.map(u64::from);
        let (leaves, servers) = (pods * accelerators, pods * servers_per_pod);
        let hosts = servers * accelerators;
        let (inner, inner_links) = if self.inside_rate.is_some() { (servers, hosts) } else { (0, 0) };
        Some(Size { hosts, switches: leaves + spines + inner, links: hosts + leaves * spines + inner_links })
    }

    fn build(&self, _: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let rails = topology::Rails {
            pods: self.pods as usize,
            servers_per_pod: self.servers_per_pod as usize,
            per_server: self.accelerators as usize,
            spines: self.spines as usize,
            host_rate: self.host_rate.0,
            spine_rate: self.spine_rate.0,
            inside: self.inside_rate.map(|rate| (rate.0, self.inside_delay.unwrap_or(self.delay).0)),
            delays: delays(self.delay, [self.host_delay, None]),
        };
        Ok(rails.build(switching))
    }
}
