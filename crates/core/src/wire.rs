//! Packet sizes on the wire, and the wire format of headers.

use crate::Bytes;

/// The sizes of packets on a link. The papers differ (IP sizes, Ethernet with framing, ns-2's 1000 B), and the same load means
/// different traffic under each. So a run names one profile, and every size comes from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireProfile {
    /// The preset's name.
    pub name: &'static str,
    /// A full data packet.
    pub full: Bytes,
    /// The bytes of a data packet besides its payload.
    pub overhead: Bytes,
    /// A control packet (RTS, token, ACK, …), which is also the smallest size of any packet.
    pub control: Bytes,
}

impl WireProfile {
    /// 1500 B packets, 40 B of header, 40 B control packets, no Ethernet framing: pHost, PIAS, pFabric.
    pub const IP_1500: WireProfile =
        WireProfile { name: "ip_1500", full: Bytes::new(1500), overhead: Bytes::new(40), control: Bytes::new(40) };
    /// 1538 B frames with preamble and gap, 78 B around the payload, 84 B minimum frames: ExpressPass, TOP.
    pub const ETHERNET_1538: WireProfile =
        WireProfile { name: "ethernet_1538", full: Bytes::new(1538), overhead: Bytes::new(78), control: Bytes::new(84) };
    /// 1000 B packets with 40 B of header, as ns-2 counts them: PASE.
    pub const NS2_1000: WireProfile =
        WireProfile { name: "ns2_1000", full: Bytes::new(1000), overhead: Bytes::new(40), control: Bytes::new(40) };
    /// 9000 B packets with 64 B of header, and 64 B control packets: NDP.
    pub const JUMBO_9000: WireProfile =
        WireProfile { name: "jumbo_9000", full: Bytes::new(9000), overhead: Bytes::new(64), control: Bytes::new(64) };
    /// All presets.
    pub const ALL: [WireProfile; 4] = [Self::IP_1500, Self::ETHERNET_1538, Self::NS2_1000, Self::JUMBO_9000];

    /// The largest IP packet: a full packet, without the frame around it if the profile counts that.
    pub fn mtu(&self) -> Bytes {
        /// The header, the check sequence, the preamble and the gap of an Ethernet frame.
        const FRAMING: Bytes = Bytes::new(38);
        if self.name == Self::ETHERNET_1538.name { self.full - FRAMING } else { self.full }
    }
    /// Payload of a full packet.
    pub fn payload(&self) -> Bytes {
        self.full - self.overhead
    }
    /// The number of data packets of a flow of `size` bytes.
    pub fn packets(&self, size: Bytes) -> u64 {
        size.pieces(self.payload())
    }
    /// The size on the wire of a data packet that carries `payload`; never less than a control packet.
    pub fn data_size(&self, payload: Bytes) -> Bytes {
        (payload + self.overhead).max(self.control)
    }
    /// The payload of packet number `index` (from 0) of a flow of `size` bytes.
    pub fn payload_of(&self, size: Bytes, index: u64) -> Bytes {
        let before = self.payload() * index;
        debug_assert!(before <= size);
        (size - before).min(self.payload())
    }
    /// The bytes on the wire of all data packets of a flow of `size` bytes, each sent once.
    pub fn flow_wire_bytes(&self, size: Bytes) -> Bytes {
        let last = self.packets(size) - 1;
        self.full * last + self.data_size(self.payload_of(size, last))
    }
}

/// How a value is laid out on the wire. Numbers are big endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// An unsigned number of so many bytes (1, 2, 4 or 8), and what it counts.
    Number {
        /// The number's length.
        bytes: u8,
        /// What it counts.
        unit: WireUnit,
    },
    /// One byte, 0 or 1.
    Flag,
    /// One byte with the number of items, then the items.
    List(&'static Layout),
    /// One byte, 0 or 1; the value follows if it is 1.
    Maybe(&'static Layout),
    /// Named values, one after the other.
    Fields(&'static [Field]),
    /// One byte with the index of a message, then the fields of this message.
    Choice(&'static [Message]),
}

/// A named value of a [`Layout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The field's name in the source.
    pub name: &'static str,
    /// The value's layout.
    pub layout: Layout,
}

/// One of the messages of a [`Layout::Choice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The variant's name in the source.
    pub name: &'static str,
    /// What follows the message's index.
    pub fields: &'static [Field],
}

/// What a number of a [`Layout`] counts or names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireUnit {
    /// Nothing that has a unit.
    Plain,
    /// Bytes.
    Bytes,
    /// Picoseconds.
    Picoseconds,
    /// Picoseconds, as a floating-point number of 4 bytes (IEEE 754).
    FloatPicoseconds,
    /// Bits per second.
    Bps,
    /// Bits per second, as a floating-point number of 4 bytes (IEEE 754).
    FloatBps,
    /// Thousands of bits per second.
    Kbps,
    /// It is the number of a node.
    Node,
    /// It is the number of a flow.
    Flow,
    /// It is the number of a link.
    Link,
}

impl WireUnit {
    /// Its name in the catalogue.
    pub const fn name(self) -> &'static str {
        match self {
            WireUnit::Plain => "plain",
            WireUnit::Bytes => "bytes",
            WireUnit::Picoseconds => "picoseconds",
            WireUnit::FloatPicoseconds => "float_picoseconds",
            WireUnit::Bps => "bps",
            WireUnit::FloatBps => "float_bps",
            WireUnit::Kbps => "kbps",
            WireUnit::Node => "node",
            WireUnit::Flow => "flow",
            WireUnit::Link => "link",
        }
    }
}

/// The wire format of a header, or of a part of one, on a real network. [`wire_format!`](crate::wire_format!) implements it for structures
/// and enumerations.
pub trait Wire: Copy + Send {
    /// Describes what [`Wire::encode`] writes.
    const LAYOUT: Layout;
    /// The largest number of bytes that [`Wire::encode`] writes.
    const MAX_BYTES: usize;
    /// Writes the value to the front of `out`, which holds at least [`Wire::MAX_BYTES`], and returns the number of bytes written.
    fn encode(&self, out: &mut [u8]) -> usize;
    /// Reads a value from the front of `bytes` and returns it with its length in bytes; `None` if it is not valid.
    fn decode(bytes: &[u8]) -> Option<(Self, usize)>;
    /// Whether the values of its fields go together. [`Wire::decode`] refuses the value otherwise.
    fn is_valid(&self) -> bool {
        true
    }
    /// The label of the path that the packet takes under [`Routing::SprayLabelled`](crate::Routing::SprayLabelled), below
    /// [`Paths::labels`](crate::Paths::labels). Without a label, every switch chooses at random.
    #[inline(always)]
    fn path_label(&self) -> Option<u16> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_packet_carries_the_remaining_bytes() {
        let wire = WireProfile::IP_1500;
        let size = Bytes::new(1460 * 2 + 1);
        assert_eq!(wire.packets(size), 3);
        assert_eq!(wire.payload_of(size, 1), Bytes::new(1460));
        assert_eq!(wire.payload_of(size, 2), Bytes::new(1));
        assert_eq!(wire.flow_wire_bytes(size), Bytes::new(3000 + 41));
    }

    #[test]
    fn small_frames_are_padded() {
        assert_eq!(WireProfile::ETHERNET_1538.data_size(Bytes::new(1)), Bytes::new(84));
        assert_eq!(WireProfile::ETHERNET_1538.data_size(Bytes::new(1460)), Bytes::new(1538));
    }
}
