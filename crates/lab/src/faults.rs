//! From `[[fault]]` to the links and nodes that faults affect.

use flowloom_core::{FlowId, LinkId, Network, NodeId, NodeKind, Placement, Time};
use flowloom_fabric::{Aim, AimedFault, CONTROL_HOST, Fault, Outage, PacketKind};
use flowloom_transports::pfc::Storm;

use crate::ScenarioError;
use crate::places::links_at;
use crate::spec::{FaultPackets, FaultSpec, LinkDown, NodeDown, PauseStorm, Random, Reorder};
use crate::validate::ValidSpec;

/// Links that a fault takes down.
#[derive(Clone, Debug)]
pub struct LinkOutage {
    /// The number of the fault in the scenario.
    pub fault: usize,
    /// One direction of each link or both, as the scenario names them. Both are down.
    pub links: Vec<LinkId>,
    /// When they go down.
    pub from: Time,
    /// When they come up again.
    pub to: Time,
}

/// What goes wrong in a network.
pub(crate) struct Faults {
    /// The faults of each directed link, by its index.
    pub by_link: Vec<Vec<AimedFault>>,
    /// The links that go down for a while.
    pub link_outages: Vec<LinkOutage>,
    /// The nodes that go down for a while.
    pub outages: Vec<Outage>,
    /// The nodes that pause their neighbours without need.
    pub storms: Vec<Storm>,
}

impl Faults {
    /// Places the faults of a scenario with this many flows.
    ///
    /// # Errors
    /// A fault on links, at a node or of a flow that does not exist, at a node without an endpoint, or of messages that the transport does
    /// not send.
    pub fn place(spec: &ValidSpec<'_>, network: &Network, flows: usize) -> Result<Faults, ScenarioError> {
        let by_link = vec![Vec::new(); network.links().len()];
        let mut faults = Faults { by_link, link_outages: Vec::new(), outages: Vec::new(), storms: Vec::new() };
        for (index, fault) in spec.faults.iter().enumerate() {
            faults
                .add(index, fault, spec, network, flows)
                .map_err(|(key, message)| ScenarioError::at_key(format!("fault.{index}.{key}"), message))?;
        }
        Ok(faults)
    }

    /// Adds one fault. An error has the key at fault, and what would be right.
    fn add(
        &mut self,
        index: usize,
        fault: &FaultSpec,
        spec: &ValidSpec<'_>,
        network: &Network,
        flows: usize,
    ) -> Result<(), (&'static str, String)> {
        let (place, packets, flow, what) = match fault {
            FaultSpec::NodeDown(NodeDown { node, from, to }) => {
                let placement = (spec.transport.placement)(spec.parameters);
                let node =
                    endpoint_named(node, network, placement, spec.transport.name).map_err(|message| ("node", message))?;
                self.outages.push(Outage { node, from: Time::ZERO + from.0, to: Time::ZERO + to.0 });
                return Ok(());
            }
            FaultSpec::PauseStorm(PauseStorm { node, from, to, every }) => {
                let node = node_named(node, network).map_err(|message| ("node", message))?;
                self.storms.push(Storm { node, from: Time::ZERO + from.0, to: Time::ZERO + to.0, every: every.0 });
                return Ok(());
            }
            FaultSpec::LinkDown(LinkDown { place, from, to }) => {
                let named = links_at(place, network).map_err(|message| ("where", message))?;
                let (from, to) = (Time::ZERO + from.0, Time::ZERO + to.0);
                // A broken cable affects both directions.
                let mut links = [&named[..], &named.iter().map(|link| link.reverse()).collect::<Vec<_>>()].concat();
                links.sort_unstable();
                links.dedup();
                self.strike(&links, Fault::Down(from, to).into());
                self.link_outages.push(LinkOutage { fault: index, links: named, from, to });
                return Ok(());
            }
            FaultSpec::Loss(Random { place, probability, packets, flow }) => (place, packets, flow, Fault::Loss(*probability)),
            FaultSpec::Corrupt(Random { place, probability, packets, flow }) => {
                (place, packets, flow, Fault::Corrupt(*probability))
            }
            FaultSpec::Duplicate(Random { place, probability, packets, flow }) => {
                (place, packets, flow, Fault::Duplicate(*probability))
            }
            FaultSpec::Reorder(Reorder { place, probability, delay, packets, flow }) => {
                (place, packets, flow, Fault::Reorder(*probability, delay.0))
            }
        };
        if let Some(flow) = flow.filter(|flow| *flow as usize >= flows) {
            let message = format!("found {flow}; there are {flows} flows, which are numbered from 0 in order of start");
            return Err(("flow", message));
        }
        if *packets == FaultPackets::Messages && (spec.transport.placement)(spec.parameters) == Placement::Nowhere {
            let name = spec.transport.name;
            let message = format!("found \"messages\", but {name}, as configured, has no control endpoints; give another kind");
            let message = format!("{message}: \"all\", \"data\" or \"control\"");
            return Err(("packets", message));
        }
        let links = links_at(place, network).map_err(|message| ("where", message))?;
        self.strike(&links, AimedFault { fault: what, aim: Aim { packets: (*packets).into(), flow: flow.map(FlowId) } });
        Ok(())
    }

    fn strike(&mut self, links: &[LinkId], fault: AimedFault) {
        links.iter().for_each(|link| self.by_link[link.index()].push(fault));
    }
}

/// The highest probability with which any of the faults loses or corrupts a packet.
pub(crate) fn highest_probability(faults: impl Iterator<Item = Fault>) -> Option<f64> {
    let probabilities = faults.filter_map(|fault| match fault {
        Fault::Loss(probability) | Fault::Corrupt(probability) => Some(probability),
        _ => None,
    });
    probabilities.reduce(f64::max)
}

impl From<FaultPackets> for PacketKind {
    fn from(packets: FaultPackets) -> PacketKind {
        match packets {
            FaultPackets::All => PacketKind::All,
            FaultPackets::Data => PacketKind::Data,
            FaultPackets::Control => PacketKind::Control,
            FaultPackets::Messages => PacketKind::Messages,
        }
    }
}

/// The node of this name.
///
/// # Errors
/// If there is none, with what would be right.
fn node_named(name: &str, network: &Network) -> Result<NodeId, String> {
    network.node_ids().find(|node| network.node(*node).name == name).ok_or_else(|| {
        let first = &network.node(NodeId(0)).name;
        format!("no node is called \"{name}\"; the first host is called \"{first}\"")
    })
}

/// The node of this name, which has an endpoint.
///
/// # Errors
/// If there is none, with what would be right.
fn endpoint_named(name: &str, network: &Network, placement: Placement, transport: &str) -> Result<NodeId, String> {
    if name == CONTROL_HOST && placement == Placement::ExtraHost {
        return Ok(NodeId(network.len() as u32)); // the simulator adds it as the last node
    }
    let node = node_named(name, network)?;
    if network.node(node).kind == NodeKind::Switch && placement != Placement::Switches {
        return Err(format!("found the switch \"{name}\", but {transport} has no control endpoints on switches; give a host"));
    }
    Ok(node)
}
