//! Which messages are granted to, and how much.

use std::collections::BTreeMap;

use flowloom_core::Event;
use proptest::prelude::*;

use super::*;

/// A long message has the lowest level while it is alone. A shorter one that comes has a higher one, and takes the time that it takes
/// alone and a packet's time at most, because one of the long message's packets may be on the link. Its sender's last packet leaves when
/// the long message has the lowest level again.
#[test]
fn the_receiver_serves_the_shortest_first() {
    let mut pair = pair(&Config::default());
    pair.open_flow(flow(0, 0, 2, 200, Duration::ZERO));
    pair.open_flow(flow(1, 1, 2, 40, Duration::from_us(50)));
    pair.run_to_end(SECOND);
    let expected: Vec<u8> = [vec![0; 3], vec![6; 37]].concat();
    assert_eq!(levels(&pair, 1), expected);
    assert!(levels(&pair, 0)[3..].iter().all(|level| *level == 7));
    let (short, alone) = (pair.flow(FlowId(1)).fct(), PACKET * 40 + DELAY);
    assert!(short >= alone && short <= alone + PACKET, "{short} against {alone} alone");
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET * 240 + DELAY, "the receiver's link never idles");
}

/// Three messages of different lengths have the lowest three of the levels, the shortest the highest of them. With two scheduled levels,
/// 6 and 7, the two best messages share the first.
#[test]
fn messages_have_the_lowest_levels_in_order_of_length() {
    for (unscheduled, expected) in [(1, [5, 6, 7]), (6, [6, 6, 7])] {
        let cutoffs = vec![Bytes::new(1_000_000_000); usize::from(unscheduled) - 1];
        let config = Config { unscheduled_levels: unscheduled, cutoffs, overcommitment: 3, ..Config::default() };
        let mut pair = pair(&config);
        for (id, packets) in [(0, 100), (1, 200), (2, 300)] {
            pair.open_flow(flow(id, id, 3, packets, Duration::ZERO));
        }
        pair.run_to_end(SECOND);
        // All messages are known when each has had six packets sent.
        let found = [0, 1, 2].map(|id| levels(&pair, id)[6]);
        assert_eq!(found, expected);
    }
}

/// Two hosts have 40 and 60 packets for one receiver. After 10 us, the first host has a shorter message of 20 packets for another host, which
/// takes its link until 34 us. The receiver grants to one message only, that of 40 packets. The last packet that was sent for it leaves the
/// switch at 11.3 us, behind the six blind packets, and the next one comes there at 34.5 us. So the receiver's link idles for 23.2 us
/// although the second host could send. With two messages it never idles: all 100 packets take 120 us, and the way of the first bit 1 us.
#[test]
fn overcommitment_uses_the_link_while_a_sender_is_busy_elsewhere() {
    for (overcommitment, idle) in [(1, Duration::from_ns(23_200)), (2, Duration::ZERO)] {
        let mut pair = pair(&Config { overcommitment, ..Config::default() });
        pair.open_flow(flow(0, 0, 2, 40, Duration::ZERO));
        pair.open_flow(flow(1, 1, 2, 60, Duration::from_ns(500)));
        pair.open_flow(flow(2, 0, 3, 20, Duration::from_us(10)));
        pair.run_to_end(SECOND);
        let last = [0, 1].map(|id| pair.flow(FlowId(id)).received.expect("done")).into_iter().max();
        assert_eq!(last, Some(Time::ZERO + PACKET * 100 + DELAY + idle));
    }
}

/// Two messages of one sender, and then one of another, which is the longest. Of two messages that are granted to, it is the second if the
/// two must have different senders, and none otherwise.
#[test]
fn one_message_of_each_sender_is_granted_to() {
    for one_per_sender in [true, false] {
        let mut pair = pair(&Config { overcommitment: 2, one_per_sender, ..Config::default() });
        for (id, src, packets, start_us) in [(0, 0, 70, 0), (1, 0, 60, 5), (2, 1, 100, 10)] {
            pair.open_flow(flow(id, src, 2, packets, Duration::from_us(start_us)));
        }
        pair.run(Time::ZERO + Duration::from_us(40));
        let granted = pair.sent().iter().filter(|sent| is_grant(sent) && sent.packet.flow == FlowId(2)).count();
        assert_eq!(granted > 0, one_per_sender, "{granted}");
    }
}

/// Messages, packets and ends as an observer sees them on the wire.
#[derive(Default)]
struct Ledger {
    granted: u64,
    received: u64,
    unscheduled: u64,
}

impl Ledger {
    fn scheduled_outstanding(&self) -> u64 {
        self.granted.saturating_sub(self.received.max(self.unscheduled))
    }
}

/// Replays what one receiver granted and what arrived, and asserts after each grant that no message has more than a window outstanding,
/// and that all together have at most `most` packets outstanding beside their unscheduled packets.
fn check_outstanding(pair: &Pair<Homa>, receiver: NodeId, most: u64) -> Result<(), TestCaseError> {
    let mut ledgers: BTreeMap<FlowId, Ledger> = BTreeMap::new();
    let arrivals = pair.events().iter().filter_map(|(at, node, event)| match event {
        Event::Delivered { flow, .. } if *node == receiver => Some((*at, 0, *flow, 0)),
        _ => None,
    });
    let grants = pair.sent().iter().filter(|sent| sent.packet.src == receiver).filter_map(|sent| match sent.packet.header {
        Header::Grant { end, .. } => Some((sent.at, 1, sent.packet.flow, u64::from(end))),
        _ => None,
    });
    let mut all: Vec<_> = arrivals.chain(grants).collect();
    all.sort_unstable();
    for (at, what, flow, end) in all {
        let packets = pair.flow(flow).flow.size.pieces(Bytes::new(1460));
        let unscheduled = packets.min(WINDOW as u64);
        let ledger = ledgers.entry(flow).or_insert(Ledger { granted: unscheduled, received: 0, unscheduled });
        if what == 0 {
            ledger.received += 1;
            continue;
        }
        ledger.granted = end;
        prop_assert!(ledger.granted - ledger.received <= WINDOW as u64, "{:?} at {}", flow, at);
        let outstanding: u64 = ledgers.values().map(Ledger::scheduled_outstanding).sum();
        prop_assert!(outstanding <= most, "{} at {}", outstanding, at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Whatever the traffic, each message has at most a window outstanding, and all together as many windows as are granted to, if the
    /// total is limited. No message is forgotten.
    #[test]
    fn no_more_is_granted_than_the_overcommitment_allows(
        overcommitment in 1_u8..6,
        one_per_sender in any::<bool>(),
        remaining in any::<bool>(),
        limit_total in any::<bool>(),
        messages in prop::collection::vec((0_u32..4, 1_u32..4, 1_u64..80, 0_u64..100), 1..30),
    ) {
        let assignment = if remaining { Assignment::Remaining } else { Assignment::Size };
        let config = Config { overcommitment, one_per_sender, limit_total, assignment, ..Config::default() };
        let memory = flowloom_core::Memory::PerPort(Bytes::new(1 << 30));
        let mut pair = Pair::<Homa>::new(&config, PairSetup { hosts: 4, memory, ..PairSetup::default() });
        for (id, (src, hop, packets, start_us)) in (0..).zip(messages) {
            pair.open_flow(flow(id, src, (src + hop) % 4, packets, Duration::from_us(start_us)));
        }
        pair.run_to_end(SECOND);
        prop_assert_eq!(count(&pair, is_resend), 0, "nothing was lost");
        for receiver in 0..4 {
            let most = if limit_total { u64::from(overcommitment) * WINDOW as u64 } else { u64::MAX };
            check_outstanding(&pair, NodeId(receiver), most)?;
        }
    }
}
