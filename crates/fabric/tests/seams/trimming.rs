//! Trimming: a data packet that arrives at a full queue loses its payload, and its header is sent before data.

use flowloom_core::{Dequeue, Discipline, Fifo, LinkId, NodeId, NodeKind, PacketId, Pool, PortCall, PortSite, Time, topology};
use flowloom_fabric::{Fault, Report, SimSetup};

use crate::common::blast::{Blast, Header, Kind, Scheme};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, watch, watch_faulty};
use crate::common::watch::Log;

const HEADER_BYTES: u32 = 64;
const DATA_QUEUED_MAX: usize = 8;

struct Port {
    headers: Fifo,
    data: Fifo,
    queued: usize,
    data_max: usize,
}

impl Discipline<Header<()>> for Port {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<()>, ()>, id: PacketId) {
        if call.pool[id].payload_bytes > 0 && self.queued < self.data_max {
            self.queued += 1;
            return self.data.push(id, call.pool);
        }
        if call.pool[id].payload_bytes > 0 {
            call.trim(id, HEADER_BYTES);
        }
        self.headers.push(id, call.pool);
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<()>, ()>) -> Dequeue {
        if let Some(id) = self.headers.pop(call.pool) {
            return Dequeue::Packet(id);
        }
        let Some(id) = self.data.pop(call.pool) else { return Dequeue::Idle };
        self.queued -= 1;
        Dequeue::Packet(id)
    }
    fn each_queued(&self, pool: &Pool<Header<()>>, visit: &mut dyn FnMut(PacketId)) {
        self.headers.ids(pool).chain(self.data.ids(pool)).for_each(visit);
    }
}

enum Ndp {}

impl Scheme for Ndp {
    type Config = ();
    type Extra = ();
    type Port = Port;
    fn port((): &(), site: &PortSite<'_>) -> Port {
        let at_switch = site.network.node(site.network.link(site.link).from).kind == NodeKind::Switch;
        let data_max = if at_switch { DATA_QUEUED_MAX } else { usize::MAX };
        Port { headers: Fifo::default(), data: Fifo::default(), queued: 0, data_max }
    }
}

const SENDERS: u32 = 16;

fn incast(packets: u64) -> (SimSetup, Vec<flowloom_core::Flow>, LinkId) {
    let network = topology::single_switch(SENDERS as usize + 1, gbps(10), HOP_DELAY, STORE);
    let port = network.ports(NodeId(SENDERS))[0].reverse();
    let flows = (0..SENDERS).map(|host| flow(host, host, SENDERS, 1460 * packets, Time::ZERO)).collect();
    (setup(network), flows, port)
}

fn headers(log: &Log<Header<()>>) -> Vec<Time> {
    let header = |packet: &flowloom_core::Packet<_>| {
        matches!(packet.header, Header { kind: Kind::Data(_), .. }) && packet.payload_bytes == 0
    };
    log.arrived.iter().filter(|(_, _, packet)| header(packet)).map(|(time, ..)| *time).collect()
}

fn check(report: &Report, log: &Log<Header<()>>) {
    let trimmed: u64 = report.ports.iter().map(|port| port.trimmed_packets).sum();
    let lost: u64 = report.records.iter().map(|record| u64::from(record.dropped_packets)).sum();
    assert_eq!((headers(log).len() as u64, lost), (trimmed, trimmed), "the header of every trimmed packet arrives");
    for (flow, record) in report.flows.iter().zip(&report.records) {
        assert_eq!(record.delivered_bytes, flow.size.get());
        assert_eq!(record.dropped_bytes, 1460 * u64::from(record.dropped_packets));
        assert_eq!(
            u64::from(record.retransmissions),
            u64::from(record.dropped_packets),
            "a packet is sent again once for each trimming"
        );
    }
}

/// Sixteen packets arrive at the same time: one is sent at once, eight are queued, and seven are trimmed. Their headers of 64 B take 51.2
/// ns each, after the end of the first packet.
#[test]
fn headers_of_trimmed_packets_arrive_before_queued_packets() {
    let (setup, flows, port) = incast(1);
    let (report, log) = watch::<Blast<Ndp>, Log<_>>(&(), setup, flows, Log::default());
    check(&report, &log);
    let first = ns(1200 + 200 + 1200 + 200).as_ps();
    let expected: Vec<Time> = (1..=7).map(|n| Time::from_ps(first + n * 51_200)).collect();
    assert_eq!(headers(&log)[..7], expected);
    // Retransmitted packets may be trimmed again, but the queue was longest at the first arrivals.
    assert_eq!(report.ports[port.index()].peak_bytes, 8 * 1500 + 7 * 64);
}

#[test]
fn an_incast_of_many_packets_loses_payloads_but_no_packet() {
    let (setup, flows, port) = incast(30);
    let (report, log) = watch::<Blast<Ndp>, Log<_>>(&(), setup, flows, Log::default());
    check(&report, &log);
    let counters = &report.ports[port.index()];
    assert!(counters.trimmed_packets > 100);
    assert_eq!(report.ports.iter().map(flowloom_fabric::PortCounters::drops).sum::<u64>(), 0);
    assert!(counters.peak_bytes <= 9 * 1500 + u64::from(SENDERS * 30 * HEADER_BYTES));
}

/// A duplicate may be trimmed at once, but its payload still counts as having entered the network. Both packets of a pair request the
/// payload again, so the run is stopped while copies are in flight.
#[test]
fn a_duplicate_that_is_trimmed_is_accounted_for() {
    let (setup, flows, port) = incast(4);
    let faults = |link| if link == port.0 { vec![Fault::Duplicate(1.0)] } else { Vec::new() };
    let setup = SimSetup { time_limit: ns(20_000), ..setup };
    let (report, ()) = watch_faulty::<Blast<Ndp>, ()>(&(), setup, flows, (), faults);
    assert!(report.records.iter().all(|record| record.duplicated_bytes > 0));
    let counters = &report.ports[port.index()];
    assert!(counters.trimmed_packets > 100);
    assert!(counters.peak_bytes < 1_000_000, "no queue is counted below empty: {}", counters.peak_bytes);
}
