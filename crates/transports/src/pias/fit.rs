//! Thresholds that fit a workload.

use flowloom_core::{Bytes, Network, NodeId, WireProfile};

use super::config::MOST_THRESHOLDS;
use super::optimum::{self, Objective, Reading, slowdown};
use super::sizes::{Sizes, edge};
use crate::{Conditions, SizeShare};

/// The load that thresholds are fitted for. A scenario may have none, and the best thresholds depend little on it: the README has numbers.
const LOAD: f64 = 0.8;
/// Thresholds do not suit a workload if they make flows this many times as slow as the best ones do, in the model.
const MISFIT: f64 = 5.0;

/// What the fastest host can send in half of an idle round trip: [`Objective::idle`].
pub(super) fn idle_bytes(network: &Network, wire: &WireProfile) -> f64 {
    let rates = (0..network.hosts() as u32).map(|host| network.host_rate(NodeId(host)));
    rates.max().unwrap_or_default().bytes_in(network.base_rtt(wire)).get() as f64 / 2.0
}

/// The thresholds that minimise the mean slowdown of flows of these sizes, in the model of bursts. There are none without flows.
pub(super) fn thresholds(conditions: &Conditions<'_>, sizes: &[SizeShare]) -> Vec<Bytes> {
    best(&Sizes::of(sizes), MOST_THRESHOLDS, idle_bytes(conditions.network, &conditions.wire)).map(as_bytes).collect()
}

/// What is wrong with thresholds that are far from the best ones of their number.
pub(super) fn misfit(given: &[Bytes], conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<String> {
    if given.is_empty() {
        return None;
    }
    let (sizes, idle) = (Sizes::of(&sizes()), idle_bytes(conditions.network, &conditions.wire));
    let found = slowdown(&sizes, given.iter().map(|threshold| sizes.bin(threshold.get()) as u8), LOAD, idle);
    let least = slowdown(&sizes, best(&sizes, given.len(), idle), LOAD, idle);
    let times = found / least;
    (times > MISFIT).then(|| {
        format!(
            "thresholds: they do not fit the sizes of this workload's flows: in a queueing model, its mean slowdown is {times:.0} times that \
             of the best {} threshold(s); give \"fitted\", or see `flowloom thresholds`",
            given.len()
        )
    })
}

fn best(sizes: &Sizes, most: usize, idle: f64) -> impl Iterator<Item = u8> + use<> {
    optimum::thresholds(sizes, most + 1, Objective { reading: Reading::Bursts, load: LOAD, idle }).into_iter()
}

fn as_bytes(bin: u8) -> Bytes {
    Bytes::new(edge(usize::from(bin)))
}
