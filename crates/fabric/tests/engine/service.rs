//! When a port is served: at the time of a [`Dequeue::NotBefore`], after an arrival, and never while it is busy.

use flowloom_core::{
    Dequeue, Discipline, Fifo, Flow, LinkId, NodeId, NodeKind, PacketId, Pool, PortCall, PortSite, Time, topology,
};

use crate::common::blast::{Blast, Header, Scheme};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, in_order, ns, ps, setup, watch};
use crate::common::watch::Log;

/// Class 0 is sent at once, class 1 not before the time `opens`.
struct Gate {
    open: Fifo,
    shut: Fifo,
    opens: Time,
}

impl Discipline<Header<()>> for Gate {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<()>, ()>, id: PacketId) {
        let queue = if call.pool[id].class == 0 { &mut self.open } else { &mut self.shut };
        queue.push(id, call.pool);
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<()>, ()>) -> Dequeue {
        if let Some(id) = self.open.pop(call.pool) {
            return Dequeue::Packet(id);
        }
        if self.shut.is_empty() {
            return Dequeue::Idle;
        }
        if call.now < self.opens {
            return Dequeue::NotBefore(self.opens);
        }
        self.shut.pop(call.pool).map_or(Dequeue::Idle, Dequeue::Packet)
    }
    fn each_queued(&self, pool: &Pool<Header<()>>, visit: &mut dyn FnMut(PacketId)) {
        self.open.ids(pool).chain(self.shut.ids(pool)).for_each(visit);
    }
}

enum Gated {}

impl Scheme for Gated {
    type Config = ();
    type Extra = ();
    type Port = Gate;
    fn port((): &(), site: &PortSite<'_>) -> Gate {
        let at_switch = site.network.node(site.network.link(site.link).from).kind == NodeKind::Switch;
        Gate { open: Fifo::default(), shut: Fifo::default(), opens: if at_switch { ns(10_000) } else { Time::ZERO } }
    }
}

/// When the switch sends packets to host 2: one of class 1 from host 0 that arrives at 1.4 µs, and packets of class 0 from host 1 that
/// arrive at the given times.
fn departures(class_0_at: &[u64]) -> Vec<(u64, u8)> {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let port = network.ports(NodeId(2))[0].reverse();
    let mut flows = vec![Flow { tenant: 1, ..flow(0, 0, 2, 1460, Time::ZERO) }];
    flows.extend(class_0_at.iter().map(|at| flow(0, 1, 2, 1460, ns(at - 1400))));
    let (report, log) = watch::<Blast<Gated>, Log<_>>(&(), setup(network), in_order(flows), Log::default());
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    log.on(port).map(|(time, packet)| (time.as_ps() / 1000, packet.class)).collect()
}

#[test]
fn a_port_is_served_at_the_time_of_not_before() {
    assert_eq!(departures(&[]), [(10_000, 1)]);
    assert_eq!(departures(&[1400, 5000]), [(1400, 0), (5000, 0), (10_000, 1)]);
}

#[test]
fn an_event_that_finds_the_port_busy_waits_for_its_end() {
    // The port is busy from 9.4 to 10.6 µs, and the gate opens in the meantime.
    assert_eq!(departures(&[9400]), [(9400, 0), (10_600, 1)]);
    // The port becomes idle exactly when the gate opens, after three packets.
    assert_eq!(departures(&[6400, 7600, 8800]), [(6400, 0), (7600, 0), (8800, 0), (10_000, 1)]);
    // An arrival exactly when the gate opens is handled before the port's own event.
    assert_eq!(departures(&[10_000]), [(10_000, 0), (11_200, 1)]);
    assert_eq!(departures(&[8800, 10_000]), [(8800, 0), (10_000, 0), (11_200, 1)]);
}

/// A port sends one packet at a time, whatever event serves it: no packet starts before the previous one has ended.
#[test]
fn no_link_carries_two_packets_at_once() {
    let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(40), HOP_DELAY, STORE);
    let mut dice = crate::common::networks::Dice::new(11);
    let flows = (0..300).map(|_| {
        let src = dice.below(12) as u32;
        let dst = (src + 1 + dice.below(11) as u32) % 12;
        // Starts on a grid of packet times make ends of packets, arrivals and openings coincide.
        let start = ns(dice.below(40) * 1200);
        Flow { tenant: dice.below(2) as u16, ..flow(0, src, dst, dice.below(20) * 730, start) }
    });
    let flows = in_order(flows.collect());
    let (report, log) = watch::<Blast<Gated>, Log<_>>(&(), setup(network), flows, Log::default());
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    let mut free = vec![Time::ZERO; report.network.links().len()];
    for (time, link, packet) in &log.sent {
        assert!(*time >= free[link.index()], "{link:?} at {time}");
        free[link.index()] = *time + report.network.link(*link).rate.transmit_time(packet.size());
    }
}

/// An idle port causes no events. A flow of one packet over two links has a start, two arrivals of the packet and two of the answer. The
/// ports need no service events.
#[test]
fn an_idle_port_causes_no_events() {
    let network = topology::single_switch(2, gbps(10), HOP_DELAY, STORE);
    let (report, _) = watch::<Blast<Gated>, Log<_>>(&(), setup(network), vec![flow(0, 0, 1, 1460, ps(5))], Log::default());
    assert_eq!(report.packet_hops, 4);
    assert_eq!(report.events, 1 + 4);
    assert_eq!(report.ports[LinkId(0).index()].packet_time, 0);
}
