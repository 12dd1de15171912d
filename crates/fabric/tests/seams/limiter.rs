//! Tokens limited to a twentieth of every link: queues of tokens in strict priority over one bucket, with a lifetime.

use std::collections::VecDeque;

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Endpoint, Event, Fifo, Flow, LinkId, Nic, NoControl, NodeId, NodeKind,
    Packet, PacketId, PortCall, PortSite, Rate, Site, Time, Transport, WireProfile, topology,
};
use flowloom_fabric::{Report, SimSetup};

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, watch};
use crate::common::watch::Log;

const TOKEN_SHARE: u64 = 20;
const TOKEN_QUEUES: usize = 2;
const TOKENS_QUEUED_MAX: usize = 8;
const LIFETIME: Duration = Duration::from_ns(8 * 1344);

/// Tokens are packets without payload; their class names their queue.
struct Port {
    tokens: [VecDeque<(Time, PacketId)>; TOKEN_QUEUES],
    data: Fifo,
    /// When the bucket would be full but for what was taken; it holds two tokens. `None` where tokens are not limited.
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
            // One token more would be too much as long as the bucket lacks more than one.
            if full_at.saturating_since(call.now) <= cost {
                *full_at = call.now.max(*full_at) + cost;
                queue.pop_front();
                return Dequeue::Packet(id);
            }
            wait = Dequeue::NotBefore(Time::from_ps(full_at.as_ps() - cost.as_ps()));
        }
        self.data.pop(call.pool).map_or(wait, Dequeue::Packet)
    }
}

/// A host that sends a token per byte of a flow whose deadline is set, and blasts the others.
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

/// Three senders, host 3 receives. Returns the switch's port to host 3.
fn go(flows: Vec<Flow>) -> (Report, Log<Header<()>>, LinkId) {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let port = network.ports(NodeId(3))[0].reverse();
    let (report, log) =
        watch::<Top, Log<_>>(&(), SimSetup { wire: WireProfile::ETHERNET_1538, ..setup(network) }, flows, Log::default());
    (report, log, port)
}

/// 84 B at a twentieth of 10 Gb/s are 1344 ns. Tokens come every 67.2 ns from 267.2 ns on: two leave as they come, the bucket
/// has the third at 267.2 + 1344 ns, and one each 1344 ns after.
#[test]
fn tokens_leave_at_their_share_to_the_picosecond() {
    let (_, log, port) = go(vec![tokens(0, 0, 400, 0, Time::ZERO)]);
    let left: Vec<u64> = log.on(port).map(|(time, _)| time.as_ps()).collect();
    assert_eq!(left[..2], [267_200, 334_400]);
    for (index, time) in left.iter().enumerate().skip(2) {
        assert_eq!(*time, 267_200 + 1_344_000 * (index as u64 - 1), "token {index}");
    }
    // 400 tokens come in 26.9 µs, and eight are left then: 2 + 19 + 8.
    assert_eq!(left.len(), 29);
}

/// Data at less than the line rate beside two classes of tokens that each would fill the link.
#[test]
fn no_window_has_more_than_the_share_and_two_tokens_whatever_else_is_sent() {
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

/// While the better class has tokens the worse one's expire in their queue, and none of them leaves too old.
#[test]
fn the_better_class_goes_first_and_what_waits_too_long_is_dropped() {
    // Of the first ten two leave at once and eight wait; eight more come each time the last of them leaves.
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
    assert_eq!((overflow, expired), (12, 8), "of 20 tokens of the worse class 8 find room, and all of these expire");
    assert_eq!(class(1), 5, "alone, the worse class has the link");
}
