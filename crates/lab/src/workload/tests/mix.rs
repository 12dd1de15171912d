//! Several workloads at the same time.

use proptest::prelude::*;

use super::*;

pub(super) fn part(name: &str, start: Duration, kind: WorkloadKind) -> Part {
    Part { name: name.to_owned(), start: Quantity(start), kind }
}
pub(super) fn mix(parts: Vec<Part>) -> WorkloadSpec {
    WorkloadSpec::Several(Mix::Mix(Parts { parts }))
}
pub(super) fn rack() -> Network {
    topology::single_switch(16, Rate::from_gbps(1), Duration::from_us(1), Switching::StoreAndForward)
}
fn of_tenant(flows: &[Flow], tenant: u16) -> Vec<Flow> {
    flows.iter().filter(|flow| flow.tenant == tenant).map(|flow| Flow { id: FlowId(0), ..*flow }).collect()
}

/// Two periodic queries, at 0 and 2 ms and at 1 and 4 ms: their order, owners and numbers.
#[test]
fn a_mix_by_hand() {
    let queries = |requests, period| incast(2, 2_000, requests, None, Some(Duration::from_ms(period)));
    let parts = vec![part("a", Duration::ZERO, queries(2, 2)), part("b", Duration::from_ms(1), queries(2, 3))];
    let flows = flows_in(&mix(parts), &rack(), 1);
    let seen: Vec<_> = flows
        .iter()
        .step_by(2)
        .map(|flow| (flow.start.as_ps() / 1_000_000_000, flow.tenant, flow.coflow.unwrap().number))
        .collect();
    assert_eq!(seen, [(0, 0, 0), (1, 1, 2), (2, 0, 1), (4, 1, 3)]);
    assert!(flows.chunks(2).all(|pair| pair[0].coflow == pair[1].coflow && pair[0].start == pair[1].start));
}

#[test]
fn the_start_of_a_part_moves_its_deadlines_along() {
    let uniform = UniformDeadline {
        min: Quantity(Duration::from_ms(5)),
        max: Quantity(Duration::from_ms(5)),
        floor: 0.0,
        handshake: false,
    };
    let urgent = Permutation { deadline: Some(Deadline::Uniform(uniform)), ..permutation(fixed(1000)) };
    let flows = flows_in(&mix(vec![part("late", Duration::from_ms(7), WorkloadKind::Permutation(urgent))]), &rack(), 1);
    assert_eq!(flows.len(), 16);
    let at = |ms| Time::ZERO + Duration::from_ms(ms);
    assert!(flows.iter().all(|flow| flow.start == at(7) && flow.deadline == Some(at(12))));
}

/// Two equal parts draw different flows.
#[test]
fn equal_parts_are_independent() {
    let background = || WorkloadKind::Poisson(poisson(table("web_search"), 0.3, 1_000));
    let flows =
        flows_in(&mix(vec![part("a", Duration::ZERO, background()), part("b", Duration::ZERO, background())]), &rack(), 1);
    let key = |flow: &Flow| (flow.start, flow.src, flow.dst, flow.size);
    let first: HashSet<_> = of_tenant(&flows, 0).iter().map(key).collect();
    assert!(of_tenant(&flows, 1).iter().all(|flow| !first.contains(&key(flow))));
}

fn synthetic(coflows: u32) -> WorkloadKind {
    WorkloadKind::CoflowSynthetic(CoflowSynthetic { coflows, load: 0.5, load_link: LoadLink::Host, size_divisor: 1e5 })
}

/// Each part says how its coflows were made, and its coflows arrive with their flows.
#[test]
fn coflows_of_parts_are_told_apart() {
    let late = Duration::from_ms(50);
    let parts = vec![
        part("a", Duration::ZERO, synthetic(3)),
        part("b", late, incast(2, 2_000, 2, None, Some(late))),
        part("c", late, synthetic(5)),
    ];
    let workload = workload_in(&mix(parts), &rack(), 1);
    let told: Vec<_> = workload.coflows.iter().map(|coflows| (coflows.tenant, coflows.coflows)).collect();
    assert_eq!(told, [(0, 3), (2, 5)]);
    assert!(workload.flows.iter().all(|flow| flow.coflow.unwrap().start == flow.start));
    let numbers: HashSet<u32> = workload.flows.iter().map(|flow| flow.coflow.unwrap().number).collect();
    assert_eq!(numbers, (0..10).collect());
    assert!(workload.flows.iter().filter(|flow| flow.tenant > 0).all(|flow| flow.start >= Time::ZERO + late));
}

fn kind() -> impl Strategy<Value = WorkloadKind> {
    let matrix = prop::sample::select(MatrixKind::ALL.to_vec());
    prop_oneof![
        (1u32..40, matrix.clone())
            .prop_map(|(flows, matrix)| { WorkloadKind::Poisson(Poisson { matrix, ..poisson(table("imc10"), 0.4, flows) }) }),
        (1u32..15, 1u32..5).prop_map(|(senders, requests)| incast(senders, 20_000, requests, Some(0.2), None)),
        (1u32..4).prop_map(synthetic),
        Just(WorkloadKind::Permutation(permutation(table("imc10")))),
        (1u32..40, matrix).prop_map(|(flows, matrix)| {
            WorkloadKind::Burst(Burst { sizes: fixed(1_000), flows, matrix, deadline: None, tenants: Vec::new() })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever comes behind a part, and whatever the parts before it are: its flows are the same. And nothing is lost: a mix has
    /// as many flows as its parts, and coflows of two parts are two.
    #[test]
    fn parts_are_independent(kinds in prop::collection::vec(kind(), 2..5), other in kind(), seed in any::<u64>()) {
        let of = |kinds: &[WorkloadKind]| {
            let parts = (0u64..).zip(kinds).map(|(at, kind)| part(&at.to_string(), Duration::from_us(at), kind.clone()));
            flows_in(&mix(parts.collect()), &rack(), seed)
        };
        let whole = of(&kinds);
        let last = kinds.len() - 1;
        let fewer = of(&kinds[..last]);
        prop_assert_eq!(whole.len() - fewer.len(), of_tenant(&whole, last as u16).len());
        for tenant in 0..last as u16 {
            prop_assert_eq!(of_tenant(&whole, tenant), of_tenant(&fewer, tenant));
        }
        // Another first part changes no more than the numbers of the later coflows.
        let mut changed = kinds.clone();
        changed[0] = other;
        let without = |flows: &[Flow], tenant| of_tenant(flows, tenant).iter().map(|flow| Flow { coflow: None, ..*flow }).collect::<Vec<_>>();
        let changed = of(&changed);
        for tenant in 1..=last as u16 {
            prop_assert_eq!(without(&whole, tenant), without(&changed, tenant));
        }
        let mut owner = HashMap::new();
        for flow in &whole {
            if let Some(coflow) = flow.coflow {
                prop_assert_eq!(*owner.entry(coflow.number).or_insert(flow.tenant), flow.tenant);
            }
        }
    }
}
