//! The parameters of priority flow control, and the limits that follow from them for each port.

use flowloom_core::{Bytes, Duration, Link, Memory, Network, NodeId, NodeKind, PortNumber, WireProfile};
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
    /// A link that is paused for a larger share of a run than this is reported as a pause storm.
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

/// What a class of an ingress port may store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassLimits {
    /// The threshold (XOFF) at which it is stopped; `None` if the ports of the switch share memory, whose dynamic threshold applies.
    pub xoff: Option<Bytes>,
    /// What it may store beyond the threshold.
    pub headroom: Bytes,
}

impl NodeLimits {
    /// The limits of each class of the ingress port of this number.
    pub fn of(&self, port: PortNumber) -> ClassLimits {
        let Limits { xoff, headroom } = self.ingress[usize::from(port.0)];
        let xoff = self.shared.is_none().then(|| Bytes::new(xoff.into()));
        ClassLimits { xoff, headroom: Bytes::new(headroom.into()) }
    }
    /// The memory that ports share besides their headrooms.
    pub fn shared(&self) -> Option<Bytes> {
        self.shared.map(|(bytes, _)| bytes)
    }
    /// How far a class must be below the threshold before it may go on.
    pub fn hysteresis(&self) -> Bytes {
        self.hysteresis
    }
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

    /// The limits of the ports of a node for packets of this many classes.
    ///
    /// # Errors
    /// If the memory of a switch does not hold its headrooms and one more packet (per class, if each port has its own memory). The message
    /// starts with the key at fault, and has the numbers.
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
        let place = Place {
            name: &network.node(node).name,
            headrooms: links.iter().map(|link| self.headroom(link, wire)).collect(),
            classes: u64::from(classes),
            packet: wire.full,
        };
        let (ingress, shared) = match memory {
            Memory::PerPort(bytes) => (self.of_ports(&place, bytes)?, None),
            Memory::PerSwitch { bytes, alpha } => {
                let (ingress, left) = self.of_switch(&place, bytes)?;
                (ingress, Some((left, alpha)))
            }
        };
        Ok(NodeLimits { ingress, shared, hysteresis })
    }

    /// The limits of ports with this much memory each.
    fn of_ports(&self, place: &Place<'_>, memory: Bytes) -> Result<Vec<Limits>, String> {
        let each = memory.get() / place.classes;
        let limits = |headroom: &Bytes| {
            let left = each.checked_sub(headroom.get()).map(Bytes::new).filter(|left| *left >= place.packet);
            let left = left.ok_or_else(|| {
                let least = (*headroom + place.packet) * place.classes;
                format!(
                    "buffer: found {memory}, but a port of {} needs a headroom of {headroom} for each class (here {}); it must be at \
                     least {least}, a full packet more for each class",
                    place.name, place.classes
                )
            })?;
            match self.xoff {
                Some(xoff) if xoff > left => {
                    Err(format!("xoff: found {xoff}; the headroom of {headroom} leaves {left} for each class"))
                }
                xoff => Ok(Limits { xoff: bounded(xoff.unwrap_or(left)), headroom: bounded(*headroom) }),
            }
        };
        place.headrooms.iter().map(limits).collect()
    }

    /// The limits of ports that share this much memory, and the part that the headrooms leave.
    fn of_switch(&self, place: &Place<'_>, memory: Bytes) -> Result<(Vec<Limits>, Bytes), String> {
        if let Some(xoff) = self.xoff {
            let right = "leave it out, or set fabric.sharing = \"port\"";
            return Err(format!("xoff: found {xoff}, but ports share memory, whose threshold is fabric.alpha's; {right}"));
        }
        let all = place.headrooms.iter().fold(0, |sum: u64, headroom| sum.saturating_add(headroom.get()));
        let all = all.saturating_mul(place.classes);
        let left = memory.get().checked_sub(all).map(Bytes::new).filter(|left| *left >= place.packet);
        let left = left.ok_or_else(|| {
            format!(
                "buffer: found {memory}, but the headrooms of the {} ports of {}, for each class (here {}), are {}; it must be at least \
                 {}, a full packet more",
                place.headrooms.len(),
                place.name,
                place.classes,
                Bytes::new(all),
                Bytes::new(all.saturating_add(place.packet.get()))
            )
        })?;
        let limits = |headroom: &Bytes| Limits { xoff: 0, headroom: bounded(*headroom) };
        Ok((place.headrooms.iter().map(limits).collect(), left))
    }
}

/// A switch, and what its ports need.
struct Place<'a> {
    name: &'a str,
    headrooms: Vec<Bytes>,
    classes: u64,
    /// A full packet.
    packet: Bytes,
}

/// A limit as the accounts keep it.
fn bounded(bytes: Bytes) -> u32 {
    bytes.get().min(MOST) as u32
}
