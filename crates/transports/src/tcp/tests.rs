//! TCP between hosts: results that follow by hand or in closed form, and random faults and input.

use std::cell::Cell;

use flowloom_core::{Bytes, Duration, Event, FlowId, Memory, Rate, Switching, Time, Transport, topology};
use flowloom_fabric::Routing;
use flowloom_fabric::pair::{Fate, Faults, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Config, Dctcp, FastRetransmit, Header, MarkedGrowth, Reuse, RtoRule, Tcp, TimeoutAfterCut};
use crate::trial::trials;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const FOREVER: Time = Time::from_ps(1_000_000_000_000_000);

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// Two hosts with enough memory that nothing is dropped, and a one-way delay.
fn roomy(delay_us: u64) -> PairSetup {
    PairSetup { memory: Memory::PerPort(Bytes::new(1 << 30)), delay: Duration::from_us(delay_us), ..PairSetup::default() }
}

fn data(sent: &SentPacket<Header>) -> Option<u32> {
    match sent.packet.header {
        Header::Data { number, .. } => Some(number),
        _ => None,
    }
}

fn timeouts<T: Transport>(pair: &Pair<T>) -> Vec<u32> {
    let in_a_row = |(_, _, event): &(Time, _, Event)| match event {
        Event::TimedOut { in_a_row, .. } => Some(*in_a_row),
        _ => None,
    };
    pair.events().iter().filter_map(in_a_row).collect()
}

/// Loses the first transmission of each of these packets.
fn lose_first(numbers: &'static [u32]) -> impl FnMut(&SentPacket<Header>) -> Fate {
    move |sent| match data(sent) {
        Some(number) if numbers.contains(&number) && !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    }
}

fn patient() -> Config {
    let long = Duration::from_ms(1000);
    Config { rto_min: Duration::from_ms(200), rto_initial: long, max_window: 65_536, ..Config::default() }
}

#[test]
fn within_its_initial_window_a_flow_takes_its_transmission_time_and_the_delay() {
    for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000] {
        let mut pair = Pair::<Tcp>::new(&Config::default(), roomy(1));
        let flow = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let path = pair.network().path(flowloom_core::NodeId(0), flowloom_core::NodeId(1));
        let setup = PairSetup::default();
        assert_eq!(pair.flow(flow).fct(), pair.network().flow_time(&path, Bytes::new(size), &setup.wire), "{size} B");
    }
}

/// Longer flows do so too if the window covers the round trip: acknowledgements return before the window is used up.
#[test]
fn a_window_of_a_round_trip_keeps_the_line_busy() {
    let mut pair = Pair::<Dctcp>::new(&Config::default(), PairSetup { log: false, ..roomy(1) });
    let flow = pair.open(0, 1, 1_000_000_000);
    pair.run_to_end(FOREVER);
    let wire_bytes: u64 = 1_000_000_000 + 40 * 684_932;
    assert_eq!(pair.flow(flow).fct(), Duration::from_ps(wire_bytes * 800) + Duration::from_us(1));
}

/// RFC 5681 §3.1: w(2^k - 1) packets in the first k round trips.
#[test]
fn slow_start_doubles_the_window_per_round_trip() {
    let config = Config { initial_window: 3, ..patient() };
    let mut pair = Pair::<Tcp>::new(&config, roomy(1000));
    pair.open(0, 1, 10_000_000);
    pair.run(at_us(14_000));
    let sent_within = |us| pair.sent().iter().filter(|sent| data(sent).is_some() && sent.at < at_us(us)).count();
    let counts = [1, 2, 3, 4, 5, 6].map(|trips| sent_within(2050 * trips - 500));
    assert_eq!(counts, [3, 9, 21, 45, 93, 189]);
}

/// Above the threshold: one packet more per round trip. A loss halves a window of 16, and the flow goes on with 8, 9, 10, …
#[test]
fn a_single_loss_costs_one_retransmission_half_the_window_and_no_timeout() {
    for sack in [true, false] {
        let config = Config { initial_window: 16, sack, ..patient() };
        let mut pair = Pair::<Tcp>::new(&config, roomy(1000));
        pair.on_packet(lose_first(&[0]));
        let flow = pair.open(0, 1, 200 * 1460);
        pair.run_to_end(SECOND);
        let resent: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.retransmission).filter_map(data).collect();
        assert_eq!((resent, timeouts(&pair)), (vec![0], vec![]));
        // First 16 packets, one of which is lost. Their 15 duplicates release two packets by limited transmit, then the retransmission.
        // Each further one makes room for one, and once the halved window of 8 is outstanding, 5 more follow. Then 8 are acknowledged
        // at a time, and one more each trip.
        let in_round = |trip: u64| {
            let (from, to) = (at_us(2000 * trip), at_us(2000 * (trip + 1)));
            pair.sent().iter().filter(|sent| data(sent).is_some() && (from..to).contains(&sent.at)).count()
        };
        assert_eq!(in_round(0), 16);
        assert_eq!([3, 4, 5].map(in_round), [9, 10, 11], "sack {sack}: one more per round trip");
        assert_eq!([1, 2].map(in_round), [8, 8], "half of 16");
        assert!(pair.flow(flow).received.is_some());
    }
}

/// RFC 6675: with selective acknowledgement, n losses in a window are repaired in one round trip more; RFC 6582 takes one for each.
#[test]
fn losses_of_one_window_are_repaired_together_with_sack_and_one_by_one_without() {
    let fct_in_trips = |sack, lost: &'static [u32]| {
        let config = Config { initial_window: 40, sack, ..patient() };
        let mut pair = Pair::<Tcp>::new(&config, roomy(1000));
        pair.on_packet(lose_first(lost));
        let flow = pair.open(0, 1, 40 * 1460);
        pair.run_to_end(SECOND);
        assert!(timeouts(&pair).is_empty());
        // At the end of a flow, the rescue repeats its last packet once in each recovery.
        let rescues = usize::from(sack && !lost.is_empty());
        assert_eq!(pair.sent().iter().filter(|sent| sent.packet.retransmission).count(), lost.len() + rescues);
        pair.flow(flow).fct().as_us_f64() / 2000.0
    };
    // Half a trip to arrive; a trip and a half if something is resent once.
    assert!((fct_in_trips(true, &[]) - 0.5).abs() < 0.1);
    assert!((fct_in_trips(true, &[3]) - 1.5).abs() < 0.1);
    assert!((fct_in_trips(true, &[3, 8, 9, 15, 20]) - 1.5).abs() < 0.1);
    assert!((fct_in_trips(false, &[3]) - 1.5).abs() < 0.1);
    assert!((fct_in_trips(false, &[3, 8, 9, 15, 20]) - 5.5).abs() < 0.1);
}

/// RFC 6675 §4, NextSeg rule 4, by hand. 20 packets are sent at once; 5, 18 and 19 are lost. After a round trip, three packets beyond
/// packet 5 have arrived, and it is resent. When 10 packets are left in the network, the window of 10 allows another one. No packet is
/// new, and all losses that are known are resent, so the last packet is resent (the rescue). One round trip later its acknowledgement
/// shows that 18 is missing, which is resent (rule 3).
#[test]
fn a_rescue_spares_a_lost_tail_the_timer() {
    let config = Config { initial_window: 20, ..patient() };
    for (lost, resent_first, resent_then, trips) in
        [(&[5, 18, 19][..], [5, 19], Some(18), 2.5), (&[5, 19], [5, 19], None, 1.5), (&[5], [5, 19], None, 1.5)]
    {
        let mut pair = Pair::<Tcp>::new(&config, roomy(1000));
        pair.on_packet(lose_first(lost));
        let flow = pair.open(0, 1, 20 * 1460);
        pair.run_to_end(SECOND);
        let resent: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.retransmission).filter_map(data).collect();
        let expected: Vec<_> = resent_first.into_iter().chain(resent_then).collect();
        assert_eq!((resent, timeouts(&pair)), (expected, vec![]), "{lost:?}");
        let found = pair.flow(flow).fct().as_us_f64() / 2000.0;
        assert!((found - trips).abs() < 0.1, "{lost:?}: {found} round trips");
    }
}

/// Losses beyond the last packet that arrived start no recovery if nothing was lost before it.
#[test]
fn a_lost_tail_waits_for_the_timer_which_doubles() {
    let config = Config { rto_min: Duration::from_ms(10), rto_initial: Duration::from_ms(10), ..Config::default() };
    let mut pair = Pair::<Tcp>::new(&config, roomy(50));
    // Packet 9 is the last, and is lost three times.
    let left = Cell::new(3_u32);
    pair.on_packet(move |sent| {
        let lost = data(sent) == Some(9) && left.replace(left.get().saturating_sub(1)) > 0;
        if lost { Fate::Drop } else { Fate::Pass }
    });
    let flow = pair.open(0, 1, 14_600);
    pair.run_to_end(SECOND);
    assert_eq!(timeouts(&pair), [1, 2, 3]);
    // The timer was last restarted by the acknowledgement of packet 8, at about 110 us; 10 + 20 + 40 ms.
    let fct = pair.flow(flow).fct();
    assert!((fct.as_us_f64() - 70_170.0).abs() < 30.0, "{fct}");
}

/// The first acknowledgements show that a round trip takes 0.1 ms, so the timeout falls from a second to 10 ms.
#[test]
fn a_measured_timeout_replaces_the_initial_one_at_once() {
    for handshake in [false, true] {
        let config =
            Config { rto_min: Duration::from_ms(10), rto_initial: Duration::from_ms(1000), handshake, ..Config::default() };
        let mut pair = Pair::<Tcp>::new(&config, roomy(50));
        pair.on_packet(lose_first(&[4]));
        let flow = pair.open(0, 1, 5 * 1460);
        pair.run_to_end(SECOND);
        assert_eq!(timeouts(&pair), [1]);
        // The acknowledgement of packet 3 comes at about 105 us, and the packet takes 52 us. The first connection of a pair needs no handshake.
        let fct = pair.flow(flow).fct();
        assert!((fct.as_us_f64() - 10_157.0).abs() < 20.0, "{fct}");
    }
}

/// Nothing passes for 40 ms, so the timer goes off at 2, 6, 14, 30 and 62 ms. Then acknowledgements come back, and the last packet is lost: the next timeout is 2 ms again.
#[test]
fn back_off_ends_with_the_first_sample() {
    let mut pair = Pair::<Tcp>::new(&Config { initial_window: 10, ..Config::default() }, roomy(50));
    let mut is_first = true;
    pair.on_packet(move |sent| {
        let last = sent.at > at_us(40_000) && data(sent) == Some(99) && std::mem::take(&mut is_first);
        if sent.at < at_us(40_000) || last { Fate::Drop } else { Fate::Pass }
    });
    let flow = pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!(timeouts(&pair), [1, 2, 3, 4, 5, 1]);
    // From 62 ms on, 1, 2, 4, 5, 6, … packets a round trip of 0.1 ms, 99 of them in 13 or 14; then 2 ms, and half a round trip.
    let fct = pair.flow(flow).fct().as_us_f64();
    assert!((65_200.0..65_800.0).contains(&fct), "{fct}");
}

/// Without selective acknowledgement, packets 0, 5, 10 and 15 are lost, and then the one that fast retransmission repeats. After the timeout, packets 16, 17 and 18 are sent again without need,
/// and three duplicates answer them. They do not say that another packet is lost.
#[test]
fn duplicates_of_needless_retransmissions_start_no_recovery() {
    let config = Config { sack: false, initial_window: 20, ..Config::default() };
    let mut pair = Pair::<Tcp>::new(&config, roomy(50));
    let mut again = 0;
    pair.on_packet(move |sent| match data(sent) {
        Some(0) if sent.packet.retransmission && std::mem::replace(&mut again, 1) == 0 => Fate::Drop,
        Some(0 | 5 | 10 | 15) if !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    });
    pair.open(0, 1, 200 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!(timeouts(&pair), [1]);
    let resent: Vec<u32> = pair.sent().iter().filter(|sent| sent.packet.retransmission).filter_map(data).collect();
    let end = pair
        .sent()
        .iter()
        .filter(|sent| !sent.packet.retransmission && sent.at < at_us(2000))
        .filter_map(data)
        .max()
        .expect("packets");
    assert!(resent.iter().all(|number| *number <= end), "{resent:?}, {end} was the last before the timeout");
}

/// If duplicates are ignored, only the timer finds losses. Packets that were acknowledged selectively are not sent again.
#[test]
fn with_fast_retransmit_off_the_timer_repairs_and_sack_spares_what_has_arrived() {
    // Two racks of one host, and two spines. With fast retransmission on `auto`, a network that sprays turns it off.
    let (rate, delay) = (Rate::from_gbps(10), Duration::from_ns(12_500));
    let network = topology::leaf_spine(2, 1, 2, rate, rate, delay, Switching::StoreAndForward);
    let setup = PairSetup { network: Some(network), routing: Routing::SprayRoundRobin, ..roomy(50) };
    for fast_retransmit in [FastRetransmit::Off, FastRetransmit::Auto] {
        let config = Config { fast_retransmit, ..Config::default() };
        let mut pair = Pair::<Tcp>::new(&config, setup.clone());
        pair.on_packet(lose_first(&[4, 7]));
        pair.open(0, 1, 50 * 1460);
        pair.run_to_end(SECOND);
        let resent: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.retransmission).filter_map(data).collect();
        assert_eq!((resent, timeouts(&pair)), (vec![4, 7], vec![1]));
    }
}

/// Drop-tail with a buffer of B packets, and P packets in flight on the line: the window oscillates between (P + B)/2 and P + B. The
/// line is always busy if B >= P; otherwise its utilisation follows from the sawtooth.
#[test]
fn a_sawtooth_fills_the_line_if_the_buffer_holds_a_round_trip() {
    // 10 Gb/s, 1.2 us per packet; 60 us one way and 60 back: 100 packets.
    let line = 100.0;
    for (buffer, least, most) in [(110, 0.995, 1.0), (12, 0.80, 0.87)] {
        let setup = PairSetup {
            memory: Memory::PerPort(Bytes::new(buffer * 1500)),
            delay: Duration::from_us(60),
            log: false,
            ..PairSetup::default()
        };
        let config = Config { max_window: 65_536, initial_window: 10, rto_min: Duration::from_ms(10), ..Config::default() };
        let mut pair = Pair::<Tcp>::new(&config, setup);
        let packets = 300_000;
        let flow = pair.open(0, 1, packets * 1460);
        pair.run_to_end(FOREVER);
        let used = packets as f64 * 1.2 / pair.flow(flow).fct().as_us_f64();
        let top: f64 = line + buffer as f64;
        let sawtooth = if top / 2.0 >= line {
            1.0
        } else {
            // Per cycle: 3/8 top^2 packets; below the line's P a round trip each, above it W/P of one.
            let trips = line - top / 2.0 + (top * top - line * line) / (2.0 * line);
            0.375 * top * top / line / trips
        };
        assert!((least..=most).contains(&used), "B = {buffer}: {used:.3}, by the sawtooth {sawtooth:.3}");
        assert!((used - sawtooth.min(1.0)).abs() < 0.03, "B = {buffer}: {used:.3}, by the sawtooth {sawtooth:.3}");
    }
}

/// The square-root law: 1.31/sqrt(p) packets per round trip where losses are random and every packet is acknowledged (M. Mathis et al.,
/// CCR 27(3), 1997, table 1; periodic losses would give 1.22).
#[test]
fn random_loss_gives_the_square_root_laws_throughput() {
    // With windows of a dozen packets, the round trip of each recovery matters, and some losses need the timer.
    for (loss, packets, least) in [(1e-3, 700_000_u64, 0.95), (1e-2, 100_000, 0.8)] {
        let mut pair = Pair::<Tcp>::new(&patient(), PairSetup { log: false, ..roomy(1000) });
        let faults = Faults { loss, ..Faults::default() };
        let mut hook = faults.hook(7);
        pair.on_packet(move |sent| if data(sent).is_some() { hook(sent) } else { Fate::Pass });
        let flow = pair.open(0, 1, packets * 1460);
        pair.run_to_end(FOREVER);
        let per_trip = packets as f64 / (pair.flow(flow).fct().as_us_f64() / 2001.2);
        let law = 1.31 / loss.sqrt();
        assert!((least..=1.05).contains(&(per_trip / law)), "p = {loss}: {per_trip:.1} packets per round trip, law {law:.1}");
    }
}

/// Senders that answer at once overflow a shallow port, and whole windows wait for the timer.
#[test]
fn incast_collapses_when_the_windows_outgrow_port_and_line() {
    let goodput_gbps = |senders: u32| {
        let setup =
            PairSetup { hosts: senders as usize + 1, memory: Memory::PerPort(Bytes::new(64 * 1500)), ..PairSetup::default() };
        let config = Config { initial_window: 10, ..patient() };
        let mut pair = Pair::<Tcp>::new(&config, setup);
        let flows: Vec<FlowId> = (1..=senders).map(|sender| pair.open(sender, 0, 14_600)).collect();
        pair.run_to_end(FOREVER);
        let slowest = flows.iter().map(|flow| pair.flow(*flow).fct()).max().unwrap();
        f64::from(senders) * 14_600.0 * 8.0 / slowest.as_us_f64() / 1000.0
    };
    assert!(goodput_gbps(6) > 9.0);
    assert!(goodput_gbps(20) < 0.3);
}

#[test]
fn a_further_connection_takes_a_round_trip_if_it_must_be_opened() {
    let config = Config { handshake: true, ..Config::default() };
    let mut pair = Pair::<Dctcp>::new(&config, roomy(50));
    let first = pair.open(0, 1, 1460);
    let second = pair.open(0, 1, 1460);
    pair.run_to_end(SECOND);
    let wait = pair.flow(second).fct() - pair.flow(first).fct();
    // Request and answer of 40 B, both behind nothing but a packet.
    assert!((wait.as_us_f64() - 100.0).abs() < 2.0, "{wait}");
    // Idle connections are used again.
    let third = pair.open(0, 1, 1460);
    pair.run_to_end(SECOND);
    assert_eq!(pair.flow(third).fct(), pair.flow(first).fct());
}

/// A connection keeps its window for its next flow, and loses it when it is idle.
#[test]
fn the_next_flow_starts_with_the_window_that_the_last_one_left() {
    let config = Config { initial_window: 2, rto_min: Duration::from_ms(20), ..patient() };
    let mut pair = Pair::<Tcp>::new(&config, roomy(1000));
    pair.open(0, 1, 30 * 1460); // 2 + 4 + 8 + 16: leaves a window of 16 or more
    let end = pair.run_to_end(SECOND);
    let burst = |pair: &mut Pair<Tcp>| {
        let before = pair.sent().iter().filter(|sent| data(sent).is_some()).count();
        let now = pair.now();
        pair.open(0, 1, 100 * 1460);
        pair.run(now + Duration::from_us(1900));
        let burst = pair.sent().iter().filter(|sent| data(sent).is_some()).count() - before;
        pair.run_to_end(FOREVER);
        burst
    };
    assert!(burst(&mut pair) >= 16, "at {end}");
    let idle = pair.now() + Duration::from_ms(300);
    pair.open_flow(flowloom_core::Flow { id: FlowId(2), start: idle, ..pair.flow(FlowId(0)).flow });
    pair.run(idle + Duration::from_us(1900));
    let after_idling = pair.sent().iter().filter(|sent| sent.at >= idle && data(sent).is_some()).count();
    assert_eq!(after_idling, 2);
}

/// RFC 8257 §3.2 with an acknowledgement for every second packet: a change of marking is acknowledged at once, so that the sender
/// counts the marks exactly.
#[test]
fn delayed_acknowledgements_echo_marks_exactly() {
    let config = Config { ack_every: 2, ..Config::default() };
    let mut pair = Pair::<Dctcp>::new(&config, roomy(50));
    pair.open(0, 1, 60 * 1460);
    pair.run_to_end(SECOND);
    let acks = |pair: &Pair<Dctcp>| -> Vec<(bool, u32)> {
        let ack = |sent: &SentPacket<Header>| match sent.packet.header {
            Header::Ack { echo, cumulative, .. } => Some((echo, cumulative)),
            _ => None,
        };
        pair.sent().iter().filter_map(ack).collect()
    };
    assert_eq!(acks(&pair), (1..=30).map(|n| (false, 2 * n)).collect::<Vec<_>>());

    // 70 packets are handed to the NIC at once. The first one leaves at once, and the NIC marks those that make its queue longer than 21.
    let marking =
        Config { nic: crate::disciplines::EcnConfig { mark_above: Some(Bytes::new(31_500)), ..config.nic }, ..config.clone() };
    let mut pair = Pair::<Dctcp>::new(&marking, roomy(50));
    pair.open(0, 1, 70 * 1460);
    pair.run_to_end(SECOND);
    let mut covered = 0;
    for (echo, cumulative) in acks(&pair) {
        let marked = |number: u32| number >= 22;
        assert!((covered..cumulative).all(|number| marked(number) == echo), "{covered}..{cumulative}: {echo}");
        covered = cumulative;
    }
    assert_eq!(covered, 70);
}

#[test]
fn a_lone_packet_is_acknowledged_when_the_delay_is_over() {
    let config = Config { ack_every: 4, ack_delay: Duration::from_us(300), initial_window: 2, ..Config::default() };
    let mut pair = Pair::<Tcp>::new(&config, roomy(50));
    pair.open(0, 1, 14_600);
    let end = pair.run_to_end(SECOND);
    // Windows of 2 and 3 with a wait each, then 4: an acknowledgement at once.
    assert!(timeouts(&pair).is_empty());
    assert!((Duration::from_us(900)..Duration::from_us(1300)).contains(&(end - Time::ZERO)), "{end}");
}

/// Every packet of a sender that answers marks is ECN-capable, also acknowledgements and requests; NewReno's packets are not.
#[test]
fn all_or_no_packets_are_ecn_capable() {
    fn capable<T: Transport<Header = Header, Config = Config>>() -> Vec<bool> {
        let mut pair = Pair::<T>::new(&Config { handshake: true, connections: 0, ..Config::default() }, PairSetup::default());
        pair.open(0, 1, 3 * 1460);
        pair.run_to_end(SECOND);
        pair.sent().iter().map(|sent| sent.packet.ecn != flowloom_core::Ecn::NotCapable).collect()
    }
    assert_eq!(capable::<Dctcp>(), [true; 8]);
    assert_eq!(capable::<Tcp>(), [false; 8]);
}

/// Forged acknowledgements cause no panic and change nothing.
#[test]
fn claims_of_what_was_never_sent_are_ignored() {
    let mut pair = Pair::<Tcp>::new(&Config::default(), PairSetup::default());
    let flow = pair.open(0, 1, 1_000_000);
    pair.run(at_us(10));
    let mut host = super::Host::new(
        &Config::default(),
        super::controllers::Kind::NewReno,
        &flowloom_core::Site {
            node: flowloom_core::NodeId(0),
            network: pair.network(),
            wire: flowloom_core::WireProfile::IP_1500,
            seed: 1,
            reorders: false,
            paths: None,
        },
    );
    use flowloom_core::Endpoint;
    host.open(Time::ZERO, &pair.flow(flow).flow);
    let sent = std::iter::from_fn(|| host.poll_transmit(Time::ZERO)).count();
    assert_eq!(sent, 70);
    for header in [
        Header::Ack { echo: true, cumulative: u32::MAX, blocks: super::Blocks::NONE },
        Header::Ack { echo: false, cumulative: 0, blocks: super::Blocks::new(0, [500..600, 69..71].into_iter()) },
        Header::SynAck,
    ] {
        let packet = flowloom_core::Packet { src: flowloom_core::NodeId(1), header, ..pair.sent()[0].packet };
        host.handle_packet(at_us(20), &packet);
        assert!(host.poll_transmit(at_us(20)).is_none() && host.poll_event().is_none(), "{header:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_flow_survives_whatever_the_network_does(
        trial in trials(),
        sack in any::<bool>(),
        ack_every in 1_u32..4,
        handshake in any::<bool>(),
        on in any::<bool>(),
        rules in 0_usize..3,
    ) {
        // The RFCs', those of the PIAS authors' simulator, and Linux's.
        let rules = [
            Config::default(),
            Config {
                reuse: Reuse::Reset,
                growth_under_marks: MarkedGrowth::AfterFirst,
                timeout_after_cut: TimeoutAfterCut::Keep,
                window_validation: false,
                rto_rule: RtoRule::Fixed,
                ..Config::default()
            },
            Config {
                reuse: Reuse::Decay,
                growth_under_marks: MarkedGrowth::NextWindow,
                timeout_after_cut: TimeoutAfterCut::OncePerWindow,
                rto_rule: RtoRule::Linux,
                ..Config::default()
            },
        ][rules].clone();
        let fast_retransmit = if on { FastRetransmit::On } else { FastRetransmit::Off };
        let rto_max = Duration::from_ms(50);
        let config = Config { sack, ack_every, handshake, fast_retransmit, rto_max, ..rules };
        trial.clone().survive::<Tcp>(&config);
        trial.survive::<Dctcp>(&config);
    }
}
