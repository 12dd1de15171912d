//! Homa between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, Flow, FlowId, NodeId, Time, WireProfile};
use flowloom_fabric::pair::{Pair, PairSetup, SentPacket};

use super::{Assignment, Config, Header, Homa};
use crate::trial::{self, default_text, refused};

mod faults;
mod grants;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A full packet: 1500 B at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);
/// A control packet: 40 B at 10 Gb/s.
const CONTROL: Duration = Duration::from_ns(32);
const DELAY: Duration = Duration::from_us(1);
/// A round trip takes 3.232 us, or 4040 B at 10 Gb/s: 2.7 packets.
const WINDOW: usize = 3;

fn pair(config: &Config) -> Pair<Homa> {
    Pair::new(config, PairSetup { hosts: 4, ..PairSetup::default() })
}

fn flow(id: u32, src: u32, dst: u32, packets: u64, start: Duration) -> Flow {
    trial::flow(id, src, dst, 1460 * packets, Time::ZERO + start, None)
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}
fn is_grant(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Grant { .. })
}
fn is_resend(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Resend { .. })
}
fn is_busy(sent: &SentPacket<Header>) -> bool {
    sent.packet.header == Header::Busy
}
fn is_query(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Query { .. })
}
fn is_ack(sent: &SentPacket<Header>) -> bool {
    sent.packet.header == Header::Ack
}

fn count(pair: &Pair<Homa>, kind: fn(&SentPacket<Header>) -> bool) -> usize {
    pair.sent().iter().filter(|sent| kind(sent)).count()
}

/// The levels of a message's data packets, in the order in which they left.
fn levels(pair: &Pair<Homa>, flow: u32) -> Vec<u8> {
    let data = pair.sent().iter().filter(|sent| is_data(sent) && sent.packet.flow == FlowId(flow));
    data.map(|sent| sent.packet.class).collect()
}

/// A message takes the time of its bytes. It waits for no grant, also if it is long: the first grant arrives before the first packets have
/// left. So there is no gap.
#[test]
fn unloaded_times_are_the_closed_form() {
    for size in [0, 1, 1459, 1460, 1461, 3 * 1460, 3 * 1460 + 1, 100_000, 1_000_000, 100_000_000] {
        let mut pair = Pair::<Homa>::new(&Config::default(), PairSetup { log: false, ..PairSetup::default() });
        let id = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let path = pair.network().path(NodeId(0), NodeId(1));
        let alone = pair.network().flow_time(&path, Bytes::new(size), &WireProfile::IP_1500);
        assert_eq!(pair.flow(id).fct(), alone, "{size} B");
        let acknowledged = pair.flow(id).acknowledged.expect("done");
        assert_eq!(acknowledged, pair.flow(id).received.expect("done") + CONTROL + DELAY, "{size} B");
        assert!(pair.dropped().is_empty());
    }
}

/// With a window of two packets, 2.4 us, the sender idles for the rest of each round trip of 3.232 us: ten packets leave in five pairs.
#[test]
fn a_window_below_a_round_trip_leaves_gaps() {
    let config = Config { rtt_bytes: Bytes::new(3000), ..Config::default() };
    let mut pair = pair(&config);
    pair.open_flow(flow(0, 0, 1, 10, Duration::ZERO));
    pair.run_to_end(SECOND);
    let round_trip = PACKET + CONTROL + DELAY * 2;
    assert_eq!(pair.flow(FlowId(0)).fct(), round_trip * 4 + PACKET * 2 + DELAY);
}

/// One grant for each packet that needs one, and one acknowledgement.
#[test]
fn control_packets_are_as_few_as_the_paper_says() {
    for packets in [1, WINDOW, 20] {
        let mut pair = pair(&Config::default());
        pair.open_flow(flow(0, 0, 1, packets as u64, Duration::ZERO));
        pair.run_to_end(SECOND);
        assert_eq!(
            [count(&pair, is_data), count(&pair, is_grant), count(&pair, is_ack)],
            [packets, packets - packets.min(WINDOW), 1]
        );
        assert_eq!(pair.sent().len(), packets + packets.saturating_sub(WINDOW) + 1);
        assert!(pair.sent().iter().all(|sent| is_data(sent) || (sent.packet.class == 0 && sent.packet.size_bytes == 40)));
    }
}

/// Two cutoffs make three unscheduled levels, 0 to 2. Alone, a message's scheduled packets have the lowest of all levels.
#[test]
fn the_size_of_a_message_decides_its_unscheduled_level() {
    let config = Config { cutoffs: [1460, 2920].map(Bytes::new).to_vec(), ..Config::default() };
    for (packets, expected) in [(1, vec![0]), (2, vec![1; 2]), (3, vec![2; 3]), (5, vec![2, 2, 2, 7, 7])] {
        let mut pair = pair(&config);
        pair.open_flow(flow(0, 0, 1, packets, Duration::ZERO));
        pair.run_to_end(SECOND);
        assert_eq!(levels(&pair, 0), expected);
    }
}

/// The same cutoffs applied to what is left. The last three packets of a long message, a window, are treated like unscheduled ones.
#[test]
fn what_is_left_of_a_message_may_decide_the_level() {
    let cutoffs = [1460, 2920].map(Bytes::new).to_vec();
    let config = Config { cutoffs, assignment: Assignment::Remaining, ..Config::default() };
    for (packets, expected) in [(1, vec![0]), (3, vec![2, 1, 0]), (8, vec![2, 2, 2, 7, 7, 2, 1, 0])] {
        let mut pair = pair(&config);
        pair.open_flow(flow(0, 0, 1, packets, Duration::ZERO));
        pair.run_to_end(SECOND);
        assert_eq!(levels(&pair, 0), expected);
    }
}

/// The long message is opened first and has sent one packet. Then the short one sends all of its packets without a gap.
#[test]
fn the_sender_serves_the_shortest_first() {
    let mut pair = pair(&Config::default());
    pair.open_flow(flow(0, 0, 1, 100, Duration::ZERO));
    pair.open_flow(flow(1, 0, 2, 10, Duration::ZERO));
    pair.run_to_end(SECOND);
    assert_eq!(pair.flow(FlowId(1)).fct(), PACKET * 11 + DELAY);
    assert_eq!(pair.flow(FlowId(0)).fct(), PACKET * 110 + DELAY);
}

/// Equally long messages are sent in the order in which they were opened.
#[test]
fn the_oldest_of_equals_goes_first() {
    let mut pair = pair(&Config::default());
    for id in 0..3 {
        pair.open_flow(flow(id, 0, 1 + id, 3, Duration::ZERO));
    }
    pair.run_to_end(SECOND);
    for id in 0..3 {
        assert_eq!(pair.flow(FlowId(id)).fct(), PACKET * 3 * u64::from(id + 1) + DELAY);
    }
}

#[test]
fn a_packet_fits_into_a_cache_line() {
    assert!(size_of::<flowloom_core::Packet<Header>>() <= 64);
}

#[test]
fn the_default_is_written_with_units_and_reads_back() {
    let text = default_text::<Config>();
    assert!(text.contains("resend_timeout = \"5ms\"") && text.contains("assignment = \"size\""), "{text}");
}

#[test]
fn what_could_not_run_is_refused_by_name() {
    assert_eq!(refused::<Config>("cutoffs = [\"1kB\", \"1kB\"]\nunscheduled_levels = 3"), Ok(()));
    let seven = format!("cutoffs = [{}]", ["\"1kB\""; 7].join(","));
    assert_eq!(refused::<Config>(&seven), Ok(()));
    for (text, key) in [
        ("cutoffs = [\"2kB\", \"1kB\"]", "cutoffs"),
        ("cutoffs = [\"0B\"]", "cutoffs"),
        ("cutoffs = [\"1kB\"]\nunscheduled_levels = 3", "cutoffs"),
        ("cutoffs = [\"1kB\"]\nlevels = 1", "cutoffs"),
        ("levels = 4\nunscheduled_levels = 5", "unscheduled_levels"),
    ] {
        assert_eq!(refused::<Config>(text), Err(key.to_owned()));
    }
}
