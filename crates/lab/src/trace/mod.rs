//! Traces of single packets: a capture for Wireshark and a timeline for Perfetto.
//!
//! A tracer is an observer of the run. It writes both formats as events come, and the run's loop takes the bytes away, so memory is bounded. A packet keeps its number from
//! hop to hop. The observer is generic; all that it calls is compiled once.

mod capture;
mod headers;
mod pcapng;
mod timeline;

use flowloom_core::{DropReason, Event, Flow, FlowId, LinkId, Network, NodeId, Packet, PacketId, Time, Wire, frame};
use flowloom_fabric::Observer;

use self::capture::Capture;
use self::headers::message;
use self::timeline::Timeline;
use crate::ScenarioError;
use crate::changing::ChangingNetwork;
use crate::places::links_of;
use crate::record::{AtEachHop, Recorded, TraceEnd};
use crate::sink::FilePart;
use crate::spec::{FlowChoice, PacketTrace};
use crate::workload::Flows;

/// Which packets are traced, in terms of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceChoice {
    /// The flows whose packets are traced.
    pub flows: FlowChoice,
    links: Vec<LinkId>,
    /// Whether these are all links that the scenario knows. A control host's link, which comes after them, is then traced, too.
    everywhere: bool,
    from: Time,
    to: Time,
    records: u32,
    capture: bool,
    timeline: bool,
}

impl TraceChoice {
    /// What a scenario asks for in this network.
    ///
    /// # Errors
    /// A link that the network does not have.
    pub(crate) fn new(spec: &PacketTrace, network: &Network) -> Result<TraceChoice, ScenarioError> {
        let links = links_of("trace.links", &spec.links, network)?;
        Ok(TraceChoice {
            flows: spec.flows.sorted(),
            everywhere: links.len() == network.links().len(),
            links,
            from: Time::ZERO + spec.from.0,
            to: spec.to.map_or(Time::LAST, |to| Time::ZERO + to.0),
            records: spec.records,
            capture: spec.capture,
            timeline: spec.timeline,
        })
    }
}

/// Observes a run of a transport, and writes what it sees to the files of a trace.
pub struct Traced {
    tracer: Tracer,
    /// What names the transport in a datagram: [`frame::tag`].
    tag: u32,
}

impl Traced {
    /// An observer of a run of these flows under the transport of this name. `network` has all links of the run.
    pub fn new(transport: &str, choice: &TraceChoice, network: ChangingNetwork, flows: &Flows) -> Traced {
        Traced { tracer: Tracer::new(choice, network, flows), tag: frame::tag(transport) }
    }

    /// What a packet is in a datagram, without its payload.
    fn with_head<H: Wire>(&mut self, packet: &Packet<H>, record: impl FnOnce(&mut Tracer, &Seen<'_>)) {
        let mut head = vec![0; frame::HEADER_BYTES + H::MAX_BYTES];
        let length = frame::write_head(self.tag, packet, &mut head);
        let kind = message(&H::LAYOUT, &head[frame::HEADER_BYTES..length]);
        record(&mut self.tracer, &Seen { packet: packet.with_header(()), head: &head[..length], kind });
    }
}

impl<H: Wire> Observer<H> for Traced {
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        self.tracer.open(now, flow);
    }
    fn packet_queued(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, _: u64) {
        self.tracer.queue(now, link, id, &packet.with_header(()));
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>) {
        if self.tracer.wants(now, link, packet.flow, packet.dst) {
            self.with_head(packet, |tracer, seen| tracer.send(now, link, id, seen));
        }
    }
    fn packet_dropped(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, why: DropReason) {
        if self.tracer.wants(now, link, packet.flow, packet.dst) {
            self.with_head(packet, |tracer, seen| tracer.drop(now, link, id, seen, why));
        }
        self.tracer.forget(id);
    }
    fn packet_arrived(&mut self, _: Time, _: NodeId, id: PacketId, _: &Packet<H>) {
        self.tracer.forget(id);
    }
    fn flow_event(&mut self, now: Time, _: NodeId, event: &Event) {
        self.tracer.note(now, event);
    }
}

impl<H: Wire> AtEachHop<H> for Traced {
    fn add_to(self, recorded: &mut Recorded, _: Time) {
        recorded.trace = Some(self.tracer.end());
    }
    fn take_files(&mut self) -> Vec<FilePart> {
        self.tracer.take_files()
    }
}

/// A packet as it is recorded.
struct Seen<'a> {
    packet: Packet<()>,
    /// Its datagram without the payload.
    head: &'a [u8],
    /// The name of its header's message.
    kind: &'static str,
}

/// What is known of a packet in the network.
#[derive(Clone, Copy)]
struct Known {
    flow: FlowId,
    /// The packet's number in the trace; zero if there is no packet.
    number: u64,
    /// What it was when it came to the port that it was last queued at.
    queued: Option<Queued>,
}

#[derive(Clone, Copy)]
struct Queued {
    at: Time,
    link: LinkId,
    packet: Packet<()>,
}

impl Known {
    const NOTHING: Known = Known { flow: FlowId(0), number: 0, queued: None };
}

/// Writes the files of a trace.
struct Tracer {
    choice: TraceChoice,
    /// By link, whether it is traced.
    traced: Vec<bool>,
    /// By a packet's place in the pool.
    known: Vec<Known>,
    numbers: u64,
    records: u32,
    full_at: Option<Time>,
    capture: Option<Capture>,
    timeline: Option<Timeline>,
}

impl Tracer {
    fn new(choice: &TraceChoice, network: ChangingNetwork, flows: &Flows) -> Tracer {
        let mut traced = vec![choice.everywhere; network.last().links().len()];
        choice.links.iter().for_each(|link| traced[link.index()] = true);
        Tracer {
            known: Vec::new(),
            numbers: 0,
            records: 0,
            full_at: None,
            capture: choice.capture.then(|| Capture::new(network.last(), &traced, flows.by_id())),
            timeline: choice.timeline.then(|| Timeline::new(network)),
            traced,
            choice: choice.clone(),
        }
    }

    fn is_on(&self, now: Time) -> bool {
        self.choice.from <= now && now <= self.choice.to && self.full_at.is_none()
    }

    /// Whether what happens to a packet is recorded. A link frame may be why a chosen flow waits, so it is recorded whatever its flow.
    fn wants(&self, now: Time, link: LinkId, flow: FlowId, dst: NodeId) -> bool {
        self.is_on(now) && self.traced[link.index()] && (dst == NodeId::LINK || self.choice.flows.has(flow))
    }

    /// The timeline, if what becomes of a flow is recorded there now.
    fn timeline_of(&mut self, now: Time, flow: FlowId) -> Option<&mut Timeline> {
        let wanted = self.is_on(now) && self.choice.flows.has(flow);
        self.timeline.as_mut().filter(|_| wanted)
    }

    fn open(&mut self, now: Time, flow: &Flow) {
        if let Some(timeline) = self.timeline_of(now, flow.id) {
            timeline.open(now, flow);
        }
    }

    fn queue(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<()>) {
        if self.is_on(now) && self.choice.flows.has(packet.flow) {
            self.know(id, packet.flow).queued = Some(Queued { at: now, link, packet: *packet });
        }
    }

    /// What is known of a packet, which gets a number if it is new.
    fn know(&mut self, id: PacketId, flow: FlowId) -> &mut Known {
        let place = id.index() as usize;
        if self.known.len() <= place {
            self.known.resize(place + 1, Known::NOTHING);
        }
        let known = &mut self.known[place];
        if known.number == 0 || known.flow != flow {
            self.numbers += 1;
            *known = Known { flow, number: self.numbers, queued: None };
        }
        known
    }

    fn forget(&mut self, id: PacketId) {
        if let Some(known) = self.known.get_mut(id.index() as usize) {
            *known = Known::NOTHING;
        }
    }

    fn send(&mut self, now: Time, link: LinkId, id: PacketId, seen: &Seen<'_>) {
        let Known { number, queued, .. } = *self.know(id, seen.packet.flow);
        let queued = queued.filter(|queued| queued.link == link);
        let cut = queued.map_or(0, |queued| queued.packet.payload_bytes - seen.packet.payload_bytes);
        let marked = queued.is_some_and(|queued| queued.packet.ecn != seen.packet.ecn);
        if let Some(capture) = &mut self.capture {
            let what =
                [(cut > 0).then(|| format!("{cut} B of payload cut off here")), marked.then(|| "marked here".to_owned())];
            capture.write(now, link, number, seen, what.into_iter().flatten().collect());
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.send(now, link, number, seen, queued.map(|queued| queued.at));
            for (word, is_so) in [("cut", cut > 0), ("marked", marked)] {
                if is_so {
                    timeline.happen(now, link, seen, word);
                }
            }
        }
        // The pool gives its place away when the frame arrives, and tells nobody.
        if seen.packet.dst == NodeId::LINK {
            self.forget(id);
        }
        self.count(now);
    }

    fn drop(&mut self, now: Time, link: LinkId, id: PacketId, seen: &Seen<'_>, why: DropReason) {
        let Known { number, .. } = *self.know(id, seen.packet.flow);
        let what = format!("dropped: {}", why.name());
        if let Some(timeline) = &mut self.timeline {
            timeline.happen(now, link, seen, &what);
        }
        if let Some(capture) = &mut self.capture {
            capture.write(now, link, number, seen, vec![what]);
        }
        self.count(now);
    }

    fn count(&mut self, now: Time) {
        self.records += 1;
        if self.records == self.choice.records {
            self.full_at = Some(now);
        }
    }

    fn note(&mut self, now: Time, event: &Event) {
        let (flow, what) = match *event {
            Event::Received { flow } => (flow, "received"),
            Event::Acknowledged { flow } => (flow, "acknowledged"),
            Event::TimedOut { flow, .. } => (flow, "timed out"),
            Event::Aborted { flow, .. } => (flow, "aborted"),
            Event::Delivered { .. } => return,
        };
        if let Some(timeline) = self.timeline_of(now, flow) {
            timeline.note(now, flow, what);
        }
    }

    fn take_files(&mut self) -> Vec<FilePart> {
        let capture = self.capture.as_mut().map(|capture| ("packets.pcapng", capture.take()));
        let timeline = self.timeline.as_mut().map(|timeline| ("timeline.pftrace", timeline.take()));
        [capture, timeline].into_iter().flatten().collect()
    }

    fn end(self) -> TraceEnd {
        TraceEnd { records: self.records, full_at: self.full_at }
    }
}
