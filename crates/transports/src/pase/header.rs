//! PASE's packets: data and acknowledgements between hosts, and the messages of arbitration.

use flowloom_core::{FlowId, LinkId, NodeId, Rate, Wire};

use super::arbiter::{Request, Share};
use super::course::{Course, Half};
use crate::tcp::{Blocks, MOST_BLOCKS};
use crate::toolkit::{put_u32, take_u32};

/// A rate in a packet, in kb/s. Rates above 4.29 Tb/s are sent as the largest number, which stands for any rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kbps(pub u32);

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

/// What a source says about its flow: the input of Algorithm 1. A demand of 0 means that the flow is not arbitrated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asking {
    /// See [`Request::key`].
    pub key: u32,
    /// See [`Request::demand`].
    pub demand: Kbps,
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

/// The output of Algorithm 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// See [`Share::queue`].
    pub queue: u8,
    /// See [`Share::rate`].
    pub rate: Kbps,
}

impl From<Share> for Answer {
    fn from(share: Share) -> Answer {
        Answer { queue: share.queue, rate: share.rate.into() }
    }
}

impl From<Answer> for Share {
    fn from(answer: Answer) -> Share {
        Share { queue: answer.queue, rate: answer.rate.into() }
    }
}

/// Half of a flow's path, in a message between arbitrators. The packet's flow is the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Which half.
    pub half: Half,
    /// The flow's source.
    pub src: NodeId,
    /// The flow's destination.
    pub dst: NodeId,
}

impl Path {
    /// The flow's course.
    pub fn course(self, flow: FlowId) -> Course {
        Course { flow, src: self.src, dst: self.dst, half: self.half }
    }
}

impl From<Course> for Path {
    fn from(Course { src, dst, half, .. }: Course) -> Path {
        Path { half, src, dst }
    }
}

/// What an acknowledgement answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acked {
    /// Data.
    Data,
    /// A probe. All that was sent before it, in its queue or a higher one, has arrived or is lost.
    Probe,
    /// A request for the destination's share.
    Refresh,
}

/// The header. Packets of a flow are numbered from 0.
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
        /// The packet arrived with congestion experienced.
        echo: bool,
        /// The share of the destination's half.
        answer: Answer,
        /// All packets below this one have arrived.
        cumulative: u32,
        /// Ranges that have arrived beyond it.
        blocks: Blocks,
    },
    /// To an arbitrator: a flow's request, with its share on the links below.
    Ask {
        /// Half of the flow's path.
        path: Path,
        /// The request.
        asking: Asking,
        /// The share so far.
        so_far: Answer,
    },
    /// Down again: the share on this half of the path.
    Share {
        /// Half of the flow's path.
        path: Path,
        /// The share.
        answer: Answer,
    },
    /// To an arbitrator: the flow is over, or is pruned below.
    Leave {
        /// Half of the flow's path.
        path: Path,
    },
    /// To the arbitrator of a delegated link: how much the flows of this child demand of it.
    Report {
        /// The link.
        link: LinkId,
        /// The demand.
        demand: Kbps,
    },
    /// To a child: the capacity of its virtual link.
    Capacity {
        /// The link.
        link: LinkId,
        /// The capacity.
        rate: Kbps,
    },
}

const DATA: u8 = 1;
const PROBE: u8 = 2;
const REFRESH: u8 = 3;
const ACK: u8 = 4; // to 9: by what it answers and its echo
const ASK: u8 = 10; // and the next: by half
const SHARE: u8 = 12;
const LEAVE: u8 = 14;
const REPORT: u8 = 16;
const CAPACITY: u8 = 17;

const ACKED: [Acked; 3] = [Acked::Data, Acked::Probe, Acked::Refresh];
const HALVES: [Half; 2] = [Half::Source, Half::Destination];

/// The kind of a message about half of a path.
fn by_half(first: u8, half: Half) -> u8 {
    first + u8::from(half == Half::Destination)
}

impl Wire for Header {
    const MAX_BYTES: usize = 11 + 4 * MOST_BLOCKS;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Data { number, packets, asking } => {
                out[0] = DATA;
                1 + put_u32(&mut out[1..], &[number, packets, asking.key, asking.demand.0])
            }
            Header::Probe { packets, asking } => {
                out[0] = PROBE;
                1 + put_u32(&mut out[1..], &[packets, asking.key, asking.demand.0])
            }
            Header::Refresh { packets, asking } => {
                out[0] = REFRESH;
                1 + put_u32(&mut out[1..], &[packets, asking.key, asking.demand.0])
            }
            Header::Ack { acked, echo, answer, cumulative, blocks } => {
                let kind = ACKED.iter().position(|it| *it == acked).expect("one of three") as u8;
                out[0] = ACK + 2 * kind + u8::from(echo);
                out[1] = answer.queue;
                let length = 2 + put_u32(&mut out[2..], &[answer.rate.0, cumulative]);
                length + blocks.encode(&mut out[length..])
            }
            Header::Ask { path, asking, so_far } => {
                out[..2].copy_from_slice(&[by_half(ASK, path.half), so_far.queue]);
                let fields = [path.src.0, path.dst.0, asking.key, asking.demand.0, so_far.rate.0];
                2 + put_u32(&mut out[2..], &fields)
            }
            Header::Share { path, answer } => {
                out[..2].copy_from_slice(&[by_half(SHARE, path.half), answer.queue]);
                2 + put_u32(&mut out[2..], &[path.src.0, path.dst.0, answer.rate.0])
            }
            Header::Leave { path } => {
                out[0] = by_half(LEAVE, path.half);
                1 + put_u32(&mut out[1..], &[path.src.0, path.dst.0])
            }
            Header::Report { link, demand } => {
                out[0] = REPORT;
                1 + put_u32(&mut out[1..], &[link.0, demand.0])
            }
            Header::Capacity { link, rate } => {
                out[0] = CAPACITY;
                1 + put_u32(&mut out[1..], &[link.0, rate.0])
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (kind, rest) = bytes.split_first()?;
        let asking = |key, demand| Asking { key, demand: Kbps(demand) };
        let path = |first: u8, src, dst| Path { half: HALVES[usize::from(kind - first)], src: NodeId(src), dst: NodeId(dst) };
        Some(match *kind {
            DATA => {
                let [number, packets, key, demand] = take_u32(rest)?;
                (number < packets).then_some((Header::Data { number, packets, asking: asking(key, demand) }, 17))?
            }
            PROBE | REFRESH => {
                let [packets, key, demand] = take_u32(rest)?;
                let asking = asking(key, demand);
                (packets > 0).then_some(())?;
                (if *kind == PROBE { Header::Probe { packets, asking } } else { Header::Refresh { packets, asking } }, 13)
            }
            ACK..ASK => {
                let (queue, rest) = rest.split_first()?;
                let [rate, cumulative] = take_u32(rest)?;
                let (blocks, length) = Blocks::decode(&rest[8..])?;
                let (acked, echo) = (ACKED[usize::from((kind - ACK) / 2)], (kind - ACK) % 2 == 1);
                let answer = Answer { queue: *queue, rate: Kbps(rate) };
                (Header::Ack { acked, echo, answer, cumulative, blocks }, 10 + length)
            }
            ASK..SHARE => {
                let (queue, rest) = rest.split_first()?;
                let [src, dst, key, demand, rate] = take_u32(rest)?;
                let so_far = Answer { queue: *queue, rate: Kbps(rate) };
                (Header::Ask { path: path(ASK, src, dst), asking: asking(key, demand), so_far }, 22)
            }
            SHARE..LEAVE => {
                let (queue, rest) = rest.split_first()?;
                let [src, dst, rate] = take_u32(rest)?;
                (Header::Share { path: path(SHARE, src, dst), answer: Answer { queue: *queue, rate: Kbps(rate) } }, 14)
            }
            LEAVE..REPORT => {
                let [src, dst] = take_u32(rest)?;
                (Header::Leave { path: path(LEAVE, src, dst) }, 9)
            }
            REPORT => {
                let [link, demand] = take_u32(rest)?;
                (Header::Report { link: LinkId(link), demand: Kbps(demand) }, 9)
            }
            CAPACITY => {
                let [link, rate] = take_u32(rest)?;
                (Header::Capacity { link: LinkId(link), rate: Kbps(rate) }, 9)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

    fn headers() -> impl Strategy<Value = Header> {
        let asking = || any::<(u32, u32)>().prop_map(|(key, demand)| Asking { key, demand: Kbps(demand) });
        let answer = || any::<(u8, u32)>().prop_map(|(queue, rate)| Answer { queue, rate: Kbps(rate) });
        let path = || {
            (0_usize..2, any::<(u32, u32)>()).prop_map(|(half, (src, dst))| Path {
                half: HALVES[half],
                src: NodeId(src),
                dst: NodeId(dst),
            })
        };
        let blocks = prop::collection::vec((1_u32..60_000, 1_u32..100), 0..=MOST_BLOCKS)
            .prop_map(|list| Blocks::new(0, list.into_iter().map(|(start, length)| start..start + length)));
        prop_oneof![
            (0..u32::MAX, asking()).prop_flat_map(|(packets, asking)| {
                (0..=packets).prop_map(move |number| Header::Data { number, packets: packets + 1, asking })
            }),
            (1..u32::MAX, asking()).prop_map(|(packets, asking)| Header::Probe { packets, asking }),
            (1..u32::MAX, asking()).prop_map(|(packets, asking)| Header::Refresh { packets, asking }),
            (0_usize..3, any::<bool>(), answer(), any::<u32>(), blocks).prop_map(|(acked, echo, answer, cumulative, blocks)| {
                Header::Ack { acked: ACKED[acked], echo, answer, cumulative, blocks }
            }),
            (path(), asking(), answer()).prop_map(|(path, asking, so_far)| Header::Ask { path, asking, so_far }),
            (path(), answer()).prop_map(|(path, answer)| Header::Share { path, answer }),
            path().prop_map(|path| Header::Leave { path }),
            any::<(u32, u32)>().prop_map(|(link, demand)| Header::Report { link: LinkId(link), demand: Kbps(demand) }),
            any::<(u32, u32)>().prop_map(|(link, rate)| Header::Capacity { link: LinkId(link), rate: Kbps(rate) }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(0_u8..20, 0..32)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn rates_are_rounded_up_and_the_largest_stands_for_any() {
        for (bps, kbps) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (1_000_000_000, 1_000_000), (u64::MAX, u32::MAX)] {
            assert_eq!(Kbps::from(Rate::from_bps(bps)), Kbps(kbps));
        }
        assert_eq!(Rate::from(Kbps(1_000_000)), Rate::from_gbps(1));
        assert_eq!(Share::from(Answer::from(Share::FREE)), Share::FREE);
    }

    #[test]
    fn a_header_leaves_a_packet_in_its_cache_line() {
        assert!(size_of::<Header>() <= 24, "{} B", size_of::<Header>());
    }
}
