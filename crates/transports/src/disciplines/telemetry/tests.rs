//! Records against values worked out by hand and against wide counters, and ports that write them.

use flowloom_core::{Duration, LinkId, Memory, Network, NodeId, Packet, Rate, Switching, Time, WireProfile, topology};
use proptest::prelude::*;

use super::*;
use crate::disciplines::rig::{Rig, with_header};
use crate::disciplines::{EcnConfig, EcnPriority};

/// Data has room for records, and acknowledgements have none.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Header {
    data: bool,
    records: Telemetry,
}

impl Instrumented for Header {
    fn telemetry(&mut self) -> Option<&mut Telemetry> {
        self.data.then_some(&mut self.records)
    }
}

fn data(flow: u32) -> Packet<Header> {
    with_header(flow, 1, 1500, Header { data: true, records: Telemetry::default() })
}

fn ack(flow: u32) -> Packet<Header> {
    with_header(flow, 0, 82, Header { data: false, ..data(flow).header })
}

fn ns(n: u64) -> Time {
    Time::ZERO + Duration::from_ns(n)
}

/// Two hosts at 10 Gb/s on each side of a link at 40 Gb/s.
fn network() -> Network {
    topology::dumbbell(2, Rate::from_gbps(10), Rate::from_gbps(40), Duration::from_ns(200), Switching::StoreAndForward)
}

/// The port of a link, with room for `records` records in each packet.
fn port(network: &Network, link: LinkId, records: u8) -> Rig<Header, Stamped<EcnPriority>> {
    let memory = Memory::PerPort(Bytes::new(100_000));
    let site = PortSite { link, network, wire: WireProfile::IP_1500, memory, seed: 1 };
    Rig::new(Stamped::new(EcnPriority::new(&EcnConfig::default(), 2, &site), records, &site))
}

/// The link between the switches.
fn middle(network: &Network) -> LinkId {
    let is_middle = |link: &&LinkId| network.link(**link).rate == Rate::from_gbps(40);
    *network.ports(network.switches().next().unwrap()).iter().find(is_middle).unwrap()
}

/// Three packets wait. The acknowledgement leaves first and gets no record, but it counts as sent. The number of sent bytes has units of 128 B:
/// 82 B are none, 82 + 1500 B are 12 or 1536 B. The queue has units of 80 B: 1500 B are 18 or 1440 B.
#[test]
fn what_leaves_a_queue_carries_the_bytes_sent_before_and_left_behind() {
    let network = network();
    let mut port = port(&network, middle(&network), 5);
    [data(0), ack(1), data(2)].into_iter().for_each(|packet| port.enqueue(packet));
    assert_eq!(port.dequeue(), Some(ack(1)));
    port.now = ns(2000);
    let first = port.dequeue().unwrap().header.records.hops().to_vec();
    assert_eq!(first, [HopRecord::new(1, ns(2000), 82, Bytes::new(1500))]);
    assert_eq!(first[0].queued(), 1440);
    port.now = ns(3200);
    let second = port.dequeue().unwrap().header.records.hops().to_vec();
    assert_eq!(second[0].queued(), 0);
    assert_eq!(second[0].since(first[0]), Some((1200, 1536)));
}

/// Two packets of 1500 B pass. Between the records of the first and of a third packet, 3000 B leave: 23 units of 128 B. An acknowledgement
/// passes without a record, and counts.
#[test]
fn what_passes_an_empty_port_carries_a_record_too() {
    let network = network();
    let mut port = port(&network, middle(&network), 5);
    let mut record = |at, packet: Packet<Header>| {
        port.now = ns(at);
        port.passed(packet).expect("the port is free").header.records.hops().first().copied()
    };
    let (first, second) = (record(1000, data(0)).unwrap(), record(2200, data(1)).unwrap());
    assert_eq!([first, second], [(1000, 0), (2200, 1500)].map(|(at, sent)| HopRecord::new(1, ns(at), sent, Bytes::ZERO)));
    let third = record(3400, data(2)).unwrap();
    assert_eq!(third.since(first), Some((2400, 23 * 128)));
    assert_eq!(record(4600, ack(3)), None);
    assert_eq!(record(4665, data(4)), Some(HopRecord::new(1, ns(4665), 4582, Bytes::ZERO)));
}

#[test]
fn only_ports_of_switches_write_and_only_where_there_is_room() {
    let network = network();
    let mut nic = port(&network, network.ports(NodeId(0))[0], 5);
    nic.enqueue(data(0));
    assert_eq!(nic.dequeue(), Some(data(0)));
    let mut packet = data(1);
    for count in [1, 2, 2] {
        let mut port = port(&network, middle(&network), 2);
        port.enqueue(packet);
        packet = port.dequeue().unwrap();
        assert_eq!(packet.header.records.hops().len(), count);
    }
}

#[test]
fn paths_differ_in_their_ports_or_in_their_number() {
    let record = HopRecord::default();
    let path = |nodes: &[u32]| {
        let mut path = Telemetry::default();
        nodes.iter().for_each(|node| path.push(record, Telemetry::tag(NodeId(*node)), 5));
        path
    };
    assert!(path(&[7, 8, 9]).same_path(&path(&[7, 8, 9])));
    let others = [path(&[7, 8, 10]), path(&[7, 8]), path(&[7, 8, 9, 9]), path(&[])];
    assert!(others.iter().all(|other| !other.same_path(&path(&[7, 8, 9]))));
    assert!([path(&[7, 8, 9, 10, 11, 12]), path(&[7, 8, 9, 10, 11])].iter().all(|long| long.hops().len() == 5));
}

#[test]
fn a_long_queue_counts_as_the_longest_that_fits() {
    let record = |queued| HopRecord::new(7, Time::ZERO, 0, Bytes::new(queued));
    assert_eq!(
        [80, 159, 10_485_679, 10_485_760, u64::MAX].map(|queued| record(queued).queued()),
        [80, 80, 10_485_600, 10_485_680, 10_485_680].map(|bytes: u64| bytes.min(10_485_680))
    );
    assert_eq!(record(u64::MAX).rate(), 7);
}

#[test]
fn a_record_that_is_not_later_tells_nothing() {
    let at = |time_ns| HopRecord::new(0, ns(time_ns), 0, Bytes::ZERO);
    let half = HopRecord::TIME_WRAP_NS / 2;
    assert_eq!(at(5000).since(at(5000)), None);
    assert_eq!(at(5000).since(at(5001)), None);
    assert_eq!(at(5001).since(at(5000)), Some((1, 0)));
    assert_eq!(at(5000 + half - 1).since(at(5000)), Some((half - 1, 0)));
    assert_eq!(at(5000 + half).since(at(5000)), None);
}

#[test]
fn rates_are_numbered_in_ascending_order() {
    let network = network();
    let rates = LinkRates::new(&network).unwrap();
    assert_eq!(rates.rates(), [10, 40].map(Rate::from_gbps));
    assert_eq!([10, 40].map(|gbps| rates.number(Rate::from_gbps(gbps))), [0, 1]);
}

proptest! {
    /// Counters of 64 bits, rounded down to the units, differ by the same as those of records, from wherever they start.
    #[test]
    fn records_that_wrapped_differ_as_wide_counters_do(
        (time, sent, queued) in (0_u64..1 << 60, any::<u32>(), any::<u64>()),
        (later, more) in (1_u64..HopRecord::TIME_WRAP_NS / 2, 0_u64..HopRecord::SENT_WRAP.get() - 128),
        rate in 0_u8..8,
    ) {
        let (time, sent) = (time / 1_000_000, u64::from(sent));
        let before = HopRecord::new(rate, ns(time), sent, Bytes::new(queued));
        let after = HopRecord::new(rate, ns(time + later), sent + more, Bytes::new(queued));
        let units = |bytes: u64| bytes / 128 * 128;
        prop_assert_eq!(after.since(before), Some((later, units(sent + more) - units(sent))));
        prop_assert_eq!((after.rate(), after.queued()), (usize::from(rate), before.queued()));
        prop_assert_eq!(HopRecord::from_bits(after.bits()), after);
    }
}
