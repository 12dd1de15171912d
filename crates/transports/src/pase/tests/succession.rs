//! How soon the capacity of a flow that ends passes to its successor, and marks.

use std::sync::Arc;

use flowloom_core::{
    Bytes, Duration, Endpoint, FlowId, Memory, Network, NodeId, Paths, Rate, Routing, Switching, Time, Transport, WireProfile,
    topology,
};
use flowloom_fabric::pair::{Pair, PairSetup};

use super::{FOREVER, data, us};
use crate::pase::config::Spans;
use crate::pase::{Acked, Arbitration, Config, Cut, Demand, Header, Pase};
use crate::tcp::Blocks;
use crate::toolkit::Framing;
use crate::trial::{flow, site};

const WIRE: WireProfile = WireProfile::NS2_1000;

/// A tree whose links all have 1 Gb/s, with `hosts` hosts in each of four racks. A round trip across the core takes 12 × 25 us, 6 × 8 us for a
/// full packet and 6 × 0.32 us for its acknowledgement: as long as 43.74 packets.
fn narrow_tree(hosts: usize) -> Network {
    let gbps = Rate::from_gbps(1);
    topology::three_tier(4, hosts, 2, gbps, gbps, gbps, Duration::from_us(25), Switching::StoreAndForward)
}

const ROUND_TRIP: Duration = Duration::from_ns(300_000 + 6 * 8000 + 6 * 320);

fn setup(network: Network) -> PairSetup {
    PairSetup { network: Some(network), wire: WIRE, memory: Memory::PerPort(Bytes::new(500_000)), ..PairSetup::default() }
}

/// Two flows of different hosts share the link of their top-of-rack switch. The second one starts `later`, with more bytes. Returns the time from the
/// last packet of the first one to the next packet that the second one sends in the top queue; zero if it was there before.
fn gap(config: &Config, packets: u64, later: Duration) -> Duration {
    let mut pair = Pair::<Pase>::new(config, setup(narrow_tree(2)));
    pair.open_flow(flow(0, 0, 6, 960 * packets, Time::ZERO, None));
    pair.open_flow(flow(1, 1, 7, 960 * (packets + 100), Time::ZERO + later, None));
    pair.run_to_end(FOREVER);
    let packets = |id: u32| pair.sent().iter().filter(move |sent| sent.packet.flow == FlowId(id) && data(sent).is_some());
    let last = packets(0).next_back().expect("data").at;
    let top = packets(1).find(|sent| sent.packet.class == 0).expect("the second flow has the top queue in the end").at;
    top.max(last) - last
}

/// A flow that claims its whole link to the end keeps its successor waiting, but for no longer than the default horizon assumes. The successor starts
/// at sixteen times within a period. Its packets wait behind the last packets of the first flow at one port of each half, which
/// the idle round trip does not count.
#[test]
fn a_successor_sends_within_the_derived_time() {
    let base = Config { demand: Demand::Line, delegation: false, ..Config::default() };
    let source_half = Config { arbitration: Arbitration::SourceHalf, ..base.clone() };
    let without_guard = |config: &Config| Config { promotion_guard: false, ..config.clone() };
    for (config, round_trips) in [
        (base.clone(), 4.0),
        (without_guard(&base), 3.0),
        (source_half.clone(), 3.0),
        (without_guard(&source_half), 2.5),
        (Config { period_rtts: 2.0, ..base.clone() }, 5.0),
        (Config { period_rtts: 2.0, ..source_half }, 3.5),
    ] {
        let spans = Spans::new(&config, narrow_tree(2).base_rtt(&WIRE), &WIRE).unwrap();
        let reaction = spans.reaction(&config, ROUND_TRIP, 2);
        assert_eq!(reaction, ROUND_TRIP.scale(round_trips));
        let gaps = (0..16).map(|step| gap(&config, 200, spans.period * step / 16)).collect::<Vec<_>>();
        let longest = *gaps.iter().max().unwrap();
        let queues = Duration::from_us(2 * 8);
        assert!(longest <= reaction + queues && longest >= reaction.scale(0.5), "{longest} of {reaction}: {gaps:?}");
    }
}

/// By hand: with a horizon of one round trip, a flow of 100 packets claims all of its slot until 43 are left, so its successor is told a round trip
/// and more after its last packet. Its waiting packet then reaches the destination, the next one makes the destination ask, and its
/// acknowledgement brings the answer: two round trips. With the default horizon, the successor is there before, whenever it starts.
#[test]
fn the_horizon_hides_the_time_that_a_reallocation_takes() {
    let gaps = |demand_rtts| {
        let config = Config { demand_rtts, ..Config::default() };
        (0..16).map(|step| gap(&config, 100, ROUND_TRIP * step / 16)).collect::<Vec<_>>()
    };
    let short = gaps(Some(1.0));
    assert!(short.iter().all(|gap| (ROUND_TRIP * 2..ROUND_TRIP * 5 / 2).contains(gap)), "{short:?}");
    let three = gaps(Some(3.0));
    assert!(three.iter().filter(|gap| **gap == Duration::ZERO).count() >= 14, "{three:?}");
    assert_eq!(gaps(None), [Duration::ZERO; 16]);
}

/// Sixteen hosts offer 4 Gb/s to a core of 4 Gb/s, in flows of 100 packets. The source's half has four slots of a host's rate. A flow that has one sends in the
/// top queue, waits for the guard, or waits for the destination's half. If flows claim their slots to the end, there are four of them, and those
/// that have just sent their last packet. The top queue then carries little of the load, more with a horizon of one round trip, and all
/// but a tenth of it with the default.
#[test]
fn slots_are_used_guarded_or_blocked() {
    let gbps = Rate::from_gbps;
    let network = topology::three_tier(4, 8, 2, gbps(1), gbps(10), gbps(4), Duration::from_us(25), Switching::StoreAndForward);
    let share = |demand, demand_rtts| {
        let config = Config { demand, demand_rtts, delegation: false, ..Config::default() };
        let mut pair = Pair::<Pase>::new(&config, setup(network.clone()));
        let arrivals = (0..16).flat_map(|turn| (0..16).map(move |src| (turn * 3200 + u64::from(src) * 200, src)));
        for (id, (at, src)) in (0..).zip(arrivals) {
            pair.open_flow(flow(id, src, src + 16, 96_000, us(at), None));
        }
        let mut with_slot = 0;
        for sample in 0..100 {
            pair.run(us(10_000 + 300 * sample));
            for [source, destination, assigned, _] in (0..256).filter_map(|id| pair.host(id as usize % 16).queues(FlowId(id))) {
                assert_eq!(assigned, source.max(destination));
                with_slot += u32::from(source == 0);
            }
        }
        let during = us(10_000)..us(39_700);
        let sent = pair.sent().iter().filter(|sent| data(sent).is_some() && during.contains(&sent.at));
        let top = sent.clone().filter(|sent| sent.packet.class == 0).count() as f64;
        (f64::from(with_slot) / 100.0, top / sent.count() as f64)
    };
    let (slots, carried) = share(Demand::Line, None);
    assert!((4.0..5.0).contains(&slots) && carried < 0.5, "{slots}, {carried}");
    let (_, short) = share(Demand::Remaining, Some(1.0));
    let (_, derived) = share(Demand::Remaining, None);
    assert!(carried < short && short < 0.8 && derived > 0.9, "{carried}, {short}, {derived}");
}

/// A window of 38 packets in the top queue, α = 1, and five marked acknowledgements: with a cut for each, 19, 9.5, 4.75, 2.375 and 1.19 packets are
/// left, and with one per round trip 19. The next acknowledgement without a mark sets the reference rate again.
#[test]
fn marks_cut_once_per_round_trip_or_each_time() {
    // A round trip of 300.64 us, or 37.6 packets, which counts as 38.
    let delay = Duration::from_us(71);
    let network = topology::single_switch(2, Rate::from_gbps(1), delay, Switching::StoreAndForward);
    let paths = Paths::new(Arc::new(network), Routing::Ecmp, 1);
    for (cut, windows) in [(Cut::PerMark, [19, 9, 4, 2, 1]), (Cut::PerRtt, [19; 5])] {
        let config = Config { cut, arbitration: Arbitration::Local, ..Config::default() };
        let mut host = Pase::host(&config, &site(&paths, NodeId(0), WIRE));
        let mut now = Time::ZERO;
        host.open(now, &flow(0, 0, 1, 960_000, now, None));
        now += Duration::from_us(1);
        host.handle_timeout(now);
        let mut sent = std::iter::from_fn(|| host.poll_transmit(now)).count() as u32;
        assert_eq!(sent, 38);
        let mut acknowledge = |cumulative, echo| {
            let header = Header::Ack {
                acked: if echo { Acked::Marked } else { Acked::Data },
                patience: 1,
                queue: 0,
                rate: Rate::from_gbps(1).into(),
                cumulative,
                blocks: Blocks::NONE,
            };
            let ack = Framing::new(NodeId(1), &WIRE).control(FlowId(0), NodeId(0), header);
            host.handle_packet(now, &ack);
            sent += std::iter::from_fn(|| host.poll_transmit(now)).count() as u32;
            host.window(FlowId(0))
        };
        for (number, window) in (1..).zip(windows) {
            assert_eq!(acknowledge(number, true), window, "{cut:?}, mark {number}");
        }
        assert_eq!(acknowledge(6, false), 38);
        assert_eq!(sent, 38 + 6);
    }
}
