//! PDQ between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, Memory, Packet, Rate, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup};
use proptest::prelude::*;

use super::header::tests::headers;
use super::{Config, EarlyStartRtt, Header, Pdq, RoundTrip};
use crate::trial::{self, assail, attacks, lose, trials};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet at 1 Gb/s.
const PACKET: Duration = Duration::from_us(12);
/// One way over the network, which forwards at the first bit.
const DELAY: Duration = Duration::from_us(50);
/// The time of a control packet of 56 B from its start to its arrival.
const CONTROL: Duration = Duration::from_ns(50_448);
/// The round trip of a probe and its acknowledgement.
const RTT: Duration = Duration::from_ns(2 * 50_448);
/// What a full packet carries besides headers of 40 B and the scheduling header of 16 B.
const PAYLOAD: u64 = 1444;

/// Hosts at 1 Gb/s around one switch, with a round trip of 101 us: 8.4 packets.
fn setup(hosts: usize) -> PairSetup {
    let memory = Memory::PerPort(Bytes::new(4_000_000));
    PairSetup { hosts, rate: Rate::from_gbps(1), delay: DELAY, memory, ..PairSetup::default() }
}

fn pair(config: &Config, hosts: usize) -> Pair<Pdq> {
    Pair::new(config, setup(hosts))
}

fn after(span: Duration) -> Time {
    Time::ZERO + span
}

fn is_data(packet: &Packet<Header>) -> bool {
    matches!(packet.header, Header::Data { .. })
}

/// When the packets of a flow that `select` were sent.
fn sent(pair: &Pair<Pdq>, flow: FlowId, select: impl Fn(&Packet<Header>) -> bool) -> Vec<Time> {
    pair.sent().iter().filter(|sent| sent.packet.flow == flow && select(&sent.packet)).map(|sent| sent.at).collect()
}

fn probes(pair: &Pair<Pdq>, flow: FlowId) -> Vec<Time> {
    sent(pair, flow, |packet| matches!(packet.header, Header::Probe { .. }))
}

/// When new bytes of a flow arrived.
fn delivered(pair: &Pair<Pdq>, id: FlowId) -> Vec<Time> {
    let events = pair.events().iter();
    events.filter(|(_, _, event)| matches!(event, Event::Delivered { flow, .. } if *flow == id)).map(|(at, ..)| *at).collect()
}

/// A flow of 200 kB, and 10 us later one of 400 kB to the same host, so that the switch hears of the shorter first.
fn short_and_long(pair: &mut Pair<Pdq>) -> (FlowId, FlowId) {
    let short = pair.open(0, 2, 200_000);
    let long = Flow { start: after(Duration::from_us(10)), ..flow(1, 1, 2, 400_000, None) };
    pair.open_flow(long);
    (short, long.id)
}

fn timeouts(pair: &Pair<Pdq>) -> usize {
    pair.events().iter().filter(|(_, _, event)| matches!(event, Event::TimedOut { .. })).count()
}

/// The time of a flow's packets on a link of 1 Gb/s.
fn transmission(size: u64) -> Duration {
    let wire = Config::default().wire(&WireProfile::IP_1500);
    Rate::from_gbps(1).transmit_time(wire.flow_wire_bytes(Bytes::new(size)))
}

/// A SYN, its answer, a probe, its answer, and then the packets back to back.
#[test]
fn alone_a_flow_takes_two_round_trips_and_its_transmission() {
    for size in [0, 1, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 10 * PAYLOAD, 100_000, 5_000_000] {
        for handshake in [true, false] {
            let mut pair = pair(&Config { handshake, ..Config::default() }, 2);
            let flow = pair.open(0, 1, size);
            pair.run_to_end(SECOND);
            let round_trips = if handshake { 2 } else { 1 };
            assert_eq!(pair.flow(flow).fct(), RTT * round_trips + transmission(size) + DELAY, "{size} B");
            assert_eq!(timeouts(&pair), 0);
            // One TERM follows the last packet.
            assert_eq!(sent(&pair, flow, |packet| matches!(packet.header, Header::Term { aborted: false })).len(), 1);
        }
    }
}

/// The flow of 200 kB is more critical. The other one sends no data until the first is within two round trips of its end, and then starts
/// before the link falls idle.
#[test]
fn the_shorter_flow_has_the_link_and_the_longer_starts_as_it_ends() {
    let mut pair = pair(&Config::default(), 3);
    let (short, long) = short_and_long(&mut pair);
    pair.run_to_end(SECOND);
    let alone = RTT * 2 + transmission(200_000) + DELAY;
    let fct = pair.flow(short).fct();
    assert!((alone..=alone + RTT * 2).contains(&fct), "{fct}: the other flow takes part of the link at its end, {alone} alone");
    let last = *delivered(&pair, short).last().expect("data");
    let first = delivered(&pair, long)[0];
    assert!(first <= last + PACKET, "the link is idle from {last} to {first}");
    assert!(last - first <= RTT * 2, "the longer flow sends from {first} on, and the shorter ends at {last}");
    let total = RTT * 2 + transmission(200_000) + transmission(400_000) + DELAY;
    assert!(pair.flow(long).fct() <= total + PACKET * 2, "{}, ideal {total}", pair.flow(long).fct());
}

/// The first flow to host 2 measures a round trip that is not delayed. The SYN of the next flow is delayed, and that of a flow to host 3.
#[test]
fn early_start_counts_in_the_least_round_trip_to_the_destination_or_in_the_last_of_the_flow() {
    let late = RTT + Duration::from_us(200);
    for (early_start_rtt, expected) in [(EarlyStartRtt::Least, [RTT, RTT, late]), (EarlyStartRtt::Measured, [RTT, late, late])]
    {
        let mut pair = pair(&Config { early_start_rtt, ..Config::default() }, 4);
        pair.on_packet(|sent| match sent.packet.header {
            Header::Syn { .. } if sent.packet.flow != FlowId(0) => Fate::Delay(Duration::from_us(200)),
            _ => Fate::Pass,
        });
        for (id, dst) in [(0, 2), (1, 2), (2, 3)] {
            pair.open_flow(Flow { start: after(Duration::from_ms(id.into())), ..flow(id, 0, dst, 1000, None) });
        }
        pair.run_to_end(SECOND);
        let probed = pair.sent().iter().filter_map(|sent| match &sent.packet.header {
            Header::Probe { request, .. } => Some(request.early_start_rtt),
            _ => None,
        });
        assert_eq!(probed.collect::<Vec<_>>(), expected.map(RoundTrip::from), "{early_start_rtt:?}");
    }
}

/// Without early start, the next flow has to learn first that the last has ended: its next probe passes the switch at most a round trip
/// after the TERM, and its data a round trip after the probe.
#[test]
fn without_early_start_the_link_is_idle_for_one_to_two_round_trips() {
    let mut pair = pair(&Config { early_start_rtts: 0.0, ..Config::default() }, 3);
    let (short, long) = short_and_long(&mut pair);
    pair.run_to_end(SECOND);
    let last = *delivered(&pair, short).last().expect("data");
    let first = delivered(&pair, long)[0];
    assert!((RTT..=RTT * 2 + PACKET).contains(&(first - last)), "idle from {last} to {first}");
}

/// A flow that is more critical than the one that sends takes over within two round trips of its first probe.
#[test]
fn a_more_critical_flow_preempts_the_sending_one() {
    let mut pair = pair(&Config::default(), 3);
    let long = pair.open(0, 2, 5_000_000);
    pair.run(after(Duration::from_ms(5)));
    let short = pair.open(1, 2, 100_000);
    pair.run_to_end(SECOND);
    let start = pair.flow(short).flow.start;
    let fct = pair.flow(short).fct();
    assert!(fct <= RTT * 3 + transmission(100_000) + DELAY, "{fct}");
    // The longer flow learns of its pause a round trip after the shorter one was accepted.
    let paused = start + RTT * 3..start + (transmission(100_000) - RTT);
    let in_pause = |at: &&Time| paused.contains(*at);
    assert_eq!(sent(&pair, long, is_data).iter().filter(in_pause).count(), 0);
    assert!(probes(&pair, long).iter().filter(in_pause).count() >= 2);
}

/// Fair sharing would finish all of them in the end, after the transmission of 5 MB. One after the other they finish after 1, 2, 3, 4 and 5
/// times the transmission of 1 MB, in the mean 3/5 of that.
#[test]
fn five_equal_flows_finish_one_by_one() {
    let mut pair = pair(&Config::default(), 6);
    let flows: Vec<FlowId> = (0..5).map(|host| pair.open(host, 5, 1_000_000)).collect();
    pair.run_to_end(SECOND);
    let mut fct: Vec<Duration> = flows.iter().map(|flow| pair.flow(*flow).fct()).collect();
    fct.sort();
    let one = transmission(1_000_000);
    let ideal = |number| RTT * 2 + one * number + DELAY;
    assert!((1..).zip(&fct).all(|(number, fct)| *fct >= ideal(number)), "{fct:?}");
    // A flow shares the link with the next one in its last round trips. Each of the four changes leaves the link idle for two round trips at most.
    assert!(fct[4] < ideal(5) + RTT * 8, "{fct:?}");
    let mean = fct.iter().fold(Duration::ZERO, |sum, fct| sum + *fct) / 5;
    let sharing = one * 5;
    assert!((0.6..0.64).contains(&(mean.as_secs_f64() / sharing.as_secs_f64())), "{mean} to {sharing}");
}

/// The flow with k flows before it probes every 0.2 k round trips.
#[test]
fn a_paused_flow_probes_the_less_often_the_more_flows_are_before_it() {
    let probed = |probe_rtts_per_flow| {
        let mut pair = pair(&Config { probe_rtts_per_flow, ..Config::default() }, 22);
        let flows: Vec<FlowId> = (0..21).map(|host| pair.open(host, 21, 10_000_000 + 1_000_000 * u64::from(host))).collect();
        let (from, to) = (after(Duration::from_ms(20)), after(Duration::from_ms(60)));
        pair.run(to);
        let round_trips = (to - from).as_secs_f64() / RTT.as_secs_f64();
        let count = |flow: &FlowId| probes(&pair, *flow).iter().filter(|at| **at >= from).count();
        flows.iter().map(|flow| count(flow) as f64 / round_trips).collect::<Vec<f64>>()
    };
    let suppressed = probed(0.2);
    for (before, rate) in suppressed.iter().enumerate() {
        let most = if before == 0 { 0.0 } else { (1.0 / (0.2 * before as f64)).min(1.0) };
        assert!(*rate <= most * 1.01, "{rate} probes per round trip of the flow after {before} others");
        assert!(*rate >= most * 0.8, "{rate} probes per round trip of the flow after {before} others");
    }
    let eager = probed(0.0);
    assert!(eager[1..].iter().all(|rate| (0.75..=1.0).contains(rate)), "behind data, a round trip is longer: {eager:?}");
}

/// The flow with the earlier deadline first, although it is longer; flows without deadlines last.
#[test]
fn the_earlier_deadline_is_more_critical() {
    let mut pair = pair(&Config::default(), 4);
    for (id, size, deadline_ms) in [(0, 300_000, None), (1, 400_000, Some(50)), (2, 500_000, Some(20))] {
        pair.open_flow(flow(id, id, 3, size, deadline_ms));
    }
    pair.run_to_end(SECOND);
    let mut finished: Vec<(Time, u32)> = (0..3).map(|id| (pair.flow(FlowId(id)).received.expect("received"), id)).collect();
    finished.sort();
    assert_eq!(finished.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [2, 1, 0]);
}

fn flow(id: u32, src: u32, dst: u32, size: u64, deadline_ms: Option<u64>) -> Flow {
    trial::flow(id, src, dst, size, Time::ZERO, deadline_ms.map(|ms| after(Duration::from_ms(ms))))
}

/// When a flow was given up.
fn aborted(pair: &Pair<Pdq>, id: u32) -> Time {
    pair.flow(FlowId(id)).aborted.expect("aborted")
}

/// 1 MB takes 8.3 ms. With a deadline of 5 ms, the sender gives up before its first probe; with early termination off, it is late.
#[test]
fn a_flow_that_cannot_meet_its_deadline_is_not_sent() {
    for early_termination in [true, false] {
        let mut pair = pair(&Config { early_termination, ..Config::default() }, 2);
        pair.open_flow(flow(0, 0, 1, 1_000_000, Some(5)));
        pair.run(SECOND);
        if early_termination {
            assert_eq!(aborted(&pair, 0), after(RTT));
            let rest: Vec<Header> = pair.sent().iter().skip(2).map(|sent| sent.packet.header).collect();
            assert_eq!(rest, [Header::Term { aborted: true }]);
        } else {
            assert!(pair.flow(FlowId(0)).acknowledged.is_some());
        }
    }
}

/// The second flow waits for the first, which ends after 8.6 ms. From 3.7 ms on it is too late for 12 ms.
#[test]
fn a_paused_flow_gives_up_when_the_rest_of_its_time_is_too_short() {
    let mut pair = pair(&Config::default(), 3);
    pair.open_flow(flow(0, 0, 2, 1_000_000, Some(10)));
    pair.open_flow(flow(1, 1, 2, 1_000_000, Some(12)));
    pair.run(SECOND);
    assert!(pair.flow(FlowId(0)).received.is_some_and(|at| at < after(Duration::from_ms(10))));
    let latest = after(Duration::from_ms(12) - transmission(1_000_000));
    let at = aborted(&pair, 1);
    // It looks with each probe. It may have sent a little before the first flow's probe came.
    assert!((latest..latest + RTT * 3).contains(&at), "{at}, from {latest} on it is hopeless");
}

/// A single packet would meet its deadline of 5 ms after 4.9 ms, but it is still paused.
#[test]
fn a_paused_flow_gives_up_a_round_trip_before_its_deadline() {
    let config = Config { early_start_rtts: 0.0, ..Config::default() };
    let mut pair = pair(&config, 3);
    pair.open_flow(Flow { deadline: Some(after(Duration::from_us(4990))), ..flow(0, 0, 2, 560_000, None) });
    pair.open_flow(Flow { start: after(Duration::from_us(10)), ..flow(1, 1, 2, 1000, Some(5)) });
    pair.run(SECOND);
    assert!(pair.flow(FlowId(0)).received.is_some_and(|at| at < after(Duration::from_us(4990))));
    let (at, deadline) = (aborted(&pair, 1), after(Duration::from_ms(5)));
    assert!((deadline - at) < RTT + PACKET * 3 && at < deadline, "{at}");
    assert_eq!(sent(&pair, FlowId(1), is_data).len(), 0);
}

/// The receiver of an aborted flow forgets it, and packets that come late do not open it again.
#[test]
fn an_aborted_flow_is_over_at_both_ends() {
    let mut pair = pair(&Config::default(), 3);
    pair.on_packet(|sent| if is_data(&sent.packet) { Fate::Duplicate(Duration::from_ms(20)) } else { Fate::Pass });
    pair.open_flow(flow(0, 0, 2, 1_000_000, Some(10)));
    // It preempts the first flow for half of its time.
    pair.open_flow(Flow { start: after(Duration::from_ms(3)), ..flow(1, 1, 2, 400_000, Some(9)) });
    pair.run(SECOND);
    assert!(pair.flow(FlowId(1)).acknowledged.is_some());
    let at = aborted(&pair, 0);
    assert!(at > after(Duration::from_ms(3)) && at < after(Duration::from_ms(10)), "{at}");
    assert!(delivered(&pair, FlowId(0)).iter().all(|time| *time < at + DELAY * 2));
}

/// Two flows of one host share its NIC as they would share a link between switches.
#[test]
fn the_flows_of_one_host_take_turns_at_its_nic() {
    let mut pair = pair(&Config::default(), 3);
    let (short, long) = (pair.open(0, 1, 200_000), pair.open(0, 2, 400_000));
    pair.run_to_end(SECOND);
    let last = *delivered(&pair, short).last().expect("data");
    let first = delivered(&pair, long)[0];
    assert!(last - first <= RTT * 2, "the longer flow sends from {first} on, and the shorter ends at {last}");
    let total = RTT * 2 + transmission(200_000) + transmission(400_000) + DELAY;
    let fct = pair.flow(long).fct();
    assert!((total..total + RTT).contains(&fct), "{fct}, ideal {total}");
}

/// Each of these is lost once: the flow is late by a timeout of 1 ms from when the packet was sent or the last answer came.
#[test]
fn a_lost_packet_of_the_opening_costs_a_timeout() {
    type Choice = fn(&Packet<Header>) -> bool;
    let cases: [(&str, Choice); 4] = [
        ("syn", |packet| matches!(packet.header, Header::Syn { .. })),
        ("syn_ack", |packet| matches!(packet.header, Header::SynAck { .. })),
        ("probe", |packet| matches!(packet.header, Header::Probe { .. })),
        ("answer", |packet| matches!(packet.header, Header::Ack { answers: None, .. })),
    ];
    for (name, is_lost) in cases {
        let mut pair = pair(&Config::default(), 2);
        pair.on_packet(lose(1, is_lost));
        let flow = pair.open(0, 1, 100_000);
        pair.run_to_end(SECOND);
        let waits = if ["syn", "syn_ack"].contains(&name) { 1 } else { 2 };
        let expected = RTT * (waits - 1) + Duration::from_ms(1) + RTT * (3 - waits) + transmission(100_000) + DELAY;
        assert_eq!(pair.flow(flow).fct(), expected, "{name}");
        assert_eq!(timeouts(&pair), 1, "{name}");
    }
}

#[test]
fn a_lost_packet_is_sent_again_when_three_later_ones_are_acknowledged() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(1, |packet| matches!(packet.header, Header::Data { number: 10, .. })));
    let flow = pair.open(0, 1, 100 * PAYLOAD);
    pair.run_to_end(SECOND);
    let first = sent(&pair, flow, is_data)[10];
    let again: Vec<Time> = pair.sent().iter().filter(|sent| sent.packet.retransmission).map(|sent| sent.at).collect();
    // Packets 11, 12 and 13 leave after it; the answer to the last of them comes after its time on the way and that of its answer.
    let noticed = first + PACKET * 3 + PACKET + DELAY + CONTROL;
    assert_eq!(again.len(), 1);
    assert!((noticed..noticed + PACKET).contains(&again[0]), "{} instead of {noticed}", again[0]);
    assert_eq!(timeouts(&pair), 0);
    assert_eq!(pair.flow(flow).fct(), RTT * 2 + transmission(101 * PAYLOAD) + DELAY);
}

/// Nothing is acknowledged above the last packet, so only the timeout tells. The flow has to ask for a rate again.
#[test]
fn a_lost_last_packet_is_sent_again_after_the_timeout() {
    let mut pair = pair(&Config::default(), 2);
    pair.on_packet(lose(1, |packet| matches!(packet.header, Header::Data { number: 99, .. })));
    let flow = pair.open(0, 1, 100 * PAYLOAD);
    pair.run_to_end(SECOND);
    let answered = RTT * 2 + PACKET * 99 + DELAY + CONTROL;
    assert_eq!(pair.flow(flow).fct(), answered + Duration::from_ms(1) + RTT + PACKET + DELAY);
    let terms = sent(&pair, flow, |packet| matches!(packet.header, Header::Term { .. }));
    assert_eq!(terms.len(), 2, "the flow had left the lists and came back");
}

#[test]
fn a_timeout_of_a_whole_flight_doubles_the_next_ones() {
    let mut pair = pair(&Config::default(), 2);
    let until = after(Duration::from_ms(40));
    pair.on_packet(move |sent| if sent.at > after(RTT * 2) && sent.at < until { Fate::Drop } else { Fate::Pass });
    let flow = pair.open(0, 1, 20_000);
    pair.run_to_end(SECOND);
    let asked: Vec<Time> = probes(&pair, flow);
    let gaps: Vec<u64> = asked.windows(2).skip(1).map(|pair| (pair[1] - pair[0]).as_ps() / 1_000_000_000).collect();
    assert_eq!(gaps, [2, 4, 8, 16, 32]);
    assert!(pair.flow(flow).received.is_some());
}

/// As above, and then the last packet is lost. It is sent again after a timeout of the usual length, 1 ms after the last answer.
#[test]
fn timeouts_are_short_again_after_an_answer() {
    let mut pair = pair(&Config::default(), 2);
    let (until, mut is_first) = (after(Duration::from_ms(40)), true);
    pair.on_packet(move |sent| {
        let is_last = matches!(sent.packet.header, Header::Data { number: 13, .. });
        let lost = sent.at > after(RTT * 2) && sent.at < until || is_last && sent.at > until && std::mem::take(&mut is_first);
        if lost { Fate::Drop } else { Fate::Pass }
    });
    let flow = pair.open(0, 1, 14 * PAYLOAD);
    pair.run_to_end(SECOND);
    // The answered probe leaves at about 63.3 ms; the packets take 0.2 ms and a round trip 0.1 ms.
    let fct = pair.flow(flow).fct();
    assert!((Duration::from_us(64_300)..Duration::from_us(65_300)).contains(&fct), "{fct}");
}

/// The TERM of the first flow is lost. The second waits until the switch has heard nothing of the first for ten round trips.
#[test]
fn a_flow_whose_term_is_lost_is_forgotten() {
    let config = Config { early_start_rtts: 0.0, ..Config::default() };
    let gap = |lost: u32| {
        let mut pair = pair(&config, 3);
        pair.on_packet(lose(lost, |packet| matches!(packet.header, Header::Term { .. })));
        let (short, long) = short_and_long(&mut pair);
        pair.run_to_end(SECOND);
        delivered(&pair, long)[0] - *delivered(&pair, short).last().expect("data")
    };
    assert!(gap(0) <= RTT * 2 + PACKET);
    let waited = gap(1);
    // The switch looks every two average round trips, which the queue at the receiver's NIC makes a little longer.
    assert!((RTT * 10..RTT * 18).contains(&waited), "{waited}");
}

#[test]
fn repeated_packets_do_no_harm() {
    for late in [Duration::from_us(10), Duration::from_us(500), Duration::from_ms(5)] {
        let mut pair = pair(&Config::default(), 3);
        pair.on_packet(move |_| Fate::Duplicate(late));
        let flows = [pair.open(0, 2, 200_000), pair.open(1, 2, 400_000)];
        pair.run_to_end(SECOND);
        let total = transmission(200_000) + transmission(400_000);
        assert!(flows.iter().all(|flow| pair.flow(*flow).fct() < total * 4));
    }
}

/// The list holds two flows, and the others share what these leave: nothing, as long as one of them uses the whole link.
#[test]
fn flows_beyond_the_list_wait_and_finish() {
    let mut pair = pair(&Config { list_min: 2, ..Config::default() }, 9);
    let flows: Vec<FlowId> = (0..8).map(|host| pair.open(host, 8, 100_000 + 10_000 * u64::from(host))).collect();
    pair.run_to_end(SECOND);
    let last = flows.iter().map(|flow| pair.flow(*flow).fct()).max().expect("flows");
    let total = (0..8).fold(Duration::ZERO, |sum, host| sum + transmission(100_000 + 10_000 * host));
    assert!(last <= RTT * 2 + total + DELAY + RTT * 8, "{last}, transmissions {total}");
}

fn any_config() -> impl Strategy<Value = Config> {
    let rtts = (0.0..4.0, 0.0..0.5, 0.0..2.0, 2.0..20.0);
    (rtts, any::<bool>(), any::<bool>(), 1_u32..5, 0_u32..5, 1_u64..2000).prop_map(
        |((early_start, probe, dampening, expiry), handshake, reserve_promises, list_min, reordering, rto_min)| Config {
            early_start_rtts: early_start,
            probe_rtts_per_flow: probe,
            dampening_rtts: dampening,
            expiry_rtts: expiry,
            early_termination: false,
            handshake,
            reserve_promises,
            list_min,
            reordering,
            rto_min: Duration::from_us(rto_min),
            ..Config::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(packets in attacks(WireProfile::IP_1500, 200, headers())) {
        let own = flow(0, 0, 1, 10 * PAYLOAD, Some(3));
        assail::<Pdq>(&Config::default(), WireProfile::IP_1500, &[own], packets)?;
    }

    /// Every flow completes, and no byte is delivered twice (which the kit asserts), whichever packets are lost, late or duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Pdq>(&config);
    }
}
