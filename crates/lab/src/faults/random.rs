//! What the faults have in common that affect each packet independently of the others.

use flowloom_core::{FlowId, Placement};
use flowloom_fabric::{Aim, AimedFault, Fault, PacketKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Faults, Site, Wrong};
use crate::places::links_at;

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

impl Random {
    /// Places a fault on these links and packets.
    pub(super) fn place(&self, fault: Fault, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        place(&self.place, self.packets, self.flow, fault, site, faults)
    }
}

/// Places a fault on the links at `place`, for these packets, of this flow or of all.
pub(super) fn place(
    place: &str,
    packets: FaultPackets,
    flow: Option<u32>,
    fault: Fault,
    site: &Site<'_>,
    faults: &mut Faults,
) -> Result<(), Wrong> {
    if let Some(flow) = flow.filter(|flow| *flow as usize >= site.flows) {
        let flows = site.flows;
        let message = format!("found {flow}; there are {flows} flows, which are numbered from 0 in order of start");
        return Err(("flow", message));
    }
    if packets == FaultPackets::Messages && site.placement == Placement::Nowhere {
        let name = site.transport;
        let message = format!("found \"messages\", but {name}, as configured, has no control endpoints; give another kind");
        return Err(("packets", format!("{message}: \"all\", \"data\" or \"control\"")));
    }
    let links = links_at(place, site.network).map_err(|message| ("where", message))?;
    faults.strike(&links, AimedFault { fault, aim: Aim { packets: packets.into(), flow: flow.map(FlowId) } });
    Ok(())
}

impl From<FaultPackets> for PacketKind {
    fn from(packets: FaultPackets) -> PacketKind {
        match packets {
            FaultPackets::All => PacketKind::All,
            FaultPackets::Data => PacketKind::Data,
            FaultPackets::Control => PacketKind::Control,
            FaultPackets::Messages => PacketKind::Messages,
        }
    }
}
