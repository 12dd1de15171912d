//! HPCC's packets.

use flowloom_core::wire_format;

use crate::disciplines::{Instrumented, Telemetry};
use crate::roce::{Envelope, Kind};

wire_format! {
    /// HPCC's header.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Header {
        /// What the packet is.
        pub kind: Kind,
        /// The records of the ports on the data packet's path. An acknowledgement returns them.
        pub telemetry: Telemetry,
    }
}

impl Envelope for Header {
    type Report = Telemetry;

    #[inline]
    fn new(kind: Kind, report: Option<Telemetry>) -> Header {
        Header { kind, telemetry: report.unwrap_or_default() }
    }
    #[inline]
    fn kind(&self) -> Kind {
        self.kind
    }
    #[inline]
    fn report(&self) -> &Telemetry {
        &self.telemetry
    }
}

impl Instrumented for Header {
    #[inline]
    fn telemetry(&mut self) -> Option<&mut Telemetry> {
        matches!(self.kind, Kind::Data { .. }).then_some(&mut self.telemetry)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disciplines::HopRecord;
    use crate::roce::header::tests::kinds;
    use crate::trial::wire_format_holds;

    /// Any records at all.
    pub fn telemetries() -> impl Strategy<Value = Telemetry> {
        (prop::collection::vec(any::<u64>(), 0..=Telemetry::HOPS), 0_u16..1 << 12).prop_map(|(records, path)| {
            let mut telemetry = Telemetry::default();
            let tags = std::iter::once(path).chain(std::iter::repeat(0));
            for (bits, tag) in records.into_iter().zip(tags) {
                telemetry.push(HopRecord::from_bits(bits), tag, Telemetry::HOPS as u8);
            }
            telemetry
        })
    }

    /// Every header that can be encoded.
    pub fn headers() -> impl Strategy<Value = Header> {
        (kinds(), telemetries()).prop_map(|(kind, telemetry)| Header { kind, telemetry })
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    /// Two cache lines in the pool, with the rest of the packet.
    #[test]
    fn a_header_takes_little_memory() {
        assert!(size_of::<Header>() <= 64, "{} B", size_of::<Header>());
    }
}
