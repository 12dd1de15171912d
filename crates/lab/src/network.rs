//! From `[topology]` to a network.

use flowloom_core::topology::{self, Delays};
use flowloom_core::{Duration, Network};

use crate::spec::{Quantity, Topology};
use crate::validate::ValidSpec;
use crate::{ScenarioError, custom, limits};

/// Builds the network of a scenario.
///
/// # Errors
/// A file that cannot be read or is wrong, a network that is not connected, links beyond what a run's clock can hold.
pub(crate) fn build(spec: &ValidSpec<'_>) -> Result<Network, ScenarioError> {
    let switching = spec.switching;
    let network = match spec.topology {
        Topology::SingleSwitch(t) => topology::single_switch(t.hosts as usize, t.host_rate.0, t.delay.0, switching),
        Topology::Dumbbell(t) => {
            topology::dumbbell(t.hosts_per_side as usize, t.host_rate.0, t.middle_rate.0, t.delay.0, switching)
        }
        Topology::LeafSpine(t) => topology::leaf_spine(
            t.racks as usize,
            t.hosts_per_rack as usize,
            t.spines as usize,
            t.host_rate.0,
            t.spine_rate.0,
            delays(t.delay, t.host_delay),
            switching,
        ),
        Topology::ThreeTier(t) => topology::three_tier(
            t.racks as usize,
            t.hosts_per_rack as usize,
            t.aggregations as usize,
            t.host_rate.0,
            t.aggregation_rate.0,
            t.core_rate.0,
            delays(t.delay, t.host_delay),
            switching,
        ),
        Topology::FatTree(t) => topology::fat_tree(t.k as usize, t.rate.0, delays(t.delay, t.host_delay), switching),
        Topology::Custom(t) => custom::network(&t.file, spec.base_dir(), switching)?,
    };
    network.check().map_err(|error| ScenarioError::at_key("topology", error.to_string()))?;
    limits::check_network(&network, &spec.wire, spec.memory.bytes())?;
    Ok(network)
}

fn delays(delay: Quantity<Duration>, hosts: Option<Quantity<Duration>>) -> Delays {
    Delays { hosts: hosts.unwrap_or(delay).0, switches: delay.0 }
}
