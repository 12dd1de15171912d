//! PASE's packets: data and acknowledgements between hosts, and the messages of arbitration.

use flowloom_core::{LinkId, NodeId, Rate, wire_format, wire_number};

use super::arbiter::Request;
use super::course::Half;
use super::stamp::Stamp;
use crate::tcp::Blocks;
/// A rate in a packet, in kb/s. Rates above 4.29 Tb/s are sent as the largest number, which stands for any rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kbps(pub u32);

wire_number!(Kbps, u32, Kbps, |kbps| Some(Kbps(kbps)), |rate| rate.0);

impl From<Rate> for Kbps {
    /// Rounds up, so that no demand becomes 0.
    fn from(rate: Rate) -> Kbps {
        Kbps(u32::try_from(rate.as_bps().div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

impl From<Kbps> for Rate {
    fn from(Kbps(kbps): Kbps) -> Rate {
        Rate::from_bps(if kbps == u32::MAX { u64::MAX } else { u64::from(kbps) * 1000 })
    }
}

wire_format! {
    /// What a source says about its flow: the input of Algorithm 1. A demand of 0 means that the flow is not arbitrated.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Asking {
        /// See [`Request::key`].
        pub key: u32,
        /// See [`Request::demand`].
        pub demand: Kbps,
    }
}

impl From<Request> for Asking {
    fn from(request: Request) -> Asking {
        Asking { key: request.key, demand: request.demand.into() }
    }
}

impl Asking {
    /// The request, if the flow is arbitrated.
    pub fn request(self) -> Option<Request> {
        (self.demand != Kbps(0)).then(|| Request { key: self.key, demand: self.demand.into() })
    }
}

wire_format! {
    /// What an acknowledgement answers.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Acked {
        /// Data.
        Data,
        /// Data that arrived with congestion experienced.
        Marked,
        /// A probe. All that was sent before it, in its queue or a higher one, has arrived or is lost.
        Probe,
        /// A request for the destination's share.
        Refresh,
    }
}

wire_format! {
    /// The header. Packets of a flow are numbered from 0. The packet's flow is the flow that a message is about. Variants have no structures
    /// that would need padding, so that a packet fits its cache line.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// A piece of the flow.
        Data {
            /// The packet's number.
            number: u32,
            /// The number of packets of the flow.
            packets: u32,
            /// For the destination's half of the path.
            asking: Asking,
        },
        /// Asks what has arrived; it waits in the queue that the flow's data waits in (§3.2).
        Probe {
            /// The number of packets of the flow.
            packets: u32,
            /// For the destination's half of the path.
            asking: Asking,
        },
        /// Asks for the destination's share when the flow has sent nothing for a period.
        Refresh {
            /// The number of packets of the flow.
            packets: u32,
            /// For the destination's half of the path.
            asking: Asking,
        },
        /// Acknowledges packets, and brings the share of the destination's half.
        Ack {
            /// What it answers.
            acked: Acked,
            /// After how many periods without data the flow asks again.
            patience: u8,
            /// The queue on the destination's half of the path.
            queue: u8,
            /// What more critical flows leave there: [`Share::rate`](super::Share::rate).
            rate: Kbps,
            /// All packets below this one have arrived.
            cumulative: u32,
            /// Ranges that have arrived beyond it.
            blocks: Blocks,
        },
        /// To an arbitrator: a flow's request, with its share on the links below.
        Ask {
            /// Which half of the flow's path.
            half: Half,
            /// The flow's source.
            src: NodeId,
            /// The flow's destination.
            dst: NodeId,
            /// When the host asked, or said that the flow leaves.
            stamp: Stamp,
            /// The request.
            asking: Asking,
            /// The queue so far.
            queue: u8,
            /// What more critical flows leave so far.
            rate: Kbps,
        },
        /// Down again: the share on this half of the path.
        Share {
            /// Which half of the flow's path.
            half: Half,
            /// The flow's source.
            src: NodeId,
            /// The flow's destination.
            dst: NodeId,
            /// When the host asked, or said that the flow leaves.
            stamp: Stamp,
            /// The queue.
            queue: u8,
            /// What more critical flows leave.
            rate: Kbps,
        },
        /// To an arbitrator: the flow is over, or is pruned below.
        Leave {
            /// Which half of the flow's path.
            half: Half,
            /// The flow's source.
            src: NodeId,
            /// The flow's destination.
            dst: NodeId,
            /// When the host asked, or said that the flow leaves.
            stamp: Stamp,
        },
        /// To the arbitrator of a delegated link: how much the flows of this child demand of it.
        Report {
            /// The link.
            link: LinkId,
            /// When it was sent.
            stamp: Stamp,
            /// The demand.
            demand: Kbps,
        },
        /// To a child: the capacity of its virtual link.
        Capacity {
            /// The link.
            link: LinkId,
            /// When the report was sent that it answers.
            stamp: Stamp,
            /// The capacity.
            rate: Kbps,
        },
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets, .. } => number < packets,
                Header::Probe { packets, .. } | Header::Refresh { packets, .. } => packets > 0,
                _ => true,
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pase::Share;
    use crate::tcp::MOST_BLOCKS;
    use crate::trial::{numbers, places, wire_format_holds};

    pub fn headers() -> impl Strategy<Value = Header> {
        let asking = || any::<(u32, u32)>().prop_map(|(key, demand)| Asking { key, demand: Kbps(demand) });
        let share = || any::<(u8, u32)>().prop_map(|(queue, rate)| (queue, Kbps(rate)));
        let half = || {
            let halves = prop::sample::select(vec![Half::Source, Half::Destination]);
            let fields = (halves, numbers(), numbers(), any::<u8>());
            fields.prop_map(|(half, src, dst, stamp)| (half, NodeId(src), NodeId(dst), Stamp(stamp)))
        };
        let acked = prop::sample::select(vec![Acked::Data, Acked::Marked, Acked::Probe, Acked::Refresh]);
        let blocks = prop::collection::vec((prop_oneof![1_u32..16, 1_u32..60_000], 1_u32..100), 0..=MOST_BLOCKS)
            .prop_map(|list| Blocks::new(0, list.into_iter().map(|(start, length)| start..start + length)));
        prop_oneof![
            (places(), asking()).prop_map(|((number, packets), asking)| Header::Data { number, packets, asking }),
            (places(), asking()).prop_map(|((_, packets), asking)| Header::Probe { packets, asking }),
            (places(), asking()).prop_map(|((_, packets), asking)| Header::Refresh { packets, asking }),
            (acked, any::<u8>(), share(), numbers(), blocks).prop_map(
                |(acked, patience, (queue, rate), cumulative, blocks)| Header::Ack {
                    acked,
                    patience,
                    queue,
                    rate,
                    cumulative,
                    blocks
                }
            ),
            (half(), asking(), share()).prop_map(|((half, src, dst, stamp), asking, (queue, rate))| {
                Header::Ask { half, src, dst, stamp, asking, queue, rate }
            }),
            (half(), share()).prop_map(|((half, src, dst, stamp), (queue, rate))| Header::Share {
                half,
                src,
                dst,
                stamp,
                queue,
                rate
            }),
            half().prop_map(|(half, src, dst, stamp)| Header::Leave { half, src, dst, stamp }),
            (numbers(), any::<u32>(), any::<u8>()).prop_map(|(link, demand, stamp)| {
                Header::Report { link: LinkId(link), stamp: Stamp(stamp), demand: Kbps(demand) }
            }),
            (numbers(), any::<u32>(), any::<u8>()).prop_map(|(link, rate, stamp)| Header::Capacity {
                link: LinkId(link),
                stamp: Stamp(stamp),
                rate: Kbps(rate)
            }),
        ]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    #[test]
    fn rates_are_rounded_up_and_the_largest_stands_for_any() {
        for (bps, kbps) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (1_000_000_000, 1_000_000), (u64::MAX, u32::MAX)] {
            assert_eq!(Kbps::from(Rate::from_bps(bps)), Kbps(kbps));
        }
        assert_eq!(Rate::from(Kbps(1_000_000)), Rate::from_gbps(1));
        assert_eq!(Rate::from(Kbps::from(Share::FREE.rate)), Share::FREE.rate);
    }

    #[test]
    fn a_header_leaves_a_packet_in_its_cache_line() {
        assert!(size_of::<Header>() <= 24, "{} B", size_of::<Header>());
    }
}
