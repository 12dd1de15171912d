//! Priority flow control: a switch counts its queued bytes by ingress port, and stops a neighbour before its memory is full.

use std::collections::VecDeque;

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Ecn, FlowId, LinkId, Memory, Network, Nic, NodeId, Packet, PacketId, Pool,
    PortCall, PortNumber, PortSite, Time, topology,
};
use flowloom_fabric::{PortCounters, Report, SimSetup};

use crate::common::blast::{Blast, Header, Kind, Scheme};
use crate::common::networks::{CUT, HOP_DELAY, STORE, flow, gbps, setup, watch};
use crate::common::watch::Log;

/// The order of a pause frame; `None` in data packets.
type Frame = Option<Order>;
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Stop,
    Go,
}

/// The bytes queued from one neighbour, the last order to it, and an order that is not sent yet.
#[derive(Clone, Copy, Default)]
struct Ingress {
    bytes: u64,
    last_order: Option<Order>,
    pending_order: Frame,
}

#[derive(Default)]
struct Shared(Vec<Ingress>);

impl Shared {
    fn of(&mut self, port: PortNumber) -> &mut Ingress {
        let index = usize::from(port.0);
        if self.0.len() <= index {
            self.0.resize(index + 1, Ingress::default());
        }
        &mut self.0[index]
    }
}

struct Port {
    queue: VecDeque<(PacketId, PortNumber)>,
    used: u64,
    limit: u64,
    stopped: bool,
    thresholds: Thresholds,
    me: NodeId,
}

/// A neighbour is stopped above `stop` queued bytes, and continues below `go`.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    stop: u64,
    go: u64,
}
impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { stop: 3000, go: 1500 }
    }
}

impl Port {
    /// A frame whose offset field holds the current time.
    fn frame(&self, now: Time, order: Order) -> Packet<Header<Frame>> {
        Packet {
            flow: FlowId(0),
            src: self.me,
            dst: NodeId::LINK,
            size_bytes: 64,
            payload_bytes: 0,
            offset: Bytes::new(now.as_ps()),
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            header: Header { kind: Kind::Other, extra: Some(order) },
        }
    }
}

impl Discipline<Header<Frame>> for Port {
    type Shared = Shared;
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<Frame>, Shared>, id: PacketId) {
        let size = call.pool[id].size().get();
        if self.used + size > self.limit {
            return call.drop(id, DropReason::Overflow);
        }
        self.used += size;
        self.queue.push_back((id, call.ingress));
        if call.ingress != PortNumber::LOCAL {
            let ingress = call.shared.of(call.ingress);
            ingress.bytes += size;
            if ingress.bytes > self.thresholds.stop && ingress.last_order != Some(Order::Stop) {
                (ingress.last_order, ingress.pending_order) = (Some(Order::Stop), Some(Order::Stop));
                call.wake(call.ingress);
            }
        }
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<Frame>, Shared>) -> Dequeue {
        if let Some(order) = call.shared.of(call.number).pending_order.take() {
            return Dequeue::Packet(call.pool.insert(self.frame(call.now, order)));
        }
        if self.stopped {
            return Dequeue::Idle;
        }
        let Some((id, from)) = self.queue.pop_front() else { return Dequeue::Idle };
        let size = call.pool[id].size().get();
        self.used -= size;
        if from != PortNumber::LOCAL {
            let ingress = call.shared.of(from);
            ingress.bytes -= size;
            if ingress.bytes < self.thresholds.go && ingress.last_order == Some(Order::Stop) {
                (ingress.last_order, ingress.pending_order) = (Some(Order::Go), Some(Order::Go));
                call.wake(from);
            }
        }
        Dequeue::Packet(id)
    }
    fn handle_link_frame(&mut self, call: &mut PortCall<'_, Header<Frame>, Shared>, id: PacketId) {
        let frame = &call.pool[id];
        // A frame of 64 B takes effect when it has arrived completely, even if switches cut through.
        assert_eq!(call.now.as_ps(), frame.offset.get() + 51_200 + HOP_DELAY.as_ps());
        self.stopped = frame.header.extra == Some(Order::Stop);
    }
    fn each_queued(&self, _: &Pool<Header<Frame>>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.iter().for_each(|(id, _)| visit(*id));
    }
}

fn port(thresholds: &Thresholds, site: &PortSite<'_>) -> Port {
    let me = site.network.link(site.link).from;
    // A host's own memory is unlimited.
    let limit = if me.index() < site.network.hosts() { u64::MAX } else { site.memory.bytes().get() };
    Port { queue: VecDeque::new(), used: 0, limit, stopped: false, thresholds: *thresholds, me }
}

enum Pulled {}
impl Scheme for Pulled {
    type Config = Thresholds;
    type Extra = Frame;
    type Port = Port;
    fn port(thresholds: &Thresholds, site: &PortSite<'_>) -> Port {
        port(thresholds, site)
    }
}

enum Queued {}
impl Scheme for Queued {
    const NIC: Nic = Nic::Queued;
    type Config = Thresholds;
    type Extra = Frame;
    type Port = Port;
    fn port(thresholds: &Thresholds, site: &PortSite<'_>) -> Port {
        port(thresholds, site)
    }
}

const NEVER: Thresholds = Thresholds { stop: u64::MAX, go: 0 };

/// Every host but the last sends 100 packets to the last.
fn incast<S: Scheme<Config = Thresholds, Extra = Frame, Port = Port>>(
    network: Network,
    thresholds: Thresholds,
    buffer: u64,
) -> (Report, Log<Header<Frame>>) {
    let last = network.hosts() as u32 - 1;
    let flows = (0..last).map(|host| flow(host, host, last, 146_000, Time::ZERO)).collect();
    watch::<Blast<S>, Log<_>>(
        &thresholds,
        SimSetup { memory: Memory::PerPort(Bytes::new(buffer)), ..setup(network) },
        flows,
        Log::default(),
    )
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

/// Above the 3000 B at which it is stopped, these bytes can still arrive from a neighbour: the packet that crosses the threshold (1500),
/// what it sends until the stop frame has arrived behind at most a 40 B answer (2 × 200 ns + 32 + 51.2 ns are 604 B), and the packet that
/// it is sending then (1500).
const HEADROOM: u64 = 3000 + 1500 + 604 + 1500;

#[test]
fn an_incast_loses_packets_without_pause_frames_and_none_with_them() {
    for (name, run) in [("pulled", incast::<Pulled> as fn(_, _, _) -> _), ("queued", incast::<Queued>)] {
        let network = || topology::single_switch(16, gbps(10), HOP_DELAY, STORE);
        let buffer = 15 * HEADROOM;
        let (without, _) = run(network(), NEVER, buffer);
        assert!(drops(&without) > 500, "{name}: 2.25 MB into {buffer} B at a sixteenth of their rate");
        let (with, log) = run(network(), Thresholds::default(), buffer);
        assert_eq!(drops(&with), 0, "{name}");
        assert!(with.records.iter().all(|record| record.acknowledged != Time::MAX), "{name}: all flows continue");
        // The bottleneck never idles: it sends 1500 packets from the arrival of the first one on.
        let done = with.records.iter().map(|record| record.received).max();
        assert_eq!(done, Some(Time::from_ps(1_400_000 + 1500 * 1_200_000 + 200_000)), "{name}");
        let port = with.network.ports(NodeId(15))[0].reverse();
        assert!(with.ports[port.index()].peak_bytes <= buffer, "{name}");
        let stops = log.sent.iter().filter(|(_, _, packet)| packet.header.extra == Some(Order::Stop)).count();
        assert!(stops >= 15, "{name}: {stops}");
    }
}

/// Leaves and one spine: the last leaf stops the spine, the spine stops the other leaves, and those stop the hosts.
#[test]
fn a_stopped_switch_stops_its_own_neighbours() {
    for switching in [STORE, CUT] {
        let network = topology::leaf_spine(5, 4, 1, gbps(10), gbps(10), HOP_DELAY, switching);
        let level = |network: &Network, link: LinkId| {
            let link = network.link(link);
            (network.node(link.from).level, network.node(link.to).level)
        };
        let (without, _) = incast::<Pulled>(network.clone(), NEVER, 8 * HEADROOM);
        assert!(drops(&without) > 500);
        let (with, log) = incast::<Pulled>(network, Thresholds::default(), 8 * HEADROOM);
        assert_eq!(drops(&with), 0);
        assert!(with.records.iter().all(|record| record.acknowledged != Time::MAX));
        let mut stopped = std::collections::BTreeSet::new();
        for (_, link, packet) in &log.sent {
            if packet.header.extra == Some(Order::Stop) {
                stopped.insert(level(&with.network, *link));
            }
        }
        assert_eq!(stopped, [(1, 0), (1, 2), (2, 1)].into(), "leaf to host, leaf to spine and spine to leaf");
    }
}
