//! Bounds on queues of data where credits schedule all data, and a check of each run against them.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, LinkId, Paths, WireProfile};
use flowloom_transports::disciplines::{Beyond, WatchesData, data_queue_bounds};

use crate::parameters::Parameters;
use crate::plan::Setup;

/// The sizes of credits may be random. Their sum is assumed to stay within this many standard deviations of its mean.
const DEVIATIONS: f64 = 8.0;

/// The most bytes of data that queue at each port under a transport with these parameters, by link. `None` if no credits schedule its data, or if the waits of
/// ports depend on each other in a cycle.
pub(crate) fn bounds(parameters: &Parameters, paths: &Paths, wire: &WireProfile) -> Option<Vec<Bytes>> {
    data_queue_bounds(paths, wire, &parameters.credit_schedule(wire)?)
}

fn bounds_of(setup: &Setup) -> Option<Vec<Bytes>> {
    bounds(&setup.parameters, &setup.paths, &setup.wire)
}

/// The most bytes of data that queue at any port of each kind of hop that data passes.
///
/// `None` if no credits schedule the data of the plan's transport, or if there is no bound. Data that waits for signals, and what credits of random
/// sizes add, is not in it: see [`deviation`].
pub fn data_queues(setup: &Setup) -> Option<BTreeMap<String, Bytes>> {
    let bounds = bounds_of(setup)?;
    let mut hops: BTreeMap<String, Bytes> = BTreeMap::new();
    for (link, bound) in (0..).map(LinkId).zip(bounds).filter(|(_, bound)| *bound > Bytes::ZERO) {
        let most = hops.entry(setup.network.hop_name(link)).or_default();
        *most = bound.max(*most);
    }
    Some(hops)
}

/// How many bytes the random sizes of credits can add to a queue of data, over the square root of the number of packets that queue without a break.
pub fn deviation(setup: &Setup) -> f64 {
    setup.parameters.credit_schedule(&setup.wire).map_or(0.0, |schedule| DEVIATIONS * schedule.deviation(&setup.wire))
}

/// The limits with which ports compare their queues of data.
pub(crate) struct DataLimits {
    /// By link.
    bounds: Vec<Bytes>,
    deviation: f64,
}

impl DataLimits {
    /// Gives the port of a link its limit. A control host's link has none, because no data passes it.
    pub(crate) fn apply(&self, port: &mut impl WatchesData, link: LinkId) {
        if let Some(bound) = self.bounds.get(link.index()) {
            port.limit_data(bound.get(), self.deviation);
        }
    }
}

/// The limits that follow from the bounds. `None` if there are no bounds, or if something goes wrong in the network: times of answers are then
/// longer than the bounds assume.
pub(crate) fn limits(setup: &Setup) -> Option<DataLimits> {
    let bounds = setup.is_calm().then(|| bounds_of(setup)).flatten()?;
    Some(DataLimits { bounds, deviation: deviation(setup) })
}

/// Judges the queues of a run, by link: how far each exceeded its limit.
///
/// # Errors
/// If a queue was longer, with the port that exceeded its bound the most.
pub(crate) fn check(setup: &Setup, queues: impl Iterator<Item = Option<Beyond>>) -> Result<(), String> {
    let all = (0..).map(LinkId).zip(queues).filter_map(|(link, beyond)| Some((link, beyond?)));
    let Some((link, Beyond { at, bytes, allowed })) = all.max_by_key(|(_, beyond)| beyond.bytes - beyond.allowed) else {
        return Ok(());
    };
    Err(format!(
        "zero loss is not proved: at {at}, {} of data were queued at {} ({}) beside what waited for signals, and at most {} follow from the \
         routes and from the limits of credits; this is a defect of {} or of the bound",
        Bytes::new(bytes),
        setup.network.link_name(link),
        setup.network.hop_name(link),
        Bytes::new(allowed),
        setup.transport.name
    ))
}

#[cfg(test)]
mod tests {
    use flowloom_core::Time;

    use super::*;
    use crate::plan::Plan;
    use crate::spec::Scenario;

    const SCENARIO: &str = r#"
[topology]
kind = "single_switch"
hosts = 3
delay = "1us"
[fabric]
wire = "ethernet_1538"
routing = "ecmp_symmetric"
switching = "store_and_forward"
[workload]
kind = "permutation"
sizes = { fixed = "100kB" }
[transport]
name = "expresspass"
"#;

    fn plan(overrides: &[&str]) -> Plan {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::load(SCENARIO, "", &overrides).expect("it fits the schema");
        Plan::new(&scenario.validate().expect("its rules hold")).expect("it can be planned")
    }

    /// The numbers are worked out at `data_queue_bounds`; 8 deviations of sizes from 76 to 92 B are 8 × √24 × 1538 / 84 B.
    #[test]
    fn the_bounds_of_a_scenario_by_hand() {
        let equal = plan(&["transport.expresspass.credit_spread=0B"]);
        let expected = [("host-switch", 4866), ("switch-host", 19_478 * 1538 / 1622 + 4866)];
        let expected = expected.map(|(hop, bytes)| (hop.to_owned(), Bytes::new(bytes)));
        assert_eq!((data_queues(&equal.setup), deviation(&equal.setup)), (Some(expected.into()), 0.0));
        assert!((deviation(&plan(&[]).setup) - 717.6).abs() < 0.1);
        assert!(data_queues(&plan(&["transport.name=phost"]).setup).is_none());
    }

    /// Data that finds a full queue is no longer queued: what memory loses is within the bounds.
    #[test]
    fn lost_data_does_not_count() {
        let plan = plan(&["fabric.buffer=1538B", "workload={ kind = \"burst\", flows = 30, sizes = { fixed = \"60kB\" } }"]);
        let simulated = crate::simulate(plan, crate::Execution::new(&mut |_, _, _| true, &mut crate::observe::Nowhere))
            .unwrap_or_else(|error| panic!("{error}"));
        let lost: u64 = simulated.report.ports.iter().map(|port| port.dropped_data_packets).sum();
        let peaks = simulated.recorded.data_queues.expect("they were compared").into_iter().map(|queue| queue.peak());
        assert!(lost > 0 && peaks.max().is_some_and(|peak| peak <= 2 * 1538), "{lost}");
    }

    /// Faults delay answers, so runs with them are not compared.
    #[test]
    fn a_queue_beyond_its_bound_is_told_with_its_port() {
        assert!(limits(&plan(&["fault=[{ kind = \"loss\", where = \"all\", probability = 0.1 }]"]).setup).is_none());
        let Plan { setup, .. } = plan(&[]);
        let mut queues = vec![None; limits(&setup).expect("ExpressPass has bounds").bounds.len()];
        assert_eq!(check(&setup, queues.iter().copied()), Ok(()));
        let (at, allowed) = (Time::from_ps(3_000_000), 5000);
        queues[1] = Some(Beyond { at, bytes: 6001, allowed });
        queues[4] = Some(Beyond { at, bytes: 6000, allowed });
        let told = check(&setup, queues.into_iter()).unwrap_err();
        assert!(
            told.starts_with("zero loss is not proved: at 3us, 6.001kB of data were queued at s0-h0 (switch-host) beside"),
            "{told}"
        );
        assert!(
            told.contains("at most 5kB follow from the routes") && told.ends_with("a defect of expresspass or of the bound"),
            "{told}"
        );
    }
}
