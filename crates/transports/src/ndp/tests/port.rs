//! The port by itself.

use flowloom_core::{
    Bytes, Duration, LinkId, Memory, Network, NodeId, Onward, PortSite, Rate, Switching, WireProfile, topology,
};
use proptest::prelude::*;

use crate::disciplines::rig::{Rig, with_header};
use crate::ndp::{Config, Header, Part, Port};

fn network() -> Network {
    topology::single_switch(2, Rate::from_gbps(10), Duration::ZERO, Switching::StoreAndForward)
}

/// A port of a switch, or of a host, under 1500 B packets and 40 B headers.
fn port_at(config: &Config, network: &Network, link: LinkId, seed: u64) -> Rig<Header, Port> {
    let memory = Memory::PerPort(Bytes::new(1500));
    Rig::new(Port::new(config, &PortSite { link, network, wire: WireProfile::IP_1500, memory, seed }))
}

fn port(config: &Config, seed: u64) -> Rig<Header, Port> {
    let network = network();
    let nic = network.ports(NodeId(0))[0];
    port_at(config, &network, nic.reverse(), seed)
}

fn data(flow: u32) -> flowloom_core::Packet<Header> {
    with_header(flow, 1, 1500, Header::Data { part: Part::Whole, path: None, number: 0, packets: 1 })
}

fn pull(flow: u32) -> flowloom_core::Packet<Header> {
    with_header(flow, 0, 40, Header::Pull { pulls: 1 })
}

/// With eight packets in the data queue, 100 arrivals make 100 headers. Each trims itself or the newest packet in the queue.
#[test]
fn arrivals_at_a_full_queue_lose_one_payload_each_and_no_packet() {
    let mut rig = port(&Config::default(), 1);
    for flow in 0..108 {
        rig.enqueue(data(flow));
        assert!(rig.port().data_packets() <= 8);
    }
    let trimmed = rig.trimmed();
    assert_eq!((rig.packets(), trimmed.len(), rig.dropped().len(), rig.handed_over().len()), (108, 100, 0, 0));
    let mut left: Vec<_> = std::iter::from_fn(|| rig.dequeue()).collect();
    let whole = |packet: &flowloom_core::Packet<Header>| matches!(packet.header, Header::Data { part: Part::Whole, .. });
    assert_eq!(left.iter().filter(|packet| whole(packet)).count(), 8);
    assert!(left.iter().all(|packet| if whole(packet) {
        (packet.size_bytes, packet.payload_bytes) == (1500, 1460)
    } else {
        (packet.size_bytes, packet.payload_bytes) == (40, 0)
    }));
    left.sort_by_key(|packet| packet.flow);
    assert!(left.iter().map(|packet| packet.flow.0).eq(0..108));
}

/// The first arrival at a full queue trims itself in half of all ports: five standard deviations of 2000 coins are 112.
#[test]
fn the_arrival_and_the_newest_in_the_queue_are_trimmed_equally_often() {
    let config = Config { data_queue: 3, ..Config::default() };
    let mut victims = [0_u32; 5];
    for seed in 0..2000 {
        let mut rig = port(&config, seed);
        (0..4).for_each(|flow| rig.enqueue(data(flow)));
        let trimmed = rig.trimmed();
        assert_eq!(trimmed.len(), 1);
        victims[trimmed[0].flow.0 as usize] += 1;
    }
    assert_eq!(victims[..2], [0, 0], "only the newest of the queue is at risk");
    assert!(victims[2].abs_diff(1000) < 112 && victims[2] + victims[3] == 2000, "{victims:?}");
    // Also over the arrivals at one port, from one random stream.
    let mut rig = port(&Config { header_memory: 1000.0, ..config }, 7);
    let mut arrivals_trimmed = 0;
    for flow in 0..2003 {
        rig.enqueue(data(flow));
        arrivals_trimmed += u32::from(rig.trimmed().first().is_some_and(|packet| packet.flow.0 == flow));
    }
    assert!(arrivals_trimmed.abs_diff(1000) < 112, "{arrivals_trimmed}");
}

/// While both queues hold packets, ten headers leave and then one data packet.
#[test]
fn ten_headers_leave_for_each_data_packet() {
    let mut rig = port(&Config::default(), 1);
    (0..3).for_each(|flow| rig.enqueue(data(flow)));
    (100..125).for_each(|flow| rig.enqueue(pull(flow)));
    let order = rig.drain();
    let places: Vec<usize> = order.iter().enumerate().filter(|(_, flow)| **flow < 3).map(|(place, _)| place).collect();
    assert_eq!(places, [10, 21, 27], "{order:?}");
    let headers: Vec<u32> = order.into_iter().filter(|flow| *flow >= 100).collect();
    assert!(headers.into_iter().eq(100..125));
}

/// The header queue has the memory of eight full packets: 300 headers of 40 B. Trimmed headers beyond that return to their sender, other
/// packets are dropped, and so is a header that has been returned before.
#[test]
fn headers_that_find_their_queue_full_return_once() {
    let mut rig = port(&Config::default(), 1);
    (0..8).for_each(|flow| rig.enqueue(data(flow)));
    (100..400).for_each(|flow| rig.enqueue(pull(flow)));
    assert!(rig.dropped().is_empty());
    rig.enqueue(data(8));
    let trimmed = rig.trimmed()[0].flow;
    let [(returned, onward)] = rig.handed_over()[..] else { panic!("one packet returns") };
    assert_eq!((returned.flow, returned.src, returned.dst, onward), (trimmed, NodeId(1), NodeId(0), Onward::Route));
    assert_eq!((returned.size_bytes, returned.payload_bytes), (40, 0));
    assert!(matches!(returned.header, Header::Data { part: Part::Returned, .. }));
    rig.enqueue(returned);
    rig.enqueue(pull(400));
    assert!(rig.handed_over().is_empty());
    assert_eq!(rig.dropped().iter().map(|(flow, _)| *flow).collect::<Vec<_>>(), [trimmed.0, 400]);
    let mut silent = port(&Config { return_to_sender: false, ..Config::default() }, 1);
    (0..8).for_each(|flow| silent.enqueue(data(flow)));
    (100..401).for_each(|flow| silent.enqueue(pull(flow)));
    silent.dropped();
    silent.enqueue(data(8));
    assert_eq!((silent.handed_over().len(), silent.dropped().len()), (0, 1));
}

#[test]
fn a_host_s_port_never_trims() {
    let network = network();
    let nic = network.ports(NodeId(0))[0];
    let mut rig = port_at(&Config { data_queue: 1, ..Config::default() }, &network, nic, 1);
    (0..1000).for_each(|flow| rig.enqueue(data(flow)));
    assert!(rig.trimmed().is_empty() && rig.drain().into_iter().eq(0..1000));
}

proptest! {
    /// Whatever comes and goes, each packet is in the port, has left, was dropped or was returned; and the queues keep to their limits.
    #[test]
    fn no_packet_is_lost_or_made(steps in prop::collection::vec(0_u8..4, 0..400), data_queue in 1_u32..4, returns in any::<bool>()) {
        let config = Config { data_queue, header_memory: 0.2, return_to_sender: returns, ..Config::default() };
        let mut rig = port(&config, 5);
        let (mut came, mut gone) = (0, 0);
        for step in steps {
            match step {
                0 | 1 => {
                    let packet = if step == 0 { data(came) } else { pull(came) };
                    came += 1;
                    if rig.packets() > 0 || !rig.pass(packet) {
                        rig.enqueue(packet);
                    } else {
                        gone += 1;
                    }
                }
                _ => gone += usize::from(rig.dequeue().is_some()),
            }
            gone += rig.dropped().len();
            let returned = rig.handed_over().len();
            prop_assert!(returns || returned == 0);
            gone += returned;
            prop_assert_eq!(rig.packets() + gone, came as usize);
            prop_assert!(rig.port().data_packets() <= data_queue);
        }
        gone += rig.drain().len();
        prop_assert_eq!(gone, came as usize);
    }
}
