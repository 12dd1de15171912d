//! PDQ's packets.

use std::num::NonZeroU32;

use flowloom_core::{Duration, NodeId, Rate, Time, wire_format, wire_number};

/// A node that pauses a flow. Nobody and a node together take four bytes, so that a header fits into a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauser(NonZeroU32);

impl Pauser {
    fn new(node: u32) -> Option<Pauser> {
        NonZeroU32::new(!node).map(Pauser)
    }
}

wire_number!(Pauser, u32, Node, Pauser::new, |Pauser(complement)| !complement.get());

impl From<NodeId> for Pauser {
    /// # Panics
    /// If it is [`NodeId::LINK`], which is no node.
    fn from(node: NodeId) -> Pauser {
        Pauser::new(node.0).expect("a node")
    }
}

/// The rate of a link in 32 bits: a floating-point number of bit/s, rounded up. Such numbers are in the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LineRate(u32);

wire_number!(LineRate, u32, FloatBps, |bits| Some(LineRate(bits)), |rate| rate.0);

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

/// A round-trip time in 32 bits: a floating-point number of picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip(u32);

wire_number!(RoundTrip, u32, FloatPicoseconds, |bits| Some(RoundTrip(bits)).filter(|rtt| rtt.as_ps() >= 0.0), |rtt| rtt.0);

impl From<Duration> for RoundTrip {
    fn from(rtt: Duration) -> RoundTrip {
        RoundTrip((rtt.as_ps() as f32).to_bits())
    }
}

impl From<RoundTrip> for Duration {
    fn from(rtt: RoundTrip) -> Duration {
        Duration::from_ps(rtt.as_ps() as u64)
    }
}

impl RoundTrip {
    /// In picoseconds.
    pub fn as_ps(self) -> f32 {
        f32::from_bits(self.0)
    }
}

wire_format! {
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
        /// The flow's last measured round-trip time.
        pub rtt: RoundTrip,
        /// The round-trip time in which early start counts.
        pub early_start_rtt: RoundTrip,
        /// When the packet was sent, on the sender's clock. The receiver returns it.
        pub sent: Time,
    }
}

wire_format! {
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
}

impl Feedback {
    /// One round trip between two probes.
    pub const ROUND_TRIP: u32 = 1000;
}

wire_format! {
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

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets, .. } => number < packets,
                Header::Probe { packets, .. } => packets > 0,
                _ => true,
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::wire_format_holds;

    fn pausers() -> impl Strategy<Value = Option<Pauser>> {
        prop::option::of((0..u32::MAX).prop_map(|node| Pauser::from(NodeId(node))))
    }

    fn requests() -> impl Strategy<Value = Request> {
        let parts = (any::<[u64; 6]>(), pausers(), any::<u32>());
        parts.prop_map(|([rate, deadline, transmission, rtt, early_start_rtt, sent], pauser, slowest)| Request {
            rate: Rate::from_bps(rate),
            pauser,
            slowest: LineRate(slowest),
            deadline: Time::from_ps(deadline),
            transmission: Duration::from_ps(transmission),
            rtt: Duration::from_ps(rtt).into(),
            early_start_rtt: Duration::from_ps(early_start_rtt).into(),
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

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    proptest! {
        /// It is never less, so that a NIC as fast as a link does not look slower.
        #[test]
        fn the_rate_of_a_link_is_rounded_up_and_hardly_changed(bps in 1_u64..1_000_000_000_000_000) {
            let (line, rate) = (LineRate::from(Rate::from_bps(bps)).as_bps(), bps as f64);
            prop_assert!(line >= rate && line <= rate * (1.0 + 2.0_f64.powi(-23)), "{} and {}", line, rate);
        }

        #[test]
        fn a_round_trip_is_hardly_changed(ps in 1_u64..1_000_000_000_000_000) {
            let (near, rtt) = (f64::from(RoundTrip::from(Duration::from_ps(ps)).as_ps()), ps as f64);
            prop_assert!((near - rtt).abs() <= rtt * 2.0_f64.powi(-24), "{} and {}", near, rtt);
        }
    }

    /// Two cache lines in the pool, with the rest of the packet.
    #[test]
    fn a_header_takes_little_memory() {
        assert!(size_of::<Header>() <= 64, "{} B", size_of::<Header>());
    }
}
