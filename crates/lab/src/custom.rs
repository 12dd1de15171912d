//! A network from a file of nodes and links.

use std::collections::HashMap;
use std::path::Path;

use flowloom_core::{Network, NodeId, Switching};

use crate::error::{shown, suggestion};
use crate::spec::{NetworkFile, NodeEntry, TomlText, network_schema, read};
use crate::{ScenarioError, files};

/// Builds the network of `file`. Hosts are numbered in the order in which they appear, switches after them.
pub(crate) fn network(file: &str, base_dir: &Path, switching: Switching) -> Result<Network, ScenarioError> {
    let (name, text) = files::read(base_dir, file, "topology.file")?;
    let (source, table) = TomlText::parse(&text, &name, &[])?;
    let parsed: NetworkFile = read(table, network_schema(), &name, &source)?;
    let network = build(&parsed, switching).map_err(|error| source.place(error))?;
    network.check().map_err(|error| ScenarioError::at_place(&name, error.to_string()))?;
    Ok(network)
}

fn build(file: &NetworkFile, switching: Switching) -> Result<Network, ScenarioError> {
    let hosts = file.node.iter().filter(|node| matches!(node, NodeEntry::Host(_))).count();
    let mut network = Network::new(hosts, switching);
    let mut by_name = HashMap::new();
    let mut next_host = (0u32..).map(NodeId);
    for (index, node) in file.node.iter().enumerate() {
        let (id, name) = match node {
            NodeEntry::Host(host) => {
                let id = next_host.next().expect("without end");
                network.set_name(id, &host.name);
                (id, &host.name)
            }
            NodeEntry::Switch(switch) => {
                named(&switch.tier, index, "tier")?;
                (network.add_switch(switch.level, &switch.tier, &switch.name), &switch.name)
            }
        };
        named(name, index, "name")?;
        if by_name.insert(name.as_str(), id).is_some() {
            return Err(ScenarioError::at_key(
                format!("node.{index}.name"),
                format!("a second node is called \"{}\"", shown(name)),
            ));
        }
    }
    for (index, link) in file.link.iter().enumerate() {
        let end = |key: &str, name: &str| {
            by_name.get(name).copied().ok_or_else(|| {
                let mut names: Vec<&str> = by_name.keys().copied().collect();
                names.sort_unstable();
                ScenarioError::at_key(
                    format!("link.{index}.{key}"),
                    format!("no node is called \"{}\"; {}", shown(name), suggestion(name, names)),
                )
            })
        };
        let (a, b) = (end("a", &link.a)?, end("b", &link.b)?);
        if a == b {
            return Err(ScenarioError::at_key(format!("link.{index}.b"), format!("both ends are \"{}\"", shown(&link.a))));
        }
        network.connect(a, b, link.rate.0, link.delay.0);
    }
    Ok(network)
}

/// Faults and results refer to links by names and tiers, so neither may be empty.
fn named(word: &str, node: usize, key: &str) -> Result<(), ScenarioError> {
    if word.trim().is_empty() {
        return Err(ScenarioError::at_key(format!("node.{node}.{key}"), format!("the {key} is empty; give the node one")));
    }
    Ok(())
}
