//! Algorithm 1: the share of each flow of one direction of one link.

use flowloom_core::{Duration, FlowId, Rate, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header::Kbps;
use super::ranking::{Ranking, rank};
use crate::toolkit::{FlowTable, Timers};

/// How the demand above a flow is turned into a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Each queue takes the flows whose higher demand is less than one more capacity (§3.1.1, the text).
    Floor,
    /// A flow whose higher demand is exactly a number of capacities is in the queue above (Algorithm 1 as printed).
    Ceiling,
}

/// A flow's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The scheduling criterion; the least key is the most critical one.
    pub key: u32,
    /// What the flow claims: what counts before less critical flows.
    pub demand: Rate,
}

/// What a flow gets: the reference rate and the priority queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The queue; 0 is the highest.
    pub queue: u8,
    /// In the top queue, what more critical flows leave of the link (C - ADH in Algorithm 1), of which the flow uses what it can
    /// ([`Share::reference`]). In other queues, the base rate.
    pub rate: Rate,
}

impl Share {
    /// No link has limited the flow yet.
    pub const FREE: Share = Share { queue: 0, rate: Rate::from_bps(u64::MAX) };

    /// The reference rate of a flow that can send `demand`: min(Demand, C - ADH) in Algorithm 1. The host takes the lesser one, because it knows best
    /// what it can send, and what it claims may be less (`Demand::Granted`). Where arbitrators took it from the claim, a flow that was granted its
    /// other half began with a window of one packet.
    #[must_use]
    pub fn reference(self, demand: Rate) -> Rate {
        self.rate.min(demand)
    }

    /// The share on two links: the least rate and the lowest queue (§3.1.2: "a flow always uses the lowest of the priority queues").
    #[must_use]
    pub fn and(self, other: Share) -> Share {
        Share { queue: self.queue.max(other.queue), rate: self.rate.min(other.rate) }
    }
}

/// What all arbitrators of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The number of queues for arbitrated flows, 1 or more.
    pub queues: u8,
    /// The rate of a flow outside the top queue: one packet per round trip.
    pub base_rate: Rate,
    /// The boundary between queues.
    pub rounding: Rounding,
    /// A flow that has not been refreshed for this long is forgotten.
    pub lifetime: Duration,
}

/// The arbitrator of one direction of one link. `T` is what its owner keeps with each flow.
#[derive(Clone, Debug)]
pub struct Arbiter<T> {
    rules: Rules,
    capacity: u64,
    flows: FlowTable<T>,
    /// By priority, with the demands in kb/s.
    ranking: Ranking,
    /// When each entry expires, by slot.
    timers: Timers,
    /// See [`Arbiter::changes`].
    changes: u64,
}

impl<T: Default> Arbiter<T> {
    /// An arbitrator without flows.
    pub fn new(capacity: Rate, rules: Rules) -> Arbiter<T> {
        assert!(rules.queues > 0, "a link has a queue");
        let mut arbiter = Arbiter {
            rules,
            capacity: 0,
            flows: FlowTable::default(),
            ranking: Ranking::default(),
            timers: Timers::default(),
            changes: 0,
        };
        arbiter.set_capacity(capacity);
        arbiter
    }

    /// Changes the capacity, of a virtual link. It is at least 1 b/s.
    pub fn set_capacity(&mut self, capacity: Rate) {
        self.capacity = capacity.as_bps().max(1);
    }

    /// Step 1: sorts or updates the flow's entry. The entry lasts for [`Rules::lifetime`] from now. Returns its place, which it has until
    /// it is removed or expires.
    pub fn update(&mut self, now: Time, flow: FlowId, request: Request) -> u32 {
        if let Some(slot) = self.flows.slot_of(flow) {
            self.update_at(now, slot, flow, request);
            return slot;
        }
        let slot = self.flows.insert(flow, T::default());
        self.ranking.insert(slot, rank(request.key, flow.0), Kbps::from(request.demand).0);
        self.timers.set(slot, now + self.rules.lifetime);
        self.changes += 1;
        slot
    }

    /// Step 1 for a flow whose place is known.
    ///
    /// # Panics
    /// If there is none.
    pub fn update_at(&mut self, now: Time, place: u32, flow: FlowId, request: Request) {
        let changed = self.ranking.change(place, rank(request.key, flow.0), Kbps::from(request.demand).0);
        self.changes += u64::from(changed);
        self.timers.set(place, now + self.rules.lifetime);
    }

    /// Step 2: the flow's share, `None` if the flow is not known.
    pub fn share(&self, flow: FlowId) -> Option<Share> {
        Some(self.share_at(self.flows.slot_of(flow)?))
    }

    /// Step 2 for the flow in a place.
    ///
    /// # Panics
    /// If there is none.
    pub fn share_at(&self, place: u32) -> Share {
        let capacity = self.capacity;
        let higher = self.higher(place);
        if higher < capacity {
            return Share { queue: 0, rate: Rate::from_bps(capacity - higher) };
        }
        let queue = match self.rules.rounding {
            Rounding::Floor => higher / capacity,
            Rounding::Ceiling => higher.div_ceil(capacity) - 1,
        };
        let lowest = self.rules.queues - 1;
        Share { queue: u8::try_from(queue).map_or(lowest, |queue| queue.min(lowest)), rate: self.rules.base_rate }
    }

    /// AggregateDemandHigher, in b/s. More than 2^64 b/s is beyond the lowest queue of any link.
    fn higher(&self, place: u32) -> u64 {
        self.ranking.above(place).saturating_mul(1000)
    }

    /// The place of a flow in the order of priority. The least one is that of the most critical flow.
    ///
    /// # Panics
    /// If there is none.
    pub fn rank_at(&self, place: u32) -> u64 {
        self.ranking.rank(place)
    }

    /// Whether the flow in a place is in the lowest queue.
    ///
    /// # Panics
    /// If there is none.
    pub fn is_last_at(&self, place: u32) -> bool {
        self.share_at(place).queue + 1 == self.rules.queues
    }

    /// How often a flow came, left, or changed its request. As long as this number and the capacity stay the same, so do all shares.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many times the capacity of the link the flows before the one in a place demand, at most 255.
    pub fn backlog_at(&self, place: u32) -> u8 {
        u8::try_from(self.higher(place) / self.capacity).unwrap_or(u8::MAX)
    }

    /// Lets the entry in a place last for this many lifetimes from now.
    pub fn extend(&mut self, now: Time, place: u32, lifetimes: u8) {
        self.timers.set(place, now + self.rules.lifetime * u64::from(lifetimes));
    }

    /// What is kept with a flow.
    pub fn state(&mut self, flow: FlowId) -> Option<&mut T> {
        let slot = self.flows.slot_of(flow)?;
        Some(self.state_at(slot))
    }

    /// What is kept with the flow in a place.
    ///
    /// # Panics
    /// If there is none.
    pub fn state_at(&mut self, place: u32) -> &mut T {
        &mut self.flows[place]
    }

    /// Forgets a flow, and returns what was kept with it.
    pub fn remove(&mut self, flow: FlowId) -> Option<T> {
        let slot = self.flows.slot_of(flow)?;
        self.changes += 1;
        self.ranking.remove(slot);
        self.timers.remove(slot);
        Some(self.flows.remove(slot))
    }

    /// Forgets the flows whose entries have expired, and returns their number.
    pub fn expire(&mut self, now: Time) -> usize {
        let before = self.flows.len();
        while let Some(slot) = self.timers.expired(now) {
            self.ranking.remove(slot);
            self.flows.remove(slot);
            self.changes += 1;
        }
        before - self.flows.len()
    }

    /// The demand of all flows, at most `most`.
    pub fn demand(&self, most: Rate) -> Rate {
        Rate::from_bps(self.ranking.total().saturating_mul(1000)).min(most)
    }
    /// How many flows are known.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
    /// Whether no flow is known.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BASE: u64 = 26;

    fn rules(queues: u8) -> Rules {
        Rules { queues, base_rate: kbps(BASE), rounding: Rounding::Floor, lifetime: Duration::from_us(900) }
    }

    /// The unit of the numbers in these tests.
    fn kbps(rate: u64) -> Rate {
        Rate::from_bps(rate * 1000)
    }

    fn at_us(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// An arbitrator of a link of 1000 kb/s with these flows: id, key, demand.
    fn link(rules: Rules, flows: &[(u32, u32, u64)]) -> Arbiter<()> {
        let mut arbiter = Arbiter::new(kbps(1000), rules);
        for (id, key, demand) in flows {
            arbiter.update(Time::ZERO, FlowId(*id), Request { key: *key, demand: kbps(*demand) });
        }
        arbiter
    }

    /// The queue and the reference rate of a flow that can send 1000 kb/s.
    fn share(arbiter: &Arbiter<()>, flow: u32) -> (u8, u64) {
        let share = arbiter.share(FlowId(flow)).expect("a known flow");
        (share.queue, share.reference(kbps(1000)).as_bps() / 1000)
    }

    /// By hand. The demand above flow 9 is 0, below the capacity, exactly the capacity, and above it.
    #[test]
    fn the_rate_is_what_flows_of_higher_priority_leave() {
        for (above, expected) in [
            (&[][..], (0, 1000)),
            (&[(1, 1, 300)], (0, 700)),
            (&[(1, 1, 700)], (0, 300)),
            (&[(1, 1, 999)], (0, 1)),     // the least rest
            (&[(1, 1, 1000)], (1, BASE)), // ADH = C: not in the top queue
            (&[(1, 1, 500), (2, 2, 501)], (1, BASE)),
        ] {
            let arbiter = link(rules(8), &[above, &[(9, 50, 600), (10, 51, 1000), (11, u32::MAX, 1000)]].concat());
            assert_eq!(share(&arbiter, 9), expected, "below {above:?}");
        }
    }

    /// By hand. Twenty flows of 500 kb/s on 1000 kb/s: two in each queue.
    #[test]
    fn each_queue_takes_one_capacity_and_the_last_takes_the_rest() {
        let flows: Vec<_> = (0..20).map(|id| (id, id, 500)).collect();
        let queues_with = |queues| {
            let arbiter = link(rules(queues), &flows);
            (0..20).map(|id| share(&arbiter, id).0).collect::<Vec<_>>()
        };
        assert_eq!(queues_with(1), [0; 20]);
        assert_eq!(queues_with(2), [[0; 2].as_slice(), &[1; 18]].concat());
        assert_eq!(queues_with(7), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6]);
        assert_eq!(queues_with(8), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 7, 7, 7]);
    }

    /// By hand, Algorithm 1 as printed: ⌈ADH/C⌉, where both 0 and 1 are the top queue.
    #[test]
    fn the_printed_algorithm_differs_at_whole_capacities() {
        let flows: Vec<_> = (0..6).map(|id| (id, id, 500)).collect();
        let printed = link(Rules { rounding: Rounding::Ceiling, ..rules(8) }, &flows);
        let shares: Vec<_> = (0..6).map(|id| share(&printed, id)).collect();
        // ADH = 0, 500, 1000, 1500, 2000, 2500.
        assert_eq!(shares, [(0, 1000), (0, 500), (0, BASE), (1, BASE), (1, BASE), (2, BASE)]);
    }

    #[test]
    fn among_equal_keys_the_older_flow_goes_first() {
        let arbiter = link(rules(8), &[(5, 7, 1000), (3, 7, 1000), (4, 7, 1000)]);
        assert_eq!([3, 4, 5].map(|id| share(&arbiter, id).0), [0, 1, 2]);
    }

    /// A flow that grows falls back; one that shrinks overtakes; capacity that a flow no longer wants is free for others.
    #[test]
    fn a_new_request_moves_the_flow_in_the_list() {
        let mut arbiter = link(rules(8), &[(1, 10, 1000), (2, 20, 1000)]);
        assert_eq!([1, 2].map(|id| share(&arbiter, id)), [(0, 1000), (1, BASE)]);
        let ask = |arbiter: &mut Arbiter<()>, id, key, demand| {
            arbiter.update(at_us(1), FlowId(id), Request { key, demand: kbps(demand) });
        };
        ask(&mut arbiter, 1, 30, 1000);
        assert_eq!([1, 2].map(|id| share(&arbiter, id)), [(1, BASE), (0, 1000)]);
        ask(&mut arbiter, 2, 20, 400);
        assert_eq!([1, 2].map(|id| share(&arbiter, id)), [(0, 600), (0, 1000)]);
        ask(&mut arbiter, 1, 5, 1000);
        assert_eq!([1, 2].map(|id| share(&arbiter, id)), [(0, 1000), (1, BASE)]);
        assert_eq!(arbiter.len(), 2);
    }

    #[test]
    fn a_virtual_link_may_shrink_and_grow() {
        let mut arbiter = link(rules(4), &[(1, 1, 400), (2, 2, 400), (3, 3, 400)]);
        arbiter.set_capacity(kbps(500));
        assert_eq!([1, 2, 3].map(|id| share(&arbiter, id)), [(0, 500), (0, 100), (1, BASE)]);
        arbiter.set_capacity(kbps(100));
        assert_eq!([1, 2, 3].map(|id| share(&arbiter, id)), [(0, 100), (3, BASE), (3, BASE)]);
        arbiter.set_capacity(kbps(0));
        assert_eq!(share(&arbiter, 1), (0, 0)); // 1 b/s
        arbiter.set_capacity(kbps(1500));
        assert_eq!([1, 2, 3].map(|id| share(&arbiter, id)), [(0, 1000), (0, 1000), (0, 700)]);
    }

    #[test]
    fn flows_leave_or_expire() {
        let mut arbiter = link(rules(8), &[(1, 1, 1000), (2, 2, 1000), (3, 3, 1000)]);
        assert_eq!(arbiter.remove(FlowId(1)), Some(()));
        assert_eq!(arbiter.remove(FlowId(1)), None);
        assert_eq!((arbiter.share(FlowId(1)), share(&arbiter, 2)), (None, (0, 1000)));
        arbiter.update(at_us(100), FlowId(3), Request { key: 3, demand: kbps(1000) });
        arbiter.expire(at_us(899));
        assert_eq!(arbiter.len(), 2);
        arbiter.expire(at_us(900));
        assert_eq!((arbiter.len(), share(&arbiter, 3)), (1, (0, 1000)));
        arbiter.expire(at_us(1000));
        assert!(arbiter.is_empty());
        assert_eq!(arbiter.demand(Rate::from_gbps(1)), Rate::default());
    }

    /// The demand of all more critical flows, in b/s.
    fn above(flows: &BTreeMap<u32, (u32, u64)>, flow: u32) -> u64 {
        let (key, _) = flows[&flow];
        flows.iter().filter(|(id, (other, _))| (*other, **id) < (key, flow)).map(|(_, (_, demand))| demand * 1000).sum()
    }

    /// Algorithm 1 as a loop over all flows. The capacity is in b/s.
    fn by_loop(flows: &BTreeMap<u32, (u32, u64)>, capacity: u64, rules: &Rules, flow: u32) -> Share {
        let higher = above(flows, flow);
        let rate = if higher < capacity { capacity - higher } else { rules.base_rate.as_bps() };
        let queue = match rules.rounding {
            Rounding::Floor => higher / capacity,
            Rounding::Ceiling => higher.div_ceil(capacity).saturating_sub(1),
        };
        Share { queue: queue.min(u64::from(rules.queues) - 1) as u8, rate: Rate::from_bps(rate) }
    }

    fn requests() -> impl Strategy<Value = Vec<(u8, u32, u32, u64)>> {
        let demand = prop_oneof![Just(0), Just(500_u64), Just(1000), 1_u64..3000, Just(u64::from(u32::MAX))];
        prop::collection::vec((0_u8..6, 0_u32..24, 0_u32..12, demand), 1..150)
    }

    proptest! {
        /// It agrees with a loop over all flows, after any requests, removals and changes of capacity. No flow has a higher queue than a more
        /// critical one, and the reference rates of flows in the top queue that can send what they claim never sum above the capacity.
        #[test]
        fn agrees_with_a_loop_over_all_flows(requests in requests(), queues in 1_u8..9, ceiling in any::<bool>()) {
            let rounding = if ceiling { Rounding::Ceiling } else { Rounding::Floor };
            let rules = Rules { rounding, ..rules(queues) };
            let mut capacity = 1_000_000;
            let mut arbiter = Arbiter::<()>::new(Rate::from_bps(capacity), rules);
            let mut model = BTreeMap::new();
            for (what, id, key, demand) in requests {
                match what {
                    0 => {
                        prop_assert_eq!(arbiter.remove(FlowId(id)).is_some(), model.remove(&id).is_some());
                    }
                    1 => {
                        capacity = demand % 4000 * 1000;
                        arbiter.set_capacity(Rate::from_bps(capacity));
                        capacity = capacity.max(1);
                    }
                    _ => {
                        arbiter.update(Time::ZERO, FlowId(id), Request { key, demand: kbps(demand) });
                        model.insert(id, (key, demand));
                    }
                }
                prop_assert_eq!(arbiter.len(), model.len());
                let mut order: Vec<u32> = model.keys().copied().collect();
                order.sort_by_key(|id| (model[id].0, *id));
                let shares: Vec<Share> = order.iter().map(|id| arbiter.share(FlowId(*id)).unwrap()).collect();
                for (id, share) in order.iter().zip(&shares) {
                    prop_assert_eq!(*share, by_loop(&model, capacity, &rules, *id));
                }
                prop_assert!(shares.is_sorted_by_key(|share| share.queue));
                // With one queue, or with the printed boundary, flows without a rate of their own are in the top queue too.
                let top: u64 = order
                    .iter()
                    .zip(&shares)
                    .filter(|(id, share)| share.queue == 0 && above(&model, **id) < capacity)
                    .map(|(id, share)| share.reference(kbps(model[id].1)).as_bps())
                    .sum();
                prop_assert!(top <= capacity);
                if queues > 1 && !ceiling {
                    prop_assert!(order.iter().zip(&shares).all(|(id, share)| share.queue > 0 || above(&model, *id) < capacity));
                }
            }
        }

        /// The order in which simultaneous requests arrive does not matter.
        #[test]
        fn the_order_of_requests_does_not_matter(
            flows in prop::collection::btree_map(0_u32..1000, (0_u32..20, 1_u64..1500), 1..40),
            order in any::<prop::sample::Index>(),
            stride in prop::sample::select(vec![1_usize, 3, 7, 11]),
        ) {
            let list: Vec<_> = flows.iter().map(|(id, (key, demand))| (*id, *key, *demand)).collect();
            let mut shuffled = list.clone();
            shuffled.rotate_left(order.index(list.len()));
            let (odd, mut even): (Vec<_>, Vec<_>) = shuffled.into_iter().enumerate().partition(|(at, _)| at % (stride + 1) == 0);
            even.extend(odd);
            let shuffled: Vec<_> = even.into_iter().rev().map(|(_, flow)| flow).collect();
            let (one, other) = (link(rules(7), &list), link(rules(7), &shuffled));
            for id in flows.keys() {
                prop_assert_eq!(one.share(FlowId(*id)), other.share(FlowId(*id)));
            }
        }
    }
}
