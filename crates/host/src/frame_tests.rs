//! Frames of a transport whose headers are known.

use flowloom_core::frame::{Frame, MAGIC, Refusal, parse, write};
use flowloom_core::{Bytes, Ecn, FlowId, NodeId, Packet, marking};
use flowloom_transports::phost::PHost;
use proptest::prelude::*;

use crate::probe::{Header, Probe, WIRE};

prop_compose! {
    fn any_packet()(
        header in prop_oneof![any::<u32>().prop_map(|size| Header::Data { size }), Just(Header::Done)],
        payload in prop::collection::vec(any::<u8>(), 0..1409),
        (flow, src, dst) in any::<(u32, u32, u32)>(),
        offset in 0..=u64::MAX - 1409,
        class in 0_u8..8,
        ecn in prop::sample::select(vec![Ecn::NotCapable, Ecn::Capable, Ecn::Marked]),
        retransmission: bool,
    ) -> (Packet<Header>, Vec<u8>) {
        let packet = Packet {
            flow: FlowId(flow),
            src: NodeId(src),
            dst: NodeId(dst),
            size_bytes: 91 + payload.len() as u32,
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
        prop_assert!(datagram.len() + 28 + 28 <= packet.size_bytes as usize, "the wire profile has room for the datagram with its seal and its IP and UDP headers");
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
