//! What a request costs PASE's arbitrator.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use flowloom_core::{Duration, FlowId, Rate, Time};
use flowloom_transports::pase::{Arbiter, Request, Rounding, Rules};

/// One request: the flow's entry moves to a new place in the list, and its share is computed. Flows ask in turn, each for a little less
/// than before, as flows that are being sent do.
fn requests(criterion: &mut Criterion) {
    let rules =
        Rules { queues: 7, base_rate: Rate::from_bps(26_000_000), rounding: Rounding::Floor, lifetime: Duration::from_us(900) };
    for flows in [100, 1_000, 10_000, 100_000_u32] {
        let mut arbiter = Arbiter::<bool>::new(Rate::from_gbps(10), rules);
        let mut random = 1_u32;
        let mut left: Vec<u32> = Vec::new();
        let mut now = Time::ZERO;
        for flow in 0..flows {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            left.push(2_000 + random % 196_000);
            arbiter.update(now, FlowId(flow), Request { key: left[flow as usize], demand: Rate::from_gbps(1) });
        }
        let mut turn = 0;
        criterion.bench_function(&format!("a request at {flows} flows"), |bench| {
            bench.iter(|| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                turn = (turn + random % 7 + 1) % flows;
                now += Duration::from_ps(30_000_000 / u64::from(flows));
                let key = &mut left[turn as usize];
                *key = if *key > 40_000 { *key - 37_500 } else { 2_000 + random % 196_000 };
                let request = Request { key: *key, demand: Rate::from_gbps(1) };
                arbiter.expire(now);
                arbiter.update(now, FlowId(turn), black_box(request));
                black_box(arbiter.share(FlowId(turn)))
            });
        });
    }
}

criterion_group!(benches, requests);
criterion_main!(benches);
