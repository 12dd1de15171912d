//! From `[[fault]]` to the links that faults strike.

use flowloom_core::{Link, LinkId, Network, Time};
use flowloom_fabric::Fault;

use crate::ScenarioError;
use crate::error::suggestion;
use crate::spec::FaultSpec;

/// The faults of each directed link, by its index.
///
/// # Errors
/// A fault on links that do not exist.
pub(crate) fn place(specs: &[FaultSpec], network: &Network) -> Result<Vec<Vec<Fault>>, ScenarioError> {
    let mut by_link = vec![Vec::new(); network.links().len()];
    for (index, spec) in specs.iter().enumerate() {
        let mut links = links_at(spec.place(), network);
        if links.is_empty() {
            return Err(ScenarioError::at_key(format!("fault.{index}.where"), no_such_links(spec.place(), network)));
        }
        if matches!(spec, FaultSpec::LinkDown(_)) {
            // A cable does not break one way.
            links.extend(links.clone().into_iter().map(LinkId::reverse));
            links.sort_unstable();
            links.dedup();
        }
        links.into_iter().for_each(|link| by_link[link.index()].push(fault(spec)));
    }
    Ok(by_link)
}

fn fault(spec: &FaultSpec) -> Fault {
    match spec {
        FaultSpec::Loss(random) => Fault::Loss(random.probability),
        FaultSpec::Corrupt(random) => Fault::Corrupt(random.probability),
        FaultSpec::Duplicate(random) => Fault::Duplicate(random.probability),
        FaultSpec::Reorder(reorder) => Fault::Reorder(reorder.probability, reorder.delay.0),
        FaultSpec::LinkDown(down) => Fault::Down(Time::ZERO + down.from.0, Time::ZERO + down.to.0),
    }
}

/// The links that a fault's `where` names.
fn links_at(place: &str, network: &Network) -> Vec<LinkId> {
    let is_meant = |link: &LinkId| place == "all" || network.hop_name(*link) == place || nodes_of(*link, network) == place;
    (0..network.links().len() as u32).map(LinkId).filter(is_meant).collect()
}

fn no_such_links(place: &str, network: &Network) -> String {
    let mut hops: Vec<String> = (0..network.links().len() as u32).map(|link| network.hop_name(LinkId(link))).collect();
    hops.sort_unstable();
    hops.dedup();
    hops.push("all".to_owned());
    let suggestion = suggestion(place, hops.iter().map(String::as_str));
    let example = nodes_of(LinkId(0), network);
    format!("no link is called \"{place}\"; {suggestion} (or two nodes' names, as in \"{example}\")")
}

/// A link's name by the nodes that it joins.
fn nodes_of(link: LinkId, network: &Network) -> String {
    let Link { from, to, .. } = *network.link(link);
    format!("{}-{}", network.node(from).name, network.node(to).name)
}
