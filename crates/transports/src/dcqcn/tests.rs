//! DCQCN between hosts: rates that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Duration, FlowId, Memory, NodeId, Packet, Time, WireProfile};
use flowloom_fabric::pair::{Pair, PairSetup};
use proptest::prelude::*;

use super::config::{Config, Windowed};
use super::rate::{Rules, SendingRate};
use super::{Dcqcn, Header};
use crate::roce::header::tests::kinds;
use crate::roce::{Controller, Envelope, Kind, Recovery};
use crate::toolkit::Framing;
use crate::trial::{assail, flow, trials};

fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// With a weight of a half, each step can be worked out by hand. Rates are shares of the NIC's.
fn rules() -> Rules {
    Rules {
        gain: 0.5,
        alpha_timer: Duration::from_us(55),
        rate_timer: Duration::from_us(60),
        byte_counter: 10_000,
        fast_rises: 2,
        additive: 0.01,
        hyper: 0.1,
        least: 0.05,
        windowed: Windowed::Off,
        round_trip: 25_000.0,
    }
}

/// What a packet of 1000 B at the rate of the NIC, 1 us, takes from one to the next, in nanoseconds.
fn gap_ns(rate: &SendingRate) -> f64 {
    rate.gap(&rules(), Duration::from_us(1)).as_us_f64() * 1e3
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-6
}

/// α is 1: the first report halves the rate, and α stays 1. After 55 us α is a half, so the next report, at 56 us, takes a quarter of the half: 3/8. Then α is 3/4.
#[test]
fn reports_cut_the_rate_by_half_of_the_estimate() {
    let (rules, mut rate) = (rules(), SendingRate::new(&rules()));
    assert!(is_near(gap_ns(&rate), 1000.0) && rate.timer().is_none());
    rate.on_congestion(&rules, us(0));
    assert!(is_near(gap_ns(&rate), 2000.0), "{rate:?}");
    assert_eq!(rate.timer(), Some(us(55)));
    rate.on_timer(&rules, us(55));
    assert_eq!(rate.timer(), Some(us(60)));
    rate.on_congestion(&rules, us(56));
    assert!(is_near(gap_ns(&rate), 1000.0 / 0.375), "{rate:?}");
    // Both timers begin again.
    assert_eq!(rate.timer(), Some(us(56 + 55)));
    rate.on_congestion(&rules, us(57));
    assert!(is_near(gap_ns(&rate), 1000.0 / (0.375 * (1.0 - 0.75 / 2.0))), "{rate:?}");
}

/// From a half, with 1 as its target, the timer takes the rate to 3/4 and 7/8. Then, rises also raise the target, which is at its most: 15/16.
#[test]
fn the_timer_takes_the_rate_half_of_the_way_back() {
    let (rules, mut rate) = (rules(), SendingRate::new(&rules()));
    rate.on_congestion(&rules, us(0));
    for (at, expected) in [(60, 0.75), (120, 0.875), (180, 0.9375)] {
        while let Some(due) = rate.timer().filter(|due| *due <= us(at)) {
            rate.on_timer(&rules, due);
        }
        assert!(is_near(gap_ns(&rate), 1000.0 / expected), "{rate:?} at {at} us");
    }
}

/// Two reports make the target a half and the rate a quarter. The byte counter, after 10 packets of 1000 B each, takes it to 3/8 and 7/16; the third time, the target becomes 0.51.
#[test]
fn the_byte_counter_raises_the_rate_and_then_also_its_target() {
    let (rules, mut rate) = (rules(), SendingRate::new(&rules()));
    rate.on_congestion(&rules, us(0));
    rate.on_congestion(&rules, us(1));
    for expected in [0.375, 0.4375, (0.4375 + 0.51) / 2.0] {
        (0..10).for_each(|_| rate.on_sent(&rules, 1000));
        assert!(is_near(gap_ns(&rate), 1000.0 / expected), "{rate:?}");
    }
}

/// When both have raised the rate three times, which is once more than `fast_rises`, the target rises by 0.1, and then by 0.2.
#[test]
fn when_both_have_passed_the_fast_rises_the_target_rises_faster_each_time() {
    let (rules, mut rate) = (rules(), SendingRate::new(&rules()));
    for at in 0..4 {
        rate.on_congestion(&rules, us(at)); // the target is 1/8, and the rate 1/16
    }
    let (mut target, mut current) = (0.125, 0.0625);
    let mut rise = |more: f64| {
        target += more;
        current = (current + target) / 2.0;
        current
    };
    let steps = [(10, 0.0), (10, 0.0), (10, 0.01)];
    for (packets, more) in steps {
        (0..packets).for_each(|_| rate.on_sent(&rules, 1000));
        assert!(is_near(gap_ns(&rate), 1000.0 / rise(more)), "{rate:?}");
    }
    // The timer's first two rises are additive, since the counter is beyond `fast_rises` already; its third one is the first that is faster.
    for (at, more) in [(63, 0.01), (123, 0.01), (183, 0.1)] {
        while let Some(due) = rate.timer().filter(|due| *due <= us(at)) {
            rate.on_timer(&rules, due);
        }
        assert!(is_near(gap_ns(&rate), 1000.0 / rise(more)), "{rate:?} at {at} us");
    }
}

#[test]
fn a_rate_never_falls_below_the_least() {
    let (rules, mut rate) = (rules(), SendingRate::new(&rules()));
    (0..20).for_each(|at| rate.on_congestion(&rules, us(at)));
    assert!(is_near(gap_ns(&rate), 20_000.0), "{rate:?}");
}

/// Windows are those of a round trip at the rate of the NIC, or of the flow.
#[test]
fn windows_are_fixed_or_follow_the_rate() {
    for (windowed, expected) in [(Windowed::Off, f64::INFINITY), (Windowed::Fixed, 25_000.0), (Windowed::ByRate, 12_500.0)] {
        let rules = Rules { windowed, ..rules() };
        let mut rate = SendingRate::new(&rules);
        rate.on_congestion(&rules, us(0));
        assert_eq!(rate.window(&rules), expected);
    }
}

/// Two flows meet, and each packet is marked that leaves another one behind. Of each flow, the first report leaves soon after the first packets have arrived, and the others at least 50 us later
/// each, in the highest class.
#[test]
fn a_receiver_reports_congestion_of_a_flow_once_per_interval() {
    let memory = Memory::PerPort(Bytes::new(4_000_000));
    let setup = PairSetup { hosts: 3, delay: Duration::from_us(10), memory, ..PairSetup::default() };
    let threshold = Bytes::new(1500);
    let marked = Config { mark_above: threshold, mark_all_above: threshold, ..Config::default() };
    let reports = |config: &Config| {
        let mut pair: Pair<Dcqcn> = Pair::new(config, setup.clone());
        let flows = [0, 1].map(|src| pair.open(src, 2, 1_000_000));
        pair.run_to_end(us(1_000_000));
        flows.map(|flow| {
            let is_report = |packet: &Packet<Header>| packet.flow == flow && packet.header.kind == Kind::Congestion;
            let sent = pair.sent().iter().filter(|sent| is_report(&sent.packet));
            sent.map(|sent| (sent.at, sent.packet.class)).collect::<Vec<_>>()
        })
    };
    for of_flow in reports(&marked) {
        assert!(of_flow.len() >= 3 && of_flow.iter().all(|(_, class)| *class == 0), "{of_flow:?}");
        assert!((us(11)..us(17)).contains(&of_flow[0].0), "{of_flow:?}");
        assert!(of_flow.windows(2).all(|pair| pair[1].0 - pair[0].0 >= Duration::from_us(50)), "{of_flow:?}");
    }
    let unmarked = Config { ecn: crate::disciplines::Marking::Off, ..marked };
    assert_eq!(reports(&unmarked), [[]; 2]);
}

fn any_config() -> impl Strategy<Value = Config> {
    let times = (1_u64..200, 1_u64..200, 1_u64..200).prop_map(|times| <[u64; 3]>::from(times).map(Duration::from_us));
    let rates = (1_u64..50, 0_u32..6, 0.001..1.0, 0.001..1.0);
    let window = prop::sample::select(vec![Windowed::Off, Windowed::Fixed, Windowed::ByRate]);
    let recovery = prop::sample::select(vec![Recovery::GoBackN, Recovery::Selective]);
    (times, rates, window, recovery, 1_u32..20, any::<bool>(), 1_u64..1000, 1_u64..2000).prop_map(
        |(
            [cnp_interval, alpha_timer, rate_timer],
            (kilobytes, fast_rises, gain, min_rate),
            window,
            recovery,
            ack_every,
            ack_first,
            nack,
            rto,
        )| {
            Config {
                gain,
                cnp_interval,
                alpha_timer,
                rate_timer,
                byte_counter: Bytes::new(1000 * kilobytes),
                fast_rises,
                min_rate,
                window,
                recovery,
                ack_every,
                ack_first,
                nack_interval: Duration::from_us(nack),
                rto_min: Duration::from_us(rto),
                ..Config::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither.
    #[test]
    fn no_header_breaks_a_host(
        selective in any::<bool>(),
        headers in prop::collection::vec((kinds(), 0_u32..3, 0_u32..12, 0_u64..200), 1..60),
    ) {
        let framing = Framing::new(NodeId(1), &WireProfile::IP_1500);
        let packet = |(mut kind, id, near, pause_us): (Kind, u32, u32, u64)| {
            // Most numbers that are drawn at random are far beyond the flow's.
            match &mut kind {
                Kind::Ack { cumulative } if near < 10 => *cumulative = near,
                Kind::Nack { cumulative, arrived } if near < 10 => (*cumulative, *arrived) = (near / 2, near / 2 + 1 + near % 3),
                _ => {}
            }
            let packet: Packet<Header> = framing.control(FlowId(id), NodeId(0), Header::new(kind, None));
            (Duration::from_us(pause_us), packet)
        };
        let recovery = if selective { Recovery::Selective } else { Recovery::GoBackN };
        let config = Config { recovery, ..Config::default() };
        assail::<Dcqcn>(&config, WireProfile::IP_1500, &[flow(0, 0, 1, 14_600, Time::ZERO, None)], headers.into_iter().map(packet))?;
    }

    /// Every flow completes, and no byte is delivered twice (which the kit asserts), whichever packets are lost, late or duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Dcqcn>(&config);
    }

    /// Whatever happens, a rate stays within its limits.
    #[test]
    fn nothing_breaks_a_rate(steps in prop::collection::vec((0_u8..3, 0_u64..100), 0..200)) {
        let (rules, mut rate, mut now) = (rules(), SendingRate::new(&rules()), Time::ZERO);
        for (what, pause) in steps {
            now += Duration::from_us(pause);
            while let Some(due) = rate.timer().filter(|due| *due <= now) {
                rate.on_timer(&rules, due);
            }
            match what {
                0 => rate.on_congestion(&rules, now),
                _ => rate.on_sent(&rules, 1500),
            }
            let gap = gap_ns(&rate);
            prop_assert!((999.999..20_000.1).contains(&gap), "{gap}");
        }
    }
}

#[test]
fn what_could_not_run_is_refused_by_name() {
    use crate::trial::{default_text, refused};
    let text = default_text::<Config>();
    assert!(text.contains("byte_counter = \"10MB\"") && text.contains("additive_increase = \"40Mb/s\""), "{text}");
    assert_eq!(refused::<Config>("window = \"by_rate\"\nrecovery = \"selective\""), Ok(()));
    for (text, key) in [
        ("gain = 0.0", "gain"),
        ("gain = nan", "gain"),
        ("min_rate = 0.0", "min_rate"),
        ("cnp_interval = \"0s\"", "cnp_interval"),
        ("alpha_timer = \"0s\"", "alpha_timer"),
        ("rate_timer = \"0s\"", "rate_timer"),
        ("byte_counter = \"0B\"", "byte_counter"),
        ("ack_every = 0", "ack_every"),
        ("rto_rtts = 0.5", "rto_rtts"),
        ("nack_interval = \"0s\"", "nack_interval"),
        ("mark_above = \"0B\"", "mark_above"),
        ("mark_all_above = \"1kB\"", "mark_all_above"),
        ("mark_share = 2.0", "mark_share"),
    ] {
        assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
    }
}
