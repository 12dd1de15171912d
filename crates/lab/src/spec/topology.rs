//! `[topology]`: the shape of the network.

use flowloom_core::{Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantity;

/// The shape of the network. Every host has one link; every kind's defaults are a fabric that a paper used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Topology {
    /// All hosts are on one switch.
    ///
    /// Hops: `host-switch`, `switch-host`.
    SingleSwitch(SingleSwitch),
    /// Two racks are joined by one link.
    ///
    /// Hops: `host-leaf`, `leaf-leaf`, `leaf-host`. The defaults are the TOP paper's.
    Dumbbell(Dumbbell),
    /// Racks are under leaf switches, and each leaf is joined to every spine.
    ///
    /// Hops: `host-leaf`, `leaf-spine`, `spine-leaf`, `leaf-host`. The defaults are the pHost paper's.
    LeafSpine(LeafSpine),
    /// A tree has top-of-rack switches under aggregation switches under one core.
    ///
    /// Hops: `host-tor`, `tor-agg`, `agg-core` and the same the other way. The defaults are the PASE paper's.
    ThreeTier(ThreeTier),
    /// The k-ary fat-tree, all links alike: k pods, k³/4 hosts.
    ///
    /// Hops: `host-edge`, `edge-agg`, `agg-core` and the same the other way.
    FatTree(FatTree),
    /// A file lists the nodes and links.
    ///
    /// The file is TOML. Each `[[node]]` has a `name` and a `kind`, `"host"` or `"switch"`; a switch may have a `level` (tiers above
    /// the hosts; default 1) and a `tier` (what hop names call it; default `"switch"`). Each `[[link]]` has `a` and `b` (names of
    /// nodes), a `rate` and a `delay` (one way; default `"0s"`), and goes both ways. A host has exactly one link. Hosts
    /// are numbered in the order in which they appear.
    Custom(Custom),
}

/// All hosts are on one switch.
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

/// Two racks joined by one link.
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

/// Racks under leaf switches, each leaf joined to every spine.
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
}

/// A tree with one core.
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
}

/// The k-ary fat-tree.
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

/// Nodes and links from a file, a [`NetworkFile`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "net.toml")]
    pub file: String,
}

const fn gbps(n: u64) -> Quantity<Rate> {
    Quantity(Rate::from_gbps(n))
}
const fn ns(n: u64) -> Quantity<Duration> {
    Quantity(Duration::from_ns(n))
}

impl Default for SingleSwitch {
    fn default() -> SingleSwitch {
        SingleSwitch { hosts: 16, host_rate: gbps(10), delay: ns(200) }
    }
}
impl Default for Dumbbell {
    fn default() -> Dumbbell {
        Dumbbell { hosts_per_side: 40, host_rate: gbps(10), middle_rate: gbps(100), delay: ns(4_000) }
    }
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
        }
    }
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
        }
    }
}
impl Default for FatTree {
    fn default() -> FatTree {
        FatTree { k: 4, rate: gbps(10), delay: ns(200), host_delay: None }
    }
}

/// The file of a custom topology. Hosts are numbered in the order in which they appear.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// The nodes, hosts and switches.
    pub node: Vec<NodeEntry>,
    /// The links; each goes both ways.
    pub link: Vec<LinkEntry>,
}

/// A node of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NodeEntry {
    /// A host runs the transport and takes part in the workload. It has exactly one link.
    Host(HostEntry),
    /// A switch forwards packets.
    Switch(SwitchEntry),
}

/// A host of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// Its name, unique among all nodes.
    #[schemars(example = &"h0")]
    pub name: String,
}

/// A switch of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchEntry {
    /// Its name, unique among all nodes.
    #[schemars(example = &"s0")]
    pub name: String,
    /// How many tiers it is above the hosts, from 1.
    #[serde(default = "lowest")]
    #[schemars(range(min = 1, max = 100))]
    pub level: u8,
    /// Its tier's name, of which hop names are made.
    #[serde(default = "switch_tier")]
    pub tier: String,
}

/// A link of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// The name of the node at one end.
    #[schemars(example = &"h0")]
    pub a: String,
    /// The name of the node at the other end.
    #[schemars(example = &"s0")]
    pub b: String,
    /// How fast it is, each way.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// Its propagation delay, one way.
    #[serde(default)]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
}

fn lowest() -> u8 {
    1
}
fn switch_tier() -> String {
    "switch".to_owned()
}
