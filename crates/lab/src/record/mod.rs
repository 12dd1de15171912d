//! What a run records over its course, besides its results. A recorder is an observer of the simulator.

mod before;
mod gaps;
mod pauses;
mod pending;

use flowloom_core::{DropReason, Duration, Event, Flow, FlowId, LinkId, NodeId, Packet, PacketId, Time};
use flowloom_fabric::Observer;
use flowloom_transports::disciplines::DataQueue;

pub use before::{Before, Counted};
pub use gaps::{GapTotals, Gaps};
pub use pauses::{LinkPauses, Pauses};
pub use pending::Pending;

use crate::sink::{FilePart, Table};

/// What a run has recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recorded {
    /// The backlog at the sources over the course of the run, if it was recorded.
    pub pending: Option<Table>,
    /// The gaps at receivers, if they were recorded.
    pub gaps: Option<GapTotals>,
    /// What priority flow control did to each directed link, by its index, if the run had it.
    pub pauses: Option<Vec<LinkPauses>>,
    /// How the trace of packets ended, if there was one.
    pub trace: Option<TraceEnd>,
    /// The queues of data at each directed link's port, by its index, if they have limits.
    pub data_queues: Option<Vec<DataQueue>>,
    /// What ports had counted when the first flow started, if there are background flows that are no results.
    pub before: Option<Before>,
}

/// How a trace ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEnd {
    /// How many transmissions and drops were recorded.
    pub records: u32,
    /// When there were as many as allowed, so that nothing was recorded afterwards.
    pub full_at: Option<Time>,
}

/// A recorder that is called for each packet at each hop, or `()`. It is a type parameter of [`Recording`], so that it costs nothing when off.
pub trait AtEachHop<H>: Observer<H> {
    /// What it adds to the records of a run that ended at this time.
    fn add_to(self, recorded: &mut Recorded, end: Time);
    /// How long a link was paused so far, if this is recorded.
    fn paused(&self, link: LinkId, now: Time) -> Duration {
        let _ = (link, now);
        Duration::ZERO
    }
    /// What it has written to files since the last call.
    fn take_files(&mut self) -> Vec<FilePart> {
        Vec::new()
    }
}

impl<H> AtEachHop<H> for () {
    fn add_to(self, _: &mut Recorded, _: Time) {}
}

impl<H, A: AtEachHop<H>> AtEachHop<H> for Option<A> {
    fn add_to(self, recorded: &mut Recorded, end: Time) {
        if let Some(recorder) = self {
            recorder.add_to(recorded, end);
        }
    }
    fn paused(&self, link: LinkId, now: Time) -> Duration {
        self.as_ref().map_or(Duration::ZERO, |recorder| recorder.paused(link, now))
    }
    fn take_files(&mut self) -> Vec<FilePart> {
        self.as_mut().map_or_else(Vec::new, AtEachHop::take_files)
    }
}

impl<H, A: AtEachHop<H>, B: AtEachHop<H>> AtEachHop<H> for (A, B) {
    fn add_to(self, recorded: &mut Recorded, end: Time) {
        self.0.add_to(recorded, end);
        self.1.add_to(recorded, end);
    }
    fn paused(&self, link: LinkId, now: Time) -> Duration {
        self.0.paused(link, now).max(self.1.paused(link, now))
    }
    fn take_files(&mut self) -> Vec<FilePart> {
        [self.0.take_files(), self.1.take_files()].concat()
    }
}

impl<H> Observer<H> for Gaps {
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        self.open(now, flow);
    }
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, _: PacketId, packet: &Packet<H>) {
        if packet.payload_bytes > 0 {
            self.send(now, link, packet.flow, packet.size());
        }
    }
    #[inline]
    fn flow_event(&mut self, now: Time, _: NodeId, event: &Event) {
        self.note(now, event);
    }
}

impl<H> AtEachHop<H> for Gaps {
    fn add_to(self, recorded: &mut Recorded, end: Time) {
        recorded.gaps = Some(self.into_totals(end));
    }
}

/// All recorders of a region. Those that are called less often than at each hop may be off: the simulator is compiled once for each type of
/// recording and each transport.
#[derive(Clone, Debug)]
pub struct Recording<G> {
    /// Whether the network keeps up with its load.
    pub pending: Option<Pending>,
    /// The flows that were opened since somebody asked, if somebody asks.
    pub opened: Option<Vec<FlowId>>,
    /// The recorder that is called at each hop.
    pub at_each_hop: G,
}

impl<G> Recording<G> {
    /// What all regions have recorded together in a run that ended at this time.
    pub fn join<H>(mut regions: Vec<Recording<G>>, end: Time) -> Recorded
    where
        G: AtEachHop<H>,
    {
        let pending = regions.iter_mut().filter_map(|region| region.pending.take()).reduce(Pending::join);
        let mut recorded = Recorded { pending: pending.map(Pending::into_table), ..Recorded::default() };
        regions.into_iter().for_each(|region| region.at_each_hop.add_to(&mut recorded, end));
        recorded
    }
}

impl<H, G: Observer<H>> Observer<H> for Recording<G> {
    fn flow_due(&mut self, now: Time, flow: &Flow) {
        if let Some(pending) = &mut self.pending {
            pending.arrive(flow);
        }
        self.at_each_hop.flow_due(now, flow);
    }
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        if let Some(opened) = &mut self.opened {
            opened.push(flow.id);
        }
        self.at_each_hop.flow_opened(now, flow);
    }
    #[inline]
    fn packet_injected(&mut self, now: Time, node: NodeId, packet: &Packet<H>) {
        if let Some(pending) = &mut self.pending {
            pending.inject(packet);
        }
        self.at_each_hop.packet_injected(now, node, packet);
    }
    #[inline]
    fn packet_queued(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, queued_bytes: u64) {
        self.at_each_hop.packet_queued(now, link, id, packet, queued_bytes);
    }
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>) {
        self.at_each_hop.packet_sent(now, link, id, packet);
    }
    #[inline]
    fn packet_dropped(&mut self, now: Time, link: LinkId, id: PacketId, packet: &Packet<H>, why: DropReason) {
        self.at_each_hop.packet_dropped(now, link, id, packet, why);
    }
    #[inline]
    fn packet_arrived(&mut self, now: Time, node: NodeId, id: PacketId, packet: &Packet<H>) {
        self.at_each_hop.packet_arrived(now, node, id, packet);
    }
    #[inline]
    fn flow_event(&mut self, now: Time, node: NodeId, event: &Event) {
        self.at_each_hop.flow_event(now, node, event);
    }
}
