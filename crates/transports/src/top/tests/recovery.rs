//! Lost packets, and what is sent again.

use flowloom_core::{FlowId, NodeId, Switching, topology};
use flowloom_fabric::Outage;
use flowloom_fabric::pair::Fate;

use super::*;

/// Loses the packets of a kind whose numbers, counted from 1, are given.
fn lose(pair: &mut Pair<Top>, kind: fn(&SentPacket<Header>) -> bool, which: &'static [u32]) {
    let mut seen = 0;
    pair.on_packet(move |sent| {
        seen += u32::from(kind(sent));
        if kind(sent) && which.contains(&seen) { Fate::Drop } else { Fate::Pass }
    });
}

/// What is sent in all, and how late that makes the flow, if the first packets of a kind are lost. Where the size is known, a lost FIN costs tokens
/// only. Where it is not, the flow is not complete without it.
#[test]
fn lost_signals_are_repeated() {
    let retry = Duration::from_us(100);
    let none = Duration::ZERO;
    for (priority, kind, lost, late, sent) in [
        (Priority::Size, is_sync as fn(&SentPacket<Header>) -> bool, &[1][..], retry, [2, 1, 1]),
        (Priority::Size, is_sync, &[1, 2], retry * 3, [3, 1, 1]),
        (Priority::Size, is_fin, &[1], none, [1, 1, 1]),
        (Priority::Size, is_ack, &[1], none, [1, 2, 2]),
        (Priority::Attained, is_sync, &[1], retry, [2, 1, 1]),
        (Priority::Attained, is_fin, &[1], retry, [1, 2, 1]),
        (Priority::Attained, is_fin, &[1, 2], retry * 3, [1, 3, 1]),
        (Priority::Attained, is_ack, &[1], none, [1, 2, 2]),
    ] {
        let mut pair = pair(&Config { priority, ..constant() });
        lose(&mut pair, kind, lost);
        let id = pair.open(0, 1, 20 * 1460);
        pair.run_to_end(SECOND);
        let fin = if priority == Priority::Attained { CONTROL } else { none };
        let found = pair.flow(id).fct();
        let expected = alone(20 * 1460) + late + fin;
        // The first FIN waits for the last packet, the repeated ones do not.
        assert!(found <= expected && expected <= found + FULL + CONTROL, "{priority:?}: {found}, {expected}");
        assert_eq!([is_sync, is_fin, is_ack].map(|kind| count(&pair, kind)), sent, "{priority:?} {lost:?}");
        assert_eq!(count(&pair, is_data), 20);
    }
}

/// The FIN of a flow of one packet overtakes it. The flow is complete when the packet comes, and nothing is repeated.
#[test]
fn a_fin_may_come_first() {
    let late = Duration::from_us(5);
    let mut pair = pair(&Config { priority: Priority::Attained, ..constant() });
    pair.on_packet(move |sent| if is_data(sent) { Fate::Delay(late) } else { Fate::Pass });
    let id = pair.open(0, 1, 1460);
    pair.run_to_end(SECOND);
    // The harness delays a packet by a picosecond more than it is told to.
    assert_eq!(pair.flow(id).fct(), alone(1460) + late + Duration::from_ps(1));
    assert_eq!([is_sync, is_data, is_fin, is_ack].map(|kind| count(&pair, kind)), [1, 1, 1, 1]);
}

/// Packets in the middle are lost. When the fourth packet after one of them has come, the receiver asks for it, and it is the only one that is sent
/// again.
#[test]
fn missing_packets_are_asked_for_one_by_one() {
    for priority in [Priority::Size, Priority::Attained] {
        let mut pair = pair(&Config { priority, ..constant() });
        lose(&mut pair, is_data, &[11, 12, 15]);
        pair.open(0, 1, 100 * 1460);
        pair.run_to_end(SECOND);
        assert_eq!([is_nack, is_data, is_sync].map(|kind| count(&pair, kind)), [3, 103, 1]);
        let again = pair.sent().iter().filter(|sent| is_data(sent) && sent.packet.retransmission);
        let numbers: Vec<u64> = again.map(|sent| sent.packet.offset.get() / 1460).collect();
        assert_eq!(numbers, [10, 11, 14]);
        let nacks: Vec<Time> = pair.sent().iter().filter(|sent| is_nack(sent)).map(|sent| sent.at).collect();
        // The receiver knows that 10 and 11 are lost when 15 has come (14 would have told of 10), and that 14 is when 18 has.
        let arrives = |number: u64| {
            let first = pair.sent().iter().find(|sent| is_data(sent) && sent.packet.offset.get() == number * 1460);
            first.expect("it was sent").at + FULL + DELAY
        };
        assert_eq!(nacks, [arrives(15), arrives(15) + CONTROL, arrives(18)]);
    }
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
    assert_eq!((count(&pair, is_nack), count(&pair, is_data)), (2, 101));
}

/// The last packet is lost. No packet comes after it, so the repeated FIN asks for it.
#[test]
fn a_lost_last_packet_is_found_by_the_repeated_fin() {
    for priority in [Priority::Size, Priority::Attained] {
        let mut pair = pair(&Config { priority, ..constant() });
        lose(&mut pair, is_data, &[100]);
        let id = pair.open(0, 1, 100 * 1460);
        pair.run_to_end(SECOND);
        assert_eq!([is_sync, is_data, is_nack, is_ack].map(|kind| count(&pair, kind)), [2, 101, 1, 1]);
        let late = pair.flow(id).fct() - alone(100 * 1460);
        let expected = Duration::from_us(100) + (CONTROL + DELAY) * 4;
        assert!((expected..=expected + CONTROL * 4).contains(&late), "{late}, {expected}");
    }
}

/// The sender goes down in the middle of a flow. The receiver sends tokens for a while and then forgets the flow.
#[test]
fn tokens_for_a_sender_that_is_gone_end() {
    let at = |us: u64| Time::ZERO + Duration::from_us(us);
    let outages = vec![Outage { node: NodeId(0), from: at(100), to: at(200) }];
    let mut pair = Pair::<Top>::new(&Config::default(), PairSetup { outages, log: false, ..setup() });
    let gone = pair.open(0, 1, 1000 * 1460);
    pair.run(at(300));
    assert_eq!(pair.host(1).receiver.tokens.len(), 1);
    let later = pair.open(0, 1, 50 * 1460);
    pair.run_to_end(SECOND);
    assert!(pair.flow(gone).aborted.is_some() && pair.flow(later).received.is_some());
    assert_eq!(pair.host(1).receiver.tokens.len(), 0);
}

/// A hundred flows of all sizes over one link between switches, and one of a hundred tokens is lost: the mean slowdown grows by less than a tenth.
#[test]
fn lost_tokens_cost_little() {
    let mean_slowdown = |lost: u32| {
        let network =
            topology::dumbbell(8, Rate::from_gbps(10), Rate::from_gbps(10), Duration::from_us(4), Switching::StoreAndForward);
        let config = Config { clock_error: Duration::ZERO, ..Config::default() };
        let mut pair = Pair::<Top>::new(&config, PairSetup { network: Some(network), log: false, ..setup() });
        let mut tokens = 0_u32;
        pair.on_packet(move |sent| {
            tokens += u32::from(is_token(sent));
            // A stride that is not a multiple of anything.
            if is_token(sent) && tokens.wrapping_mul(2_654_435_761) >> 16 < lost { Fate::Drop } else { Fate::Pass }
        });
        let sizes = [1_u64, 2, 3, 5, 8, 20, 50, 150];
        let mut now = Time::ZERO;
        for id in 0..400_u32 {
            pair.run(now);
            let bytes = sizes[(id.wrapping_mul(2_654_435_761) >> 29) as usize] * 1460;
            pair.open(id % 8, 8 + (id / 8 + id) % 8, bytes);
            now += Duration::from_us(55);
        }
        pair.run_to_end(SECOND);
        let slowdowns = (0..400).map(|id| {
            let flow = pair.flow(FlowId(id));
            let path = pair.network().path(flow.flow.src, flow.flow.dst);
            flow.fct().as_us_f64() / pair.network().flow_time(&path, flow.flow.size, &WIRE).as_us_f64()
        });
        slowdowns.sum::<f64>() / 400.0
    };
    let (none, some) = (mean_slowdown(0), mean_slowdown(655));
    assert!(some < none * 1.1, "{none} and {some}");
    assert!(some != none, "tokens are lost");
}
