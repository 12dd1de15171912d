//! `[[fault]]`: what goes wrong. Each kind is a module with its keys, its rules and what it does to links and nodes, and has a place in the
//! list below.

mod corrupt;
mod duplicate;
mod link_down;
mod link_rate;
mod loss;
mod node_down;
mod pause_storm;
mod random;
mod reorder;

use std::sync::Arc;

use flowloom_core::{Duration, LinkId, Network, NodeId, Paths, Placement, Rate, Time};
use flowloom_fabric::{AimedFault, CONTROL_HOST, Fault, Outage};
use flowloom_transports::pfc::Storm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;
use crate::places::links_at;

pub use random::{FaultPackets, Random};

/// A kind of fault. Its fields are its keys; its documentation says what goes wrong.
trait Failure {
    /// Checks the rules that the schema cannot say. `flow_control` says whether ports obey pause frames.
    ///
    /// # Errors
    /// The first rule that is broken.
    fn check(&self, _flow_control: bool) -> Result<(), Wrong> {
        Ok(())
    }

    /// How long it lasts, if it begins and ends.
    fn span(&self) -> Option<Span> {
        None
    }

    /// Adds it to the faults of a network.
    ///
    /// # Errors
    /// If there is no such place, node, flow or packet.
    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong>;
}

/// The key at fault, and what would be right.
type Wrong = (&'static str, String);

/// From when until when a fault lasts.
struct Span {
    from: Duration,
    to: Duration,
    /// What the error says of the two instants if the second is not the later one.
    right: &'static str,
}

/// Where faults are placed.
pub(crate) struct Site<'a> {
    pub network: &'a Network,
    /// How many flows there are.
    pub flows: usize,
    /// The name of the transport.
    pub transport: &'static str,
    /// Why routing cannot change while it runs, if it cannot.
    pub fixed_routes: Option<&'static str>,
    /// Why the rates of links cannot change while it runs, if they cannot.
    pub fixed_rates: Option<&'static str>,
    /// Where its control endpoints are.
    pub placement: Placement,
    /// The number of the fault in the scenario.
    pub index: usize,
}

impl Site<'_> {
    /// The node of this name.
    ///
    /// # Errors
    /// If there is none, with what would be right.
    fn node_named(&self, name: &str) -> Result<NodeId, String> {
        let network = self.network;
        network.node_ids().find(|node| network.node(*node).name == name).ok_or_else(|| {
            let first = &network.node(NodeId(0)).name;
            format!("no node is called \"{name}\"; the first host is called \"{first}\"")
        })
    }
}

/// Makes the choice between the kinds.
macro_rules! kinds {
    ($($module:ident :: $kind:ident),* $(,)?) => {
        $(pub use $module::$kind;)*

        /// Something that goes wrong on some links, or at a node.
        ///
        /// `where` names them: a hop by the tiers it joins in the direction of travel (`"leaf-spine"` is the way up, `"spine-leaf"` the way
        /// down), one link by its nodes (`"l0-s2"`), or `"all"`. Parallel links between two nodes are numbered in the order of the file: `"l0-s2"` names all of them, and
        /// `"l0-s2:2"` the second.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[allow(missing_docs)] // the documentation of the types is that of the kinds
        pub enum FaultSpec {
            $($kind($kind)),*
        }

        impl FaultSpec {
            fn failure(&self) -> &dyn Failure {
                match self {
                    $(FaultSpec::$kind(failure) => failure),*
                }
            }
        }
    };
}

kinds![
    loss::Loss,
    corrupt::Corrupt,
    duplicate::Duplicate,
    reorder::Reorder,
    link_down::LinkDown,
    link_rate::LinkRate,
    node_down::NodeDown,
    pause_storm::PauseStorm,
];

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

/// Switches notice that links are down, or up again.
pub(crate) struct Noticed {
    pub at: Time,
    /// The number of the fault in the scenario.
    pub fault: usize,
    pub links: Vec<LinkId>,
    pub down: bool,
}

/// One direction of a link that is slower for a while.
pub(crate) struct Slowed {
    pub link: LinkId,
    pub rate: Rate,
    pub from: Time,
    pub to: Time,
    /// The number of the fault in the scenario.
    pub fault: usize,
}

/// What a node does for a while. It cannot do this twice at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deed {
    /// What the error says of it.
    pub what: &'static str,
    pub node: NodeId,
    pub from: Time,
    pub to: Time,
    /// The number of the fault in the scenario.
    pub fault: usize,
}

/// What goes wrong in a network.
pub(crate) struct Faults {
    /// The faults of each directed link, by its index.
    pub by_link: Vec<Vec<AimedFault>>,
    /// The links that go down for a while.
    pub link_outages: Vec<LinkOutage>,
    /// When switches notice that links are down, or up again.
    pub noticed: Vec<Noticed>,
    /// The links that are slower for a while.
    pub slowed: Vec<Slowed>,
    /// The nodes that go down for a while.
    pub outages: Vec<Outage>,
    /// The nodes that pause their neighbours without need.
    pub storms: Vec<Storm>,
    /// What nodes do in all this.
    pub deeds: Vec<Deed>,
}

impl Faults {
    /// Places the faults of a scenario. The index of the site does not matter.
    ///
    /// # Errors
    /// A fault on links, at a node or of a flow that does not exist, at a node without an endpoint, or of messages that the transport does
    /// not send, or a node that does the same twice at once.
    pub fn place(specs: &[FaultSpec], site: Site<'_>) -> Result<Faults, ScenarioError> {
        let by_link = vec![Vec::new(); site.network.links().len()];
        let mut faults = Faults {
            by_link,
            link_outages: Vec::new(),
            noticed: Vec::new(),
            slowed: Vec::new(),
            outages: Vec::new(),
            storms: Vec::new(),
            deeds: Vec::new(),
        };
        for (index, fault) in specs.iter().enumerate() {
            fault.failure().place(&Site { index, ..site }, &mut faults).map_err(|wrong| at(index, wrong))?;
        }
        faults.check_deeds(site.network)?;
        Ok(faults)
    }

    /// The paths from each instant on at which switches notice something or links change their rates.
    ///
    /// # Errors
    /// If some nodes cannot be reached without the links that are down at the same time, or two faults change the rate of a link at once or one of them cuts it.
    pub fn reroutes(&mut self, paths: &Paths) -> Result<Vec<(Time, Paths)>, ScenarioError> {
        self.check_slowed()?;
        let mut at_times: Vec<Time> = self.noticed.iter().map(|noticed| noticed.at).collect();
        at_times.extend(self.slowed.iter().flat_map(|slowed| [slowed.from, slowed.to]));
        at_times.sort_unstable();
        at_times.dedup();
        self.noticed.sort_by_key(|noticed| noticed.at);
        let mut noticed = self.noticed.iter().peekable();
        // A link may be down for several faults.
        let mut down_for = vec![0_u32; paths.network().links().len()];
        let mut network = paths.network().clone();
        let mut reroutes = Vec::with_capacity(at_times.len());
        for time in at_times {
            let mut last = None;
            while let Some(Noticed { fault, links, down, .. }) = noticed.next_if(|noticed| noticed.at == time) {
                for link in links {
                    let faults = &mut down_for[link.index()];
                    *faults = if *down { *faults + 1 } else { *faults - 1 };
                }
                last = Some(*fault);
            }
            if self.slowed.iter().any(|slowed| slowed.from == time || slowed.to == time) {
                network = self.network_at(time, paths.network());
            }
            let is_dead = |(link, faults): (LinkId, &u32)| (*faults > 0).then_some(link);
            let dead: Vec<LinkId> = (0..).map(LinkId).zip(&down_for).filter_map(is_dead).collect();
            let is_whole = dead.is_empty() && Arc::ptr_eq(&network, paths.network());
            let left = if is_whole { Some(paths.clone()) } else { paths.over(network.clone(), &dead) };
            let left = left.ok_or_else(|| {
                let message =
                    "with the links of other faults that are down at the same time, some nodes cannot be reached; leave it out";
                at(last.expect("a link has gone down"), ("reroute_after", message.to_owned()))
            })?;
            reroutes.push((time, left));
        }
        Ok(reroutes)
    }

    /// The network with the rates that its links have from this instant on.
    fn network_at(&self, time: Time, network: &Arc<Network>) -> Arc<Network> {
        let mut slow = self.slowed.iter().filter(|slowed| (slowed.from..slowed.to).contains(&time)).peekable();
        let mut network = network.clone();
        if slow.peek().is_some() {
            let changed = Arc::make_mut(&mut network);
            slow.for_each(|Slowed { link, rate, .. }| changed.set_rate(*link, *rate));
        }
        network
    }

    fn check_slowed(&mut self) -> Result<(), ScenarioError> {
        self.slowed.sort_by_key(|slowed| (slowed.link, slowed.from));
        for pair in self.slowed.windows(2) {
            if pair[0].link == pair[1].link && pair[1].from < pair[0].to {
                let message = format!("found {}; another fault makes the link slower until {}", pair[1].from, pair[0].to);
                return Err(at(pair[1].fault, ("from", message)));
            }
        }
        let is_cut = |slowed: &&Slowed| {
            let faults = &self.by_link[slowed.link.index()];
            faults.iter().any(|aimed| matches!(aimed.fault, Fault::Cut(..)))
        };
        match self.slowed.iter().find(is_cut) {
            Some(slowed) => {
                let message = "another fault cuts the link (reroute_after); give them different links";
                Err(at(slowed.fault, ("where", message.to_owned())))
            }
            None => Ok(()),
        }
    }

    fn check_deeds(&mut self, network: &Network) -> Result<(), ScenarioError> {
        self.deeds.sort_unstable();
        for pair in self.deeds.windows(2) {
            let (Deed { what, node, to, .. }, next) = (pair[0], pair[1]);
            if (what, node) == (next.what, next.node) && next.from <= to {
                // The simulator adds the control host behind the nodes that the scenario knows.
                let name = if node.index() < network.len() { &network.node(node).name } else { CONTROL_HOST };
                let message =
                    format!("found {}; {name} {what} until {to} already, give one fault for both or a later time", next.from);
                return Err(at(next.fault, ("from", message)));
            }
        }
        Ok(())
    }

    fn strike(&mut self, links: &[LinkId], fault: AimedFault) {
        links.iter().for_each(|link| self.by_link[link.index()].push(fault));
    }
}

/// The NICs whose links are down, from when until when hosts and switches know it.
pub(crate) fn known_nic_outages(specs: &[FaultSpec], network: &Network) -> Vec<(NodeId, Time, Time)> {
    let noticed = specs.iter().filter_map(|fault| {
        let FaultSpec::LinkDown(fault) = fault else { return None };
        let [from, to] = fault.known()?;
        // A place that does not exist is an error later.
        Some((links_at(&fault.place, network).unwrap_or_default(), from, to))
    });
    let is_nic = |node: &NodeId| node.index() < network.nics();
    let of_link = |link: LinkId| [network.link(link).from, network.link(link).to].into_iter().filter(is_nic);
    noticed.flat_map(|(links, from, to)| links.into_iter().flat_map(of_link).map(move |nic| (nic, from, to))).collect()
}

fn at(index: usize, (key, message): Wrong) -> ScenarioError {
    ScenarioError::at_key(format!("fault.{index}.{key}"), message)
}

/// Checks the rules of each fault. `flow_control` says whether ports obey pause frames.
///
/// # Errors
/// The first rule that is broken, with its key.
pub(crate) fn check(faults: &[FaultSpec], flow_control: bool) -> Result<(), ScenarioError> {
    for (index, fault) in faults.iter().enumerate() {
        let failure = fault.failure();
        failure.check(flow_control).map_err(|wrong| at(index, wrong))?;
        if let Some(Span { from, to, right }) = failure.span().filter(|span| span.to <= span.from) {
            return Err(at(index, ("to", format!("found {to}; {right} {from}"))));
        }
    }
    Ok(())
}

/// Both directions of links, each once and in their order.
fn both_directions(links: &[LinkId]) -> Vec<LinkId> {
    let mut both: Vec<LinkId> = links.iter().flat_map(|link| [*link, link.reverse()]).collect();
    both.sort_unstable();
    both.dedup();
    both
}

/// The highest probability with which any of the faults loses or corrupts a packet.
pub(crate) fn highest_probability(faults: impl Iterator<Item = Fault>) -> Option<f64> {
    let probabilities = faults.filter_map(|fault| match fault {
        Fault::Loss(probability) | Fault::Corrupt(probability) => Some(probability),
        _ => None,
    });
    probabilities.reduce(f64::max)
}
