use std::ops::Range;

use flowloom_core::{Duration, Ecn};
use flowloom_transports::pfabric::PFabric;
use flowloom_transports::phost::PHost;
use proptest::prelude::*;

use super::*;
use crate::cluster::Profile;
use crate::probe::{Header, MemoryNetwork, Probe, WIRE};
use crate::store::InMemory;
use crate::trust::{Key, SEAL_BYTES};

/// The time of a full packet at the profile's 100 Mb/s.
const SLOT_US: u64 = 120;

fn addresses(nodes: u16) -> Vec<SocketAddr> {
    (0..nodes).map(|node| SocketAddr::from(([127, 0, 0, 1], 7000 + node))).collect()
}

fn cluster(nodes: u16) -> Cluster {
    Cluster::new(addresses(nodes), Profile::LOOPBACK).unwrap()
}

fn stranger<T: Transport>(config: &T::Config, me: u32) -> Driver<T> {
    process(config, me, 0)
}

/// A process whose flow ids count from `seed`.
fn process<T: Transport>(config: &T::Config, me: u32, seed: u64) -> Driver<T> {
    Driver::new(config, &cluster(3), NodeId(me), seed, Box::new(InMemory::new(Bytes::new(1 << 20)))).unwrap()
}

/// A node that has sessions with processes of both others.
fn driver<T: Transport>(config: &T::Config, me: u32) -> Driver<T> {
    let mut new = stranger::<T>(config, me);
    for other in (0..3).filter(|other| *other != me) {
        meet(&mut new, &mut stranger::<T>(config, other));
    }
    new
}

/// Two nodes that have a session with each other.
fn pair<T: Transport>(config: &T::Config) -> (Driver<T>, Driver<T>) {
    let (mut a, mut b) = (stranger::<T>(config, 0), stranger::<T>(config, 1));
    meet(&mut a, &mut b);
    meet(&mut b, &mut stranger::<T>(config, 2));
    (a, b)
}

/// Lets two nodes greet each other.
fn meet<T: Transport>(a: &mut Driver<T>, b: &mut Driver<T>) {
    let (me, peer) = (a.around.me, b.around.me);
    a.around.peers.set_need(at_us(0), peer, Need::Now);
    a.around.peers.set_need(at_us(0), peer, Need::None);
    let (mut to_a, mut to_b) = (MemoryNetwork::default(), MemoryNetwork::default());
    for _ in 0..3 {
        a.advance(at_us(0), &mut to_a).unwrap();
        carry(&mut to_a, &mut to_b, me.0 as u16);
        b.receive(at_us(0), &mut to_b).unwrap();
        carry(&mut to_b, &mut to_a, peer.0 as u16);
        a.receive(at_us(0), &mut to_a).unwrap();
    }
    assert!(a.around.peers.has_session(peer) && b.around.peers.has_session(me));
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
        assert_eq!((network.sent.len(), driver.next_event()), (sent, Some(at_us(next_us))), "at {clock_us} us");
    }
    // A wake-up that is late by two and a half slots sends all packets that were due meanwhile; then nothing is left.
    driver.advance(at_us(4 * SLOT_US + 60), &mut network).unwrap();
    assert_eq!((network.sent.len(), driver.next_event()), (4, None));
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
    assert_eq!(driver.next_event(), Some(at_us(101 * SLOT_US)));
}

#[test]
fn missed_timeouts_happen_at_their_own_instants() {
    let (mut driver, mut network) = (driver::<Probe>(&Some(Duration::from_us(10)), 0), MemoryNetwork::default());
    assert_eq!(driver.next_event(), Some(at_us(10)));
    driver.advance(at_us(9), &mut network).unwrap();
    assert!(woken(&driver).is_empty());
    driver.advance(at_us(35), &mut network).unwrap();
    assert_eq!(woken(&driver), [at_us(10), at_us(20), at_us(30)]);
    // 10 ms later, timeouts are not earlier than the limit of 16 slots ago.
    driver.advance(at_us(10_035), &mut network).unwrap();
    assert_eq!(woken(&driver)[3], at_us(10_035 - 16 * SLOT_US));
    assert!(woken(&driver).is_sorted());
}

/// The times of a probe's timeouts.
fn woken(driver: &Driver<Probe>) -> &[Time] {
    let Role::Host(host) = &driver.role else { panic!("it is a host") };
    &host.woken
}

/// Moves the datagrams that one node sent to the other, with the address of `from_node`.
fn carry(network: &mut MemoryNetwork, to: &mut MemoryNetwork, from_node: u16) {
    let from = SocketAddr::from(([127, 0, 0, 1], 7000 + from_node));
    to.arriving.extend(network.sent.drain(..).map(|(_, tos, datagram)| (from, tos, datagram)));
}

#[test]
fn a_flow_arrives_with_the_bytes_that_were_sent() {
    let ((mut a, mut b), mut to_a, mut to_b) = (pair::<Probe>(&None), MemoryNetwork::default(), MemoryNetwork::default());
    let mut data = full_packets(3);
    data.truncate(4000);
    let flow = a.open(at_us(0), NodeId(1), data.clone()).unwrap();
    a.advance(at_us(1000), &mut to_a).unwrap();
    to_a.sent.reverse();
    carry(&mut to_a, &mut to_b, 0);
    b.receive(at_us(50), &mut to_b).unwrap();
    let received = Notice::Received { flow, src: NodeId(0), size: Bytes::new(4000), data };
    assert_eq!(b.poll_notice(), Some(received));
    assert_eq!((b.stats().payload_bytes_delivered, b.stats().packets_marked), (4000, 1));
    carry(&mut to_b, &mut to_a, 1);
    assert_eq!(a.unacknowledged(), 1);
    a.receive(at_us(1100), &mut to_a).unwrap();
    let sent = Sent { started: Some(at_us(0)), packets: 3, ..Sent::default() };
    assert_eq!((a.poll_notice(), a.unacknowledged()), (Some(Notice::Acknowledged { flow, sent }), 0));
    assert_eq!((a.poll_notice(), b.poll_notice()), (None, None));
}

#[test]
fn a_byte_that_is_reported_twice_breaks_its_flow_and_nothing_else() {
    let ((mut a, mut b), mut to_b) = (pair::<Probe>(&None), MemoryNetwork::default());
    // The probe counts the second copy as the other half of the flow.
    for _ in 0..2 {
        let half = Packet { header: Header::Data { size: 4 }, ..packet() };
        to_b.arriving.push_back((SocketAddr::from(([127, 0, 0, 1], 7000)), 0, sealed(&mut a, &half, b"hi")));
    }
    b.receive(at_us(50), &mut to_b).unwrap();
    let Some(Notice::Incomplete { cause: Cause::Refused(reason), .. }) = b.poll_notice() else { panic!("it is not complete") };
    assert_eq!((reason.as_str(), b.poll_notice(), b.stats().broken_flows), ("its packets contradict each other", None, 1));
    // The probe's acknowledgement is not sent, only the refusal.
    assert_eq!(to_b.sent.iter().map(|(_, _, datagram)| &datagram[..2]).collect::<Vec<_>>(), [b"FH"]);
}

#[test]
fn a_datagram_that_the_kernel_refuses_is_a_lost_packet() {
    let (mut driver, mut network) = (driver::<Probe>(&None, 0), MemoryNetwork { full: true, ..MemoryNetwork::default() });
    driver.open(at_us(0), NodeId(1), full_packets(3)).unwrap();
    driver.advance(at_us(SLOT_US), &mut network).unwrap();
    network.full = false;
    driver.advance(at_us(2 * SLOT_US), &mut network).unwrap();
    assert_eq!((driver.stats().send_failures, driver.stats().packets_sent), (2, 3));
}

/// A packet of node 0's first flow to node 1.
fn packet() -> Packet<Header> {
    Packet {
        flow: FlowId(1),
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
    // With three hosts, two bits say whose flow it is.
    let other = FlowId(2 << 30);
    let mine = FlowId(1 << 30);
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
        let (mut other, mut driver) = pair::<Probe>(&None);
        let mut network = MemoryNetwork::default();
        // Flow ids count from the seed, so this one is known.
        assert_eq!(driver.open(at_us(0), NodeId(0), vec![7]).unwrap(), mine);
        let datagram = sealed(&mut other, &packet, &b"hi"[..packet.payload_bytes as usize]);
        network.arriving.push_back((SocketAddr::from(([127, 0, 0, 1], port)), 0, datagram));
        driver.receive(at_us(0), &mut network).unwrap();
        let stats = driver.stats();
        assert_eq!((stats.packets_received, stats.foreign + stats.strangers, stats.malformed), expected, "{what}");
    }
}

/// A datagram to node 1 as node `from` would send it.
fn sealed(from: &mut Driver<Probe>, packet: &Packet<Header>, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 200];
    let length = frame::write::<Probe>(packet, payload, &mut datagram);
    let length = from.around.peers.seal(at_us(0), NodeId(1), &mut datagram, length, payload.len()).unwrap();
    datagram.truncate(length);
    datagram
}

#[test]
fn impossible_nodes_and_flows_are_refused() {
    assert!(Driver::<Probe>::new(&None, &cluster(2), NodeId(2), 0, Box::new(InMemory::new(Bytes::ZERO))).is_err());
    let mut driver = driver::<Probe>(&None, 1);
    assert!(driver.open(at_us(0), NodeId(1), Vec::new()).is_err());
    assert!(driver.open(at_us(0), NodeId(3), Vec::new()).is_err());
}

/// Two nodes of `T` exchange flows, and one of them is malicious: it damages the headers of some packets before it seals them. Nothing may panic.
fn survives_damage<T: Transport>(damage: &[(u8, usize, u8)])
where
    T::Config: Default,
{
    let (a, b) = pair::<T>(&T::Config::default());
    let (mut nodes, mut networks) = ([a, b], [MemoryNetwork::default(), MemoryNetwork::default()]);
    let mut damage = damage.iter().cycle();
    for size in [1, 3000, 40_000] {
        nodes[0].open(at_us(0), NodeId(1), vec![7; size]).unwrap();
        nodes[1].open(at_us(0), NodeId(0), vec![7; size]).unwrap();
    }
    for step in 0..200 {
        let clock = at_us(step * 20);
        for me in 0..2 {
            nodes[me].advance(clock, &mut networks[me]).unwrap();
            let sent = std::mem::take(&mut networks[me].sent);
            let arrival = |tos, bytes| Arrival { from: SocketAddr::from(([127, 0, 0, 1], 7000 + me as u16)), bytes, tos };
            let (to, network) = (&mut nodes[1 - me], &mut networks[1 - me]);
            to.around.set_now(to.around.now.max(clock));
            for (_, tos, mut datagram) in sent {
                let Some(secret) = frame::payload_bytes(&datagram).filter(|_| datagram.starts_with(&frame::MAGIC)) else {
                    continue;
                };
                let length = to.around.peers.open(clock, NodeId(me as u32), &mut datagram, secret).unwrap();
                // The transport's header begins at byte 30.
                if let Some((0..=40, at, flip)) = damage.next() {
                    let at = (30 + at % 25).min(length - 1);
                    datagram[at] ^= flip;
                }
                let _ = to.take_frame(&datagram[..length], &arrival(tos, length), network);
            }
        }
    }
}

/// One million datagrams that were damaged, recorded or made up. None has any effect, and nothing grows.
#[test]
fn what_is_not_authentic_has_no_effect() {
    let (mut a, mut b) = pair::<Probe>(&None);
    let (mut to_a, mut to_b) = (MemoryNetwork::default(), MemoryNetwork::default());
    let from = SocketAddr::from(([127, 0, 0, 1], 7000));
    a.open(at_us(0), NodeId(1), full_packets(2)).unwrap();
    a.advance(at_us(1000), &mut to_a).unwrap();
    let authentic: Vec<Vec<u8>> = to_a.sent.drain(..).map(|(_, _, datagram)| datagram).collect();
    assert_eq!(authentic.len(), 2);
    let greeting = {
        let mut early = stranger::<Probe>(&None, 0);
        early.open(at_us(0), NodeId(1), vec![1]).unwrap();
        early.advance(at_us(0), &mut to_a).unwrap();
        to_a.sent.pop().unwrap().2
    };
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    const TRIES: u64 = 1_000_000;
    for tried in 0..TRIES {
        let mut datagram = match random(4) {
            0 => greeting.clone(),
            kind => authentic[kind % 2].clone(),
        };
        for _ in 0..=random(3) {
            let at = if random(2) == 0 { random(datagram.len().min(64)) } else { random(datagram.len()) };
            datagram[at] ^= 1 << random(8);
        }
        datagram.truncate(if random(4) == 0 { random(datagram.len() + 1) } else { datagram.len() });
        if authentic.contains(&datagram) || datagram == greeting {
            continue; // the changes have undone each other
        }
        to_b.arriving.push_back((from, 0, datagram));
        b.receive(at_us(tried), &mut to_b).unwrap();
    }
    let stats = b.stats();
    let counted = stats.foreign + stats.forged + stats.replayed + stats.strangers;
    assert!(counted > TRIES * 99 / 100 && stats.forged > TRIES / 10, "{stats}");
    assert_eq!((stats.packets_received, stats.malformed), (0, 0), "{stats}");
    assert_eq!(b.poll_notice(), None);
    // In answer to who has no session, it greets, a few times in each tenth of a second.
    assert!(to_b.sent.len() <= 4 * (TRIES as usize / 100_000 + 1), "{} datagrams were sent", to_b.sent.len());
    // It still takes what is authentic, once.
    for copy in 0..2 {
        to_b.arriving.extend(authentic.iter().map(|datagram| (from, 0, datagram.clone())));
        b.receive(at_us(TRIES), &mut to_b).unwrap();
        assert_eq!((b.stats().packets_received, b.stats().replayed - stats.replayed), (2, 2 * copy));
    }
    assert!(matches!(b.poll_notice(), Some(Notice::Received { .. })));
}

/// A network of two nodes, in which a test can replace a process.
struct Two<T: Transport = Probe> {
    nodes: [Driver<T>; 2],
    networks: [MemoryNetwork; 2],
    clock_us: u64,
    /// When what node 0 sends is lost.
    blackout_us: Range<u64>,
}

impl<T: Transport> Two<T> {
    fn new(nodes: [Driver<T>; 2]) -> Two<T> {
        Two { nodes, networks: [MemoryNetwork::default(), MemoryNetwork::default()], clock_us: 0, blackout_us: 0..0 }
    }

    /// Runs both nodes for this long, in steps of 20 us. Returns the news of each.
    fn run(&mut self, us: u64) -> [Vec<Notice>; 2] {
        let mut news = [Vec::new(), Vec::new()];
        for _ in 0..us / 20 {
            self.clock_us += 20;
            for (me, heard) in news.iter_mut().enumerate() {
                self.nodes[me].advance(at_us(self.clock_us), &mut self.networks[me]).unwrap();
                let [a, b] = &mut self.networks;
                if me == 0 {
                    a.sent.retain(|_| !self.blackout_us.contains(&self.clock_us));
                    carry(a, b, 0);
                } else {
                    carry(b, a, 1);
                }
                while !self.networks[me].arriving.is_empty() {
                    self.nodes[me].receive(at_us(self.clock_us), &mut self.networks[me]).unwrap();
                }
                heard.extend(std::iter::from_fn(|| self.nodes[me].poll_notice()));
            }
        }
        news
    }

    fn send(&mut self, packets: u64) -> FlowId {
        self.nodes[0].open(at_us(self.clock_us), NodeId(1), full_packets(packets)).unwrap()
    }
}

#[test]
fn a_flow_waits_for_its_destination_to_start() {
    let mut two = Two::new([stranger::<Probe>(&None, 0), stranger(&None, 1)]);
    let flow = two.send(3);
    // Nothing but greetings is sent to who does not answer: after 0, 100, 300, 700 and 1500 ms.
    let mut lonely = MemoryNetwork::default();
    for ms in 0..1600 {
        two.nodes[0].advance(at_us(ms * 1000), &mut lonely).unwrap();
    }
    assert_eq!((lonely.sent.len(), two.nodes[0].stats().packets_sent), (5, 0));
    two.clock_us = 1_600_000;
    let [sender, receiver] = two.run(1_000_000);
    assert!(matches!(sender[..], [Notice::Acknowledged { flow: ended, .. }] if ended == flow));
    assert!(matches!(receiver[..], [Notice::Received { .. }]));
    assert_eq!(two.nodes.each_ref().map(Driver::unacknowledged), [0, 0]);
}

#[test]
fn a_restarted_receiver_is_noticed_and_acknowledges_nothing_of_before() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let first = two.send(100);
    two.run(10 * SLOT_US);
    two.nodes[1] = stranger(&None, 1);
    let [sender, receiver] = two.run(20 * SLOT_US);
    assert!(
        matches!(&sender[..], [Notice::Aborted { flow, cause: Cause::Restarted, sent }] if *flow == first && sent.packets > 5)
    );
    assert!(receiver.is_empty(), "{receiver:?}");
    assert!(two.nodes[1].stats().strangers > 0);
    let second = two.send(3);
    // Before, the probe wants to send what is left of the first flow, and these packets take their time and do not leave.
    let [sender, receiver] = two.run(120 * SLOT_US);
    assert!(matches!(sender[..], [Notice::Acknowledged { flow, .. }] if flow == second));
    assert!(matches!(&receiver[..], [Notice::Received { flow, .. }] if *flow == second));
}

#[test]
fn a_restarted_sender_is_noticed_and_its_old_datagrams_are_refused() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let flow = two.send(100);
    two.run(10 * SLOT_US);
    let recorded: Vec<_> = {
        two.nodes[0].advance(at_us(two.clock_us + SLOT_US), &mut two.networks[0]).unwrap();
        two.networks[0].sent.clone()
    };
    assert!(!recorded.is_empty());
    two.nodes[0] = process(&None, 0, 1000);
    two.networks[0].sent.clear();
    let second = two.send(3);
    let [sender, receiver] = two.run(20 * SLOT_US);
    assert!(matches!(sender[..], [Notice::Acknowledged { flow, .. }] if flow == second));
    let arrived = WIRE.payload() * 11; // those sent after 0, 1, …, and 10 slots
    assert_eq!(receiver[0], Notice::Incomplete { flow, src: NodeId(0), arrived, cause: Cause::Restarted });
    let before = two.nodes[1].stats();
    two.networks[0].sent = recorded;
    let [sender, receiver] = two.run(10 * SLOT_US);
    assert!(sender.is_empty() && receiver.is_empty());
    let after = two.nodes[1].stats();
    assert_eq!(after.packets_received, before.packets_received);
    assert!(after.strangers > before.strangers);
}

#[test]
fn a_node_that_says_nothing_ends_the_flows_with_it() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let flow = two.send(100);
    two.run(10 * SLOT_US);
    let since = two.clock_us;
    let mut lonely = [MemoryNetwork::default(), MemoryNetwork::default()];
    let mut ended = [None, None];
    for us in (since..since + 12_000_000).step_by(10_000) {
        for me in 0..2 {
            two.nodes[me].advance(at_us(us), &mut lonely[me]).unwrap();
            ended[me] =
                ended[me].take().or_else(|| two.nodes[me].poll_notice().map(|notice| (notice, (us - since) / 1_000_000)));
        }
    }
    assert!(matches!(ended[0], Some((Notice::Aborted { flow: ended, cause: Cause::Silent, .. }, 10)) if ended == flow));
    let arrived = WIRE.payload() * 11; // those sent after 0, 1, …, and 10 slots
    assert_eq!(ended[1], Some((Notice::Incomplete { flow, src: NodeId(0), arrived, cause: Cause::Silent }, 10)));
}

/// The probe's receiver says nothing until it has everything, so the drivers must ask each other.
#[test]
fn a_node_that_has_nothing_to_say_is_asked() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let flow = two.send(2);
    two.nodes[0].advance(at_us(20), &mut two.networks[0]).unwrap();
    // The second packet is lost, and the probe does not repeat it.
    two.run(SLOT_US / 2);
    two.networks[0].full = true;
    two.nodes[0].advance(at_us(SLOT_US + 40), &mut two.networks[0]).unwrap();
    two.networks[0].full = false;
    let [sender, receiver] = two.run(15_000_000);
    assert!(
        sender.is_empty() && receiver.is_empty(),
        "flow {} has neither failed nor arrived: {sender:?} {receiver:?}",
        flow.0
    );
}

#[test]
fn nodes_that_differ_are_named_and_exchange_nothing() {
    let with = |cluster: &Cluster, config| {
        Driver::<Probe>::new(&config, cluster, NodeId(1), 0, Box::new(InMemory::new(Bytes::ZERO))).unwrap()
    };
    let slower = Profile { line_rate: flowloom_core::Rate::from_bps(1_000_000), ..Profile::LOOPBACK };
    let addresses = addresses(3);
    let cases = [
        (with(&cluster(3), Some(Duration::from_us(7))), "has other parameters of probe", true),
        (with(&Cluster::new(addresses, slower).unwrap(), None), "has other addresses, another order", true),
        (with(&cluster(3).with_key(Key::random().unwrap()), None), "has another key", false),
    ];
    for (other, expected, proven) in cases {
        let mut two = Two::new([stranger::<Probe>(&None, 0), other]);
        let flow = two.send(3);
        let [sender, receiver] = two.run(900_000);
        let Notice::Differs { peer: NodeId(1), what } = &sender[0] else { panic!("{sender:?}") };
        assert!(what.starts_with(expected), "{what}");
        assert!(matches!(&receiver[0], Notice::Differs { peer: NodeId(0), .. }), "{receiver:?}");
        let ended = [Notice::Aborted { flow, sent: Sent::default(), cause: Cause::Differs(what.clone()) }];
        assert_eq!(sender[1..], ended[..usize::from(proven)], "{expected}");
        assert_eq!(two.nodes[0].stats().packets_sent, 0);
    }
}

#[test]
fn another_transport_is_named() {
    let (mut a, mut b) = (stranger::<Probe>(&None, 0), stranger::<PHost>(&Default::default(), 1));
    let (mut to_a, mut to_b) = (MemoryNetwork::default(), MemoryNetwork::default());
    a.open(at_us(0), NodeId(1), vec![1]).unwrap();
    for _ in 0..3 {
        a.advance(at_us(10), &mut to_a).unwrap();
        carry(&mut to_a, &mut to_b, 0);
        b.receive(at_us(10), &mut to_b).unwrap();
        carry(&mut to_b, &mut to_a, 1);
        a.receive(at_us(10), &mut to_a).unwrap();
    }
    let what = "runs phost, this node probe".to_owned();
    assert_eq!(a.poll_notice(), Some(Notice::Differs { peer: NodeId(1), what }));
    assert!(matches!(a.poll_notice(), Some(Notice::Aborted { .. })));
    let what = "runs probe, this node phost".to_owned();
    assert_eq!(b.poll_notice(), Some(Notice::Differs { peer: NodeId(0), what }));
}

#[test]
fn addresses_in_another_order_are_named() {
    let mut swapped = addresses(3);
    swapped.swap(0, 1);
    let other = Cluster::new(swapped, Profile::LOOPBACK).unwrap();
    // The process at node 1's address believes that it is node 0.
    let other = Driver::<Probe>::new(&None, &other, NodeId(0), 0, Box::new(InMemory::new(Bytes::ZERO))).unwrap();
    let mut two = Two::new([stranger::<Probe>(&None, 0), other]);
    two.send(1);
    let [sender, receiver] = two.run(900_000);
    let said = |news: &[Notice]| match news {
        [Notice::Differs { what, .. }, ..] => what.clone(),
        _ => panic!("{news:?}"),
    };
    assert!(said(&receiver).contains("another order"), "{receiver:?}");
    // It does not know who greets it, so the other node hears nothing from it until it sends itself.
    assert!(sender.is_empty());
}

/// A store that is full.
struct Full;

impl Store for Full {
    fn write(&mut self, _: FlowId, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn finish(&mut self, _: FlowId, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn discard(&mut self, _: FlowId) {}
}

#[test]
fn a_flow_that_cannot_be_kept_is_not_acknowledged_and_its_source_hears_why() {
    for packets in [0, 1, 30] {
        let full = Driver::new(&None, &cluster(3), NodeId(1), 0, Box::new(Full)).unwrap();
        let mut two = Two::new([stranger::<Probe>(&None, 0), full]);
        let flow = two.send(packets);
        let [sender, receiver] = two.run(100 * SLOT_US);
        let cause = Cause::Refused("no storage space".to_owned());
        assert!(matches!(&receiver[..], [Notice::Incomplete { cause: why, .. }] if *why == cause), "{receiver:?}");
        assert!(matches!(&sender[..], [Notice::Aborted { flow: ended, cause: why, .. }] if *ended == flow && *why == cause));
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

/// A flow of zeros to node 1 that starts at this time.
fn zeros(packets: u64, start_us: u64) -> Flow {
    Flow {
        id: FlowId(0),
        src: NodeId(0),
        dst: NodeId(1),
        size: WIRE.payload() * packets,
        start: at_us(start_us),
        deadline: None,
        tenant: 0,
        coflow: None,
        background: false,
    }
}

#[test]
fn a_planned_flow_begins_at_its_start_however_late_the_wake_up_is() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let early = two.nodes[0].plan(at_us(0), zeros(1, 3000)).unwrap();
    let late = two.nodes[0].plan(at_us(0), zeros(3, 5000)).unwrap();
    assert_eq!((two.nodes[0].next_event(), two.nodes[0].unacknowledged()), (Some(at_us(3000)), 2));
    let [sender, receiver] = two.run(2980);
    assert!(sender.is_empty() && receiver.is_empty());
    two.clock_us = 3300;
    let [sender, receiver] = two.run(4000);
    let ends = [(early, 1, 3000), (late, 3, 5000)].map(|(flow, packets, started)| {
        let sent = Sent { started: Some(at_us(started)), packets, ..Sent::default() };
        (Notice::Acknowledged { flow, sent }, (flow, vec![0; (WIRE.payload() * packets).get() as usize]))
    });
    assert_eq!(sender, ends.each_ref().map(|(end, _)| end.clone()));
    let received = receiver.into_iter().map(|notice| match notice {
        Notice::Received { flow, data, .. } => (flow, data),
        other => panic!("{other:?}"),
    });
    assert_eq!(received.collect::<Vec<_>>(), ends.map(|(_, received)| received));
}

#[test]
fn a_planned_flow_goes_to_whoever_is_there_at_its_start() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let begun = two.send(100);
    let flow = two.nodes[0].plan(at_us(0), zeros(2, 100_000)).unwrap();
    two.run(10 * SLOT_US);
    let arrived = two.nodes[1].unfinished();
    assert_eq!(arrived, [(begun, WIRE.payload() * 11)]); // those sent after 0, 1, …, and 10 slots
    two.nodes[1] = stranger(&None, 1);
    let [sender, receiver] = two.run(200_000);
    let cause = |notice: &Notice| match notice {
        Notice::Aborted { flow, cause, .. } => (*flow, Some(cause.clone())),
        Notice::Acknowledged { flow, .. } => (*flow, None),
        other => panic!("{other:?}"),
    };
    assert_eq!(sender.iter().map(cause).collect::<Vec<_>>(), [(begun, Some(Cause::Restarted)), (flow, None)]);
    assert!(matches!(receiver[..], [Notice::Received { flow: came, .. }] if came == flow));
}

/// Flows that are under way end after 10 s without a sign of life. One that begins later waits for as long from its start on.
#[test]
fn a_planned_flow_to_nobody_ends() {
    let mut lonely = stranger::<Probe>(&None, 0);
    let now = lonely.open(at_us(0), NodeId(1), full_packets(1)).unwrap();
    let later = lonely.plan(at_us(0), zeros(2, 60_000_000)).unwrap();
    let (mut nowhere, mut ended) = (MemoryNetwork::default(), Vec::new());
    for ms in (0..72_000).step_by(10) {
        lonely.advance(at_us(ms * 1000), &mut nowhere).unwrap();
        ended.extend(std::iter::from_fn(|| lonely.poll_notice()).map(|notice| (notice, ms / 1000)));
    }
    let silent = |flow| Notice::Aborted { flow, sent: Sent::default(), cause: Cause::Silent };
    assert_eq!(ended, [(silent(now), 10), (silent(later), 70)]);
    assert_eq!((lonely.unacknowledged(), lonely.next_instant()), (0, None));
}

#[test]
fn a_planned_flow_waits_for_a_destination_that_is_late() {
    // The node begins ten seconds before the common start, and the other one a little after it.
    let mut two = Two::new([stranger::<Probe>(&None, 0), stranger(&None, 1)]);
    let flow = two.nodes[0].plan(at_us(0), zeros(2, 10_000_000)).unwrap();
    let mut nowhere = MemoryNetwork::default();
    (0..10_200).for_each(|ms| two.nodes[0].advance(at_us(ms * 1000), &mut nowhere).unwrap());
    two.clock_us = 10_200_000;
    let [sender, receiver] = two.run(1_200_000);
    assert!(matches!(sender[..], [Notice::Acknowledged { flow: ended, .. }] if ended == flow), "{sender:?}");
    assert!(matches!(receiver[..], [Notice::Received { flow: came, .. }] if came == flow), "{receiver:?}");
}

/// Five flows of DCTCP hand their first windows of 70 packets to the NIC at once. A NIC of 128 KiB holds 87 packets of 1500 B, beside the one under way, and
/// would lose the other 262.
#[test]
fn a_tcp_loses_nothing_at_its_own_nic() {
    use flowloom_transports::tcp::Dctcp;
    let lost = |profile: Profile| {
        let cluster = Cluster::new(addresses(3), profile).unwrap();
        let new = |me| {
            let store = Box::new(InMemory::new(Bytes::ZERO));
            Driver::<Dctcp>::new(&Default::default(), &cluster, NodeId(me), 0, store).unwrap()
        };
        let (mut sender, mut receiver) = (new(0), new(1));
        meet(&mut sender, &mut receiver);
        for _ in 0..5 {
            sender.open(at_us(0), NodeId(1), full_packets(100)).unwrap();
        }
        sender.advance(at_us(0), &mut MemoryNetwork::default()).unwrap();
        sender.stats().nic_drops
    };
    assert_eq!(lost(Profile::LOOPBACK), 0);
    assert_eq!(lost(Profile { windows_buffer: Profile::LOOPBACK.nic_buffer, ..Profile::LOOPBACK }), 5 * 70 - 88);
    // pFabric goes by its losses there.
    assert_eq!(Profile::LOOPBACK.nic_memory::<PFabric>(&Default::default()), Profile::LOOPBACK.nic_buffer);
}

/// Three processes of a node, one after the other, use the same ids. The receiver's endpoint remembers the flows of the first two, of which one was complete and one was not.
fn hears_all_processes_of_a_node<T: Transport>()
where
    T::Config: Default,
{
    let config = T::Config::default();
    let Ok(receiver) = Driver::<T>::new(&config, &cluster(3), NodeId(1), 0, Box::new(InMemory::new(Bytes::new(1 << 20))))
    else {
        return; // it needs a controller
    };
    let mut two = Two::new([process::<T>(&config, 0, 7), receiver]);
    for (round, packets) in [1, 9, 5, 5].into_iter().enumerate() {
        two.nodes[0] = process(&config, 0, 7);
        let data: Vec<u8> = full_packets(packets).into_iter().map(|byte| byte ^ round as u8).collect();
        let flow = two.nodes[0].open(at_us(two.clock_us), NodeId(1), data.clone()).unwrap();
        assert_eq!(flow, FlowId(7));
        if round == 1 {
            let begun = |two: &Two<T>| two.nodes[1].unfinished().first().is_some_and(|(_, arrived)| *arrived > Bytes::ZERO);
            while !begun(&two) {
                two.run(20);
                assert!(two.clock_us < 5_000_000, "{}: no part of a flow came", T::NAME);
            }
            continue;
        }
        let (mut acknowledged, mut received) = (false, Vec::new());
        for _ in 0..500 {
            let [sender, receiver] = two.run(10_000);
            acknowledged |= sender.iter().any(|notice| matches!(notice, Notice::Acknowledged { .. }));
            received.extend(receiver.into_iter().filter(|notice| matches!(notice, Notice::Received { .. })));
            if acknowledged {
                break;
            }
        }
        let size = Bytes::new(data.len() as u64);
        assert_eq!(received, [Notice::Received { flow, src: NodeId(0), size, data }], "{}, process {round}", T::NAME);
        assert!(acknowledged, "{}, process {round}", T::NAME);
    }
}

#[test]
fn a_restarted_sender_with_the_ids_of_its_predecessor_is_heard() {
    macro_rules! all {
        ($($transport:ty),* $(,)?) => { $(hears_all_processes_of_a_node::<$transport>();)* };
    }
    flowloom_transports::for_each_transport!(all);
}

/// D3 and PDQ give up flows that will miss their deadlines. Then nothing of them is left at the receiver, which is told again if it does not hear it at first.
fn gives_up_at_both_ends<T: Transport>(blackout_us: Range<u64>)
where
    T::Config: Default,
{
    let mut two = Two::new(pair::<T>(&T::Config::default()).into());
    two.blackout_us = blackout_us;
    // Five flows of 12 ms each cannot all end within 20 ms.
    for _ in 0..5 {
        two.nodes[0].plan(at_us(0), Flow { deadline: Some(at_us(20_000)), ..zeros(100, 0) }).unwrap();
    }
    let [sender, receiver] = two.run(3_000_000);
    let late = Cause::Transport(AbortReason::Deadline);
    assert!(
        sender.iter().any(|notice| matches!(notice, Notice::Aborted { cause, .. } if *cause == late)),
        "{}: {sender:?}",
        T::NAME
    );
    let given_up = Cause::GivenUp("deadline".to_owned());
    assert!(
        receiver.iter().any(|notice| matches!(notice, Notice::Incomplete { cause, .. } if *cause == given_up)),
        "{}: {receiver:?}",
        T::NAME
    );
    assert_eq!((two.nodes[0].open_flows(), two.nodes[1].unfinished()), (Vec::new(), Vec::new()), "{}", T::NAME);
    assert!(two.nodes[0].around.farewells.is_empty(), "{}", T::NAME);
    assert!(two.nodes[1].around.open_with.iter().all(|open| *open == 0), "{}", T::NAME);
}

#[test]
fn a_flow_that_its_sender_gives_up_ends_at_its_receiver() {
    use flowloom_transports::d3::D3;
    use flowloom_transports::pdq::Pdq;
    for blackout_us in [0..0, 5_000..40_000] {
        gives_up_at_both_ends::<D3>(blackout_us.clone());
        gives_up_at_both_ends::<Pdq>(blackout_us);
    }
}

/// Whoever has recorded the greetings of a process cannot make it look alive.
#[test]
fn recorded_greetings_are_no_signs_of_life() {
    let (mut a, mut b) = (stranger::<Probe>(&None, 0), stranger::<Probe>(&None, 1));
    let (mut to_a, mut to_b) = (MemoryNetwork::default(), MemoryNetwork::default());
    a.open(at_us(0), NodeId(1), full_packets(100)).unwrap();
    let mut recorded = Vec::new();
    for us in (0..1000).step_by(20) {
        a.advance(at_us(us), &mut to_a).unwrap();
        carry(&mut to_a, &mut to_b, 0);
        b.receive(at_us(us), &mut to_b).unwrap();
        b.advance(at_us(us), &mut to_b).unwrap();
        recorded.extend(to_b.sent.clone());
        carry(&mut to_b, &mut to_a, 1);
        while !to_a.arriving.is_empty() {
            a.receive(at_us(us), &mut to_a).unwrap();
        }
    }
    assert!(a.stats().packets_sent > 3 && recorded.iter().any(|(_, _, datagram)| datagram.starts_with(b"FH")));
    let mut ended = None;
    for ms in (1..12_000_u64).step_by(10) {
        to_b.sent = recorded.clone();
        carry(&mut to_b, &mut to_a, 1);
        while !to_a.arriving.is_empty() {
            a.receive(at_us(ms * 1000), &mut to_a).unwrap();
        }
        a.advance(at_us(ms * 1000), &mut to_a).unwrap();
        ended = ended.or_else(|| a.poll_notice().map(|notice| (notice, ms / 1000)));
    }
    assert!(matches!(ended, Some((Notice::Aborted { cause: Cause::Silent, .. }, 10))), "{ended:?}");
}

/// A node that a disk, a debugger or `docker pause` has held up says nothing about others before it has heard them.
#[test]
fn a_node_that_was_held_up_does_not_take_others_for_gone() {
    for waits_in_the_socket in [true, false] {
        let mut two = Two::new(pair::<Probe>(&None).into());
        two.send(4);
        two.run(SLOT_US / 2);
        if waits_in_the_socket {
            two.nodes[0].advance(at_us(2 * SLOT_US), &mut two.networks[0]).unwrap();
            let [a, b] = &mut two.networks;
            carry(a, b, 0);
            let held_up = at_us(11_000_000);
            two.nodes[1].advance(held_up, b).unwrap();
            two.nodes[1].receive(held_up, b).unwrap();
            assert_eq!((two.nodes[1].poll_notice(), two.nodes[1].stats().packets_received), (None, 3));
        } else {
            // The other packets are lost, and the probe's receiver has nothing to say until it has everything.
            two.blackout_us = 11_000_000..11_000_400;
            two.clock_us = 11_000_000;
            assert_eq!(two.run(2_000_000), [Vec::new(), Vec::new()]);
        }
    }
}

/// A greeting of another cluster from the address of a node.
fn foreign_greeting(from: u32, to: u32) -> (SocketAddr, u8, Vec<u8>) {
    let other = cluster(3).with_key(Key::random().unwrap());
    let store = Box::new(InMemory::new(Bytes::ZERO));
    let mut driver = Driver::<Probe>::new(&None, &other, NodeId(from), 0, store).unwrap();
    let mut network = MemoryNetwork::default();
    driver.open(at_us(0), NodeId(to), vec![1]).unwrap();
    driver.advance(at_us(0), &mut network).unwrap();
    let (_, tos, datagram) = network.sent.pop().unwrap();
    (addresses(3)[from as usize], tos, datagram)
}

/// A sign of life that nobody sealed, from the address of a node.
fn unsealed_sign(from: u32, to: u32) -> (SocketAddr, u8, Vec<u8>) {
    let mut datagram = trust::head(Kind::Sign, NodeId(from), NodeId(to)).to_vec();
    datagram.resize(datagram.len() + SEAL_BYTES, 0);
    (addresses(3)[from as usize], 0, datagram)
}

/// A greeting of a process that is no longer there.
fn recorded_greeting(from: u32, to: u32) -> (SocketAddr, u8, Vec<u8>) {
    let mut network = MemoryNetwork::default();
    let mut driver = process::<Probe>(&None, from, 1000);
    driver.open(at_us(0), NodeId(to), vec![1]).unwrap();
    driver.advance(at_us(0), &mut network).unwrap();
    let (_, tos, datagram) = network.sent.pop().unwrap();
    (addresses(3)[from as usize], tos, datagram)
}

/// Whoever makes nodes greet each other does not keep them from asking for signs of life.
#[test]
fn made_up_greetings_hide_no_node_that_is_alive() {
    for made_up in [foreign_greeting, unsealed_sign, recorded_greeting] {
        let mut two = Two::new(pair::<Probe>(&None).into());
        two.send(2);
        // The second packet is lost, and nobody has anything to say.
        two.blackout_us = SLOT_US..200_000;
        for _ in 0..12 {
            two.networks[0].arriving.push_back(made_up(1, 0));
            two.networks[1].arriving.push_back(made_up(0, 1));
            assert_eq!(two.run(1_000_000), [Vec::new(), Vec::new()]);
        }
        assert_eq!(two.nodes[1].unfinished().len(), 1);
    }
}

/// A process with other parameters was replaced by one that works. Its greeting, sent again, ends nothing.
#[test]
fn recorded_greetings_of_a_process_that_differed_are_refused() {
    let store = Box::new(InMemory::new(Bytes::ZERO));
    let differing = Driver::<Probe>::new(&Some(Duration::from_us(7)), &cluster(3), NodeId(1), 0, store).unwrap();
    let mut two = Two::new([stranger::<Probe>(&None, 0), differing]);
    two.send(3);
    let [a, b] = &mut two.networks;
    two.nodes[0].advance(at_us(20), a).unwrap();
    carry(a, b, 0);
    two.nodes[1].receive(at_us(20), b).unwrap();
    two.nodes[1].advance(at_us(20), b).unwrap();
    let recorded = b.sent.clone();
    let [sender, _] = two.run(1_000_000);
    assert!(matches!(sender[..], [Notice::Differs { .. }, Notice::Aborted { .. }]), "{sender:?}");
    two.nodes[1] = stranger(&None, 1);
    let second = two.send(100);
    assert_eq!(two.run(10 * SLOT_US), [Vec::new(), Vec::new()]);
    let before = two.nodes[0].stats().replayed;
    two.networks[1].sent.extend(recorded.iter().cloned());
    let [sender, _] = two.run(120 * SLOT_US);
    assert!(matches!(sender[..], [Notice::Acknowledged { flow, .. }] if flow == second), "{sender:?}");
    assert_eq!(two.nodes[0].stats().replayed - before, recorded.len() as u64);
}

/// Each of two nodes with different keys tells the other one so, and does not answer the answer.
#[test]
fn nodes_that_do_not_understand_each_other_fall_silent() {
    const ONE_WAY_MS: u64 = 15;
    let other = cluster(3).with_key(Key::random().unwrap());
    let other = Driver::<Probe>::new(&None, &other, NodeId(1), 0, Box::new(InMemory::new(Bytes::ZERO))).unwrap();
    let mut nodes = [stranger::<Probe>(&None, 0), other];
    nodes[0].open(at_us(0), NodeId(1), vec![1]).unwrap();
    let (mut on_the_way, mut named, mut last_ms) = ([VecDeque::new(), VecDeque::new()], [None, None], 0);
    let mut network = MemoryNetwork::default();
    for ms in 0..72_000 {
        for me in 0..2 {
            while on_the_way[me].front().is_some_and(|(due, _)| *due <= ms) {
                network.arriving.extend(on_the_way[me].pop_front().map(|(_, datagram)| datagram));
            }
            nodes[me].advance(at_us(ms * 1000), &mut network).unwrap();
            while !network.arriving.is_empty() {
                nodes[me].receive(at_us(ms * 1000), &mut network).unwrap();
            }
            for (_, tos, datagram) in network.sent.drain(..) {
                on_the_way[1 - me].push_back((ms + ONE_WAY_MS, (addresses(3)[me], tos, datagram)));
                last_ms = ms;
            }
            let differs = std::iter::from_fn(|| nodes[me].poll_notice()).any(|notice| matches!(notice, Notice::Differs { .. }));
            named[me] = named[me].or(differs.then_some(ms));
        }
    }
    assert_eq!(named, [Some(2 * ONE_WAY_MS), Some(ONE_WAY_MS)]);
    // The flow ends after 10 s, and with it the last greeting and its answer.
    assert!(last_ms < 10_000 + 2 * ONE_WAY_MS, "at {last_ms} ms");
}

/// A node that has given up its flows goes on telling their destination, which is told nothing else, and stays until it knows.
#[test]
fn a_destination_that_missed_the_end_of_a_flow_is_told_again() {
    use flowloom_transports::d3::D3;
    for hears in [true, false] {
        let mut two = Two::new(pair::<D3>(&Default::default()).into());
        two.blackout_us = 5_000..if hears { 60_000 } else { u64::MAX };
        for _ in 0..5 {
            two.nodes[0].plan(at_us(0), Flow { deadline: Some(at_us(20_000)), ..zeros(100, 0) }).unwrap();
        }
        two.run(50_000);
        assert_eq!(two.nodes[0].unacknowledged(), 0);
        assert!(two.nodes[0].unconfirmed() > 0 && !two.nodes[1].unfinished().is_empty());
        if hears {
            // The receiver asks for signs of life only after 1.25 s of silence, and does not hear of the end in answer to them.
            two.run(200_000);
            assert_eq!((two.nodes[0].unconfirmed(), two.nodes[1].unfinished()), (0, Vec::new()));
        } else {
            two.run(9_900_000);
            assert!(two.nodes[0].unconfirmed() > 0);
            two.run(200_000);
            assert_eq!(two.nodes[0].unconfirmed(), 0, "it ends nevertheless");
            // What the destination says later is answered all the same.
            assert!(!two.nodes[0].around.farewells.is_empty());
        }
    }
}

/// Within a second of silence, 640 flows' ends can be told. A destination that confirms some of them is told all.
#[test]
fn a_destination_that_confirms_is_told_the_ends_of_all_flows() {
    use flowloom_transports::d3::D3;
    let profile = Profile { silence: Duration::from_ms(1000), ..Profile::LOOPBACK };
    let cluster = Cluster::new(addresses(3), profile).unwrap();
    let node = |me: u32| {
        let store = Box::new(InMemory::new(Bytes::new(1 << 20)));
        Driver::<D3>::new(&Default::default(), &cluster, NodeId(me), 0, store).unwrap()
    };
    let (mut a, mut b) = (node(0), node(1));
    meet(&mut a, &mut b);
    let mut two = Two::new([a, b]);
    two.blackout_us = 0..60_000;
    for _ in 0..1000 {
        two.nodes[0].plan(at_us(0), Flow { deadline: Some(at_us(20_000)), ..zeros(1, 0) }).unwrap();
    }
    two.run(60_000);
    assert_eq!((two.nodes[0].unacknowledged(), two.nodes[0].unconfirmed()), (0, 1000));
    two.run(2_000_000);
    assert_eq!((two.nodes[0].unconfirmed(), two.nodes[0].around.farewells.len()), (0, 0));
}

#[test]
fn bytes_of_a_flow_that_its_source_gave_up_are_not_delivered() {
    let mut two = Two::new(pair::<Probe>(&None).into());
    let flow = two.send(100);
    two.run(10 * SLOT_US);
    let delivered = (WIRE.payload() * 11).get(); // those sent after 0, 1, …, and 10 slots
    assert_eq!(two.nodes[1].stats().payload_bytes_delivered, delivered);
    two.nodes[1].take_end(NodeId(0), &[&flow.0.to_be_bytes()[..], b"deadline"].concat()).unwrap();
    // The source does not hear that its destination knows.
    two.nodes[1].around.ends.clear();
    two.run(5 * SLOT_US);
    let stats = two.nodes[1].stats();
    assert_eq!((stats.packets_received, stats.payload_bytes_delivered), (16, delivered));
}
