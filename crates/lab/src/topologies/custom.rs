//! `kind = "custom"`: a network from a file of nodes and links.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use flowloom_core::{Duration, Link, LinkId, Network, NodeId, Rate, Switching};
use flowloom_fabric::CONTROL_HOST;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Shape, Size};
use crate::error::{shown, suggestion};
use crate::reading::{TomlText, read, schema_of};
use crate::{ScenarioError, files};

/// A file lists the nodes and links.
///
/// The file is TOML. Each `[[node]]` has a `name` and a `kind`, `"host"` or `"switch"`; a switch may have a `level` (tiers above
/// the hosts; default 1) and a `tier` (what hop names call it; default `"switch"`). Each `[[link]]` has `a` and `b` (names of
/// nodes), a `rate` and a `delay` (one way; default `"0s"`), and goes both ways. Hosts are numbered in the order in which they appear. A host may have several links, to switches or
/// to other hosts: it has a NIC for each, in the order of the file. The first NIC is called as the host, the next ones `h0:2`, `h0:3` and so on; `fabric.nics` says which of them a flow uses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "net.toml")]
    pub file: String,
}

/// The file of a custom topology. Hosts are numbered in the order in which they appear.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// The nodes, hosts and switches.
    pub node: Vec<NodeEntry>,
    /// The links; each goes both ways.
    pub link: Vec<LinkEntry>,
}

/// A node of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NodeEntry {
    /// A host runs the transport and takes part in the workload. It does not forward packets of others.
    Host(HostEntry),
    /// A switch forwards packets.
    Switch(SwitchEntry),
}

/// A host of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// Its name, unique among all nodes.
    #[schemars(example = &"h0")]
    pub name: String,
}

/// A switch of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchEntry {
    /// Its name, unique among all nodes.
    #[schemars(example = &"s0")]
    pub name: String,
    /// How many tiers it is above the hosts, from 1.
    #[serde(default = "lowest")]
    #[schemars(range(min = 1, max = 100))]
    pub level: u8,
    /// Its tier's name, of which hop names are made.
    #[serde(default = "switch_tier")]
    pub tier: String,
}

/// A link of a custom topology.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// The name of the node at one end.
    #[schemars(example = &"h0")]
    pub a: String,
    /// The name of the node at the other end.
    #[schemars(example = &"s0")]
    pub b: String,
    /// How fast it is, each way.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// Its propagation delay, one way.
    #[serde(default)]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000s"))]
    pub delay: Quantity<Duration>,
}

fn lowest() -> u8 {
    1
}
fn switch_tier() -> String {
    "switch".to_owned()
}

impl Shape for Custom {
    fn small() -> &'static str {
        "kind = \"custom\", file = \"network.toml\""
    }

    fn size(&self) -> Option<Size> {
        None
    }

    fn build(&self, base_dir: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let (name, text) = files::read(base_dir, &self.file, "topology.file")?;
        let (source, table) = TomlText::parse(&text, &name, &[])?;
        let parsed: NetworkFile = read(table, network_schema(), &name, &source)?;
        let network = network_of(&parsed, switching).map_err(|error| source.place(error))?;
        network.check().map_err(|error| ScenarioError::at_place(&name, error.to_string()))?;
        Ok(network)
    }
}

/// The JSON schema of the file.
pub(crate) fn network_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<NetworkFile>);
    &SCHEMA
}

fn network_of(file: &NetworkFile, switching: Switching) -> Result<Network, ScenarioError> {
    let hosts = file.node.iter().filter(|node| matches!(node, NodeEntry::Host(_))).count();
    let mut network = Network::new(hosts, switching);
    let mut by_name = HashMap::new();
    let mut nics = nics(file, &mut network)?;
    let mut next_host = (0u32..).map(NodeId);
    for (index, node) in file.node.iter().enumerate() {
        let (id, name) = match node {
            NodeEntry::Host(host) => {
                let id = next_host.next().expect("without end");
                check_number(id, &host.name, index)?;
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
        // The next NIC of a host.
        let [a, b] = [a, b].map(|end| nics.get_mut(&end).and_then(Iterator::next).unwrap_or(end));
        network.connect(a, b, link.rate.0, link.delay.0);
    }
    check_link_names(&network)?;
    Ok(network)
}

/// Gives each host its name, and a NIC for each of its links. Returns the NICs of each host in order.
///
/// # Errors
/// If a further NIC would be called as another node is.
fn nics(
    file: &NetworkFile,
    network: &mut Network,
) -> Result<HashMap<NodeId, impl Iterator<Item = NodeId> + use<>>, ScenarioError> {
    let mut links: HashMap<&str, usize> = HashMap::new();
    for end in file.link.iter().flat_map(|link| [&link.a, &link.b]) {
        *links.entry(end).or_default() += 1;
    }
    let hosts = file.node.iter().filter_map(|node| if let NodeEntry::Host(host) = node { Some(host) } else { None });
    for (host, id) in hosts.clone().zip(0..) {
        network.set_name(NodeId(id), &host.name);
    }
    for (host, id) in hosts.zip(0..) {
        for _ in 1..links.get(host.name.as_str()).copied().unwrap_or_default() {
            network.add_nic(NodeId(id));
        }
    }
    let names: HashSet<&str> =
        (network.hosts()..network.nics()).map(|nic| network.node(NodeId(nic as u32)).name.as_str()).collect();
    for (index, node) in file.node.iter().enumerate() {
        let (NodeEntry::Host(HostEntry { name }) | NodeEntry::Switch(SwitchEntry { name, .. })) = node;
        if names.contains(name.as_str()) {
            let message =
                format!("\"{}\" is what a further link of a host is called by; give the node another name", shown(name));
            return Err(ScenarioError::at_key(format!("node.{index}.name"), message));
        }
    }
    Ok((0..).map(NodeId).zip(network.nics_by_host().into_iter().map(Vec::into_iter)).collect())
}

/// A trace names hosts by number or by name, so a name that is a number must be the host's own.
fn check_number(host: NodeId, name: &str, node: usize) -> Result<(), ScenarioError> {
    if name.parse::<u32>().is_ok_and(|number| number != host.0) {
        let right = format!("a trace may name hosts by number; call it \"{}\", or give it a name that is no number", host.0);
        let message = format!("found \"{}\", but this is host number {}, and {right}", shown(name), host.0);
        return Err(ScenarioError::at_key(format!("node.{node}.name"), message));
    }
    Ok(())
}

/// Checks that what a fault or a result calls links by has one meaning: the nodes or the tiers that they join, or a number among parallel links.
fn check_link_names(network: &Network) -> Result<(), ScenarioError> {
    // By name and meaning, the widest meaning first.
    let mut links_of: BTreeMap<(String, usize, String), Vec<LinkId>> = BTreeMap::new();
    for link in (0..network.links().len() as u32).map(LinkId) {
        let Link { from, to, .. } = *network.link(link);
        let [a, b] = [from, to].map(|node| network.node(node));
        let what = [
            (network.hop_name(link), format!("the links from tier \"{}\" to tier \"{}\"", a.tier, b.tier)),
            (network.ends_name(link), format!("what joins \"{}\" to \"{}\"", a.name, b.name)),
            (network.link_name(link), format!("link {} from \"{}\" to \"{}\"", link.0 / 2, a.name, b.name)),
        ];
        for (width, (name, meaning)) in what.into_iter().enumerate() {
            links_of.entry((name, width, meaning)).or_default().push(link);
        }
    }
    let meanings: Vec<_> = links_of.iter().collect();
    for pair in meanings.windows(2) {
        let (((name, _, one), links), ((other_name, _, other), others)) = (pair[0], pair[1]);
        if name == other_name && links != others {
            let last = links.iter().chain(others).max().expect("a name has links");
            let message =
                format!("\"{}\" would mean {} and {}; rename a node or a tier", shown(name), shown(one), shown(other));
            return Err(ScenarioError::at_key(format!("link.{}", last.0 / 2), message));
        }
    }
    Ok(())
}

/// Faults and results refer to links by names and tiers, so neither may be empty.
fn named(word: &str, node: usize, key: &str) -> Result<(), ScenarioError> {
    if word.trim().is_empty() {
        return Err(ScenarioError::at_key(format!("node.{node}.{key}"), format!("the {key} is empty; give the node one")));
    }
    if key == "name" && word == CONTROL_HOST {
        let message = format!(
            "found \"{word}\", which is the name of the control host of transports that have one; give the node another"
        );
        return Err(ScenarioError::at_key(format!("node.{node}.name"), message));
    }
    Ok(())
}
