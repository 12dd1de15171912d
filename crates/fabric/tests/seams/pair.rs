//! The test kit: true ingress ports on any network, what its hook does to packets, and flows that are added while a run pauses.

use flowloom_core::{
    Dequeue, Discipline, Duration, Event, Fifo, LinkId, Network, PacketId, Pool, PortCall, PortNumber, PortSite, Time, topology,
};
use flowloom_fabric::pair::{Fate, Pair, PairSetup};
use flowloom_fabric::{Faulty, Sim};

use crate::common::blast::{Blast, Header, Plain, Scheme};
use crate::common::networks::{HOP_DELAY, STORE, gbps, ns, ps};
use crate::common::watch::Log;

/// The ports by which a packet entered and left each node so far. An acknowledgement continues its data packet's trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trail {
    length: usize,
    ports: [(PortNumber, PortNumber); 12],
}

impl Default for Trail {
    fn default() -> Trail {
        Trail { length: 0, ports: [(PortNumber::LOCAL, PortNumber::LOCAL); 12] }
    }
}

/// A first-in first-out port that writes down the trail.
struct Tracer {
    queue: Fifo,
    lets_pass: bool,
}

impl Tracer {
    fn note(call: &mut PortCall<'_, Header<Trail>, ()>, id: PacketId) {
        let (ingress, egress) = (call.ingress, call.number);
        let trail = &mut call.pool[id].header.extra;
        trail.ports[trail.length] = (ingress, egress);
        trail.length += 1;
    }
}

impl Discipline<Header<Trail>> for Tracer {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header<Trail>, ()>, id: PacketId) {
        Tracer::note(call, id);
        self.queue.push(id, call.pool);
    }
    fn pass(&mut self, call: &mut PortCall<'_, Header<Trail>, ()>, id: PacketId) -> bool {
        if self.lets_pass {
            Tracer::note(call, id);
        }
        self.lets_pass
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header<Trail>, ()>) -> Dequeue {
        self.queue.pop(call.pool).map_or(Dequeue::Idle, Dequeue::Packet)
    }
    fn each_queued(&self, pool: &Pool<Header<Trail>>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.ids(pool).for_each(visit);
    }
}

enum Traced {}

impl Scheme for Traced {
    const ECHO: bool = true;
    /// Whether packets may pass an idle port.
    type Config = bool;
    type Extra = Trail;
    type Port = Tracer;
    fn port(lets_pass: &bool, _: &PortSite<'_>) -> Tracer {
        Tracer { queue: Fifo::default(), lets_pass: *lets_pass }
    }
}

/// The ports by which a packet enters and leaves the nodes on a path.
fn ports_of(network: &Network, path: &[LinkId]) -> Vec<(PortNumber, PortNumber)> {
    let ingress = path.iter().map(|link| network.link(*link).to_port);
    let egress = path.iter().map(|link| network.link(*link).from_port);
    [PortNumber::LOCAL].into_iter().chain(ingress).zip(egress).collect()
}

/// Three racks under two spines. The acknowledgement of the first packet has the trail of the data packet, from its source on.
#[test]
fn every_port_sees_the_port_by_which_a_packet_came_in() {
    let network = topology::leaf_spine(3, 2, 2, gbps(10), gbps(40), HOP_DELAY, STORE);
    for lets_pass in [true, false] {
        for dst in 1..6 {
            let setup = PairSetup { network: Some(network.clone()), ..PairSetup::default() };
            let mut pair = Pair::<Blast<Traced>>::new(&lets_pass, setup);
            pair.open(0, dst, 3 * 1460);
            pair.run_to_end(ns(1_000_000));
            let ack = pair.sent().iter().find(|sent| sent.packet.src.0 == dst).expect("an answer").packet;
            let trail = ack.header.extra;
            let path = trail.ports[..trail.length - 1].to_vec();
            // One of the shortest paths: the spines are alike, so only the number of the leaf's uplink differs.
            let expected = ports_of(&network, &network.path(ack.dst, ack.src));
            assert_eq!(path.len(), expected.len(), "to host {dst}");
            assert_eq!((path[0], path[path.len() - 1].1), (expected[0], expected[expected.len() - 1].1), "to host {dst}");
            if path.len() == 2 {
                assert_eq!(path, expected, "to host {dst}");
            } else {
                // A leaf has ports 0 and 1 to its hosts and 2 and 3 to the spines; spine s has port r to rack r.
                let (uplink, rack) = (path[1].1, dst as u16 / 2);
                let number = PortNumber;
                assert!([number(2), number(3)].contains(&uplink));
                assert_eq!(path[1..], [(number(0), uplink), (number(0), number(rack)), (uplink, number(dst as u16 % 2))]);
            }
        }
    }
}

/// When each packet of a flow of three was delivered, by its number. Each takes 1.2 us to leave and 1 us to arrive.
fn deliveries(fate: impl Fn(u64) -> Fate + Send + 'static) -> (Vec<(u64, Time)>, Pair<Blast<Plain>>) {
    let mut pair = Pair::<Blast<Plain>>::new(&(), PairSetup::default());
    pair.on_packet(move |sent| if sent.packet.payload_bytes > 0 { fate(sent.packet.offset.get() / 1460) } else { Fate::Pass });
    pair.open(0, 1, 3 * 1460);
    pair.run(ns(1_000_000));
    let number = |event: &(Time, _, Event)| match event.2 {
        Event::Delivered { offset, .. } => Some((offset.get() / 1460, event.0)),
        _ => None,
    };
    (pair.events().iter().filter_map(number).collect(), pair)
}

#[test]
fn a_packet_that_the_hook_drops_takes_its_time_on_the_senders_link() {
    assert_eq!(deliveries(|_| Fate::Pass).0, [(0, ns(2200)), (1, ns(3400)), (2, ns(4600))]);
    let (found, pair) = deliveries(|number| if number == 0 { Fate::Drop } else { Fate::Pass });
    assert_eq!(found, [(1, ns(3400)), (2, ns(4600))]);
    assert_eq!((pair.sent().len(), pair.sent()[0].fate, pair.sent()[0].at), (3, Fate::Drop, Time::ZERO));
    assert!(pair.dropped().is_empty(), "no port dropped it");
}

/// Packet 0 is held back for 5 us, so the others go first. The copy of packet 1 leaves after packet 2, and delivers nothing.
#[test]
fn packets_that_the_hook_delays_or_copies_leave_their_sender_later() {
    let (found, pair) = deliveries(|number| match number {
        0 => Fate::Delay(Duration::from_us(5)),
        1 => Fate::Duplicate(Duration::from_us(2)),
        _ => Fate::Pass,
    });
    assert_eq!(found, [(1, ns(2200)), (2, ns(3400)), (0, ps(7_200_001))]);
    assert_eq!(pair.sent().iter().map(|sent| sent.at).collect::<Vec<_>>()[..3], [Time::ZERO, Time::ZERO, ns(1200)]);
}

/// A pause leaves the time at the last event. A flow can be opened there, although the event queue has looked ahead.
#[test]
fn flows_are_added_while_the_run_pauses() {
    let mut pair = Pair::<Blast<Plain>>::new(&(), PairSetup { hosts: 3, ..PairSetup::default() });
    let later = flowloom_core::Flow { start: ns(900_000), ..crate::common::networks::flow(0, 0, 1, 1460, Time::ZERO) };
    pair.open_flow(later);
    assert_eq!(pair.run(ns(500_000)), Time::ZERO, "nothing has happened");
    let second = pair.open(0, 1, 1460);
    assert_eq!(pair.run(ns(500_000)), pair.flow(second).acknowledged.expect("done"));
    assert_eq!(pair.flow(second).received, Some(ns(2200)));
    let third = pair.open(2, 1, 1460);
    pair.run_to_end(ns(1_000_000));
    // The answer to the second flow arrived 1.032 us after its data.
    assert_eq!(pair.flow(third).received, Some(ns(2200 + 1032 + 2200)));
    assert_eq!(pair.flow(later.id).received, Some(ns(902_200)));
}

/// A run may move to another thread, whatever transport, faults and observers it has.
#[test]
fn runs_are_send() {
    fn is_send<T: Send>() {}
    is_send::<Sim<Blast<Plain>>>();
    is_send::<Sim<Blast<Traced>, Faulty<Tracer>, Log<Header<Trail>>>>();
    is_send::<Pair<Blast<Traced>>>();
}
