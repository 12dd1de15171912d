//! One link under Poisson arrivals is an M/G/1 queue. The oracle is compared with the formula of Schrage and Miller, and the formula
//! with results that are known without it.

use flowloom_core::{Bytes, Duration, Flow, NodeId, Time, WireProfile};
use flowloom_fabric::seed::Purpose;

use super::super::{Model, Order, UnloadedTimes, run, srpt_mean_response};
use super::{flow, single_switch};
use crate::cdf::{Cdf, Point};
use crate::random::Stream;
use crate::tables::table;

const WIRE: WireProfile = WireProfile::IP_1500;
const LOADS: [f64; 3] = [0.3, 0.6, 0.8];

/// `n` quantiles of equal probability.
fn quantiles(n: u32, quantile: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (0..n).map(|k| (quantile((f64::from(k) + 0.5) / f64::from(n)), 1.0 / f64::from(n))).collect()
}

fn near(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

/// With equal sizes no job is ever preempted, so this is an M/D/1 queue (Pollaczek and Khinchine).
#[test]
fn equal_sizes_wait_as_in_m_d_1() {
    for load in LOADS {
        let by_hand = 2.0 + load * 2.0 / (2.0 * (1.0 - load));
        assert!(near(srpt_mean_response(load / 2.0, &[(2.0, 1.0)]).unwrap(), by_hand, 1e-12));
        // The result is the same if the atom is divided.
        let cut = [(2.0, 0.25), (2.0, 0.5), (2.0, 0.25)];
        assert!(near(srpt_mean_response(load / 2.0, &cut).unwrap(), by_hand, 1e-12));
    }
    assert_eq!(srpt_mean_response(0.5, &[(2.0, 1.0)]), None);
}

/// With exponential sizes, ρ(x) and the integral of t² have closed forms, and Simpson's rule integrates the formula.
#[test]
fn exponential_sizes_agree_with_a_quadrature_of_the_formula() {
    for load in LOADS {
        let below = |x: f64| load * (1.0 - (-x).exp() * (1.0 + x));
        let square = |x: f64| load * (2.0 - (-x).exp() * (x * x + 2.0 * x + 2.0));
        let wait = |x: f64| (square(x) + load * x * x * (-x).exp()) / (2.0 * (1.0 - below(x)).powi(2));
        // E[residence] = ∫ (1 − F(t)) / (1 − ρ(t)) dt, by changing the order of integration.
        let density = |x: f64| (-x).exp() * wait(x) + (-x).exp() / (1.0 - below(x));
        let (steps, width) = (40_000, 40.0 / 40_000.0);
        let weight = |k: i32| {
            if k == 0 || k == steps {
                1.0
            } else if k % 2 == 1 {
                4.0
            } else {
                2.0
            }
        };
        let simpson: f64 = (0..=steps).map(|k| weight(k) * density(f64::from(k) * width)).sum::<f64>() * width / 3.0;
        let sum = srpt_mean_response(load, &quantiles(200_000, |u| -(-u).ln_1p())).unwrap();
        assert!(near(sum, simpson, 1e-4), "load {load}: {sum} against {simpson}");
        // SRPT is no worse than FIFO or processor sharing, 1 / (1 − ρ), and no better than service alone.
        assert!(sum > 1.0);
        assert!(sum < 1.0 / (1.0 - load));
    }
}

/// The sizes are so far apart that the remainder of a large job is never small. This is preemptive priority for small jobs. Cobham's
/// formula gives the means, and the work that a large job finds takes 1 / (1 − ρ_small) times as long.
#[test]
fn two_sizes_far_apart_are_two_priorities() {
    let (large, rate_small, rate_large) = (1e6, 0.4, 0.3e-6);
    let rate = rate_small + rate_large;
    let time_small = 1.0 + rate_small / (2.0 * 0.6);
    let time_large = (rate_small + rate_large * large * large) / 2.0 / (0.6 * 0.3) + large / 0.6;
    let by_hand = (rate_small * time_small + rate_large * time_large) / rate;
    let sizes = [(1.0, rate_small / rate), (large, rate_large / rate)];
    assert!(near(srpt_mean_response(rate, &sizes).unwrap(), by_hand, 1e-6));
}

const REPLICATIONS: u64 = 20;
const FLOWS: u32 = 12_000;
/// At both ends of a replication, while the queue fills and drains, flows are served but not counted.
const MARGIN: usize = 2_000;
/// Student's t with 19 degrees of freedom for intervals that all nine cases (three sizes, three loads) keep at once with 95 %
/// confidence: two-sided 1 − 0.05 / 9 each (Bonferroni).
const T_19: f64 = 3.127;

fn service_s(bytes: Bytes) -> f64 {
    single_switch(2).nic_rate(NodeId(0)).transmit_time(WIRE.flow_wire_bytes(bytes)).as_secs_f64()
}

/// Flows of one host pair with Poisson arrivals of `rate` flows per second.
fn poisson(sizes: &Cdf, rate: f64, replication: u64) -> Vec<Flow> {
    let mut gaps = Stream::new(1, Purpose::Arrivals, replication);
    let mut draws = Stream::new(1, Purpose::Sizes, replication);
    let mut now = Time::ZERO;
    let next = |id| {
        now += Duration::checked_from_secs_f64(gaps.exponential() / rate).expect("a short gap");
        flow(id, 0, 1, sizes.sample(draws.unit()).get(), now)
    };
    (0..FLOWS).map(next).collect()
}

/// Mean response times of the link under the oracle and under first-come first-served, in seconds.
fn responses(flows: &[Flow]) -> [f64; 2] {
    let network = single_switch(2);
    let mut unloaded = UnloadedTimes::new(&network, &WIRE);
    let finish = run(&network, &WIRE, flows, Model::Bound, Order::Srpt);
    let mut free = Time::ZERO;
    let mut sums = [0.0; 2];
    for (index, (flow, finish)) in flows.iter().zip(finish).enumerate() {
        let access = unloaded.at_receiver(flow);
        free = free.max(flow.start) + access.service;
        if (MARGIN..flows.len() - MARGIN).contains(&index) {
            sums[0] += (finish - flow.start - access.latency).as_secs_f64();
            sums[1] += (free - flow.start).as_secs_f64();
        }
    }
    sums.map(|sum| sum / (flows.len() - 2 * MARGIN) as f64)
}

/// Whether the confidence interval of independent replications contains `expected`.
fn agrees(means: &[f64], expected: f64) -> bool {
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean - expected).abs() <= T_19 * (variance / n).sqrt()
}

fn check(name: &str, sizes: &Cdf) {
    let distribution = quantiles(100_000, |u| service_s(sizes.sample(u)));
    let mean_service: f64 = distribution.iter().map(|(size, probability)| size * probability).sum();
    for load in LOADS {
        let rate = load / mean_service;
        let expected = srpt_mean_response(rate, &distribution).unwrap();
        let means: Vec<[f64; 2]> = (0..REPLICATIONS).map(|each| responses(&poisson(sizes, rate, each))).collect();
        let [srpt, fifo] = [0, 1].map(|order| means.iter().map(|both| both[order]).collect::<Vec<_>>());
        assert!(agrees(&srpt, expected), "{name} at load {load}: {srpt:?} against {expected}");
        assert!(!agrees(&fifo, expected), "{name} at load {load}: first-come first-served passes as well");
    }
}

#[test]
fn uniform_sizes_agree_with_the_formula() {
    check("uniform", &Cdf::uniform(2_000, 198_000));
}

#[test]
fn exponential_sizes_agree_with_the_formula() {
    let share = |bytes: u64| if bytes == 1_500_000 { 1.0 } else { 1.0 - (-(bytes as f64) / 1e5).exp() };
    let points = (0..=300).map(|step| Point { bytes: 5_000 * step, probability: share(5_000 * step) });
    check("exponential", &Cdf::new(points.collect()).unwrap());
}

#[test]
fn web_search_sizes_agree_with_the_formula() {
    check("web search", &table("web_search").unwrap().cdf());
}
