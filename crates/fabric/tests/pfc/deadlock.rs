//! A cyclic buffer dependency, the known way to stop a lossless network for ever.

use flowloom_core::{Bytes, Flow, Memory, Network, NodeId, Time};
use flowloom_fabric::SimSetup;
use flowloom_transports::pfc::Pfc;

use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, run, setup};
use crate::{Greedy, drops, setting};

/// Switches in a ring, each with one host. With five, there is one shortest path to the host two switches on.
fn ring(switches: u32) -> Network {
    let mut network = Network::new(switches as usize, STORE);
    let ids: Vec<NodeId> = (0..switches).map(|number| network.add_switch(1, "ring", format!("s{number}"))).collect();
    for (host, switch) in (0..switches).zip(&ids) {
        network.connect(NodeId(host), *switch, gbps(10), HOP_DELAY);
    }
    for number in 0..ids.len() {
        network.connect(ids[number], ids[(number + 1) % ids.len()], gbps(10), HOP_DELAY);
    }
    network
}

/// The number of flows that end, of `count` which go from host i to host i + 2.
fn ends(count: u32, pfc: bool) -> (usize, u64) {
    let memory = Memory::PerPort(Bytes::new(12_000));
    let flows: Vec<Flow> = (0..count).map(|host| flow(host, host, (host + 2) % 5, 1_000_000, Time::ZERO)).collect();
    let setup = SimSetup { memory, ..setup(ring(5)) };
    let report = if pfc {
        run::<Greedy>(&setting(Pfc::default(), memory), setup, flows)
    } else {
        run::<crate::common::blast::Blast<crate::common::blast::Plain>>(&(), setup, flows)
    };
    (report.records.iter().filter(|record| record.acknowledged < Time::MAX).count(), drops(&report))
}

/// Each link of the ring carries the first hop of one flow and the second hop of another. When all are paused, each waits for the next one. With one
/// flow less, the ring is open.
#[test]
fn a_full_ring_stops_for_ever_and_an_open_one_does_not() {
    assert_eq!(ends(5, true), (0, 0));
    assert_eq!(ends(4, true), (4, 0));
    assert!(ends(5, false).1 > 0, "without flow control packets are lost instead");
}
