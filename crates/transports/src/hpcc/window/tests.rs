//! Algorithm 1 against tables worked out by hand, and against any reports at all.

use flowloom_core::Bytes;
use proptest::prelude::*;

use super::*;
use crate::hpcc::header::tests::telemetries;

/// A base round trip of 12,800 ns at 8 Gb/s, or 1 B/ns: windows of up to 12,800 B. The second rate is 16 Gb/s.
fn rules() -> Rules {
    let mut byte_time = [0.0; LinkRates::MOST];
    byte_time[..2].copy_from_slice(&[1.0, 0.5]);
    Rules {
        target: 0.95,
        stages: 5,
        increase: 80.0,
        fast_reaction: true,
        rtt: 12_800.0,
        most: 12_800.0,
        least: 128.0,
        byte_time,
        lifetime: Rules::lifetime(Rate::from_gbps(16)),
    }
}

/// A record: the number of the rate, the time in nanoseconds, the bytes sent and the bytes queued.
type Row = (u8, u64, u64, u64);

fn report(rows: &[Row]) -> Telemetry {
    let mut report = Telemetry::default();
    for (tag, (rate, at, sent, queued)) in (1..).zip(rows) {
        let at = Time::ZERO + Duration::from_ns(*at);
        report.push(HopRecord::new(*rate, at, *sent, Bytes::new(*queued)), tag, 5);
    }
    report
}

/// What is known of a window after an acknowledgement: W, W_c, U and the stage.
fn state(window: &Window) -> [f64; 4] {
    [window.bytes, window.reference, window.utilisation, f64::from(window.stage)]
}

fn close(found: [f64; 4], expected: [f64; 4]) {
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6 * b.abs().max(1.0)), "{found:?}, not {expected:?}");
}

/// Acknowledgements of one link with the number of packets acknowledged and sent, its record, and the state that follows.
fn play(rules: &Rules, window: &mut Window, table: &[(u32, u32, Row, [f64; 4])]) {
    for (acknowledged, sent, row, expected) in table {
        window.on_ack(rules, Time::ZERO, *acknowledged, *sent, &report(&[*row]));
        close(state(window), *expected);
    }
}

/// The link carries 1 B/ns, at first without a queue. With τ/T = 0.1, each acknowledgement moves U by a tenth of the way to u.
///
/// * u = 1: W = 12,800 · 0.95 + 80 = 12,240.
/// * A queue counts only if both records have it: 1600/12,800 = 0.125 from the fourth acknowledgement on, so U = 0.9 + 0.1125 = 1.0125 and
///   W = 12,160/1.0125 + 80.
/// * The fifth acknowledges more than was sent at the first: the reference follows. U = 0.9 · 1.0125 + 0.125 = 1.03625.
/// * The sixth comes a round trip later (τ = T), when the link carried 0.5 B/ns: U = 0.5, and W grows by 80 B.
#[test]
fn each_acknowledgement_of_one_link() {
    let updated = 12_160.0 / 1.03625 + 80.0;
    play(
        &rules(),
        &mut Window::new(&rules()),
        &[
            (1, 10, (0, 1000, 0, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (2, 11, (0, 2280, 1280, 0), [12_240.0, 12_800.0, 1.0, 0.0]),
            (3, 12, (0, 3560, 2560, 1600), [12_240.0, 12_800.0, 1.0, 0.0]),
            (4, 13, (0, 4840, 3840, 3200), [12_160.0 / 1.0125 + 80.0, 12_800.0, 1.0125, 0.0]),
            (11, 20, (0, 6120, 5120, 3200), [updated, updated, 1.03625, 0.0]),
            (21, 30, (0, 18_920, 11_520, 0), [updated + 80.0, updated + 80.0, 0.5, 1.0]),
            (22, 31, (0, 20_200, 12_160, 0), [updated + 160.0, updated + 80.0, 0.5, 1.0]),
        ],
    );
}

/// One acknowledgement per round trip. First a full queue: u = 1 + 1, and W = 12,800 · 0.95/2 + 80 = 6160. Then the link carries 0.76 B/ns.
/// Five increases of 80 B follow, and then W = 6560 · 0.95/0.76 + 80 = 8280.
#[test]
fn after_five_additive_increases_the_next_is_multiplicative() {
    let mut table = vec![
        (1, 10, (0, 0, 0, 12_800), [12_800.0, 12_800.0, 1.0, 0.0]),
        (11, 20, (0, 12_800, 12_800, 12_800), [6160.0, 6160.0, 2.0, 0.0]),
    ];
    for step in 1..=5_u32 {
        let window = 6160.0 + 80.0 * f64::from(step);
        let (acknowledged, time, sent) = (10 * step + 11, 12_800 * u64::from(step + 1), 12_800 + 9728 * u64::from(step));
        table.push((acknowledged, acknowledged + 9, (0, time, sent, 0), [window, window, 0.76, f64::from(step)]));
    }
    table.push((71, 80, (0, 89_600, 71_168, 0), [8280.0, 8280.0, 0.76, 0.0]));
    play(&rules(), &mut Window::new(&rules()), &table);
}

/// With maxStage 0: 6160 · 0.95/0.76 + 80 = 7780.
#[test]
fn without_stages_every_change_is_multiplicative() {
    let rules = Rules { stages: 0, ..rules() };
    play(
        &rules,
        &mut Window::new(&rules),
        &[
            (1, 10, (0, 0, 0, 12_800), [12_800.0, 12_800.0, 1.0, 0.0]),
            (11, 20, (0, 12_800, 12_800, 12_800), [6160.0, 6160.0, 2.0, 0.0]),
            (21, 30, (0, 25_600, 22_528, 0), [7780.0, 7780.0, 0.76, 0.0]),
            (31, 40, (0, 38_400, 32_256, 0), [9805.0, 9805.0, 0.76, 0.0]),
        ],
    );
}

/// Only acknowledgements that update the reference count, and records are compared over a round trip.
#[test]
fn without_fast_reaction_the_window_changes_once_per_round_trip() {
    let rules = Rules { fast_reaction: false, ..rules() };
    play(
        &rules,
        &mut Window::new(&rules),
        &[
            (1, 10, (0, 0, 0, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (2, 11, (0, 1280, 1280, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (10, 19, (0, 11_520, 1280, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (11, 20, (0, 12_800, 12_800, 0), [12_240.0, 12_240.0, 1.0, 0.0]),
            (20, 29, (0, 25_600, 25_600, 0), [12_240.0, 12_240.0, 1.0, 0.0]),
        ],
    );
}

/// The window is never above what it was at first, nor below its least value. At u = 1000, W would be
/// 12.16 + 80 = 92.16.
#[test]
fn windows_stay_within_their_limits() {
    let rules = Rules { stages: 0, ..rules() };
    play(
        &rules,
        &mut Window::new(&rules),
        &[
            (1, 10, (0, 0, 0, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (11, 20, (0, 12_800, 128, 0), [12_800.0, 12_800.0, 0.01, 0.0]),
            (21, 30, (0, 25_600, 128 + 12_800_000, 0), [128.0, 128.0, 1000.0, 0.0]),
        ],
    );
}

/// u is 0.5 at the first link, 0.75 at the second (at twice the rate, over 6400 ns), and 0.25 at the third. U moves by τ/T = 0.5 of the way
/// to 0.75. A queue of 6400 B is 0.25 at the second link, because its round trip carries 25,600 B.
#[test]
fn the_busiest_link_decides_and_brings_its_own_interval() {
    let (rules, mut window) = (rules(), Window::new(&rules()));
    let mut ack = |acknowledged, sent, rows: &[Row]| {
        window.on_ack(&rules, Time::ZERO, acknowledged, sent, &report(rows));
        state(&window)
    };
    ack(1, 10, &[(0, 0, 0, 0), (1, 400, 0, 6400), (0, 900, 0, 0)]);
    let busy = ack(2, 11, &[(0, 12_800, 6400, 0), (1, 6800, 6400, 6400), (0, 13_700, 3200, 0)]);
    close(busy, [12_800.0, 12_800.0, 0.5 + 0.375, 0.0]);
}

/// The first report of another path is only remembered, and so are one after too long a silence and one of another number of links.
#[test]
fn a_new_path_skips_an_update() {
    let (rules, mut window) = (rules(), Window::new(&rules()));
    let late = Time::ZERO + rules.lifetime;
    window.on_ack(&rules, Time::ZERO, 1, 10, &report(&[(0, 0, 0, 0)]));
    window.on_ack(&rules, Time::ZERO, 11, 20, &report(&[(0, 12_800, 12_800, 0), (0, 13_000, 12_800, 0)]));
    close(state(&window), [12_800.0, 12_800.0, 1.0, 0.0]);
    assert_eq!(window.update_after, 20);
    window.on_ack(&rules, late, 21, 30, &report(&[(0, 25_600, 25_600, 0), (0, 25_800, 25_600, 0)]));
    close(state(&window), [12_800.0, 12_800.0, 1.0, 0.0]);
    window.on_ack(&rules, late, 31, 40, &report(&[(0, 38_400, 38_400, 0), (0, 38_600, 38_400, 0)]));
    close(state(&window), [12_240.0, 12_240.0, 1.0, 0.0]);
}

/// A report that was overtaken changes nothing, and the next one is compared with the latest.
#[test]
fn a_report_that_is_not_later_is_ignored() {
    let old = [12_240.0, 12_800.0, 1.0, 0.0];
    play(
        &rules(),
        &mut Window::new(&rules()),
        &[
            (1, 10, (0, 20_000, 0, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (2, 11, (0, 21_280, 1280, 0), old),
            (3, 12, (0, 20_640, 640, 6400), old),
            (3, 12, (0, 21_280, 1280, 0), old),
            (4, 13, (0, 22_560, 2560, 0), old),
        ],
    );
}

/// Both counters wrap between the reports, at 2^24 ns and at 2^27 B. The link carries 1 B/ns.
#[test]
fn counters_that_wrap_make_no_difference() {
    let (time, sent) = (HopRecord::TIME_WRAP_NS, HopRecord::SENT_WRAP.get());
    play(
        &rules(),
        &mut Window::new(&rules()),
        &[
            (1, 10, (0, time - 640, sent - 640, 0), [12_800.0, 12_800.0, 1.0, 0.0]),
            (2, 11, (0, time + 640, sent + 640, 0), [12_240.0, 12_800.0, 1.0, 0.0]),
        ],
    );
}

/// 2^23 ns, and less on links so fast that 2^26 B take less time.
#[test]
fn records_can_be_compared_for_half_of_a_wrap() {
    assert_eq!(Rules::lifetime(Rate::from_gbps(10)), Duration::from_ns(1 << 23));
    assert_eq!(Rules::lifetime(Rate::from_gbps(80)), Duration::from_ps((1 << 26) * 100));
}

/// A packet of 1280 ns at line rate leaves every 1280 ns at W = B·T, and every 2560 ns at half of that.
#[test]
fn the_gap_between_packets_follows_the_window() {
    let (rules, mut window) = (rules(), Window::new(&rules()));
    assert_eq!(window.gap(&rules, Duration::from_ns(1280)), Duration::from_ns(1280));
    window.bytes = 6400.0;
    assert_eq!(window.gap(&rules, Duration::from_ns(1280)), Duration::from_ns(2560));
}

proptest! {
    /// Whatever a peer reports, the window stays within its limits, and so does the gap between packets.
    #[test]
    fn no_report_breaks_a_window(
        reports in prop::collection::vec((telemetries(), any::<u32>(), any::<u32>(), 0_u64..100_000_000), 0..40),
        stages in 0_u32..3,
        fast_reaction in any::<bool>(),
    ) {
        let rules = Rules { stages, fast_reaction, ..rules() };
        let (mut window, mut now) = (Window::new(&rules), Time::ZERO);
        for (report, acknowledged, sent, pause) in reports {
            now += Duration::from_ps(pause);
            window.on_ack(&rules, now, acknowledged, sent, &report);
            prop_assert!((rules.least..=rules.most).contains(&window.window(&rules)), "{window:?}");
            prop_assert!(window.utilisation.is_finite() && window.utilisation >= 0.0);
            let gap = window.gap(&rules, Duration::from_ns(1000));
            prop_assert!((Duration::from_ns(1000)..=Duration::from_ns(100_001)).contains(&gap), "{gap}");
        }
    }
}
