//! Which priority a flow has, by hand.

use flowloom_core::{Coflow, Flow};

use super::super::Tail;
use super::super::priorities::{Priorities, Standing};
use super::*;
use crate::trial::{default_text, flow, refused};
use crate::{Checked, Conditions, SizeShare};

fn level(config: &Config, packets: u32, received: u32) -> u8 {
    let standing = Standing { packets, received, urgency: 0 };
    Priorities::new(config, &WIRE).rank(&standing, Time::ZERO).level
}

/// The least number of packets of each level but the best.
fn thresholds(config: &Config) -> Vec<u32> {
    let least = |above: u8| {
        let (mut low, mut high) = (0, 1 << 24);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if level(config, middle, 0) >= above { high = middle } else { low = middle }
        }
        high
    };
    (1..config.levels()).map(least).collect()
}

/// p^(i/6): for data mining 9.3, 87, 817, 7631 and 71,328 packets, and so on (§3.2).
#[test]
fn thresholds_are_powers_of_the_largest_flow() {
    for (largest, expected) in [
        (666_667, [10, 88, 817, 7632, 71_328]),
        (20_000, [6, 28, 142, 738, 3839]),
        (2107, [4, 13, 46, 165, 589]),
        // Whole powers are thresholds themselves: 2, 4, 8, 16, 32 of 64.
        (64, [2, 4, 8, 16, 32]),
    ] {
        let config = Config { largest: Bytes::new(largest * 1460), ..Config::default() };
        let found = thresholds(&config);
        let near = |(found, expected): (&u32, &u32)| found.abs_diff(*expected) <= 1 && (largest != 64 || found == expected);
        assert!(found.iter().zip(&expected).all(near), "{largest}: {found:?}");
    }
}

/// ax + b >= t: with a = 2 and b = 4, 64 packets have thresholds of -1, 0, 2, 6 and 14 packets.
#[test]
fn a_and_b_shift_the_thresholds() {
    let config = Config { largest: Bytes::new(64 * 1460), a: 2.0, b: 4.0, ..Config::default() };
    assert_eq!([1, 2, 5, 6, 13, 14].map(|packets| level(&config, packets, 0)), [2, 3, 3, 4, 4, 5]);
}

/// With a mean of 100 packets, a third of all flows has at most 100 ln 1.5 = 40.5, and two thirds 100 ln 3 = 109.9.
#[test]
fn a_light_tail_follows_the_mean() {
    let config = Config { tail: Tail::Light, levels: 3, mean: Bytes::new(146_000), ..Config::default() };
    assert_eq!(thresholds(&config), [41, 110]);
}

/// A flow has the first priority whose cutoff it does not exceed.
#[test]
fn cutoffs_may_be_given() {
    let cutoffs = [10, 100].map(|packets| Bytes::new(packets * 1460)).to_vec();
    let config = Config { cutoffs, ..Config::default() };
    assert_eq!([1, 10, 11, 100, 101, u32::MAX].map(|packets| level(&config, packets, 0)), [0, 0, 1, 1, 2, 2]);
    let config = Config { priority: Priority::Remaining, ..config };
    assert_eq!([0, 50, 140, 150, 160].map(|received| level(&config, 150, received)), [2, 1, 0, 0, 0]);
    let config = Config { priority: Priority::Attained, ..config };
    assert_eq!([0, 9, 10, 99, 100].map(|received| level(&config, u32::MAX, received)), [0, 0, 1, 1, 2]);
}

/// With a mean of 1 ms and 2 levels, those with less than ln 2 ms to go come first. An ideal port sorts by the deadline itself.
#[test]
fn deadlines_come_nearer() {
    let us = |us: u64| Time::ZERO + Duration::from_us(us);
    let config = Config { priority: Priority::Deadline, levels: 2, late_last: false, ..Config::default() };
    let rank = |config: &Config, deadline: Option<Time>, now| {
        let priorities = Priorities::new(config, &WIRE);
        let urgency = priorities.urgency(&flow(0, 0, 1, 1, Time::ZERO, deadline));
        priorities.rank(&Standing { packets: 1, received: 0, urgency }, now)
    };
    let levels = [0, 1306, 1307, 2000, 3000].map(|now| rank(&config, Some(us(2000)), us(now)).level);
    assert_eq!(levels, [1, 1, 0, 0, 0]);
    let late = Config { late_last: true, ..config.clone() };
    assert_eq!(rank(&late, Some(us(2000)), us(2001)).level, 1);
    assert_eq!(rank(&late, Some(us(2000)), us(2000)).level, 0);
    assert_eq!(rank(&config, None, us(5000)).level, 1);
    let keys = [1000, 2000].map(|deadline| rank(&config, Some(us(deadline)), us(5)).key);
    assert_eq!(keys, [1_000_000_000, 2_000_000_000]);
}

/// Of coflows of up to 256 packets, those of up to 15 have the first of two levels. A flow without a coflow is one of its own.
#[test]
fn smaller_coflows_come_first() {
    let payload = WIRE.payload().get();
    let config = Config { priority: Priority::Coflow, levels: 2, largest: Bytes::new(256 * payload), ..Config::default() };
    let priorities = Priorities::new(&config, &WIRE);
    let level = |packets: Option<u64>| {
        let of = |packets| Coflow { number: 0, size: Bytes::new(packets * payload), start: Time::ZERO };
        let urgency = priorities.urgency(&Flow { coflow: packets.map(of), ..flow(0, 0, 1, payload, Time::ZERO, None) });
        priorities.rank(&Standing { packets: 1, received: 0, urgency }, Time::ZERO).level
    };
    assert_eq!([Some(1), Some(15), Some(16), Some(256), None].map(level), [0, 0, 1, 1, 0]);
}

/// In an ideal port, flows of unknown size have 8 levels, and others as many as there are sizes.
#[test]
fn an_ideal_port_knows_sizes_but_levels_only_where_they_are_unknown() {
    let key = |priority, received| {
        let config = Config { switch: SwitchForm::Ideal, priority, largest: Bytes::new(256 * 1460), ..Config::default() };
        Priorities::new(&config, &WIRE).rank(&Standing { packets: 200, received, urgency: 0 }, Time::ZERO).key
    };
    assert_eq!([0, 9].map(|received| key(Priority::Size, received)), [200, 200]);
    assert_eq!([0, 9].map(|received| key(Priority::Remaining, received)), [200, 191]);
    assert_eq!([0, 1, 2, 3, 127, 255].map(|received| key(Priority::Attained, received)), [0, 1, 1, 2, 7, 7]);
}

#[test]
fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
    let text = default_text::<Config>();
    assert!(text.contains("switch = \"hypothetical\"") && text.contains("[credits]"), "{text}");
    for (text, key) in [
        ("a = 0.0", "a"),
        ("b = nan", "b"),
        ("token_share = 0.6", "token_share"),
        ("token_share = 0.0005", "token_share"),
        ("lifetime = 0.1", "lifetime"),
        ("lifetime = 7\nswitch = \"remedy\"", "lifetime"),
        ("ideal_queue = 0", "ideal_queue"),
        ("sub_ports = 0", "sub_ports"),
        ("deadline_mean = \"0s\"", "deadline_mean"),
        ("levels = 7", "levels"),
        ("levels = 6\nunscheduled = 4", "levels"),
        ("priority = \"attained\"\nunscheduled = 4", "unscheduled"),
        ("levels = 2\ncutoffs = [\"1kB\", \"2kB\"]", "cutoffs"),
        ("cutoffs = [\"2kB\", \"1kB\"]", "cutoffs"),
        ("[credits]\nalpha = 0.0", "credits.alpha"),
    ] {
        assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
    }
    // One key of a table does not change the others.
    let some: Config = toml::from_str("[credits]\nalpha = 0.25").unwrap();
    let credits = expresspass::Config { alpha: 0.25, ..Config::default().credits };
    assert_eq!((some.credits.feedback, &some.credits), (expresspass::Feedback::Paper, &credits));
    assert!(toml::from_str::<Config>("[credits]\nalfa = 0.25").is_err());
    assert_eq!(refused::<Config>("levels = 5\nunscheduled = 4"), Ok(()));
    assert_eq!(refused::<Config>("levels = 8\nswitch = \"ideal\""), Ok(()));
}

/// The mean of 1 kB to 3 kB and 3 kB to 5 kB, of which the first are three of four flows, is 2.5 kB.
#[test]
fn the_workload_tells_the_largest_and_the_mean_flow() {
    use flowloom_core::{Switching, topology};
    let network = topology::single_switch(2, Rate::from_gbps(10), DELAY, Switching::StoreAndForward);
    let (buffer, largest_flow) = (Bytes::new(100_000), Bytes::ZERO);
    let largest_coflow = Bytes::new(9000);
    let conditions = Conditions { network: &network, wire: WIRE, buffer, last_deadline: None, largest_flow, largest_coflow };
    let share = |low, high, share| SizeShare { low: Bytes::new(low), high: Bytes::new(high), share };
    let sizes = || vec![share(1000, 3000, 3.0), share(3000, 5000, 1.0)];
    let fitted = |config: Config| config.fitted(&conditions, &sizes).map(|config| (config.largest.get(), config.mean.get()));
    assert_eq!(fitted(Config::default()), Some((5000, 2500)));
    assert_eq!(fitted(Config { largest: Bytes::new(1), ..Config::default() }), None);
    assert_eq!(fitted(Config { priority: Priority::Coflow, ..Config::default() }), Some((9000, 0)));
    assert_eq!(fitted(Config { priority: Priority::Deadline, ..Config::default() }), None);
    assert_eq!(fitted(Config { cutoffs: vec![Bytes::new(1)], ..Config::default() }), None);
    assert_eq!(Config::default().fitted(&conditions, &Vec::new), None);
    assert_eq!(Config::default().check_under(&conditions), Ok(()));
}
