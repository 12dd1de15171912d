//! State shared by all ports of a switch. A data packet gets a promise on its egress port. The promise is committed when the
//! acknowledgement arrives at that port, so both must use the same links.

use std::collections::{BTreeMap, HashMap, VecDeque};

use flowloom_core::{
    Dequeue, Discipline, Duration, Endpoint, Event, Fifo, Flow, FlowId, Nic, NoControl, NodeKind, Packet, PacketId, Pool,
    PortCall, PortNumber, PortSite, Site, Time, Transport, topology,
};
use flowloom_fabric::{Routing, SimSetup};

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, watch};
use crate::common::watch::Log;

/// The scheduling header: whether every switch so far lets the flow send, and how many switches on the return path committed a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Grant {
    remaining: u64,
    accepted: bool,
    commits: u8,
}
impl Default for Grant {
    fn default() -> Self {
        Grant { remaining: 0, accepted: true, commits: 0 }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    remaining: u64,
    promised: bool,
    sending: bool,
}

/// One list of flows for each egress port of a switch.
#[derive(Default)]
struct FlowLists(BTreeMap<(PortNumber, FlowId), Entry>);

impl FlowLists {
    /// Whether a flow may send: no more critical flow on the same port is sending.
    fn promise(&mut self, egress: PortNumber, flow: FlowId, remaining: u64) -> bool {
        let same_port = (egress, FlowId(0))..=(egress, FlowId(u32::MAX));
        let beaten = |(key, other): (&(PortNumber, FlowId), &Entry)| {
            key.1 != flow && other.sending && (other.remaining, key.1) < (remaining, flow)
        };
        let promised = !self.0.range(same_port).any(beaten);
        let entry = self.0.entry((egress, flow)).or_insert(Entry { remaining, promised, sending: false });
        (entry.remaining, entry.promised) = (remaining, promised);
        promised
    }
    /// Commits a promise. Returns whether the flow's data was sent by the port at which its acknowledgement arrived.
    fn commit(&mut self, ingress: PortNumber, flow: FlowId, accepted: bool, last: bool) -> bool {
        let Some(entry) = self.0.get_mut(&(ingress, flow)) else { return false };
        entry.sending = accepted;
        if last {
            self.0.remove(&(ingress, flow));
        }
        true
    }
}

struct Port {
    queue: Fifo,
    at_switch: bool,
}

impl Discipline<Header<Grant>> for Port {
    type Shared = FlowLists;
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<Grant>, FlowLists>, id: PacketId) {
        self.queue.push(id, call.pool);
        if !self.at_switch {
            return;
        }
        let packet = &mut call.pool[id];
        let grant = &mut packet.header.extra;
        match packet.header.kind {
            Kind::Data(_) => grant.accepted &= call.shared.promise(call.number, packet.flow, grant.remaining),
            Kind::Ack(last) => grant.commits += u8::from(call.shared.commit(call.ingress, packet.flow, grant.accepted, last)),
            Kind::Nack(_) | Kind::Other => {}
        }
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<Grant>, FlowLists>) -> Dequeue {
        self.queue.pop(call.pool).map_or(Dequeue::Idle, Dequeue::Packet)
    }
    fn each_queued(&self, pool: &Pool<Header<Grant>>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.ids(pool).for_each(visit);
    }
}

const PROBE_INTERVAL: Duration = Duration::from_us(10);

struct Sending {
    flow: Flow,
    next: u64,
    /// Whether the last acknowledgement accepted the flow.
    accepted: bool,
    probe_at: Time,
}

/// A host. It probes with one packet at a time until the flow is accepted, then sends back to back until the flow is paused.
struct Host {
    flows: VecDeque<Sending>,
    clock: Time,
    seen: HashMap<FlowId, u64>,
    receiver: Blaster<Grant>,
}

impl Host {
    fn next(&mut self, now: Time) -> Option<Packet<Header<Grant>>> {
        let wire = self.receiver.wire;
        let sending =
            self.flows.iter_mut().find(|s| s.next < wire.packets(s.flow.size) && (s.accepted || s.probe_at <= now))?;
        sending.probe_at = now + PROBE_INTERVAL;
        sending.next += 1;
        let mut packet = self.receiver.data(&sending.flow, sending.next - 1, 0);
        packet.header.extra.remaining = wire.packets(sending.flow.size) - sending.next;
        Some(packet)
    }
}

impl Endpoint for Host {
    type Header = Header<Grant>;
    fn open(&mut self, now: Time, flow: &Flow) {
        self.flows.push_back(Sending { flow: *flow, next: 0, accepted: false, probe_at: now });
        self.receiver.expect(flow);
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<Grant>>) {
        if let Kind::Ack(last) = packet.header.kind {
            *self.seen.entry(packet.flow).or_default() += 1;
            if let Some(sending) = self.flows.iter_mut().find(|sending| sending.flow.id == packet.flow) {
                sending.accepted = packet.header.extra.accepted;
            }
            if last {
                self.flows.retain(|sending| sending.flow.id != packet.flow);
            }
        }
        self.receiver.handle_packet(now, packet);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.clock = now;
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Grant>>> {
        self.clock = now;
        self.receiver.poll_transmit(now).or_else(|| self.next(now))
    }
    fn poll_timeout(&self) -> Option<Time> {
        let paused = self.flows.iter().filter(|s| !s.accepted && s.next < self.receiver.wire.packets(s.flow.size));
        paused.map(|sending| sending.probe_at).filter(|at| *at > self.clock).min()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.receiver.poll_event()
    }
}

enum Pdq {}

impl Transport for Pdq {
    const NAME: &'static str = "toy_pdq";
    const ABOUT: &'static str = "a toy of state per switch";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<Grant>;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header<Grant>>;
    fn host((): &(), site: &Site<'_>) -> Host {
        Host { flows: VecDeque::new(), clock: Time::ZERO, seen: HashMap::new(), receiver: Blaster::new(site, true) }
    }
    fn port((): &(), site: &PortSite<'_>) -> Port {
        let from = site.network.link(site.link).from;
        Port { queue: Fifo::default(), at_switch: site.network.node(from).kind == NodeKind::Switch }
    }
}

/// The number of acknowledgements that found a promise at every switch on their path, and of those that did not.
fn commits(routing: Routing) -> (usize, usize) {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    let flows = (0..16).map(|host| flow(host, host, (host + 5) % 16, 50_000, Time::ZERO)).collect();
    let (report, log) = watch::<Pdq, Log<_>>(&(), SimSetup { routing, ..setup(network) }, flows, Log::default());
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    let complete = |packet: &Packet<Header<Grant>>| {
        let switches = report.network.path(packet.src, packet.dst).len() - 1;
        usize::from(packet.header.extra.commits) == switches
    };
    let acks: Vec<_> =
        log.arrived.iter().map(|(_, _, packet)| packet).filter(|packet| matches!(packet.header.kind, Kind::Ack(_))).collect();
    let all = acks.iter().filter(|packet| complete(packet)).count();
    (all, acks.len() - all)
}

/// 16 flows of 35 packets between racks and pods.
#[test]
fn an_acknowledgement_commits_the_promise_to_its_data_at_every_switch() {
    assert_eq!(commits(Routing::EcmpSymmetric), (16 * 35, 0));
    // This shows that the test can fail: with one hash per direction, acknowledgements of most flows pass other switches.
    assert!(commits(Routing::Ecmp).1 > 0);
}

/// A long flow from host 0 is paused by a short one from host 1 to the same destination, and then continues.
#[test]
fn a_paused_flow_probes_and_sends_again_after_the_more_critical_one() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let (long, short) = (flow(0, 0, 2, 1460 * 200, Time::ZERO), flow(1, 1, 2, 1460 * 50, ns(50_000)));
    let setup = SimSetup { routing: Routing::EcmpSymmetric, ..setup(network) };
    let (report, log) = watch::<Pdq, Log<_>>(&(), setup, vec![long, short], Log::default());
    // Alone it takes a probe and its acknowledgement (2 × 1400 + 2 × 232 ns), 49 packets of 1200 ns, and 1600 ns for the rest of the last
    // packet's path.
    let alone = 2800 + 464 + 49 * 1200 + 1600;
    let fct = (report.records[1].received - short.start).as_ps() / 1000;
    // It waits for the packets that the long flow sent before an acknowledgement paused it, less than two round trips, and for its probes.
    let probes = fct * 1000 / PROBE_INTERVAL.as_ps();
    let fct_max = alone + 2 * 3264 + probes * 1200;
    assert!((alone..fct_max).contains(&fct), "{fct} ns, {alone} ns alone, at most {fct_max} ns");
    let from_long = |from: Time, to: Time| {
        let nic = report.network.ports(long.src)[0];
        log.on(nic).filter(|(time, _)| (from..to).contains(time)).count() as u64
    };
    let paused = ns(50_000 + 2 * 3300)..report.records[1].received;
    assert!(from_long(paused.start, paused.end) <= probes + 1, "only probes while paused");
    // The long flow learns this from its next probe, at most an interval later, and then uses the link alone.
    let sent = from_long(Time::ZERO, report.records[1].received);
    let remaining_ns = (200 - sent) * 1200 + PROBE_INTERVAL.as_ps() / 1000 + 2 * 3264;
    assert!(report.records[0].received <= report.records[1].received + Duration::from_ns(remaining_ns));
}
