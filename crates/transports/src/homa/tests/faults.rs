//! Lost packets, busy and dead senders, and headers that no sender would send.

use flowloom_core::Event;
use flowloom_fabric::pair::Fate;
use proptest::prelude::*;

use super::*;
use crate::toolkit::Framing;
use crate::trial::{assail, trials, wire_format_holds};

const TIMEOUT: Duration = Duration::from_ms(5);
/// A control packet's way from host to host.
const ANSWER: Duration = Duration::from_ns(1032);

/// Runs one message of this many packets, of which the hook drops the first `times` of a kind from the `from`th on.
fn after_losses(packets: u64, kind: fn(&SentPacket<Header>) -> bool, from: u32, times: u32) -> Pair<Homa> {
    let mut pair = pair(&Config::default());
    let mut seen = 0;
    pair.on_packet(move |sent| {
        seen += u32::from(kind(sent));
        if kind(sent) && (from..from + times).contains(&seen) { Fate::Drop } else { Fate::Pass }
    });
    pair.open_flow(flow(0, 0, 1, packets, Duration::ZERO));
    pair.run_to_end(SECOND);
    pair
}

fn resends(pair: &Pair<Homa>) -> Vec<(u32, u32)> {
    let range = |sent: &SentPacket<Header>| match sent.packet.header {
        Header::Resend { first, end, .. } => Some((first, end)),
        _ => None,
    };
    pair.sent().iter().filter_map(range).collect()
}

/// The second of two packets is lost. A timeout after the first has come, the receiver asks for it, and it comes after a round trip.
#[test]
fn a_lost_packet_is_asked_for_after_the_timeout() {
    let pair = after_losses(2, is_data, 2, 1);
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET + DELAY + TIMEOUT + ANSWER + PACKET + DELAY);
    assert_eq!(resends(&pair), [(1, 2)]);
    assert_eq!(count(&pair, is_data), 3);
}

/// Of ten packets, the fourth and the fifth are lost, so the window stays closed by two. The receiver asks for the first range that is
/// missing.
#[test]
fn the_first_missing_range_is_asked_for() {
    let pair = after_losses(10, is_data, 4, 2);
    assert_eq!(resends(&pair), [(3, 5)]);
    assert_eq!(count(&pair, is_data), 12);
}

/// The request is lost, too: the receiver repeats it after another timeout, 1 us before the sender's question comes.
#[test]
fn a_lost_request_is_repeated() {
    let pair = after_losses(2, |sent| is_resend(sent) || is_data(sent), 2, 2);
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET + DELAY + TIMEOUT * 2 + ANSWER + PACKET + DELAY);
    assert_eq!(resends(&pair), [(1, 2); 2]);
    assert_eq!(count(&pair, is_data), 3);
}

/// Both packets are lost, and the receiver knows nothing. The sender asks for news two timeouts after it has sent the last packet, and
/// the receiver asks for everything.
#[test]
fn a_message_that_is_lost_as_a_whole_is_announced_again() {
    let pair = after_losses(2, is_data, 1, 2);
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET + TIMEOUT * 2 + ANSWER * 2 + PACKET * 2 + DELAY);
    assert_eq!((resends(&pair), count(&pair, is_query)), (vec![(0, 2)], 1));
}

/// Of four packets, the last needs a grant, which is lost. The receiver asks for the packet a timeout after the third has come, and the
/// sender takes the request for a grant.
#[test]
fn a_request_replaces_a_lost_grant() {
    let pair = after_losses(4, is_grant, 1, 1);
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET * 3 + DELAY + TIMEOUT + ANSWER + PACKET + DELAY);
    assert_eq!((resends(&pair), count(&pair, is_data)), (vec![(3, 4)], 4));
    assert!(pair.sent().iter().all(|sent| !sent.packet.retransmission));
}

/// The acknowledgement is lost. The sender asks for news, and the receiver acknowledges the message from memory.
#[test]
fn a_lost_acknowledgement_is_repeated() {
    let pair = after_losses(2, is_ack, 1, 1);
    assert_eq!(count(&pair, is_ack), 2);
    let acknowledged = pair.flow(FlowId(0)).acknowledged.expect("done");
    assert_eq!(acknowledged, Time::ZERO + PACKET + TIMEOUT * 2 + ANSWER * 2);
    assert_eq!(pair.events().iter().filter(|(_, _, event)| matches!(event, Event::Received { .. })).count(), 1);
}

/// Nothing passes for 100 ms, so the sender asks for news 10, 30, 70 and 150 ms after it has sent the last packet. Then the message arrives, and its acknowledgement is lost: the sender
/// asks again after 10 ms.
#[test]
fn questions_are_frequent_again_after_an_answer() {
    let mut pair = pair(&Config::default());
    let (until, mut acks) = (Time::ZERO + Duration::from_ms(100), 0);
    pair.on_packet(move |sent| {
        acks += u32::from(is_ack(sent));
        if sent.at < until || is_ack(sent) && acks == 1 { Fate::Drop } else { Fate::Pass }
    });
    pair.open_flow(flow(0, 0, 1, 2, Duration::ZERO));
    pair.run_to_end(SECOND);
    let acknowledged = pair.flow(FlowId(0)).acknowledged.expect("done");
    assert_eq!(acknowledged, Time::ZERO + PACKET + TIMEOUT * 30 + ANSWER * 2 + PACKET + TIMEOUT * 2 + ANSWER * 2);
}

/// Of 100 packets, the fourth is lost, which needs no grant. By the time that it is asked for, packets are granted in a lower level, which it has, too.
#[test]
fn packets_that_are_asked_for_have_the_level_that_the_receiver_says() {
    let pair = after_losses(100, is_data, 4, 1);
    let asked: Vec<u8> = pair
        .sent()
        .iter()
        .filter_map(|sent| if let Header::Resend { level, .. } = sent.packet.header { Some(level) } else { None })
        .collect();
    let again: Vec<(u8, u8)> =
        pair.sent().iter().filter(|sent| sent.packet.retransmission).map(|sent| (sent.packet.class, asked[0])).collect();
    assert_eq!((asked.len(), again.len()), (1, 1));
    assert_eq!(again[0].0, again[0].1);
    let first = pair.sent().iter().find(|sent| is_data(sent)).expect("data").packet.class;
    assert_ne!(first, again[0].0, "the unscheduled packets have a level of their own");
}

/// After 12 us, a shorter message for another host takes the sender's link for 72 us. The receiver of the first message asks after
/// 20 us of silence, hears that the sender is busy 2.064 us later, and asks again 20 us after that: three times in all. Nothing is sent twice.
#[test]
fn a_busy_sender_says_so_and_sends_nothing_twice() {
    let mut pair = pair(&Config { resend_timeout: Duration::from_us(20), ..Config::default() });
    pair.open_flow(flow(0, 0, 1, 100, Duration::ZERO));
    pair.open_flow(flow(1, 0, 2, 60, Duration::from_us(12)));
    pair.run_to_end(SECOND);
    assert_eq!([count(&pair, is_resend), count(&pair, is_busy), count(&pair, is_query)], [3, 3, 0]);
    assert_eq!(count(&pair, is_data), 160);
    assert_eq!(pair.flow(FlowId(1)).fct(), PACKET * 60 + DELAY + (PACKET * 11 - Duration::from_us(12)) + busy_answers(&pair));
}

/// The time of the answers that left between the packets of the shorter message, and delayed it.
fn busy_answers(pair: &Pair<Homa>) -> Duration {
    CONTROL * count(pair, is_busy) as u64
}

/// Everything that host 0 sends between 10 and 400 us is lost. Its message is the shorter one, and the only one that is granted to. The
/// receiver asks three times, a timeout apart, and then grants to the other message, which needs 200 packets' times from there on. When
/// host 0 asks for news, its message goes on.
#[test]
fn a_silent_sender_makes_way_and_may_come_back() {
    let timeout = Duration::from_us(20);
    let mut pair = pair(&Config { resend_timeout: timeout, resends: 3, overcommitment: 1, ..Config::default() });
    let (from, to) = (Time::ZERO + Duration::from_us(10), Time::ZERO + Duration::from_us(400));
    pair.on_packet(move |sent| {
        let lost = sent.packet.src == NodeId(0) && sent.at >= from && sent.at < to;
        if lost { Fate::Drop } else { Fate::Pass }
    });
    pair.open_flow(flow(0, 0, 2, 100, Duration::ZERO));
    pair.open_flow(flow(1, 1, 2, 203, Duration::from_ns(500)));
    pair.run_to_end(SECOND);
    let asked: Vec<Time> = pair.sent().iter().filter(|sent| is_resend(sent) && sent.at < to).map(|sent| sent.at).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked.windows(2).all(|two| two[1] - two[0] == timeout));
    let other = pair.flow(FlowId(1)).received.expect("done");
    let round_trip = PACKET + CONTROL + DELAY * 2;
    assert_eq!(other, asked[2] + timeout + (round_trip - PACKET) + PACKET * 200);
    assert!(pair.flow(FlowId(0)).received.expect("done") > to);
    assert!(count(&pair, is_query) > 0);
}

fn any_config() -> impl Strategy<Value = Config> {
    (1_u8..9, 0_u8..9, any::<bool>(), 0_u8..5, any::<bool>(), any::<bool>(), 1_u32..6, 0_u64..30_000).prop_map(
        |(levels, unscheduled, remaining, overcommitment, one_per_sender, limit_total, resends, rtt_bytes)| Config {
            levels,
            unscheduled_levels: unscheduled.min(levels),
            cutoffs: (1..u64::from(unscheduled.min(levels))).map(|level| Bytes::new(level * 3000)).collect(),
            assignment: if remaining { Assignment::Remaining } else { Assignment::Size },
            overcommitment,
            one_per_sender,
            limit_total,
            resends,
            rtt_bytes: Bytes::new(rtt_bytes),
            resend_timeout: Duration::from_us(300),
            ..Config::default()
        },
    )
}

#[test]
fn the_wire_format_holds() {
    let fields = (0..6, any::<u64>(), any::<u32>(), any::<u32>(), any::<u8>());
    wire_format_holds(fields.prop_map(|(kind, size, first, end, level)| header(kind, Bytes::new(size), first, end, level)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or
    /// duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Homa>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(
        config in any_config(),
        headers in prop::collection::vec((0..6, 0_u32..3, (0_u32..12, any::<u32>()), (0_u32..12, any::<u32>()), (0_u64..20_000, any::<u64>()), any::<u8>()), 1..80),
        wild in prop::collection::vec(any::<u8>(), 80),
    ) {
        let packets = headers.into_iter().zip(wild).map(|((kind, id, one, other, sizes, level), wild)| {
            let pick = |bit: u8| wild >> bit & 7 == 0;
            let number = if pick(0) { one.1 } else { one.0 };
            let end = if pick(1) { other.1 } else { other.0 };
            let size = Bytes::new(if pick(3) { sizes.1 } else { sizes.0 });
            let src = NodeId(if pick(4) { other.1 } else { 1 });
            let packet = Framing::new(src, &WireProfile::IP_1500).control(FlowId(id), NodeId(0), header(kind, size, number, end, level));
            (Duration::from_us(u64::from(wild)), packet)
        });
        let sent = assail::<Homa>(&config, WireProfile::IP_1500, &[flow(0, 0, 1, 10, Duration::ZERO)], packets)?;
        prop_assert!(sent.most < 100, "{} packets in answer to one", sent.most);
    }
}

fn header(kind: i32, size: Bytes, a: u32, b: u32, level: u8) -> Header {
    match kind {
        0 => Header::Data { packet: a, unscheduled: b, size },
        1 => Header::Grant { end: a, level },
        2 => Header::Resend { first: a, end: b, level },
        3 => Header::Busy,
        4 => Header::Query { unscheduled: a, size },
        _ => Header::Ack,
    }
}
