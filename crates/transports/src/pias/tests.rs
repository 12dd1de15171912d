//! PIAS between hosts.

use flowloom_core::{Bytes, Duration, Ecn, FlowId, Memory, NodeId, Packet, Time, WireProfile};
use flowloom_fabric::Outage;
use flowloom_fabric::pair::{Pair, PairSetup, SentPacket};
use proptest::prelude::*;

use super::sizes::{BINS, edge};
use super::{Config, Header, MOST_THRESHOLDS, Pias, Reading, Update};
use crate::tcp;
use crate::tcp::controllers::Kind;
use crate::toolkit::Framing;
use crate::trial::{self, assail, trials, wire_format_holds};

const SECOND: Time = Time::from_ps(1_000_000_000_000);

fn roomy(hosts: usize) -> PairSetup {
    PairSetup { hosts, memory: Memory::PerPort(Bytes::new(1 << 30)), ..PairSetup::default() }
}

fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Tcp { header: tcp::Header::Data { .. } })
}

#[test]
fn packets_sink_with_the_bytes_of_their_own_message_and_acknowledgements_stay_on_top() {
    let config = Config { thresholds: [5_000, 20_000].map(Bytes::new).to_vec().into(), ..Config::default() };
    let mut pair = Pair::<Pias>::new(&config, roomy(2));
    for _ in 0..2 {
        // The second one uses the same connection, and starts again in the highest class.
        pair.open(0, 1, 30 * 1460);
        pair.run_to_end(SECOND);
    }
    for flow in [FlowId(0), FlowId(1)] {
        let classes: Vec<u8> =
            pair.sent().iter().filter(|sent| is_data(sent) && sent.packet.flow == flow).map(|sent| sent.packet.class).collect();
        // Offsets 0 to 4380, to 18980, and the rest.
        assert_eq!(classes, [vec![0; 4], vec![1; 10], vec![2; 16]].concat());
    }
    assert!(pair.sent().iter().filter(|sent| !is_data(sent)).all(|sent| sent.packet.class == 0));
}

/// A short flow passes a long one at the switch, except for the packet that is on the line. It takes its own time and that packet's.
#[test]
fn a_young_flow_passes_an_old_one() {
    let config = Config { thresholds: vec![Bytes::new(20_000)].into(), ..Config::default() };
    let mut pair = Pair::<Pias>::new(&config, roomy(3));
    pair.open(0, 2, 10_000_000);
    pair.run(Time::ZERO + Duration::from_us(1000));
    let short = pair.open(1, 2, 14_600);
    pair.run_to_end(SECOND);
    let alone = Duration::from_us(1) + Duration::from_ns(10 * 1200);
    let fct = pair.flow(short).fct();
    assert!(fct >= alone && fct <= alone + Duration::from_ns(1200), "{fct}");
}

/// The hosts report the flows that ended, and the controller's thresholds divide small flows from large ones.
#[test]
fn thresholds_follow_what_hosts_report() {
    let (period, delay) = (Duration::from_ms(1), Duration::from_us(100));
    let update = Update { period, delay, smoothing: 1.0, reading: Reading::Exact };
    let config = Config { thresholds: vec![].into(), update, ..Config::default() };
    let mut pair = Pair::<Pias>::new(&config, roomy(3));
    for _ in 0..40 {
        pair.open(0, 1, 4_000);
    }
    pair.open(2, 1, 400_000);
    pair.run(Time::ZERO + Duration::from_us(1_200));
    let late = pair.open(0, 1, 100_000);
    pair.run(Time::ZERO + Duration::from_us(1_900));
    let updates: Vec<_> = pair.sent().iter().filter(|sent| matches!(sent.packet.header, Header::Update { .. })).collect();
    assert_eq!(updates.iter().map(|sent| sent.packet.dst).collect::<Vec<_>>(), [0, 1, 2].map(NodeId));
    let Header::Update { bins, .. } = updates[0].packet.header else { unreachable!() };
    let first = edge(usize::from(bins[0]));
    assert!((4_000..4_300).contains(&first), "the first threshold is the bin of 4000 B: {first}");
    let class_at = |from: u64| {
        let at = |sent: &&SentPacket<Header>| is_data(sent) && sent.packet.flow == late && sent.packet.offset.get() >= from;
        pair.sent().iter().find(at).map(|sent| sent.packet.class)
    };
    assert_eq!((class_at(0), class_at(first + 1)), (Some(0), Some(1)));
}

/// The controller (node 4) and host 2 are down for several periods. Afterwards they keep to the periods of the others.
#[test]
fn periods_go_on_after_an_outage() {
    let (period, delay) = (Duration::from_ms(1), Duration::from_us(100));
    let update = Update { period, delay, smoothing: 1.0, reading: Reading::Exact };
    let config = Config { thresholds: vec![].into(), update, ..Config::default() };
    let at_us = |us| Time::ZERO + Duration::from_us(us);
    let outages = [4, 2].map(|node| Outage { node: NodeId(node), from: at_us(500), to: at_us(5_250) }).to_vec();
    let mut pair = Pair::<Pias>::new(&config, PairSetup { outages, ..roomy(3) });
    pair.run(at_us(6_500));
    pair.open(0, 1, 4_000);
    pair.open(2, 1, 4_000);
    pair.run(at_us(7_900));
    let sent = |is: fn(&Header) -> bool| pair.sent().iter().filter(move |sent| is(&sent.packet.header)).map(|sent| sent.at);
    let reports: Vec<Time> = sent(|header| matches!(header, Header::Report { .. })).collect();
    assert_eq!(reports, [at_us(7_000); 2], "one from each sender");
    assert_eq!(sent(|header| matches!(header, Header::Update { .. })).min(), Some(at_us(7_100)));
}

/// Any header that can be read, with numbers near those of a flow of ten packets or anywhere.
fn headers() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![4 => 0_u32..12, 1 => any::<u32>()];
    let data =
        (number(), number()).prop_map(|(a, b)| tcp::Header::Data { number: a.min(b), packets: a.max(b).saturating_add(1) });
    let ranges = prop::collection::vec((1_u32..15, 1_u32..70_000), 0..=tcp::MOST_BLOCKS);
    let ack = (any::<bool>(), number(), ranges).prop_map(|(echo, cumulative, ranges)| {
        let start = |from: u32| cumulative.saturating_add(from);
        let ranges = ranges.into_iter().map(|(from, length)| start(from)..start(from).saturating_add(length));
        tcp::Header::Ack { echo, cumulative, blocks: tcp::Blocks::new(cumulative, ranges) }
    });
    let update = prop::collection::vec(0..BINS as u8, MOST_THRESHOLDS).prop_map(|mut bins| {
        bins.sort_unstable();
        Header::Update { count: bins[0] % 8, bins: bins.try_into().expect("seven") }
    });
    prop_oneof![
        8 => ack.prop_map(|header| Header::Tcp { header }),
        4 => data.prop_map(|header| Header::Tcp { header }),
        1 => prop::sample::select(vec![tcp::Header::Syn, tcp::Header::SynAck]).prop_map(|header| Header::Tcp { header }),
        1 => update,
        1 => (0..BINS as u8, any::<u32>()).prop_map(|(bin, count)| Header::Report { bin, count }),
    ]
}

#[test]
fn the_wire_format_holds() {
    wire_format_holds(headers());
}

#[test]
fn a_header_is_no_larger_than_tcps() {
    assert_eq!(size_of::<Header>(), size_of::<tcp::Header>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_flow_survives_whatever_the_network_does(
        trial in trials(),
        aging in 0_u32..3,
        controller in prop::sample::select(vec![Kind::NewReno, Kind::Dctcp, Kind::D2tcp, Kind::L2dct, Kind::EcnStar]),
        update_us in prop::sample::select(vec![0, 20_000]),
    ) {
        let update = Update { period: Duration::from_us(update_us), delay: Duration::from_us(100), ..Update::default() };
        let tcp = tcp::Config { rto_max: Duration::from_ms(50), ..tcp::Config::default() };
        let thresholds = [3_000, 10_000, 50_000].map(Bytes::new).to_vec().into();
        let config = Config { aging, controller, update, tcp, thresholds };
        trial.survive::<Pias>(&config);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// On a real network any header may arrive at any time: for a flow that is sent, received, or waits for a connection, or for no
    /// flow.
    #[test]
    fn no_header_breaks_a_host(
        incoming in prop::collection::vec((headers(), 0_u32..4, any::<bool>(), 0_u64..3000), 1..60),
        sack in any::<bool>(),
        ack_every in 1_u32..3,
    ) {
        let update = Update { period: Duration::from_ms(1), delay: Duration::from_us(100), ..Update::default() };
        let tcp = tcp::Config { sack, ack_every, handshake: true, ..tcp::Config::default() };
        let config = Config { update, tcp, aging: 1, ..Config::default() };
        let wire = WireProfile::IP_1500;
        let packet = |(header, id, marked, after_us)| {
            let framing = Framing::new(NodeId(1), &wire);
            let packet = match header {
                Header::Tcp { header: tcp::Header::Data { number, .. } } => {
                    framing.data(FlowId(id), NodeId(0), Bytes::new(14_600), number.min(9), header)
                }
                _ => framing.control(FlowId(id), NodeId(0), header),
            };
            (Duration::from_us(after_us), Packet { ecn: if marked { Ecn::Marked } else { Ecn::Capable }, ..packet })
        };
        let own = [0, 1].map(|id| trial::flow(id, 0, 1, 14_600, Time::ZERO, None));
        assail::<Pias>(&config, wire, &own, incoming.into_iter().map(packet))?;
    }
}
