//! `[run]` and `[fabric]`: how the network behaves.

use flowloom_core::{Bytes, Duration, WireProfile};
use flowloom_fabric::Routing;
use flowloom_transports::pfc::Pfc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantity;
use crate::ScenarioError;
use crate::workload::NicChoice;

/// The run as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// The seed of all random choices. The same scenario with the same seed gives the same results, byte for byte.
    #[schemars(range(max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,
    /// The run stops at this simulated time even if flows are unfinished. Without it, the run ends when all flows are over, or after 10000000s. Flows that
    /// would start later are counted in `not_started` alone.
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
    /// The memory of each port, or of each switch with all its ports, as `sharing` says. It holds at least one full packet. Without it: as much as
    /// the transport needs in this network, and at least 36.864 kB for each port (pHost paper, §4.1). `flowloom show` says how much that is and why.
    /// Transports that are compared have the same: the most that one of them needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1B", "x-max" = "2GB"))]
    pub buffer: Option<Quantity<Bytes>>,
    /// Which ports share the memory that `buffer` gives.
    pub sharing: SharingMode,
    /// The dynamic threshold of a shared memory: a queue (one class at one port) takes a packet only while its length is below `alpha`
    /// times what is free of its switch's memory. The default is 1. It is an error to give it if ports do not share memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 1000))]
    pub alpha: Option<f64>,
    /// How one of several equally short paths is chosen. Without it: as the transport needs it, else `spray_round_robin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingMode>,
    /// How long a flow must have sent nothing through a switch for its next packet to begin another flowlet (`routing = "flowlet"`). The default is 100 us. It should be more than
    /// by how much the delays of paths differ, so that packets do not overtake each other. It is an error to give it with other routings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ns", "x-max" = "1000s"))]
    pub flowlet_gap: Option<Quantity<Duration>>,
    /// How many links a switch draws for each packet, besides the one that was best last time (`routing = "drill"`). The default is 2 (DRILL, SIGCOMM 2017). It is an error to give
    /// it with other routings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 255))]
    pub drill_samples: Option<u8>,
    /// How the two NICs of a flow are chosen where hosts have several links. Each link has a NIC of its own, with an address and a protocol state of its own, and a flow stays on
    /// the two that it begins with. The default is `flow_hash`. It is an error to give it in a network in which each host has one link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<NicChoice>,
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
            buffer: None,
            sharing: SharingMode::Port,
            alpha: None,
            routing: None,
            flowlet_gap: None,
            drill_samples: None,
            nics: None,
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
    /// Senders whose transport labels packets with paths choose (NDP, pFabric and LAS). Other packets take one independently and uniformly.
    SprayLabelled,
    /// Each packet takes the next one in turn, from a random start.
    SprayRoundRobin,
    /// A hash of the flow decides, so that a flow keeps its path.
    Ecmp,
    /// A hash of the flow decides, such that both directions of a flow share every link.
    EcmpSymmetric,
    /// Each packet takes the one whose next link will have sent its queue first; chance decides among equals.
    LeastQueue,
    /// Each packet takes the one whose next link will have sent its queue first of `drill_samples` that are drawn at random and the best of the packet before (DRILL).
    Drill,
    /// Each flowlet takes one of them uniformly: packets of a flow that follow each other within `flowlet_gap` (LetFlow).
    Flowlet,
}

/// [`Fabric::drill_samples`], where it is not given.
const DRILL_SAMPLES: u8 = 2;
/// [`Fabric::flowlet_gap`], where it is not given.
const FLOWLET_GAP: Duration = Duration::from_us(100);

impl Fabric {
    /// The routing of a transport that runs on `default` where the scenario does not choose.
    ///
    /// # Errors
    /// If a key has no effect with it.
    pub(crate) fn routing(&self, default: Routing) -> Result<Routing, ScenarioError> {
        let mode = self.routing.unwrap_or(default.into());
        let given = [
            ("flowlet_gap", RoutingMode::Flowlet, self.flowlet_gap.map(|gap| gap.0.to_string())),
            ("drill_samples", RoutingMode::Drill, self.drill_samples.map(|samples| samples.to_string())),
        ];
        for (key, of, found) in given {
            if let Some(found) = found.filter(|_| mode != of) {
                let (mode, of) = (mode.word(), of.word());
                let message =
                    format!("found {found}, which has no effect with fabric.routing = {mode}; leave it out, or choose {of}");
                return Err(ScenarioError::at_key(format!("fabric.{key}"), message));
            }
        }
        Ok(match mode {
            RoutingMode::SprayRandom => Routing::SprayRandom,
            RoutingMode::SprayLabelled => Routing::SprayLabelled,
            RoutingMode::SprayRoundRobin => Routing::SprayRoundRobin,
            RoutingMode::Ecmp => Routing::Ecmp,
            RoutingMode::EcmpSymmetric => Routing::EcmpSymmetric,
            RoutingMode::LeastQueue => Routing::LeastQueue,
            RoutingMode::Drill => Routing::Drill(self.drill_samples.unwrap_or(DRILL_SAMPLES)),
            RoutingMode::Flowlet => Routing::Flowlet(self.flowlet_gap.map_or(FLOWLET_GAP, |gap| gap.0)),
        })
    }
}

impl RoutingMode {
    /// The word for it in a scenario.
    pub fn word(self) -> toml::Value {
        toml::Value::try_from(self).expect("words are written as TOML")
    }
}

impl From<Routing> for RoutingMode {
    fn from(routing: Routing) -> RoutingMode {
        match routing {
            Routing::SprayRandom => RoutingMode::SprayRandom,
            Routing::SprayLabelled => RoutingMode::SprayLabelled,
            Routing::SprayRoundRobin => RoutingMode::SprayRoundRobin,
            Routing::Ecmp => RoutingMode::Ecmp,
            Routing::EcmpSymmetric => RoutingMode::EcmpSymmetric,
            Routing::LeastQueue => RoutingMode::LeastQueue,
            Routing::Drill(_) => RoutingMode::Drill,
            Routing::Flowlet(_) => RoutingMode::Flowlet,
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
