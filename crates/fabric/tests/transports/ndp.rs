//! NDP on networks: exact times of single flows, incasts against the time of their bytes, and the use of a fat tree by permutations.

use flowloom_core::{Dequeue, Discipline, Duration, Flow, Network, PacketId, Pool, PortCall, Time, WireProfile, topology};
use flowloom_fabric::{PortCounters, Report, Routing, Sim, SimSetup};
use flowloom_transports::ndp::{Config, Header, Ndp, Port};

use crate::common::networks::{
    CUT, Dice, HOP_DELAY, STORE, apart, beside_a_slow_path, flow, gbps, pairs, run, setup, shapes, watch,
};
use crate::common::tandem::{self, Tandem};
use crate::common::watch::Log;

/// A port that asserts after each call that at most eight data packets wait.
struct Watched(Port);

impl Watched {
    fn checked<R>(&mut self, run: impl FnOnce(&mut Port) -> R) -> R {
        let result = run(&mut self.0);
        assert!(self.0.data_packets() <= 8);
        result
    }
}

impl Discipline<Header> for Watched {
    type Shared = ();
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, id: PacketId) {
        self.checked(|port| port.enqueue(call, id));
    }
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, id: PacketId) -> bool {
        self.checked(|port| port.pass(call, id))
    }
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        self.checked(|port| port.dequeue(call))
    }
    fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.0.each_queued(pool, visit);
    }
}

fn watched(config: &Config, setup: SimSetup, flows: Vec<Flow>) -> Report {
    let mut sim = Sim::<Ndp, Watched>::with_ports(config, setup, flows, (), |port, _| Watched(port));
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation").0
}

fn trimmed(report: &Report) -> u64 {
    report.ports.iter().map(|port| port.trimmed_packets).sum()
}

fn dropped(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

fn timeouts(report: &Report) -> u32 {
    report.records.iter().map(|record| record.timeouts).sum()
}

/// When the last byte of the last flow arrived.
fn last(report: &Report) -> Duration {
    report.records.iter().map(|record| record.received - Time::ZERO).max().expect("a flow")
}

/// The completion time of a single flow, if no acknowledgement is in a pull's way. The first 30 packets leave back to back, and packet 30
/// + k when pull k has come, which is sent when packet k has arrived, one slot after the pull before it at the earliest.
fn alone(network: &Network, flow: &Flow, wire: &WireProfile) -> Duration {
    let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
    let answer = network.packet_time(&back, wire.control);
    let slot = network.nic_rate(flow.dst).transmit_time(wire.full + wire.control);
    let mut tandem = Tandem::new(network, &path);
    let mut arrived: Vec<Duration> = Vec::new();
    let mut pull = Duration::ZERO;
    for size in tandem::sizes_on_wire(flow.size, wire) {
        let release = arrived.len().checked_sub(30).map_or(Duration::ZERO, |number| {
            pull = arrived[number].max(if number == 0 { Duration::ZERO } else { pull + slot });
            pull + answer
        });
        arrived.push(tandem.send(release, size));
    }
    *arrived.last().expect("a packet")
}

/// Packets that are sprayed can overtake each other, also the last one, so a sprayed flow may be faster than on one path.
fn check(name: &str, network: &Network, wire: WireProfile, routing: Routing, flows: Vec<Flow>) {
    let report = run::<Ndp>(&Config::default(), SimSetup { wire, routing, ..setup(network.clone()) }, flows);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        let what = format!("{name}, {}, {routing:?}, {:?}, {flow:?}", wire.name, network.switching());
        let control = network.nic_rate(flow.dst).transmit_time(wire.control);
        let (found, expected) = (record.received - flow.start, alone(network, flow, &wire));
        let waits = if wire.packets(flow.size) > 30 { control } else { Duration::ZERO };
        let least = if routing == Routing::Ecmp {
            expected
        } else {
            network.packet_time(&network.path(flow.src, flow.dst), wire.control)
        };
        assert!((least..=expected + waits).contains(&found), "received: {found}, expected {expected}: {what}");
        let answer = network.packet_time(&network.path(flow.dst, flow.src), wire.control);
        let answered = record.acknowledged - record.received;
        assert!((answer..=answer + control).contains(&answered), "acknowledged after {answered}: {what}");
        assert_eq!((record.dropped_packets, record.retransmissions, record.timeouts), (0, 0, 0), "{what}");
    }
    assert_eq!(trimmed(&report), 0, "{name}");
}

/// The topologies whose links between switches are not slower than the hosts' links: before those, the first window is trimmed.
fn shapes_without_bottleneck(switching: flowloom_core::Switching) -> impl Iterator<Item = (&'static str, Network)> {
    shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell")
}

#[test]
fn every_shape_size_and_wire_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes_without_bottleneck(switching) {
            for wire in WireProfile::ALL {
                let payload = wire.payload().get();
                let sizes = [1, payload - 1, payload, payload + 1, 30 * payload, 30 * payload + 1, 100_000, 3_000_000];
                for routing in [Routing::Ecmp, Routing::SprayLabelled] {
                    check(name, &network, wire, routing, apart(&pairs(&network), &sizes, Duration::from_ms(60)));
                }
            }
        }
    }
}

fn incast(config: &Config, senders: u32, packets: u64, wire: WireProfile) -> Report {
    let network = topology::single_switch(senders as usize + 1, gbps(10), HOP_DELAY, STORE);
    let size = wire.payload().get() * packets;
    let flows = (0..senders).map(|id| flow(id, id, senders, size, Time::ZERO)).collect();
    watched(config, SimSetup { wire, ..setup(network) }, flows)
}

/// An incast takes the time of its packets: at least at line rate, at most at the pace of pulls and 1 % more. No timer expires, nothing is
/// dropped, and at most eight packets wait. Each trimmed packet is sent again once.
#[test]
fn incasts_take_the_time_of_their_bytes() {
    for wire in [WireProfile::JUMBO_9000, WireProfile::IP_1500] {
        for (senders, packets) in [(2, 200), (10, 100), (40, 30), (100, 10), (100, 30), (432, 2), (432, 10), (1000, 3)] {
            let report = incast(&Config::default(), senders, packets, wire);
            let what = format!("{senders} senders of {packets} packets of {}", wire.full);
            let total = u64::from(senders) * packets;
            let least = gbps(10).transmit_time(wire.full) * total;
            let paced = gbps(10).transmit_time(wire.full + wire.control) * total;
            let last = last(&report);
            assert!(last > least && last < paced.scale(1.01), "{what}: {last}, paced {paced}");
            assert_eq!((timeouts(&report), dropped(&report)), (0, 0), "{what}");
            let (first, trimmed) = (u64::from(senders) * packets.min(30), trimmed(&report));
            assert_eq!(report.data_packets, total + trimmed, "{what}");
            // Also where more headers come than the 1125 that the queue holds, and the others return.
            assert!(wire != WireProfile::JUMBO_9000 || trimmed <= first, "{what}: {trimmed} trimmed");
            assert!(trimmed > first / 2, "{what}: {trimmed} trimmed");
        }
    }
}

/// With room for only a few headers, and with or without return to sender, every flow completes.
#[test]
fn incasts_with_small_header_queues_complete() {
    for (return_to_sender, senders) in [(true, 1000), (false, 1000)] {
        let config = Config { return_to_sender, header_memory: 0.1, ..Config::default() };
        let report = incast(&config, senders, 2, WireProfile::IP_1500);
        assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX), "returns: {return_to_sender}");
        assert_eq!(timeouts(&report) == 0, return_to_sender);
        assert_eq!(dropped(&report) == 0, return_to_sender);
    }
}

/// A permutation without a host that sends to itself.
fn permutation(hosts: u32, dice: &mut Dice) -> Vec<u32> {
    loop {
        let mut to: Vec<u32> = (0..hosts).collect();
        for last in (1..hosts).rev() {
            to.swap(last as usize, dice.below(u64::from(last) + 1) as usize);
        }
        if (0..hosts).all(|host| to[host as usize] != host) {
            return to;
        }
    }
}

/// The mean share of its line rate that a host of a fat tree with k = 8 gets in a permutation: start, last round trip and headers included.
fn use_of_a_fat_tree(wire: WireProfile, routing: Routing, packets: u64) -> f64 {
    let network = topology::fat_tree(8, gbps(10), HOP_DELAY, STORE);
    let hosts = network.hosts() as u32;
    let size = wire.payload().get() * packets;
    let to = permutation(hosts, &mut Dice::new(3));
    let flows: Vec<Flow> = (0..).zip(&to).map(|(id, dst)| flow(id, id, *dst, size, Time::ZERO)).collect();
    let report = watched(&Config::default(), SimSetup { wire, routing, ..setup(network) }, flows);
    assert_eq!((timeouts(&report), dropped(&report)), (0, 0));
    let bytes = gbps(10).transmit_time(wire.full) * packets;
    let share = |received: Time| bytes.as_us_f64() / (received - Time::ZERO).as_us_f64();
    report.records.iter().map(|record| share(record.received)).sum::<f64>() / f64::from(hosts)
}

/// 128 hosts send 4 MB each, or 1.2 MB in small packets. With every path used in turn, they get the share of the links that the paper has,
/// 92 % or more, and more than if switches choose at random.
#[test]
fn a_permutation_uses_a_fat_tree() {
    for (wire, packets) in [(WireProfile::JUMBO_9000, 440), (WireProfile::IP_1500, 800)] {
        let [labelled, random] =
            [Routing::SprayLabelled, Routing::SprayRandom].map(|routing| use_of_a_fat_tree(wire, routing, packets));
        assert!(labelled > 0.92 && labelled > random + 0.04, "{}: {labelled} with labels, {random} at random", wire.name);
    }
}

/// Eight hosts on each side of a core that carries the rate of two; each host on the left sends to one on the right, and with `both` the other
/// way too, and none of them is ever done. Returns the share of the core's packet times that carries whole packets that are new.
fn use_of_an_oversubscribed_core(config: &Config, both: bool) -> (f64, Report) {
    let network = topology::dumbbell(8, gbps(10), gbps(20), HOP_DELAY, STORE);
    let wire = WireProfile::ETHERNET_1538;
    let ends = (0..8).map(|i| (i, 8 + i)).chain((0..8).filter(|_| both).map(|i| (8 + i, i)));
    let flows: Vec<Flow> = (0..).zip(ends).map(|(id, (src, dst))| flow(id, src, dst, 1 << 30, Time::ZERO)).collect();
    let length = Duration::from_ms(20);
    let report = watched(config, SimSetup { wire, time_limit: Time::ZERO + length, ..setup(network) }, flows);
    let packets = report.records[..8].iter().map(|record| record.delivered_bytes).sum::<u64>() / wire.payload().get();
    ((gbps(20).transmit_time(wire.full) * packets).as_us_f64() / length.as_us_f64(), report)
}

/// Receivers pull at the rate of their own links, whatever the core carries. In a slot, the time of a full packet and a header at a host
/// (1622 B), eight packets come to a core that carries 3244 B in this time. All but `d` of them are trimmed: 1538 d + 84 (8 - d) = 3244,
/// so `d` = 1.77 of 2.11 packets, and the core is used to 84 %.
#[test]
fn an_oversubscribed_core_trims_what_it_cannot_carry() {
    let expected = f64::from(3244 - 8 * 84) / f64::from(1538 - 84) * 1538.0 / 3244.0;
    let (share, report) = use_of_an_oversubscribed_core(&Config::default(), false);
    assert!((share / expected - 1.0).abs() < 0.03, "{share}, expected {expected}");
    assert_eq!((timeouts(&report), dropped(&report)), (0, 0));
}

/// If both sides send, the core also carries the answers of the other direction: eight in a slot, with the pulls in them, up to sixteen with
/// every pull a packet of its own. If headers always go first, 1538 d + 84 (8 - d) + 84 (8 to 16) = 3244, so 40 to 62 % of the core are
/// used.
#[test]
fn answers_of_the_other_direction_take_their_share_of_an_oversubscribed_core() {
    let left_by = |answers: i32| f64::from(3244 - 84 * (8 + answers)) / f64::from(1538 - 84) * 1538.0 / 3244.0;
    let strict = Config { headers_per_data: 1_000_000, ..Config::default() };
    let (share, report) = use_of_an_oversubscribed_core(&strict, true);
    assert!(share > left_by(16) * 0.97 && share < left_by(8) * 1.03, "{share}");
    assert_eq!((timeouts(&report), dropped(&report)), (0, 0));
}

/// Thirty-six paths join two pods of a fat tree with k = 12. Of every 36 packets of a flow, each path gets one.
#[test]
fn a_flow_uses_every_path_equally() {
    let network = topology::fat_tree(12, gbps(10), HOP_DELAY, STORE);
    let size = WireProfile::JUMBO_9000.payload().get() * 72;
    let flows = vec![flow(0, 0, 431, size, Time::ZERO)];
    let setup = SimSetup { wire: WireProfile::JUMBO_9000, routing: Routing::SprayLabelled, ..setup(network) };
    let (report, log) = watch::<Ndp, Log<Header>>(&Config::default(), setup, flows, Log::default());
    let mut uses = std::collections::BTreeMap::new();
    for (_, link, packet) in log.sent.iter().filter(|(_, _, packet)| packet.payload_bytes > 0) {
        let ends = report.network.link(*link);
        let tiers = [ends.from, ends.to].map(|node| report.network.node(node).tier.to_string());
        *uses.entry((tiers, packet.dst, *link)).or_insert(0) += 1;
    }
    let of = |from: &str, to: &str| -> Vec<i32> {
        uses.iter().filter(|((tiers, ..), _)| tiers[0] == from && tiers[1] == to).map(|(_, count)| *count).collect()
    };
    assert_eq!((of("edge", "agg"), of("agg", "core")), (vec![12; 6], vec![2; 36]));
    assert_eq!((of("core", "agg"), of("agg", "edge")), (vec![2; 36], vec![12; 6]));
}

/// Three paths have 10 Gb/s, and one has 2.5 Gb/s. A host sends 25 Gb/s. Over all paths evenly, the slow one trims most of the quarter that it gets; without it, 25 Gb/s fit into the other three.
#[test]
fn senders_can_avoid_a_slow_path() {
    let (network, slow) = beside_a_slow_path(1, gbps(25));
    let go = |avoid_paths| {
        let setup = SimSetup { routing: Routing::SprayLabelled, ..setup(network.clone()) };
        let flows = vec![flow(0, 0, 1, 8_000_000, Time::ZERO)];
        let report = run::<Ndp>(&Config { avoid_paths, ..Config::default() }, setup, flows);
        let trimmed: u64 = report.ports.iter().map(|port| port.trimmed_packets).sum();
        println!(
            "{avoid_paths}: {} s, {trimmed} trimmed, {} on {slow:?}",
            report.records[0].received.as_secs_f64(),
            report.ports[slow.index()].packets()
        );
        (report.records[0].received.as_secs_f64(), trimmed)
    };
    let ((even, trimmed_even), (avoiding, trimmed_avoiding)) = (go(false), go(true));
    assert!(
        avoiding < 0.9 * even && trimmed_avoiding < trimmed_even / 3,
        "{even} {trimmed_even}, {avoiding} {trimmed_avoiding}"
    );
}
