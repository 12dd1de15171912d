//! The parameters of priority flow control, and the limits that follow from them for each port.

use flowloom_core::{Bytes, Duration, Link, Memory, Network, NodeId, NodeKind, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity;

/// Priority flow control (IEEE 802.1Qbb): switches stop their neighbours before their memory is full, so that they lose no packet.
///
/// A switch counts the bytes that it stores by the port through which they came in and by class. The memory of each port, or of each switch,
/// is `fabric.buffer`, as `fabric.sharing` says. Hosts keep packets that their links do not take.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Pfc {
    /// The size of a pause frame on the wire (64 B, and 20 B of preamble and gap).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "9000B"))]
    pub frame: Bytes,
    /// How long a port may go on sending a class after a pause frame for it has arrived. The default is the limit of IEEE 802.1Qbb as it is
    /// usually quoted, 12 quanta of 512 bits at 10 Gb/s; we could not compare it with the text of the standard.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "1ms"))]
    pub reaction: Duration,
    /// What a class of an ingress port can store beyond its threshold. Without it: as much as can arrive after the threshold was crossed, so
    /// that nothing is lost, for each link by its rate and delay.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1GB"))]
    pub headroom: Option<Bytes>,
    /// The threshold (XOFF): a packet that takes a class of an ingress port above it stops the class. Without it: what the headroom leaves
    /// of the memory. It is an error to give it if ports share memory, because `fabric.alpha` then sets the threshold.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1GB"))]
    pub xoff: Option<Bytes>,
    /// How far a class must be below the threshold before it may go on (XOFF - XON). Without it: two full packets. A class of which nothing
    /// is stored may always go on.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1GB"))]
    pub hysteresis: Option<Bytes>,
    /// The share of a run from which on a paused link is reported as a pause storm.
    #[schemars(range(min = 0, max = 1))]
    pub storm_share: f64,
}

impl Default for Pfc {
    fn default() -> Pfc {
        Pfc {
            frame: Bytes::new(84),
            reaction: Duration::from_ps(614_400),
            headroom: None,
            xoff: None,
            hysteresis: None,
            storm_share: 0.5,
        }
    }
}

/// The limits of each class of one ingress port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// The threshold where ports do not share memory.
    pub xoff: u32,
    pub headroom: u32,
}

/// The limits at one node.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeLimits {
    /// By port.
    pub(super) ingress: Vec<Limits>,
    /// The memory that all ports share besides their headrooms, and the factor of its threshold.
    pub(super) shared: Option<(Bytes, f64)>,
    pub(super) hysteresis: Bytes,
}

/// Memory of 2 GiB or more does not fit the accounts.
const MOST: u64 = i32::MAX as u64;

impl Pfc {
    /// What a class can need beyond its threshold at the end of a link:
    ///
    /// * the packet that crosses the threshold,
    /// * a full packet that the pause frame waits for, and the frame itself: what the neighbour sends in the meantime,
    /// * what is on the link while the frame travels, and what the neighbour sends in its reaction time: rate × (2 × delay + reaction),
    /// * the packet that the neighbour has begun by then.
    pub fn headroom(&self, link: &Link, wire: &WireProfile) -> Bytes {
        self.headroom.unwrap_or_else(|| {
            let span = 2 * u128::from(link.delay.as_ps()) + u128::from(self.reaction.as_ps());
            let bits_ps = u128::from(link.rate.as_bps()).saturating_mul(span);
            let travelling = bits_ps.div_ceil(8 * 1_000_000_000_000);
            let travelling = u64::try_from(travelling).unwrap_or(MOST).min(MOST);
            wire.full * 3 + self.frame + Bytes::new(travelling)
        })
    }

    /// The limits of the ports of a node for packets of so many classes.
    ///
    /// # Errors
    /// If the memory of a switch does not hold its headrooms, and a packet besides for each class. The message starts with the key at fault,
    /// and has the numbers.
    pub fn limits(
        &self,
        network: &Network,
        node: NodeId,
        wire: &WireProfile,
        memory: Memory,
        classes: u8,
    ) -> Result<NodeLimits, String> {
        let hysteresis = self.hysteresis.unwrap_or(wire.full * 2);
        let links: Vec<&Link> = network.ports(node).iter().map(|link| network.link(link.reverse())).collect();
        if network.node(node).kind != NodeKind::Switch {
            // What arrives at a host is consumed at once.
            let ingress = vec![Limits { xoff: 0, headroom: 0 }; links.len()];
            return Ok(NodeLimits { ingress, shared: None, hysteresis });
        }
        let classes = u64::from(classes);
        let headrooms: Vec<Bytes> = links.iter().map(|link| self.headroom(link, wire)).collect();
        let name = &network.node(node).name;
        match memory {
            Memory::PerPort(bytes) => {
                let each = bytes.get() / classes;
                let limits = |headroom: &Bytes| {
                    let left = each.checked_sub(headroom.get()).map(Bytes::new).filter(|left| *left >= wire.full);
                    let xoff = match (self.xoff, left) {
                        (None, Some(left)) => left,
                        (Some(xoff), Some(left)) if xoff <= left => xoff,
                        (Some(xoff), Some(left)) => {
                            return Err(format!("xoff: found {xoff}; the headroom of {headroom} leaves {left} for each class"));
                        }
                        (_, None) => return Err(too_small(name, bytes, *headroom, wire, classes)),
                    };
                    Ok(Limits { xoff: xoff.get().min(MOST) as u32, headroom: headroom.get().min(MOST) as u32 })
                };
                let ingress = headrooms.iter().map(limits).collect::<Result<_, _>>()?;
                Ok(NodeLimits { ingress, shared: None, hysteresis })
            }
            Memory::PerSwitch { bytes, alpha } => {
                if let Some(xoff) = self.xoff {
                    let right = "leave it out, or set fabric.sharing = \"port\"";
                    return Err(format!(
                        "xoff: found {xoff}, but ports share memory, whose threshold is fabric.alpha's; {right}"
                    ));
                }
                let all =
                    headrooms.iter().fold(0, |sum: u64, headroom| sum.saturating_add(headroom.get())).saturating_mul(classes);
                let left = bytes.get().checked_sub(all).map(Bytes::new).filter(|left| *left >= wire.full);
                let Some(left) = left else {
                    let ports = links.len();
                    return Err(format!(
                        "buffer: found {bytes}, but the headrooms of the {ports} ports of {name}, with {classes} classes each, are {}; it \
                         must be at least {}, a full packet more",
                        Bytes::new(all),
                        Bytes::new(all.saturating_add(wire.full.get()))
                    ));
                };
                let ingress = headrooms.iter().map(|headroom| Limits { xoff: 0, headroom: headroom.get() as u32 }).collect();
                Ok(NodeLimits { ingress, shared: Some((left, alpha)), hysteresis })
            }
        }
    }
}

fn too_small(name: &str, memory: Bytes, headroom: Bytes, wire: &WireProfile, classes: u64) -> String {
    let least = (headroom + wire.full) * classes;
    format!(
        "buffer: found {memory}, but a port of {name} needs a headroom of {headroom} for each of {classes} classes; it must be at least \
         {least}, a full packet more for each class"
    )
}
