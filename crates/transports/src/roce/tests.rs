//! The numbers of packets, acknowledgements and losses, under DCQCN: nothing is marked here, so packets leave at the rate of the NIC.

use flowloom_core::{Bytes, Duration, Event, FlowId, Memory, Packet, Time};
use flowloom_fabric::pair::{Faults, Pair, PairSetup};

use super::{Kind, Recovery};
use crate::dcqcn::{Config, Dcqcn, Header, Windowed};
use crate::trial::lose;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);
/// One way over the network, which forwards at the first bit.
const DELAY: Duration = Duration::from_us(10);
/// An acknowledgement of 40 B, from its start to its arrival.
const ACK: Duration = Duration::from_ns(10_032);
/// What a full packet carries.
const PAYLOAD: u64 = 1460;

fn pair(config: &Config) -> Pair<Dcqcn> {
    let memory = Memory::PerPort(Bytes::new(4_000_000));
    Pair::new(config, PairSetup { hosts: 3, delay: DELAY, memory, ..PairSetup::default() })
}

fn number(packet: &Packet<Header>) -> Option<u32> {
    match packet.header.kind {
        Kind::Data { number, .. } => Some(number),
        _ => None,
    }
}

/// The data packets that were sent.
fn numbers(pair: &Pair<Dcqcn>) -> Vec<u32> {
    pair.sent().iter().filter_map(|sent| number(&sent.packet)).collect()
}

/// The answers that were sent.
fn answers(pair: &Pair<Dcqcn>) -> Vec<Kind> {
    pair.sent().iter().map(|sent| sent.packet.header.kind).filter(|kind| !matches!(kind, Kind::Data { .. })).collect()
}

fn timeouts(pair: &Pair<Dcqcn>) -> usize {
    pair.events().iter().filter(|(_, _, event)| matches!(event, Event::TimedOut { .. })).count()
}

fn after(span: Duration) -> Time {
    Time::ZERO + span
}

/// Of 10 packets, the 4th, the 8th and the last one ask.
#[test]
fn every_nth_packet_is_acknowledged_and_the_last_one() {
    let mut pair = pair(&Config { ack_every: 4, ..Config::default() });
    let flow = pair.open(0, 1, 10 * PAYLOAD);
    pair.run_to_end(SECOND);
    assert_eq!(answers(&pair), [4, 8, 10].map(|cumulative| Kind::Ack { cumulative }));
    assert_eq!(pair.flow(flow).fct(), PACKET * 10 + DELAY);
    assert_eq!(timeouts(&pair), 0);
}

/// A round trip of 4.8 us has room for four packets in the window; the fifth fills it, so the first to fill it asks. The window is 6,000 B, so a packet may be sent while at most three are
/// under way: packets 0 to 3, of which the last one asks.
#[test]
fn a_packet_that_fills_the_window_asks() {
    let config =
        Config { ack_every: 100, window: Windowed::Fixed, base_rtt: Some(Duration::from_ps(4_800_000)), ..Config::default() };
    let mut pair = pair(&config);
    pair.open(0, 1, 12 * PAYLOAD);
    pair.run_to_end(SECOND);
    assert_eq!(answers(&pair), [4, 8, 12].map(|cumulative| Kind::Ack { cumulative }));
    let round = PACKET + DELAY + ACK;
    let starts: Vec<Time> = pair.sent().iter().filter(|sent| number(&sent.packet).is_some()).map(|sent| sent.at).collect();
    // The next four leave when the answer to the fourth is there.
    assert_eq!(starts[4], after(PACKET * 3 + round));
    assert_eq!(timeouts(&pair), 0);
}

/// Packets 5 and 8 of 60 are lost. The receiver keeps the others, and the sender repeats 5 when it hears of 6, and 8 when it hears of 9, before new packets.
#[test]
fn selective_recovery_repeats_what_is_missing_alone() {
    let mut pair = pair(&Config { recovery: Recovery::Selective, ..Config::default() });
    let mut losses = [5, 8].map(|lost| lose(1, move |packet| number(packet) == Some(lost)));
    pair.on_packet(move |sent| {
        let is_8 = number(&sent.packet) == Some(8);
        losses[usize::from(is_8)](sent)
    });
    let flow = pair.open(0, 1, 60 * PAYLOAD);
    pair.run_to_end(SECOND);
    let sent = numbers(&pair);
    // Packet 6 is at the receiver at 7 × 1.2 + 10 us, and the report at the sender at 28.432 us, when packet 23 is on the wire. That of 9 comes 3.6 us later.
    let expected: Vec<u32> = [(0..24).collect(), vec![5], (24..26).collect(), vec![8], (26..60).collect::<Vec<_>>()].concat();
    assert_eq!(sent, expected);
    assert_eq!(pair.flow(flow).fct(), PACKET * 62 + DELAY);
    assert_eq!(timeouts(&pair), 0);
    let first = answers(&pair).into_iter().find(|kind| matches!(kind, Kind::Nack { .. }));
    assert_eq!(first, Some(Kind::Nack { cumulative: 5, arrived: 6 }));
}

/// A repeated packet is lost as well: only the timer finds that. It sends again what has not arrived, and nothing else.
#[test]
fn a_repeated_packet_that_is_lost_is_found_by_the_timer() {
    let mut pair = pair(&Config { recovery: Recovery::Selective, ..Config::default() });
    pair.on_packet(lose(2, |packet| number(packet) == Some(5)));
    pair.open(0, 1, 40 * PAYLOAD);
    pair.run_to_end(SECOND);
    let sent = numbers(&pair);
    assert_eq!(sent.iter().filter(|number| **number == 5).count(), 3);
    assert_eq!((sent.len(), *sent.last().unwrap(), timeouts(&pair)), (42, 5, 1));
}

/// With one packet in a hundred lost, going back to each sends far more again than repeating it.
#[test]
fn going_back_costs_more_than_repeating() {
    let sent_again = |recovery| {
        let mut pair = pair(&Config { recovery, ..Config::default() });
        pair.on_packet(Faults { loss: 0.01, ..Default::default() }.hook(7));
        let flows: Vec<FlowId> = (0..2).map(|host| pair.open(host, 2, 2_000_000)).collect();
        pair.run_to_end(SECOND);
        assert!(flows.iter().all(|flow| pair.flow(*flow).fct() < Duration::from_ms(60)), "{}", pair.now());
        pair.sent().iter().filter(|sent| sent.packet.retransmission).count()
    };
    let [back, selective] = [Recovery::GoBackN, Recovery::Selective].map(sent_again);
    // 2,740 packets are sent at least, of which 27 are lost; a round trip has 19.
    assert!(selective < 60 && back > 5 * selective, "{back} and {selective}");
}
