//! The encoding of a packet as a UDP datagram. Received bytes become packets only through [`parse`].
//!
//! All fields are big endian. The class and the ECN field are in the TOS byte (see [`marking`]), not here.
//!
//! | bytes | field |
//! |---|---|
//! | 0–1 | `FL` |
//! | 2 | version, 2 |
//! | 3 | flags: 1 = these payload bytes were sent before; other bits are 0 |
//! | 4–7 | the transport: FNV-1a of its name |
//! | 8–11 | flow |
//! | 12–15 | source node |
//! | 16–19 | destination node |
//! | 20–27 | offset of the payload in the flow |
//! | 28–29 | length of the payload |
//! | 30– | the transport's header, as [`Wire::encode`] writes it |
//! | then | payload, up to the datagram's end |

use crate::{Bytes, FlowId, NodeId, Packet, Transport, Wire, WireProfile, marking};

/// Bytes in front of the transport's header.
pub const HEADER_BYTES: usize = 30;
/// What a seal adds to the end of a datagram: the session's id (4 B), the datagram's number (8 B) and the tag (16 B).
pub const SEAL_BYTES: usize = 4 + 8 + 16;
/// The size of an IPv4 and a UDP header.
const IPV4_UDP_BYTES: u64 = 20 + 8;
/// The size of an IPv6 and a UDP header.
const IPV6_UDP_BYTES: u64 = 40 + 8;
/// The size of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;

/// The sizes of datagrams with headers of up to `header_bytes`, as IP packets. `None` if a full packet has no room for payload.
pub fn wire(mtu: Bytes, header_bytes: usize, ipv4: bool) -> Option<WireProfile> {
    let below = if ipv4 { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
    let overhead = Bytes::new(below + (HEADER_BYTES + header_bytes + SEAL_BYTES) as u64);
    (mtu > overhead).then_some(WireProfile { name: "udp", full: mtu, overhead, control: overhead })
}

/// The sizes of the same IPv4 packets as the ports of switches count them.
pub fn wire_on_ethernet(mtu: Bytes, header_bytes: usize) -> Option<WireProfile> {
    let WireProfile { name, full, overhead, control } = wire(mtu, header_bytes, true)?;
    let framed = |bytes| bytes + Bytes::new(ETHERNET_BYTES);
    Some(WireProfile { name, full: framed(full), overhead: framed(overhead), control: framed(control) })
}

/// The first bytes of each datagram.
pub const MAGIC: [u8; 2] = *b"FL";
const VERSION: u8 = 2;
const RETRANSMISSION: u8 = 1;

/// Why a datagram is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is not a Flowloom datagram, or one of another version or transport.
    Foreign,
    /// It is a Flowloom datagram whose fields are inconsistent.
    Malformed,
}

/// A packet and its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a, H> {
    /// The packet, without its payload.
    pub packet: Packet<H>,
    /// The payload, `packet.payload_bytes` long.
    pub payload: &'a [u8],
}

/// The identification of a transport in datagrams: the 32-bit FNV-1a hash of its name.
pub const fn tag(name: &str) -> u32 {
    let name = name.as_bytes();
    let (mut hash, mut at) = (0x811C_9DC5_u32, 0);
    while at < name.len() {
        hash = (hash ^ name[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// Writes a packet of `T` with its payload to the front of `out` and returns the datagram's length.
///
/// # Panics
/// If `payload` is not `packet.payload_bytes` long, or `out` is too short.
pub fn write<T: Transport>(packet: &Packet<T::Header>, payload: &[u8], out: &mut [u8]) -> usize {
    assert_eq!(payload.len(), packet.payload_bytes as usize);
    let start = write_head(const { tag(T::NAME) }, packet, out);
    let end = start + payload.len();
    out[start..end].copy_from_slice(payload);
    end
}

/// Writes all of a datagram but its payload to the front of `out`. [`tag`] makes the tag of its transport. Returns the number of bytes written,
/// which is at most [`HEADER_BYTES`] and [`Wire::MAX_BYTES`].
///
/// # Panics
/// If the payload is longer than a datagram, or `out` is too short.
pub fn write_head<H: Wire>(tag: u32, packet: &Packet<H>, out: &mut [u8]) -> usize {
    let length = u16::try_from(packet.payload_bytes).expect("a datagram is below 64 KiB");
    out[0..2].copy_from_slice(&MAGIC);
    out[2] = VERSION;
    out[3] = if packet.retransmission { RETRANSMISSION } else { 0 };
    out[4..8].copy_from_slice(&tag.to_be_bytes());
    out[8..12].copy_from_slice(&packet.flow.0.to_be_bytes());
    out[12..16].copy_from_slice(&packet.src.0.to_be_bytes());
    out[16..20].copy_from_slice(&packet.dst.0.to_be_bytes());
    out[20..28].copy_from_slice(&packet.offset.get().to_be_bytes());
    out[28..30].copy_from_slice(&length.to_be_bytes());
    HEADER_BYTES + packet.header.encode(&mut out[HEADER_BYTES..])
}

/// The source of a datagram, as it claims; `None` if it is too short.
pub fn source(datagram: &[u8]) -> Option<NodeId> {
    datagram.first_chunk().map(|fixed| NodeId(u32::from_be_bytes(field(fixed, 12))))
}

/// The length of a datagram's payload, as it claims; `None` if it is too short.
pub fn payload_bytes(datagram: &[u8]) -> Option<usize> {
    datagram.first_chunk().map(|fixed| u16::from_be_bytes(field(fixed, 28)).into())
}

/// The `N` bytes at offset `at` of the fixed header.
fn field<const N: usize>(fixed: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    fixed[at..at + N].try_into().expect("N bytes")
}

/// Decodes a datagram that arrived with TOS byte `tos`. The packet's size is derived from `wire`.
///
/// # Errors
/// Why the datagram is not one of `T`'s packets.
pub fn parse<'a, T: Transport>(datagram: &'a [u8], tos: u8, wire: &WireProfile) -> Result<Frame<'a, T::Header>, Refusal> {
    let (fixed, rest) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(Refusal::Foreign)?;
    if field(fixed, 0) != MAGIC || fixed[2] != VERSION || u32::from_be_bytes(field(fixed, 4)) != tag(T::NAME) {
        return Err(Refusal::Foreign);
    }
    let (header, header_bytes) = T::Header::decode(rest).ok_or(Refusal::Malformed)?;
    let payload = rest.get(header_bytes..).ok_or(Refusal::Malformed)?;
    let (flags, length) = (fixed[3], u16::from_be_bytes(field(fixed, 28)));
    let offset = u64::from_be_bytes(field(fixed, 20));
    let ends = offset.checked_add(u64::from(length)).is_some();
    if flags & !RETRANSMISSION != 0 || usize::from(length) != payload.len() || !ends {
        return Err(Refusal::Malformed);
    }
    let (class, ecn) = marking::from_tos(tos);
    let packet = Packet {
        flow: FlowId(u32::from_be_bytes(field(fixed, 8))),
        src: NodeId(u32::from_be_bytes(field(fixed, 12))),
        dst: NodeId(u32::from_be_bytes(field(fixed, 16))),
        size_bytes: wire.data_size(Bytes::new(u64::from(length))).get() as u32,
        payload_bytes: u32::from(length),
        offset: Bytes::new(offset),
        class,
        ecn,
        retransmission: flags & RETRANSMISSION != 0,
        corrupt: false,
        header,
    };
    Ok(Frame { packet, payload })
}
