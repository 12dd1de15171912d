//! An endpoint's timer expires once, at the time that the endpoint returned last, and not at an earlier value that it has replaced.

use flowloom_core::{Endpoint, Event, Flow, Nic, NoControl, NodeId, Packet, PortSite, Site, Time, Transport, topology};
use flowloom_transports::disciplines::DropTail;

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, watch};
use crate::common::watch::Log;

/// Sets its timer to a flow's deadline when the flow is opened, and sends a packet when the timer expires.
struct Clock {
    due: Option<Time>,
    sender: Blaster<()>,
}

impl Endpoint for Clock {
    type Header = Header<()>;
    fn open(&mut self, _: Time, flow: &Flow) {
        self.due = flow.deadline;
    }
    fn handle_packet(&mut self, _: Time, _: &Packet<Header<()>>) {}
    fn handle_timeout(&mut self, now: Time) {
        assert_eq!(self.due.take(), Some(now));
        self.sender.control(flowloom_core::FlowId(0), NodeId(1), Kind::Other, ());
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<()>>> {
        self.sender.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

enum Clocks {}

impl Transport for Clocks {
    const NAME: &'static str = "clocks";
    const ABOUT: &'static str = "sends when its timer expires";
    const NIC: Nic = Nic::Pulled;
    /// What host 0's timer is set to when the host is created.
    type Config = Option<Time>;
    type Header = Header<()>;
    type Host = Clock;
    type Port = DropTail;
    type Control = NoControl<Header<()>>;
    fn host(config: &Option<Time>, site: &Site<'_>) -> Clock {
        Clock { due: config.filter(|_| site.node == NodeId(0)), sender: Blaster::new(site, false) }
    }
    fn port(_: &Option<Time>, site: &PortSite<'_>) -> DropTail {
        DropTail::new(site.memory.bytes())
    }
}

/// When host 0's timer expires, if at the first time of each pair it is set to the second one (`None`: cleared), all in microseconds.
fn expiries(settings: &[(u64, Option<u64>)]) -> Vec<u64> {
    expiries_of_a_host_created_with(None, settings)
}

fn expiries_of_a_host_created_with(due_us: Option<u64>, settings: &[(u64, Option<u64>)]) -> Vec<u64> {
    let network = topology::single_switch(2, gbps(10), HOP_DELAY, STORE);
    let set = |(id, (at, due)): (u32, &(u64, Option<u64>))| Flow {
        deadline: due.map(|due| ns(due * 1000)),
        ..flow(id, 0, 1, 1, ns(at * 1000))
    };
    let flows = (0..).zip(settings).map(set).collect();
    let (_, log) = watch::<Clocks, Log<_>>(&due_us.map(|us| ns(us * 1000)), setup(network), flows, Log::default());
    log.injected.iter().map(|(time, ..)| time.as_ps() / 1_000_000).collect()
}

#[test]
fn a_timer_expires_at_the_time_it_was_set_to_last() {
    assert_eq!(expiries(&[(0, Some(10))]), [10]);
    assert_eq!(expiries(&[(0, Some(10)), (5, Some(20))]), [20], "postponed");
    assert_eq!(expiries(&[(0, Some(10)), (5, Some(7))]), [7], "brought forward");
    assert!(expiries(&[(0, Some(10)), (5, None)]).is_empty(), "cleared");
    assert_eq!(expiries(&[(0, Some(10)), (5, Some(7)), (8, Some(10))]), [7, 10], "set to the time of the old event again");
    assert_eq!(expiries(&[(0, Some(10)), (5, Some(20)), (6, Some(7)), (8, Some(10)), (12, Some(20))]), [7, 10, 20]);
    // Times beyond the ring of the event queue.
    assert_eq!(expiries(&[(0, Some(1_000_000)), (5, Some(2_000_000)), (6, Some(900_000))]), [900_000]);
}

/// The driver asks a node for its timer before anything happens there. PIAS's hosts report once a period, whether they have flows or not.
#[test]
fn a_timer_that_is_set_when_the_node_is_created_expires() {
    assert_eq!(expiries_of_a_host_created_with(Some(3), &[(10, Some(20))]), [3, 20]);
    assert_eq!(expiries_of_a_host_created_with(Some(3), &[(2, Some(20))]), [20], "postponed");
}
