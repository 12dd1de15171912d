//! PASE between hosts: Algorithm 2, probes and the promotion guard by hand, and random faults.

use flowloom_core::{Bytes, Duration, Event, FlowId, Memory, NodeId, Rate, Time, WireProfile};
use flowloom_fabric::pair::{Fate, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

mod control;
mod input;
mod resting;
mod succession;
mod tree;

use super::{Acked, Arbitration, Config, Criterion, Demand, Header, Pase, Probing};
use crate::trial::{flow, trials};

const SECOND: Time = Time::from_ps(1_000_000_000_000);
const FOREVER: Time = Time::from_ps(1_000_000_000_000_000);

fn local() -> Config {
    Config { arbitration: Arbitration::Local, ..Config::default() }
}

/// Hosts with 1 Gb/s and 1000 B packets of 8 us, 100 us from host to host.
fn rack(hosts: usize) -> PairSetup {
    PairSetup {
        hosts,
        rate: Rate::from_gbps(1),
        delay: Duration::from_us(100),
        wire: WireProfile::NS2_1000,
        memory: Memory::PerPort(Bytes::new(500_000)),
        ..PairSetup::default()
    }
}

fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn data(sent: &SentPacket<Header>) -> Option<u32> {
    match sent.packet.header {
        Header::Data { number, .. } => Some(number),
        _ => None,
    }
}

fn timeouts(pair: &Pair<Pase>) -> Vec<u32> {
    let in_a_row = |(_, _, event): &(Time, _, Event)| match event {
        Event::TimedOut { in_a_row, .. } => Some(*in_a_row),
        _ => None,
    };
    pair.events().iter().filter_map(in_a_row).collect()
}

/// A flow alone starts a picosecond after it was opened, at the rate of its NIC, and never waits.
#[test]
fn an_unloaded_flow_takes_its_transmission_time() {
    for size in [0, 1, 959, 960, 961, 9600, 100_000, 10_000_000] {
        let mut pair = Pair::<Pase>::new(&local(), rack(2));
        let flow = pair.open(0, 1, size);
        pair.run_to_end(FOREVER);
        let path = pair.network().path(NodeId(0), NodeId(1));
        let expected = pair.network().flow_time(&path, Bytes::new(size), &WireProfile::NS2_1000) + Duration::from_ps(1);
        assert_eq!(pair.flow(flow).fct(), expected, "{size} B");
        assert!(pair.sent().iter().all(|sent| sent.packet.class == 0));
    }
}

/// Flow 0 takes 8 ms and cannot meet its deadline of 1 ms. Flow 1 takes 2 ms and meets its deadline of 4 ms if flow 0 makes way for it after 1 ms.
#[test]
fn a_flow_that_is_late_makes_way_for_one_that_is_not() {
    for late_last in [true, false] {
        let mut pair = Pair::<Pase>::new(&Config { criterion: Criterion::Deadline, late_last, ..local() }, rack(3));
        pair.open_flow(flow(0, 0, 1, 960_000, Time::ZERO, Some(us(1000))));
        pair.open_flow(flow(1, 0, 2, 240_000, Time::ZERO, Some(us(4000))));
        pair.run_to_end(FOREVER);
        let (first, second) = (pair.flow(FlowId(0)).fct(), pair.flow(FlowId(1)).fct());
        let (shorter, longer) = if late_last { (second, first) } else { (first, second) };
        assert!(shorter < longer);
        assert_eq!(late_last, second < Duration::from_us(4000), "{second}");
        // The link is never idle for long.
        let both = Duration::from_us(8000 + 2000 + 100);
        assert!(longer >= both && longer < both + Duration::from_us(500), "{longer}");
    }
}

/// Two flows of one source, opened at once. The shorter one has the top queue and the whole link; the longer one has one packet in the second
/// queue until the shorter one has little left. The order in which they are opened does not matter.
#[test]
fn the_shorter_of_two_flows_goes_first() {
    for first in [0, 1] {
        let mut pair = Pair::<Pase>::new(&local(), rack(3));
        let sizes = [96_000, 192_000];
        pair.open(0, 1 + first, sizes[first as usize]);
        pair.open(0, 2 - first, sizes[1 - first as usize]);
        pair.run_to_end(FOREVER);
        let (short, long) = (FlowId(first), FlowId(1 - first));
        let alone = Duration::from_us(100 + 100 * 8);
        let fct = pair.flow(short).fct();
        assert!(fct >= alone && fct < alone + Duration::from_us(100), "{fct}");
        // Together they take as long as one flow of both sizes, but for the packets that the longer one could send as well.
        let both = pair.flow(long).fct();
        assert!(both < Duration::from_us(100 + 300 * 8 + 300), "{both}");
        // It may send one packet before the shorter one has begun. Its next one waits in the NIC behind all of the shorter flow's.
        let of = |flow| pair.sent().iter().filter(move |sent| sent.packet.flow == flow && data(sent).is_some());
        let [first, second] = [0, 1].map(|nth| of(long).nth(nth).expect("data"));
        assert!(first.packet.class == 1 && second.at >= of(short).next_back().expect("data").at, "{second:?}");
    }
}

/// Eight senders to one receiver. The flow with the fewest bytes learns in a round trip that it has the downlink, the others that they
/// have not: the shares of the destination come with acknowledgements.
#[test]
fn the_destination_arbitrates_its_downlink() {
    let mut pair = Pair::<Pase>::new(&local(), rack(9));
    for sender in 0..8 {
        pair.open(sender, 8, 96_000 + 9600 * u64::from(sender));
    }
    pair.run_to_end(FOREVER);
    let finished: Vec<Duration> = (0..8).map(|flow| pair.flow(FlowId(flow)).fct()).collect();
    assert!(finished.is_sorted(), "{finished:?}");
    // The first one shares the link with all others for its first round trip, and with the next one while it claims less than the link: its last
    // 75 packets, within its horizon of three round trips, leave it half of them. All of the link is used.
    assert!(finished[0] < Duration::from_us(100 + 100 * 8 + 8 * 27 * 8 + 75 / 2 * 8), "{finished:?}");
    let packets: u64 = (0..8).map(|sender| 100 + 10 * sender).sum();
    assert!(finished[7] < Duration::from_us(100 + packets * 8 + 1500), "{finished:?}");
    // The lowest queue of arbitrated flows is the seventh.
    let lowest = pair.sent().iter().filter(|sent| data(sent).is_some()).map(|sent| sent.packet.class).max();
    assert_eq!(lowest, Some(6));
}

/// 250 flows wait for one downlink. The six behind the first one ask in every period, and the flow behind n others in every nth: together
/// 6 + (1/7 + … + 1/250) requests per period. Once per period and flow would be 250, which is nearly half of what the link carries.
#[test]
fn waiting_flows_do_not_fill_the_link_with_requests() {
    let mut pair = Pair::<Pase>::new(&local(), rack(251));
    for sender in 0..250 {
        pair.open(sender, 250, 480_000);
    }
    let (from, to) = (us(50_000), us(150_000));
    let received = |pair: &Pair<Pase>| (0..250).map(|flow| pair.flow(FlowId(flow)).bytes.get()).sum::<u64>();
    pair.run(from);
    let before = received(&pair);
    pair.run(to);
    let asks = |sent: &&SentPacket<Header>| sent.at >= from && matches!(sent.packet.header, Header::Refresh { .. });
    let asked = pair.sent().iter().filter(asks).count() as f64;
    let periods = (to - from).as_ps() as f64 / pair.network().base_rtt(&WireProfile::NS2_1000).as_ps() as f64;
    let most = 6.0 + (7..=250).map(|n| 1.0 / f64::from(n)).sum::<f64>();
    assert!(asked / periods <= most, "{asked} requests in {periods} periods");
    // Meanwhile the link is busy with data: 1 Gb/s for 100 ms, of which 96 % is payload. Changes from one flow to the next take the rest.
    let share = (received(&pair) - before) as f64 / 12e6;
    assert!(share > 0.85, "{share}");
}

/// 41 flows that last longer than the run wait for one downlink. The flow behind n others asks again after n periods, and not later.
#[test]
fn a_flow_that_waits_asks_when_its_destination_has_said() {
    const FLOWS: u32 = 41;
    let mut pair = Pair::<Pase>::new(&local(), rack(FLOWS as usize + 1));
    for sender in 0..FLOWS {
        pair.open(sender, FLOWS, 48_000_000 + 96_000 * u64::from(sender));
    }
    let (from, to) = (us(20_000), us(60_000));
    pair.run(to);
    let period = pair.network().base_rtt(&WireProfile::NS2_1000);
    for flow in 10..FLOWS {
        let is_refresh = |sent: &&SentPacket<Header>| {
            sent.packet.flow == FlowId(flow) && sent.at >= from && matches!(sent.packet.header, Header::Refresh { .. })
        };
        let asked: Vec<Time> = pair.sent().iter().filter(is_refresh).map(|sent| sent.at).collect();
        let apart: Vec<u64> = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_ps().div_ceil(period.as_ps())).collect();
        assert!(!apart.is_empty() && apart.iter().all(|apart| *apart == u64::from(flow)), "{flow}: {apart:?}");
    }
}

/// In the top queue a timeout resends all that is outstanding; the least timeout is 10 ms.
#[test]
fn the_top_queue_resends_after_its_timeout() {
    let mut pair = Pair::<Pase>::new(&local(), rack(2));
    pair.on_packet(|sent| if data(sent) == Some(9) && !sent.packet.retransmission { Fate::Drop } else { Fate::Pass });
    let flow = pair.open(0, 1, 9600); // packet 9 is the last one, so nothing shows that it is lost
    pair.run_to_end(SECOND);
    assert_eq!(timeouts(&pair), [1]);
    let fct = pair.flow(flow).fct();
    assert!(fct > Duration::from_ms(10) && fct < Duration::from_us(10_600), "{fct}");
}

/// In the middle of a flow, acknowledgements beyond a lost packet show the loss: no timeout.
#[test]
fn a_loss_in_the_middle_is_repaired_without_a_timeout() {
    let mut pair = Pair::<Pase>::new(&local(), rack(2));
    pair.on_packet(|sent| match data(sent) {
        Some(20 | 21 | 40) if !sent.packet.retransmission => Fate::Drop,
        _ => Fate::Pass,
    });
    pair.open(0, 1, 96_000);
    pair.run_to_end(SECOND);
    assert!(timeouts(&pair).is_empty());
    let resent: Vec<_> = pair.sent().iter().filter(|sent| sent.packet.retransmission).filter_map(data).collect();
    assert_eq!(resent, [20, 21, 40]);
}

/// Two flows to one receiver; the longer one is in the second queue, the lowest of a port with three.
fn two_queues(probing: Probing) -> Config {
    Config { queues: 3, probing, demand: Demand::Line, ..local() }
}

/// A packet of the longer flow is lost in the lower queue. The shorter flow is over after 0.8 s. Until then the longer one sends a probe
/// every 200 ms, 400 ms, …, which waits behind the shorter one. Without probes it resends data.
#[test]
fn in_lower_queues_a_timeout_sends_a_probe_and_its_answer_a_retransmission() {
    for probing in [Probing::OnTimeout, Probing::Never] {
        let mut pair = Pair::<Pase>::new(&two_queues(probing), rack(3));
        let mut lost = false;
        pair.on_packet(move |sent| {
            let drop = !lost && sent.packet.flow == FlowId(1) && sent.packet.class == 1 && data(sent).is_some();
            lost |= drop;
            if drop { Fate::Drop } else { Fate::Pass }
        });
        pair.open(0, 2, 96_000_000); // 0.8 s
        pair.open(1, 2, 192_000_000);
        pair.run(us(1_000_000));
        let probes: Vec<_> = pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Probe { .. })).collect();
        let answers = |acked: Acked| {
            let is =
                move |sent: &&SentPacket<Header>| matches!(sent.packet.header, Header::Ack { acked: it, .. } if it == acked);
            pair.sent().iter().filter(is).count()
        };
        let resent = pair.sent().iter().find(|sent| sent.packet.retransmission).expect("a retransmission");
        if probing == Probing::OnTimeout {
            assert!(!probes.is_empty() && probes.iter().all(|probe| probe.packet.class == 1 && probe.packet.size_bytes == 40));
            assert!(resent.at > us(800_000) && resent.at < us(803_000), "{}", resent.at);
            let first = probes[0].at;
            assert!(first > us(200_000) && first < us(201_000), "{first}");
        } else {
            assert!(probes.is_empty() && answers(Acked::Probe) == 0);
            assert!(resent.at > us(200_000) && resent.at < us(201_000), "{}", resent.at);
        }
    }
}

/// The shorter flow loses each second packet at its NIC, so the longer one is in the lower queue of a link that is half idle. From 10 ms on, all data of the longer flow is lost. After the
/// first timeout of 200 ms, the answer to its probe makes it send again, and the next probe follows 400 ms after that.
#[test]
fn what_is_sent_after_a_probe_has_a_whole_timeout() {
    let mut pair = Pair::<Pase>::new(&two_queues(Probing::OnTimeout), rack(3));
    pair.on_packet(|sent| match (sent.packet.flow, data(sent)) {
        (FlowId(0), Some(number)) if number % 2 == 0 && !sent.packet.retransmission => Fate::Drop,
        (FlowId(1), Some(_)) if sent.at > us(10_000) => Fate::Drop,
        _ => Fate::Pass,
    });
    pair.open(0, 2, 96_000_000); // 0.8 s without losses
    pair.open(1, 2, 192_000_000);
    pair.run(us(800_000));
    let longer = || pair.sent().iter().filter(|sent| sent.packet.flow == FlowId(1) && sent.packet.class == 1);
    let probes: Vec<Time> =
        longer().filter(|sent| matches!(sent.packet.header, Header::Probe { .. })).map(|sent| sent.at).collect();
    let resent = longer().find(|sent| sent.packet.retransmission).expect("a retransmission").at;
    assert!(probes[0] > us(200_000) && resent > probes[0] + Duration::from_us(200), "{probes:?}, {resent}");
    assert_eq!(probes[1], resent + Duration::from_ms(400));
}

/// With a probe per round trip, the lowest queue carries a data packet only after the answer to a probe. The second flow waits at its source
/// for the first, and the third at its destination for the second, whose link is idle meanwhile.
#[test]
fn in_the_lowest_queue_each_data_packet_follows_a_probe() {
    let mut pair = Pair::<Pase>::new(&two_queues(Probing::EveryRtt), rack(4));
    pair.open(0, 3, 960_000);
    pair.open(0, 2, 1_920_000);
    pair.open(1, 2, 2_880_000);
    pair.run(us(5_000));
    let lowest = |sent: &&SentPacket<Header>| sent.packet.flow == FlowId(2) && sent.packet.class == 1;
    let kinds: Vec<bool> = pair.sent().iter().filter(lowest).map(|sent| data(sent).is_some()).collect();
    assert!(kinds.len() > 4, "{kinds:?}");
    assert!(!kinds.windows(2).any(|two| two[0] && two[1]), "{kinds:?}");
    assert!(kinds.contains(&true));
    pair.run_to_end(FOREVER);
}

/// Three flows that meet at an uplink and a downlink, so that the longest one is promoted.
fn promotions() -> Pair<Pase> {
    let mut pair = Pair::<Pase>::new(&local(), rack(4));
    pair.open(0, 2, 96_000);
    pair.open(0, 3, 192_000);
    pair.open(1, 2, 48_000);
    pair.run_to_end(FOREVER);
    pair
}

/// The flow's data packets, each with the number of packets that its source knew to have arrived when it sent it.
fn with_arrived(pair: &Pair<Pase>, flow: FlowId) -> Vec<(u8, u32, u32)> {
    let mut arrived = 0;
    let mut data = Vec::new();
    let mut acks: Vec<(Time, u32)> = Vec::new();
    for sent in pair.sent().iter().filter(|sent| sent.packet.flow == flow) {
        match sent.packet.header {
            Header::Data { number, .. } => {
                // An acknowledgement takes 100 us and its transmission.
                let known = acks.iter().filter(|(at, _)| *at + Duration::from_us(100) < sent.at).map(|(_, below)| *below).max();
                arrived = arrived.max(known.unwrap_or(0));
                data.push((sent.packet.class, number, arrived));
            }
            Header::Ack { cumulative, .. } => acks.push((sent.at, cumulative)),
            _ => {}
        }
    }
    data
}

/// The promotion guard: a flow that moves to a higher queue sends nothing there before all that it has sent is acknowledged (A29).
#[test]
fn a_promoted_flow_waits_for_what_it_has_sent() {
    let pair = promotions();
    let mut promoted = 0;
    for flow in (0..3).map(FlowId) {
        for pair in with_arrived(&pair, flow).windows(2) {
            let [(before, ..), (class, number, arrived)] = pair else { unreachable!() };
            if class < before {
                promoted += 1;
                assert_eq!(number, arrived, "{flow:?}");
            }
        }
    }
    assert!(promoted > 0);
}

fn configs() -> impl Strategy<Value = Config> {
    let probing = prop::sample::select(vec![Probing::OnTimeout, Probing::EveryRtt, Probing::Never]);
    (2_u8..9, probing, any::<bool>(), any::<bool>(), 0.2..3.0).prop_map(
        |(queues, probing, guard, reference_rate, period_rtts)| Config {
            queues,
            probing,
            promotion_guard: guard,
            reference_rate,
            period_rtts,
            rto_top: Duration::from_ms(2),
            rto_lower: Duration::from_ms(5),
            rto_max: Duration::from_ms(200),
            ..local()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Every flow completes, and no byte is delivered twice, whatever is lost, late or repeated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in configs(), trial in trials()) {
        trial.survive::<Pase>(&config);
    }
}
