//! Checks, before a run starts, that its clock and counters can hold its times and sums. [`Time`] explains the ranges.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Network, NodeId, Rate, Time, WireProfile};
use flowloom_fabric::{AimedFault, Fault};
use flowloom_transports::Conditions;

use crate::parameters::BadParameter;
use crate::plan::Plan;
use crate::{ScenarioError, catalogue};

/// The fastest link. On a faster one, a byte would take less than a picosecond.
const RATE_MAX: Rate = Rate::from_gbps(1_000_000);

/// Checks that a round trip over full ports is no longer than the longest span of a run.
pub(crate) fn check_network(network: &Network, wire: &WireProfile, buffer: Bytes) -> Result<(), ScenarioError> {
    let hops = network.distances(NodeId(0)).into_iter().filter(|hops| *hops < u32::MAX).max().unwrap_or(1);
    // A round trip passes each hop twice, and any two nodes are at most twice as far apart as the first node and the one farthest from it.
    let longest = Duration::LONGEST / (4 * u64::from(hops.max(1)));
    for (index, link) in (0..).zip(network.links()) {
        let wrong = |key: &str, what: String| {
            Err(ScenarioError::at_key(key, format!("link {}: {what}", network.link_name(LinkId(index)))))
        };
        if link.rate > RATE_MAX {
            return wrong("topology", format!("found a rate of {}; the most is {RATE_MAX}", link.rate));
        }
        let [packet, queue] = [wire.full, buffer].map(|bytes| link.rate.checked_transmit_time(bytes).unwrap_or(Duration::MAX));
        if link.delay > longest || packet > longest {
            let found = format!("found {} and a delay of {}", link.rate, link.delay);
            return wrong("topology", format!("{found}; a packet must cross a link in at most {longest} here"));
        }
        if queue > longest {
            let found = format!("{buffer} take {} at {}", seconds(link.rate, buffer), link.rate);
            return wrong("fabric.buffer", format!("{found}; a full port must drain in at most {longest} here"));
        }
    }
    Ok(())
}

fn seconds(rate: Rate, bytes: Bytes) -> String {
    format!("{:.3e} s", bytes.get() as f64 * 8.0 / rate.as_bps() as f64)
}

/// Checks that flows start within a run, that their packets can be counted, and that none takes longer than a run's longest span over any link.
pub(crate) fn check_flows(flows: &[Flow], network: &Network, wire: &WireProfile) -> Result<(), ScenarioError> {
    let wrong = |message: String| Err(ScenarioError::at_key("workload", message));
    let starts = flows.iter().map(|flow| flow.start).filter(|start| *start < Time::MAX);
    if let Some(last) = starts.max().filter(|last| *last > Time::LAST) {
        return wrong(format!("a flow would start at {last}; a run lasts at most {}", Time::LAST));
    }
    let Some(largest) = flows.iter().map(|flow| flow.size).max() else { return Ok(()) };
    if largest.pieces(wire.payload()) >= u64::from(u32::MAX) {
        return wrong(format!("found a flow of {largest}; the most is 2^32 - 2 packets"));
    }
    let slowest = network.links().iter().map(|link| link.rate).min().expect("a checked network has links");
    let bytes = wire.flow_wire_bytes(largest);
    if slowest.checked_transmit_time(bytes).is_none() {
        let time = seconds(slowest, bytes);
        return wrong(format!("a flow of {largest} takes {time} over a link of {slowest}; the most is {}", Duration::LONGEST));
    }
    Ok(())
}

/// The remaining checks of a plan: faults, the transport's parameters on this network, and the oracle's busy periods.
pub(crate) fn check_plan(plan: &Plan) -> Result<(), ScenarioError> {
    let too_long = |aimed: &AimedFault| matches!(aimed.fault, Fault::Reorder(_, delay) if delay > Duration::LONGEST);
    if plan.faults.iter().flatten().any(too_long) {
        return Err(ScenarioError::at_key("fault", format!("packets are held back for at most {}", Duration::LONGEST)));
    }
    longest_pause(plan)?;
    check_pfc(plan)?;
    let bytes = plan.flows.iter().map(|flow| plan.wire.flow_wire_bytes(flow.size).get()).try_fold(0, u64::checked_add);
    if bytes.is_none() {
        return Err(ScenarioError::at_key("workload", "all flows together are more than 2^64 bytes"));
    }
    if plan.transport.name == catalogue::IDEAL {
        // The oracle serves all flows but background flows, however long that takes.
        let slowest = plan.network.links().iter().map(|link| link.rate).min().expect("a checked network has links");
        let served = plan.flows.iter().filter(|flow| !flow.background).map(|flow| plan.wire.flow_wire_bytes(flow.size).get());
        let time = slowest.checked_transmit_time(Bytes::new(served.sum()));
        if time.is_none() {
            let message = format!("all flows together take more than {} over a link of {slowest}", Duration::LONGEST);
            return Err(ScenarioError::at_key("workload", message));
        }
    }
    Ok(())
}

/// Checks that the memory of each switch holds its headrooms.
fn check_pfc(plan: &Plan) -> Result<(), ScenarioError> {
    let Some((pfc, classes)) = plan.pfc.as_ref().zip(catalogue::classes_to_pause(plan.transport.name)) else { return Ok(()) };
    let classes = classes(&plan.parameters);
    for switch in plan.network.switches() {
        pfc.limits(&plan.network, switch, &plan.wire, plan.memory, classes).map_err(|message| {
            let BadParameter { key, message } = message.into();
            let key = key.unwrap_or_default();
            ScenarioError::at_key(if key == "buffer" { format!("fabric.{key}") } else { format!("fabric.pfc.{key}") }, message)
        })?;
    }
    Ok(())
}

/// The longest time for which a flow of the plan's transport may be silent before it tries again.
///
/// # Errors
/// If the transport's parameters make no sense in this plan.
pub(crate) fn longest_pause(plan: &Plan) -> Result<Duration, ScenarioError> {
    plan.parameters.longest_pause(&conditions(plan)).map_err(|BadParameter { key, message }| {
        let below = key.map_or(String::new(), |key| format!(".{key}"));
        ScenarioError::at_key(format!("transport.{}{below}", plan.transport.name), message)
    })
}

/// What a plan's parameters are checked against.
pub(crate) fn conditions(plan: &Plan) -> Conditions<'_> {
    Conditions {
        network: &plan.network,
        wire: plan.wire,
        buffer: plan.memory.bytes(),
        pauses: plan.pfc.is_some(),
        last_deadline: plan.flows.iter().filter_map(|flow| flow.deadline).max(),
        largest_flow: plan.flows.iter().map(|flow| flow.size).max().unwrap_or_default(),
        largest_coflow: plan.flows.iter().map(Flow::coflow_size).max().unwrap_or_default(),
    }
}
