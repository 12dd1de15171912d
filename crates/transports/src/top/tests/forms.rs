//! Exact times on an otherwise idle network, and of two flows that compete.

use flowloom_core::FlowId;
use flowloom_fabric::pair::Fate;

use super::*;
use crate::trial::flow;

/// The remedy's tokens take a way through the assistant switch. Where sizes are unknown, a FIN follows the last packet.
#[test]
fn unloaded_times_are_the_closed_form() {
    for switch in FORMS {
        for priority in [Priority::Size, Priority::Remaining, Priority::Attained, Priority::Deadline, Priority::Coflow] {
            for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000, 1_000_000, 20_000_000] {
                let config = Config { switch, priority, ..constant() };
                let mut pair = Pair::<Top>::new(&config, PairSetup { log: false, ..setup() });
                let id = pair.open(0, 1, size);
                pair.run_to_end(SECOND);
                let way = if switch == SwitchForm::Remedy { WAY } else { Duration::ZERO };
                let fin = if priority == Priority::Attained { CONTROL } else { Duration::ZERO };
                assert_eq!(pair.flow(id).fct(), alone(size) + way + fin, "{size} B, {switch:?}, {priority:?}");
                assert_eq!(pair.dropped(), []);
            }
        }
    }
}

/// With a share of 5 %, a token and its packet take 1680 B of the link.
#[test]
fn a_share_of_tokens_sets_the_slot() {
    let mut pair = pair(&Config { token_share: 0.05, ..constant() });
    let id = pair.open(0, 1, 100 * 1460);
    pair.run_to_end(SECOND);
    let slot = Duration::from_ps(1_344_000);
    assert_eq!(pair.flow(id).fct(), (CONTROL + DELAY) * 2 + slot * 99 + FULL + DELAY);
}

/// A short flow of three packets comes while a long one has all tokens of the link to their receiver. Its SYNC finds the gap between two packets of
/// the long flow, `before` the next token of the long flow. Its first token leaves at once, because the bucket has room for another. The long flow's
/// next token takes what has flowed in since, and from then on each slot is the short flow's until its packets have come. So the link to the receiver
/// carries the long flow's present packet, the short flow's first, one of the long flow, and the short flow's others, all back to back. The long
/// flow loses as many slots as the short flow has more tokens than one.
#[test]
fn of_two_flows_the_short_one_is_served_first() {
    // The gap of 67.2 ns comes 1269.6 ns after each token of the long flow, and with the remedy 1009.6 ns.
    for (switch, way, before) in [
        (SwitchForm::Hypothetical, Duration::ZERO, Duration::from_ns(528)),
        (SwitchForm::Ideal, Duration::ZERO, Duration::from_ns(528)),
        (SwitchForm::Remedy, WAY, Duration::from_ns(788)),
    ] {
        let mut pair = pair(&Config { switch, ..constant() });
        let long = pair.open(0, 2, 200 * 1460);
        let short = FlowId(1);
        pair.open_flow(flow(1, 1, 2, 3 * 1460, Time::ZERO + (SLOT * 10 - before), None));
        pair.run_to_end(SECOND);
        let busy = FULL * 5 - (SLOT - before);
        assert_eq!(pair.flow(short).fct(), (CONTROL + DELAY) * 2 + way + busy + DELAY, "{switch:?}");
        let tokens = |flow: FlowId| pair.sent().iter().filter(|sent| is_token(sent) && sent.packet.flow == flow).count() as u64;
        // One more leaves where the last packet comes later than a round trip after its token, because it waits for the long flow's.
        assert!((3..=4).contains(&tokens(short)), "{switch:?}: {}", tokens(short));
        let lost = SLOT * (tokens(short) - 1);
        assert_eq!(pair.flow(long).fct(), alone(200 * 1460) + way + lost, "{switch:?}");
        assert_eq!(pair.dropped(), [], "{switch:?}");
    }
}

/// With equal keys, neither flow is first: the short flow gets every other slot.
#[test]
fn without_priorities_the_short_flow_shares_the_link() {
    let mut pair = pair(&Config { cutoffs: vec![Bytes::new(1_000_000)], ..constant() });
    pair.open(0, 2, 200 * 1460);
    pair.run(Time::ZERO + SLOT * 10);
    let short = pair.open(1, 2, 5 * 1460);
    pair.run_to_end(SECOND);
    assert!(pair.flow(short).fct() > alone(5 * 1460) + SLOT * 3);
}

/// When the first 100 packets of 150 have arrived, 50 remain, and when 141 have, 9 do.
#[test]
fn tokens_of_a_flow_that_shrinks_become_more_urgent() {
    let classes = |priority| {
        let cutoffs = [10, 100].map(|packets| Bytes::new(packets * 1460)).to_vec();
        let mut pair = pair(&Config { priority, cutoffs, ..constant() });
        pair.open(0, 1, 150 * 1460);
        pair.run_to_end(SECOND);
        let tokens = pair.sent().iter().filter(|sent| is_token(sent));
        let mut classes: Vec<(u8, usize)> = Vec::new();
        for class in tokens.map(|sent| sent.packet.class) {
            match classes.last_mut() {
                Some((last, count)) if *last == class => *count += 1,
                _ => classes.push((class, 1)),
            }
        }
        classes
    };
    // A packet arrives 67.2 + 1000 + 1230.4 + 1000 ns after its token was sent: between the second and the third token after it. So when token
    // k is sent, counted from 0, k - 2 packets have arrived. Where the size is unknown, two tokens are too many.
    assert_eq!(classes(Priority::Size), [(3, 150)]);
    assert_eq!(classes(Priority::Remaining), [(3, 52), (2, 90), (1, 8)]);
    assert_eq!(classes(Priority::Attained), [(1, 12), (2, 90), (3, 50)]);
}

/// A token that is as old as its path allows is valid, and a picosecond later it is not.
#[test]
fn the_sender_drops_tokens_that_are_too_old_to_the_picosecond() {
    // Two hops of 8 slots, beside the way of 1067.2 ns and the detour. The harness delays a packet by a picosecond more than it is told to.
    let slack = SLOT * 16 - Duration::from_ps(1);
    // The next token would leave 100 slots later.
    let credits = expresspass::Config { alpha: 0.01, ..constant().credits };
    for (late, is_used) in [(slack, true), (slack + Duration::from_ps(1), false)] {
        let mut pair = pair(&Config { switch: SwitchForm::Remedy, credits: credits.clone(), ..constant() });
        pair.on_packet(move |sent| match sent.packet.header {
            Header::Token { .. } => Fate::Delay(late),
            _ => Fate::Pass,
        });
        pair.open(0, 1, 1);
        pair.run(Time::ZERO + Duration::from_us(60));
        assert_eq!(count(&pair, is_data), usize::from(is_used), "{late}");
    }
}

/// The age may be given. The way of a token alone takes 1067.2 ns and the detour.
#[test]
fn an_age_that_is_given_counts_to_the_picosecond() {
    let way = CONTROL + DELAY + WAY;
    for (token_age, packets) in [(way, 1), (way - Duration::from_ps(1), 0)] {
        let mut pair = pair(&Config { switch: SwitchForm::Remedy, token_age, ..constant() });
        pair.open(0, 1, 1);
        pair.run(Time::ZERO + Duration::from_us(60));
        assert_eq!(count(&pair, is_data), packets);
    }
}

/// Clocks differ by up to twice the error. Tokens that are valid by less are dropped by some hosts and not by others, and a flow whose tokens all
/// seem too old has no data.
#[test]
fn clocks_that_differ_make_tokens_older_or_younger() {
    let way = CONTROL + DELAY + WAY;
    let started = |token_age, seed| {
        let config = Config { switch: SwitchForm::Remedy, token_age, clock_error: Duration::from_us(10), ..constant() };
        let mut pair = Pair::<Top>::new(&config, PairSetup { seed, ..setup() });
        pair.open(0, 1, 1);
        pair.run(Time::ZERO + Duration::from_us(60));
        count(&pair, is_data) > 0
    };
    let started_of_40 = |age| (0..40).filter(|seed| started(age, *seed)).count();
    // Half of the differences are positive. The standard deviation of their number is 3.2.
    assert!((8..=32).contains(&started_of_40(way)), "{}", started_of_40(way));
    assert_eq!(started_of_40(way + Duration::from_us(20)), 40);
}

/// In the pool, a packet and the 8 B beside it share a cache line.
#[test]
fn a_packet_fits_a_cache_line() {
    assert!(size_of::<flowloom_core::Packet<Header>>() <= 64 - 8);
}
