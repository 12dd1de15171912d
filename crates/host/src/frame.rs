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

use flowloom_core::{Bytes, FlowId, NodeId, Packet, Transport, Wire, WireProfile};

use crate::marking;

/// Bytes in front of the transport's header.
pub const HEADER_BYTES: usize = 30;

const MAGIC: [u8; 2] = *b"FL";
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
const fn tag(name: &str) -> u32 {
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
    let length = u16::try_from(payload.len()).expect("a datagram is below 64 KiB");
    out[0..2].copy_from_slice(&MAGIC);
    out[2] = VERSION;
    out[3] = if packet.retransmission { RETRANSMISSION } else { 0 };
    out[4..8].copy_from_slice(&tag(T::NAME).to_be_bytes());
    out[8..12].copy_from_slice(&packet.flow.0.to_be_bytes());
    out[12..16].copy_from_slice(&packet.src.0.to_be_bytes());
    out[16..20].copy_from_slice(&packet.dst.0.to_be_bytes());
    out[20..28].copy_from_slice(&packet.offset.get().to_be_bytes());
    out[28..30].copy_from_slice(&length.to_be_bytes());
    let start = HEADER_BYTES + packet.header.encode(&mut out[HEADER_BYTES..]);
    let end = start + payload.len();
    out[start..end].copy_from_slice(payload);
    end
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

#[cfg(test)]
mod tests {
    use flowloom_core::Ecn;
    use flowloom_transports::phost::PHost;
    use proptest::prelude::*;

    use super::*;
    use crate::probe::{Header, Probe, WIRE};

    prop_compose! {
        fn any_packet()(
            header in prop_oneof![any::<u32>().prop_map(|size| Header::Data { size }), Just(Header::Done)],
            payload in prop::collection::vec(any::<u8>(), 0..1437),
            (flow, src, dst) in any::<(u32, u32, u32)>(),
            offset in 0..=u64::MAX - 1437,
            class in 0_u8..8,
            ecn in prop::sample::select(vec![Ecn::NotCapable, Ecn::Capable, Ecn::Marked]),
            retransmission: bool,
        ) -> (Packet<Header>, Vec<u8>) {
            let packet = Packet {
                flow: FlowId(flow),
                src: NodeId(src),
                dst: NodeId(dst),
                size_bytes: 63 + payload.len() as u32,
                payload_bytes: payload.len() as u32,
                offset: Bytes::new(offset),
                class,
                ecn,
                retransmission,
                corrupt: false,
                header,
            };
            (packet, payload)
        }
    }

    fn datagram(packet: &Packet<Header>, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 2000];
        let length = write::<Probe>(packet, payload, &mut out);
        out.truncate(length);
        out
    }

    proptest! {
        #[test]
        fn encoding_and_decoding_are_inverse((packet, payload) in any_packet()) {
            let datagram = datagram(&packet, &payload);
            prop_assert!(datagram.len() + 28 <= packet.size_bytes as usize, "the wire profile has room for the datagram with its IP and UDP headers");
            let frame = parse::<Probe>(&datagram, marking::to_tos(packet.class, packet.ecn), &WIRE);
            prop_assert_eq!(frame, Ok(Frame { packet, payload: payload.as_slice() }));
        }

        #[test]
        fn random_bytes_are_foreign(bytes in prop::collection::vec(any::<u8>(), 0..100), tos: u8) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(parse::<Probe>(&bytes, tos, &WIRE), Err(Refusal::Foreign));
        }

        /// If the parser accepts a damaged datagram, encoding the result gives the same bytes again.
        #[test]
        fn damage_is_refused_or_harmless(
            (packet, payload) in any_packet(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
            tos: u8,
        ) {
            let mut bytes = datagram(&packet, &payload);
            for (at, flip) in flips {
                *at.get_mut(&mut bytes) ^= flip;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(frame) = parse::<Probe>(&bytes, tos, &WIRE) {
                prop_assert_eq!(datagram(&frame.packet, frame.payload), bytes);
            }
        }
    }

    const PACKET: Packet<Header> = Packet {
        flow: FlowId(0x0010_0002),
        src: NodeId(1),
        dst: NodeId(3),
        size_bytes: 65,
        payload_bytes: 2,
        offset: Bytes::new(0x0102_0304_0506_0708),
        class: 7,
        ecn: Ecn::NotCapable,
        retransmission: true,
        corrupt: false,
        header: Header::Done,
    };

    #[test]
    fn the_format_by_hand() {
        let expected: [&[u8]; 9] = [
            b"FL\x02\x01",
            &[0x7d, 0xe2, 0xad, 0xb1], // FNV-1a of "probe", computed elsewhere
            &[0, 0x10, 0, 2],
            &[0, 0, 0, 1],
            &[0, 0, 0, 3],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 2],
            &[1], // the transport's header
            b"hi",
        ];
        assert_eq!(datagram(&PACKET, b"hi"), expected.concat());
    }

    #[test]
    fn each_wrong_field_is_refused() {
        let whole = datagram(&PACKET, b"hi");
        let refused = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] = value;
            parse::<Probe>(&bytes, 0, &WIRE).err()
        };
        assert_eq!(refused(0, b'F'), None);
        assert_eq!(refused(0, b'G'), Some(Refusal::Foreign), "magic");
        assert_eq!(refused(2, 1), Some(Refusal::Foreign), "version");
        assert_eq!(parse::<PHost>(&whole, 0, &WIRE).err(), Some(Refusal::Foreign), "transport");
        assert_eq!(refused(3, 2), Some(Refusal::Malformed), "an unknown flag");
        assert_eq!(refused(29, 3), Some(Refusal::Malformed), "more payload than there is");
        assert_eq!(refused(29, 1), Some(Refusal::Malformed), "less payload than there is");
        assert_eq!(refused(30, 9), Some(Refusal::Malformed), "an unknown kind of header");
        assert_eq!(parse::<Probe>(&whole[..30], 0, &WIRE), Err(Refusal::Malformed), "no header");
        let mut beyond = whole.clone();
        beyond[20..28].fill(0xFF);
        assert_eq!(parse::<Probe>(&beyond, 0, &WIRE), Err(Refusal::Malformed), "an offset beyond 64 bits");
    }
}
