//! HPCC between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, Event, FlowId, Memory, NodeId, Packet, Rate, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup};
use proptest::prelude::*;

use super::header::tests::headers;
use super::{Config, Header, Hpcc};
use crate::roce::Kind;
use crate::toolkit::Framing;
use crate::trial::{assail, flow, lose, trials};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);
/// One way over the network, which forwards at the first bit.
const DELAY: Duration = Duration::from_us(10);
/// An acknowledgement of 40 B and 42 B of records, from its start to its arrival.
const ACK: Duration = Duration::from_ps(10_065_600);
/// A round trip of a full packet and its acknowledgement: 21.2656 us, in which 26,582 B leave a host.
const RTT: Duration = Duration::from_ps(1_200_000 + 10_000_000 + 10_065_600);
/// What a full packet carries besides headers of 40 B and records of 42 B.
const PAYLOAD: u64 = 1418;
/// The least retransmission timeout, which is more than ten round trips.
const RTO: Duration = Duration::from_ms(1);

fn setup(hosts: usize) -> PairSetup {
    let memory = Memory::PerPort(Bytes::new(4_000_000));
    PairSetup { hosts, delay: DELAY, memory, ..PairSetup::default() }
}

fn pair(config: &Config, hosts: usize) -> Pair<Hpcc> {
    Pair::new(config, setup(hosts))
}

fn after(span: Duration) -> Time {
    Time::ZERO + span
}

/// The time of a flow's packets at line rate.
fn transmission(size: u64) -> Duration {
    let wire = Config::default().wire(&WireProfile::IP_1500);
    Rate::from_gbps(10).transmit_time(wire.flow_wire_bytes(Bytes::new(size)))
}

fn number(packet: &Packet<Header>) -> Option<u32> {
    match packet.header.kind {
        Kind::Data { number, .. } => Some(number),
        _ => None,
    }
}

/// The data packets that were sent, with the time at which they left.
fn data(pair: &Pair<Hpcc>) -> Vec<(Time, u32)> {
    pair.sent().iter().filter_map(|sent| number(&sent.packet).map(|number| (sent.at, number))).collect()
}

fn is_nack(packet: &Packet<Header>) -> bool {
    matches!(packet.header.kind, Kind::Nack { .. })
}

fn nacks(pair: &Pair<Hpcc>) -> Vec<Time> {
    pair.sent().iter().filter(|sent| is_nack(&sent.packet)).map(|sent| sent.at).collect()
}

fn timeouts(pair: &Pair<Hpcc>) -> Vec<Time> {
    let is_timeout = |event: &Event| matches!(event, Event::TimedOut { .. });
    pair.events().iter().filter(|(_, _, event)| is_timeout(event)).map(|(at, ..)| *at).collect()
}

/// The first report arrives after a round trip, and only the second one, 1.2 us later, changes the rate. By then 19 packets have left.
#[test]
fn a_flow_of_up_to_nineteen_packets_takes_its_transmission_and_one_way() {
    for size in [0, 1, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 10 * PAYLOAD, 18 * PAYLOAD + 1, 19 * PAYLOAD] {
        let mut pair = pair(&Config::default(), 2);
        let flow = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        assert_eq!(pair.flow(flow).fct(), transmission(size) + DELAY, "{size} B");
        let acknowledged = pair.flow(flow).acknowledged.expect("acknowledged");
        assert_eq!(acknowledged, after(transmission(size) + DELAY + ACK), "{size} B");
        assert_eq!((timeouts(&pair), nacks(&pair)), (vec![], vec![]));
    }
}

/// At η = 1, a flow that is alone never slows down: the increase of 2 kB is more than what rounding takes.
#[test]
fn with_a_target_of_one_a_flow_takes_its_transmission_and_one_way_at_every_size() {
    let config = Config { target: 1.0, w_ai: Bytes::new(2000), ..Config::default() };
    for size in [0, 1, 19 * PAYLOAD + 1, 100 * PAYLOAD, 1_000_000, 20_000_000] {
        let mut pair = pair(&config, 2);
        let flow = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        assert_eq!(pair.flow(flow).fct(), transmission(size) + DELAY, "{size} B");
    }
}

/// W = W/U · η + W_AI has the fixed point W/T = η · 10 Gb/s + W_AI/T, for U is the flow's own rate: 0.95 and 80/26,582 of the line.
#[test]
fn alone_a_flow_settles_at_the_target_and_its_increase() {
    for max_stage in [0, 5] {
        let mut pair = pair(&Config { max_stage, ..Config::default() }, 2);
        pair.open(0, 1, 5_000_000);
        pair.run_to_end(SECOND);
        let sent = data(&pair);
        let (first, last) = (sent[1000], sent[3000]);
        let rate = 2000.0 * PACKET.as_us_f64() / (last.0 - first.0).as_us_f64();
        assert!((rate - (0.95 + 80.0 / 26_582.0)).abs() < 0.001, "maxStage {max_stage}: {rate} of the line");
    }
}

/// Packet 5 is lost. Packet 6 arrives at 18.4 us, and the receiver reports the gap at once and only once. The report is at the sender 10.0656 us
/// later. From then on packets leave in order from 5 on, and nothing else is sent twice.
#[test]
fn a_lost_packet_is_reported_once_and_the_sender_goes_back() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(1, |packet| number(packet) == Some(5)));
    let flow = pair.open(0, 1, 60 * PAYLOAD);
    pair.run_to_end(SECOND);
    assert_eq!((nacks(&pair), timeouts(&pair)), (vec![after(Duration::from_ns(18_400))], vec![]));
    let sent = data(&pair);
    let back = (1..sent.len()).find(|index| sent[*index].1 <= sent[*index - 1].1).expect("the sender goes back");
    let numbers: Vec<u32> = sent.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers[..back], (0..back as u32).collect::<Vec<_>>()[..]);
    assert_eq!(numbers[back..], (5..60).collect::<Vec<_>>()[..]);
    let reported = after(Duration::from_ns(18_400) + ACK);
    assert!(sent[back - 1].0 < reported && (reported..reported + PACKET * 2).contains(&sent[back].0), "{:?}", sent[back]);
    let again = pair.sent().iter().filter(|sent| sent.packet.retransmission).count();
    assert_eq!(again, back - 5, "{flow:?}");
}

/// With an interval of 6 us, the receiver repeats a report that was lost when the next packet comes after that.
#[test]
fn a_gap_that_stays_is_reported_again_after_the_interval() {
    let mut pair = pair(&Config { nack_interval: Duration::from_us(6), ..Config::default() }, 2);
    let mut losses = (lose(1, |packet| number(packet) == Some(5)), lose(1, is_nack));
    pair.on_packet(move |sent| if number(&sent.packet).is_some() { losses.0(sent) } else { losses.1(sent) });
    pair.open(0, 1, 60 * PAYLOAD);
    pair.run_to_end(SECOND);
    let nacks = nacks(&pair);
    assert_eq!(nacks[..2], [18_400, 24_400].map(|ns| after(Duration::from_ns(ns))));
    assert_eq!(timeouts(&pair), []);
}

/// The last of three packets is lost, and nobody notices. The timer was set when the second acknowledgement came.
#[test]
fn the_timer_finds_what_no_other_packet_shows() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(1, |packet| number(packet) == Some(2)));
    let flow = pair.open(0, 1, 3 * PAYLOAD);
    pair.run_to_end(SECOND);
    let resent = RTT + PACKET + RTO;
    assert_eq!(timeouts(&pair), [after(resent)]);
    assert_eq!(pair.flow(flow).fct(), resent + PACKET + DELAY);
}

/// The acknowledgement of the last packet is lost. The receiver answers the repeated packet, although the flow has finished there.
#[test]
fn a_finished_flow_is_acknowledged_again() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(1, |packet: &Packet<Header>| matches!(packet.header.kind, Kind::Ack { cumulative: 3 })));
    let flow = pair.open(0, 1, 3 * PAYLOAD);
    pair.run_to_end(SECOND);
    assert_eq!(pair.flow(flow).fct(), PACKET * 3 + DELAY);
    assert_eq!(pair.flow(flow).acknowledged, Some(after(RTT + PACKET + RTO + RTT)));
}

/// The first packet is lost eight times: after 1, 3, 7, 15, 31, 63, 127 and 191 ms it is sent again.
#[test]
fn timeouts_double_up_to_64_times() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(8, |packet| number(packet).is_some()));
    pair.open(0, 1, 1);
    pair.run_to_end(SECOND);
    let left: Vec<Time> = data(&pair).into_iter().map(|(at, _)| at).collect();
    assert_eq!(left, [0, 1, 3, 7, 15, 31, 63, 127, 191].map(|ms| after(Duration::from_ms(ms))));
}

/// Everything is lost for 40 ms, so packets are sent again after 1, 3, 7, 15, 31 and 63 ms. Then the last one is lost: it is sent again 1 ms after the second acknowledgement.
#[test]
fn timeouts_are_short_again_after_an_acknowledgement() {
    let mut pair = pair(&Config::default(), 2);
    let (until, mut is_first) = (after(Duration::from_ms(40)), true);
    pair.on_packet(move |sent| {
        let is_last = sent.at > until && number(&sent.packet) == Some(2) && std::mem::take(&mut is_first);
        if sent.at < until || is_last { Fate::Drop } else { Fate::Pass }
    });
    let flow = pair.open(0, 1, 3 * PAYLOAD);
    pair.run_to_end(SECOND);
    assert_eq!(pair.flow(flow).fct(), Duration::from_ms(63) + RTT + PACKET + RTO + PACKET + DELAY);
}

/// Two flows of one host take turns, and a flow whose acknowledgements would have to wait for data sends them first.
#[test]
fn flows_take_turns_and_acknowledgements_go_first() {
    let mut pair = pair(&Config::default(), 3);
    for dst in [1, 2] {
        pair.open(0, dst, 8 * PAYLOAD);
    }
    pair.open(1, 0, PAYLOAD);
    pair.run_to_end(SECOND);
    let of_host_0: Vec<(Time, u32)> =
        pair.sent().iter().filter(|sent| sent.packet.src == NodeId(0)).map(|sent| (sent.at, sent.packet.flow.0)).collect();
    assert_eq!(of_host_0[..10].iter().map(|(_, flow)| *flow).collect::<Vec<_>>(), [0, 1].repeat(5));
    // The packet of host 1 arrives at 11.2 us, when the ninth data packet has 0.8 us to go.
    assert_eq!(of_host_0[10], (after(Duration::from_us(12)), 2));
}

/// Data is in the lower class, and so are acknowledgements if they have no class of their own.
#[test]
fn acknowledgements_have_a_class_of_their_own_if_configured() {
    for (ack_first, ack_class) in [(true, 0), (false, 1)] {
        let mut pair = pair(&Config { ack_first, ..Config::default() }, 2);
        pair.open(0, 1, 2 * PAYLOAD);
        pair.run_to_end(SECOND);
        let classes: Vec<u8> = pair.sent().iter().map(|sent| sent.packet.class).collect();
        assert_eq!(classes, [1, 1, ack_class, ack_class]);
    }
}

/// One packet in a hundred is lost. Going back costs a window each time, but no flow stops.
#[test]
fn flows_complete_with_one_packet_in_a_hundred_lost() {
    let mut pair = pair(&Config::default(), 3);
    let faults = flowloom_fabric::pair::Faults { loss: 0.01, ..Default::default() };
    pair.on_packet(faults.hook(7));
    let flows: Vec<FlowId> = (0..2).map(|host| pair.open(host, 2, 2_000_000)).collect();
    pair.run_to_end(SECOND);
    // Without losses, they take 3.4 ms.
    assert!(flows.iter().all(|flow| pair.flow(*flow).fct() < Duration::from_ms(40)), "{}", pair.now());
}

fn any_config() -> impl Strategy<Value = Config> {
    let windows = (0.5..1.0, 0_u32..7, 0_u64..3000, any::<bool>(), 0.01..1.0);
    let rtt = prop::option::of((1_u64..100).prop_map(Duration::from_us));
    (windows, rtt, 1_u8..6, any::<bool>(), 1_u64..1000, 1_u64..2000).prop_map(
        |((target, max_stage, w_ai, fast_reaction, min_rate), base_rtt, records, ack_first, nack, rto)| Config {
            target,
            max_stage,
            w_ai: Bytes::new(w_ai),
            fast_reaction,
            base_rtt,
            min_rate,
            records,
            ack_first,
            nack_interval: Duration::from_us(nack),
            rto_min: Duration::from_us(rto),
            ..Config::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(headers in prop::collection::vec((headers(), 0_u32..3, 0_u32..12, 0_u64..200), 1..60)) {
        let framing = Framing::new(NodeId(1), &WireProfile::IP_1500);
        let packet = |(mut header, id, near, pause_us): (Header, u32, u32, u64)| {
            // Most numbers that are drawn at random are far beyond the flow's.
            if let Kind::Ack { cumulative } | Kind::Nack { cumulative, .. } = &mut header.kind && near < 10 {
                *cumulative = near;
            }
            (Duration::from_us(pause_us), framing.control(FlowId(id), NodeId(0), header))
        };
        assail::<Hpcc>(&Config::default(), WireProfile::IP_1500, &[flow(0, 0, 1, 10 * PAYLOAD, Time::ZERO, None)], headers.into_iter().map(packet))?;
    }

    /// Every flow completes, and no byte is delivered twice (which the kit asserts), whichever packets are lost, late or duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Hpcc>(&config);
    }
}
