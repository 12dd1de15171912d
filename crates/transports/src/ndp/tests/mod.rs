//! NDP between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, NodeId, Time, WireProfile};
use flowloom_fabric::Outage;
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Config, Header, Ndp, Part, PullOrder};
use crate::trial::{self, assail, attacks, default_text, refused, trials, wire_format_holds};
use crate::{Checked, Conditions};

mod port;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet: 1500 B at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);
/// A control packet: 40 B at 10 Gb/s.
const CONTROL: Duration = Duration::from_ns(32);
/// Time between pulls.
const SLOT: Duration = Duration::from_ns(1232);
const DELAY: Duration = Duration::from_us(1);
const PAYLOAD: u64 = 1460;

fn pair(config: &Config, hosts: usize) -> Pair<Ndp> {
    Pair::new(config, PairSetup { hosts, ..PairSetup::default() })
}

fn flow(id: u32, src: u32, dst: u32, packets: u64) -> Flow {
    trial::flow(id, src, dst, PAYLOAD * packets, Time::ZERO, None)
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}
fn is_ack(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Ack { .. })
}
fn is_nack(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Nack { .. })
}
fn is_pull(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Pull { .. })
}

fn count(pair: &Pair<Ndp>, kind: fn(&SentPacket<Header>) -> bool) -> usize {
    pair.sent().iter().filter(|sent| kind(sent)).count()
}

/// When each data packet of a flow left, again or for the first time.
fn left(pair: &Pair<Ndp>, flow: FlowId) -> Vec<Time> {
    pair.sent().iter().filter(|sent| is_data(sent) && sent.packet.flow == flow).map(|sent| sent.at).collect()
}

fn timeouts(pair: &Pair<Ndp>) -> usize {
    pair.events().iter().filter(|(_, _, event)| matches!(event, Event::TimedOut { .. })).count()
}

/// The first window leaves at line rate. Pull k is sent k slots after the first arrival and lets packet 30 + k leave, which is late only
/// from the packet on at which 30 packets' times less a round trip have been used up: a slot is 32 ns longer than a packet.
/// An acknowledgement may be in the pull's way at the receiver's link.
#[test]
fn unloaded_times_are_the_closed_form() {
    for size in [0, 1, 1459, 1460, 1461, 29 * 1460, 30 * 1460 + 1, 100_000, 1_000_000, 100_000_000] {
        let mut pair = Pair::<Ndp>::new(&Config::default(), PairSetup { log: false, ..PairSetup::default() });
        let id = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let path = pair.network().path(NodeId(0), NodeId(1));
        let network = pair.network();
        let line_rate = network.flow_time(&path, Bytes::new(size), &WireProfile::IP_1500);
        let packets = WireProfile::IP_1500.packets(Bytes::new(size));
        let last = WireProfile::IP_1500.payload_of(Bytes::new(size), packets - 1);
        let round_trip = PACKET + DELAY + CONTROL + DELAY;
        let by_pulls = packets.checked_sub(31).map_or(Duration::ZERO, |pull| {
            round_trip + SLOT * pull + network.packet_time(&path, WireProfile::IP_1500.data_size(last))
        });
        let expected = line_rate.max(by_pulls);
        let fct = pair.flow(id).fct();
        let slack = if by_pulls > line_rate { CONTROL } else { Duration::ZERO };
        assert!((expected..=expected + slack).contains(&fct), "{size} B: {fct}, expected {expected}");
        let answered = pair.flow(id).acknowledged.expect("done") - pair.flow(id).received.expect("done");
        assert!((CONTROL + DELAY..=CONTROL * 2 + DELAY).contains(&answered), "{size} B: {answered}");
        assert!(pair.dropped().is_empty() && timeouts(&pair) == 0);
    }
}

/// One answer for each packet. The first pull is in an answer, and the last packet needs none: the pulls that wait at the end are forgotten.
#[test]
fn a_flow_alone_has_no_nack_and_sends_nothing_twice() {
    for (pull_in_answer, in_answers) in [(true, 1), (false, 0)] {
        let mut pair = pair(&Config { pull_in_answer, ..Config::default() }, 2);
        let id = pair.open(0, 1, 100 * PAYLOAD);
        pair.run_to_end(SECOND);
        assert_eq!((count(&pair, is_data), count(&pair, is_ack), count(&pair, is_nack)), (100, 100, 0));
        let released = ((left(&pair, id)[99] + PACKET + DELAY) - (Time::ZERO + PACKET + DELAY)).as_ps() / SLOT.as_ps() + 1;
        assert_eq!(count(&pair, is_pull) as u64, released - in_answers, "one per slot until the last packet");
        assert!(pair.sent().iter().all(|sent| !sent.packet.retransmission));
    }
}

/// Ten packets arrive at the switch at the same time for one host: one passes, eight wait, one is trimmed. Its header overtakes those that
/// wait, and its packet comes again when the pull for it has come.
#[test]
fn a_trimmed_packet_is_refused_at_once_and_comes_again_with_a_pull() {
    let mut pair = pair(&Config::default(), 11);
    for src in 0..10 {
        pair.open(src, 10, PAYLOAD);
    }
    pair.run_to_end(SECOND);
    assert_eq!((count(&pair, is_data), count(&pair, is_ack), count(&pair, is_nack)), (11, 10, 1));
    let nack = pair.sent().iter().find(|sent| is_nack(sent)).expect("a NACK");
    assert_eq!(nack.at, Time::ZERO + PACKET + CONTROL + DELAY);
    // The flow of the first packet to arrive is over with it, so the NACK carries the first pull.
    let again = pair.sent().iter().find(|sent| sent.packet.retransmission).expect("a retransmission");
    assert_eq!(again.at, nack.at + CONTROL + DELAY);
    let last = pair.flow(again.packet.flow).received.expect("done");
    // It comes behind the eight that waited.
    assert_eq!(last, Time::ZERO + PACKET * 10 + CONTROL + DELAY);
    assert!(timeouts(&pair) == 0 && pair.dropped().is_empty());
}

/// Two senders to one receiver, whose pulls take turns or prefer the flow with fewer packets.
#[test]
fn pulls_take_turns_or_prefer_the_shortest() {
    let times = |pull_order| {
        let mut pair = pair(&Config { pull_order, ..Config::default() }, 3);
        pair.open_flow(flow(0, 0, 2, 600));
        pair.open_flow(flow(1, 1, 2, 300));
        pair.run_to_end(SECOND);
        assert_eq!(timeouts(&pair), 0);
        [0, 1].map(|id| pair.flow(FlowId(id)).fct())
    };
    let (fair, srpt) = (times(PullOrder::Fair), times(PullOrder::Srpt));
    // Taking turns, 300 packets take the time of 600. Both orders keep the link busy with 900 packets in all.
    let close = |fct: Duration, slots: u64| fct >= SLOT * (slots - 40) && fct <= SLOT * (slots + 40);
    assert!(close(fair[1], 600) && close(fair[0], 900), "{fair:?}");
    assert!(close(srpt[1], 330) && close(srpt[0], 900), "{srpt:?}");
}

/// The first window is lost as a whole, so the receiver knows nothing of the flow. It all comes again after the timeout.
#[test]
fn a_first_window_that_is_lost_comes_again_after_the_timeout() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(|sent| if sent.at < Time::ZERO + PACKET * 30 { Fate::Drop } else { Fate::Pass });
    let id = pair.open(0, 1, 50 * PAYLOAD);
    pair.run_to_end(SECOND);
    let times = left(&pair, id);
    let rto = Duration::from_ms(5);
    assert_eq!((times.len(), times[30], times[59]), (80, Time::ZERO + rto, Time::ZERO + rto + PACKET * 29));
    assert_eq!(pair.flow(id).fct(), rto + PACKET * 50 + DELAY);
}

/// Pulls carry a count, so the next one replaces a lost one. After the last one, the receiver repeats it.
#[test]
fn lost_pulls_are_replaced_or_repeated() {
    let (rto, packets) = (Duration::from_ms(5), 100);
    let run = |lost: fn(u32) -> bool| {
        let mut pair = pair(&Config { pull_in_answer: false, ..Config::default() }, 2);
        let mut numbers = 0;
        pair.on_packet(move |sent| {
            numbers += u32::from(is_pull(sent));
            if is_pull(sent) && lost(numbers) { Fate::Drop } else { Fate::Pass }
        });
        let id = pair.open(0, 1, packets * PAYLOAD);
        pair.run_to_end(SECOND);
        assert!(timeouts(&pair) == 0 && count(&pair, is_data) == 100);
        pair.flow(id).fct()
    };
    let alone = run(|_| false);
    assert_eq!(run(|pull| pull % 3 == 1), alone, "there are always packets to send while the next pull comes");
    // The first window of acknowledgements still names earlier pulls, so those that come after it are lost in every form.
    let all = run(|pull| pull <= 30);
    assert!(all >= alone && all < alone + rto + PACKET * 30, "{all}, alone {alone}");
}

/// Every NACK is lost, so only the timeout tells that packets did not arrive.
#[test]
fn without_nacks_the_timeout_remains() {
    let mut pair = pair(&Config::default(), 21);
    pair.on_packet(|sent| if is_nack(sent) { Fate::Drop } else { Fate::Pass });
    for src in 0..20 {
        pair.open(src, 20, 3 * PAYLOAD);
    }
    pair.run_to_end(SECOND);
    assert!(timeouts(&pair) > 0);
}

/// Three packets arrive together, and one is trimmed. Its copy comes before its pull and completes the flow, and the ACK is lost. So the
/// receiver has forgotten the flow's pulls, and the sender, whose only packet was refused, would wait for one without end. It sends the
/// packet again once it has heard nothing for the longest timeout.
#[test]
fn a_sender_whose_pull_never_comes_sends_after_the_longest_timeout() {
    let mut pair = pair(&Config { data_queue: 1, pull_in_answer: false, ..Config::default() }, 4);
    let copied = Time::ZERO + Duration::from_us(1000);
    pair.on_packet(move |sent| match sent.packet.header {
        Header::Data { .. } if sent.at == Time::ZERO => {
            Fate::Duplicate(Duration::from_us(100 * u64::from(sent.packet.flow.0) + 100))
        }
        Header::Ack { .. } if sent.at < copied => Fate::Drop,
        Header::Pull { .. } => Fate::Drop,
        _ => Fate::Pass,
    });
    for src in 0..3 {
        pair.open(src, 3, PAYLOAD);
    }
    pair.run_to_end(SECOND);
    let nack = pair.sent().iter().find(|sent| is_nack(sent)).expect("a NACK");
    let (refused, heard) = (nack.packet.flow, nack.at + CONTROL + DELAY);
    assert_eq!(left(&pair, refused), [Time::ZERO, heard + Duration::from_ms(5 * 64)]);
    // The other two, whose ACKs were lost too, were not refused: they time out.
    assert_eq!((count(&pair, is_data), count(&pair, is_nack), timeouts(&pair)), (6, 1, 3));
}

/// Two hundred senders of 5 packets each: the queues at the receiver's port hold 8 packets and 300 headers, so most headers return. No
/// timer expires, and each packet that left was acknowledged, refused or returned.
#[test]
fn headers_that_return_replace_timeouts() {
    let run = |return_to_sender| {
        let mut pair = pair(&Config { return_to_sender, ..Config::default() }, 201);
        for src in 0..200 {
            pair.open(src, 200, 5 * PAYLOAD);
        }
        let end = pair.run_to_end(SECOND);
        (timeouts(&pair), pair.dropped().len(), end)
    };
    let (timeouts, dropped, end) = run(true);
    assert_eq!((timeouts, dropped), (0, 0));
    let least = PACKET * 1000;
    assert!(end >= Time::ZERO + least && end < Time::ZERO + least.scale(1.1), "{end}, at least {least}");
    let (timeouts, dropped, _) = run(false);
    assert!(timeouts > 0 && dropped > 300, "{timeouts} timeouts, {dropped} dropped");
}

/// A receiver and a sender go down in the middle of a flow and come back without their state. Their flows are aborted, and another flow to
/// the same receiver completes. The other ends go on for a while and then fall silent.
#[test]
fn hosts_that_die_do_not_disturb_others() {
    let us = |us: u64| Time::ZERO + Duration::from_us(us);
    let outages = [(2, 1000), (0, 1500)].map(|(node, from)| Outage { node: NodeId(node), from: us(from), to: us(from + 2000) });
    let mut pair =
        Pair::<Ndp>::new(&Config::default(), PairSetup { hosts: 4, outages: outages.to_vec(), ..PairSetup::default() });
    pair.open_flow(flow(0, 1, 2, 2000));
    pair.open_flow(flow(1, 0, 3, 2000));
    pair.open_flow(Flow { start: us(5000), ..flow(2, 1, 2, 300) });
    pair.run_to_end(Time::ZERO + Duration::from_ms(20_000));
    assert!([0, 1].iter().all(|id| pair.flow(FlowId(*id)).aborted.is_some()));
    assert!(pair.flow(FlowId(2)).fct() < PACKET * 300 + Duration::from_us(100), "{}", pair.flow(FlowId(2)).fct());
}

#[test]
fn parameters_that_cannot_work_are_refused() {
    default_text::<Config>();
    assert_eq!(refused::<Config>("header_memory = 0.0"), Err("header_memory".into()));
    assert_eq!(refused::<Config>("pull_rate = nan"), Err("pull_rate".into()));
    let pair = pair(&Config::default(), 2);
    let conditions = Conditions::new(pair.network(), WireProfile::IP_1500, Bytes::new(1500));
    let small = Config { header_memory: 0.01, data_queue: 2, ..Config::default() };
    let message = small.check_under(&conditions).unwrap_err();
    assert!(
        message.starts_with("header_memory: found 0.01, which gives 30B; a control packet of ip_1500 has 40B"),
        "{message}"
    );
    let slow = Config { rto: Duration::from_ms(100_000_000), ..Config::default() };
    assert!(slow.check_under(&conditions).unwrap_err().starts_with("rto: "));
}

fn any_config() -> impl Strategy<Value = Config> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (1_u32..40, 1_u32..9, 0.1..2.0, 1_u32..12, flags, 0.1..1.5, 100_u64..10_000).prop_map(
        |(
            initial_window,
            data_queue,
            header_memory,
            headers_per_data,
            (return_to_sender, srpt, pull_in_answer, avoid_paths),
            pull_rate,
            rto,
        )| {
            Config {
                initial_window,
                data_queue,
                header_memory,
                headers_per_data,
                return_to_sender,
                pull_order: if srpt { PullOrder::Srpt } else { PullOrder::Fair },
                pull_rate,
                pull_in_answer,
                avoid_paths,
                rto: Duration::from_us(rto),
            }
        },
    )
}

fn headers() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![0_u32..12, any::<u32>()];
    let part = prop::sample::select(vec![Part::Whole, Part::Cut, Part::Returned]);
    prop_oneof![
        (part, any::<Option<u16>>(), number(), number()).prop_map(|(part, path, number, packets)| Header::Data {
            part,
            path,
            number,
            packets
        }),
        (number(), number(), number(), number()).prop_map(|(number, cumulative, pulls, queued)| Header::Ack {
            number,
            cumulative,
            pulls,
            queued
        }),
        (number(), number(), number()).prop_map(|(number, pulls, queued)| Header::Nack { number, pulls, queued }),
        number().prop_map(|pulls| Header::Pull { pulls }),
    ]
}

#[test]
fn the_wire_format_holds() {
    wire_format_holds(headers());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flow completes, and no byte is delivered twice (which the kit asserts), whichever packets are lost, late or duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Ndp>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(packets in attacks(WireProfile::IP_1500, 9000, headers())) {
        let sent = assail::<Ndp>(&Config::default(), WireProfile::IP_1500, &[flow(0, 0, 1, 10)], packets)?;
        prop_assert!(sent.all < 100 * 30, "no header makes a host send without end: {}", sent.all);
    }
}
