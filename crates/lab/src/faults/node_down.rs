//! `kind = "node_down"`: a node that is down for a while.

use flowloom_core::{Duration, NodeId, NodeKind, Placement, Time};
use flowloom_fabric::{CONTROL_HOST, Outage};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Deed, Failure, Faults, Site, Span, Wrong};

/// A host, or the control endpoint of a switch, is down for a while and comes back without its state.
///
/// Packets for it are dropped. A switch goes on forwarding. If a host goes down, its open flows and those to it are aborted, and flows that
/// would start there are aborted until it is up again. The other end of an aborted flow is not told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeDown {
    /// The name of a host, such as `h0`, of a switch with a control endpoint, or of the control host, `arbiter`.
    #[schemars(example = &"h0")]
    pub node: String,
    /// When it goes down.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When it comes up again.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
}

impl Failure for NodeDown {
    fn span(&self) -> Option<Span> {
        let right = "the node comes up after it went down at";
        Some(Span { from: self.from.0, to: self.to.0, right })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        let named = endpoint_named(&self.node, site).map_err(|message| ("node", message))?;
        let (from, to) = (Time::ZERO + self.from.0, Time::ZERO + self.to.0);
        // All NICs of a host go down with it.
        let network = site.network;
        let nics = (network.hosts() as u32..network.nics() as u32).map(NodeId);
        for node in nics.filter(|nic| *nic != named && network.host_of(*nic) == named).chain([named]) {
            faults.outages.push(Outage { node, from, to });
            faults.deeds.push(Deed { what: "is down", node, from, to, fault: site.index });
        }
        Ok(())
    }
}

/// The node of this name, which has an endpoint.
///
/// # Errors
/// If there is none, with what would be right.
fn endpoint_named(name: &str, site: &Site<'_>) -> Result<NodeId, String> {
    if name == CONTROL_HOST && site.placement == Placement::ExtraHost {
        return Ok(NodeId(site.network.len() as u32)); // the simulator adds it as the last node
    }
    let node = site.node_named(name)?;
    if site.network.node(node).kind == NodeKind::Switch && site.placement != Placement::Switches {
        let transport = site.transport;
        return Err(format!("found the switch \"{name}\", but {transport} has no control endpoints on switches; give a host"));
    }
    Ok(node)
}
