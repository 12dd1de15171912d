//! Ends of flows: flows that are given up, and flows that nobody waits for.

use std::sync::Arc;

use flowloom_core::{
    AbortReason, Bytes, Duration, Endpoint, Event, Flow, FlowId, Nic, NoControl, Packet, PortSite, Site, Time, Transport,
    topology,
};
use flowloom_fabric::{Abort, End, Next, Report, Sim, SimSetup, Task, TaskList};
use flowloom_transports::disciplines::DropTail;

use crate::common::blast::{Blast, Blaster, Header, Plain};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, run, setup};

/// A host that gives up a flow at its deadline. It has one flow with a deadline at a time.
struct Quitter {
    due: Option<(Time, FlowId)>,
    blaster: Blaster<()>,
}

impl Endpoint for Quitter {
    type Header = Header<()>;
    fn open(&mut self, now: Time, flow: &Flow) {
        self.due = flow.deadline.map(|deadline| (deadline, flow.id));
        self.blaster.open(now, flow);
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<()>>) {
        self.blaster.handle_packet(now, packet);
    }
    fn handle_timeout(&mut self, _: Time) {
        let (_, flow) = self.due.take().expect("a flow with a deadline");
        self.blaster.abort(flow, AbortReason::Deadline);
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<()>>> {
        self.blaster.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.due.map(|(at, _)| at)
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.blaster.poll_event()
    }
}

enum Quitting {}

impl Transport for Quitting {
    const NAME: &'static str = "quitting";
    const ABOUT: &'static str = "gives up flows at their deadlines";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<()>;
    type Host = Quitter;
    type Port = DropTail;
    type Control = NoControl<Header<()>>;
    fn host((): &(), site: &Site<'_>) -> Quitter {
        Quitter { due: None, blaster: Blaster::new(site, false) }
    }
    fn port((): &(), site: &PortSite<'_>) -> DropTail {
        DropTail::new(site.memory.bytes())
    }
}

fn two_hosts() -> SimSetup {
    setup(topology::single_switch(2, gbps(10), HOP_DELAY, STORE))
}

/// A packet takes 1.2 µs at the NIC, so the tenth is sent from 10.8 µs on. At 4 µs, four packets have been sent and one has arrived, at
/// 2 × 1.4 µs.
#[test]
fn a_flow_that_is_given_up_is_over_and_not_finished() {
    let hurried = Flow { deadline: Some(ns(4000)), ..flow(0, 0, 1, 14_600, Time::ZERO) };
    let report = run::<Quitting>(&(), two_hosts(), vec![hurried]);
    let record = report.records[0];
    assert_eq!(record.aborted, Some(Abort { at: ns(4000), reason: AbortReason::Deadline }));
    assert!(record.is_over());
    assert_eq!((record.received, record.acknowledged), (Time::MAX, Time::MAX));
    assert_eq!((record.sent_bytes, record.arrived_bytes, record.delivered_bytes), (4 * 1460, 2 * 1460, 2 * 1460));
    assert_eq!(report.end, ns(4000), "the run ends with its last flow");
}

/// The deadline comes when the receiver has everything and the acknowledgement is on its way: from 14.6 µs, 2 × (32 + 200) ns.
#[test]
fn a_flow_can_be_given_up_after_it_was_received() {
    let received = ns(10 * 1200 + 200 + 1400);
    let in_time = |deadline| Flow { deadline: Some(deadline), ..flow(0, 0, 1, 14_600, Time::ZERO) };
    let report = run::<Quitting>(&(), two_hosts(), vec![in_time(received + Duration::from_ns(463))]);
    assert_eq!((report.records[0].received, report.records[0].acknowledged), (received, Time::MAX));
    assert!(report.records[0].aborted.is_some());
    let report = run::<Quitting>(&(), two_hosts(), vec![in_time(received + Duration::from_ns(464))]);
    assert_eq!((report.records[0].acknowledged, report.records[0].aborted), (received + Duration::from_ns(464), None));
}

/// The second flow of a loop starts a think time after the first was given up, and once only.
#[test]
fn a_loop_goes_on_after_a_flow_was_given_up() {
    for (deadline, second_start) in [(ns(4000), ns(4000 + 500)), (ns(13_601), ns(13_600 + 500))] {
        let first = Flow { deadline: Some(deadline), ..flow(0, 0, 1, 14_600, Time::ZERO) };
        let next = Next { task: FlowId(1), end: End::Received, delay: Duration::from_ns(500) };
        let tasks =
            TaskList::new(&[first], vec![Task::Flow(flow(1, 0, 1, 1460, Time::MAX))], vec![(FlowId(0), next)], Vec::new());
        let mut sim = Sim::<Quitting>::new(&(), two_hosts(), vec![first], ()).with_tasks(Arc::new(tasks));
        while sim.step(1 << 10) {}
        let report: Report = sim.finish().expect("conservation").0;
        assert!(report.records[0].aborted.is_some());
        assert_eq!(report.flows[1].start, second_start);
        assert!(report.records[1].acknowledged < Time::MAX);
    }
}

/// Host 0 sends 1000 packets in the background, one every 1.2 µs, and host 1 one packet to host 0 at 10 µs. It arrives at 12.8 µs. Its
/// answer waits until 13.2 µs at host 0, and at the switch behind a packet that is sent there from 13.4 to 14.6 µs.
#[test]
fn a_run_does_not_wait_for_background_flows() {
    let background = Flow { background: true, ..flow(0, 0, 1, 1_460_000, Time::ZERO) };
    let foreground = flow(1, 1, 0, 1460, ns(10_000));
    let mut sim = Sim::<Blast<Plain>>::new(&(), two_hosts(), vec![background, foreground], ());
    sim.pause_at(ns(5000));
    while sim.step(1 << 10) {}
    let before = sim.vitals();
    assert_eq!((before.open, before.over, before.background), (0, 0, true));
    assert_eq!(sim.delivered_bytes(), 2 * 1460, "of background flows, while nothing else is open");
    sim.pause_at(ns(11_000));
    while sim.step(1 << 10) {}
    assert_eq!((sim.vitals().open, sim.vitals().busy_since.0), (1, ns(10_000)));
    assert_eq!((sim.delivered_bytes(), sim.progress().0), (0, 0.0), "background flows are no progress");
    sim.pause_at(Time::MAX);
    while sim.step(1 << 10) {}
    assert!(sim.is_over());
    let report = sim.finish().expect("conservation").0;
    let [big, small] = [report.records[0], report.records[1]];
    assert_eq!(report.end, small.acknowledged);
    assert_eq!(small.acknowledged, ns(14_600 + 32 + 200));
    assert!(!big.is_over() && big.delivered_bytes > 0);
    assert_eq!(report.flows[0].size, Bytes::new(1_460_000));
}

#[test]
fn a_background_flow_can_finish_before_the_run_ends() {
    let background = Flow { background: true, ..flow(0, 0, 1, 1460, Time::ZERO) };
    let report = run::<Blast<Plain>>(&(), two_hosts(), vec![background, flow(1, 1, 0, 1460, ns(50_000))]);
    assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX));
}
