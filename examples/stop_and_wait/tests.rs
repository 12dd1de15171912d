//! Stop-and-wait between hosts: by hand, against closed forms, known answers, and survival of whatever a network does.

use flowloom_core::{Bytes, DropReason, Duration, Endpoint, Event, Flow, FlowId, Memory, NodeId, Site, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Config, Header, Host, StopAndWait};
use crate::toolkit::Framing;
use crate::trial::trials;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet, and an acknowledgement, at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);
const ACK: Duration = Duration::from_ns(32);
/// From host to host.
const DELAY: Duration = Duration::from_us(1);

fn pair(config: &Config, setup: PairSetup) -> Pair<StopAndWait> {
    Pair::new(config, setup)
}

fn window(window: u32) -> Config {
    Config { window, ..Config::default() }
}

fn flow(id: u32, src: u32, dst: u32, size: u64, start: Time) -> Flow {
    let (src, dst) = (NodeId(src), NodeId(dst));
    Flow { id: FlowId(id), src, dst, size: Bytes::new(size), start, deadline: None, tenant: 0, coflow: None, background: false }
}

fn is_data(sent: &&SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}

/// By hand: a packet takes 1.2 us to leave and 1 us to arrive; its acknowledgement 32 ns and 1 us; then the next packet leaves.
#[test]
fn the_next_packet_leaves_when_the_last_is_acknowledged() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.open(0, 1, 3 * 1460);
    pair.run_to_end(SECOND);
    let left: Vec<u64> = pair.sent().iter().filter(is_data).map(|sent| sent.at.as_ps()).collect();
    assert_eq!(left, [0, 3_232_000, 6_464_000]);
}

/// Alone, packet k of a window W leaves after k / W round trips and k mod W packets, unless the window never closes.
#[test]
fn an_unloaded_flow_takes_its_round_trips() {
    let round_trip = PACKET + DELAY + ACK + DELAY;
    for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000, 1_000_000] {
        let before_last = Bytes::new(size).pieces(Bytes::new(1460)) - 1;
        let last = Duration::from_ps((size - 1460 * before_last + 40) * 800) + DELAY;
        for config in [window(1), window(2), window(1000)] {
            let open_window = round_trip.as_ps() <= u64::from(config.window) * PACKET.as_ps();
            let rounds = if open_window { 0 } else { before_last / u64::from(config.window) };
            let behind = before_last - rounds * u64::from(config.window);
            let mut pair = pair(
                &config,
                PairSetup { memory: Memory::PerPort(Bytes::new(10_000_000)), log: false, ..PairSetup::default() },
            );
            let flow = pair.open(0, 1, size);
            pair.run_to_end(SECOND);
            assert_eq!(pair.flow(flow).fct(), round_trip * rounds + PACKET * behind + last, "{size} B, {config:?}");
        }
    }
}

#[test]
fn a_gigabyte_takes_its_transmission_time_and_the_delay() {
    let mut pair = pair(&window(16), PairSetup { log: false, ..PairSetup::default() });
    let flow = pair.open(0, 1, 1_000_000_000);
    pair.run_to_end(SECOND);
    // 684,932 packets; 10 Gb/s is 800 ps per byte.
    assert_eq!(pair.flow(flow).fct(), Duration::from_ps((1_000_000_000 + 40 * 684_932) * 800) + DELAY);
}

/// Sent and not yet acknowledged, counted at every transmission: the window fills, and is never exceeded.
#[test]
fn the_window_is_used_and_kept() {
    let mut pair = pair(&window(4), PairSetup { delay: Duration::from_us(50), ..PairSetup::default() });
    pair.open(0, 1, 1460 * 50);
    pair.run_to_end(SECOND);
    let round_trip = PACKET + Duration::from_us(50) + ACK + Duration::from_us(50);
    let times: Vec<Time> = pair.sent().iter().filter(is_data).map(|sent| sent.at).collect();
    let most = times.iter().map(|at| times.iter().filter(|t| **t <= *at && *at < **t + round_trip).count()).max();
    assert_eq!(most, Some(4));
}

#[test]
fn a_lost_packet_is_sent_again_after_the_timeout_and_nothing_else() {
    let mut pair = pair(&window(3), PairSetup::default());
    pair.on_packet(|sent| match sent.packet.header {
        Header::Data { number: 1, .. } if !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    });
    let flow = pair.open(0, 1, 1460 * 6);
    pair.run_to_end(SECOND);
    // 0 to 3 leave back to back: 0 is acknowledged before 2 has left. The last news is of 3, which left at 3.6 us.
    let timeout = Time::ZERO + PACKET * 4 + DELAY + ACK + DELAY + Duration::from_ms(1);
    let again: Vec<(Time, Header)> =
        pair.sent().iter().filter(|sent| sent.packet.retransmission).map(|sent| (sent.at, sent.packet.header)).collect();
    assert_eq!(again, [(timeout, Header::Data { number: 1, packets: 6 })]);
    // Its acknowledgement opens the window for 4 and 5, all at once.
    let rest = PACKET + DELAY + ACK + DELAY + PACKET * 2 + DELAY;
    assert_eq!(pair.flow(flow).received, Some(timeout + rest));
}

#[test]
fn a_lost_acknowledgement_is_repeated_and_no_byte_is_reported_twice() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    let mut lost = false;
    pair.on_packet(move |sent| match sent.packet.header {
        Header::Ack { .. } if !std::mem::replace(&mut lost, true) => Fate::Drop,
        _ => Fate::Pass,
    });
    let flow = pair.open(0, 1, 1460);
    pair.run_to_end(SECOND);
    assert_eq!(pair.flow(flow).fct(), PACKET + DELAY);
    assert_eq!(pair.flow(flow).acknowledged, Some(Time::ZERO + Duration::from_ms(1) + PACKET + DELAY + ACK + DELAY));
    let delivered = pair.events().iter().filter(|(_, _, event)| matches!(event, Event::Delivered { .. })).count();
    assert_eq!(delivered, 1);
}

/// Ten to one: one packet each fits into the port, so the receiver's link never idles and nothing is lost.
#[test]
fn incast_with_a_window_of_one_keeps_the_link_busy() {
    let mut pair = pair(&Config::default(), PairSetup { hosts: 11, ..PairSetup::default() });
    let flows: Vec<FlowId> = (0..10).map(|host| pair.open(host, 10, 1460 * 30)).collect();
    pair.run_to_end(SECOND);
    assert!(pair.dropped().is_empty());
    let last = flows.iter().map(|flow| pair.flow(*flow).fct()).max();
    assert_eq!(last, Some(PACKET * 300 + DELAY));
}

/// The same with windows that exceed the port's 24 packets: what does not fit is dropped, and comes by timeouts.
#[test]
fn incast_with_large_windows_overflows_and_completes() {
    let mut pair = pair(&window(16), PairSetup { hosts: 11, ..PairSetup::default() });
    let flows: Vec<FlowId> = (0..10).map(|host| pair.open(host, 10, 1460 * 30)).collect();
    pair.run_to_end(SECOND);
    assert!(pair.dropped().iter().all(|(_, _, why)| *why == DropReason::Overflow));
    assert!(!pair.dropped().is_empty());
    let last = flows.iter().map(|flow| pair.flow(*flow).fct()).max().unwrap();
    assert!(last > Duration::from_ms(1), "without a timeout by {last}");
}

/// What could be right, or anything.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..12, any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flow completes, and no byte is delivered twice, whatever is lost, late or repeated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(window in 1_u32..20, trial in trials()) {
        trial.survive::<StopAndWait>(&Config { window, ..Config::default() });
    }

    /// On a real network any header may come at any time, about a flow that is sent, received or unknown.
    #[test]
    fn no_header_breaks_a_host(headers in prop::collection::vec((0_u32..3, number(), number()), 1..60)) {
        let pair = pair(&Config::default(), PairSetup::default());
        let wire = WireProfile::IP_1500;
        let mut host = Host::new(&window(4), &Site { node: NodeId(0), network: pair.network(), wire, seed: 1, reorders: false, paths: None });
        host.open(Time::ZERO, &flow(0, 0, 1, 14_600, Time::ZERO));
        let peer = Framing::new(NodeId(1), &wire);
        for (step, (id, number, packets)) in (1..).zip(headers) {
            let header = if number < packets { Header::Data { number, packets } } else { Header::Ack { number } };
            let now = Time::ZERO + PACKET * step;
            host.handle_packet(now, &peer.control(FlowId(id), NodeId(0), header));
            while let Some(packet) = host.poll_transmit(now) {
                prop_assert!(packet.offset + packet.payload() <= Bytes::new(14_600), "{packet:?}");
            }
        }
    }
}
