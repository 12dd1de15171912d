//! PASE on the paper's tree: arbitration along both halves of a path, its set-up times in closed form, and its failures.

use flowloom_core::{
    Bytes, Duration, Endpoint, Event, Flow, FlowId, Memory, Network, NodeId, Rate, Switching, Time, WireProfile, topology,
};
use flowloom_fabric::Outage;
use flowloom_fabric::pair::{Fate, Faults, Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::{FOREVER, data, us};
use crate::pase::config::Spans;
use crate::pase::{Arbitration, Config, Criterion, Demand, Header, Pase};
use crate::trial::flow;

const WIRE: WireProfile = WireProfile::NS2_1000;

/// The paper's tree with two hosts in each rack: hosts 0 to 7, top-of-rack switches 8 to 11, aggregation switches 12 and 13, core 14.
pub(super) fn tree() -> Network {
    let gbps = Rate::from_gbps;
    topology::three_tier(4, 2, 2, gbps(1), gbps(10), gbps(10), Duration::from_us(25), Switching::StoreAndForward)
}

fn setup() -> PairSetup {
    PairSetup { network: Some(tree()), wire: WIRE, memory: Memory::PerPort(Bytes::new(500_000)), ..PairSetup::default() }
}

fn undelegated() -> Config {
    Config { delegation: false, ..Config::default() }
}

const PS: Duration = Duration::from_ps(1);

/// A message of 64 B and its answer, over one link. The arbitrator answers a picosecond after it was asked.
fn exchange(gbps: u64) -> Duration {
    (Rate::from_gbps(gbps).transmit_time(Bytes::new(64)) + Duration::from_us(25)) * 2 + PS
}

/// By hand. Within a rack a flow starts at once; else it first asks its top-of-rack switch, and without delegation that switch asks the
/// aggregation switch about flows that cross the core. Then it sends at the rate of its NIC. What lasts longer than a round trip meets the
/// arbitration messages of both halves on its access links: at most two per period and direction, 512 ns each.
#[test]
fn an_unloaded_flow_waits_for_its_arbitrators_and_then_never() {
    for (config, to_core) in [(Config::default(), exchange(1)), (undelegated(), exchange(1) + exchange(10))] {
        for (dst, wait) in [(1, Duration::ZERO), (2, exchange(1)), (7, to_core)] {
            for size in [0, 1, 960, 961, 4_800, 50_000, 3_000_000] {
                let mut pair = Pair::<Pase>::new(&config, setup());
                let flow = pair.open(0, dst, size);
                pair.run_to_end(FOREVER);
                let path = pair.network().path(NodeId(0), NodeId(dst));
                let expected = PS + wait + pair.network().flow_time(&path, Bytes::new(size), &WIRE);
                let fct = pair.flow(flow).fct();
                let messages = if size < 5_000 || dst == 1 { 0 } else { 4 + 4 * expected.as_ps() / 319_904_000 };
                assert!(
                    fct >= expected && fct <= expected + Duration::from_ns(512) * messages,
                    "to {dst}, {size} B: {fct}, {expected}"
                );
                let known: usize = (8..15).map(|switch| pair.control(NodeId(switch)).known_flows()).sum();
                assert_eq!(known, 0, "all flows have left");
            }
        }
    }
}

/// Figure 3. Flow 1 is the most critical one, and shares the downlink of host 6 with flow 2. Flow 2 shares its uplink with flow 3. Flow 2
/// learns that its turn has not come, so it leaves its uplink to flow 3. Algorithm 1 does not count this: for it, flow 2 takes the whole
/// uplink, so flow 3 is in the second queue and adjusts itself, by a packet per round trip. If flow 2 demands little of its uplink while its
/// destination keeps it waiting, flow 3 has the top queue.
#[test]
fn flows_that_share_no_link_run_side_by_side() {
    for (demand, least) in [(Demand::Remaining, 40), (Demand::Granted, 300)] {
        let mut pair = Pair::<Pase>::new(&Config { demand, ..Config::default() }, setup());
        let sizes = [480_000, 720_000, 960_000];
        let flows = [pair.open(0, 6, sizes[0]), pair.open(2, 6, sizes[1]), pair.open(2, 4, sizes[2])];
        pair.run_to_end(FOREVER);
        let packet = Duration::from_us(8);
        let fct = flows.map(|flow| pair.flow(flow).fct());
        // Alone: 500 packets, 750 and 1000.
        let near = |found: Duration, packets: u64| {
            let expected = packet * packets;
            assert!(found > expected && found < expected + Duration::from_us(1600), "{found}, {packets} packets, all: {fct:?}");
        };
        near(fct[0], 500);
        // When flow 1 is over, flow 3 has little left if it could run all the time, and goes before flow 2.
        if demand == Demand::Granted {
            near(fct[2], 1100);
            near(fct[1], 1100 + 750);
        } else {
            near(fct[1], 500 + 750);
        }
        let packets_of_3 = pair.sent().iter().filter(|sent| sent.packet.flow == flows[2] && data(sent).is_some());
        let early = packets_of_3.filter(|sent| sent.at < Time::ZERO + packet * 500).count();
        assert!(early > least, "{demand:?}: {early} of 500 packets");
    }
}

/// Nobody answers: when the flow asks for the third time, its first request is one and a half periods old. It starts in the second queue,
/// and goes on alone.
#[test]
fn a_flow_without_an_answer_goes_on_alone_in_the_second_queue() {
    let mut pair = Pair::<Pase>::new(&Config::default(), setup());
    pair.on_packet(|sent| if matches!(sent.packet.header, Header::Ask { .. }) { Fate::Drop } else { Fate::Pass });
    let flow = pair.open(0, 7, 96_000);
    pair.run_to_end(FOREVER);
    let period = Spans::new(&Config::default(), tree().base_rtt(&WIRE), &WIRE).unwrap().period;
    let first = pair.sent().iter().find(|sent| data(sent).is_some()).unwrap();
    let behind_a_request = Duration::from_ns(512);
    assert_eq!(first.at, Time::ZERO + PS + period * 2 + behind_a_request);
    assert!(pair.sent().iter().filter(|sent| data(sent).is_some()).all(|sent| sent.packet.class == 1));
    // Slow start from 10 packets: 10, 20, 40 and the last 30 packets.
    let fct = pair.flow(flow).fct();
    assert!(fct > period * 5 && fct < period * 7, "{fct}");
}

/// The arbitrators fall silent in the middle of a flow, and come back: it leaves the top queue, and returns to it.
#[test]
fn a_flow_whose_arbitrators_fall_silent_goes_on_and_returns_when_they_do() {
    let mut pair = Pair::<Pase>::new(&Config::default(), setup());
    let silent = |sent: &SentPacket<Header>| {
        let about = matches!(sent.packet.header, Header::Ask { .. } | Header::Share { .. });
        about && (us(2_000)..us(6_000)).contains(&sent.at)
    };
    pair.on_packet(move |sent| if silent(sent) { Fate::Drop } else { Fate::Pass });
    let flow = pair.open(0, 7, 960_000);
    pair.run_to_end(FOREVER);
    let class_at = |from, to| {
        let between = pair.sent().iter().filter(|sent| data(sent).is_some() && (us(from)..us(to)).contains(&sent.at));
        between.map(|sent| sent.packet.class).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(class_at(0, 2_000), [0].into());
    assert_eq!(class_at(3_700, 6_000), [1].into());
    assert_eq!(class_at(7_500, 20_000), [0].into());
    // The flow is alone in the network, so it loses little time.
    assert!(pair.flow(flow).fct() < Duration::from_us(8_000 + 200 + 1_000), "{}", pair.flow(flow).fct());
}

/// The two flows share only the link from the aggregation switch to the rack of their destinations, which are different hosts. The second flow
/// has more bytes, so the switch puts it into the second queue. There it sends about one packet per round trip, and its destination asks as seldom.
/// Once the first answer has come, every acknowledgement says so until the first flow is over.
#[test]
fn a_flow_that_sends_one_packet_per_round_trip_knows_the_destinations_half() {
    let gbps = Rate::from_gbps;
    let network = topology::three_tier(4, 2, 2, gbps(1), gbps(1), gbps(1), Duration::from_us(25), Switching::StoreAndForward);
    for delegation in [true, false] {
        let config = Config { delegation, ..Config::default() };
        let mut pair = Pair::<Pase>::new(&config, PairSetup { network: Some(network.clone()), ..setup() });
        let first = pair.open(0, 6, 960_000);
        let second = pair.open(4, 7, 1_920_000);
        pair.run_to_end(FOREVER);
        let while_first_lasts = us(1_000)..us(7_500);
        assert!(pair.flow(first).fct() > while_first_lasts.end - Time::ZERO);
        let told: Vec<u8> = pair
            .sent()
            .iter()
            .filter(|sent| sent.packet.flow == second && while_first_lasts.contains(&sent.at))
            .filter_map(|sent| if let Header::Ack { queue, .. } = sent.packet.header { Some(queue) } else { None })
            .collect();
        assert!(told.len() > 10 && told.iter().all(|queue| *queue == 1), "{told:?}");
    }
}

/// Pruned flows do not speak. All flows have one source, whose uplink takes one flow at a time, and so passes on the first two. The last packets
/// of a flow, within the horizon of one round trip, demand less than the uplink, so up to two more can come with it.
#[test]
fn flows_that_wait_at_their_source_send_their_destinations_no_messages() {
    // Equal sizes: in the order of ids.
    let config = Config { criterion: Criterion::Size, demand: Demand::Remaining, demand_rtts: Some(1.0), ..Config::default() };
    let mut pair = Pair::<Pase>::new(&config, setup());
    let flows: Vec<FlowId> = (0..20).map(|_| pair.open(0, 7, 96_000)).collect();
    pair.run_to_end(FOREVER);
    let ends: Vec<Time> = flows.iter().map(|flow| Time::ZERO + pair.flow(*flow).fct()).collect();
    assert!(ends.is_sorted());
    for sent in pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Refresh { .. })) {
        let before = flows.iter().zip(&ends).filter(|(flow, end)| **flow < sent.packet.flow && sent.at < **end).count();
        assert!(before <= 3, "{before} flows are before flow {:?} at {}", sent.packet.flow, sent.at);
    }
}

/// Flows of one packet, many at a time, want to cross a narrow core. If all of them told their destinations once per period what they ask for,
/// these messages would take 3.6 times the core's rate.
#[test]
fn messages_of_waiting_flows_leave_the_core_to_data() {
    let gbps = Rate::from_gbps;
    let network = topology::three_tier(4, 10, 2, gbps(1), gbps(10), gbps(1), Duration::from_us(25), Switching::StoreAndForward);
    let mut pair = Pair::<Pase>::new(&Config::default(), PairSetup { network: Some(network), ..setup() });
    for _ in 0..4 {
        for src in 0..20 {
            for dst in 20..40 {
                pair.open(src, dst, 960);
            }
        }
    }
    // The core needs 13 ms for 1600 packets. Those that overflow the last queue wait for their timeouts of 200 ms.
    pair.run_to_end(Time::ZERO + Duration::from_ms(1_000));
}

/// 240 flows of one packet have sent it in the second queue, because their sources have long flows with deadlines. Their packets wait for one
/// downlink, which a long flow uses for 8 ms. A round trip of 44 us carries 5,500 B. If each flow refreshed once per period and the destination asked
/// its top-of-rack switch as often, refreshes and answers would take 9,600 to 25,000 B of them, and no data would pass. They may take an eighth:
/// those of six flows, so each flow waits for 40 periods.
#[test]
fn messages_of_waiting_flows_leave_a_downlink_to_data() {
    let gbps = Rate::from_gbps;
    let network = topology::three_tier(4, 10, 2, gbps(1), gbps(10), gbps(10), Duration::from_us(2), Switching::StoreAndForward);
    let config = Config { criterion: Criterion::Deadline, ..Config::default() };
    let mut pair = Pair::<Pase>::new(&config, PairSetup { network: Some(network), ..setup() });
    // One to the downlink, and the others within their racks.
    let dst = |src| if src == 0 { 39 } else { src / 10 * 10 + (src + 1) % 10 };
    let long = (0..30).map(|src| (src, dst(src), 960_000, Some(us(20_000))));
    let short = (0..240).map(|number| (number % 30, 39, 400, None));
    for (id, (src, dst, size, deadline)) in (0..).zip(long.chain(short)) {
        pair.open_flow(flow(id, src, dst, size, Time::ZERO, deadline));
    }
    // All data take 8.9 ms of the link, and 10.2 ms of the seven eighths that are left.
    pair.run_to_end(us(11_000));
    let (from, to) = (us(1_000), us(7_000));
    let is_message = |header| matches!(header, Header::Refresh { .. } | Header::Share { .. });
    let messages = pair.sent().iter().filter(|sent| sent.packet.dst == NodeId(39) && is_message(sent.packet.header));
    let bytes =
        messages.filter(|sent| (from..to).contains(&sent.at)).map(|sent| u64::from(sent.packet.size_bytes)).sum::<u64>();
    let most = gbps(1).bytes_in(to - from).get() / 8;
    assert!((most / 2..=most).contains(&bytes), "{bytes} B of messages, {most} B at most");
}

/// The sender's rules: a period after the other, one request per half of the path, and nothing but the destination's refresh while data flows.
#[test]
fn a_flow_asks_once_per_period_and_half() {
    let mut pair = Pair::<Pase>::new(&Config::default(), setup());
    pair.open(0, 7, 960_000);
    pair.run_to_end(FOREVER);
    let asks = |from: u32| {
        pair.sent()
            .iter()
            .filter(move |sent| sent.packet.src == NodeId(from) && matches!(sent.packet.header, Header::Ask { .. }))
            .count()
    };
    // 8000 us of transmission and two trips, in periods of 320 us.
    assert!((26..=28).contains(&asks(0)), "{}", asks(0));
    assert!((25..=28).contains(&asks(7)), "{}", asks(7));
    assert!(!pair.sent().iter().any(|sent| matches!(sent.packet.header, Header::Refresh { .. } | Header::Probe { .. })));
    assert!(
        pair.sent()
            .iter()
            .filter(|sent| matches!(sent.packet.header, Header::Ask { .. }))
            .all(|sent| sent.packet.size_bytes == 64)
    );
    let leaves = pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Leave { .. })).count();
    assert_eq!(leaves, 2);
}

/// Without the destination's half, its switches are not asked.
#[test]
fn an_ablation_leaves_the_destinations_half_out() {
    let config = Config { arbitration: Arbitration::SourceHalf, ..Config::default() };
    let mut pair = Pair::<Pase>::new(&config, setup());
    pair.open(0, 7, 96_000);
    pair.run_to_end(FOREVER);
    let asked: std::collections::BTreeSet<u32> = pair
        .sent()
        .iter()
        .filter(|sent| matches!(sent.packet.header, Header::Ask { .. }))
        .map(|sent| sent.packet.src.0)
        .collect();
    assert!(asked.contains(&0) && !asked.contains(&7), "{asked:?}");
}

/// The top-of-rack switch's arbitrators die for a while and come back empty. Its forwarding goes on.
#[test]
fn arbitrators_that_come_back_empty_know_the_flow_again() {
    for (config, node) in [(Config::default(), 8), (Config::default(), 11), (undelegated(), 12)] {
        let outages = vec![Outage { node: NodeId(node), from: us(2_000), to: us(6_000) }];
        let mut pair = Pair::<Pase>::new(&config, PairSetup { outages, ..setup() });
        let flow = pair.open(0, 7, 960_000);
        pair.run(us(8_000));
        let known = pair.control(NodeId(node)).known_flows();
        assert!(known > 0, "{node}");
        pair.run_to_end(FOREVER);
        assert_eq!(pair.control(NodeId(node)).known_flows(), 0, "{node}");
        // The destination's half goes on with its own link alone, and the source's half in the second queue.
        let classes: std::collections::BTreeSet<u8> =
            pair.sent().iter().filter(|sent| data(sent).is_some()).map(|sent| sent.packet.class).collect();
        assert_eq!(classes, if node == 11 { [0].into() } else { [0, 1].into() }, "{node}");
        assert!(pair.flow(flow).fct() < Duration::from_us(8_000 + 200 + 1_000), "{}", pair.flow(flow).fct());
    }
}

/// Background flows are not arbitrated, have the last class, and take what others leave.
#[test]
fn background_flows_have_the_last_class_and_no_arbitrators() {
    let mut pair = Pair::<Pase>::new(&Config::default(), setup());
    let flow = |id, size, start, background| Flow {
        id: FlowId(id),
        src: NodeId(0),
        dst: NodeId(7),
        size: Bytes::new(size),
        start: us(start),
        deadline: None,
        tenant: 0,
        coflow: None,
        background,
    };
    pair.open_flow(flow(0, 3_000_000, 0, true));
    pair.open_flow(flow(1, 480_000, 5_000, false));
    pair.run_to_end(FOREVER);
    let of = |id| pair.sent().iter().filter(move |sent| sent.packet.flow == FlowId(id));
    assert!(of(0).filter(|sent| data(sent).is_some()).all(|sent| sent.packet.class == 7));
    assert!(
        !of(0).any(|sent| matches!(sent.packet.header, Header::Ask { .. } | Header::Refresh { .. } | Header::Leave { .. }))
    );
    assert!(of(1).filter(|sent| data(sent).is_some()).all(|sent| sent.packet.class == 0));
    // The foreground flow waits for a packet of the other one per hop at most, and the background flow uses the rest.
    let path = pair.network().path(NodeId(0), NodeId(7));
    let alone = exchange(1) + pair.network().flow_time(&path, Bytes::new(480_000), &WIRE);
    assert!(pair.flow(FlowId(1)).fct() < alone + Duration::from_us(100), "{}", pair.flow(FlowId(1)).fct());
    let both = Duration::from_us((3125 + 500) * 8);
    assert!(pair.flow(FlowId(0)).fct() < both + Duration::from_us(3_000), "{}", pair.flow(FlowId(0)).fct());
}

/// Flows (source, hops to the destination, bytes, start in us), faults, their seed, and a configuration.
type Trial = (Vec<(u32, u32, u64, u64)>, Faults, u64, Config);

fn trial() -> impl Strategy<Value = Trial> {
    let flows = prop::collection::vec((0_u32..8, 1_u32..8, 0_u64..200_000, 0_u64..1000), 1..12);
    let faults = (0.0..0.3, 0.0..0.2, 0.0..0.3, any::<bool>());
    let config = (2_u8..9, 1_u8..4, any::<bool>(), 0.3..2.0);
    (flows, faults, any::<u64>(), config).prop_map(|(flows, (loss, duplicate, reorder, slow), seed, config)| {
        let (queues, pruning_depth, delegation, period_rtts) = config;
        let late = Duration::from_us(if slow { 2000 } else { 100 });
        let config = Config {
            queues,
            pruning_depth,
            delegation,
            period_rtts,
            rto_top: Duration::from_ms(2),
            rto_lower: Duration::from_ms(5),
            rto_max: Duration::from_ms(200),
            ..Config::default()
        };
        (flows, Faults { loss, duplicate, reorder, late }, seed, config)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Every flow completes, and no byte is delivered twice, whatever is lost, late or repeated on its way or between arbitrators. No flow is
    /// silent for longer than a timeout and a few periods.
    #[test]
    fn flows_survive_on_a_tree((flows, faults, seed, config) in trial()) {
        let mut pair = Pair::<Pase>::new(&config, PairSetup { log: false, ..setup() });
        pair.on_packet(faults.hook(seed));
        for (id, (src, hop, size, start)) in (0..).zip(flows) {
            pair.open_flow(Flow {
                id: FlowId(id),
                src: NodeId(src),
                dst: NodeId((src + hop) % 8),
                size: Bytes::new(size),
                start: us(start),
                deadline: None,
                tenant: 0,
                coflow: None,
                background: false,
            });
        }
        pair.run_to_end(us(20_000_000));
        let most = pair.events().iter().filter_map(|(_, _, event)| match event {
            Event::TimedOut { in_a_row, .. } => Some(*in_a_row),
            _ => None,
        });
        prop_assert!(most.max().unwrap_or(0) < 40);
    }
}
