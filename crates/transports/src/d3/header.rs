//! D3's packets: data and acknowledgements, rate requests and their answers.

use flowloom_core::{Rate, Wire};

use crate::toolkit::{put_u32, take_u32};

/// The most ports on a path that can allocate a rate. The longest path of a fat tree has six.
pub const MOST_HOPS: usize = 8;

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

impl Path {
    /// The least allocated rate; `None` if no port allocated.
    pub fn least(&self) -> Option<Rate> {
        self.rates.iter().take(usize::from(self.hops)).copied().min()
    }
}

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

/// The receiver's copy of a request that has passed all ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The request's number.
    pub serial: u32,
    /// What each port allocated.
    pub path: Path,
}

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

const DATA: u32 = 1;
const DATA_WITH_REQUEST: u32 = 2;
const REQUEST: u32 = 3;
const ACK: u32 = 4;
const ACK_WITH_ANSWER: u32 = 5;

const PATH_BYTES: usize = 4 + MOST_HOPS + 8 * MOST_HOPS;
const REQUEST_BYTES: usize = 4 * 4 + 8 * 2 + PATH_BYTES;

fn put_rate(rate: Rate, out: &mut [u8]) {
    out[..8].copy_from_slice(&rate.as_bps().to_be_bytes());
}

fn take_rate(bytes: &[u8]) -> Option<Rate> {
    Some(Rate::from_bps(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?)))
}

fn put_path(path: &Path, out: &mut [u8]) -> usize {
    put_u32(out, &[u32::from(path.hops)]);
    out[4..4 + MOST_HOPS].copy_from_slice(&path.periods);
    for (index, rate) in path.rates.iter().enumerate() {
        put_rate(*rate, &mut out[4 + MOST_HOPS + 8 * index..]);
    }
    PATH_BYTES
}

fn take_path(bytes: &[u8]) -> Option<Path> {
    let [hops] = take_u32(bytes)?;
    let periods = bytes.get(4..4 + MOST_HOPS)?.try_into().ok()?;
    let mut rates = [Rate::default(); MOST_HOPS];
    for (index, rate) in rates.iter_mut().enumerate() {
        *rate = take_rate(bytes.get(4 + MOST_HOPS + 8 * index..)?)?;
    }
    Some(Path { hops: at_most_all(hops)?, periods, rates })
}

/// A number of hops that a vector can have.
fn at_most_all(hops: u32) -> Option<u8> {
    u8::try_from(hops).ok().filter(|hops| usize::from(*hops) <= MOST_HOPS)
}

fn put_request(request: &Request, out: &mut [u8]) -> usize {
    let at = put_u32(out, &[request.purpose as u32, u32::from(request.named), request.serial]);
    put_rate(request.desired, &mut out[at..]);
    put_rate(request.before, &mut out[at + 8..]);
    at + 16 + put_path(&request.path, &mut out[at + 16..])
}

fn take_request(bytes: &[u8]) -> Option<(Request, usize)> {
    let [purpose, named, serial] = take_u32(bytes)?;
    let purpose = *[Purpose::Ask, Purpose::End, Purpose::GiveUp].get(purpose as usize)?;
    let (desired, before) = (take_rate(bytes.get(12..)?)?, take_rate(bytes.get(20..)?)?);
    let path = take_path(bytes.get(28..)?)?;
    Some((Request { purpose, named: at_most_all(named)?, serial, desired, before, path }, 28 + PATH_BYTES))
}

impl Wire for Header {
    const MAX_BYTES: usize = 12 + REQUEST_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        match self {
            Header::Data { number, packets, request: None } => put_u32(out, &[DATA, *number, *packets]),
            Header::Data { number, packets, request: Some(request) } => {
                let at = put_u32(out, &[DATA_WITH_REQUEST, *number, *packets]);
                at + put_request(request, &mut out[at..])
            }
            Header::Request { packets, request } => {
                let at = put_u32(out, &[REQUEST, *packets]);
                at + put_request(request, &mut out[at..])
            }
            // Packet numbers end below the largest, which stands for none.
            Header::Ack { cumulative, number, answer: None } => put_u32(out, &[ACK, *cumulative, number.unwrap_or(u32::MAX)]),
            Header::Ack { cumulative, number, answer: Some(answer) } => {
                let at = put_u32(out, &[ACK_WITH_ANSWER, *cumulative, number.unwrap_or(u32::MAX), answer.serial]);
                at + put_path(&answer.path, &mut out[at..])
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        let given = |number: u32| (number != u32::MAX).then_some(number);
        match kind {
            DATA => {
                let [_, number, packets] = take_u32(bytes)?;
                (number < packets).then_some((Header::Data { number, packets, request: None }, 12))
            }
            DATA_WITH_REQUEST => {
                let [_, number, packets] = take_u32(bytes)?;
                let (request, length) = take_request(&bytes[12..])?;
                (number < packets).then_some((Header::Data { number, packets, request: Some(request) }, 12 + length))
            }
            REQUEST => {
                let [_, packets] = take_u32(bytes)?;
                let (request, length) = take_request(&bytes[8..])?;
                Some((Header::Request { packets, request }, 8 + length))
            }
            ACK => {
                let [_, cumulative, number] = take_u32(bytes)?;
                Some((Header::Ack { cumulative, number: given(number), answer: None }, 12))
            }
            ACK_WITH_ANSWER => {
                let [_, cumulative, number, serial] = take_u32(bytes)?;
                let answer = Some(Answer { serial, path: take_path(&bytes[16..])? });
                Some((Header::Ack { cumulative, number: given(number), answer }, 16 + PATH_BYTES))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

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

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(
            kind in 0_u32..7, bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..130),
        ) {
            read_is_written::<Header>(&[&kind.to_be_bytes()[..], &bytes].concat())?;
        }
    }

    #[test]
    fn the_least_allocation_counts_the_ports_that_allocated_only() {
        let mut path = Path { hops: 3, ..Path::default() };
        path.rates[..4].copy_from_slice(&[5, 3, 4, 1].map(Rate::from_gbps));
        assert_eq!(path.least(), Some(Rate::from_gbps(3)));
        assert_eq!(Path::default().least(), None);
    }
}
