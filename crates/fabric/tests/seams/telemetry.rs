//! In-band telemetry: every port writes time, sent bytes, queue length and rate into the data packets that it sends, and acknowledgements
//! return them to the source.

use flowloom_core::{
    Dequeue, Discipline, Fifo, LinkId, NodeId, Packet, PacketId, Pool, PortCall, PortSite, Rate, Time, topology,
};
use flowloom_fabric::{Observer, Report};

use crate::common::blast::{Blast, Header, Kind, Scheme};
use crate::common::networks::{CUT, HOP_DELAY, STORE, flow, gbps, ns, setup, watch};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stamp {
    time: Time,
    /// All bytes that the port has sent, including this packet.
    sent_bytes: u64,
    /// The bytes queued behind this packet.
    queued_bytes: u64,
    rate: Rate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stamps {
    hops: [Stamp; 6],
    count: usize,
}

struct Port {
    queue: Fifo,
    queued_bytes: u64,
    sent_bytes: u64,
}

impl Discipline<Header<Stamps>> for Port {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<Stamps>, ()>, id: PacketId) {
        self.queued_bytes += call.pool[id].size().get();
        self.queue.push(id, call.pool);
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<Stamps>, ()>) -> Dequeue {
        let Some(id) = self.queue.pop(call.pool) else { return Dequeue::Idle };
        let packet = &mut call.pool[id];
        self.queued_bytes -= packet.size().get();
        self.sent_bytes += packet.size().get();
        if matches!(packet.header.kind, Kind::Data(_)) {
            let stamps = &mut packet.header.extra;
            let (sent_bytes, queued_bytes) = (self.sent_bytes, self.queued_bytes);
            stamps.hops[stamps.count] = Stamp { time: call.now, sent_bytes, queued_bytes, rate: call.rate };
            stamps.count += 1;
        }
        Dequeue::Packet(id)
    }
    fn each_queued(&self, pool: &Pool<Header<Stamps>>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.ids(pool).for_each(visit);
    }
}

enum Hpcc {}

impl Scheme for Hpcc {
    const ECHO: bool = true;
    type Config = ();
    type Extra = Stamps;
    type Port = Port;
    fn port((): &(), _: &PortSite<'_>) -> Port {
        Port { queue: Fifo::default(), queued_bytes: 0, sent_bytes: 0 }
    }
}

/// Counts sent and queued bytes independently of the ports, and compares each stamp with its counts.
#[derive(Default)]
struct IndependentCounts {
    sent: Vec<u64>,
    queued: Vec<u64>,
    rates: Vec<Rate>,
    compared: usize,
    echoes: Vec<(NodeId, Packet<Header<Stamps>>)>,
}

impl Observer<Header<Stamps>> for IndependentCounts {
    fn packet_queued(&mut self, _: Time, link: LinkId, _: PacketId, packet: &Packet<Header<Stamps>>, queued_bytes: u64) {
        self.queued[link.index()] += packet.size().get();
        assert_eq!(self.queued[link.index()], queued_bytes);
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, _: PacketId, packet: &Packet<Header<Stamps>>) {
        self.sent[link.index()] += packet.size().get();
        self.queued[link.index()] -= packet.size().get();
        if matches!(packet.header.kind, Kind::Data(_)) {
            let stamps = packet.header.extra;
            let (sent_bytes, queued_bytes) = (self.sent[link.index()], self.queued[link.index()]);
            let expected = Stamp { time: now, sent_bytes, queued_bytes, rate: self.rates[link.index()] };
            assert_eq!(stamps.hops[stamps.count - 1], expected);
            self.compared += 1;
        }
    }
    fn packet_arrived(&mut self, _: Time, node: NodeId, _: PacketId, packet: &Packet<Header<Stamps>>) {
        if matches!(packet.header.kind, Kind::Ack(_)) {
            self.echoes.push((node, *packet));
        }
    }
}

fn go(network: flowloom_core::Network, flows: Vec<flowloom_core::Flow>) -> (Report, IndependentCounts) {
    let links = network.links();
    let rates = links.iter().map(|link| link.rate).collect();
    let counts =
        IndependentCounts { sent: vec![0; links.len()], queued: vec![0; links.len()], rates, ..IndependentCounts::default() };
    watch::<Blast<Hpcc>, IndependentCounts>(&(), setup(network), flows, counts)
}

/// Two hosts send three packets each to a third. The switch receives one packet from each at 1.4, 2.6 and 3.8 µs. It sends the first at
/// once and the others every 1.2 µs.
#[test]
fn stamps_by_hand() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let (_, counts) = go(network, vec![flow(0, 0, 2, 3 * 1460, Time::ZERO), flow(1, 1, 2, 3 * 1460, Time::ZERO)]);
    let stamps: Vec<Stamp> = counts.echoes.iter().map(|(_, packet)| packet.header.extra.hops[1]).collect();
    let times: Vec<Time> = stamps.iter().map(|stamp| stamp.time).collect();
    assert_eq!(times, [1400, 2600, 3800, 5000, 6200, 7400].map(ns));
    let sent: Vec<u64> = stamps.iter().map(|stamp| stamp.sent_bytes).collect();
    assert_eq!(sent, [1500, 3000, 4500, 6000, 7500, 9000]);
    let queued: Vec<u64> = stamps.iter().map(|stamp| stamp.queued_bytes).collect();
    // The port sends a packet at the first of two simultaneous arrivals, so at 2.6 and 3.8 µs the second one is not queued yet.
    assert_eq!(queued, [0, 1500, 3000, 3000, 1500, 0]);
    assert!(stamps.iter().all(|stamp| stamp.rate == gbps(10)));
}

/// On a fat-tree with queues, all stamps agree with the observer's counts, and sources get one stamp for each hop.
#[test]
fn stamps_agree_with_the_observer_at_every_hop() {
    for switching in [STORE, CUT] {
        let network = topology::fat_tree(4, gbps(10), HOP_DELAY, switching);
        let flows = (0..48).map(|id| flow(id, id % 16, (id * 7 + 3) % 16, 30_000, Time::ZERO)).filter(|f| f.src != f.dst);
        let (report, counts) = go(network, crate::common::networks::in_order(flows.collect()));
        assert_eq!(counts.echoes.len() as u64, report.data_packets);
        let mut hops = 0;
        for (node, packet) in &counts.echoes {
            let stamps = packet.header.extra;
            assert_eq!(stamps.count, report.network.path(*node, packet.src).len());
            assert!(stamps.hops[..stamps.count].is_sorted_by(|a, b| a.time < b.time));
            hops += stamps.count;
        }
        assert_eq!(counts.compared, hops);
        for (counters, sent) in report.ports.iter().zip(&counts.sent) {
            assert_eq!(counters.bytes(), *sent);
        }
    }
}
