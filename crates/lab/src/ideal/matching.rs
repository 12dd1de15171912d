//! The greedy preemptive matching of senders and receivers.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use flowloom_core::{Duration, Flow, Network, Time, WireProfile};

use super::link::{Job, Key, earlier};
use super::{Order, UnloadedTimes};

/// When each flow finishes at its receiver. A flow has both its access links to itself while it is served.
pub(super) fn run(network: &Network, wire: &WireProfile, flows: &[Flow], order: Order) -> Vec<Time> {
    let mut unloaded = UnloadedTimes::new(network, wire);
    let (jobs, latencies): (Vec<Pairing>, Vec<Duration>) = flows
        .iter()
        .map(|flow| {
            let service = unloaded.at_sender(flow).service.max(unloaded.at_receiver(flow).service);
            let latency = unloaded.received(flow) - service;
            let job = Job { release: flow.start, service, due: earlier(flow.deadline, latency) };
            (Pairing { job, ends: [flow.src.index(), network.nics() + flow.dst.index()] }, latency)
        })
        .unzip();
    let mut finish = Matching::new(&jobs, 2 * network.nics(), order).run();
    for (at, latency) in finish.iter_mut().zip(latencies) {
        *at += latency;
    }
    finish
}

/// A flow and the two directions of access links that it needs, each by its number: senders' first, then receivers'.
struct Pairing {
    job: Job,
    ends: [usize; 2],
}

/// The matching between two events. In the order, a flow in service only moves forward and a waiting flow does not move. So greedy
/// matching would choose the same flows again until a flow starts or finishes, and then only the ends that became free need to look
/// for another flow. These looks are handled in the order of the flows that they find. This gives the same matching as visiting all
/// flows in order: a chosen flow displaces only flows that come later in the order, so no later choice displaces a chosen flow.
struct Matching<'a> {
    pairings: &'a [Pairing],
    order: Order,
    /// For each end, the flows that wait for it.
    waiting: Vec<BTreeSet<Key>>,
    /// For each end, the flow that it serves.
    served: Vec<Option<u32>>,
    /// When each served or finished flow finishes if no other flow displaces it.
    finish: Vec<Time>,
    /// Served flows in the order in which they finish. An entry that differs from `finish` is stale, because its flow was displaced.
    ending: BinaryHeap<Reverse<(Time, u32)>>,
    /// Flows that may displace the flows that their ends serve, first in the order first, each with the end that looked for it.
    looks: BinaryHeap<Reverse<(Key, usize)>>,
}

impl<'a> Matching<'a> {
    fn new(pairings: &'a [Pairing], ends: usize, order: Order) -> Matching<'a> {
        Matching {
            pairings,
            order,
            waiting: vec![BTreeSet::new(); ends],
            served: vec![None; ends],
            finish: vec![Time::MAX; pairings.len()],
            ending: BinaryHeap::new(),
            looks: BinaryHeap::new(),
        }
    }

    fn run(mut self) -> Vec<Time> {
        let mut arrivals: Vec<u32> = (0..self.pairings.len() as u32).collect();
        arrivals.sort_by_key(|flow| self.pairings[*flow as usize].job.release);
        let mut arrivals = arrivals.into_iter().peekable();
        loop {
            let arrival = arrivals.peek().map_or(Time::MAX, |flow| self.pairings[*flow as usize].job.release);
            let ending = self.ending.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
            let now = arrival.min(ending);
            if now == Time::MAX {
                return self.finish;
            }
            while let Some(Reverse((at, flow))) = self.ending.peek().copied()
                && at == now
            {
                self.ending.pop();
                self.end(now, flow);
            }
            while let Some(flow) = arrivals.next_if(|flow| self.pairings[*flow as usize].job.release == now) {
                let Pairing { job, ends } = &self.pairings[flow as usize];
                self.wait(job.key(self.order, job.service, flow));
                self.looks.push(Reverse((job.key(self.order, job.service, flow), ends[0])));
            }
            self.settle(now);
        }
    }

    fn end(&mut self, now: Time, flow: u32) {
        let ends = self.pairings[flow as usize].ends;
        if self.served[ends[0]] != Some(flow) || self.finish[flow as usize] != now {
            return; // displaced since then
        }
        for end in ends {
            self.served[end] = None;
        }
        for end in ends {
            self.look(now, end);
        }
    }

    fn wait(&mut self, key: Key) {
        for end in self.pairings[key.2 as usize].ends {
            self.waiting[end].insert(key);
        }
    }

    /// Whether the flow comes before all flows that its ends serve.
    fn beats(&self, now: Time, key: &Key) -> bool {
        let comes_before = |served: u32| {
            let remaining = self.finish[served as usize] - now;
            *key < self.pairings[served as usize].job.key(self.order, remaining, served)
        };
        self.pairings[key.2 as usize].ends.iter().all(|end| self.served[*end].is_none_or(comes_before))
    }

    /// Finds the first flow that a free end could serve.
    fn look(&mut self, now: Time, end: usize) {
        if let Some(key) = self.waiting[end].iter().find(|key| self.beats(now, key)) {
            self.looks.push(Reverse((*key, end)));
        }
    }

    fn settle(&mut self, now: Time) {
        while let Some(Reverse((key, end))) = self.looks.pop() {
            if self.waiting[end].contains(&key) && self.beats(now, &key) {
                self.serve(now, key);
            } else if self.served[end].is_none() {
                self.look(now, end);
            }
        }
    }

    /// Gives a waiting flow both its ends. The other ends of the flows that it displaces look for another flow.
    fn serve(&mut self, now: Time, key: Key) {
        let (_, remaining, flow) = key;
        let ends = self.pairings[flow as usize].ends;
        let mut freed = [None; 2];
        for (index, end) in ends.into_iter().enumerate() {
            self.waiting[end].remove(&key);
            if let Some(loser) = self.served[end].replace(flow) {
                let Pairing { job, ends: both } = &self.pairings[loser as usize];
                self.wait(job.key(self.order, self.finish[loser as usize] - now, loser));
                let other = both[1 - index];
                self.served[other] = None;
                freed[index] = Some(other);
            }
        }
        self.finish[flow as usize] = now + remaining;
        self.ending.push(Reverse((now + remaining, flow)));
        for end in freed.into_iter().flatten() {
            self.look(now, end);
        }
    }
}
