//! The contract by hand: scripted endpoints and disciplines, and what is around them writes down every call.

use super::*;
use crate::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Ecn, Endpoint, Event, Flow, FlowId, LinkId, NodeId, Onward, Packet,
    PacketId, Pool, PortCall, PortNumber, Rate, Time,
};

const NOW: Time = Time::from_ps(1000);
const LATER: Time = Time::from_ps(2000);

fn packet(flow: u32, dst: NodeId) -> Packet<()> {
    Packet {
        flow: FlowId(flow),
        src: NodeId(0),
        dst,
        size_bytes: 100,
        payload_bytes: 60,
        class: 0,
        ecn: Ecn::Capable,
        retransmission: false,
        corrupt: false,
        offset: Bytes::ZERO,
        header: (),
    }
}

mod endpoints {
    use std::cell::RefCell;
    use std::sync::Mutex;

    use super::*;

    /// Has two events and `packets` packets after every call, and a timer.
    #[derive(Default)]
    struct Scripted {
        calls: Mutex<Vec<&'static str>>,
        events: u32,
        packets: u32,
        timer: Option<Time>,
    }

    impl Scripted {
        fn note(&self, call: &'static str) {
            self.calls.lock().unwrap().push(call);
        }
        fn called(&mut self, call: &'static str) {
            self.note(call);
            self.events = 2;
        }
    }

    impl Endpoint for Scripted {
        type Header = ();
        fn open(&mut self, _: Time, _: &Flow) {
            self.called("open");
        }
        fn handle_packet(&mut self, _: Time, _: &Packet<()>) {
            self.called("handle_packet");
        }
        fn handle_timeout(&mut self, _: Time) {
            self.called("handle_timeout");
        }
        fn poll_transmit(&mut self, _: Time) -> Option<Packet<()>> {
            self.note("poll_transmit");
            self.packets = self.packets.checked_sub(1)?;
            Some(packet(0, NodeId(1)))
        }
        fn poll_timeout(&self) -> Option<Time> {
            self.timer
        }
        fn poll_event(&mut self) -> Option<Event> {
            self.events = self.events.checked_sub(1)?;
            Some(Event::Received { flow: FlowId(self.events) })
        }
    }

    /// A network that takes `room` packets.
    struct Around<'a> {
        room: u32,
        calls: &'a RefCell<Vec<String>>,
        arrived: Packet<()>,
    }

    impl Attachment<()> for Around<'_> {
        type Arrival = ();
        fn now(&self) -> Time {
            NOW
        }
        fn packet(&self, (): ()) -> &Packet<()> {
            &self.arrived
        }
        fn consume(&mut self, (): ()) {
            self.calls.borrow_mut().push("consume".into());
        }
        fn report(&mut self, event: &Event) {
            let Event::Received { flow } = event else { unreachable!() };
            self.calls.borrow_mut().push(format!("report {}", flow.0));
        }
        fn takes_packet(&mut self) -> bool {
            self.calls.borrow_mut().push("takes_packet".into());
            self.room > 0
        }
        fn send(&mut self, _: Packet<()>) {
            self.calls.borrow_mut().push("send".into());
            self.room -= 1;
        }
        fn set_timer(&mut self, wanted: Option<Time>) {
            self.calls.borrow_mut().push(format!("set_timer {}", wanted.map_or(0, Time::as_ps)));
        }
    }

    /// The calls on the endpoint that `call` made, and those on what is around it.
    fn calls(mut endpoint: Scripted, room: u32, call: impl FnOnce(&mut Scripted, Around<'_>)) -> (Vec<&'static str>, String) {
        let calls = RefCell::new(Vec::new());
        call(&mut endpoint, Around { room, calls: &calls, arrived: packet(0, NodeId(1)) });
        (endpoint.calls.into_inner().unwrap(), calls.into_inner().join(", "))
    }

    #[test]
    fn a_packet_is_handled_then_events_then_packets_then_the_timer() {
        let endpoint = Scripted { packets: 2, timer: Some(LATER), ..Scripted::default() };
        let (inside, around) = calls(endpoint, 9, |endpoint, around| deliver(endpoint, around, ()));
        assert_eq!(inside, ["handle_packet", "poll_transmit", "poll_transmit", "poll_transmit"]);
        let sends = "takes_packet, send, takes_packet, send, takes_packet";
        assert_eq!(around, format!("consume, report 1, report 0, {sends}, set_timer 2000"));
    }

    #[test]
    fn packets_stay_in_the_endpoint_until_the_network_takes_them() {
        let flow = Flow {
            id: FlowId(0),
            src: NodeId(0),
            dst: NodeId(1),
            size: Bytes::ZERO,
            start: NOW,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        };
        let endpoint = || Scripted { packets: 2, ..Scripted::default() };
        let (inside, around) = calls(endpoint(), 1, |endpoint, around| open(endpoint, around, &flow));
        assert_eq!(inside, ["open", "poll_transmit"]);
        assert_eq!(around, "report 1, report 0, takes_packet, send, takes_packet, set_timer 0");
        let (inside, around) = calls(endpoint(), 1, |endpoint, around| refill(endpoint, around));
        assert_eq!(
            (inside.as_slice(), around.as_str()),
            (&["poll_transmit"][..], "takes_packet, send, takes_packet, set_timer 0")
        );
    }

    #[test]
    fn only_a_timeout_that_is_due_is_handled() {
        for (timer, handled) in [(Some(NOW), true), (Some(LATER), false), (None, false)] {
            let endpoint = Scripted { timer, ..Scripted::default() };
            let (inside, around) = calls(endpoint, 1, |endpoint, around| wake(endpoint, around));
            assert_eq!(inside.contains(&"handle_timeout"), handled, "{timer:?}");
            assert!(around.ends_with(&format!("set_timer {}", timer.map_or(0, Time::as_ps))), "{around}");
        }
    }

    #[test]
    fn a_timer_that_an_endpoint_has_from_its_creation_is_set() {
        for (timer, set) in [(LATER, "set_timer 2000"), (NOW, "set_timer 1001"), (Time::ZERO, "set_timer 1001")] {
            let endpoint = Scripted { timer: Some(timer), ..Scripted::default() };
            let (inside, around) = calls(endpoint, 1, |endpoint, around| start(endpoint, around));
            assert_eq!((inside.len(), around.as_str()), (0, set));
        }
    }
}

mod ports {
    use super::*;

    /// What the discipline does next.
    #[derive(Clone, Copy)]
    enum Act {
        /// First in, first out.
        Fifo,
        /// Sends nothing.
        Hold,
        /// Sends nothing before this time, or nothing at all.
        Wait(Time),
        Close(Time),
    }

    /// Writes down its calls with the port and, of a packet that arrives, the ingress port.
    struct Scripted {
        act: Act,
        passes: bool,
        drops: bool,
        wakes: Option<PortNumber>,
        gives: Option<Onward>,
        alarms: Vec<Time>,
        queue: Vec<PacketId>,
    }

    type Calls = Vec<String>;

    impl Scripted {
        fn note(call: &mut PortCall<'_, (), Calls>, what: &str) {
            let from = if call.ingress == PortNumber::LOCAL { "local".into() } else { call.ingress.0.to_string() };
            call.shared.push(format!("{what} at {} from {from}", call.number.0));
        }
    }

    impl Discipline<()> for Scripted {
        type Shared = Calls;
        fn enqueue(&mut self, call: &mut PortCall<'_, (), Calls>, id: PacketId) {
            Scripted::note(call, "enqueue");
            if self.drops {
                return call.drop(id, DropReason::Overflow);
            }
            if let Some(other) = self.wakes {
                call.wake(other);
            }
            match self.gives {
                Some(Onward::Port(other)) => return call.hand_over(id, other),
                Some(Onward::Route) => return call.send_back(id),
                None => {}
            }
            self.queue.push(id);
        }
        fn pass(&mut self, call: &mut PortCall<'_, (), Calls>, id: PacketId) -> bool {
            Scripted::note(call, "pass");
            if self.passes {
                call.mark(id);
            }
            self.passes
        }
        fn dequeue(&mut self, call: &mut PortCall<'_, (), Calls>) -> Dequeue {
            Scripted::note(call, "dequeue");
            match self.act {
                Act::Wait(at) => Dequeue::NotBefore(at),
                Act::Close(at) => Dequeue::ClosedUntil(at),
                Act::Fifo if !self.queue.is_empty() => Dequeue::Packet(self.queue.remove(0)),
                Act::Fifo | Act::Hold => Dequeue::Idle,
            }
        }
        fn handle_link_frame(&mut self, call: &mut PortCall<'_, (), Calls>, _: PacketId) {
            Scripted::note(call, "link frame");
            self.act = Act::Fifo;
        }
        fn alarms(&self, set: &mut dyn FnMut(Time)) {
            self.alarms.iter().for_each(|at| set(*at));
        }
        /// Loses a link frame that it has just created, and what it holds.
        fn handle_alarm(&mut self, call: &mut PortCall<'_, (), Calls>) {
            Scripted::note(call, "alarm");
            let frame = call.pool.insert(packet(0, NodeId::LINK));
            call.drop(frame, DropReason::LinkDown);
            self.lose_all(call);
        }
        fn each_queued(&self, _: &Pool<()>, visit: &mut dyn FnMut(PacketId)) {
            self.queue.iter().for_each(|id| visit(*id));
        }
    }

    /// Two ports of one node, each on a link of 100 B per 100 ps.
    struct Below {
        now: Time,
        pool: Pool<()>,
        busy_until: [Time; 2],
        /// Flows sent, with link and time.
        sent: Vec<(u32, u32, Time)>,
        services: Vec<(u32, Time)>,
        alarms: Vec<(u32, Time)>,
        dropped: Vec<DropReason>,
        marked: u64,
        queued: u32,
        /// The most packets that were queued.
        peak: u32,
    }

    impl LinkLayer<()> for Below {
        type Line = ();
        type Books = ();
        fn now(&self) -> Time {
            self.now
        }
        fn pool(&mut self) -> &mut Pool<()> {
            &mut self.pool
        }
        fn busy_until(&self, link: LinkId) -> Time {
            self.busy_until[link.index()]
        }
        fn node((): &()) -> NodeId {
            NodeId(0)
        }
        fn sibling(&self, (): &(), number: PortNumber) -> LinkId {
            LinkId(u32::from(number.0))
        }
        /// Packets for node 7 leave over link 1, others over link 0.
        fn route(&mut self, _: LinkId, (): &(), id: PacketId) -> LinkId {
            LinkId(u32::from(self.pool[id].dst == NodeId(7)))
        }
        fn transmit(&mut self, link: LinkId, _: Rate, (): &(), (): &mut (), id: PacketId) -> Time {
            self.sent.push((self.pool[id].flow.0, link.0, self.now));
            self.pool.remove(id);
            self.busy_until[link.index()] = self.now + Duration::from_ps(100);
            self.busy_until[link.index()]
        }
        fn schedule_service(&mut self, link: LinkId, at: Time) {
            self.services.push((link.0, at));
        }
        fn schedule_alarm(&mut self, link: LinkId, at: Time) {
            self.alarms.push((link.0, at));
        }
        fn queue_grows(&mut self, (): &mut (), packets: u32, _: u32) {
            self.queued += packets;
        }
        fn queue_shrinks(&mut self, (): &mut (), packets: u32, _: u32) {
            self.queued -= packets;
        }
        fn queued(&mut self, (): &mut ()) {
            self.peak = self.peak.max(self.queued);
        }
        fn marked(&mut self, (): &mut (), packets: u64) {
            self.marked += packets;
        }
        fn drop_packet(&mut self, _: LinkId, (): &mut (), id: PacketId, why: DropReason) {
            self.dropped.push(why);
            self.pool.remove(id);
        }
    }

    struct Node(Ports<(), Scripted, Below>);

    impl Node {
        fn new(ports: [Scripted; 2]) -> Node {
            let below = Below {
                now: NOW,
                pool: Pool::default(),
                busy_until: [Time::ZERO; 2],
                sent: Vec::new(),
                services: Vec::new(),
                alarms: Vec::new(),
                dropped: Vec::new(),
                marked: 0,
                queued: 0,
                peak: 0,
            };
            let mut all = Ports::new(below, vec![Calls::new()]);
            for (number, port) in (0..).zip(ports) {
                all.push(port, PortNumber(number), Rate::from_gbps(10), (), ());
                all.start(LinkId(u32::from(number)));
            }
            Node(all)
        }
        fn arrive(&mut self, flow: u32, link: u32, ingress: u16) {
            let id = self.0.link_layer.pool.insert(packet(flow, NodeId(9)));
            self.0.enqueue(LinkId(link), id, PortNumber(ingress));
        }
        /// The calls since the last time.
        fn calls(&mut self) -> String {
            self.0.shared_mut(NodeId(0)).drain(..).collect::<Vec<_>>().join(", ")
        }
        fn sent(&self) -> Vec<(u32, u32, u64)> {
            self.0.link_layer.sent.iter().map(|(flow, link, at)| (*flow, *link, at.as_ps())).collect()
        }
    }

    fn fifo() -> Scripted {
        Scripted {
            act: Act::Fifo,
            passes: false,
            drops: false,
            wakes: None,
            gives: None,
            alarms: Vec::new(),
            queue: Vec::new(),
        }
    }

    #[test]
    fn a_packet_passes_a_free_empty_port_and_others_are_queued_until_the_link_is_free() {
        let mut node = Node::new([Scripted { passes: true, ..fifo() }, fifo()]);
        node.arrive(1, 0, 1);
        assert_eq!((node.calls().as_str(), node.sent()), ("pass at 0 from 1", vec![(1, 0, 1000)]));
        assert_eq!(node.0.link_layer.marked, 1, "the side effects of passing count");
        assert!(node.0.link_layer.services.is_empty(), "nothing waits");
        node.arrive(2, 0, 1);
        node.arrive(3, 0, 7);
        assert_eq!(node.calls(), "enqueue at 0 from 1, enqueue at 0 from 7");
        assert_eq!(node.0.link_layer.services, [(0, Time::from_ps(1100))], "one service for both");
        node.0.link_layer.now = Time::from_ps(1100);
        assert!(node.0.is_due(LinkId(0)));
        node.0.serve_now(LinkId(0));
        assert_eq!((node.calls().as_str(), node.sent().last()), ("dequeue at 0 from local", Some(&(2, 0, 1100))));
        assert!(!node.0.is_due(LinkId(0)), "a second service event at this time is stale");
        assert_eq!((node.0.link_layer.services.last(), node.0.link_layer.queued), (Some(&(0, Time::from_ps(1200))), 1));
    }

    /// A discipline that does not let packets pass is asked first, and gets the packet in its queue.
    #[test]
    fn a_packet_that_may_not_pass_is_enqueued_and_served_at_once() {
        let mut node = Node::new([fifo(), fifo()]);
        node.arrive(1, 0, 1);
        assert_eq!(node.calls(), "pass at 0 from 1, enqueue at 0 from 1, dequeue at 0 from local");
        assert_eq!((node.sent(), node.0.link_layer.queued), (vec![(1, 0, 1000)], 0));
    }

    #[test]
    fn a_dropped_packet_leaves_the_queue_and_the_pool() {
        let mut node = Node::new([Scripted { drops: true, ..fifo() }, fifo()]);
        node.arrive(1, 0, 1);
        assert_eq!((node.0.link_layer.dropped.as_slice(), node.0.link_layer.queued), (&[DropReason::Overflow][..], 0));
        assert!(node.0.link_layer.pool.is_empty() && node.sent().is_empty());
    }

    /// The port that was woken is served after the port whose packet woke it.
    #[test]
    fn a_port_that_is_woken_is_served_after_the_event() {
        let mut node = Node::new([Scripted { wakes: Some(PortNumber(1)), ..fifo() }, Scripted { act: Act::Hold, ..fifo() }]);
        node.arrive(1, 1, 0);
        node.0.discipline_mut(LinkId(1)).act = Act::Fifo;
        node.calls();
        node.arrive(2, 0, 1);
        assert_eq!(node.calls(), "pass at 0 from 1, enqueue at 0 from 1, dequeue at 0 from local, dequeue at 1 from local");
        assert_eq!(node.sent(), [(2, 0, 1000), (1, 1, 1000)]);
    }

    /// A port gives its packet to the other port of the node, by number or because the other port leads back to the packet's source. The
    /// packet arrives there as if it had come in by the first port, and leaves at once.
    #[test]
    fn a_packet_that_is_given_away_arrives_at_the_other_port() {
        for (gives, ends) in [(Onward::Port(PortNumber(1)), (7, 9)), (Onward::Route, (9, 7))] {
            let mut node = Node::new([Scripted { gives: Some(gives), ..fifo() }, Scripted { act: Act::Hold, ..fifo() }]);
            let id = node.0.link_layer.pool.insert(Packet { src: NodeId(7), ..packet(1, NodeId(9)) });
            node.0.enqueue(LinkId(0), id, PortNumber(5));
            let first = "pass at 0 from 5, enqueue at 0 from 5, dequeue at 0 from local";
            assert_eq!(node.calls(), format!("{first}, pass at 1 from 0, enqueue at 1 from 0, dequeue at 1 from local"));
            let packet = &node.0.link_layer.pool[id];
            assert_eq!((packet.src.0, packet.dst.0), ends);
            assert_eq!(node.0.link_layer.queued, 1, "it left one queue and is in the other");
            node.0.discipline_mut(LinkId(1)).act = Act::Fifo;
            node.0.serve_now(LinkId(1));
            assert_eq!((node.sent(), node.0.link_layer.queued), (vec![(1, 1, 1000)], 0));
        }
    }

    /// A link frame opens a paused port: the port is served, and a NIC takes packets again.
    #[test]
    fn a_link_frame_reaches_its_port_and_serves_it() {
        let mut node = Node::new([Scripted { act: Act::Hold, ..fifo() }, fifo()]);
        node.arrive(1, 0, 1);
        assert!(!node.0.wants_packet(LinkId(0)), "a port that holds its packets is paused");
        node.calls();
        let frame = node.0.link_layer.pool.insert(packet(0, NodeId::LINK));
        node.0.link_frame(LinkId(0), frame);
        assert_eq!(node.calls(), "link frame at 0 from local, dequeue at 0 from local");
        assert_eq!((node.sent(), node.0.link_layer.pool.len()), (vec![(1, 0, 1000)], 0));
        assert!(!node.0.wants_packet(LinkId(0)), "the link is busy");
        node.0.link_layer.now = Time::from_ps(1100);
        assert!(node.0.wants_packet(LinkId(0)));
    }

    /// Each time is scheduled once. The port is busy at its alarm and loses two packets, and a link frame that was in no queue. It is served when the link is free, and
    /// a port that is free at once.
    #[test]
    fn an_alarm_comes_whether_the_link_is_busy_or_free() {
        let mut node = Node::new([Scripted { alarms: vec![LATER, NOW, LATER], ..fifo() }, fifo()]);
        assert_eq!(node.0.link_layer.alarms, [(0, NOW), (0, LATER)]);
        for flow in 1..=3 {
            node.arrive(flow, 0, 1);
        }
        node.calls();
        node.0.alarm(LinkId(0));
        assert_eq!(
            node.calls(),
            "alarm at 0 from local, dequeue at 0 from local, dequeue at 0 from local, dequeue at 0 from local"
        );
        assert_eq!((node.0.link_layer.dropped.as_slice(), node.0.link_layer.queued), (&[DropReason::LinkDown; 3][..], 0));
        assert!(node.0.link_layer.pool.is_empty());
        assert_eq!(node.0.link_layer.services, [(0, Time::from_ps(1100))]);
        node.0.link_layer.now = LATER;
        node.0.alarm(LinkId(0));
        assert!(node.calls().ends_with("dequeue at 0 from local, dequeue at 0 from local"), "one to lose, one to send");
    }

    /// The first packet is on the wire and the second one waits. When the link is free, the second one leaves and a third one comes. Whichever happens first, one packet waits at a time.
    #[test]
    fn a_packet_that_leaves_when_another_comes_does_not_lengthen_the_queue() {
        for arrives_first in [true, false] {
            let mut node = Node::new([fifo(), fifo()]);
            node.arrive(1, 0, 1);
            node.arrive(2, 0, 1);
            node.0.link_layer.now = Time::from_ps(1100);
            if arrives_first {
                node.arrive(3, 0, 1);
                assert!(!node.0.is_due(LinkId(0)), "the service event is stale");
            } else {
                node.0.serve_now(LinkId(0));
                node.arrive(3, 0, 1);
            }
            assert_eq!(node.sent().len(), 2);
            assert_eq!((node.0.link_layer.queued, node.0.link_layer.peak), (1, 1));
        }
    }

    /// A port that waits still takes packets, which may go first; a closed one does not.
    #[test]
    fn a_waiting_port_takes_packets_and_a_closed_one_does_not() {
        for (act, takes) in [(Act::Wait(LATER), true), (Act::Close(LATER), false)] {
            let mut node = Node::new([Scripted { act, ..fifo() }, fifo()]);
            node.arrive(1, 0, 1);
            assert_eq!(node.0.link_layer.services, [(0, LATER)]);
            assert_eq!(node.0.wants_packet(LinkId(0)), takes);
            node.0.discipline_mut(LinkId(0)).act = Act::Fifo;
            node.0.link_layer.now = LATER;
            assert!(node.0.is_due(LinkId(0)));
            node.0.serve_now(LinkId(0));
            assert_eq!(node.sent(), [(1, 0, 2000)]);
        }
    }
}
