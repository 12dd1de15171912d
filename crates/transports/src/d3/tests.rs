//! D3 between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, NodeId, Rate, Time};
use proptest::prelude::*;

use super::{Answer, Config, D3, Header, Request};
use crate::toolkit::{Fate, Pair, PairSetup, SentPacket};
use crate::trial::trials;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const PACKET: Duration = Duration::from_ns(1200);
/// A control packet's time from its start to its arrival: 32 ns and the delay of 1 us.
const CONTROL: Duration = Duration::from_ns(1032);
/// A request and its answer: the time before the first data packet.
const ASKING: Duration = Duration::from_ns(2 * 1032);
/// 10 Gb/s.
const LINK: u64 = 10_000_000_000;

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn pair(config: &Config, setup: PairSetup) -> Pair<D3> {
    Pair::new(config, setup)
}

fn hosts(hosts: usize) -> PairSetup {
    PairSetup { hosts, ..PairSetup::default() }
}

fn answer_of(sent: &SentPacket<Header>) -> Option<Answer> {
    match sent.packet.header {
        Header::Ack { answer, .. } => answer,
        _ => None,
    }
}

fn request_of(sent: &SentPacket<Header>) -> Option<Request> {
    match sent.packet.header {
        Header::Data { request, .. } => request,
        Header::Request { request, .. } => Some(request),
        Header::Ack { .. } => None,
    }
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}

fn flow(id: u32, src: u32, dst: u32, size: u64, start: Time, deadline: Option<Time>) -> Flow {
    let (src, dst, size) = (NodeId(src), NodeId(dst), Bytes::new(size));
    Flow { id: FlowId(id), src, dst, size, start, deadline, tenant: 0, coflow: None }
}

/// The answers to a flow's requests: when they left, and what the host's and the switch's ports allocated.
fn answers(pair: &Pair<D3>, id: FlowId) -> Vec<(Time, [u64; 2])> {
    let of_flow = pair.sent().iter().filter(|sent| sent.packet.flow == id);
    of_flow.filter_map(|sent| answer_of(sent).map(|answer| (sent.at, [0, 1].map(|hop| answer.path.rates[hop].as_bps())))).collect()
}

/// A flow that is alone asks for a rate, gets the link's whole rate, and sends its packets back to back.
#[test]
fn an_unloaded_flow_takes_a_round_trip_of_control_packets_and_its_transmission_time() {
    for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000, 1_000_000, 30_000_000] {
        let setup = PairSetup { log: false, ..PairSetup::default() };
        let mut pair = pair(&Config::default(), setup.clone());
        let flow = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let packets = size.div_ceil(1460).max(1);
        let wire_bytes = size + 40 * packets;
        // 10 Gb/s is 800 ps per byte.
        assert_eq!(pair.flow(flow).fct(), ASKING + Duration::from_ps(wire_bytes * 800) + setup.delay, "{size} B");
        let path = pair.network().path(NodeId(0), NodeId(1));
        assert_eq!(pair.flow(flow).fct(), ASKING + pair.network().flow_time(&path, Bytes::new(size), &setup.wire));
        assert!(pair.dropped().is_empty());
    }
}

#[test]
fn a_gigabyte_takes_a_round_trip_more_than_its_transmission_time() {
    let mut pair = pair(&Config::default(), PairSetup { log: false, ..PairSetup::default() });
    let flow = pair.open(0, 1, 1_000_000_000);
    pair.run_to_end(SECOND);
    let wire_bytes: u64 = 1_000_000_000 + 40 * 684_932;
    assert_eq!(pair.flow(flow).fct(), ASKING + Duration::from_ps(wire_bytes * 800) + Duration::from_us(1));
}

/// By hand: a packet takes 1.2 us to leave, its answer is back 1 + 0.032 + 1 us later, and the next packet leaves at a multiple of 1.2 us.
#[test]
fn the_first_packet_of_each_round_trip_carries_a_request() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.open(0, 1, 1460 * 30);
    pair.run_to_end(SECOND);
    let begin = Time::ZERO + ASKING;
    let asked: Vec<u64> = pair.sent().iter().filter(|sent| is_data(sent) && request_of(sent).is_some()).map(packet_number).collect();
    // The last packet gives the rate back. Packets 28 and 29 leave before an answer to a request of packet 27 could come.
    assert_eq!(asked, [0, 3, 6, 9, 12, 15, 18, 21, 24, 29]);
    let last = pair.sent().iter().filter(|sent| is_data(sent)).last().unwrap();
    assert_eq!(last.at, begin + PACKET * 29);
    assert!(request_of(last).unwrap().end);
}

/// A single flow with a deadline that needs d < C gets d + (C - d): the whole link.
#[test]
fn a_single_flow_gets_more_than_it_desires() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    let id = FlowId(0);
    pair.open_flow(flow(0, 0, 1, 1_000_000, Time::ZERO, Some(at_us(5000))));
    pair.run_to_end(SECOND);
    let desired = pair.sent().iter().filter_map(request_of).map(|request| request.desired.as_bps());
    assert!(desired.clone().all(|desired| desired < LINK / 5));
    // 1,000,000 B and 685 headers in 5 ms, to begin with.
    assert_eq!(desired.clone().next(), Some((1_027_400_u64 * 8 * 1000).div_ceil(5)));
    let answers = answers(&pair, id);
    assert!(answers.len() > 100);
    assert!(answers.iter().all(|(_, rates)| *rates == [LINK, LINK]), "{answers:?}");
}

/// Two flows from two hosts to one: d1 + (C - d1 - d2)/2 and d2 + (C - d1 - d2)/2, with the latest d1 and d2 that the switch knows.
#[test]
fn two_flows_get_what_they_desire_and_half_of_the_rest() {
    let mut pair = pair(&Config::default(), hosts(3));
    let flows = [flow(0, 0, 2, 2_000_000, Time::ZERO, Some(at_us(8000))), flow(1, 1, 2, 3_000_000, Time::ZERO, Some(at_us(6000)))];
    flows.map(|flow| pair.open_flow(flow));
    pair.run_to_end(SECOND);
    let both = pair.flow(FlowId(0)).received.unwrap().min(pair.flow(FlowId(1)).received.unwrap());
    let mut desired = [0, 0];
    let mut compared = 0;
    for (asked, rate) in asked_and_answered(&pair, 1) {
        let own = asked.packet.flow.0 as usize;
        desired[own] = request_of(&asked).unwrap().desired.as_bps();
        if asked.at > at_us(20) && asked.at < both - 10 {
            assert_eq!(rate, desired[own] + (LINK - desired[0] - desired[1]) / 2);
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
    assert!(flows.iter().all(|flow| pair.flow(flow.id).received < flow.deadline));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every flow completes, and no byte is delivered twice, whatever is lost, late or repeated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(
        margin_rtts in 0.0..3.0, base_packets in 0.0..2.0, limit_to_left: bool, adapt_rtts in 0.1..10.0,
        gains in (0.0..1.0, 0.0..2.0), capacity_max in 1.0..4.0, timeout_rtts in 1.0..5.0, hold in 1.1..4.0, trial in trials(),
    ) {
        let config = Config {
            quenching: false, margin_rtts, base_packets, limit_to_left, adapt_rtts, spare_gain: gains.0, queue_gain: gains.1,
            capacity_max, timeout_rtts, hold_rtts: timeout_rtts * hold, ..Config::default()
        };
        trial.survive::<D3>(&config);
    }
}
