//! ExpressPass between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, NodeId, Rate, Time, WireProfile};
use flowloom_fabric::Outage;
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{Config, ExpressPass, Feedback, Header};
use crate::trial::{self, assail, attacks, trials, wire_format_holds};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A control packet or a credit: 84 B at 10 Gb/s.
const CONTROL: Duration = Duration::from_ps(67_200);
/// A full packet: 1538 B.
const FULL: Duration = Duration::from_ps(1_230_400);
/// The gap between credits at full rate: 84 B and 1538 B.
const SLOT: Duration = Duration::from_ps(1_297_600);
const DELAY: Duration = Duration::from_us(1);
const WIRE: WireProfile = WireProfile::ETHERNET_1538;

/// Credits of one size at equal gaps.
fn even() -> Config {
    Config { jitter: 0.0, credit_spread: Bytes::ZERO, ..Config::default() }
}

/// Credits at a constant rate, that of the link: there is nothing to find out.
fn constant() -> Config {
    Config { feedback: Feedback::Released, alpha: 1.0, ramp_packets: 1, ..even() }
}

fn setup() -> PairSetup {
    PairSetup { hosts: 4, wire: WIRE, ..PairSetup::default() }
}

fn pair(config: &Config) -> Pair<ExpressPass> {
    Pair::new(config, setup())
}

fn is_request(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Request { .. })
}
fn is_credit(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Credit { .. })
}
fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}
fn is_stop(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Stop { .. })
}
fn is_nack(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Nack { .. })
}
fn is_ack(sent: &SentPacket<Header>) -> bool {
    sent.packet.header == Header::Ack
}

fn count(pair: &Pair<ExpressPass>, kind: fn(&SentPacket<Header>) -> bool) -> usize {
    pair.sent().iter().filter(|sent| kind(sent)).count()
}

/// Loses the packets of a kind whose numbers, counted from 1, are given.
fn lose(pair: &mut Pair<ExpressPass>, kind: fn(&SentPacket<Header>) -> bool, which: &'static [u32]) {
    let mut seen = 0;
    pair.on_packet(move |sent| {
        seen += u32::from(kind(sent));
        if kind(sent) && which.contains(&seen) { Fate::Drop } else { Fate::Pass }
    });
}

/// A request, a credit, and then one packet per slot; the last one may be shorter.
fn alone(size: u64) -> Duration {
    let packets = WIRE.packets(Bytes::new(size));
    let last = WIRE.data_size(WIRE.payload_of(Bytes::new(size), packets - 1));
    (CONTROL + DELAY) * 2 + SLOT * (packets - 1) + Rate::from_gbps(10).transmit_time(last) + DELAY
}

#[test]
fn unloaded_times_are_the_closed_form() {
    for early_stop in [false, true] {
        for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000, 1_000_000, 20_000_000] {
            let config = Config { early_stop, ..constant() };
            let mut pair = Pair::<ExpressPass>::new(&config, PairSetup { log: false, ..setup() });
            let id = pair.open(0, 1, size);
            pair.run_to_end(SECOND);
            assert_eq!(pair.flow(id).fct(), alone(size), "{size} B, {early_stop}");
            let told = pair.flow(id).acknowledged.expect("done") - pair.flow(id).received.expect("done");
            // A credit may be leaving when the last packet arrives.
            assert!((CONTROL + DELAY..=CONTROL * 2 + DELAY).contains(&told), "{size} B: {told}");
            assert_eq!(pair.dropped(), []);
        }
    }
}

/// The round trip is longer than the flow, so nothing changes the rate at which a flow of 20 packets starts: half of the link's, and half of
/// that where flows of fewer than 40 packets start slower.
#[test]
fn the_first_round_trip_has_the_initial_rate() {
    let delay = Duration::from_us(60);
    for (ramp_packets, packets, gap) in [(40, 20, SLOT * 4), (40, 40, SLOT * 2), (1, 20, SLOT * 2), (1, 1, SLOT)] {
        let config = Config { ramp_packets, ..even() };
        let mut pair = Pair::<ExpressPass>::new(&config, PairSetup { delay, ..setup() });
        let id = pair.open(0, 1, packets * 1460);
        pair.run_to_end(SECOND);
        assert_eq!(pair.flow(id).fct(), (CONTROL + delay) * 2 + gap * (packets - 1) + FULL + delay, "{packets} packets");
    }
}

/// A round trip after the last packet's credit, the packet is there, and the credits end. Two slots fit into this round trip:
/// 2 × 1 us + 67.2 ns + 1230.4 ns. An early stop leaves one of them.
#[test]
fn credits_that_the_sender_cannot_use_are_few() {
    for (early_stop, wasted) in [(false, 2), (true, 1)] {
        let mut pair = pair(&Config { early_stop, ..constant() });
        pair.open(0, 1, 100 * 1460);
        pair.run_to_end(SECOND);
        let found = [is_request, is_data, is_stop, is_nack, is_ack].map(|kind| count(&pair, kind));
        assert_eq!((found, count(&pair, is_credit)), ([1, 100, 1, 0, 1], 100 + wasted), "{early_stop}");
    }
}

/// The sender stops the credits when a round trip has brought as many as there are packets left, and then the last of those under way are
/// lost. It asks again for the last packet.
#[test]
fn a_sender_whose_early_stop_fell_short_asks_again() {
    let mut pair = pair(&Config { early_stop: true, ..constant() });
    pair.on_packet(|sent| match sent.packet.header {
        Header::Credit { credit, .. } if credit >= 99 => Fate::Drop,
        _ => Fate::Pass,
    });
    let id = pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!((count(&pair, is_request), count(&pair, is_data), count(&pair, is_stop)), (2, 100, 2));
    let late = pair.flow(id).fct() - alone(100 * 1460);
    // The last two packets that had credits left within two round trips of requests before the sender asks; then come a request and a credit.
    let rtt = (CONTROL + DELAY) * 2;
    assert!((rtt..=rtt * 3).contains(&late), "{late}");
}

/// In the pool, a packet and the 8 B beside it share a cache line.
#[test]
fn a_packet_fits_a_cache_line() {
    assert!(size_of::<flowloom_core::Packet<Header>>() <= 64 - 8);
}

/// Each packet answers one credit and repeats its number and its time.
#[test]
fn data_answers_credits_one_by_one() {
    let mut pair = pair(&Config::default());
    pair.open(0, 1, 500 * 1460);
    pair.run_to_end(SECOND);
    let credits: Vec<(u32, Time)> = pair
        .sent()
        .iter()
        .filter_map(|sent| if let Header::Credit { credit, sent } = sent.packet.header { Some((credit, sent)) } else { None })
        .collect();
    let answers: Vec<(u32, Time)> = pair
        .sent()
        .iter()
        .filter_map(|sent| if let Header::Data { credit, sent, .. } = sent.packet.header { Some((credit, sent)) } else { None })
        .collect();
    assert_eq!(answers.len(), 500);
    assert!(answers.is_sorted_by_key(|(credit, _)| *credit) && answers.iter().all(|answer| credits.contains(answer)));
}

/// Sizes are uniform from 76 to 92 B, gaps within 10 %.
#[test]
fn credits_differ_in_size_and_gap() {
    let w = 1e-9; // the rate stays
    let mut pair = pair(&Config { w_init: w, w_min: w, w_max: w, early_stop: false, ..Config::default() });
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    // The NIC may delay a credit behind another packet, so the gaps are those of the times that the credits carry.
    pair.on_packet(move |sent| {
        if let Header::Credit { sent: at, .. } = sent.packet.header {
            log.lock().unwrap().push((at, sent.packet.size_bytes));
        }
        Fate::Pass
    });
    pair.open(0, 1, 4000 * 1460);
    pair.run(SECOND);
    let seen = seen.lock().unwrap();
    let mut sizes: Vec<u32> = seen.iter().map(|(_, size)| *size).collect();
    let mean = f64::from(sizes.iter().sum::<u32>()) / sizes.len() as f64;
    // The standard deviation of the mean of 4000 is 0.08 B.
    assert!((mean - 84.0).abs() < 0.4, "{mean}");
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes, (76..=92).collect::<Vec<_>>());
    let gaps: Vec<f64> = seen.windows(2).map(|two| (two[1].0 - two[0].0).as_ps() as f64 / SLOT.as_ps() as f64).collect();
    assert!(gaps.iter().all(|gap| (1.79..=2.21).contains(gap)), "a gap is wrong");
    let spread = gaps.iter().fold(0.0_f64, |most, gap| most.max((gap - 2.0).abs()));
    assert!(spread > 0.18, "{spread}");
}

/// What is sent in all, and how late that makes the flow, if the first packets of a kind are lost. A lost stop costs credits only, because the
/// receiver acknowledges a complete flow without it.
#[test]
fn lost_signals_are_repeated() {
    let retry = Duration::from_us(100);
    for (kind, lost, late, sent) in [
        (is_request as fn(&SentPacket<Header>) -> bool, &[1][..], retry, [2, 1, 1]),
        (is_request, &[1, 2], retry * 3, [3, 1, 1]),
        (is_stop, &[1], Duration::ZERO, [1, 1, 1]),
        (is_ack, &[1], Duration::ZERO, [1, 2, 2]),
        (is_ack, &[1, 2], Duration::ZERO, [1, 3, 3]),
    ] {
        let mut pair = pair(&Config { early_stop: false, ..constant() });
        lose(&mut pair, kind, lost);
        let id = pair.open(0, 1, 20 * 1460);
        pair.run_to_end(SECOND);
        assert_eq!(pair.flow(id).fct(), alone(20 * 1460) + late);
        assert_eq!([is_request, is_stop, is_ack].map(|kind| count(&pair, kind)), sent);
        assert_eq!(count(&pair, is_data), 20);
    }
}

/// A packet in the middle is lost. The next one tells the receiver, which has the sender go back. The packets that were under way come
/// twice.
#[test]
fn a_gap_makes_the_sender_go_back() {
    let mut pair = pair(&constant());
    lose(&mut pair, is_data, &[10]);
    let id = pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!((count(&pair, is_nack), count(&pair, is_request)), (1, 1));
    // The packet is missed a slot after its time and sent again after a round trip: 3.3 us, in which three credits are answered.
    let again = pair.sent().iter().filter(|sent| is_data(sent) && sent.packet.retransmission).count();
    assert!((2..=4).contains(&again), "{again}");
    // The credit of the lost packet counts as lost, which lowers the rate for a while.
    let (late, least) = (pair.flow(id).fct() - alone(100 * 1460), SLOT * again as u64);
    assert!((least..least + SLOT * 4).contains(&late), "{late}");
}

/// The NACK is lost too. The next packets renew it after two round trips.
#[test]
fn a_lost_nack_is_repeated_while_packets_come() {
    let mut pair = pair(&constant());
    let (mut data, mut nacks) = (0, 0);
    pair.on_packet(move |sent| {
        data += u32::from(is_data(sent));
        nacks += u32::from(is_nack(sent));
        if is_data(sent) && data == 10 || is_nack(sent) && nacks == 1 { Fate::Drop } else { Fate::Pass }
    });
    pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!((count(&pair, is_nack), count(&pair, is_request)), (2, 1));
}

/// The last packet is lost. No packet comes after it, so the repeated stop asks for it.
#[test]
fn a_lost_last_packet_is_found_by_the_repeated_stop() {
    let mut pair = pair(&Config { early_stop: false, ..constant() });
    lose(&mut pair, is_data, &[100]);
    let id = pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    assert_eq!([is_request, is_data, is_nack, is_ack].map(|kind| count(&pair, kind)), [2, 101, 1, 1]);
    // The stop left behind the last packet; 100 us later it is repeated, then come a NACK, a request, a credit and the packet.
    let late = pair.flow(id).fct() - alone(100 * 1460);
    let expected = Duration::from_us(100) + (CONTROL + DELAY) * 4;
    assert!((expected..=expected + CONTROL * 4).contains(&late), "{late}, {expected}");
}

/// From some time on, all credits are lost. After three round trips without data, the receiver sends one credit per round trip. When all
/// credits arrive again, the flow ends.
#[test]
fn a_flow_whose_credits_are_all_lost_falls_to_one_per_round_trip() {
    let mut pair = pair(&Config { feedback: Feedback::Paper, ..even() });
    let (from, to) = (Time::ZERO + Duration::from_us(100), Time::ZERO + Duration::from_ms(100));
    pair.on_packet(move |sent| if is_credit(sent) && (from..to).contains(&sent.at) { Fate::Drop } else { Fate::Pass });
    let id = pair.open(0, 1, 300 * 1460);
    pair.run(from + Duration::from_us(200));
    let in_window = |pair: &Pair<ExpressPass>, from: Time, to: Time| {
        pair.sent().iter().filter(|sent| is_credit(sent) && (from..to).contains(&sent.at)).count()
    };
    let rate = pair.host(1).receiver.credits.rate_of(id).expect("it still gets credits");
    // The round trip is 3.3 us alone; the credits' queue, which the paper's form fills, adds up to eight slots.
    assert!((0.08..=0.4).contains(&rate), "{rate}");
    let late = in_window(&pair, from + Duration::from_us(100), from + Duration::from_us(200));
    let expected = rate * 100_000.0 / 1297.6;
    assert!((late as f64 - expected).abs() <= 1.0, "{late}, {expected}");
    pair.run_to_end(SECOND);
    assert_eq!(count(&pair, is_data), 300);
}

/// The sender goes down in the middle of a flow. The receiver sends credits for a while and then forgets the flow.
#[test]
fn credits_for_a_sender_that_is_gone_end() {
    let at = |us: u64| Time::ZERO + Duration::from_us(us);
    let outages = vec![Outage { node: NodeId(0), from: at(100), to: at(200) }];
    let mut pair = Pair::<ExpressPass>::new(&Config::default(), PairSetup { outages, log: false, ..setup() });
    let gone = pair.open(0, 1, 1000 * 1460);
    pair.run(at(300));
    assert_eq!(pair.host(1).receiver.credits.len(), 1);
    let later = pair.open(0, 1, 50 * 1460);
    let end = pair.run_to_end(SECOND);
    assert!(pair.flow(gone).aborted.is_some() && pair.flow(later).received.is_some());
    assert_eq!(pair.host(1).receiver.credits.len(), 0);
    assert!((at(100 + 51_200)..at(100 + 51_400)).contains(&end), "{end}");
}

fn any_config() -> impl Strategy<Value = Config> {
    let form = prop::sample::select(vec![Feedback::Paper, Feedback::Released]);
    (form, 0.01..1.0, 1_u32..100, 0.0..0.5, 1_u32..10, any::<bool>()).prop_map(
        |(feedback, alpha, ramp_packets, jitter, credit_queue, early_stop)| Config {
            feedback,
            alpha,
            ramp_packets,
            jitter,
            credit_queue,
            early_stop,
            ..even()
        },
    )
}

fn any_header() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![0_u32..12, any::<u32>()];
    let time = || prop_oneof![0_u64..10_000_000, any::<u64>()].prop_map(Time::from_ps);
    prop_oneof![
        (number(), number()).prop_map(|(packets, remaining)| Header::Request { packets, remaining }),
        (number(), time()).prop_map(|(credit, sent)| Header::Credit { credit, sent }),
        (number(), number(), number(), time()).prop_map(|(number, packets, credit, sent)| Header::Data {
            number,
            packets,
            credit,
            sent
        }),
        (number(), any::<bool>()).prop_map(|(packets, again)| Header::Stop { packets, again }),
        number().prop_map(|from| Header::Nack { from }),
        Just(Header::Ack),
    ]
}

fn makes_sense(header: &Header) -> bool {
    match *header {
        Header::Request { packets, remaining } => (1..=packets).contains(&remaining),
        Header::Data { number, packets, .. } => number < packets,
        Header::Stop { packets, .. } => packets > 0,
        _ => true,
    }
}

#[test]
fn the_wire_format_holds() {
    wire_format_holds(any_header().prop_filter("senseless", makes_sense));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or
    /// duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<ExpressPass>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(packets in attacks(WIRE, 2000, any_header())) {
        let own = trial::flow(0, 0, 1, 14_600, Time::ZERO, None);
        assail::<ExpressPass>(&Config::default(), WIRE, &[own], packets)?;
    }
}
