//! PIAS does not change TCP's packets. Reports and updates have packets of their own.

use flowloom_core::wire_format;

use super::config::MOST_THRESHOLDS;
use super::sizes::BINS;
use crate::tcp;
wire_format! {
    /// The header.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// TCP's header, unchanged.
        Tcp {
            /// The header.
            header: tcp::Header,
        },
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

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Tcp { .. } => true,
                Header::Report { bin, .. } => usize::from(bin) < BINS,
                Header::Update { count, bins } => bins
                    .get(..usize::from(count))
                    .is_some_and(|given| given.is_sorted() && given.iter().all(|bin| usize::from(*bin) < BINS)),
            }
        }
    }
}
