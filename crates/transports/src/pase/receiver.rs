//! The receiving end of a host's flows, and the destination's half of their arbitration.

use flowloom_core::{Ecn, FlowId, NodeId, Packet, Paths, Site, Time};

use super::arbiter::{Arbiter, Request, Share};
use super::config::{Arbitration, Spans};
use super::course::{Course, Half};
use super::header::{Acked, Asking, Header};
use super::messages::Messages;
use super::stamp::Stamp;
use super::{Config, Outbox};
use crate::tcp::Blocks;
use crate::toolkit::{Framing, Reassembly};

/// What the arbitrator of the downlink keeps with a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The arbitrator above the host, once it was looked up.
    parent: Option<Option<NodeId>>,
    /// Whether it knows the flow.
    asked: bool,
    /// When it was last asked.
    last_ask: Option<Time>,
    /// When it was asked first since its last answer.
    waiting: Option<Time>,
    /// Its last answer, and when it was asked for that. Answers may overtake each other.
    upper: Option<(Time, Share)>,
}

/// The part of a downlink that arbitration may take for the flows that wait for it.
const MESSAGES_SHARE: u64 = 8;

/// All flows that this node receives, and the arbitrator of its downlink.
pub(super) struct Receiver {
    node: NodeId,
    framing: Framing,
    messages: Messages,
    paths: Paths,
    spans: Spans,
    end_to_end: bool,
    pruning_depth: u8,
    lowest_class: u8,
    /// How many flows can ask once per period: see [`Receiver::patience`].
    crowd: usize,
    reassembly: Reassembly,
    downlink: Arbiter<Known>,
}

impl Receiver {
    pub fn new(config: &Config, site: &Site<'_>, spans: Spans, paths: Paths, framing: Framing, messages: Messages) -> Receiver {
        let line = site.line_rate(); // both directions of a host's link have one rate
        let end_to_end = config.arbitration == Arbitration::EndToEnd;
        let each = site.wire.control.get() + if end_to_end { messages.size().get() } else { 0 };
        let most = line.bytes_in(spans.period).get() / MESSAGES_SHARE;
        Receiver {
            node: site.node,
            framing,
            messages,
            paths,
            end_to_end,
            pruning_depth: config.pruning_depth,
            lowest_class: config.lowest_class(),
            crowd: usize::try_from(most / each).unwrap_or(usize::MAX).max(1),
            reassembly: Reassembly::new(config.time_wait),
            downlink: Arbiter::new(line, spans.rules(config)),
            spans,
        }
    }

    /// How many flows the arbitrator of the downlink knows at `now`.
    pub fn known_flows(&mut self, now: Time) -> usize {
        self.downlink.expire(now);
        self.downlink.len()
    }

    pub fn handle_data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        packets: u32,
        asking: Asking,
        out: &mut Outbox,
    ) {
        let Some(arrival) = self.reassembly.receive(now, packet, number, packets, &mut out.events) else { return };
        let cumulative = arrival.cumulative;
        let blocks = match arrival.arrived {
            Some(set) if set.len() > cumulative => Blocks::answering(number, cumulative, set),
            _ => Blocks::NONE,
        };
        let complete = arrival.arrived.is_none();
        let acked = if packet.ecn == Ecn::Marked { Acked::Marked } else { Acked::Data };
        self.acknowledge(now, packet, acked, cumulative, blocks, asking, complete, out);
    }

    /// A probe, or a request for the destination's share.
    pub fn handle_query(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        acked: Acked,
        packets: u32,
        asking: Asking,
        out: &mut Outbox,
    ) {
        let arrival = self.reassembly.query(now, packet.flow, packets);
        let cumulative = arrival.cumulative;
        let blocks = match arrival.arrived {
            Some(set) if set.len() > cumulative => Blocks::new(cumulative, set.islands()),
            _ => Blocks::NONE,
        };
        let complete = cumulative == packets;
        self.acknowledge(now, packet, acked, cumulative, blocks, asking, complete, out);
    }

    #[allow(clippy::too_many_arguments)] // the fields of the answer
    fn acknowledge(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        acked: Acked,
        cumulative: u32,
        blocks: Blocks,
        asking: Asking,
        complete: bool,
        out: &mut Outbox,
    ) {
        let course = Course { flow: packet.flow, src: packet.src, dst: self.node, half: Half::Destination };
        let (Share { queue, rate }, patience) = match asking.request() {
            Some(request) if !complete => self.arbitrate(now, course, request, out),
            Some(_) => {
                self.forget(now, course, out);
                (Share::FREE, 1)
            }
            None => (Share::FREE, 1),
        };
        let header = Header::Ack { acked, patience, queue, rate: rate.into(), cumulative, blocks };
        out.packets.push_back(self.framing.control(packet.flow, packet.src, header));
    }

    /// After how many periods without data the flow in a place asks again. There are two reasons for more than one:
    ///
    /// * The flows before it demand k times the downlink's capacity, and k exceeds the number of queues. Its turn comes no earlier than in k
    ///   periods. So the n flows that wait ask about ln n times per period. When each of them asked once per period, requests took an eighth of
    ///   the link with 40 flows, and all of it with 300.
    /// * There are many small flows, which demand little. Requests and the answers of the arbitrator above may take one part in
    ///   [`MESSAGES_SHARE`] of the link, because they go before all data. Without this, 97 flows of one packet took more than a link of 10 Gb/s
    ///   whose round trip was 4.7 us, and none of them ended.
    fn patience(&self, place: u32, queue: u8) -> u8 {
        let crowds = u8::try_from(self.downlink.len().div_ceil(self.crowd)).unwrap_or(u8::MAX);
        let turn = if queue == self.lowest_class { self.downlink.backlog_at(place) } else { 0 };
        if turn > self.lowest_class { crowds.max(turn) } else { crowds }
    }

    /// The share of the destination's half, and [`Receiver::patience`]. Once per period, the flow also asks the arbitrator above, and gets its
    /// answer with a later acknowledgement.
    fn arbitrate(&mut self, now: Time, course: Course, request: Request, out: &mut Outbox) -> (Share, u8) {
        self.downlink.expire(now);
        let place = self.downlink.update(now, course.flow, request);
        let here = self.downlink.share_at(place);
        let patience = self.patience(place, here.queue);
        let Receiver { node, paths, end_to_end, spans, pruning_depth, messages, downlink, .. } = self;
        if patience > 1 {
            downlink.extend(now, place, patience);
        }
        let known = downlink.state_at(place);
        let parent = *known.parent.get_or_insert_with(|| if *end_to_end { course.parent(paths, *node) } else { None });
        let Some(parent) = parent else { return (here, patience) };
        if known.last_ask.is_none_or(|last| now - last >= spans.period) {
            known.last_ask = Some(now);
            let stamp = Stamp::new(now, spans.period);
            if here.queue < *pruning_depth {
                known.asked = true;
                known.waiting.get_or_insert(now);
                out.packets.push_back(messages.ask(course, parent, stamp, request.into(), Share::FREE));
            } else {
                (known.waiting, known.upper) = (None, None);
                if std::mem::take(&mut known.asked) {
                    out.packets.push_back(messages.leave(course, parent, stamp));
                }
            }
        }
        // The last answer counts until the next one comes. A flow in a low queue sends one packet per round trip, and so asks that seldom:
        // if its answers were used for a limited time, most of its packets would find none, and it would be told that the path is free.
        let silent = known.waiting.is_some_and(|since| now - since >= spans.answer_timeout);
        let share = match known.upper {
            Some((_, share)) if !silent => here.and(share),
            _ => here,
        };
        (share, patience)
    }

    /// An arbitrator has answered for the destination's half of a flow's path.
    pub fn handle_share(&mut self, now: Time, from: NodeId, flow: FlowId, stamp: Stamp, share: Share) {
        if let Some(known) = self.downlink.state(flow)
            && let (true, Some(last)) = (known.asked, known.last_ask)
            && known.parent == Some(Some(from))
        {
            let asked = stamp.time(last, self.spans.period);
            if now - asked < self.spans.answer_timeout && known.upper.is_none_or(|(before, _)| before <= asked) {
                known.waiting = None;
                known.upper = Some((asked, share));
            }
        }
    }

    /// The flow is complete.
    fn forget(&mut self, now: Time, course: Course, out: &mut Outbox) {
        if let Some(Known { parent: Some(Some(parent)), asked: true, .. }) = self.downlink.remove(course.flow) {
            out.packets.push_back(self.messages.leave(course, parent, Stamp::new(now, self.spans.period)));
        }
    }
}
