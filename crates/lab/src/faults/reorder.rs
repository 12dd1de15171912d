//! `kind = "reorder"`: packets that others overtake.

use flowloom_core::Duration;
use flowloom_fabric::Fault;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, FaultPackets, Faults, Site, Wrong, random};

/// Packets are held back while others overtake them.
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

impl Failure for Reorder {
    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        random::place(&self.place, self.packets, self.flow, Fault::Reorder(self.probability, self.delay.0), site, faults)
    }
}
