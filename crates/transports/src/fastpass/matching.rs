//! The matching of senders to receivers, slot by slot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use flowloom_core::{FlowId, NodeId};

use super::Policy;

/// The order in which flows are served: the smaller key first, and among equal keys the older flow.
type Key = (u32, FlowId);

/// A flow that wants slots.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: Key,
    to: NodeId,
    remaining: u32,
}

/// The flows that want slots, by sender and in order, and the greedy maximal matching of senders to receivers.
///
/// For each slot, flows are visited in order, and a flow whose sender and receiver are both free gets the slot. Of each sender, this is
/// the first flow with a free receiver. So a heap of one candidate per sender gives the same result, and the other flows of a sender
/// that has been served are not visited.
#[derive(Debug)]
pub(super) struct Matching {
    policy: Policy,
    /// By sender, each sorted by key.
    flows: Vec<Vec<Pending>>,
    /// By receiver, how many flows want to send to it. A slot is complete when all of these receivers are busy.
    wanted: Vec<u32>,
    receivers: usize,
    senders: usize,
    /// How many flows want slots.
    pending: usize,
    /// By receiver, the last slot in which it was busy. Slots are counted from the start of the run.
    busy: Vec<u64>,
    slot: u64,
    /// Reused from slot to slot: a candidate's key, its sender, and where it is among the sender's flows.
    candidates: Vec<Reverse<(Key, u32, u32)>>,
}

impl Matching {
    /// For nodes `0..nodes`.
    pub(super) fn new(policy: Policy, nodes: usize) -> Matching {
        Matching {
            policy,
            flows: vec![Vec::new(); nodes],
            wanted: vec![0; nodes],
            receivers: 0,
            senders: 0,
            pending: 0,
            busy: vec![0; nodes],
            slot: 0,
            candidates: Vec::new(),
        }
    }

    /// Whether no flow wants a slot.
    pub(super) fn is_empty(&self) -> bool {
        self.senders == 0
    }

    /// How many flows want slots.
    pub(super) fn len(&self) -> usize {
        self.pending
    }

    /// Sets how many slots the flow wants to `remaining`, whatever it wanted before. A flow of a node that does not exist is ignored.
    pub(super) fn set(&mut self, flow: FlowId, from: NodeId, to: NodeId, remaining: u32, deadline: u32) {
        let Some(flows) = self.flows.get(from.index()) else { return };
        if let Some(index) = flows.iter().position(|pending| pending.key.1 == flow) {
            self.take(from.index(), index);
        }
        if remaining == 0 || to.index() >= self.wanted.len() {
            return;
        }
        let first = match self.policy {
            Policy::Srpt => remaining,
            Policy::Deadline => deadline,
        };
        let key = (first, flow);
        let flows = &mut self.flows[from.index()];
        self.senders += usize::from(flows.is_empty());
        flows.insert(flows.partition_point(|other| other.key < key), Pending { key, to, remaining });
        self.pending += 1;
        self.receivers += usize::from(self.wanted[to.index()] == 0);
        self.wanted[to.index()] += 1;
    }

    fn take(&mut self, from: usize, index: usize) {
        let to = self.flows[from].remove(index).to.index();
        self.pending -= 1;
        self.senders -= usize::from(self.flows[from].is_empty());
        self.wanted[to] -= 1;
        self.receivers -= usize::from(self.wanted[to] == 0);
    }

    /// Matches one slot, and calls `granted` with each sender that may send and its flow.
    pub(super) fn match_slot(&mut self, mut granted: impl FnMut(NodeId, FlowId)) {
        self.slot += 1;
        let mut free_receivers = self.receivers;
        let mut candidates = std::mem::take(&mut self.candidates);
        let first = |(sender, flows): (usize, &Vec<Pending>)| Some(Reverse((flows.first()?.key, sender as u32, 0)));
        candidates.extend(self.flows.iter().enumerate().filter_map(first));
        let mut candidates = BinaryHeap::from(candidates);
        while let Some(mut candidate) = candidates.peek_mut() {
            let Reverse((key, sender, index)) = *candidate;
            let flows = &self.flows[sender as usize];
            let to = flows[index as usize].to;
            if self.busy[to.index()] == self.slot {
                match flows.get(index as usize + 1) {
                    Some(next) => *candidate = Reverse((next.key, sender, index + 1)),
                    None => drop(PeekMut::pop(candidate)),
                }
                continue;
            }
            PeekMut::pop(candidate);
            self.busy[to.index()] = self.slot;
            self.grant(sender as usize, index as usize);
            granted(NodeId(sender), key.1);
            free_receivers -= 1;
            if free_receivers == 0 {
                break;
            }
        }
        self.candidates = candidates.into_vec();
        self.candidates.clear();
    }

    /// Takes one slot off what a flow wants, and keeps its sender's flows sorted.
    fn grant(&mut self, sender: usize, mut index: usize) {
        let flows = &mut self.flows[sender];
        let pending = &mut flows[index];
        pending.remaining -= 1;
        if pending.remaining == 0 {
            self.take(sender, index);
        } else if self.policy == Policy::Srpt {
            pending.key.0 = pending.remaining;
            while index > 0 && flows[index - 1].key > flows[index].key {
                flows.swap(index - 1, index);
                index -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The rule itself: visit all flows in order.
    fn by_the_book(policy: Policy, flows: &mut BTreeMap<FlowId, (u32, u32, u32, u32)>) -> Vec<(NodeId, FlowId)> {
        let mut order: Vec<_> = flows
            .iter()
            .map(|(id, (from, to, remaining, deadline))| {
                (if policy == Policy::Srpt { *remaining } else { *deadline }, *id, *from, *to)
            })
            .collect();
        order.sort_unstable();
        let (mut from_busy, mut to_busy, mut granted) = (Vec::new(), Vec::new(), Vec::new());
        for (_, id, from, to) in order {
            if !from_busy.contains(&from) && !to_busy.contains(&to) {
                from_busy.push(from);
                to_busy.push(to);
                granted.push((NodeId(from), id));
                flows.get_mut(&id).unwrap().2 -= 1;
            }
        }
        flows.retain(|_, flow| flow.2 > 0);
        granted
    }

    proptest! {
        #[test]
        fn every_slot_is_the_greedy_maximal_matching(
            policy in prop::sample::select(vec![Policy::Srpt, Policy::Deadline]),
            steps in prop::collection::vec(
                prop_oneof![
                    3 => (0_u32..40, 0_u32..6, 0_u32..6, 0_u32..12, 0_u32..5).prop_map(Some),
                    2 => Just(None),
                ],
                1..120,
            ),
        ) {
            let mut matching = Matching::new(policy, 6);
            let mut flows = BTreeMap::new();
            for step in steps {
                match step {
                    Some((id, from, hop, remaining, deadline)) => {
                        // A flow keeps its ends.
                        let (from, to) = flows.get(&FlowId(id)).map_or((from, (from + 1 + hop % 5) % 6), |(a, b, _, _)| (*a, *b));
                        matching.set(FlowId(id), NodeId(from), NodeId(to), remaining, deadline);
                        flows.remove(&FlowId(id));
                        if remaining > 0 {
                            flows.insert(FlowId(id), (from, to, remaining, deadline));
                        }
                    }
                    None => {
                        let ends = flows.clone();
                        let mut granted = Vec::new();
                        matching.match_slot(|from, flow| granted.push((from, flow)));
                        // The invariant: each sender and each receiver at most once.
                        let mut senders: Vec<_> = granted.iter().map(|(from, _)| *from).collect();
                        let mut receivers: Vec<_> = granted.iter().map(|(_, flow)| ends[flow].1).collect();
                        senders.sort_unstable();
                        receivers.sort_unstable();
                        prop_assert!(senders.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", senders);
                        prop_assert!(receivers.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", receivers);
                        prop_assert_eq!(granted, by_the_book(policy, &mut flows));
                    }
                }
                prop_assert_eq!(matching.is_empty(), flows.is_empty());
            }
        }
    }

    #[test]
    fn shortest_first_leaves_no_sender_idle_that_could_send() {
        let mut matching = Matching::new(Policy::Srpt, 4);
        // The shortest takes sender 0 and receiver 2; sender 1's shorter flow waits for 2, its longer one goes to 3.
        for (id, from, to, remaining) in [(0, 0, 2, 1), (1, 1, 2, 2), (2, 1, 3, 9)] {
            matching.set(FlowId(id), NodeId(from), NodeId(to), remaining, u32::MAX);
        }
        let mut slots = Vec::new();
        for _ in 0..3 {
            let mut granted = Vec::new();
            matching.match_slot(|_, flow| granted.push(flow.0));
            slots.push(granted);
        }
        assert_eq!(slots, [vec![0, 2], vec![1], vec![1]]);
    }
}
