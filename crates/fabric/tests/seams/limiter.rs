//! Token packets limited to a twentieth of every link by a token bucket. They have queues in strict priority, and a lifetime.

use std::collections::VecDeque;

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Endpoint, Event, Fifo, Flow, LinkId, Nic, NoControl, NodeId, NodeKind,
    Packet, PacketId, Pool, PortCall, PortSite, Rate, Site, Time, Transport, WireProfile, topology,
};
use flowloom_fabric::{Report, SimSetup};

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, watch};
use crate::common::watch::Log;

const TOKEN_SHARE: u64 = 20;
const TOKEN_QUEUES: usize = 2;
const TOKENS_QUEUED_MAX: usize = 8;
const LIFETIME: Duration = Duration::from_ns(8 * 1344);

/// Tokens are packets without payload; their class selects their queue.
struct Port {
    tokens: [VecDeque<(Time, PacketId)>; TOKEN_QUEUES],
    data: Fifo,
    /// When the bucket, which holds two tokens, will be full again. `None` if tokens are not limited.
    full_at: Option<Time>,
}

impl Discipline<Header<()>> for Port {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<()>, ()>, id: PacketId) {
        if self.full_at.is_none() || call.pool[id].header.kind != Kind::Other {
            return self.data.push(id, call.pool);
        }
        let queue = &mut self.tokens[usize::from(call.pool[id].class)];
        if queue.len() == TOKENS_QUEUED_MAX {
            return call.drop(id, DropReason::Overflow);
        }
        queue.push_back((call.now, id));
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<()>, ()>) -> Dequeue {
        for queue in &mut self.tokens {
            let expired = queue.partition_point(|(since, _)| *since + LIFETIME < call.now);
            queue.drain(..expired).for_each(|(_, id)| call.drop(id, DropReason::Expired));
        }
        let mut wait = Dequeue::Idle;
        if let (Some(full_at), Some(queue)) = (&mut self.full_at, self.tokens.iter_mut().find(|queue| !queue.is_empty())) {
            let (_, id) = queue[0];
            let cost = Rate::from_bps(call.rate.as_bps() / TOKEN_SHARE).transmit_time(call.pool[id].size());
            // A token may be sent if the bucket lacks at most one.
            if full_at.saturating_since(call.now) <= cost {
                *full_at = call.now.max(*full_at) + cost;
                queue.pop_front();
                return Dequeue::Packet(id);
            }
            wait = Dequeue::NotBefore(Time::from_ps(full_at.as_ps() - cost.as_ps()));
        }
        self.data.pop(call.pool).map_or(wait, Dequeue::Packet)
    }
    fn each_queued(&self, pool: &Pool<Header<()>>, visit: &mut dyn FnMut(PacketId)) {
        let tokens = self.tokens.iter().flatten().map(|(_, id)| *id);
        tokens.chain(self.data.ids(pool)).for_each(visit);
    }
}

/// A host. A flow with a deadline stands for tokens, one per byte; other flows are sent back to back.
struct Host {
    blaster: Blaster<()>,
    tokens: VecDeque<Flow>,
}

impl Endpoint for Host {
    type Header = Header<()>;
    fn open(&mut self, now: Time, flow: &Flow) {
        match flow.deadline {
            Some(_) => self.tokens.push_back(*flow),
            None => self.blaster.open(now, flow),
        }
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<()>>) {
        self.blaster.handle_packet(now, packet);
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<()>>> {
        if let Some(packet) = self.blaster.poll_transmit(now) {
            return Some(packet);
        }
        let flow = self.tokens.front_mut()?;
        let (id, dst, class) = (flow.id, flow.dst, flow.tenant as u8);
        flow.size -= Bytes::new(1);
        if flow.size == Bytes::ZERO {
            self.tokens.pop_front();
        }
        self.blaster.control(id, dst, Kind::Other, ());
        self.blaster.poll_transmit(now).map(|token| Packet { class, ..token })
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.blaster.poll_event()
    }
}

enum Top {}

impl Transport for Top {
    const NAME: &'static str = "toy_top";
    const ABOUT: &'static str = "a toy of limited tokens";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<()>;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header<()>>;
    fn host((): &(), site: &Site<'_>) -> Host {
        Host { blaster: Blaster::new(site, false), tokens: VecDeque::new() }
    }
    fn port((): &(), site: &PortSite<'_>) -> Port {
        let at_switch = site.network.node(site.network.link(site.link).from).kind == NodeKind::Switch;
        Port { tokens: Default::default(), data: Fifo::default(), full_at: at_switch.then_some(Time::ZERO) }
    }
}

/// `count` tokens of a class from `src`.
fn tokens(id: u32, src: u32, count: u64, class: u16, start: Time) -> Flow {
    Flow { deadline: Some(Time::MAX), tenant: class, ..flow(id, src, 3, count, start) }
}

/// Runs flows from three senders to host 3. Returns also the switch's port to host 3.
fn go(flows: Vec<Flow>) -> (Report, Log<Header<()>>, LinkId) {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let port = network.ports(NodeId(3))[0].reverse();
    let (report, log) =
        watch::<Top, Log<_>>(&(), SimSetup { wire: WireProfile::ETHERNET_1538, ..setup(network) }, flows, Log::default());
    (report, log, port)
}

/// 84 B at a twentieth of 10 Gb/s take 1344 ns. Tokens arrive every 67.2 ns from 267.2 ns on. The first two are sent at once, the third at
/// 267.2 + 1344 ns, and the others every 1344 ns.
#[test]
fn tokens_are_sent_at_their_share_of_the_rate_to_the_picosecond() {
    let (_, log, port) = go(vec![tokens(0, 0, 400, 0, Time::ZERO)]);
    let left: Vec<u64> = log.on(port).map(|(time, _)| time.as_ps()).collect();
    assert_eq!(left[..2], [267_200, 334_400]);
    for (index, time) in left.iter().enumerate().skip(2) {
        assert_eq!(*time, 267_200 + 1_344_000 * (index as u64 - 1), "token {index}");
    }
    // 400 tokens arrive in 26.9 µs, and eight are queued then: 2 + 19 + 8.
    assert_eq!(left.len(), 29);
}

/// Data below the line rate, and two classes of tokens that would each fill the link.
#[test]
fn no_time_window_has_more_tokens_than_its_share_and_two() {
    let data = flow(2, 2, 3, 1_000_000, ns(100));
    let (report, log, port) = go(vec![tokens(0, 0, 9000, 0, Time::ZERO), tokens(1, 1, 9000, 1, Time::ZERO), data]);
    let times: Vec<u64> = log.on(port).filter(|(_, p)| p.header.kind == Kind::Other).map(|(time, _)| time.as_ps()).collect();
    assert!(times.len() > 400);
    for (first, from) in times.iter().enumerate() {
        for (last, to) in times.iter().enumerate().skip(first) {
            let count = (last - first + 1) as u64;
            assert!(count.saturating_sub(2) * 1_344_000 <= to - from, "{count} tokens in {} ps", to - from);
        }
    }
    assert_eq!(report.records[2].dropped_bytes, 0);
    assert!(report.records[2].received != Time::MAX);
}

/// While the better class has tokens, those of the worse class expire in their queue, and none is sent after its lifetime.
#[test]
fn the_better_class_is_sent_first_and_expired_tokens_are_dropped() {
    // Of the first ten tokens, two are sent at once and eight wait. Each time the last of them is sent, eight more arrive.
    let burst = |at: u32| tokens(0, 0, if at == 0 { 10 } else { 8 }, 0, ns(u64::from(at) * 8 * 1344));
    let mut flows: Vec<Flow> = (0..25).map(burst).collect();
    flows.insert(1, tokens(1, 1, 20, 1, Time::ZERO));
    flows.push(tokens(0, 1, 5, 1, ns(25 * 8 * 1344 + 5000)));
    for (id, flow) in (0..).zip(&mut flows) {
        flow.id = flowloom_core::FlowId(id);
    }
    let (report, log, port) = go(flows);
    let class = |class: u8| log.on(port).filter(move |(_, packet)| packet.class == class).count();
    assert_eq!(class(0), 202, "the better class loses nothing");
    let counters = &report.ports[port.index()];
    let (overflow, expired) =
        (counters.dropped_packets[DropReason::Overflow as usize], counters.dropped_packets[DropReason::Expired as usize]);
    assert_eq!((overflow, expired), (12, 8), "of 20 tokens of the worse class, 8 are queued and all of these expire");
    assert_eq!(class(1), 5, "when it is alone, the worse class is sent");
}
