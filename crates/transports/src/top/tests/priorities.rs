//! Which priority a flow has, by hand.

use flowloom_core::{Coflow, Flow, Switching, topology};

use super::super::Thresholds;
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
        let config = Config { thresholds: Thresholds::HeavyTail, largest: Bytes::new(largest * 1460), ..Config::default() };
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
    let config = Config { thresholds: Thresholds::LightTail, levels: 3, mean: Bytes::new(146_000), ..Config::default() };
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
        ("[credits]\ncredit_spread = \"8B\"", "credits.credit_spread"),
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

/// What a configuration becomes with a workload of these sizes, in packets, and shares.
fn fitted(config: Config, sizes: &[(u64, u64, f64)]) -> Option<Config> {
    let network = topology::single_switch(2, Rate::from_gbps(10), DELAY, Switching::StoreAndForward);
    let plain = Conditions::new(&network, WIRE, Bytes::new(100_000));
    let conditions = Conditions { largest_coflow: Bytes::new(9000), ..plain };
    let share =
        |&(low, high, share): &(u64, u64, f64)| SizeShare { low: Bytes::new(low * 1460), high: Bytes::new(high * 1460), share };
    let fitted = config.fitted(&conditions, &|| sizes.iter().map(share).collect());
    assert!(fitted.as_ref().is_none_or(|config| config.check().is_ok() && config.check_under(&conditions).is_ok()));
    fitted
}

/// The mean of 1 to 3 packets and 3 to 5 packets, of which the first are three of four flows, is 2.5 packets.
#[test]
fn the_workload_tells_the_largest_and_the_mean_flow() {
    let found = |config: Config| {
        fitted(config, &[(1, 3, 3.0), (3, 5, 1.0)])
            .map(|config| (config.largest.get(), config.mean.get(), config.cutoffs.len()))
    };
    let heavy = Config { thresholds: Thresholds::HeavyTail, ..Config::default() };
    let light = Config { thresholds: Thresholds::LightTail, ..Config::default() };
    assert_eq!([found(heavy.clone()), found(light.clone())], [Some((7300, 0, 0)), Some((0, 3650, 0))]);
    assert_eq!(found(Config { largest: Bytes::new(1), ..heavy.clone() }), None);
    assert_eq!(found(Config { mean: Bytes::new(1), ..light.clone() }), None);
    assert_eq!(found(Config { priority: Priority::Coflow, ..Config::default() }), Some((9000, 0, 0)));
    assert_eq!(found(Config { priority: Priority::Deadline, ..Config::default() }), None);
    assert_eq!(found(Config { cutoffs: vec![Bytes::new(1)], ..Config::default() }), None);
    assert!([heavy, light].into_iter().all(|config| fitted(config, &[]).is_none()));
}

/// The cutoffs, in packets, that split these sizes.
fn split(levels: u8, priority: Priority, sizes: &[(u64, u64, f64)]) -> Vec<u64> {
    let config = fitted(Config { levels, priority, ..Config::default() }, sizes).expect("thresholds follow from the workload");
    config.cutoffs.iter().map(|cutoff| cutoff.get() / 1460).collect()
}

/// Of flows of 10 and 90 packets, 9 to 1, both sizes have half of the bytes. The formula has 90^(1/2) = 9.5 packets, so both sizes have one priority.
#[test]
fn thresholds_split_the_bytes_equally() {
    let two = [(10, 10, 9.0), (90, 90, 1.0)];
    let cutoff = split(2, Priority::Size, &two)[0];
    assert!((10..90).contains(&cutoff), "{cutoff}");
    let formula = fitted(Config { thresholds: Thresholds::HeavyTail, levels: 2, ..Config::default() }, &two).unwrap();
    assert_eq!([10, 90].map(|packets| level(&formula, packets, 0)), [1, 1]);
    // Sizes up to x have x² / 1000² of the bytes of sizes that are uniform from 0 to 1000: 500, 707 and 866 are a quarter, a half and three quarters.
    assert_eq!(split(4, Priority::Size, &[(0, 1000, 1.0)]), [500, 707, 866]);
    // Two uniform parts with 50 and 150 packets of 200: the half is at 150² - 100² = (50 / 150) 12,500 × ... of the second one.
    let second = f64::sqrt(1e4 + 1.0 / 3.0 * 3e4);
    assert_eq!(split(2, Priority::Size, &[(0, 100, 1.0), (100, 200, 1.0)]), [second.round() as u64]);
}

/// A flow of x packets has min(x, t) of them while at most t have arrived, and as many while at most t are missing. Of sizes uniform from 0 to 1000, the mean of
/// this is t - t² / 2000, which is half of 500 at 293.
#[test]
fn a_flow_that_passes_through_priorities_leaves_bytes_in_each() {
    for priority in [Priority::Attained, Priority::Remaining] {
        assert_eq!(split(2, priority, &[(0, 1000, 1.0)]), [293]);
        // Of the one size of 90 packets, a third each.
        assert_eq!(split(3, priority, &[(90, 90, 1.0)]), [30, 60]);
        assert_eq!(split(2, priority, &[(10, 10, 9.0), (90, 90, 1.0)]), [9]);
    }
}

/// No more sizes than queues: each has its own, however few bytes it has. If there are more, some queues may be without bytes: 1000 packets are more than
/// half of all, and the three other sizes are nearer to nothing than to a third.
#[test]
fn few_sizes_have_a_queue_each_or_leave_some_empty() {
    let sizes = [(1, 1, 1.0), (10, 10, 1.0), (1000, 1000, 1.0)];
    assert_eq!(split(6, Priority::Size, &sizes), [1, 10]);
    assert_eq!(split(3, Priority::Size, &sizes), [1, 10]);
    assert_eq!(split(3, Priority::Size, &[(1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0), (1000, 1000, 1.0)]), [999, 1000]);
    assert_eq!(split(6, Priority::Size, &[(5, 5, 1.0)]), [0_u64; 0]);
    // Without flows, and on real hosts, the formula is left, with its largest flow of 1 GB.
    assert_eq!(split(6, Priority::Size, &[]), [0_u64; 0]);
    let formula = Config { thresholds: Thresholds::HeavyTail, ..Config::default() };
    assert_eq!(thresholds(&Config::default()), thresholds(&formula));
}
