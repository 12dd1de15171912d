//! Fastpass between hosts and an arbiter: results that follow by hand, and random faults and input.

use flowloom_core::{Duration, Endpoint, Event, FlowId, NodeId, Packet, Time, Transport, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::header::tests::headers;
use super::{Config, Fastpass, Header, Policy, ScheduleStart};
use crate::trial::{assail, assail_endpoint, attacks, flow, site, trials, two_hosts};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const PACKET: Duration = Duration::from_ns(1200);
const DELAY: Duration = Duration::from_us(1);
/// The time of a control packet from its start to its arrival.
const CONTROL: Duration = Duration::from_ns(1032);
const EPOCH: Duration = Duration::from_ns(10_200);
/// 10 epochs and two round trips of 3.232 us.
const REQUEST_TIMEOUT: Duration = Duration::from_ns(102_000 + 6464);

/// Hosts that begin with the next epoch, all at once. This makes the arithmetic of slots simplest.
fn in_step() -> Config {
    Config { schedule_start: ScheduleStart::Epoch, ..Config::default() }
}

fn pair(config: &Config, hosts: usize) -> Pair<Fastpass> {
    Pair::new(config, PairSetup { hosts, ..PairSetup::default() })
}

/// When slot `number` begins, counted from the first one of the first epoch that can serve a request sent at this instant. The arbiter
/// has the request one control packet later, and at the next beginning of an epoch matches the epoch after it.
fn slot_after(request: Time, number: u64) -> Time {
    let heard = request + CONTROL;
    let served = heard.as_ps() / EPOCH.as_ps() + 2;
    Time::ZERO + EPOCH * (served + number / 8) + EPOCH * (number % 8) / 8
}

fn data(pair: &Pair<Fastpass>) -> Vec<&SentPacket<Header>> {
    pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Data { .. })).collect()
}

/// When each request was sent, and for how many packets.
fn requests(pair: &Pair<Fastpass>) -> Vec<(Time, u32)> {
    let request = |sent: &SentPacket<Header>| match sent.packet.header {
        Header::Request { remaining, .. } => Some((sent.at, remaining)),
        _ => None,
    };
    pair.sent().iter().filter_map(request).collect()
}

/// Loses the requests and schedules with these numbers, counted from 1.
fn lose(pair: &mut Pair<Fastpass>, requests: &'static [u32], schedules: &'static [u32]) {
    let (mut requested, mut scheduled) = (0, 0);
    pair.on_packet(move |sent| {
        let (numbers, seen) = match sent.packet.header {
            Header::Request { .. } => (requests, &mut requested),
            Header::Schedule { .. } => (schedules, &mut scheduled),
            _ => return Fate::Pass,
        };
        *seen += 1;
        if numbers.contains(seen) { Fate::Drop } else { Fate::Pass }
    });
}

/// A flow that is alone waits for its request and for the next beginning of an epoch. It then has a packet per slot, from the beginning
/// of the following epoch, or from the arrival of its schedule.
#[test]
fn an_unloaded_flow_has_every_slot_from_the_first_epoch_that_can_serve_it() {
    let starts_ns = [0, 3_000, 9_168, 9_167, 25_000];
    let on_arrival = EPOCH - CONTROL;
    for (start_ns, (config, earlier)) in
        starts_ns.iter().flat_map(|ns| [(ns, (in_step(), Duration::ZERO)), (ns, (Config::default(), on_arrival))])
    {
        for size in [0, 1, 1460, 1461, 1460 * 8, 1460 * 8 + 1, 100_000, 1_000_000] {
            let mut pair = pair(&config, 2);
            let start = Time::ZERO + Duration::from_ns(*start_ns);
            pair.open_flow(flow(0, 0, 1, size, start, None));
            pair.run_to_end(SECOND);
            let packets: u64 = size.div_ceil(1460).max(1);
            let last_bytes = size - (packets - 1) * 1460 + 40;
            let end = slot_after(start, packets - 1) + Duration::from_ps(last_bytes * 800) + DELAY;
            assert_eq!(pair.flow(FlowId(0)).fct() + earlier, end - start, "{size} B from {start}");
            // Nothing is requested twice, and the arbiter is notified of the end.
            let asked: Vec<u32> = requests(&pair).iter().map(|(_, remaining)| *remaining).collect();
            assert_eq!(asked, [packets as u32, 0]);
            assert_eq!(data(&pair).len() as u64, packets);
        }
    }
}

/// Four packets and forty to one host: the four have the first slots, the forty the rest, and none is idle.
#[test]
fn the_shorter_flow_has_the_first_slots_and_the_longer_all_others() {
    let mut pair = pair(&in_step(), 3);
    let long = pair.open(0, 2, 1460 * 40);
    let short = pair.open(1, 2, 1460 * 4);
    pair.run_to_end(SECOND);
    for (flow, last_slot) in [(short, 3), (long, 43)] {
        assert_eq!(pair.flow(flow).received, Some(slot_after(Time::ZERO, last_slot) + PACKET + DELAY));
    }
}

#[test]
fn the_earlier_deadline_has_the_first_slots() {
    let mut pair = pair(&Config { policy: Policy::Deadline, ..in_step() }, 4);
    let at_us = |us| Some(Time::ZERO + Duration::from_us(us));
    for (id, packets, deadline) in [(0, 2, None), (1, 4, at_us(2000)), (2, 10, at_us(1000))] {
        pair.open_flow(flow(id, id, 3, 1460 * packets, Time::ZERO, deadline));
    }
    pair.run_to_end(SECOND);
    for (id, last_slot) in [(2, 9), (1, 13), (0, 15)] {
        assert_eq!(pair.flow(FlowId(id)).received, Some(slot_after(Time::ZERO, last_slot) + PACKET + DELAY));
    }
}

#[test]
fn a_lost_request_is_repeated_with_back_off() {
    let mut pair = pair(&in_step(), 2);
    let mut losses = 3;
    pair.on_packet(move |_| {
        losses -= 1;
        if losses >= 0 { Fate::Drop } else { Fate::Pass }
    });
    pair.open(0, 1, 1460);
    pair.run_to_end(SECOND);
    let asked: Vec<Time> = requests(&pair).iter().filter(|(_, remaining)| *remaining > 0).map(|(at, _)| *at).collect();
    assert_eq!(asked, [0, 1, 3, 7].map(|timeouts| Time::ZERO + REQUEST_TIMEOUT * timeouts));
    let received = slot_after(asked[3], 0) + PACKET + DELAY;
    assert_eq!(pair.flow(FlowId(0)).received, Some(received));
}

/// Twenty packets take three schedules; the second is lost. The sender expects its grants until the request times out, counted from the
/// last schedule. It then requests the eight packets that it could not send. That request is lost as well, and is repeated after one
/// timeout, because the grants ended the back-off.
#[test]
fn after_a_lost_schedule_the_rest_is_requested() {
    let mut pair = pair(&in_step(), 2);
    lose(&mut pair, &[2], &[2]);
    pair.open(0, 1, 1460 * 20);
    pair.run_to_end(SECOND);
    let second = Time::ZERO + EPOCH * 3 + CONTROL + REQUEST_TIMEOUT;
    let asked = requests(&pair);
    assert_eq!(asked[..3], [(Time::ZERO, 20), (second, 8), (second + REQUEST_TIMEOUT, 8)]);
    assert_eq!(data(&pair).len(), 20);
    assert_eq!(pair.flow(FlowId(0)).received, Some(slot_after(asked[2].0, 7) + PACKET + DELAY));
}

/// Three requests are lost, and so are the second and the third schedule. The first one ends the back-off, so the rest is requested one timeout after it.
#[test]
fn a_schedule_ends_the_back_off() {
    let mut pair = pair(&in_step(), 2);
    lose(&mut pair, &[1, 2, 3], &[2, 3]);
    pair.open(0, 1, 1460 * 20);
    pair.run_to_end(SECOND);
    let asked = requests(&pair);
    let heard = asked[3].0 + CONTROL;
    let first = Time::ZERO + EPOCH * (heard.as_ps() / EPOCH.as_ps() + 1) + CONTROL;
    assert_eq!(asked[3..5], [(Time::ZERO + REQUEST_TIMEOUT * 7, 20), (first + REQUEST_TIMEOUT, 12)]);
}

/// Ten packets, of which one is lost: an epoch after the last one was sent, the sender requests one more slot.
#[test]
fn a_lost_packet_is_requested_an_epoch_after_the_last_one() {
    let mut pair = pair(&in_step(), 2);
    pair.on_packet(|sent| match sent.packet.header {
        Header::Data { number: 3, .. } if !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    });
    pair.open(0, 1, 1460 * 10);
    pair.run_to_end(SECOND);
    let again = slot_after(Time::ZERO, 9) + EPOCH;
    assert_eq!(requests(&pair)[..2], [(Time::ZERO, 10), (again, 1)]);
    let retransmitted: Vec<_> = data(&pair).into_iter().filter(|sent| sent.packet.retransmission).map(|sent| sent.at).collect();
    assert_eq!(retransmitted, [slot_after(again, 0)]);
    assert_eq!(pair.flow(FlowId(0)).received, Some(slot_after(again, 0) + PACKET + DELAY));
}

#[test]
fn a_repeated_schedule_grants_nothing() {
    let mut pair = pair(&in_step(), 2);
    pair.on_packet(|sent| match sent.packet.header {
        Header::Schedule { .. } => Fate::Duplicate(Duration::from_us(3)),
        _ => Fate::Pass,
    });
    pair.open(0, 1, 1460 * 30);
    pair.run_to_end(SECOND);
    assert_eq!(data(&pair).len(), 30);
}

/// A request that is duplicated after the flow's end makes the arbiter grant slots for an unknown flow, until the sender reports that.
#[test]
fn the_arbiter_forgets_what_the_sender_does_not_know() {
    let mut pair = pair(&in_step(), 2);
    let late = Duration::from_ms(5);
    pair.on_packet(move |sent| match sent.packet.header {
        Header::Request { remaining: 1..=u32::MAX, .. } => Fate::Duplicate(late),
        _ => Fate::Pass,
    });
    pair.open(0, 1, 1460 * 1000);
    let end = pair.run_to_end(SECOND);
    assert!(pair.flow(FlowId(0)).received.unwrap() < Time::ZERO + late);
    assert_eq!(data(&pair).len(), 1000);
    // One schedule per epoch until the answer is back.
    let schedules = pair.sent().iter().filter(|sent| sent.at > Time::ZERO + late && sent.packet.class == 0).count();
    assert!((2..=6).contains(&schedules), "{schedules}");
    assert!(end < Time::ZERO + late + EPOCH * 5);
}

/// All hosts send to all others. At no host do the packets of two slots overlap by more than the delay that control packets cause, so
/// hardly any packet waits at the last hop, and none is dropped.
#[test]
fn packets_hardly_wait_and_are_never_dropped() {
    let hosts = 8;
    let mut pair = pair(&Config::default(), hosts as usize);
    let pairs = (0..hosts).flat_map(|src| (0..hosts).filter(move |dst| *dst != src).map(move |dst| (src, dst)));
    for (id, (src, dst)) in (0..).zip(pairs) {
        let start = Time::ZERO + Duration::from_ns(u64::from(id * 7919 % 40_000));
        pair.open_flow(flow(id, src, dst, 1460 * (1 + u64::from(id * 31 % 60)), start, None));
    }
    pair.run_to_end(SECOND);
    assert!(pair.dropped().is_empty());
    let mut delivered = std::collections::BTreeMap::new();
    for (at, _, event) in pair.events() {
        if let Event::Delivered { flow, offset, .. } = event {
            delivered.insert((*flow, offset.get()), *at);
        }
    }
    let waits: Vec<Duration> = data(&pair)
        .iter()
        .map(|sent| delivered[&(sent.packet.flow, sent.packet.offset.get())] - (sent.at + PACKET + DELAY))
        .collect();
    assert!(waits.len() > 1000);
    assert!(waits.iter().all(|wait| *wait <= PACKET), "{:?}", waits.iter().max());
    assert!(data(&pair).iter().all(|sent| !sent.packet.retransmission));
}

fn any_config() -> impl Strategy<Value = Config> {
    let start = prop::sample::select(vec![ScheduleStart::Epoch, ScheduleStart::Arrival]);
    let policy = prop::sample::select(vec![Policy::Srpt, Policy::Deadline]);
    (start, policy, any::<bool>(), 1_u32..=8).prop_map(|(schedule_start, policy, push_out, epoch_slots)| Config {
        schedule_start,
        policy,
        push_out,
        epoch_slots,
        ..Config::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither. What a host answers are at most
    /// eight packets that were granted, and requests.
    #[test]
    fn no_header_breaks_a_host(config in any_config(), packets in attacks(WireProfile::IP_1500, 200, headers())) {
        let sent = assail::<Fastpass>(&config, WireProfile::IP_1500, &[flow(0, 0, 1, 14_600, Time::ZERO, None)], packets)?;
        prop_assert!(sent.all <= 100 * 20, "{} packets", sent.all);
    }

    /// Nor does it break the arbiter, which knows no more than the three flows of each host.
    #[test]
    fn no_header_breaks_the_arbiter(
        config in any_config(),
        packets in attacks(WireProfile::IP_1500, 200, headers()),
        sources in prop::collection::vec(prop::sample::select(vec![0, 1, 2, u32::MAX]), 100),
    ) {
        let paths = two_hosts::<Fastpass>(&config);
        let mut arbiter = Fastpass::control(&config, &site(&paths, NodeId(3), WireProfile::IP_1500));
        let packets = packets.into_iter().zip(sources).map(|((pause, packet), src)| (pause, Packet { src: NodeId(src), ..packet }));
        let sent = assail_endpoint(&mut arbiter, &[], packets)?;
        prop_assert!(sent.most <= 2, "{} schedules in answer to one header", sent.most);
        prop_assert!(arbiter.known_flows() <= 6, "{} flows", arbiter.known_flows());
    }

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or
    /// duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Fastpass>(&config);
    }
}
