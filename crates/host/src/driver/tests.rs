use flowloom_core::{Duration, Ecn};
use flowloom_transports::pfabric::PFabric;
use flowloom_transports::phost::PHost;
use proptest::prelude::*;

use super::*;
use crate::cluster::Profile;
use crate::probe::{Header, MemoryNetwork, Probe, WIRE};

/// The time of a full packet at the profile's 100 Mb/s.
const SLOT_US: u64 = 120;

fn cluster(nodes: u16) -> Cluster {
    let addresses = (0..nodes).map(|node| SocketAddr::from(([127, 0, 0, 1], 7000 + node))).collect();
    Cluster::new(addresses, Profile::LOOPBACK).unwrap()
}

fn driver<T: Transport>(config: &T::Config, me: u32) -> Driver<T> {
    Driver::new(config, &cluster(3), NodeId(me), 0).unwrap()
}

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

fn full_packets(n: u64) -> Vec<u8> {
    (0..n * WIRE.payload().get()).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_nic_sends_one_packet_per_slot() {
    let (mut driver, mut network) = (driver::<Probe>(&None, 0), MemoryNetwork::default());
    driver.open(at_us(0), NodeId(1), full_packets(4)).unwrap();
    for (clock_us, sent, next_us) in [(0, 1, SLOT_US), (SLOT_US - 1, 1, SLOT_US), (SLOT_US, 2, 2 * SLOT_US)] {
        driver.advance(at_us(clock_us), &mut network).unwrap();
        assert_eq!((network.sent.len(), driver.next_instant()), (sent, Some(at_us(next_us))), "at {clock_us} us");
    }
    // A wake-up that is late by two and a half slots sends all packets that were due meanwhile; then nothing is left.
    driver.advance(at_us(4 * SLOT_US + 60), &mut network).unwrap();
    assert_eq!((network.sent.len(), driver.next_instant()), (4, None));
    assert_eq!(driver.stats().payload_bytes_sent, 4 * WIRE.payload().get());
    // Packet k goes to node 1 in class k, as CS(7 - k), with the k-th ECN value.
    let tos: Vec<u8> = network.sent.iter().map(|(_, tos, _)| *tos).collect();
    assert_eq!(tos, [7 << 5, 6 << 5 | 0b10, 5 << 5 | 0b11, 4 << 5]);
    assert!(network.sent.iter().all(|(to, _, _)| to.port() == 7001));
}

#[test]
fn a_very_late_wake_up_catches_up_to_its_limit_only() {
    let (mut driver, mut network) = (driver::<Probe>(&None, 0), MemoryNetwork::default());
    driver.open(at_us(0), NodeId(1), full_packets(200)).unwrap();
    driver.advance(at_us(0), &mut network).unwrap();
    driver.advance(at_us(100 * SLOT_US), &mut network).unwrap();
    // One packet at 0, then one in each of the slots 84 to 100.
    assert_eq!(network.sent.len(), 1 + 17);
    assert_eq!(driver.next_instant(), Some(at_us(101 * SLOT_US)));
}

#[test]
fn missed_timeouts_happen_at_their_own_instants() {
    let (mut driver, mut network) = (driver::<Probe>(&Some(Duration::from_us(10)), 0), MemoryNetwork::default());
    assert_eq!(driver.next_instant(), Some(at_us(10)));
    driver.advance(at_us(9), &mut network).unwrap();
    assert!(driver.host.woken.is_empty());
    driver.advance(at_us(35), &mut network).unwrap();
    assert_eq!(driver.host.woken, [at_us(10), at_us(20), at_us(30)]);
    // 10 ms later, timeouts are not earlier than the limit of 16 slots ago.
    driver.advance(at_us(10_035), &mut network).unwrap();
    assert_eq!(driver.host.woken[3], at_us(10_035 - 16 * SLOT_US));
    assert!(driver.host.woken.is_sorted());
}

/// Moves the datagrams that one node sent to the other, with the address of `from_node`.
fn carry(network: &mut MemoryNetwork, to: &mut MemoryNetwork, from_node: u16) {
    let from = SocketAddr::from(([127, 0, 0, 1], 7000 + from_node));
    to.arriving.extend(network.sent.drain(..).map(|(_, tos, datagram)| (from, tos, datagram)));
}

#[test]
fn a_flow_arrives_with_the_bytes_that_were_sent() {
    let (mut a, mut to_a) = (driver::<Probe>(&None, 0), MemoryNetwork::default());
    let (mut b, mut to_b) = (driver::<Probe>(&None, 1), MemoryNetwork::default());
    let mut data = full_packets(3);
    data.truncate(4000);
    let flow = a.open(at_us(0), NodeId(1), data.clone()).unwrap();
    a.advance(at_us(1000), &mut to_a).unwrap();
    to_a.sent.reverse();
    carry(&mut to_a, &mut to_b, 0);
    b.receive(at_us(50), &mut to_b).unwrap();
    assert_eq!(b.poll_notice(), Some(Notice::Received { flow, src: NodeId(0), data }));
    assert_eq!((b.stats().payload_bytes_delivered, b.stats().packets_marked), (4000, 1));
    carry(&mut to_b, &mut to_a, 1);
    assert_eq!(a.unacknowledged(), 1);
    a.receive(at_us(1100), &mut to_a).unwrap();
    assert_eq!((a.poll_notice(), a.unacknowledged()), (Some(Notice::Acknowledged { flow }), 0));
    assert_eq!((a.poll_notice(), b.poll_notice()), (None, None));
}

#[test]
fn a_byte_that_is_reported_twice_breaks_its_flow_and_nothing_else() {
    let (mut a, mut to_a) = (driver::<Probe>(&None, 0), MemoryNetwork::default());
    let (mut b, mut to_b) = (driver::<Probe>(&None, 1), MemoryNetwork::default());
    a.open(at_us(0), NodeId(1), full_packets(2)).unwrap();
    a.advance(at_us(1000), &mut to_a).unwrap();
    // The probe counts the second copy as the other half of the flow.
    to_a.sent[1] = to_a.sent[0].clone();
    carry(&mut to_a, &mut to_b, 0);
    b.receive(at_us(50), &mut to_b).unwrap();
    assert_eq!((b.poll_notice(), b.stats().broken_flows), (None, 1));
}

#[test]
fn a_datagram_that_the_kernel_refuses_is_a_lost_packet() {
    let (mut driver, mut network) = (driver::<Probe>(&None, 0), MemoryNetwork { full: true, ..MemoryNetwork::default() });
    driver.open(at_us(0), NodeId(1), full_packets(3)).unwrap();
    driver.advance(at_us(SLOT_US), &mut network).unwrap();
    network.full = false;
    driver.advance(at_us(2 * SLOT_US), &mut network).unwrap();
    assert_eq!((driver.stats().send_failures, driver.stats().packets_sent), (2, 1));
}

/// A packet of node 0's first flow to node 1.
fn packet() -> Packet<Header> {
    Packet {
        flow: FlowId(0),
        src: NodeId(0),
        dst: NodeId(1),
        size_bytes: 65,
        payload_bytes: 2,
        offset: Bytes::ZERO,
        class: 0,
        ecn: Ecn::NotCapable,
        retransmission: false,
        corrupt: false,
        header: Header::Data { size: 2 },
    }
}

#[test]
fn packets_of_other_conversations_are_ignored() {
    let other = FlowId(2 << 20);
    let mine = FlowId(1 << 20);
    let ack = Packet { payload_bytes: 0, header: Header::Done, ..packet() };
    let cases = [
        ("the flow's source to its destination", packet(), 7000, (1, 0, 0)),
        ("an answer about a flow from this node", Packet { flow: mine, ..ack }, 7000, (1, 0, 0)),
        (
            "an answer from a node that is not the flow's destination",
            Packet { src: NodeId(2), flow: mine, ..ack },
            7002,
            (0, 1, 0),
        ),
        ("from another node's address", packet(), 7002, (0, 1, 0)),
        ("from an address of no node", packet(), 9999, (0, 1, 0)),
        ("from a node that does not exist", Packet { src: NodeId(3), ..packet() }, 7000, (0, 1, 0)),
        ("from this node", Packet { src: NodeId(1), ..packet() }, 7001, (0, 1, 0)),
        ("to another node", Packet { dst: NodeId(2), ..packet() }, 7000, (0, 1, 0)),
        ("about a flow between two other nodes", Packet { flow: other, ..packet() }, 7000, (0, 1, 0)),
        ("payload of a flow from this node", Packet { flow: mine, ..packet() }, 7000, (0, 0, 1)),
    ];
    for (what, packet, port, expected) in cases {
        let (mut driver, mut network) = (driver::<Probe>(&None, 1), MemoryNetwork::default());
        // Flow ids count from the seed, so this one is known.
        assert_eq!(driver.open(at_us(0), NodeId(0), vec![7]).unwrap(), mine);
        let mut datagram = vec![0; 100];
        let length = frame::write::<Probe>(&packet, &b"hi"[..packet.payload_bytes as usize], &mut datagram);
        datagram.truncate(length);
        network.arriving.push_back((SocketAddr::from(([127, 0, 0, 1], port)), 0, datagram));
        driver.receive(at_us(0), &mut network).unwrap();
        let stats = driver.stats();
        assert_eq!((stats.packets_received, stats.foreign, stats.malformed), expected, "{what}");
    }
}

#[test]
fn impossible_nodes_and_flows_are_refused() {
    assert!(Driver::<Probe>::new(&None, &cluster(2), NodeId(2), 0).is_err());
    let mut driver = driver::<Probe>(&None, 1);
    assert!(driver.open(at_us(0), NodeId(1), Vec::new()).is_err());
    assert!(driver.open(at_us(0), NodeId(3), Vec::new()).is_err());
}

/// Two nodes of `T` exchange flows, and the headers of some datagrams are damaged. Nothing may panic.
fn survives_damage<T: Transport>(damage: &[(u8, usize, u8)])
where
    T::Config: Default,
{
    let mut nodes = [driver::<T>(&T::Config::default(), 0), driver::<T>(&T::Config::default(), 1)];
    let mut networks = [MemoryNetwork::default(), MemoryNetwork::default()];
    let mut damage = damage.iter().cycle();
    for size in [1, 3000, 40_000] {
        nodes[0].open(at_us(0), NodeId(1), vec![7; size]).unwrap();
        nodes[1].open(at_us(0), NodeId(0), vec![7; size]).unwrap();
    }
    for step in 0..200 {
        let clock = at_us(step * 20);
        for me in 0..2 {
            nodes[me].advance(clock, &mut networks[me]).unwrap();
            let mut sent = std::mem::take(&mut networks[me].sent);
            for (_, _, datagram) in &mut sent {
                // The transport's header begins at byte 30.
                if let Some((0..=40, at, flip)) = damage.next() {
                    let at = 30 + at % 25;
                    if let Some(byte) = datagram.get_mut(at) {
                        *byte ^= flip;
                    }
                }
            }
            networks[me].sent = sent;
            let (left, right) = networks.split_at_mut(1);
            let (from, to) = if me == 0 { (&mut left[0], &mut right[0]) } else { (&mut right[0], &mut left[0]) };
            carry(from, to, me as u16);
        }
        for me in 0..2 {
            nodes[me].receive(clock, &mut networks[me]).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_header_breaks_phost(damage in prop::collection::vec(any::<(u8, usize, u8)>(), 1..60)) {
        survives_damage::<PHost>(&damage);
    }
    #[test]
    fn no_header_breaks_pfabric(damage in prop::collection::vec(any::<(u8, usize, u8)>(), 1..60)) {
        survives_damage::<PFabric>(&damage);
    }
}
