//! The flows that are being sent and received.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use flowloom_core::{FlowId, NodeId, Packet, Time};

use crate::flow_ids::{IdSpace, Names, PAGE, page_of, place_of};

/// The most payload that a datagram has.
const ZEROS_BYTES: usize = 1 << 16;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// What a flow from this node carries.
#[derive(Debug)]
pub enum Payload {
    /// These bytes.
    Data(Vec<u8>),
    /// This many zeros, which take no memory.
    Zeros(u64),
}

impl Payload {
    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        match self {
            Payload::Data(data) => data.len() as u64,
            Payload::Zeros(bytes) => *bytes,
        }
    }

    /// Some of them; `None` if there are none there.
    fn part(&self, start: u64, bytes: usize) -> Option<&[u8]> {
        let end = start.checked_add(bytes as u64).filter(|end| *end <= self.bytes())?;
        match self {
            Payload::Data(data) => data.get(start as usize..end as usize),
            Payload::Zeros(_) => ZEROS.get(..bytes),
        }
    }
}

/// What a node has sent of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// When the endpoint was given the flow; `None` if it was not, because there was no session with the destination.
    pub started: Option<Time>,
    /// Data packets, where each transmission counts.
    pub packets: u64,
    /// Of these, those whose payload had been sent before.
    pub retransmissions: u32,
    /// How often its retransmission timer expired.
    pub timeouts: u32,
    /// How many of these timeouts came directly after another one without progress, as the second of a series.
    pub second_timeouts: u32,
}

/// A flow from this node.
#[derive(Debug)]
struct Out {
    dst: NodeId,
    payload: Payload,
    sent: Sent,
}

/// The flows that this node sends, until they are acknowledged or given up.
#[derive(Default, Debug)]
pub struct Outgoing {
    flows: HashMap<FlowId, Out>,
    /// Flows that were given up while the endpoint had them. It is not told, so its packets of them are not sent.
    cut_off: HashSet<FlowId>,
}

impl Outgoing {
    /// How many flows are open.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
    /// The destination of an open flow.
    pub fn destination(&self, flow: FlowId) -> Option<NodeId> {
        self.flows.get(&flow).map(|out| out.dst)
    }
    /// Whether the endpoint still has a flow that was given up.
    pub fn is_cut_off(&self, flow: FlowId) -> bool {
        self.cut_off.contains(&flow)
    }
    /// Adds a flow with its data.
    pub fn insert(&mut self, flow: FlowId, dst: NodeId, payload: Payload) {
        self.flows.insert(flow, Out { dst, payload, sent: Sent::default() });
    }
    /// Notes that the endpoint has been given a flow.
    pub fn start(&mut self, flow: FlowId, now: Time) {
        if let Some(out) = self.flows.get_mut(&flow) {
            out.sent.started = Some(now);
        }
    }
    /// Counts a packet that is sent.
    pub fn count<H>(&mut self, packet: &Packet<H>) {
        if packet.payload_bytes > 0
            && let Some(out) = self.flows.get_mut(&packet.flow)
        {
            out.sent.packets += 1;
            out.sent.retransmissions += u32::from(packet.retransmission);
        }
    }
    /// Counts a timeout of a flow, the `in_a_row`th without progress.
    pub fn time_out(&mut self, flow: FlowId, in_a_row: u32) {
        if let Some(out) = self.flows.get_mut(&flow) {
            out.sent.timeouts += 1;
            out.sent.second_timeouts += u32::from(in_a_row == 2);
        }
    }
    /// Removes a flow that the endpoint no longer has. Returns its destination, and what was sent of it.
    pub fn remove(&mut self, flow: FlowId) -> Option<(NodeId, Sent)> {
        self.cut_off.remove(&flow);
        self.flows.remove(&flow).map(|out| (out.dst, out.sent))
    }
    /// Removes a flow that the endpoint still has, if it was given the flow. Returns its destination, and what was sent of it.
    pub fn cut_off(&mut self, flow: FlowId) -> Option<(NodeId, Sent)> {
        let (dst, sent) = self.remove(flow)?;
        if sent.started.is_some() {
            self.cut_off.insert(flow);
        }
        Some((dst, sent))
    }
    /// The open flows, in order of their ids, and what was sent of each.
    pub fn open(&self) -> Vec<(FlowId, Sent)> {
        self.ids(|_| true).into_iter().map(|flow| (flow, self.flows[&flow].sent)).collect()
    }
    /// The open flows to a node, in order of their ids.
    pub fn to(&self, peer: NodeId) -> Vec<FlowId> {
        self.ids(|out| out.dst == peer)
    }
    /// Those of them that the endpoint has been given.
    pub fn begun(&self, peer: NodeId) -> Vec<FlowId> {
        self.ids(|out| out.dst == peer && out.sent.started.is_some())
    }
    fn ids(&self, of: impl Fn(&Out) -> bool) -> Vec<FlowId> {
        let mut flows: Vec<FlowId> = self.flows.iter().filter(|(_, out)| of(out)).map(|(flow, _)| *flow).collect();
        flows.sort_unstable();
        flows
    }
    /// A packet's payload. `None` if the flow is no longer open, or does not have these bytes.
    pub fn payload<H>(&self, packet: &Packet<H>) -> Option<&[u8]> {
        if packet.payload_bytes == 0 {
            return Some(&[]);
        }
        self.flows.get(&packet.flow)?.payload.part(packet.offset.get(), packet.payload_bytes as usize)
    }
}

/// How many unfinished flows one node may have here. Packets of further ones are lost, so they wait.
const FLOWS_PER_PEER: usize = 1 << 16;
/// Of how many flows the reason why they were refused is remembered.
const REASONS_MAX: usize = 1 << 16;

/// Which bytes of a flow have come.
#[derive(Default, Debug)]
struct Coverage {
    /// All bytes before this one.
    front: u64,
    /// The ranges after holes: end by start.
    ahead: BTreeMap<u64, u64>,
    /// Whether reported ranges overlap or were not in their packet.
    broken: bool,
}

impl Coverage {
    /// How many bytes have come.
    fn bytes(&self) -> u64 {
        self.front + self.ahead.iter().map(|(start, end)| end - start).sum::<u64>()
    }

    fn insert(&mut self, start: u64, end: u64) {
        if start != self.front {
            self.broken |= start < self.front || self.ahead.insert(start, end).is_some();
            return;
        }
        self.front = end;
        while let Some(next) = self.ahead.first_entry()
            && *next.key() <= self.front
        {
            self.broken |= *next.key() < self.front;
            self.front = next.remove();
        }
    }
}

/// What is remembered of the flows with ids of one page for as long as a session lasts, so that what comes late does not look like a new flow. A process uses no id twice.
#[derive(Debug)]
struct Page {
    begun: Bits,
    kept: Bits,
    given_up: Bits,
}

type Bits = [u64; PAGE / 64];

const NO_BITS: Bits = [0; PAGE / 64];

fn is_set(bits: &Bits, flow: FlowId) -> bool {
    bits[place_of(flow) / 64] >> (place_of(flow) % 64) & 1 == 1
}

fn set(bits: &mut Bits, flow: FlowId) {
    bits[place_of(flow) / 64] |= 1 << (place_of(flow) % 64);
}

/// The flows that this node receives, until they end.
#[derive(Debug)]
pub struct Incoming {
    space: IdSpace,
    /// Under which ids the endpoint knows them.
    names: Names,
    flows: HashMap<FlowId, Coverage>,
    by_peer: HashMap<NodeId, usize>,
    pages: HashMap<u32, Box<Page>>,
    /// Why flows were refused, and which of them, oldest first.
    reasons: HashMap<FlowId, String>,
    order: VecDeque<FlowId>,
}

/// What becomes of a packet of a flow to this node.
#[derive(PartialEq, Eq, Debug)]
pub enum Admission<'a> {
    /// The endpoint gets it.
    Taken {
        /// What the endpoint calls the flow.
        here: FlowId,
        /// Whether the flow is new.
        new: bool,
    },
    /// It is lost: its source has too many flows here.
    Full,
    /// Its flow was refused for this reason.
    Refused(&'a str),
}

impl Incoming {
    /// Those of node `me`.
    pub fn new(space: IdSpace, me: NodeId) -> Incoming {
        Incoming {
            space,
            names: Names::new(space, me),
            flows: HashMap::new(),
            by_peer: HashMap::new(),
            pages: HashMap::new(),
            reasons: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Decides about a packet from the flow's source.
    pub fn admit(&mut self, flow: FlowId) -> Admission<'_> {
        let Some(here) = self.names.admit(flow) else {
            return Admission::Refused("its destination has no ids left for flows, and must be restarted");
        };
        if self.flows.contains_key(&flow) {
            return Admission::Taken { here, new: false };
        }
        let page = page(&mut self.pages, flow);
        if is_set(&page.begun, flow) {
            // The endpoint acknowledges again what is kept, and forgets what was given up.
            return if is_set(&page.kept, flow) || is_set(&page.given_up, flow) {
                Admission::Taken { here, new: false }
            } else {
                Admission::Refused(self.reasons.get(&flow).map_or("it was refused", String::as_str))
            };
        }
        let count = self.by_peer.entry(self.space.source_of(flow)).or_default();
        if *count == FLOWS_PER_PEER {
            return Admission::Full;
        }
        *count += 1;
        set(&mut page.begun, flow);
        self.flows.insert(flow, Coverage::default());
        Admission::Taken { here, new: true }
    }

    /// What the endpoint calls another node's flow; `None` if it does not know it.
    pub fn here(&self, flow: FlowId) -> Option<FlowId> {
        let begun = self.pages.get(&page_of(flow)).is_some_and(|page| is_set(&page.begun, flow));
        self.names.here(flow).filter(|_| begun)
    }

    /// The flow that the endpoint calls so. `None` if its source was restarted since.
    pub fn there(&self, flow: FlowId) -> Option<FlowId> {
        self.names.there(flow)
    }

    /// Notes that bytes of a flow have come. `None` means that the endpoint reported bytes that were not in the packet; the flow then never becomes complete.
    /// Returns whether the flow is open.
    pub fn insert(&mut self, flow: FlowId, range: Option<(u64, u64)>) -> bool {
        let Some(coverage) = self.flows.get_mut(&flow) else { return false };
        match range {
            Some((start, end)) => coverage.insert(start, end),
            None => coverage.broken = true,
        }
        true
    }

    /// Whether the endpoint may say something about another node's flow: it is open, or kept.
    pub fn is_answered(&self, flow: FlowId) -> bool {
        self.flows.contains_key(&flow) || self.pages.get(&page_of(flow)).is_some_and(|page| is_set(&page.kept, flow))
    }

    /// Whether a flow is open.
    pub fn is_open(&self, flow: FlowId) -> bool {
        self.flows.contains_key(&flow)
    }

    /// The size of a flow of which all bytes have come; `None` if it has a hole or an overlap, or is not open.
    pub fn size(&self, flow: FlowId) -> Option<u64> {
        self.flows.get(&flow).filter(|coverage| coverage.ahead.is_empty() && !coverage.broken).map(|coverage| coverage.front)
    }

    /// Ends a flow, which is kept, or `refused` for a reason. Returns how many of its bytes have come; `None` if it was not open.
    pub fn end(&mut self, flow: FlowId, refused: Option<String>) -> Option<u64> {
        let arrived = self.close(flow)?;
        match refused {
            None => set(&mut page(&mut self.pages, flow).kept, flow),
            Some(reason) => self.remember(flow, reason),
        }
        Some(arrived)
    }

    /// Ends a flow that its source has given up, perhaps before any of its packets came. Returns how many of its bytes have come; `None` if it was not open.
    pub fn give_up(&mut self, flow: FlowId) -> Option<u64> {
        let page = page(&mut self.pages, flow);
        set(&mut page.begun, flow);
        set(&mut page.given_up, flow);
        self.close(flow)
    }

    fn close(&mut self, flow: FlowId) -> Option<u64> {
        let arrived = self.flows.remove(&flow)?.bytes();
        *self.by_peer.get_mut(&self.space.source_of(flow)).expect("it was counted") -= 1;
        Some(arrived)
    }

    fn remember(&mut self, flow: FlowId, reason: String) {
        if self.order.len() == REASONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.reasons.remove(&oldest);
        }
        self.order.push_back(flow);
        self.reasons.insert(flow, reason);
    }

    /// The open flows, in order of their ids, and how many bytes of each have come.
    pub fn open(&self) -> Vec<(FlowId, u64)> {
        let mut flows: Vec<(FlowId, u64)> = self.flows.iter().map(|(flow, coverage)| (*flow, coverage.bytes())).collect();
        flows.sort_unstable();
        flows
    }

    /// Forgets the flows of a node, all of which have ended. A new process of it may use their ids again.
    pub fn forget(&mut self, peer: NodeId) {
        let space = self.space;
        self.names.forget(peer);
        self.pages.retain(|page, _| space.source_of_page(*page) != peer);
        self.reasons.retain(|flow, _| space.source_of(*flow) != peer);
        self.order.retain(|flow| space.source_of(*flow) != peer);
    }

    /// The open flows from a node, in order of their ids.
    pub fn from(&self, peer: NodeId) -> Vec<FlowId> {
        let mut flows: Vec<FlowId> = self.flows.keys().copied().filter(|flow| self.space.source_of(*flow) == peer).collect();
        flows.sort_unstable();
        flows
    }
}

/// The page of a flow.
fn page(pages: &mut HashMap<u32, Box<Page>>, flow: FlowId) -> &mut Page {
    pages.entry(page_of(flow)).or_insert_with(|| Box::new(Page { begun: NO_BITS, kept: NO_BITS, given_up: NO_BITS }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Those of the last of 4096 hosts, so that the low 20 bits of an id are the count.
    fn incoming() -> Incoming {
        Incoming::new(IdSpace::new(4096), NodeId(4095))
    }

    /// Whether a packet goes to the endpoint, and opens its flow.
    fn taken(incoming: &mut Incoming, flow: FlowId) -> Option<bool> {
        match incoming.admit(flow) {
            Admission::Taken { here, new } => {
                assert_eq!(here, flow, "no other session has used the id");
                Some(new)
            }
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_flow(pieces in prop::collection::vec(1_u64..20, 1..50), order in prop::collection::vec(any::<u32>(), 50)) {
            let ends: Vec<u64> = pieces.iter().scan(0, |end, piece| { *end += piece; Some(*end) }).collect();
            let mut ranges: Vec<(u64, u64)> = ends.iter().zip(&pieces).map(|(end, piece)| (end - piece, *end)).collect();
            ranges.sort_by_key(|(start, _)| order[*start as usize % 50]);
            let mut incoming = incoming();
            prop_assert_eq!(taken(&mut incoming, FlowId(1)), Some(true));
            ranges.iter().for_each(|range| assert!(incoming.insert(FlowId(1), Some(*range))));
            prop_assert_eq!(incoming.size(FlowId(1)), ends.last().copied());
        }

        #[test]
        fn a_missing_or_repeated_piece_is_detected(pieces in 2_u64..20, wrong in 0_u64..20, missing: bool) {
            // The size of the flow is not known here, so a missing last piece cannot be detected.
            let wrong = if missing { wrong % (pieces - 1) } else { wrong % pieces };
            let mut incoming = incoming();
            incoming.admit(FlowId(1));
            for n in 0..pieces {
                let copies = match (n == wrong, missing) {
                    (false, _) => 1,
                    (true, true) => 0,
                    (true, false) => 2,
                };
                for _ in 0..copies {
                    incoming.insert(FlowId(1), Some((n * 3, n * 3 + 3)));
                }
            }
            prop_assert_eq!(incoming.size(FlowId(1)), None);
        }
    }

    #[test]
    fn overlaps_and_bytes_that_never_arrived_break_a_flow() {
        let mut incoming = incoming();
        incoming.admit(FlowId(1));
        incoming.admit(FlowId(2));
        incoming.insert(FlowId(1), Some((2, 4)));
        incoming.insert(FlowId(1), Some((0, 3)));
        incoming.insert(FlowId(2), Some((0, 2)));
        incoming.insert(FlowId(2), None);
        assert_eq!((incoming.size(FlowId(1)), incoming.size(FlowId(2)), incoming.size(FlowId(3))), (None, None, None));
    }

    #[test]
    fn a_late_packet_does_not_open_a_flow_again() {
        let mut incoming = incoming();
        for (flow, end) in [(FlowId(1), None), (FlowId(2), Some("the disk is full".to_owned()))] {
            assert_eq!(taken(&mut incoming, flow), Some(true));
            assert!(incoming.is_answered(flow));
            assert_eq!(incoming.end(flow, end.clone()), Some(0));
            assert_eq!(incoming.end(flow, end), None, "it has ended");
        }
        assert_eq!(taken(&mut incoming, FlowId(3)), Some(true));
        // The source may give up flows that have ended, are open, or have sent nothing that arrived.
        assert_eq!([1, 3, 4].map(|id| incoming.give_up(FlowId(id))), [None, Some(0), None]);
        // However many have ended since: the endpoint acknowledges again what is kept, and hears of what was given up.
        for flow in (10..REASONS_MAX as u32 + 10).map(FlowId) {
            incoming.admit(flow);
            incoming.end(flow, Some("another reason".to_owned()));
        }
        assert_eq!([1, 3, 4].map(|id| taken(&mut incoming, FlowId(id))), [Some(false); 3]);
        assert_eq!(incoming.admit(FlowId(2)), Admission::Refused("it was refused"));
        assert_eq!(incoming.admit(FlowId(99)), Admission::Refused("another reason"));
        assert_eq!([1, 2, 3, 4].map(|id| incoming.is_answered(FlowId(id))), [true, false, false, false]);
        assert!(!incoming.insert(FlowId(2), Some((0, 1))) && incoming.from(NodeId(0)).is_empty());
    }

    #[test]
    fn a_new_process_of_a_node_has_its_ids_to_itself() {
        let mut incoming = incoming();
        let (old, other) = (FlowId(5), FlowId(1 << 20));
        for flow in [old, other] {
            assert_eq!(taken(&mut incoming, flow), Some(true));
            incoming.end(flow, None);
        }
        incoming.forget(NodeId(0));
        assert_eq!((incoming.is_answered(old), incoming.is_answered(other)), (false, true));
        assert_eq!((incoming.there(old), incoming.there(other), incoming.here(old)), (None, Some(other), None));
        let Admission::Taken { here, new: true } = incoming.admit(old) else { panic!("it is new") };
        assert_ne!(here, old, "the endpoint remembers the old flow");
        assert_eq!((incoming.here(old), incoming.there(here), incoming.there(old)), (Some(here), Some(old), None));
    }

    #[test]
    fn a_peer_has_a_limited_number_of_flows() {
        let mut incoming = incoming();
        let of = |node: u32, count: u32| FlowId(node << 20 | count);
        assert!((0..FLOWS_PER_PEER as u32).all(|count| taken(&mut incoming, of(1, count)) == Some(true)));
        assert_eq!(incoming.admit(of(1, FLOWS_PER_PEER as u32)), Admission::Full);
        assert_eq!(taken(&mut incoming, of(2, 0)), Some(true), "others are not affected");
        incoming.end(of(1, 5), None);
        assert_eq!(taken(&mut incoming, of(1, FLOWS_PER_PEER as u32)), Some(true));
    }

    #[test]
    fn an_empty_flow_is_complete_without_a_piece() {
        let mut incoming = incoming();
        incoming.admit(FlowId(1));
        assert_eq!(incoming.size(FlowId(1)), Some(0));
    }

    #[test]
    fn zeros_have_an_end_and_take_no_memory() {
        let zeros = Payload::Zeros(1 << 50);
        assert_eq!(zeros.part((1 << 50) - 3, 3), Some(&[0; 3][..]));
        assert_eq!((zeros.part((1 << 50) - 3, 4), zeros.part(u64::MAX, 1)), (None, None));
        assert_eq!(Payload::Data(vec![1, 2, 3]).part(1, 2), Some(&[2, 3][..]));
    }

    #[test]
    fn what_has_come_of_an_unfinished_flow_is_known() {
        let mut incoming = incoming();
        incoming.admit(FlowId(7));
        incoming.insert(FlowId(7), Some((0, 4)));
        incoming.insert(FlowId(7), Some((10, 13)));
        assert_eq!(incoming.open(), [(FlowId(7), 7)]);
        assert_eq!(incoming.end(FlowId(7), Some("the node ends".to_owned())), Some(7));
    }

    #[test]
    fn only_flows_that_the_endpoint_still_has_are_remembered() {
        let mut outgoing = Outgoing::default();
        for id in 1..4 {
            outgoing.insert(FlowId(id), NodeId(4), Payload::Zeros(9));
        }
        outgoing.start(FlowId(2), Time::ZERO);
        outgoing.start(FlowId(3), Time::ZERO);
        assert_eq!((outgoing.to(NodeId(4)).len(), outgoing.begun(NodeId(4))), (3, vec![FlowId(2), FlowId(3)]));
        let sent = Sent { started: Some(Time::ZERO), ..Sent::default() };
        assert_eq!([1, 1].map(|id| outgoing.cut_off(FlowId(id))), [Some((NodeId(4), Sent::default())), None]);
        assert_eq!(
            (outgoing.cut_off(FlowId(2)), outgoing.remove(FlowId(3))),
            (Some((NodeId(4), sent)), Some((NodeId(4), sent)))
        );
        assert_eq!([1, 2, 3].map(|id| outgoing.is_cut_off(FlowId(id))), [false, true, false]);
        assert_eq!(outgoing.len(), 0);
    }
}
