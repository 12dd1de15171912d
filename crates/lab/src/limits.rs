//! Checks that a run's clock and counters can hold the times and sums of its network and its flows. [`Time`] explains the ranges.

use flowloom_core::{Bytes, Duration, Flow, Link, LinkId, Network, Rate, Time, WireProfile};

use crate::ScenarioError;

/// The fastest link. On a faster one, a byte would take less than a picosecond.
const RATE_MAX: Rate = Rate::from_gbps(1_000_000);

/// Checks that a round trip over empty ports is no longer than the longest span of a run.
pub(crate) fn check_network(network: &Network, wire: &WireProfile) -> Result<(), ScenarioError> {
    let longest = longest_hop(network);
    for (index, link) in (0..).zip(network.links()) {
        let wrong = |what: String| Err(at_link("topology", network, LinkId(index), &what));
        if link.rate > RATE_MAX {
            return wrong(format!("found a rate of {}; the most is {RATE_MAX}", link.rate));
        }
        if link.delay > longest || transmit_time(link, wire.full) > longest {
            let found = format!("found {} and a delay of {}", link.rate, link.delay);
            return wrong(format!("{found}; a packet must cross a link in at most {longest} here"));
        }
    }
    Ok(())
}

/// Checks that a round trip over full ports is no longer than the longest span of a run.
pub(crate) fn check_buffer(network: &Network, buffer: Bytes) -> Result<(), ScenarioError> {
    let longest = longest_hop(network);
    let slow = (0..).zip(network.links()).find(|(_, link)| transmit_time(link, buffer) > longest);
    slow.map_or(Ok(()), |(index, link)| {
        let found = format!("{buffer} take {} at {}", seconds(link.rate, buffer), link.rate);
        let what = format!("{found}; a full port must drain in at most {longest} here");
        Err(at_link("fabric.buffer", network, LinkId(index), &what))
    })
}

/// The longest that a packet may take for one hop. A round trip passes each hop twice, and any two nodes of a part of the network are at most twice as far apart as its first
/// NIC and the node farthest from it.
fn longest_hop(network: &Network) -> Duration {
    let hops = network.parts().into_iter().flat_map(|first| network.distances(first));
    let hops = hops.filter(|hops| *hops < u32::MAX).max().unwrap_or(1);
    Duration::LONGEST / (4 * u64::from(hops.max(1)))
}

fn transmit_time(link: &Link, bytes: Bytes) -> Duration {
    link.rate.checked_transmit_time(bytes).unwrap_or(Duration::MAX)
}

fn at_link(key: &str, network: &Network, link: LinkId, what: &str) -> ScenarioError {
    ScenarioError::at_key(key, format!("link {}: {what}", network.link_name(link)))
}

fn seconds(rate: Rate, bytes: Bytes) -> String {
    format!("{:.3e} s", bytes.get() as f64 * 8.0 / rate.as_bps() as f64)
}

/// Checks that flows start within a run, that their packets can be counted, and that none takes longer than a run's longest span over any link.
pub(crate) fn check_flows(
    flows: impl Iterator<Item = Flow>,
    network: &Network,
    wire: &WireProfile,
) -> Result<(), ScenarioError> {
    let wrong = |message: String| Err(ScenarioError::at_key("workload", message));
    let (mut last, mut largest) = (Time::ZERO, None);
    for flow in flows {
        largest = largest.max(Some(flow.size));
        if flow.start < Time::MAX {
            last = last.max(flow.start);
        }
    }
    if last > Time::LAST {
        return wrong(format!("a flow would start at {last}; a run lasts at most {}", Time::LAST));
    }
    let Some(largest) = largest else { return Ok(()) };
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
