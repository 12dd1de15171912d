//! D3's packets: data and acknowledgements, rate requests and their answers.

use flowloom_core::{Rate, wire_format};

/// The most ports on a path that can allocate a rate. The longest path of a fat tree has six.
pub const MOST_HOPS: usize = 8;

wire_format! {
    /// The vector of allocations: what each port on a flow's path allocated to it, the host's own port first.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Path {
        /// How many ports allocated; entries beyond have no meaning.
        pub hops: u8,
        /// The period of each port in which it allocated, modulo 256 (see the README on aging).
        pub periods: [u8; MOST_HOPS],
        /// The allocated rates, which count all bytes on the wire.
        pub rates: [Rate; MOST_HOPS],
    }

    impl Wire for Path {
        fn is_valid(&self) -> bool {
            usize::from(self.hops) <= MOST_HOPS
        }
    }
}

impl Path {
    /// The least allocated rate; `None` if no port allocated.
    pub fn least(&self) -> Option<Rate> {
        self.rates.iter().take(usize::from(self.hops)).copied().min()
    }
}

wire_format! {
    /// What a request asks for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Purpose {
        /// A rate, in exchange for what the flow holds.
        Ask,
        /// Nothing more to send: each port takes back what it allocated and allocates nothing.
        End,
        /// The same, and the flow has given up, so its receiver forgets it, too.
        GiveUp,
    }
}

wire_format! {
    /// A rate request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Request {
        /// What it asks for.
        pub purpose: Purpose,
        /// How many entries of the vector name what the flow holds now. A flow's first request names nothing.
        pub named: u8,
        /// Counts the flow's requests; the answer repeats it.
        pub serial: u32,
        /// The rate that the flow needs to meet its deadline, zero without one.
        pub desired: Rate,
        /// What the flow desired when it was allocated what the vector names.
        pub before: Rate,
        /// The vector. Each port replaces the entry that names its last allocation with its new allocation. `hops` counts the ports that have.
        pub path: Path,
    }

    impl Wire for Request {
        fn is_valid(&self) -> bool {
            usize::from(self.named) <= MOST_HOPS
        }
    }
}

wire_format! {
    /// The receiver's copy of a request that has passed all ports.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Answer {
        /// The request's number.
        pub serial: u32,
        /// What each port allocated.
        pub path: Path,
    }
}

wire_format! {
    /// D3's header. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// A piece of the flow. The first in each round trip carries a request.
        Data {
            /// The packet's number.
            number: u32,
            /// The number of packets of the flow.
            packets: u32,
            /// The request.
            request: Option<Request>,
        },
        /// A request alone, from a flow that has no rate, or what a full port left of a data packet.
        Request {
            /// The number of packets of the flow.
            packets: u32,
            /// The request.
            request: Request,
        },
        /// Answers every data packet and every request that has not ended the flow.
        Ack {
            /// All packets below this one have arrived.
            cumulative: u32,
            /// The data packet that is acknowledged, if there was one.
            number: Option<u32>,
            /// The answer to the packet's request.
            answer: Option<Answer>,
        },
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets, .. } => number < packets,
                _ => true,
            }
        }
    }
}

impl Header {
    /// The request that a port must handle.
    #[inline]
    pub fn request_mut(&mut self) -> Option<&mut Request> {
        match self {
            Header::Data { request: Some(request), .. } | Header::Request { request, .. } => Some(request),
            Header::Data { .. } | Header::Ack { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::wire_format_holds;

    fn rates() -> impl Strategy<Value = Rate> {
        any::<u64>().prop_map(Rate::from_bps)
    }

    fn paths() -> impl Strategy<Value = Path> {
        (0..=MOST_HOPS as u8, any::<[u8; MOST_HOPS]>(), prop::array::uniform8(rates()))
            .prop_map(|(hops, periods, rates)| Path { hops, periods, rates })
    }

    fn requests() -> impl Strategy<Value = Request> {
        let purposes = prop::sample::select(vec![Purpose::Ask, Purpose::End, Purpose::GiveUp]);
        (purposes, 0..=MOST_HOPS as u8, any::<u32>(), rates(), rates(), paths()).prop_map(
            |(purpose, named, serial, desired, before, path)| Request { purpose, named, serial, desired, before, path },
        )
    }

    fn headers() -> impl Strategy<Value = Header> {
        prop_oneof![
            (any::<u32>(), any::<u32>(), prop::option::of(requests()))
                .prop_filter("numbers are below the count", |(number, packets, _)| number < packets)
                .prop_map(|(number, packets, request)| Header::Data { number, packets, request }),
            (any::<u32>(), requests()).prop_map(|(packets, request)| Header::Request { packets, request }),
            (
                any::<u32>(),
                prop::option::of(0..u32::MAX),
                prop::option::of((any::<u32>(), paths()).prop_map(|(serial, path)| Answer { serial, path }))
            )
                .prop_map(|(cumulative, number, answer)| Header::Ack { cumulative, number, answer }),
        ]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    #[test]
    fn the_least_allocation_counts_the_ports_that_allocated_only() {
        let mut path = Path { hops: 3, ..Path::default() };
        path.rates[..4].copy_from_slice(&[5, 3, 4, 1].map(Rate::from_gbps));
        assert_eq!(path.least(), Some(Rate::from_gbps(3)));
        assert_eq!(Path::default().least(), None);
    }
}
