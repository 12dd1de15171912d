//! pHost between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Coflow, Duration, Event, Field, Flow, FlowId, Layout, NodeId, Time, Wire, WireProfile, WireUnit};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Config, FreeTokenAccount, FreeTokenRule, Header, PHost, Policy};
use crate::toolkit::Framing;
use crate::trial::{self, assail, trials, wire_format_holds};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const SLOT: Duration = Duration::from_ns(1200);
/// A control packet: 40 B at 10 Gb/s.
const CONTROL: Duration = Duration::from_ns(32);
const DELAY: Duration = Duration::from_us(1);

fn pair(config: &Config) -> Pair<PHost> {
    Pair::new(config, PairSetup { hosts: 4, ..PairSetup::default() })
}

/// Flows of more than eight packets wait for their first token, so that every slot follows from their requests.
fn by_request() -> Config {
    Config { free_token_rule: FreeTokenRule::ShortFlows, ..Config::default() }
}

fn flow(id: u32, src: u32, dst: u32, packets: u64) -> Flow {
    trial::flow(id, src, dst, 1460 * packets, Time::ZERO, None)
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}
fn is_token(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Token { .. })
}
fn is_rts(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Rts { .. })
}

/// Up to eight packets: the request leaves, followed directly by all data. More: the request reaches the receiver and the first token
/// comes back before data leaves at line rate. It makes no difference if the first eight packets leave earlier: the receiver holds the ninth
/// token for eight slots.
#[test]
fn unloaded_times_are_the_closed_form() {
    let sizes = [0, 1, 1459, 1460, 1461, 8 * 1460, 8 * 1460 + 1, 100_000, 1_000_000, 100_000_000];
    for (config, size) in [by_request(), Config::default()].iter().flat_map(|config| sizes.map(|size| (config, size))) {
        let mut pair = Pair::<PHost>::new(config, PairSetup { log: false, ..PairSetup::default() });
        let id = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let path = pair.network().path(NodeId(0), NodeId(1));
        let alone = pair.network().flow_time(&path, Bytes::new(size), &WireProfile::IP_1500);
        let handshake = if size <= 8 * 1460 { CONTROL } else { (CONTROL + DELAY) * 2 };
        assert_eq!(pair.flow(id).fct(), handshake + alone, "{size} B");
        let acknowledged = pair.flow(id).acknowledged.expect("done");
        assert_eq!(acknowledged, pair.flow(id).received.expect("done") + CONTROL + DELAY, "{size} B");
        assert!(pair.dropped().is_empty());
    }
}

/// One RTS, one ACK, one token for each packet that is not free (§3.1).
#[test]
fn control_packets_are_as_few_as_the_paper_says() {
    for (rule, packets, tokens) in
        [(FreeTokenRule::ShortFlows, 8, 0), (FreeTokenRule::ShortFlows, 20, 20), (FreeTokenRule::EveryFlow, 20, 12)]
    {
        let mut pair = pair(&Config { free_token_rule: rule, ..Config::default() });
        pair.open_flow(flow(0, 0, 1, packets));
        pair.run_to_end(SECOND);
        let count = |kind: fn(&SentPacket<Header>) -> bool| pair.sent().iter().filter(|sent| kind(sent)).count();
        assert_eq!((count(is_rts), count(is_token), count(is_data)), (1, tokens, packets as usize));
        assert_eq!(pair.sent().len(), 2 + tokens + packets as usize);
        assert!(pair.sent().iter().all(|sent| is_data(sent) || (sent.packet.class == 0 && sent.packet.size_bytes == 40)));
    }
}

/// A flow of 100 packets that starts while its receiver serves a shorter one. With free tokens, its first eight packets arrive in the
/// meantime; without, it gets none before the shorter flow has had its tokens.
#[test]
fn free_tokens_need_no_turn_at_the_receiver() {
    for (config, arrived) in [(Config::default(), 8), (by_request(), 0)] {
        let mut pair = pair(&config);
        pair.open_flow(flow(0, 0, 2, 60));
        let start = Time::ZERO + Duration::from_us(15);
        pair.open_flow(Flow { start, ..flow(1, 1, 2, 100) });
        pair.run(start + SLOT * 30);
        let is_arrival = |event: &Event| matches!(event, Event::Delivered { flow: FlowId(1), .. });
        assert_eq!(pair.events().iter().filter(|(_, _, event)| is_arrival(event)).count(), arrived);
    }
}

/// Short flows' data is class 1, long flows' class 2; without data priorities all is class 1.
#[test]
fn data_classes_follow_the_flow_s_length() {
    for (data_priorities, packets, class) in [(true, 8, 1), (true, 9, 2), (false, 9, 1)] {
        let mut pair = pair(&Config { data_priorities, ..by_request() });
        pair.open_flow(flow(0, 0, 1, packets));
        pair.run_to_end(SECOND);
        assert!(pair.sent().iter().filter(|sent| is_data(sent)).all(|sent| sent.packet.class == class));
    }
}

/// Two long flows to one receiver. The shorter one's last byte arrives as if the flow were alone, and the longer one ends when the link
/// has carried both.
#[test]
fn the_receiver_serves_the_shortest_first() {
    let mut pair = pair(&by_request());
    pair.open_flow(flow(0, 0, 2, 100));
    pair.open_flow(flow(1, 1, 2, 40));
    pair.run_to_end(SECOND);
    let handshake = (CONTROL + DELAY) * 2;
    // The other request was first, and its flow has had one token. The request is repeated while its flow waits, which costs the link a
    // short time.
    let alone = handshake + SLOT * 40 + DELAY;
    let short = pair.flow(FlowId(1)).fct();
    assert!(short >= alone && short <= alone + SLOT + CONTROL * 4, "{short} against {alone}");
    let both = handshake + SLOT * 140 + DELAY;
    let long = pair.flow(FlowId(0)).fct();
    assert!(long >= both && long <= both + SLOT, "{long} against {both}");
}

/// Figure 1 of the paper: one sender, two receivers that both send it tokens. It can use half of them and prefers the
/// shorter flow; the longer flow's tokens expire, its receiver stops after a threshold of them, and comes back later.
#[test]
fn a_sender_that_does_not_answer_is_downgraded_and_retried() {
    let mut pair = pair(&by_request());
    pair.open_flow(flow(0, 0, 1, 200));
    pair.open_flow(flow(1, 0, 2, 100));
    let threshold_time = Time::ZERO + (CONTROL + DELAY) * 2 + SLOT * 60;
    pair.run(threshold_time);
    let tokens: Vec<Time> =
        pair.sent().iter().filter(|sent| is_token(sent) && sent.packet.src == NodeId(1)).map(|sent| sent.at).collect();
    // Eight unanswered tokens pause it. From then on, at most eight more follow after each 24 slots.
    let gaps: Vec<Duration> = tokens.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.contains(&(SLOT * 24)), "{gaps:?}");
    assert!(tokens.len() <= 8 + 2 * 8, "{}", tokens.len());
    pair.run_to_end(SECOND);
    let short = pair.flow(FlowId(1)).fct();
    let alone = (CONTROL + DELAY) * 2 + SLOT * 100 + DELAY;
    assert!(short <= alone + SLOT * 3, "{short} against {alone} alone");
    // The long flow loses the short one's time and at most a downgrade, a reissue and a round trip.
    let long = pair.flow(FlowId(0)).fct();
    let both = (CONTROL + DELAY) * 2 + SLOT * 300 + DELAY;
    assert!(long <= both + SLOT * (24 + 9 + 2), "{long} against {both}");
}

/// Two hosts that send to each other load each link with a full packet and a token per slot. That is 40 B more than a slot of the
/// paper's carries, so one token in 1500 / 40 = 37.5 is too many. A slot with room for a token fits.
#[test]
fn a_slot_that_leaves_tokens_no_room_wastes_some() {
    const PACKETS: u64 = 2000;
    for (slot_with_token, wasted) in [(false, 2 * PACKETS as usize * 40 / 1500), (true, 0)] {
        let mut pair = pair(&Config { slot_with_token, ..by_request() });
        pair.open_flow(flow(0, 0, 1, PACKETS));
        pair.open_flow(flow(1, 1, 0, PACKETS));
        pair.run_to_end(SECOND);
        let tokens = pair.sent().iter().filter(|sent| is_token(sent)).count();
        let extra = tokens - 2 * PACKETS as usize;
        assert!(extra.abs_diff(wasted) <= wasted / 4, "{extra} tokens wasted, {wasted} expected");
    }
}

/// A token is valid for 1.5 slots: of several that arrive while the NIC is busy, the one for the third slot has expired.
#[test]
fn tokens_expire() {
    let mut pair = pair(&Config { token_life_slots: 0.5, ..by_request() });
    pair.open_flow(flow(0, 0, 1, 60));
    pair.open_flow(flow(1, 0, 2, 60));
    pair.run_to_end(SECOND);
    let count = |kind: fn(&SentPacket<Header>) -> bool| pair.sent().iter().filter(|sent| kind(sent)).count();
    assert_eq!(count(is_data), 120, "no packet is sent twice: the missing ones were never sent");
    assert!(count(is_token) > 120, "{} tokens for 120 packets", count(is_token));
}

/// The tenth data packet is lost. When every packet has had a token and 9 slots have passed, it gets another.
#[test]
fn a_lost_packet_is_reissued_after_the_last_token() {
    let mut pair = pair(&by_request());
    let mut seen = 0;
    pair.on_packet(move |sent| {
        seen += u32::from(is_data(sent));
        if is_data(sent) && seen == 10 { Fate::Drop } else { Fate::Pass }
    });
    pair.open_flow(flow(0, 0, 1, 50));
    pair.run_to_end(SECOND);
    let last_token = (CONTROL + DELAY) + SLOT * 49;
    let expected = last_token + SLOT * 9 + CONTROL + DELAY + SLOT + DELAY;
    assert_eq!(pair.flow(FlowId(0)).fct(), expected);
    assert_eq!(pair.sent().iter().filter(|sent| is_data(sent)).count(), 51);
}

/// A lost request is repeated after three round trips, a lost final ACK is asked for again and answered from memory.
#[test]
fn lost_requests_and_acknowledgements_are_repeated() {
    for kind in [is_rts as fn(&SentPacket<Header>) -> bool, |sent| sent.packet.header == Header::Ack] {
        let mut pair = pair(&by_request());
        let mut seen = 0;
        pair.on_packet(move |sent| {
            seen += u32::from(kind(sent));
            if kind(sent) && seen == 1 { Fate::Drop } else { Fate::Pass }
        });
        pair.open_flow(flow(0, 0, 1, 20));
        pair.run_to_end(SECOND);
        let received = pair.events().iter().filter(|(_, _, event)| matches!(event, Event::Received { .. })).count();
        assert_eq!(received, 1);
        assert_eq!(pair.sent().iter().filter(|sent| is_rts(sent)).count(), 2);
    }
}

/// Three requests are lost, so they are sent after 1, 3 and 7 intervals of three round trips. Then tokens come, and the final acknowledgement is lost: the sender asks for it one interval
/// after the last token.
#[test]
fn requests_are_frequent_again_after_a_token() {
    let mut pair = pair(&by_request());
    let (mut requests, mut acks) = (0, 0);
    pair.on_packet(move |sent| {
        requests += u32::from(is_rts(sent));
        let is_ack = sent.packet.header == Header::Ack;
        acks += u32::from(is_ack);
        if is_rts(sent) && requests <= 3 || is_ack && acks == 1 { Fate::Drop } else { Fate::Pass }
    });
    pair.open_flow(flow(0, 0, 1, 20));
    pair.run_to_end(SECOND);
    let asked: Vec<Time> = pair.sent().iter().filter(|sent| is_rts(sent)).map(|sent| sent.at).collect();
    let interval = asked[1] - asked[0];
    assert_eq!([asked[2] - asked[1], asked[3] - asked[2]], [interval * 2, interval * 4]);
    let last_token = pair.sent().iter().rfind(|sent| is_token(sent)).expect("tokens").at + CONTROL + DELAY;
    assert_eq!((asked.len(), asked[4]), (5, last_token + interval));
}

/// The earlier deadline wins over the shorter flow at both ends (§3.3).
#[test]
fn the_earlier_deadline_wins_over_the_shorter_flow() {
    let mut pair = pair(&Config { policy: Policy::Edf, ..by_request() });
    let urgent = Flow { deadline: Some(Time::ZERO + Duration::from_us(400)), ..flow(0, 0, 2, 100) };
    pair.open_flow(urgent);
    pair.open_flow(flow(1, 1, 2, 40));
    pair.run_to_end(SECOND);
    let alone = (CONTROL + DELAY) * 2 + SLOT * 100 + DELAY;
    // The requests meet at the switch. The urgent one is second, so the other flow has had one token. The other request is repeated, which
    // costs the link a short time.
    let urgent = pair.flow(FlowId(0)).fct();
    assert!(urgent <= alone + SLOT + CONTROL * 4, "{urgent} against {alone} alone");
    assert!(pair.flow(FlowId(1)).fct() >= alone + SLOT * 30);
}

/// A flow of 100 packets and one of 40 in another host, where the longer one is a whole coflow and the shorter one a tenth of another: the
/// longer one goes first and takes what it takes alone, but for one token.
#[test]
fn the_smaller_coflow_wins_over_the_shorter_flow() {
    let mut pair = pair(&Config { policy: Policy::SmallestCoflow, free_tokens: 0, ..by_request() });
    let of = |number, packets: u64| Some(Coflow { number, size: Bytes::new(1460 * packets), start: Time::ZERO });
    pair.open_flow(Flow { coflow: of(7, 100), ..flow(0, 0, 2, 100) });
    pair.open_flow(Flow { coflow: of(3, 400), ..flow(1, 1, 2, 40) });
    pair.run_to_end(SECOND);
    let alone = (CONTROL + DELAY) * 2 + SLOT * 100 + DELAY;
    let small = pair.flow(FlowId(0)).fct();
    assert!(small <= alone + SLOT + CONTROL * 4, "{small} against {alone} alone");
    assert!(pair.flow(FlowId(1)).fct() >= alone + SLOT * 30);
}

/// Two tenants, one with many short flows: while both have flows, their packets alternate.
#[test]
fn tenants_share_the_receiver_evenly() {
    let mut pair = pair(&Config { policy: Policy::TenantFair, free_tokens: 0, data_priorities: false, ..by_request() });
    for id in 0..10 {
        pair.open_flow(Flow { tenant: 0, ..flow(id, 0, 2, 20) });
    }
    pair.open_flow(Flow { tenant: 1, ..flow(10, 1, 2, 200) });
    pair.run(Time::ZERO + (CONTROL + DELAY) * 2 + DELAY + SLOT * 200);
    let mut received = [0i64; 2];
    for (_, _, event) in pair.events() {
        if let Event::Delivered { flow, .. } = event {
            received[usize::from(flow.0 == 10)] += 1;
        }
    }
    assert!(received[0] > 80, "{received:?}");
    assert!((received[0] - received[1]).abs() <= 6, "{received:?}: a round trip of tokens apart at most");
}

/// The sender of a request never answers. It gets exactly as many tokens as the threshold says, and as many again after each pause.
#[test]
fn as_many_tokens_stay_unanswered_as_the_threshold_says() {
    for threshold in [1, 8, 9] {
        let config = Config { downgrade_threshold: threshold, downgrade_retry_tokens: threshold, ..by_request() };
        let mut pair = pair(&config);
        pair.on_packet(|sent| if is_data(sent) { Fate::Drop } else { Fate::Pass });
        pair.open_flow(flow(0, 0, 1, 100));
        pair.run(Time::ZERO + (CONTROL + DELAY) + SLOT * (u64::from(threshold) + 22));
        assert_eq!(pair.sent().iter().filter(|sent| is_token(sent)).count(), threshold as usize);
        pair.run(Time::ZERO + (CONTROL + DELAY) + SLOT * (2 * u64::from(threshold) + 2 * 22));
        assert_eq!(pair.sent().iter().filter(|sent| is_token(sent)).count(), 2 * threshold as usize);
    }
}

/// Free tokens hold the receiver back for eight slots, unless the request of a long flow ends the wait as in the authors' simulator.
#[test]
fn the_request_of_a_long_flow_ends_the_wait_for_free_tokens_if_asked_to() {
    use FreeTokenAccount::{Add, Set, SetByShort};
    // The long flow's request waits at the receiver's link for the request and the first packet of the short flow.
    let requested = Time::ZERO + CONTROL + SLOT + CONTROL + DELAY;
    let held = Time::ZERO + CONTROL + DELAY + SLOT * 8;
    for (account, expected) in [(Set, requested), (SetByShort, held), (Add, held)] {
        let mut pair = pair(&Config { free_token_account: account, ..by_request() });
        pair.open_flow(flow(0, 0, 2, 8));
        pair.open_flow(Flow { start: Time::ZERO + Duration::from_ns(100), ..flow(1, 1, 2, 100) });
        pair.run_to_end(SECOND);
        let first_token = pair.sent().iter().find(|sent| is_token(sent)).expect("a token").at;
        assert_eq!(first_token, expected, "{account:?}");
    }
}

#[test]
fn the_coflow_in_a_request_takes_no_room() {
    assert!(size_of::<flowloom_core::Packet<Header>>() <= 56);
}

fn any_config() -> impl Strategy<Value = Config> {
    (
        prop::sample::select(vec![FreeTokenRule::ShortFlows, FreeTokenRule::EveryFlow]),
        prop::sample::select(vec![FreeTokenAccount::Set, FreeTokenAccount::SetByShort, FreeTokenAccount::Add]),
        prop::sample::select(vec![Policy::Srpt, Policy::Edf, Policy::SmallestCoflow, Policy::TenantFair]),
        0_u32..12,
        1_u32..10,
    )
        .prop_map(|(free_token_rule, free_token_account, policy, free_tokens, retry)| Config {
            free_token_rule,
            free_token_account,
            policy,
            free_tokens,
            downgrade_retry_tokens: retry.min(8),
            ..Config::default()
        })
}

#[test]
fn the_wire_format_holds() {
    let fields = (0..4, any::<u64>(), any::<u64>(), any::<u32>(), any::<u8>());
    wire_format_holds(fields.prop_map(|(kind, a, b, c, d)| match kind {
        0 => Header::Rts { size: Bytes::new(a), deadline: Time::from_ps(b), coflow: c, tenant: (c >> 7) as u16 },
        1 => Header::Token { packet: c, serial: a as u32, remaining: b as u32, class: d },
        2 => Header::Data { packet: c, serial: b as u32, size: Bytes::new(a) },
        _ => Header::Ack,
    }));
}

#[test]
fn the_bytes_of_a_request_by_hand() {
    let request = Header::Rts { size: Bytes::new(0x0102_0304), deadline: Time::from_ps(5), coflow: 6, tenant: 0x0708 };
    let mut bytes = [0xFF; Header::MAX_BYTES];
    assert_eq!(request.encode(&mut bytes), 23);
    let [kind, size, deadline, coflow, tenant]: [&[u8]; 5] =
        [&[0], &[0, 0, 0, 0, 1, 2, 3, 4], &[0, 0, 0, 0, 0, 0, 0, 5], &[0, 0, 0, 6], &[7, 8]];
    assert_eq!(bytes[..], [kind, size, deadline, coflow, tenant].concat());
    let Layout::Choice(messages) = Header::LAYOUT else { panic!("{:?}", Header::LAYOUT) };
    assert_eq!(messages.iter().map(|message| message.name).collect::<Vec<_>>(), ["Rts", "Token", "Data", "Ack"]);
    let field = |name, bytes, unit| Field { name, layout: Layout::Number { bytes, unit } };
    let fields = [
        field("size", 8, WireUnit::Bytes),
        field("deadline", 8, WireUnit::Picoseconds),
        field("coflow", 4, WireUnit::Plain),
        field("tenant", 2, WireUnit::Plain),
    ];
    assert_eq!(messages[0].fields, fields);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or
    /// duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<PHost>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(
        headers in prop::collection::vec((0..4, 0_u32..3, (0_u32..12, any::<u32>()), (0_u64..9000, any::<u64>()), any::<u8>()), 1..60),
        wild in prop::collection::vec(any::<u8>(), 60),
    ) {
        let framing = Framing::new(NodeId(1), &WireProfile::IP_1500);
        let packets = headers.into_iter().zip(wild).map(|((kind, id, packets, sizes, class), wild)| {
            let pick = |bit: u8| wild >> bit & 7 == 0;
            let number = if pick(0) { packets.1 } else { packets.0 };
            let size = Bytes::new(if pick(3) { sizes.1 } else { sizes.0 });
            let header = match kind {
                0 => Header::Rts { size, deadline: Time::MAX, coflow: number, tenant: 0 },
                1 => Header::Token { packet: number, serial: packets.1, remaining: packets.1, class },
                2 => Header::Data { packet: number, serial: packets.1, size },
                _ => Header::Ack,
            };
            (SLOT, framing.control(FlowId(id), NodeId(0), header))
        });
        assail::<PHost>(&Config::default(), WireProfile::IP_1500, &[flow(0, 0, 1, 10)], packets)?;
    }
}
