//! The records of in-band telemetry, with the widths that they have on the wire.

use flowloom_core::wire_format::{decode_list, encode_list, take};
use flowloom_core::{Bytes, Field, Layout, Network, Rate, Time, Wire, wire_number};

/// What one port wrote into one packet, in 64 bits. The fields have the widths of the HPCC authors' header: 24 bits of time in
/// nanoseconds, 20 bits of sent bytes in units of 128 B, 17 bits of queued bytes in units of 80 B, and 3 bits for the rate of the link.
/// Time and sent bytes wrap; a queue that does not fit counts as the longest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HopRecord(u64);

const TIME_BITS: u32 = 24;
const SENT_BITS: u32 = 20;
const QUEUE_BITS: u32 = 17;
const PS_PER_NS: u64 = 1000;
const SENT_UNIT: u64 = 128;
const QUEUE_UNIT: u64 = 80;

/// The lowest `bits` bits.
const fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

impl HopRecord {
    /// After how many nanoseconds the time wraps: 16.8 ms.
    pub const TIME_WRAP_NS: u64 = 1 << TIME_BITS;
    /// After how many bytes their number wraps: 134 MB.
    pub const SENT_WRAP: Bytes = Bytes::new(SENT_UNIT << SENT_BITS);

    /// The record of a port that has sent this many bytes before this packet, and in which `queued` bytes wait behind it. `rate` is
    /// the number of the link's rate in [`LinkRates`].
    #[inline]
    pub fn new(rate: u8, now: Time, sent: u64, queued: Bytes) -> HopRecord {
        let time = low(now.as_ps() / PS_PER_NS, TIME_BITS);
        let queue = (queued.get() / QUEUE_UNIT).min((1 << QUEUE_BITS) - 1);
        let word = u64::from(rate) << TIME_BITS | time;
        HopRecord((word << SENT_BITS | low(sent / SENT_UNIT, SENT_BITS)) << QUEUE_BITS | queue)
    }
    /// A record from its bits.
    pub const fn from_bits(bits: u64) -> HopRecord {
        HopRecord(bits)
    }
    /// Its bits.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// The number of the link's rate in [`LinkRates`], less than [`LinkRates::MOST`].
    #[inline]
    pub const fn rate(self) -> usize {
        (self.0 >> (TIME_BITS + SENT_BITS + QUEUE_BITS)) as usize
    }
    /// The bytes that waited in the port.
    #[inline]
    pub const fn queued(self) -> u64 {
        low(self.0, QUEUE_BITS) * QUEUE_UNIT
    }
    /// How many nanoseconds and how many sent bytes lie between an earlier record of the same port and this one. `None` if this one is
    /// not later: times that differ by more than half of their range count as earlier.
    #[inline]
    pub const fn since(self, earlier: HopRecord) -> Option<(u64, u64)> {
        const TIME_AT: u32 = QUEUE_BITS + SENT_BITS;
        let elapsed = low((self.0 >> TIME_AT).wrapping_sub(earlier.0 >> TIME_AT), TIME_BITS);
        if elapsed == 0 || elapsed >= Self::TIME_WRAP_NS / 2 {
            return None;
        }
        let sent = low((self.0 >> QUEUE_BITS).wrapping_sub(earlier.0 >> QUEUE_BITS), SENT_BITS);
        Some((elapsed, sent * SENT_UNIT))
    }
}

/// The records that a packet carries, and the path that it has taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Telemetry {
    hops: [HopRecord; Telemetry::HOPS],
    count: u8,
    path: u16,
}

impl Telemetry {
    /// The most records in a packet: as many as there are switches on the longest path of a Clos network with three tiers.
    pub const HOPS: usize = 5;
    const PATH_BITS: u32 = 12;

    /// The bytes on the wire of a header with room for `records` records: 4 bits count them, 12 bits identify the path.
    pub const fn bytes(records: u8) -> Bytes {
        Bytes::new(2 + 8 * records as u64)
    }

    /// The records, in the order of the path.
    #[inline]
    pub fn hops(&self) -> &[HopRecord] {
        &self.hops[..usize::from(self.count)]
    }
    /// Whether both have passed equally many ports, and their paths are not known to be different.
    #[inline]
    pub fn same_path(&self, other: &Telemetry) -> bool {
        (self.count, self.path) == (other.count, other.path)
    }
    /// Adds a record, if there is room among `records`, at most [`Telemetry::HOPS`]. Paths are told apart by the sum (exclusive or) of the
    /// `tags` of their ports' nodes.
    #[inline]
    pub fn push(&mut self, record: HopRecord, tag: u16, records: u8) {
        self.path ^= tag;
        if self.count < records
            && let Some(place) = self.hops.get_mut(usize::from(self.count))
        {
            *place = record;
            self.count += 1;
        }
    }

    /// The tag of a node, for [`Telemetry::push`].
    pub fn tag(node: flowloom_core::NodeId) -> u16 {
        low(flowloom_core::mix(u64::from(node.0)), Self::PATH_BITS) as u16
    }
}

wire_number!(HopRecord, u64, Plain, |bits| Some(HopRecord(bits)), HopRecord::bits);

/// The records and the path.
impl Wire for Telemetry {
    const LAYOUT: Layout = Layout::Fields(&[
        Field { name: "hops", layout: Layout::List(&HopRecord::LAYOUT) },
        Field { name: "path", layout: u16::LAYOUT },
    ]);
    const MAX_BYTES: usize = 1 + Telemetry::HOPS * HopRecord::MAX_BYTES + u16::MAX_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        let length = encode_list(self.hops(), out);
        length + self.path.encode(&mut out[length..])
    }
    fn decode(bytes: &[u8]) -> Option<(Telemetry, usize)> {
        let (hops, count, mut length) = decode_list(bytes)?;
        let path = take(bytes, &mut length)?;
        (path >> Self::PATH_BITS == 0).then_some((Telemetry { hops, count: count as u8, path }, length))
    }
}

/// The rates of a network's links. Every node knows them, and a record names one of them with 3 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkRates {
    rates: [Rate; LinkRates::MOST],
    count: usize,
}

impl LinkRates {
    /// The most rates that 3 bits can tell apart.
    pub const MOST: usize = 8;

    /// The rates of a network's links, in the order of its links.
    ///
    /// # Errors
    /// The number of rates, if there are more than [`LinkRates::MOST`].
    pub fn new(network: &Network) -> Result<LinkRates, usize> {
        let rates: std::collections::BTreeSet<Rate> = network.links().iter().map(|link| link.rate).collect();
        let mut known = LinkRates { rates: [Rate::default(); LinkRates::MOST], count: rates.len() };
        let places = known.rates.get_mut(..rates.len()).ok_or(rates.len())?;
        places.iter_mut().zip(rates).for_each(|(place, rate)| *place = rate);
        Ok(known)
    }
    /// The rates, in ascending order. The number of a rate is its index.
    pub fn rates(&self) -> &[Rate] {
        &self.rates[..self.count]
    }
    /// The number of a rate of the network.
    ///
    /// # Panics
    /// If no link of the network has this rate.
    pub fn number(&self, rate: Rate) -> u8 {
        self.rates().iter().position(|known| *known == rate).expect("a rate of the network") as u8
    }
}
