//! What the ports of a plan may store under priority flow control.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, NodeId, NodeKind};
use flowloom_transports::pfc::{ClassLimits, NodeLimits};
use serde::Serialize;

use crate::catalogue::classes_to_pause;
use crate::plan::Setup;

/// The limits of a switch of the plan; `None` if the plan has no flow control, or if the node is no switch.
pub(crate) fn of(setup: &Setup, node: NodeId) -> Option<NodeLimits> {
    let (pfc, classes) = setup.pfc.as_ref().zip(classes_to_pause(setup.transport.name))?;
    let network = setup.paths.network();
    let at_switch = network.node(node).kind == NodeKind::Switch;
    let limits = || pfc.limits(network, node, &setup.wire, setup.memory, classes(&setup.parameters));
    at_switch.then(|| limits().expect("the plan was checked"))
}

/// What each class may store of what comes in over the links of one kind of hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HopHeadroom {
    /// The most that it may store beyond the threshold, in bytes: that of the port with the largest headroom.
    pub bytes: u64,
    /// The threshold (XOFF) at that port, in bytes; `None` if ports share memory, whose dynamic threshold applies.
    pub xoff_bytes: Option<u64>,
    /// How far a class must be below the threshold before it may go on (XOFF - XON), in bytes.
    pub hysteresis_bytes: u64,
}

/// The headrooms of a plan, by the hop over which packets come in; none without flow control.
pub(crate) fn by_hop(setup: &Setup) -> BTreeMap<String, HopHeadroom> {
    let network = setup.paths.network();
    let mut hops: BTreeMap<String, HopHeadroom> = BTreeMap::new();
    for switch in network.switches() {
        let Some(limits) = of(setup, switch) else { continue };
        for link in network.ports(switch) {
            let ClassLimits { xoff, headroom } = limits.of(network.link(*link).from_port);
            let found = HopHeadroom {
                bytes: headroom.get(),
                xoff_bytes: xoff.map(Bytes::get),
                hysteresis_bytes: limits.hysteresis().get(),
            };
            let most = hops.entry(network.hop_name(link.reverse())).or_insert(found);
            if found.bytes > most.bytes {
                *most = found;
            }
        }
    }
    hops
}
