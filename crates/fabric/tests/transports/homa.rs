//! Homa on networks: exact times of single messages, incasts against the time of their bytes, and small messages beside long ones.

use flowloom_core::{Bytes, Duration, Flow, Memory, Time, WireProfile, topology};
use flowloom_fabric::{PortCounters, Report, Routing, SimSetup};
use flowloom_transports::homa::{Config, Homa};

use crate::common::networks::{CUT, HOP_DELAY, STORE, apart, flow, gbps, pairs, run, setup, shapes};

fn dropped(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

/// When the last byte of the last message arrived.
fn last(report: &Report) -> Duration {
    report.records.iter().map(|record| record.received - Time::ZERO).max().expect("a flow")
}

/// A message alone takes the time of its packets, without a wait for grants and without a gap. One control packet follows.
#[test]
fn every_shape_size_and_wire_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching) {
            for wire in WireProfile::ALL {
                let payload = wire.payload().get();
                let sizes = [0, 1, payload - 1, payload, payload + 1, 30 * payload, 30 * payload + 1, 100_000, 3_000_000];
                let flows = apart(&pairs(&network), &sizes, Duration::from_ms(60));
                let report = run::<Homa>(&Config::default(), SimSetup { wire, ..setup(network.clone()) }, flows);
                for (flow, record) in report.flows.iter().zip(&report.records) {
                    let what = format!("{name}, {}, {switching:?}, {flow:?}", wire.name);
                    let path = network.path(flow.src, flow.dst);
                    assert_eq!(record.received - flow.start, network.flow_time(&path, flow.size, &wire), "{what}");
                    let answer = network.packet_time(&network.path(flow.dst, flow.src), wire.control);
                    let answered = record.acknowledged - record.received;
                    assert!(
                        (answer..=answer + network.nic_rate(flow.dst).transmit_time(wire.control)).contains(&answered),
                        "{what}"
                    );
                    assert_eq!((record.dropped_packets, record.retransmissions), (0, 0), "{what}");
                }
            }
        }
    }
}

fn incast(senders: u32, packets: u64, memory: u64) -> Report {
    let network = topology::single_switch(senders as usize + 1, gbps(10), HOP_DELAY, STORE);
    let flows = (0..senders).map(|id| flow(id, id, senders, 1460 * packets, Time::ZERO)).collect();
    run::<Homa>(&Config::default(), SimSetup { memory: Memory::PerPort(Bytes::new(memory)), ..setup(network) }, flows)
}

/// The receiver's link never idles: an incast takes the time of its packets, and the time until the first one reaches this link. No packet
/// is sent twice. Senders that wait for grants for 10 ms ask for news, once within 24 ms, which takes the link 32 ns each.
#[test]
fn incasts_take_the_time_of_their_bytes() {
    for (senders, packets) in [(2, 200), (10, 100), (100, 30), (1000, 1), (1000, 20)] {
        let report = incast(senders, packets, 1 << 30);
        let total = u64::from(senders) * packets;
        let least = Duration::from_ns(1200) * (total + 1) + HOP_DELAY * 2;
        let questions = if least > Duration::from_ms(10) { u64::from(senders) } else { 0 };
        let (found, most) = (last(&report), least + Duration::from_ns(32) * questions);
        assert!(found >= least && found <= most, "{senders} senders of {packets} packets: {found}, at least {least}");
        assert_eq!(report.data_packets, total);
    }
}

/// With room for only some of the blind packets, the others are lost, asked for and sent again. Every message completes.
#[test]
fn incasts_complete_although_packets_are_lost() {
    let report = incast(1000, 20, 500_000);
    assert!(dropped(&report) > 1000, "{} of 3000 blind packets are dropped", dropped(&report));
    assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX));
    let least = Duration::from_ns(1200) * 20_000;
    assert!(last(&report) >= least && last(&report) < least.scale(8.0), "{}", last(&report));
}

/// Four hosts send 20 MB each to one host, and one of them sends it a message of a packet every 50 us. A short message waits for at most one
/// packet at its host and one at the switch, although as many packets of the long ones wait there as their windows allow.
#[test]
fn short_messages_pass_long_ones() {
    let network = topology::single_switch(5, gbps(10), HOP_DELAY, STORE);
    let cutoffs = vec![Bytes::new(10_000)];
    let config = Config { cutoffs, ..Config::default() };
    let long = (0..4).map(|id| flow(id, id, 4, 20_000_000, Time::ZERO));
    let short = |number: u32| Flow {
        start: Time::ZERO + Duration::from_us(50) * u64::from(number),
        ..flow(3 + number, 0, 4, 1000, Time::ZERO)
    };
    let report = run::<Homa>(&config, setup(network.clone()), long.chain((1..1000).map(short)).collect());
    let alone =
        network.flow_time(&network.path(report.flows[0].src, report.flows[0].dst), Bytes::new(1000), &WireProfile::IP_1500);
    for (flow, record) in report.flows.iter().zip(&report.records).skip(4) {
        let found = record.received - flow.start;
        assert!(found >= alone && found <= alone + Duration::from_ns(2 * 1200), "{found}, {alone} alone");
    }
    assert_eq!(dropped(&report), 0);
    assert!(report.flows.len() > 1000);
}

/// In a fat tree, packets of one message overtake each other, and it takes at most a few packets' times longer than over one path.
#[test]
fn messages_alone_on_sprayed_paths_lose_nothing() {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    for routing in [Routing::SprayRandom, Routing::SprayRoundRobin] {
        let flows = apart(&pairs(&network), &[1, 5000, 1_000_000], Duration::from_ms(60));
        let report = run::<Homa>(&Config::default(), SimSetup { routing, ..setup(network.clone()) }, flows);
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let one_path = network.flow_time(&network.path(flow.src, flow.dst), flow.size, &WireProfile::IP_1500);
            assert!(record.received - flow.start <= one_path, "{flow:?}");
            assert_eq!((record.dropped_packets, record.retransmissions), (0, 0));
        }
    }
}
