//! D3 between hosts: results that follow by hand, and random faults and input.

use std::collections::BTreeMap;

use flowloom_core::{AbortReason, Bytes, Duration, Event, FlowId, Memory, NodeId, Rate, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Answer, Config, D3, Header, MOST_HOPS, Path, Purpose, Request};
use crate::toolkit::Framing;
use crate::trial::{assail, flow, trials};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const PACKET: Duration = Duration::from_ns(1200);
/// A request and its answer, each with 32 ns of transmission and a delay of 1 us: the time before the first data packet.
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

/// A round trip of 201.2 us, in which the link sends 167 packets.
fn far_apart(hosts: usize) -> PairSetup {
    let memory = Memory::PerPort(Bytes::new(10_000_000));
    PairSetup { hosts, delay: Duration::from_us(100), memory, ..PairSetup::default() }
}

/// Ports whose capacity is the link's rate, whatever is queued, and flows that keep to the letter of the paper.
fn fixed() -> Config {
    Config { spare_gain: 0.0, queue_gain: 0.0, margin_rtts: 0.0, quenching: false, ..Config::default() }
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

fn packet_number(sent: &SentPacket<Header>) -> u64 {
    sent.packet.offset.get() / 1460
}

/// Every request that was answered, in the order in which they left, with what the ports of the host and of the switch allocated.
fn asked_and_answered(pair: &Pair<D3>) -> Vec<(SentPacket<Header>, [u64; 2])> {
    let answers =
        pair.sent().iter().filter_map(|sent| answer_of(sent).map(|answer| ((sent.packet.flow, answer.serial), answer)));
    let answers: BTreeMap<_, _> = answers.collect();
    let asked = pair.sent().iter().filter_map(|sent| {
        let answer = answers.get(&(sent.packet.flow, request_of(sent)?.serial))?;
        Some((*sent, [0, 1].map(|hop| answer.path.rates[hop].as_bps())))
    });
    asked.collect()
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
    let asked: Vec<u64> =
        pair.sent().iter().filter(|sent| is_data(sent) && request_of(sent).is_some()).map(packet_number).collect();
    // The last packet gives the rate back. It leaves before an answer to a request of packet 27 could come.
    assert_eq!(asked, [0, 3, 6, 9, 12, 15, 18, 21, 24, 29]);
    let last = pair.sent().iter().rfind(|sent| is_data(sent)).unwrap();
    assert_eq!(last.at, begin + PACKET * 29);
    assert!(request_of(last).unwrap().purpose == Purpose::End);
}

/// A single flow with a deadline that needs d < C gets d + (C - d): the whole link.
#[test]
fn a_single_flow_gets_more_than_it_desires() {
    let mut pair = pair(&Config { margin_rtts: 0.0, ..Config::default() }, PairSetup::default());
    pair.open_flow(flow(0, 0, 1, 1_000_000, Time::ZERO, Some(at_us(5000))));
    pair.run_to_end(SECOND);
    let desired = pair.sent().iter().filter_map(request_of).map(|request| request.desired.as_bps());
    assert!(desired.clone().all(|desired| desired < LINK / 5));
    // 1,000,000 B and 685 headers in 5 ms, to begin with.
    assert_eq!(desired.clone().next(), Some((1_027_400_u64 * 8 * 1000).div_ceil(5)));
    let answers = asked_and_answered(&pair);
    assert!(answers.len() > 100);
    assert!(answers.iter().all(|(_, rates)| *rates == [LINK, LINK]));
}

/// Two flows from two hosts to one: d1 + (C - d1 - d2)/2 and d2 + (C - d1 - d2)/2, with the latest d1 and d2 that the switch knows.
#[test]
fn two_flows_get_what_they_desire_and_half_of_the_rest() {
    let mut pair = pair(&fixed(), far_apart(3));
    let flows =
        [flow(0, 0, 2, 2_000_000, Time::ZERO, Some(at_us(8000))), flow(1, 1, 2, 3_000_000, Time::ZERO, Some(at_us(6000)))];
    for flow in flows {
        pair.open_flow(flow);
    }
    pair.run_to_end(SECOND);
    let both = pair.flow(FlowId(0)).received.unwrap().min(pair.flow(FlowId(1)).received.unwrap());
    let mut desired = [0, 0];
    let mut compared = 0;
    for (asked, [own_port, rate]) in asked_and_answered(&pair) {
        let own = asked.packet.flow.0 as usize;
        desired[own] = request_of(&asked).unwrap().desired.as_bps();
        assert_eq!(own_port, LINK);
        if asked.at > at_us(1000) && asked.at + Duration::from_us(400) < both {
            assert_eq!(rate, desired[own] + (LINK - desired[0] - desired[1]) / 2);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
    assert!(flows.iter().all(|flow| pair.flow(flow.id).received < flow.deadline));
}

/// The flow that came first needs 0.9 C until 40 ms. The flow that comes after it needs 0.45 C for 4 ms only, and gets the 0.1 C that are
/// left: it misses its deadline, which is long before the other one. In the other order, both meet theirs.
#[test]
fn an_early_flow_with_a_far_deadline_keeps_a_late_flow_with_a_near_one_waiting() {
    for (far_start, near_start, near_meets) in [(0, 4000, false), (400, 0, true)] {
        let mut pair = pair(&Config { quenching: false, ..Config::default() }, far_apart(3));
        let [far_start, near_start] = [far_start, near_start].map(at_us);
        let far = flow(0, 0, 2, 43_800_000, far_start, Some(at_us(40_000)));
        let near = flow(1, 1, 2, 2_190_000, near_start, Some(near_start + Duration::from_us(4000)));
        for flow in [far, near] {
            pair.open_flow(flow);
        }
        pair.run_to_end(SECOND);
        assert!(pair.flow(FlowId(0)).received <= far.deadline);
        assert_eq!(pair.flow(FlowId(1)).received <= near.deadline, near_meets);
        if !near_meets {
            // Until its deadline, the late flow gets what the early one leaves, with whatever it asks.
            let near_asked = asked_and_answered(&pair).into_iter().filter(|(sent, _)| sent.packet.flow == FlowId(1));
            let in_time: Vec<_> = near_asked.filter(|(sent, _)| Some(sent.at) < near.deadline).skip(1).collect();
            assert!(in_time.len() > 15);
            for (sent, [_, rate]) in in_time {
                let share = rate as f64 / LINK as f64;
                assert!((0.05..=0.15).contains(&share), "{share}");
                assert!(request_of(&sent).unwrap().desired.as_bps() > LINK / 10 * 4);
            }
        }
    }
}

/// The table of a port: for each flow what it desires and what it was allocated.
#[derive(Default)]
struct Table(BTreeMap<FlowId, (u64, u64)>);

impl Table {
    /// Snippet 1 of the paper over a list of flows.
    fn allocate(&mut self, flow: FlowId, desired: u64) -> u64 {
        self.0.remove(&flow);
        let left = LINK - self.0.values().map(|(_, rate)| rate).sum::<u64>();
        let demand = desired + self.0.values().map(|(desired, _)| desired).sum::<u64>();
        let share = LINK.saturating_sub(demand) / (self.0.len() as u64 + 1);
        let rate = if left > desired { (desired + share).min(left) } else { left };
        self.0.insert(flow, (desired, rate));
        rate
    }
}

/// Every allocation of every port in a run is what the paper's rule gives with a list of all flows. So the counters hold what they should,
/// and their sum is never above C.
#[test]
fn every_allocation_is_that_of_the_rule_with_a_list_of_flows() {
    for seed in 1..=5 {
        // Requests and acknowledgements come on top of the allocations, so queues grow, and answers are late.
        let patient = Config { timeout_rtts: 50.0, hold_rtts: 100.0, ..fixed() };
        let mut pair = pair(&patient, far_apart(4));
        let mut state: u64 = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for id in 0..24 {
            let (src, hop) = (below(4), 1 + below(3));
            // Odd picoseconds keep two hosts from sending at one instant.
            let start = Time::from_ps(below(5_000_000_000) * 2 + 1);
            let deadline = (below(3) > 0).then(|| start + Duration::from_us(1000 + below(30_000)));
            pair.open_flow(flow(id, src as u32, ((src + hop) % 4) as u32, 1 + below(3_000_000), start, deadline));
        }
        pair.run_to_end(SECOND);
        let answered: BTreeMap<_, _> = asked_and_answered(&pair)
            .into_iter()
            .map(|(sent, rates)| ((sent.packet.flow, request_of(&sent).unwrap().serial), rates))
            .collect();
        let mut tables: BTreeMap<(usize, NodeId), Table> = BTreeMap::new();
        let mut compared = 0;
        for sent in pair.sent() {
            let Some(request) = request_of(sent) else { continue };
            let id = sent.packet.flow;
            for (hop, node) in [sent.packet.src, sent.packet.dst].into_iter().enumerate() {
                let table = tables.entry((hop, node)).or_default();
                if request.purpose != Purpose::Ask {
                    table.0.remove(&id);
                } else {
                    let rate = table.allocate(id, request.desired.as_bps());
                    assert_eq!(answered[&(id, request.serial)][hop], rate, "seed {seed}, hop {hop}, at {}", sent.at);
                    compared += 1;
                }
            }
        }
        assert!(compared > 500, "{compared}");
        assert!(tables.values().all(|table| table.0.is_empty()));
    }
}

/// A flow for which nothing is left sends one header-only request in each of its round trips, and no data.
#[test]
fn a_flow_without_a_rate_asks_once_per_round_trip() {
    let mut pair = pair(&Config { quenching: false, patience: 1000, ..Config::default() }, hosts(3));
    // The first flow desires all of the link until its deadline.
    pair.open_flow(flow(0, 0, 2, 1_460_000, Time::ZERO, Some(at_us(1000))));
    pair.open_flow(flow(1, 1, 2, 14_600, at_us(100), None));
    pair.run_to_end(SECOND);
    let other: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.src == NodeId(1)).collect();
    let first_data = other.iter().position(|sent| is_data(sent)).unwrap();
    assert!(other[first_data].at > at_us(1000));
    // At the port to host 2, a request waits for the packet that is being sent and a short queue.
    let gaps: Vec<_> = other[..first_data].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps.len() > 200);
    assert!(gaps.iter().all(|gap| (ASKING..=ASKING + PACKET * 3).contains(gap)), "{gaps:?}");
}

/// With a patience of ten requests, the gaps before the others are 2, 4 and up to 64 measured round trips.
#[test]
fn a_flow_that_asks_in_vain_asks_less_often() {
    let mut pair = pair(&Config { quenching: false, patience: 10, ..Config::default() }, hosts(3));
    pair.open_flow(flow(0, 0, 2, 1_460_000, Time::ZERO, Some(at_us(1000))));
    pair.open_flow(flow(1, 1, 2, 14_600, at_us(100), None));
    pair.run_to_end(SECOND);
    let other: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.src == NodeId(1)).collect();
    let first_data = other.iter().position(|sent| is_data(sent)).unwrap();
    let gaps: Vec<_> = other[..first_data].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps[..9].iter().all(|gap| *gap <= ASKING + PACKET * 3), "{gaps:?}");
    // A pause follows the answer, which comes a round trip after the request.
    for (gap, round_trips) in gaps[10..].iter().zip([3, 5, 9, 17, 33, 65]) {
        assert!((ASKING * round_trips..=(ASKING + PACKET * 3) * round_trips).contains(gap), "{round_trips}: {gaps:?}");
    }
    assert!(other[first_data].at < at_us(1000) + (ASKING + PACKET * 3) * 66);
}

/// The base round trip is 3.232 us, so a request is repeated after 9.696 us.
const TIMEOUT: Duration = Duration::from_ns(3 * 3232);
/// Allocations that are not renewed are taken back at multiples of 8 round trips, after the second one.
const HOLD: Duration = Duration::from_ns(8 * 3232);

/// Drops the first packet for which this holds.
fn drop_first(pair: &mut Pair<D3>, which: impl Fn(&SentPacket<Header>) -> bool + Send + 'static) {
    let mut left = 1;
    pair.on_packet(move |sent| {
        if left > 0 && which(sent) {
            left -= 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
}

/// The host's own port had already allocated the link, so the repeated request finds nothing there until that is forgotten.
#[test]
fn a_lost_first_request_is_repeated_and_its_allocation_forgotten() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    drop_first(&mut pair, |sent| matches!(sent.packet.header, Header::Request { .. }));
    let id = pair.open(0, 1, 14_600);
    pair.run_to_end(SECOND);
    let requests: Vec<_> = pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Request { .. })).collect();
    assert_eq!((requests[0].at, requests[1].at), (Time::ZERO, Time::ZERO + TIMEOUT));
    let first_data = pair.sent().iter().find(|sent| is_data(sent)).unwrap().at;
    assert!(first_data >= Time::ZERO + HOLD * 2 && first_data <= Time::ZERO + HOLD * 2 + ASKING * 2, "{first_data}");
    assert_eq!(pair.flow(id).received, Some(first_data + PACKET * 10 + Duration::from_us(1)));
    let timeouts = pair.events().iter().filter(|(_, _, event)| matches!(event, Event::TimedOut { .. })).count();
    assert_eq!(timeouts, 1);
}

/// The same with the answer lost.
#[test]
fn a_lost_answer_leaves_an_allocation_that_is_forgotten() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    drop_first(&mut pair, |sent| answer_of(sent).is_some());
    pair.open(0, 1, 14_600);
    pair.run_to_end(SECOND);
    let first_data = pair.sent().iter().find(|sent| is_data(sent)).unwrap().at;
    assert!(first_data >= Time::ZERO + HOLD * 2 && first_data <= Time::ZERO + HOLD * 2 + ASKING * 2, "{first_data}");
}

/// The last packet gives the rate back and is lost. The next flow gets the link when the ports have forgotten the allocation, and the lost
/// packet is sent again after the timeout and a request.
#[test]
fn a_lost_end_is_forgotten() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    drop_first(&mut pair, |sent| request_of(sent).is_some_and(|request| request.purpose == Purpose::End));
    let id = pair.open(0, 1, 14_600);
    pair.run_to_end(SECOND);
    let again: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.retransmission).collect();
    assert_eq!(again.len(), 1);
    assert_eq!(packet_number(again[0]), 9);
    // The host's own port got the end: only that of the switch still holds the rate, from period 0.
    assert!(again[0].at >= Time::ZERO + HOLD * 2 && again[0].at <= Time::ZERO + HOLD * 2 + ASKING * 2, "{}", again[0].at);
    assert_eq!(pair.flow(id).received, Some(again[0].at + PACKET + Duration::from_us(1)));
}

/// By hand: all is sent at 2.064 + 10·1.2 us; the lost packet is found missing a timeout after the last one left. The flow holds nothing by
/// then, so it asks as a new one and gets the link at once.
#[test]
fn a_lost_packet_is_sent_again_after_the_others() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    drop_first(&mut pair, |sent| is_data(sent) && packet_number(sent) == 4);
    let id = pair.open(0, 1, 14_600);
    pair.run_to_end(SECOND);
    let again: Vec<_> =
        pair.sent().iter().filter(|sent| sent.packet.retransmission).map(|sent| (sent.at, packet_number(sent))).collect();
    let last_left = Time::ZERO + ASKING + PACKET * 9;
    assert_eq!(again, [(last_left + TIMEOUT + ASKING, 4)]);
    assert_eq!(pair.flow(id).received, Some(again[0].0 + PACKET + Duration::from_us(1)));
}

/// A renewal is lost with its packet: the flow goes on at its rate, asks again after a timeout, and waits for that answer.
#[test]
fn a_lost_renewal_stops_the_flow_until_it_is_repeated() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    drop_first(&mut pair, |sent| is_data(sent) && packet_number(sent) == 3);
    let id = pair.open(0, 1, 1460 * 40);
    pair.run_to_end(SECOND);
    let left = Time::ZERO + ASKING + PACKET * 3;
    let alone: Vec<_> =
        pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Request { .. })).map(|sent| sent.at).collect();
    // The timeout comes while the NIC sends a packet.
    assert!(alone[1] >= left + TIMEOUT && alone[1] <= left + TIMEOUT + PACKET);
    let idle = pair.sent().iter().filter(|sent| is_data(sent) && sent.at > alone[1] && sent.at < alone[1] + ASKING).count();
    assert_eq!(idle, 0);
    assert!(pair.flow(id).received.is_some());
}

/// All requests but the first are lost, and packet 10 is late by 500 us. Until it is acknowledged, requests come 3, 7, 15, … timeouts after the first lost one: the next one would be the 63rd,
/// at about 616 us.
#[test]
fn an_acknowledgement_ends_the_back_off() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.on_packet(|sent| match request_of(sent) {
        Some(_) if sent.at > at_us(3) => Fate::Drop,
        None if is_data(sent) && packet_number(sent) == 10 => Fate::Delay(Duration::from_us(500)),
        _ => Fate::Pass,
    });
    pair.open(0, 1, 1460 * 40);
    pair.run(at_us(700));
    let ack =
        pair.sent().iter().find(|sent| sent.at > at_us(400) && sent.packet.src == NodeId(1)).expect("an answer to packet 10");
    let next = pair.sent().iter().find(|sent| sent.at > ack.at && request_of(sent).is_some()).expect("a request").at;
    let heard = ack.at + Duration::from_ns(1032);
    assert_eq!(next, heard + TIMEOUT);
}

/// The same with packet 10 late by other times. Whenever its acknowledgement comes, the next request comes no later than it would without.
#[test]
fn an_acknowledgement_puts_no_request_off() {
    let next_request = |late_us: u64| {
        let mut pair = pair(&Config::default(), PairSetup::default());
        pair.on_packet(move |sent| match request_of(sent) {
            Some(_) if sent.at > at_us(3) => Fate::Drop,
            None if is_data(sent) && packet_number(sent) == 10 => Fate::Delay(Duration::from_us(late_us)),
            _ => Fate::Pass,
        });
        pair.open(0, 1, 1460 * 40);
        pair.run(at_us(700));
        pair.sent().iter().find(|sent| sent.at > at_us(400) && request_of(sent).is_some()).expect("a request").at
    };
    let never = next_request(2000);
    assert!(never > at_us(610) && never < at_us(640), "{never}");
    let early = (400..700).step_by(3).filter(|late_us| next_request(*late_us) < never).count();
    let late: Vec<u64> = (400..700).step_by(3).filter(|late_us| next_request(*late_us) > never).collect();
    assert!(early > 50 && late.is_empty(), "{early} come earlier, and later are those with {late:?}");
}

#[test]
fn a_late_duplicate_of_a_finished_flow_is_acknowledged_and_opens_nothing() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.on_packet(|sent| if is_data(sent) { Fate::Duplicate(Duration::from_us(500)) } else { Fate::Pass });
    let id = pair.open(0, 1, 1460 * 3);
    pair.run_to_end(SECOND);
    let delivered = pair.events().iter().filter(|(_, _, event)| matches!(event, Event::Delivered { .. })).count();
    assert_eq!(delivered, 3);
    assert!(pair.flow(id).acknowledged.unwrap() < at_us(500));
    // The copy of a request has booked a rate for nobody. The next flow waits until it is forgotten.
    let next = pair.open(0, 1, 1460 * 30);
    pair.run_to_end(SECOND);
    let alone = ASKING + PACKET * 30 + Duration::from_us(1);
    assert!(pair.flow(next).fct() > alone && pair.flow(next).fct() < alone + HOLD * 2, "{}", pair.flow(next).fct());
}

/// Incast: 20 flows of 200 packets each to one host. Their first requests come at once, the first gets the link, and in the next round trips
/// all have their share.
#[test]
fn incast_loses_nothing_and_keeps_the_link_busy() {
    let mut pair = pair(&Config::default(), far_apart(21));
    let flows: Vec<_> = (0..20).map(|host| pair.open(host, 20, 1460 * 200)).collect();
    pair.run_to_end(SECOND);
    assert!(pair.dropped().is_empty());
    let last = flows.iter().map(|flow| pair.flow(*flow).fct()).max().unwrap();
    let ideal = PACKET * 4000 + Duration::from_us(300);
    assert!(last < ideal + ideal / 4, "{last}, at best {ideal}");
}

fn aborted(pair: &Pair<D3>) -> Vec<(Time, NodeId, FlowId)> {
    let of_event = |(at, node, event): &(Time, NodeId, Event)| match event {
        Event::Aborted { flow, reason: AbortReason::Deadline } => Some((*at, *node, *flow)),
        _ => None,
    };
    pair.events().iter().filter_map(of_event).collect()
}

/// 1 MB needs 0.8 ms at the host's rate.
#[test]
fn a_flow_whose_deadline_no_rate_meets_gives_up_and_sends_nothing() {
    for (quenching, gives_up) in [(true, true), (false, false)] {
        let mut pair = pair(&Config { quenching, ..Config::default() }, PairSetup::default());
        pair.open_flow(flow(0, 0, 1, 1_000_000, at_us(3), Some(at_us(700))));
        pair.run_to_end(SECOND);
        assert_eq!(pair.sent().is_empty(), gives_up);
        assert_eq!(aborted(&pair), if gives_up { vec![(at_us(3), NodeId(0), FlowId(0))] } else { vec![] });
    }
}

/// The late flow of the priority inversion gets a tenth of C. It gives up when the rest does not fit its time any more, and what it held
/// is the other flow's at the next request.
#[test]
fn a_flow_that_falls_behind_gives_up_before_its_deadline_and_returns_its_rate() {
    let mut pair = pair(&Config::default(), far_apart(3));
    let deadline = at_us(8000);
    pair.open_flow(flow(0, 0, 2, 43_800_000, Time::ZERO, Some(at_us(40_000))));
    pair.open_flow(flow(1, 1, 2, 2_190_000, at_us(4000), Some(deadline)));
    pair.run_to_end(SECOND);
    let [(at, NodeId(1), FlowId(1))] = aborted(&pair)[..] else { panic!("{:?}", aborted(&pair)) };
    // With 0.1 C, 2.25 MB on the wire shrink to what C sends until 8 ms at (8 - 1.8 / 0.9) ms or so.
    assert!(at > at_us(5500) && at < at_us(7500), "{at}");
    let last = pair.sent().iter().rfind(|sent| sent.packet.src == NodeId(1)).unwrap();
    assert!(request_of(last).is_some_and(|request| request.purpose == Purpose::GiveUp));
    let round_trip = Duration::from_us(202);
    let others = asked_and_answered(&pair).into_iter().filter(|(sent, _)| sent.packet.flow == FlowId(0));
    let after: Vec<_> = others.filter(|(sent, _)| sent.at > at + round_trip).map(|(_, rates)| rates[1]).collect();
    assert!(after.len() > 50);
    assert!(after.iter().all(|rate| *rate > LINK / 100 * 98), "{after:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every flow completes, or gives up if it may, and no byte is delivered twice, whatever is lost, late or repeated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(
        quenching: bool, margin_rtts in 0.0..3.0, base_packets in 0.0..2.0, limit_to_left: bool, adapt_rtts in 0.1..10.0,
        gains in (0.0..1.0, 0.0..2.0), capacity_max in 1.0..4.0, timeout_rtts in 1.0..5.0, hold in 1.1..4.0, trial in trials(),
    ) {
        let config = Config {
            quenching, margin_rtts, base_packets, limit_to_left, adapt_rtts, spare_gain: gains.0, queue_gain: gains.1,
            capacity_max, timeout_rtts, hold_rtts: timeout_rtts * hold, ..Config::default()
        };
        trial.survive::<D3>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(
        headers in prop::collection::vec(
            (0..4, 0_u32..3, 0_u32..12, 0_u32..5, prop::sample::select(vec![0, 1, 1000, LINK, u64::MAX]), 0..=MOST_HOPS as u8, any::<u8>()),
            1..60,
        ),
    ) {
        let framing = Framing::new(NodeId(1), &WireProfile::IP_1500);
        let packet = |(kind, id, number, serial, bps, hops, wild): (i32, u32, u32, u32, u64, u8, u8)| {
            let path = Path { hops, periods: [wild; MOST_HOPS], rates: [Rate::from_bps(bps); MOST_HOPS] };
            let purpose = [Purpose::Ask, Purpose::End, Purpose::GiveUp][usize::from(wild % 3)];
            let rate = Rate::from_bps(bps);
            let request = Request { purpose, named: hops, serial, desired: rate, before: rate, path };
            let packets = if wild < 20 { u32::MAX } else { 10 };
            let header = match kind {
                0 => Header::Data { number, packets, request: (wild > 100).then_some(request) },
                1 => Header::Request { packets, request },
                2 => Header::Ack { cumulative: number, number: (wild > 200).then_some(number), answer: None },
                _ => Header::Ack { cumulative: 0, number: None, answer: Some(Answer { serial, path }) },
            };
            (Duration::from_us(10), framing.control(FlowId(id), NodeId(0), header))
        };
        let own = flow(0, 0, 1, 14_600, Time::ZERO, Some(at_us(10_000)));
        assail::<D3>(&Config::default(), WireProfile::IP_1500, &[own], headers.into_iter().map(packet))?;
    }
}
