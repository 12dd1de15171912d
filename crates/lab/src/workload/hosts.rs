//! Hosts in scenarios, by number or name.

use std::collections::HashSet;

use flowloom_core::{Network, NodeId};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Context;
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};

/// A host, by its number or its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HostRef {
    /// Counted from 0.
    Number(#[schemars(range(max = 99_999))] u32),
    /// As in the topology: `h0` and so on, where it gives no others.
    Name(String),
}

/// The host that a scenario names under `key`.
///
/// # Errors
/// If there is none.
pub(super) fn find_host(host: &HostRef, network: &Network, key: &str) -> Result<NodeId, ScenarioError> {
    let found = match host {
        HostRef::Number(number) => by_number(*number, network),
        HostRef::Name(name) => by_name(name, network),
    };
    let text = match host {
        HostRef::Number(number) => number.to_string(),
        HostRef::Name(name) => format!("\"{name}\""),
    };
    found.ok_or_else(|| ScenarioError::at_key(key, format!("found {}", no_such_host(&text, network))))
}

/// The host of this number.
pub(super) fn by_number(number: u32, network: &Network) -> Option<NodeId> {
    ((number as usize) < network.hosts()).then_some(NodeId(number))
}

/// The hosts that a scenario lists under `key`.
///
/// # Errors
/// If one of them does not exist, or is there twice.
pub(super) fn different_hosts(list: &[HostRef], network: &Network, key: &str) -> Result<Vec<NodeId>, ScenarioError> {
    let mut hosts = Vec::with_capacity(list.len());
    let mut seen = HashSet::new();
    for (index, host) in list.iter().enumerate() {
        let key = format!("{key}.{index}");
        let found = find_host(host, network, &key)?;
        if !seen.insert(found) {
            return Err(ScenarioError::at_key(key, format!("{} is there already", network.node(found).name)));
        }
        hosts.push(found);
    }
    Ok(hosts)
}

/// So many random hosts, in random order.
pub(super) fn random_hosts(count: u32, context: &Context<'_>) -> Vec<NodeId> {
    let mut stream = Stream::new(context.seed, Purpose::Placement, NETWORK);
    let mut hosts: Vec<NodeId> = (0..context.network.hosts() as u32).map(NodeId).collect();
    for place in 0..count as usize {
        let other = place + stream.below(hosts.len() - place);
        hosts.swap(place, other);
    }
    hosts.truncate(count as usize);
    hosts
}

fn by_name(name: &str, network: &Network) -> Option<NodeId> {
    (0..network.hosts() as u32).map(NodeId).find(|host| network.node(*host).name == name)
}

/// What is wrong with a text that names no host.
pub(super) fn no_such_host(text: &str, network: &Network) -> String {
    format!("{text}; there is no such host, hosts are numbered 0 to {}", network.hosts() - 1)
}
