//! Small cases are compared with every schedule, and with a naive matching.

use flowloom_core::{Duration, Flow, Network, NodeId, Switching, Time, WireProfile};
use proptest::prelude::*;

use super::super::{Model, Order, UnloadedTimes, run};
use super::{CUT_THROUGH, flow, leaf_spine, single_switch, sum_ps};

const WIRE: WireProfile = WireProfile::IP_1500;

/// Every order of `0..n`.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(n - 1);
    shorter.iter().flat_map(|order| (0..n).map(|at| [&order[..at], &[n - 1], &order[at..]].concat())).collect()
}

/// A naive preemptive schedule of a fluid: at every event it visits all flows by `rank(flow, remaining)` and serves those whose ends
/// are both free. It adds the latency to the completion, as [`Model::Matching`] does.
fn greedy(network: &Network, flows: &[Flow], rank: impl Fn(usize, Duration) -> (Time, Duration, usize)) -> Vec<Time> {
    let mut unloaded = UnloadedTimes::new(network, &WIRE);
    let service: Vec<Duration> =
        flows.iter().map(|flow| unloaded.at_sender(flow).service.max(unloaded.at_receiver(flow).service)).collect();
    let mut remaining = service.clone();
    let mut finish = vec![Time::MAX; flows.len()];
    let mut now = Time::ZERO;
    while finish.contains(&Time::MAX) {
        let mut present: Vec<usize> = (0..flows.len()).filter(|i| flows[*i].start <= now && finish[*i] == Time::MAX).collect();
        present.sort_by_key(|i| rank(*i, remaining[*i]));
        let (mut senders, mut receivers, mut served) = (vec![], vec![], vec![]);
        for i in present {
            if !senders.contains(&flows[i].src) && !receivers.contains(&flows[i].dst) {
                senders.push(flows[i].src);
                receivers.push(flows[i].dst);
                served.push(i);
            }
        }
        let next_end = served.iter().map(|i| now + remaining[*i]).min();
        let next_start = flows.iter().map(|flow| flow.start).filter(|start| *start > now).min();
        let then = next_end.into_iter().chain(next_start).min().expect("something happens next");
        for i in served {
            remaining[i] = remaining[i] - (then - now);
            if remaining[i] == Duration::ZERO {
                finish[i] = then + (unloaded.received(&flows[i]) - service[i]);
            }
        }
        now = then;
    }
    finish
}

/// The least size whose first packet is full, so that all flows of a class of pairs have the same latency.
const FULL: u64 = 1460;

fn flows(hosts: u32, most: usize, least_bytes: u64) -> impl Strategy<Value = Vec<Flow>> {
    // Few sizes and starts, so that ties and coincidences of arrivals and completions are common.
    let size = prop_oneof![Just(FULL), Just(3 * FULL), least_bytes..60_000];
    let start = prop_oneof![Just(0u64), (0u64..20).prop_map(|n| n * 1_200_000), 0u64..30_000_000];
    let deadline = prop::option::of(1u64..100_000_000);
    let one = (0..hosts, 1..hosts, size, start, deadline).prop_map(move |(src, step, bytes, start, deadline)| {
        let start = Time::from_ps(start);
        let deadline = deadline.map(|span| start + Duration::from_ps(span));
        Flow { deadline, ..flow(0, src, (src + step) % hosts, bytes, start) }
    });
    prop::collection::vec(one, 1..=most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// On one link, the orders of preemptive priority include an optimal schedule. None of them has a smaller sum of times than the
    /// oracle, and one of them has the same sum.
    #[test]
    fn srpt_is_the_best_of_all_orders_on_one_link(list in flows(2, 6, FULL)) {
        let network = single_switch(2);
        let list: Vec<Flow> = list.into_iter().map(|each| flow(0, 0, 1, each.size.get(), each.start)).collect();
        let bound = sum_ps(&run(&network, &WIRE, &list, Model::Bound, Order::Srpt));
        let best = permutations(list.len())
            .into_iter()
            .map(|order| sum_ps(&greedy(&network, &list, |i, _| (Time::ZERO, Duration::ZERO, order[i]))))
            .min();
        prop_assert_eq!(Some(bound), best);
    }

    /// If latencies are equal, neither the matching of any order of priorities nor the greedy SRPT matching has a smaller mean than the
    /// bound.
    #[test]
    fn the_bound_is_below_every_order_of_a_matching(list in flows(4, 5, FULL)) {
        let network = single_switch(4);
        let bound = sum_ps(&run(&network, &WIRE, &list, Model::Bound, Order::Srpt));
        for order in permutations(list.len()) {
            prop_assert!(bound <= sum_ps(&greedy(&network, &list, |i, _| (Time::ZERO, Duration::ZERO, order[i]))));
        }
        prop_assert!(bound <= sum_ps(&run(&network, &WIRE, &list, Model::Matching, Order::Srpt)));
    }

    /// If latencies differ, the senders and receivers of the matching are in step only up to that difference.
    #[test]
    fn the_bound_is_below_the_matching_to_within_latencies(list in flows(4, 40, 1), cut_through: bool) {
        let network = leaf_spine(if cut_through { CUT_THROUGH } else { Switching::StoreAndForward });
        let mut unloaded = UnloadedTimes::new(&network, &WIRE);
        let latencies: Vec<u64> = list.iter().map(|flow| unloaded.at_receiver(flow).latency.as_ps()).collect();
        let spread = latencies.iter().max().unwrap() - latencies.iter().min().unwrap();
        let bound = sum_ps(&run(&network, &WIRE, &list, Model::Bound, Order::Srpt));
        let matching = sum_ps(&run(&network, &WIRE, &list, Model::Matching, Order::Srpt));
        prop_assert!(bound <= matching + u128::from(spread) * list.len() as u128);
    }

    /// The incremental matching gives each flow the same time as the greedy matching, in both orders.
    #[test]
    fn the_matching_is_greedy(list in flows(4, 40, 1)) {
        let network = leaf_spine(Switching::StoreAndForward);
        let mut unloaded = UnloadedTimes::new(&network, &WIRE);
        let due: Vec<Time> = list
            .iter()
            .map(|each| {
                let latency = unloaded.received(each) - unloaded.at_sender(each).service;
                each.deadline.map_or(Time::MAX, |at| Time::from_ps(at.as_ps().saturating_sub(latency.as_ps())))
            })
            .collect();
        let srpt = greedy(&network, &list, |i, remaining| (Time::ZERO, remaining, i));
        prop_assert_eq!(run(&network, &WIRE, &list, Model::Matching, Order::Srpt), srpt);
        let edf = greedy(&network, &list, |i, remaining| (due[i], remaining, i));
        prop_assert_eq!(run(&network, &WIRE, &list, Model::Matching, Order::Edf), edf);
    }

    /// If any order meets every deadline on one link, EDF does.
    #[test]
    fn edf_meets_all_deadlines_that_can_be_met(list in flows(2, 5, FULL)) {
        let network = single_switch(2);
        let list: Vec<Flow> = list.into_iter().map(|each| Flow { src: NodeId(0), dst: NodeId(1), ..each }).collect();
        let on_time = |finish: Vec<Time>| finish.iter().zip(&list).all(|(at, flow)| flow.deadline.is_none_or(|due| *at <= due));
        let possible = permutations(list.len())
            .into_iter()
            .any(|order| on_time(greedy(&network, &list, |i, _| (Time::ZERO, Duration::ZERO, order[i]))));
        prop_assert_eq!(on_time(run(&network, &WIRE, &list, Model::Bound, Order::Edf)), possible);
    }
}
