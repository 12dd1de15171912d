//! PIAS does not change TCP's packets. Reports and updates have packets of their own.

use flowloom_core::Wire;

use super::config::MOST_THRESHOLDS;
use super::sizes::BINS;
use crate::tcp;
use crate::toolkit::{put_u32, take_u32};

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// TCP's header, unchanged.
    Tcp(tcp::Header),
    /// From a host to the controller: this many flows ended with a size in this bin (see [`Sizes`](super::Sizes)).
    Report {
        /// The bin.
        bin: u8,
        /// The number of flows.
        count: u32,
    },
    /// From the controller to a host: the thresholds from now on, as the bins whose upper edges they are.
    Update {
        /// The number of thresholds.
        count: u8,
        /// The bins, ascending.
        bins: [u8; MOST_THRESHOLDS],
    },
}

const REPORT: u8 = 16;
const UPDATE: u8 = 17;

impl Wire for Header {
    const MAX_BYTES: usize = tcp::Header::MAX_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Tcp(header) => header.encode(out),
            Header::Report { bin, count } => {
                out[..2].copy_from_slice(&[REPORT, bin]);
                2 + put_u32(&mut out[2..], &[count])
            }
            Header::Update { count, bins } => {
                let length = usize::from(count);
                out[..2].copy_from_slice(&[UPDATE, count]);
                out[2..2 + length].copy_from_slice(&bins[..length]);
                2 + length
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        match bytes {
            [REPORT, bin, rest @ ..] => {
                let [count] = take_u32(rest)?;
                (usize::from(*bin) < BINS).then_some((Header::Report { bin: *bin, count }, 6))
            }
            [UPDATE, count, rest @ ..] => {
                let mut bins = [0; MOST_THRESHOLDS];
                let given = bins.get_mut(..usize::from(*count))?;
                given.copy_from_slice(rest.get(..given.len())?);
                let valid = given.is_sorted() && given.iter().all(|bin| usize::from(*bin) < BINS);
                valid.then_some((Header::Update { count: *count, bins }, 2 + usize::from(*count)))
            }
            _ => tcp::Header::decode(bytes).map(|(header, length)| (Header::Tcp(header), length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

    fn headers() -> impl Strategy<Value = Header> {
        let update = prop::collection::vec(0..BINS as u8, 0..=MOST_THRESHOLDS).prop_map(|mut list| {
            list.sort_unstable();
            let mut bins = [0; MOST_THRESHOLDS];
            bins[..list.len()].copy_from_slice(&list);
            Header::Update { count: list.len() as u8, bins }
        });
        prop_oneof![
            Just(Header::Tcp(tcp::Header::Syn)),
            (any::<u32>(), 1..u32::MAX)
                .prop_map(|(number, packets)| { Header::Tcp(tcp::Header::Data { number: number % packets, packets }) }),
            (0..BINS as u8, any::<u32>()).prop_map(|(bin, count)| Header::Report { bin, count }),
            update,
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(prop_oneof![0_u8..20, any::<u8>()], 0..24)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn it_is_no_larger_than_tcps() {
        assert_eq!(size_of::<Header>(), size_of::<tcp::Header>());
    }
}
