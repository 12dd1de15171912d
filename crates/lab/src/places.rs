//! What scenarios call the links of a network.

use flowloom_core::{LinkId, Network};

use crate::ScenarioError;
use crate::error::{nearest, shown, suggestion};

/// The links that a name such as a fault's `where` means: a hop, one link or parallel ones, or `all`.
///
/// # Errors
/// If there are none, with what would be right.
pub(crate) fn links_at(place: &str, network: &Network) -> Result<Vec<LinkId>, String> {
    let names = |link: LinkId| [network.hop_name(link), network.ends_name(link), network.link_name(link)];
    let is_meant = |link: &LinkId| place == "all" || names(*link).iter().any(|name| name == place);
    let links: Vec<LinkId> = (0..network.links().len() as u32).map(LinkId).filter(is_meant).collect();
    if links.is_empty() { Err(no_such_links(place, network)) } else { Ok(links) }
}

/// The links that a list at a key names, each once and in their order.
///
/// # Errors
/// A name that no link has, with its place in the list.
pub(crate) fn links_of(key: &str, places: &[String], network: &Network) -> Result<Vec<LinkId>, ScenarioError> {
    let mut links = Vec::new();
    for (index, place) in places.iter().enumerate() {
        links.extend(links_at(place, network).map_err(|message| ScenarioError::at_key(format!("{key}.{index}"), message))?);
    }
    links.sort_unstable();
    links.dedup();
    Ok(links)
}

/// What would be right instead of a name that no link has. A name with digits is meant for one link, so that it gets no hop as a suggestion: that would be all links
/// between two tiers.
fn no_such_links(place: &str, network: &Network) -> String {
    let links = || (0..network.links().len() as u32).map(LinkId);
    let mut hops: Vec<String> = links().map(|link| network.hop_name(link)).collect();
    hops.sort_unstable();
    hops.dedup();
    hops.push("all".to_owned());
    let found = format!("no link is called \"{}\"", shown(place));
    if !place.contains(|c: char| c.is_ascii_digit()) {
        let example = network.link_name(LinkId(0));
        let suggestion = suggestion(place, hops.iter().map(String::as_str));
        return format!("{found}; {suggestion} (or two nodes' names, as in \"{example}\")");
    }
    let like = similar_link(place, network, &hops).map_or(String::new(), |name| format!("; did you mean \"{name}\"?"));
    let example = network.link_name(LinkId(0));
    format!(
        "{found}{like} (one link has the names of its two nodes, as in \"{example}\"; several have those of their tiers, or \"all\")"
    )
}

/// The name of the link that is most likely meant: the one between the tiers of similar names that has the same numbers, or else the one of the most similar name.
fn similar_link(place: &str, network: &Network, hops: &[String]) -> Option<String> {
    const NAMES_MOST: usize = 10_000;
    let links = || (0..network.links().len() as u32).map(LinkId);
    let numbers = |name: &str| -> Vec<String> {
        name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let letters: String = place.chars().filter(|c| !c.is_ascii_digit()).collect();
    let hops: Vec<&str> = hops.iter().map(String::as_str).collect();
    if let Some(hop) = nearest(&letters, &hops).filter(|hop| *hop != "all") {
        let wanted = numbers(place);
        let of_hop = || links().filter(|link| network.hop_name(*link) == hop).map(|link| network.link_name(link));
        return of_hop().find(|name| numbers(name) == wanted).or_else(|| of_hop().next());
    }
    let names: Vec<String> = links().take(NAMES_MOST).map(|link| network.link_name(link)).collect();
    nearest(place, &names.iter().map(String::as_str).collect::<Vec<_>>()).map(str::to_owned)
}
