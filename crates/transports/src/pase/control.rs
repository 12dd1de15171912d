//! The arbitrators at one switch: its control endpoint (§3.1.2).

use std::collections::{BTreeMap, VecDeque};

use flowloom_core::{Duration, Endpoint, Event, Flow, FlowId, LinkId, NodeId, Packet, Paths, Rate, Time};

use super::arbiter::{Arbiter, Request, Rules, Share};
use super::config::{Config, Spans};
use super::course::{Course, Step};
use super::delegation::{Children, Virtual};
use super::header::{Asking, Header};
use super::messages::Messages;
use super::stamp::{Left, Stamp};
use crate::toolkit::Outbox;

/// What an arbitrator keeps with a flow.
#[derive(Clone, Copy, Default, Debug)]
pub struct Known {
    /// Whether the flow was passed on to the arbitrator above.
    passed_on: bool,
    /// The last request.
    stamp: Stamp,
}

/// A request that is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pending {
    course: Course,
    stop: Stop,
    from: NodeId,
    stamp: Stamp,
    asking: Asking,
    so_far: Share,
}

/// The links of one half of a flow's path that a switch arbitrates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stop {
    own: LinkId,
    /// A virtual link: this switch's share of the next link above.
    delegated: Option<LinkId>,
    /// The arbitrator above these links.
    parent: Option<NodeId>,
}

/// The arbitrators of a switch's links to the switches above it.
///
/// All requests of an instant are recorded before the first one is answered, so the answers do not depend on the order in which
/// simultaneous requests arrive. An answer of an arbitrator above is passed down without state: a switch that has just restarted does it
/// too. State about flows lasts only as long as the flows are refreshed.
pub struct Control {
    node: NodeId,
    paths: Paths,
    messages: Messages,
    rules: Rules,
    pruning_depth: u8,
    processing_delay: Duration,
    /// Whether links of the second level are delegated to switches of the first.
    delegation: Option<Delegation>,
    /// By link, in the direction of the flows.
    arbiters: BTreeMap<LinkId, Arbiter<Known>>,
    /// How many flows all of them know.
    known_flows: usize,
    pending: VecDeque<(Time, Pending)>,
    left: Left,
    out: Outbox<Header>,
}

/// Both sides of delegation: the virtual links of this switch, and its own links that it has delegated.
struct Delegation {
    period: Duration,
    floor: f64,
    /// Virtual links of this switch, by the link that they are shares of.
    lent: BTreeMap<LinkId, Virtual>,
    /// This switch's own links, and what its children demand of them.
    given: BTreeMap<LinkId, Children>,
    /// When to report next, a multiple of the period, so that all children report at once.
    next: Option<Time>,
    /// Reports that are to be answered.
    pending: VecDeque<(Time, NodeId, LinkId, Stamp)>,
}

impl Control {
    pub(super) fn new(config: &Config, node: NodeId, spans: &Spans, paths: Paths, messages: Messages) -> Control {
        let delegation = config.delegation.then(|| Delegation {
            period: spans.delegation,
            floor: config.delegation_floor,
            lent: BTreeMap::new(),
            given: BTreeMap::new(),
            next: None,
            pending: VecDeque::new(),
        });
        Control {
            node,
            paths,
            messages,
            rules: spans.rules(config),
            pruning_depth: config.pruning_depth,
            processing_delay: config.processing_delay.max(Duration::from_ps(1)),
            delegation,
            arbiters: BTreeMap::new(),
            known_flows: 0,
            pending: VecDeque::new(),
            left: Left::new(spans.period),
            out: Outbox::default(),
        }
    }

    /// The arbitrator of a link, in the direction of its flows; `None` if no flow has used it yet.
    pub fn arbiter(&self, link: LinkId) -> Option<&Arbiter<Known>> {
        self.arbiters.get(&link)
    }

    /// The links of this half that this switch arbitrates, `None` if it is not on the path.
    fn stop(&self, course: Course) -> Option<Stop> {
        let [own, above, beyond] = course.climb(&self.paths, self.node);
        let own = own?.link;
        let level = |node: NodeId| self.paths.network().node(node).level;
        let node = |step: Option<Step>| step.map(|step| step.arbitrator);
        match above {
            Some(above) if self.delegation.is_some() && level(self.node) == 1 && level(above.arbitrator) == 2 => {
                Some(Stop { own, delegated: Some(above.link), parent: node(beyond) })
            }
            _ => Some(Stop { own, delegated: None, parent: node(above) }),
        }
    }

    /// Whether a message about a flow is out of date: one that was sent after it was here before. A flow may leave and come back, but an
    /// old message must not bring back a flow that has left.
    fn is_late(&mut self, now: Time, flow: FlowId, stop: Stop, stamp: Stamp) -> bool {
        match self.arbiters.get_mut(&stop.own).and_then(|arbiter| arbiter.state(flow)) {
            Some(known) => stamp.precedes(known.stamp),
            None => self.left.has_left_since(now, flow, stamp),
        }
    }

    /// Notes a request.
    fn record(&mut self, now: Time, course: Course, stop: Stop, stamp: Stamp, request: Request) {
        for link in [Some(stop.own), stop.delegated].into_iter().flatten() {
            let rate = self.paths.network().link(link).rate;
            let rules = self.rules;
            let arbiter = self.arbiters.entry(link).or_insert_with(|| Arbiter::new(rate, rules));
            let before = arbiter.len();
            arbiter.expire(now);
            let place = arbiter.update(now, course.flow, request);
            arbiter.state_at(place).stamp = stamp;
            self.known_flows = self.known_flows - before + arbiter.len();
        }
        if let (Some(link), Some(delegation)) = (stop.delegated, &mut self.delegation) {
            let lent = delegation.lent.entry(link).or_insert_with(|| Virtual::new(&self.paths, link, self.node));
            let capacity = lent.capacity(now, delegation.period);
            self.arbiters.get_mut(&link).expect("it was just used").set_capacity(capacity);
            delegation.next.get_or_insert_with(|| following(now, delegation.period));
        }
    }

    /// The flow is over, or was pruned below.
    fn forget(&mut self, now: Time, course: Course, stamp: Stamp) {
        let Some(stop) = self.stop(course) else { return };
        if self.is_late(now, course.flow, stop, stamp) {
            return;
        }
        self.left.insert(now, course.flow, stamp);
        let known = self.arbiters.get_mut(&stop.own).and_then(|arbiter| arbiter.remove(course.flow));
        self.known_flows -= usize::from(known.is_some());
        if let Some(link) = stop.delegated
            && let Some(arbiter) = self.arbiters.get_mut(&link)
        {
            self.known_flows -= usize::from(arbiter.remove(course.flow).is_some());
        }
        if let (Some(parent), Some(Known { passed_on: true, .. })) = (stop.parent, known) {
            self.out.packets.push_back(self.messages.leave(course, parent, stamp));
        }
    }

    fn answer(&mut self, now: Time, pending: Pending) {
        let Pending { course, stop, from, stamp, asking, so_far } = pending;
        let mut share = so_far;
        for link in [Some(stop.own), stop.delegated].into_iter().flatten() {
            let arbiter = self.arbiters.get_mut(&link).expect("the request was recorded");
            self.known_flows -= arbiter.expire(now);
            // The flow may have left since it asked.
            let Some(here) = arbiter.share(course.flow) else { return };
            share = share.and(here);
        }
        if let Some(parent) = stop.parent {
            let known =
                self.arbiters.get_mut(&stop.own).and_then(|arbiter| arbiter.state(course.flow)).expect("it has a share");
            let before = std::mem::replace(&mut known.passed_on, share.queue < self.pruning_depth);
            if known.passed_on {
                self.out.packets.push_back(self.messages.ask(course, parent, stamp, asking, share));
                return;
            }
            if before {
                self.out.packets.push_back(self.messages.leave(course, parent, stamp));
            }
        }
        self.out.packets.push_back(self.messages.share(course, from, stamp, share));
    }

    /// A child reports what its flows demand of a link of this switch.
    fn handle_report(&mut self, now: Time, child: NodeId, link: LinkId, stamp: Stamp, demand: Rate) {
        let Some(delegation) = &mut self.delegation else { return };
        let Some(children) = Children::of(&self.paths, link, self.node) else { return };
        let known = delegation.given.entry(link).or_insert(children);
        if known.report(now, child, stamp, demand, delegation.period) {
            delegation.pending.push_back((now + self.processing_delay, child, link, stamp));
        }
    }

    /// The parent gives this switch a share of its link.
    fn handle_capacity(&mut self, now: Time, parent: NodeId, link: LinkId, stamp: Stamp, rate: Rate) {
        let Some(delegation) = &mut self.delegation else { return };
        if let Some(lent) = delegation.lent.get_mut(&link)
            && lent.parent == parent
        {
            lent.set_capacity(now, stamp, rate, delegation.period);
            if let Some(arbiter) = self.arbiters.get_mut(&link) {
                arbiter.set_capacity(lent.capacity(now, delegation.period));
            }
        }
    }

    /// Reports the demands of all virtual links that have flows, or had some at the last report.
    fn report(&mut self, now: Time) {
        let Some(delegation) = &mut self.delegation else { return };
        if delegation.next.is_none_or(|next| now < next) {
            return;
        }
        let mut busy = false;
        for (link, lent) in &mut delegation.lent {
            let Some(arbiter) = self.arbiters.get_mut(link) else { continue };
            self.known_flows -= arbiter.expire(now);
            arbiter.set_capacity(lent.capacity(now, delegation.period));
            // As many queues as are passed on upwards, of the whole link: the flows that could get a share of it.
            let most = Rate::from_bps(lent.whole.as_bps().saturating_mul(u64::from(self.pruning_depth)));
            let demand = arbiter.demand(most);
            let was_busy = std::mem::replace(&mut lent.busy, !arbiter.is_empty());
            busy |= lent.busy;
            if lent.busy || was_busy {
                self.out.packets.push_back(self.messages.report(
                    lent.parent,
                    *link,
                    Stamp::new(now, delegation.period),
                    demand,
                ));
            }
        }
        delegation.next = busy.then(|| following(now, delegation.period));
    }

    fn answer_reports(&mut self, now: Time) {
        let Some(delegation) = &mut self.delegation else { return };
        while let Some((_, child, link, stamp)) = delegation.pending.front().copied().filter(|(due, ..)| *due <= now) {
            delegation.pending.pop_front();
            let children = &delegation.given[&link];
            let rate = children.capacity(now, child, delegation.floor, delegation.period);
            self.out.packets.push_back(self.messages.capacity(child, link, stamp, rate));
        }
    }
}

/// The first multiple of a period after `now`.
fn following(now: Time, period: Duration) -> Time {
    Time::ZERO + period * (now.as_ps() / period.as_ps() + 1)
}

impl Endpoint for Control {
    type Header = Header;

    fn open(&mut self, _: Time, flow: &Flow) {
        panic!("flow {} starts at a switch, which takes no part in the workload", flow.id.0);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let course = |half, src, dst| Course { flow: packet.flow, src, dst, half };
        match packet.header {
            Header::Ask { half, src, dst, stamp, asking, queue, rate } => {
                let course = course(half, src, dst);
                if let Some(request) = asking.request()
                    && let Some(stop) = self.stop(course)
                    && !self.is_late(now, packet.flow, stop, stamp)
                {
                    self.record(now, course, stop, stamp, request);
                    let so_far = Share { queue, rate: rate.into() };
                    let pending = Pending { course, stop, from: packet.src, stamp, asking, so_far };
                    self.pending.push_back((now + self.processing_delay, pending));
                }
            }
            Header::Share { half, src, dst, stamp, queue, rate } => {
                let course = course(half, src, dst);
                if let Some(child) = course.child(&self.paths, self.node) {
                    self.out.packets.push_back(self.messages.share(course, child, stamp, Share { queue, rate: rate.into() }));
                }
            }
            Header::Leave { half, src, dst, stamp } => self.forget(now, course(half, src, dst), stamp),
            Header::Report { link, stamp, demand } => self.handle_report(now, packet.src, link, stamp, demand.into()),
            Header::Capacity { link, stamp, rate } => self.handle_capacity(now, packet.src, link, stamp, rate.into()),
            Header::Data { .. } | Header::Probe { .. } | Header::Refresh { .. } | Header::Ack { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        let due = self.pending.partition_point(|(due, _)| *due <= now);
        let mut batch: Vec<Pending> = self.pending.drain(..due).map(|(_, pending)| pending).collect();
        // Messages leave in an order that does not depend on that of the requests either.
        batch.sort_by_key(|pending| (pending.course, pending.from));
        for pending in batch {
            self.answer(now, pending);
        }
        self.answer_reports(now);
        self.report(now);
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let answer = self.pending.front().map(|(due, _)| *due);
        let delegation = self.delegation.as_ref().and_then(|delegation| {
            let reports = delegation.pending.front().map(|(due, ..)| *due);
            reports.into_iter().chain(delegation.next).min()
        });
        answer.into_iter().chain(delegation).min()
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// How many flows its arbitrators know, those of virtual links included. A flow on two links counts twice.
    fn known_flows(&self) -> usize {
        debug_assert_eq!(self.known_flows, self.arbiters.values().map(Arbiter::len).sum::<usize>());
        self.known_flows
    }
}
