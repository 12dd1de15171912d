//! `[run]`, `[fabric]` and `[[fault]]`: how the network behaves.

use flowloom_core::{Bytes, Duration, WireProfile};
use flowloom_fabric::Routing;
use flowloom_transports::pfc::Pfc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantity;

/// The run as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// The seed of all random choices. The same scenario with the same seed gives the same results, byte for byte.
    #[schemars(range(max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,
    /// The run stops at this simulated time even if flows are unfinished. Without it, the run ends when all flows are finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "10000000s"))]
    pub time_limit: Option<Quantity<Duration>>,
    /// Stop with an error that says why, once flows have been open for this simulated time and no byte was delivered and no flow
    /// finished. Without it: 10 s, or a hundred times the transport's longest pause between two tries if that is more, and as long
    /// as links are down on top.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1us", "x-max" = "1000000s"))]
    pub stall_limit: Option<Quantity<Duration>>,
}

impl Default for Run {
    fn default() -> Run {
        Run { seed: 1, time_limit: None, stall_limit: None }
    }
}

/// How links and switches behave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fabric {
    /// How many bytes packets take on a link: the name of a preset.
    pub wire: WirePreset,
    /// The memory of each port, or of each switch with all its ports, as `sharing` says. It holds at least one full packet.
    #[schemars(extend("x-min" = "1B", "x-max" = "2GB"))]
    pub buffer: Quantity<Bytes>,
    /// Which ports share the memory that `buffer` gives.
    pub sharing: SharingMode,
    /// The dynamic threshold of a shared memory: a queue (one class at one port) takes a packet only while its length is below `alpha`
    /// times what is free of its switch's memory. The default is 1. It is an error to give it if ports do not share memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 1000))]
    pub alpha: Option<f64>,
    /// How one of several equally short paths is chosen.
    pub routing: RoutingMode,
    /// When a switch may begin to forward a packet.
    pub switching: SwitchingMode,
    /// Priority flow control, which makes the network lossless. An empty table, `[fabric.pfc]`, asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc: Option<Pfc>,
}

impl Default for Fabric {
    fn default() -> Fabric {
        Fabric {
            wire: WirePreset::Ip1500,
            buffer: Quantity(Bytes::new(36_864)),
            sharing: SharingMode::Port,
            alpha: None,
            routing: RoutingMode::SprayRoundRobin,
            switching: SwitchingMode::CutThrough,
            pfc: None,
        }
    }
}

/// Which ports share a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharingMode {
    /// Each port has this much for itself.
    Port,
    /// All ports of a switch share this much under dynamic thresholds, if the transport's ports can. A host's port has as much for
    /// itself.
    Switch,
}

/// A preset of packet sizes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum WirePreset {
    /// 1500 B packets, 40 B of header, 40 B control packets, no Ethernet framing (pHost, PIAS, pFabric).
    #[serde(rename = "ip_1500")]
    Ip1500,
    /// 1538 B frames with preamble and gap, 78 B around the payload, 84 B minimum (ExpressPass, TOP).
    #[serde(rename = "ethernet_1538")]
    Ethernet1538,
    /// 1000 B packets with 40 B of header (PASE, as ns-2 counts).
    #[serde(rename = "ns2_1000")]
    Ns21000,
    /// 9000 B packets with 64 B of header, and 64 B control packets (NDP). `buffer` must hold one.
    #[serde(rename = "jumbo_9000")]
    Jumbo9000,
}

impl WirePreset {
    /// The sizes it stands for.
    pub fn profile(self) -> WireProfile {
        match self {
            WirePreset::Ip1500 => WireProfile::IP_1500,
            WirePreset::Ethernet1538 => WireProfile::ETHERNET_1538,
            WirePreset::Ns21000 => WireProfile::NS2_1000,
            WirePreset::Jumbo9000 => WireProfile::JUMBO_9000,
        }
    }
}

/// How one of several equally short paths is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingMode {
    /// Each packet takes one of them independently and uniformly.
    SprayRandom,
    /// Senders whose transport labels packets with paths choose (NDP). Other packets take one independently and uniformly.
    SprayLabelled,
    /// Each packet takes the next one in turn, from a random start.
    SprayRoundRobin,
    /// A hash of the flow decides, so that a flow keeps its path.
    Ecmp,
    /// A hash of the flow decides, such that both directions of a flow share every link.
    EcmpSymmetric,
}

impl From<RoutingMode> for Routing {
    fn from(mode: RoutingMode) -> Routing {
        match mode {
            RoutingMode::SprayRandom => Routing::SprayRandom,
            RoutingMode::SprayLabelled => Routing::SprayLabelled,
            RoutingMode::SprayRoundRobin => Routing::SprayRoundRobin,
            RoutingMode::Ecmp => Routing::Ecmp,
            RoutingMode::EcmpSymmetric => Routing::EcmpSymmetric,
        }
    }
}

/// When a switch may begin to forward a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchingMode {
    /// It may when the packet's header has arrived, unless the next link is faster.
    CutThrough,
    /// It may when all of the packet has arrived.
    StoreAndForward,
}

/// Something that goes wrong on some links, or at a node.
///
/// `where` names them: a hop by the tiers it joins in the direction of travel (`"leaf-spine"` is the way up, `"spine-leaf"` the way
/// down), one link by its nodes (`"l0-s2"`), or `"all"`. Parallel links between two nodes are numbered in the order of the file: `"l0-s2"` names all of them, and
/// `"l0-s2:2"` the second.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FaultSpec {
    /// Packets vanish.
    Loss(Random),
    /// Packets arrive damaged, and the receiving host discards them.
    Corrupt(Random),
    /// Packets are sent twice.
    Duplicate(Random),
    /// Packets are held back while others overtake them.
    Reorder(Reorder),
    /// Links are down for a while, in both directions.
    LinkDown(LinkDown),
    /// A host, or the control endpoint of a switch, is down for a while and comes back without its state.
    ///
    /// Packets for it are dropped. A switch goes on forwarding. If a host goes down, its open flows and those to it are aborted, and flows that
    /// would start there are aborted until it is up again. The other end of an aborted flow is not told.
    NodeDown(NodeDown),
    /// A node pauses all its neighbours for a while although it is not out of memory, as a broken NIC does. It needs `[fabric.pfc]`.
    PauseStorm(PauseStorm),
}

/// Which packets a fault affects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultPackets {
    /// All packets.
    #[default]
    All,
    /// Packets with payload.
    Data,
    /// Packets without payload: acknowledgements, requests, tokens, messages of control endpoints.
    Control,
    /// Messages of control endpoints alone: packets from or to a switch or the control host.
    Messages,
}

/// A fault that affects each packet independently of the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// The links that it affects.
    #[serde(rename = "where")]
    #[schemars(example = "leaf-spine")]
    pub place: String,
    /// The probability that it affects a packet.
    #[schemars(range(min = 0, max = 1), example = 0.01)]
    pub probability: f64,
    /// Which packets it affects.
    #[serde(default)]
    pub packets: FaultPackets,
    /// The number of the flow whose packets it affects. Without it, it affects packets of all flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4_294_967_295_u32))]
    pub flow: Option<u32>,
}

/// Packets are held back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// The links that it affects.
    #[serde(rename = "where")]
    #[schemars(example = "leaf-spine")]
    pub place: String,
    /// The probability that it affects a packet.
    #[schemars(range(min = 0, max = 1), example = 0.01)]
    pub probability: f64,
    /// Which packets it affects.
    #[serde(default)]
    pub packets: FaultPackets,
    /// The number of the flow whose packets it affects. Without it, it affects packets of all flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 4_294_967_295_u32))]
    pub flow: Option<u32>,
    /// The longest time for which a packet is held back. The time is uniform up to this.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub delay: Quantity<Duration>,
}

/// Links are down.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDown {
    /// The links that go down.
    #[serde(rename = "where")]
    #[schemars(example = "l0-s0")]
    pub place: String,
    /// When they go down.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When they come up again.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
}

/// A node is down.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDown {
    /// The name of a host, such as `h0`, of a switch with a control endpoint, or of the control host, `arbiter`.
    #[schemars(example = &"h0")]
    pub node: String,
    /// When it goes down.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When it comes up again.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
}

/// A node pauses its neighbours without need.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseStorm {
    /// The name of a host, such as `h0`, or of a switch.
    #[schemars(example = &"h0")]
    pub node: String,
    /// When it sends the first pause frame, to each neighbour. Frames stop all classes.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When it sends the last frame, which lets its neighbours go on.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
    /// The time from one frame to the next. The default is half of the longest pause that a frame of IEEE 802.1Qbb can ask for at 10 Gb/s, 65,535
    /// quanta of 512 bits.
    #[serde(default = "half_of_the_longest_pause")]
    #[schemars(extend("x-min" = "1us", "x-max" = "1000000s"))]
    pub every: Quantity<Duration>,
}

fn half_of_the_longest_pause() -> Quantity<Duration> {
    Quantity(Duration::from_ns(1_677_696))
}
