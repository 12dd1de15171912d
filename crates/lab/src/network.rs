//! From `[topology]` to a network.

use flowloom_core::{Network, NodeId, NodeKind, PathNeed, Paths, Placement};

use crate::spec::RoutingMode;
use crate::validate::ValidSpec;
use crate::{ScenarioError, limits};

/// Builds the network of a scenario.
///
/// # Errors
/// A file that cannot be read or is wrong, a network that is not connected, links beyond what a run's clock can hold.
pub(crate) fn build(spec: &ValidSpec<'_>) -> Result<Network, ScenarioError> {
    let network = spec.topology.build(spec.base_dir(), spec.switching)?;
    network.check().map_err(|error| ScenarioError::at_key("topology", error.to_string()))?;
    limits::check_network(&network, &spec.wire)?;
    Ok(network)
}

/// Checks that a control host, if the transport needs one, can reach all hosts from the switch of the first one.
///
/// # Errors
/// If it cannot.
pub(crate) fn check_control_host(network: &Network, transport: &str, placement: Placement) -> Result<(), ScenarioError> {
    if placement != Placement::ExtraHost {
        return Ok(());
    }
    let first = network.link(network.ports(NodeId(0))[0]).to;
    let wrong = |what: String| {
        let message = format!(
            "{transport} has one control host, at the switch of the first host, and {what}; use another transport, or give hosts one link each"
        );
        Err(ScenarioError::at_key("topology", message))
    };
    if network.node(first).kind != NodeKind::Switch {
        return wrong("the first link of that host leads to another host".to_owned());
    }
    match network.parts().get(1) {
        Some(nic) => wrong(format!("no path leads from there to {}", network.node(*nic).name)),
        None => Ok(()),
    }
}

/// Checks that packets take paths as the transport needs them.
///
/// # Errors
/// A routing that does not give them in this network. In a network with one path for each pair of hosts, every routing does.
pub(crate) fn check_paths(paths: &Paths, transport: &str, need: PathNeed) -> Result<(), ScenarioError> {
    let (what, right) = match need {
        PathNeed::Any => return Ok(()),
        PathNeed::One => ("one path for all packets of a flow", "\"ecmp\" or \"ecmp_symmetric\""),
        PathNeed::Symmetric => ("the same path for a flow's packets in both directions", "\"ecmp_symmetric\""),
        PathNeed::SymmetricOrSprayed => (
            "the same path for a flow's packets in both directions, or all paths alike",
            "\"ecmp_symmetric\", or one that sprays without a look at queues",
        ),
    };
    if paths.give(need) {
        return Ok(());
    }
    let found = RoutingMode::from(paths.routing()).word();
    let message = format!("found {found}, but {transport} needs {what}; it must be {right} in this network");
    Err(ScenarioError::at_key("fabric.routing", message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::{Duration, Rate, Routing, Switching, topology};

    use super::*;

    #[test]
    fn routing_that_does_not_give_what_a_transport_needs_is_refused() {
        let network: Arc<Network> =
            topology::fat_tree(4, Rate::from_gbps(10), Duration::ZERO, Switching::StoreAndForward).into();
        let check = |routing, need| check_paths(&Paths::new(network.clone(), routing, 0), "guided", need);
        let refused = |need| Routing::EVERY.map(|routing| check(routing, need).is_err());
        assert_eq!(refused(PathNeed::Any), [false; 8]);
        assert_eq!(refused(PathNeed::One), [true, true, true, true, true, true, false, false]);
        assert_eq!(refused(PathNeed::Symmetric), [true, true, true, true, true, true, true, false]);
        assert_eq!(refused(PathNeed::SymmetricOrSprayed), [false, false, false, true, true, true, true, false]);
        let error = check(Routing::Ecmp, PathNeed::Symmetric).unwrap_err().to_string();
        let expected = "found \"ecmp\", but guided needs the same path for a flow's packets in both directions; \
                        it must be \"ecmp_symmetric\" in this network";
        assert!(error.contains("fabric.routing") && error.contains(expected), "{error}");
    }

    #[test]
    fn in_a_tree_every_routing_gives_one_path() {
        let rate = Rate::from_gbps(10);
        let tree: Arc<Network> =
            topology::three_tier(4, 2, 2, rate, rate, rate, Duration::ZERO, Switching::StoreAndForward).into();
        for routing in Routing::EVERY {
            check_paths(&Paths::new(tree.clone(), routing, 0), "guided", PathNeed::Symmetric).unwrap();
        }
    }
}
