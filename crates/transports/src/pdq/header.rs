//! PDQ's packets.

use std::num::NonZeroU32;

use flowloom_core::{Duration, NodeId, Rate, Time, Wire};

use crate::toolkit::{put_u32, take_u32};

/// A node that pauses a flow. Nobody and a node together take four bytes, so that a header fits into a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauser(NonZeroU32);

impl Pauser {
    fn read(word: u32) -> Option<Pauser> {
        NonZeroU32::new(!word).map(Pauser)
    }
    /// The word of nobody is that of no node.
    fn write(pauser: Option<Pauser>) -> u32 {
        pauser.map_or(u32::MAX, |Pauser(complement)| !complement.get())
    }
}

impl From<NodeId> for Pauser {
    /// # Panics
    /// If it is [`NodeId::LINK`], which is no node.
    fn from(node: NodeId) -> Pauser {
        Pauser::read(node.0).expect("a node")
    }
}

/// The rate of a link in 32 bits: a floating-point number of bit/s, rounded up. Such numbers are in the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LineRate(u32);

impl From<Rate> for LineRate {
    fn from(rate: Rate) -> LineRate {
        let near = rate.as_bps() as f32;
        let is_less = (near as u64) < rate.as_bps();
        LineRate(if is_less { near.next_up() } else { near }.to_bits())
    }
}

impl LineRate {
    /// In bit/s.
    pub fn as_bps(self) -> f64 {
        f64::from(f32::from_bits(self.0))
    }
}

/// The scheduling header of data and probes. Switches on the way lower the rate or pause the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The rate that every node so far grants; the sender starts with that of its NIC. Zero if the flow is paused.
    pub rate: Rate,
    /// The node that pauses the flow.
    pub pauser: Option<Pauser>,
    /// The rate of the slowest link so far, the most that the flow can use.
    pub slowest: LineRate,
    /// The flow's deadline; [`Time::MAX`] without one.
    pub deadline: Time,
    /// The time that the rest of the flow takes at the rate of the sender's NIC.
    pub transmission: Duration,
    /// The sender's last measured round-trip time.
    pub rtt: Duration,
    /// When the packet was sent, on the sender's clock. The receiver returns it.
    pub sent: Time,
}

/// The scheduling header of acknowledgements. Switches on the way back commit the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The rate at which the flow may send.
    pub rate: Rate,
    /// The node that pauses the flow.
    pub pauser: Option<Pauser>,
    /// The time between two probes of a paused flow, in thousandths of a round trip.
    pub probe_interval: u32,
    /// When the acknowledged packet was sent, on the sender's clock.
    pub sent: Time,
}

impl Feedback {
    /// One round trip between two probes.
    pub const ROUND_TRIP: u32 = 1000;
}

/// PDQ's header. Packets of a flow are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Opens a flow and measures the round-trip time.
    Syn {
        /// When it was sent.
        sent: Time,
    },
    /// Answers a SYN.
    SynAck {
        /// When the SYN was sent.
        sent: Time,
    },
    /// A piece of the flow.
    Data {
        /// The packet's number.
        number: u32,
        /// The number of packets of the flow.
        packets: u32,
        /// What the flow requests.
        request: Request,
    },
    /// Requests a rate for a paused flow.
    Probe {
        /// The number of packets of the flow.
        packets: u32,
        /// What the flow requests.
        request: Request,
    },
    /// Answers every data packet and probe.
    Ack {
        /// All packets below this one have arrived.
        cumulative: u32,
        /// The packet that is acknowledged, none for a probe.
        answers: Option<u32>,
        /// What the network answers.
        feedback: Feedback,
    },
    /// The flow has nothing more to send. Switches forget it.
    Term {
        /// Whether the sender gave up, so that the receiver forgets the flow, too.
        aborted: bool,
    },
}

const SYN: u32 = 1;
const SYN_ACK: u32 = 2;
const DATA: u32 = 3;
const PROBE: u32 = 4;
const ACK: u32 = 5;
const ACK_OF_PROBE: u32 = 6;
const TERM: u32 = 7;
const TERM_ABORTED: u32 = 8;

fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

fn whole(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

impl Request {
    const WORDS: usize = 12;

    fn words(&self) -> [u32; Request::WORDS] {
        let [rate_high, rate_low] = halves(self.rate.as_bps());
        let [deadline_high, deadline_low] = halves(self.deadline.as_ps());
        let [transmission_high, transmission_low] = halves(self.transmission.as_ps());
        let [rtt_high, rtt_low] = halves(self.rtt.as_ps());
        let [sent_high, sent_low] = halves(self.sent.as_ps());
        [
            rate_high,
            rate_low,
            Pauser::write(self.pauser),
            self.slowest.0,
            deadline_high,
            deadline_low,
            transmission_high,
            transmission_low,
            rtt_high,
            rtt_low,
            sent_high,
            sent_low,
        ]
    }

    fn read(bytes: &[u8]) -> Option<Request> {
        let [rate_high, rate_low, pauser, slowest, rest @ ..] = take_u32::<{ Request::WORDS }>(bytes)?;
        let [deadline_high, deadline_low, transmission_high, transmission_low, rtt_high, rtt_low, sent_high, sent_low] = rest;
        Some(Request {
            rate: Rate::from_bps(whole(rate_high, rate_low)),
            pauser: Pauser::read(pauser),
            slowest: LineRate(slowest),
            deadline: Time::from_ps(whole(deadline_high, deadline_low)),
            transmission: Duration::from_ps(whole(transmission_high, transmission_low)),
            rtt: Duration::from_ps(whole(rtt_high, rtt_low)),
            sent: Time::from_ps(whole(sent_high, sent_low)),
        })
    }
}

impl Feedback {
    const WORDS: usize = 6;

    fn words(&self) -> [u32; Feedback::WORDS] {
        let [rate_high, rate_low] = halves(self.rate.as_bps());
        let [sent_high, sent_low] = halves(self.sent.as_ps());
        [rate_high, rate_low, Pauser::write(self.pauser), self.probe_interval, sent_high, sent_low]
    }

    fn read(bytes: &[u8]) -> Option<Feedback> {
        let [rate_high, rate_low, pauser, probe_interval, sent_high, sent_low] = take_u32(bytes)?;
        Some(Feedback {
            rate: Rate::from_bps(whole(rate_high, rate_low)),
            pauser: Pauser::read(pauser),
            probe_interval,
            sent: Time::from_ps(whole(sent_high, sent_low)),
        })
    }
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 4 * (3 + Request::WORDS);

    fn encode(&self, out: &mut [u8]) -> usize {
        let mut length = 0;
        let mut put = |words: &[u32]| length += put_u32(&mut out[length..], words);
        match *self {
            Header::Syn { sent } => {
                put(&[SYN]);
                put(&halves(sent.as_ps()));
            }
            Header::SynAck { sent } => {
                put(&[SYN_ACK]);
                put(&halves(sent.as_ps()));
            }
            Header::Data { number, packets, request } => {
                put(&[DATA, number, packets]);
                put(&request.words());
            }
            Header::Probe { packets, request } => {
                put(&[PROBE, packets]);
                put(&request.words());
            }
            Header::Ack { cumulative, answers: Some(number), feedback } => {
                put(&[ACK, cumulative, number]);
                put(&feedback.words());
            }
            Header::Ack { cumulative, answers: None, feedback } => {
                put(&[ACK_OF_PROBE, cumulative]);
                put(&feedback.words());
            }
            Header::Term { aborted } => put(&[if aborted { TERM_ABORTED } else { TERM }]),
        }
        length
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        let fields = &bytes[4..];
        let (header, words) = match kind {
            SYN | SYN_ACK => {
                let [high, low] = take_u32(fields)?;
                let sent = Time::from_ps(whole(high, low));
                (if kind == SYN { Header::Syn { sent } } else { Header::SynAck { sent } }, 3)
            }
            DATA => {
                let [number, packets] = take_u32(fields)?;
                let request = Request::read(&fields[8..])?;
                (number < packets).then_some((Header::Data { number, packets, request }, 3 + Request::WORDS))?
            }
            PROBE => {
                let [packets] = take_u32(fields)?;
                let request = Request::read(&fields[4..])?;
                (packets > 0).then_some((Header::Probe { packets, request }, 2 + Request::WORDS))?
            }
            ACK => {
                let [cumulative, number] = take_u32(fields)?;
                let feedback = Feedback::read(&fields[8..])?;
                (Header::Ack { cumulative, answers: Some(number), feedback }, 3 + Feedback::WORDS)
            }
            ACK_OF_PROBE => {
                let [cumulative] = take_u32(fields)?;
                let feedback = Feedback::read(&fields[4..])?;
                (Header::Ack { cumulative, answers: None, feedback }, 2 + Feedback::WORDS)
            }
            TERM => (Header::Term { aborted: false }, 1),
            TERM_ABORTED => (Header::Term { aborted: true }, 1),
            _ => return None,
        };
        Some((header, words * 4))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

    fn pausers() -> impl Strategy<Value = Option<Pauser>> {
        prop::option::of((0..u32::MAX).prop_map(|node| Pauser::from(NodeId(node))))
    }

    fn requests() -> impl Strategy<Value = Request> {
        let parts = (any::<[u64; 5]>(), pausers(), any::<u32>());
        parts.prop_map(|([rate, deadline, transmission, rtt, sent], pauser, slowest)| Request {
            rate: Rate::from_bps(rate),
            pauser,
            slowest: LineRate(slowest),
            deadline: Time::from_ps(deadline),
            transmission: Duration::from_ps(transmission),
            rtt: Duration::from_ps(rtt),
            sent: Time::from_ps(sent),
        })
    }

    fn feedbacks() -> impl Strategy<Value = Feedback> {
        (any::<[u64; 2]>(), any::<u32>(), pausers()).prop_map(|([rate, sent], probe_interval, pauser)| Feedback {
            rate: Rate::from_bps(rate),
            pauser,
            probe_interval,
            sent: Time::from_ps(sent),
        })
    }

    /// Every header that can be encoded.
    pub fn headers() -> impl Strategy<Value = Header> {
        let time = || any::<u64>().prop_map(Time::from_ps);
        prop_oneof![
            time().prop_map(|sent| Header::Syn { sent }),
            time().prop_map(|sent| Header::SynAck { sent }),
            (any::<u32>(), any::<u32>(), requests())
                .prop_filter("numbers are below the count", |(number, packets, _)| number < packets)
                .prop_map(|(number, packets, request)| Header::Data { number, packets, request }),
            (1..u32::MAX, requests()).prop_map(|(packets, request)| Header::Probe { packets, request }),
            (any::<u32>(), any::<Option<u32>>(), feedbacks()).prop_map(|(cumulative, answers, feedback)| Header::Ack {
                cumulative,
                answers,
                feedback
            }),
            any::<bool>().prop_map(|aborted| Header::Term { aborted }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(kind in 0_u32..10, bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            read_is_written::<Header>(&[&kind.to_be_bytes(), &bytes[..]].concat())?;
        }
    }

    proptest! {
        /// It is never less, so that a NIC as fast as a link does not look slower.
        #[test]
        fn the_rate_of_a_link_is_rounded_up_and_hardly_changed(bps in 1_u64..1_000_000_000_000_000) {
            let (line, rate) = (LineRate::from(Rate::from_bps(bps)).as_bps(), bps as f64);
            prop_assert!(line >= rate && line <= rate * (1.0 + 2.0_f64.powi(-23)), "{} and {}", line, rate);
        }
    }

    /// Two cache lines in the pool, with the rest of the packet.
    #[test]
    fn a_header_takes_little_memory() {
        assert!(size_of::<Header>() <= 64, "{} B", size_of::<Header>());
    }
}
