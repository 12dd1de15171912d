//! pFabric between hosts: results that follow by hand, and random faults and input.

use flowloom_core::{Bytes, Coflow, DropReason, Duration, Event, Flow, FlowId, Memory, NodeId, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::header::tests::headers;
use super::{Config, Header, PFabric, Priority};
use crate::las::{self, Las};
use crate::trial::{assail, attacks, trials};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const PACKET: Duration = Duration::from_ns(1200);

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn pair(config: &Config, setup: PairSetup) -> Pair<PFabric> {
    Pair::new(config, setup)
}

/// Ports with enough memory that nothing is dropped.
fn roomy() -> PairSetup {
    PairSetup { memory: Memory::PerPort(Bytes::new(1_000_000)), ..PairSetup::default() }
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}

fn with_deadline(id: u32, size: u64, deadline: Option<Time>) -> Flow {
    let (src, dst) = (NodeId(0), NodeId(1));
    Flow {
        id: FlowId(id),
        src,
        dst,
        size: Bytes::new(size),
        start: Time::ZERO,
        deadline,
        tenant: 0,
        coflow: None,
        background: false,
    }
}

/// A flow that is alone sends its packets back to back: it takes all its wire bytes at line rate, and the delay.
#[test]
fn an_unloaded_flow_takes_its_transmission_time_and_the_delay() {
    for size in [0, 1, 1459, 1460, 1461, 14_600, 100_000, 1_000_000, 30_000_000] {
        let setup = PairSetup { log: false, ..PairSetup::default() };
        let mut pair = pair(&Config::default(), setup.clone());
        let flow = pair.open(0, 1, size);
        pair.run_to_end(SECOND);
        let packets = size.div_ceil(1460).max(1);
        let wire_bytes = size + 40 * packets;
        // 10 Gb/s is 800 ps per byte.
        assert_eq!(pair.flow(flow).fct(), Duration::from_ps(wire_bytes * 800) + setup.delay, "{size} B");
        let path = pair.network().path(NodeId(0), NodeId(1));
        assert_eq!(pair.flow(flow).fct(), pair.network().flow_time(&path, Bytes::new(size), &setup.wire), "{size} B");
        assert!(pair.dropped().is_empty());
    }
}

#[test]
fn a_gigabyte_takes_its_transmission_time_and_the_delay() {
    let mut pair = pair(&Config::default(), PairSetup { log: false, ..PairSetup::default() });
    let flow = pair.open(0, 1, 1_000_000_000);
    pair.run_to_end(SECOND);
    let wire_bytes: u64 = 1_000_000_000 + 40 * 684_932;
    assert_eq!(pair.flow(flow).fct(), Duration::from_ps(wire_bytes * 800) + Duration::from_us(1));
}

/// The first window leaves at once, and the next packet when the first acknowledgement is back.
#[test]
fn the_first_round_trip_sends_the_initial_window_and_later_ones_at_most_the_largest() {
    let delay = Duration::from_us(50);
    let config = Config { rto: Duration::from_ms(1), ..Config::default() };
    let mut pair = pair(&config, PairSetup { delay, ..roomy() });
    pair.open(0, 1, 1460 * 100);
    pair.run_to_end(SECOND);
    let round_trip = PACKET + delay + Duration::from_ns(32) + delay;
    let sent_by = |rounds: u64| {
        let end = Time::ZERO + round_trip * rounds;
        pair.sent().iter().filter(|sent| is_data(sent) && sent.at < end).count()
    };
    assert_eq!([sent_by(1), sent_by(2), sent_by(3)], [12, 12 + 15, 12 + 15 + 15]);
}

/// Flow B is ten times as long and starts first. The NIC sends A's packets as if B did not exist, except for the packet of B that it is
/// sending. B loses exactly A's time.
#[test]
fn the_shorter_flow_preempts_and_the_longer_loses_exactly_its_time() {
    let (long, short) = (1460 * 200, 1460 * 20);
    let alone = PACKET * 20 + Duration::from_us(1);
    for same_source in [true, false] {
        let setup = PairSetup { hosts: 3, ..roomy() };
        let mut pair = pair(&Config { rto: Duration::from_ms(1), ..Config::default() }, setup);
        let b = pair.open(0, 2, long);
        let a = pair.open(if same_source { 0 } else { 1 }, 2, short);
        pair.run_to_end(SECOND);
        let (a, b) = (pair.flow(a).fct(), pair.flow(b).fct());
        assert!(a >= alone && a <= alone + PACKET, "the short flow took {a}, alone it takes {alone}");
        assert_eq!(b, PACKET * 220 + Duration::from_us(1));
    }
}

/// By hand: packets leave every 1.2 us and arrive 2.2 us after they left; the acknowledgement of packet 1 is back at
/// 1.2 + 2.2 + 1.032 = 4.432 us, the last cumulative advance before the timeout 45 us later.
#[test]
fn a_lost_packet_is_sent_again_after_the_timeout_and_nothing_else() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.on_packet(|sent| match sent.packet.header {
        Header::Data { number: 2, .. } if !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    });
    let flow = pair.open(0, 1, 1460 * 5);
    pair.run_to_end(SECOND);
    let again: Vec<Time> = pair.sent().iter().filter(|sent| sent.packet.retransmission).map(|sent| sent.at).collect();
    let timeout = Time::from_ps(4_432_000) + Duration::from_us(45);
    assert_eq!(again, [timeout]);
    assert_eq!(pair.flow(flow).received, Some(timeout + PACKET + Duration::from_us(1)));
    let priorities: Vec<u32> =
        pair.sent().iter().filter(|sent| is_data(sent)).map(|sent| sent.packet.header.priority()).collect();
    // All are sent with nothing acknowledged, the last with everything but itself.
    assert_eq!(priorities, [7300, 7300, 7300, 7300, 7300, 1460]);
}

/// No packet arrives for 1 ms: twelve packets are sent, one more at each of four timeouts, then a header per timeout.
#[test]
fn after_five_timeouts_only_probes_are_sent_until_one_is_answered() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    pair.on_packet(|sent| if sent.at < at_us(1000) { Fate::Drop } else { Fate::Pass });
    let flow = pair.open(0, 1, 1460 * 20);
    pair.run_to_end(SECOND);
    let before: Vec<_> = pair.sent().iter().filter(|sent| sent.at < at_us(1000)).collect();
    let probes: Vec<Time> = before.iter().filter(|sent| !is_data(sent)).map(|sent| sent.at).collect();
    assert_eq!(before.len() - probes.len(), 12 + 4);
    assert_eq!(probes, (5..=22).map(|n| at_us(45 * n)).collect::<Vec<_>>());
    // The probe at 1035 us is answered, and the flow starts slowly: 1, 2, 4, 8, 5 packets, each after a round trip.
    let answered = at_us(1035) + Duration::from_ns(2 * 1032);
    let round_trip = PACKET + Duration::from_ns(2032);
    assert!(pair.flow(flow).received.unwrap() > answered + round_trip * 2);
    assert!(pair.flow(flow).received.unwrap() < answered + round_trip * 20);
}

/// As above, and the packet is lost that follows the answer to the probe of 1035 us. It is sent again a whole timeout later.
#[test]
fn what_is_sent_after_a_probe_has_a_whole_timeout() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    let mut is_first = true;
    pair.on_packet(move |sent| {
        let follows = sent.at > at_us(1000) && is_data(sent) && std::mem::take(&mut is_first);
        if sent.at < at_us(1000) || follows { Fate::Drop } else { Fate::Pass }
    });
    pair.open(0, 1, 1460 * 20);
    pair.run_to_end(SECOND);
    let answered = at_us(1035) + Duration::from_ns(2 * 1032);
    let after: Vec<Time> =
        pair.sent().iter().filter(|sent| sent.at > at_us(1035) && is_data(sent)).map(|sent| sent.at).take(2).collect();
    assert_eq!(after, [answered, answered + Duration::from_us(45)]);
}

/// Two series of four timeouts with acknowledgements in between are not five in a row.
#[test]
fn an_acknowledgement_ends_the_row_of_timeouts() {
    let mut pair = pair(&Config::default(), PairSetup::default());
    let mut losses = [4, 4];
    pair.on_packet(move |sent| {
        let left = match sent.packet.header {
            Header::Data { number: 0, .. } => &mut losses[0],
            Header::Data { number: 30, .. } => &mut losses[1],
            _ => return Fate::Pass,
        };
        *left -= 1;
        if *left >= 0 { Fate::Drop } else { Fate::Pass }
    });
    pair.open(0, 1, 1460 * 40);
    let end = pair.run_to_end(SECOND);
    assert!(end > at_us(8 * 45), "all eight timeouts passed");
    assert!(pair.sent().iter().all(|sent| !matches!(sent.packet.header, Header::Probe { .. })));
}

#[test]
fn without_probes_a_packet_is_sent_at_every_timeout() {
    let mut pair = pair(&Config { probe_after: 0, ..Config::default() }, PairSetup::default());
    pair.on_packet(|sent| if sent.at < at_us(1000) { Fate::Drop } else { Fate::Pass });
    pair.open(0, 1, 1460 * 20);
    pair.run_to_end(SECOND);
    assert_eq!(pair.sent().iter().filter(|sent| sent.at < at_us(1000)).count(), 12 + 22);
    assert!(pair.sent().iter().all(|sent| !matches!(sent.packet.header, Header::Probe { .. })));
}

/// A duplicate can starve in a port that is busy with better flows, for hundreds of milliseconds at 1 Gb/s.
#[test]
fn a_late_duplicate_of_a_finished_flow_is_acknowledged_and_opens_nothing() {
    for late in [Duration::from_us(500), Duration::from_ms(400)] {
        let mut pair = pair(&Config::default(), PairSetup::default());
        pair.on_packet(move |sent| if is_data(sent) { Fate::Duplicate(late) } else { Fate::Pass });
        let flow = pair.open(0, 1, 1460 * 3);
        pair.run_to_end(SECOND);
        let delivered = pair.events().iter().filter(|(_, _, event)| matches!(event, Event::Delivered { .. })).count();
        assert_eq!(delivered, 3);
        let answers: Vec<Header> =
            pair.sent().iter().filter(|sent| sent.at > at_us(500)).map(|sent| sent.packet.header).collect();
        assert_eq!(answers, [0, 1, 2].map(|number| Header::Ack { cumulative: 3, answers: Some(number) }));
        assert!(pair.flow(flow).acknowledged.unwrap() < at_us(500));
    }
}

#[test]
fn the_earlier_deadline_wins_over_the_shorter_flow() {
    let config = Config { priority: Priority::Deadline, rto: Duration::from_ms(1), ..Config::default() };
    let mut pair = pair(&config, roomy());
    for (id, size, deadline) in [(0, 10, None), (1, 20, Some(at_us(900))), (2, 60, Some(at_us(100)))] {
        pair.open_flow(with_deadline(id, 1460 * size, deadline));
    }
    pair.run_to_end(SECOND);
    // Only the packet of flow 0 that was already leaving goes before flow 2.
    let fct = [0, 1, 2].map(|id| pair.flow(FlowId(id)).fct());
    assert_eq!(fct, [90, 81, 61].map(|packets| PACKET * packets + Duration::from_us(1)));
}

/// Flow 2 is a coflow of its own and the smallest one. Flows 0 and 3 are a coflow together and share its number; of the same number, the packet
/// that came first goes first. Only the packet of flow 0 that was already leaving goes before flow 2.
#[test]
fn the_smaller_coflow_wins_over_the_shorter_flow() {
    let config = Config {
        priority: Priority::CoflowSize,
        initial_window: 100,
        max_window: 100,
        rto: Duration::from_ms(1),
        ..Config::default()
    };
    let mut pair = pair(&config, roomy());
    let of = |number, packets: u64| Some(Coflow { number, size: Bytes::new(1460 * packets), start: Time::ZERO });
    for (id, packets, coflow) in [(0, 10, of(5, 100)), (1, 20, of(1, 200)), (2, 60, None), (3, 90, of(5, 100))] {
        pair.open_flow(Flow { coflow, ..with_deadline(id, 1460 * packets, None) });
    }
    pair.run_to_end(SECOND);
    let fct = [0, 1, 2, 3].map(|id| pair.flow(FlowId(id)).fct());
    assert_eq!(fct, [70, 180, 61, 160].map(|packets| PACKET * packets + Duration::from_us(1)));
}

/// LAS: equal flows share the link packet by packet.
#[test]
fn under_bytes_sent_equal_flows_advance_in_lockstep() {
    let config = Config { priority: Priority::BytesSent, rto: Duration::from_ms(1), ..Config::default() };
    let mut pair = pair(&config, roomy());
    for _ in 0..4 {
        pair.open(0, 1, 1460 * 50);
    }
    pair.run_to_end(SECOND);
    let mut delivered = [0_i32; 4];
    for (_, _, event) in pair.events() {
        if let Event::Delivered { flow, .. } = event {
            delivered[flow.0 as usize] += 1;
            let (least, most) = (delivered.iter().min().unwrap(), delivered.iter().max().unwrap());
            assert!(most - least <= 1, "{delivered:?}");
        }
    }
    assert_eq!(delivered, [50; 4]);
}

/// Ten to one through a 36 kB port: the first windows alone are five times its memory.
#[test]
fn incast_drops_at_the_receivers_port_completes_and_sends_the_shortest_first() {
    let setup = PairSetup { hosts: 11, ..PairSetup::default() };
    let mut pair = pair(&Config::default(), setup);
    let flows: Vec<FlowId> = (0..10).map(|host| pair.open(host, 10, 1460 * (20 + 5 * u64::from(host)))).collect();
    pair.run_to_end(SECOND);
    assert!(pair.dropped().iter().any(|(_, _, why)| *why == DropReason::PushedOut));
    assert!(pair.dropped().iter().all(|(_, flow, _)| *flow != flows[0]), "the shortest flow loses nothing");
    assert!(pair.flow(flows[0]).fct() <= PACKET * 21 + Duration::from_us(1));
    let total: u64 = (0..10).map(|host| 20 + 5 * host).sum();
    let last = flows.iter().map(|flow| pair.flow(*flow).fct()).max().unwrap();
    assert!(last >= PACKET * total + Duration::from_us(1));
    assert!(last <= PACKET * total + Duration::from_us(1 + 3 * 45), "more than three timeouts of idle link: {last}");
}

/// When each of the jobs (arrival, work), in picoseconds, leaves a server that always serves the one with the least work left.
fn preemptive_srpt(jobs: &[(u64, u64)]) -> Vec<u64> {
    let mut done = vec![0; jobs.len()];
    let mut waiting: Vec<(u64, usize)> = Vec::new();
    let mut arrivals = jobs.iter().enumerate().peekable();
    let mut now = 0;
    loop {
        while let Some((index, (_, work))) = arrivals.next_if(|(_, (at, _))| *at <= now) {
            waiting.push((*work, index));
        }
        let next = arrivals.peek().map_or(u64::MAX, |(_, (at, _))| *at);
        let Some(least) = (0..waiting.len()).min_by_key(|place| waiting[*place]) else {
            if next == u64::MAX {
                return done;
            }
            now = next;
            continue;
        };
        let (work, index) = waiting[least];
        let served = work.min(next - now);
        now += served;
        if served == work {
            done[index] = now;
            waiting.swap_remove(least);
        } else {
            waiting[least].0 -= served;
        }
    }
}

/// One bottleneck at 70 % load, flows of 2 to 198 kB. With memory for all windows, the mean completion time is that of preemptive SRPT,
/// which no transport can beat. With 36 kB, waiting for timeouts costs a tenth.
#[test]
fn on_one_bottleneck_the_mean_completion_time_is_close_to_preemptive_srpt() {
    let (mut state, mut at) = (1_u64, 0_u64);
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let jobs: Vec<(u64, u64)> = (0..400)
        .map(|_| {
            // Pauses uniform to twice the mean: 100 kB take 82 us.
            at += below(2 * 117_000) * 1000;
            (at, 2000 + below(196_000))
        })
        .collect();
    let wire_ps = |size: u64| (size + 40 * size.div_ceil(1460)) * 800;
    let works: Vec<(u64, u64)> = jobs.iter().map(|(at, size)| (*at, wire_ps(*size))).collect();
    let ideal = preemptive_srpt(&works);
    let ideal_mean = jobs.iter().zip(&ideal).map(|((at, _), done)| (done - at) as f64).sum::<f64>() / 400.0 + 1e6;
    let patient = Config { rto: Duration::from_ms(9), ..Config::default() };
    for (memory, config, most) in [(roomy().memory, patient, 1.005), (PairSetup::default().memory, Config::default(), 1.12)] {
        let mut pair = pair(&config, PairSetup { memory, log: false, ..PairSetup::default() });
        for (id, (start, size)) in (0..).zip(&jobs) {
            pair.open_flow(Flow { start: Time::from_ps(*start), ..with_deadline(id, *size, None) });
        }
        pair.run_to_end(SECOND);
        let mean = (0..400).map(|id| pair.flow(FlowId(id)).fct().as_ps() as f64).sum::<f64>() / 400.0;
        let ratio = mean / ideal_mean;
        assert!((0.999..most).contains(&ratio), "{ratio} times the least mean, with {memory:?}");
    }
}

#[test]
fn a_selective_acknowledgement_lets_the_flow_go_on_where_that_is_configured() {
    let sent_before_timeout = |sack_clocking| {
        let mut pair = pair(&Config { sack_clocking, ..Config::default() }, PairSetup::default());
        pair.on_packet(|sent| match sent.packet.header {
            Header::Data { number: 0, .. } if !sent.packet.retransmission => Fate::Drop,
            _ => Fate::Pass,
        });
        pair.open(0, 1, 1460 * 100);
        pair.run_to_end(SECOND);
        pair.sent().iter().filter(|sent| is_data(sent) && sent.at < at_us(45)).count()
    };
    assert_eq!(sent_before_timeout(false), 12);
    // The link never idles: a packet each 1.2 us of the 45.
    assert_eq!(sent_before_timeout(true), 38);
}

fn any_config() -> impl Strategy<Value = Config> {
    let priority =
        prop::sample::select(vec![Priority::Remaining, Priority::Deadline, Priority::BytesSent, Priority::CoflowSize]);
    (priority, any::<bool>(), 0_u32..7, 1_u32..30, 0_u32..30).prop_map(
        |(priority, sack_clocking, probe_after, window, more)| Config {
            priority,
            sack_clocking,
            probe_after,
            initial_window: window,
            max_window: window + more,
            ..Config::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither. LAS has the same host and header. At
    /// most two windows answer a header: one to it, and one at the timer.
    #[test]
    fn no_header_breaks_a_host(config in any_config(), packets in attacks(WireProfile::IP_1500, 200, headers())) {
        let own = [with_deadline(0, 100 * 1460, None)];
        let sent = assail::<PFabric>(&config, WireProfile::IP_1500, &own, packets.clone())?;
        prop_assert!(sent.most <= 200, "{} packets in answer to one", sent.most);
        let sent = assail::<Las>(&las::Config::default(), WireProfile::IP_1500, &own, packets)?;
        prop_assert!(sent.most <= 200, "{} packets in answer to one", sent.most);
    }

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or
    /// duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<PFabric>(&config);
    }
}
