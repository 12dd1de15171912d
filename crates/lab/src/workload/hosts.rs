//! Hosts in scenarios, by number or name.

use flowloom_core::{Network, NodeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;

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

fn by_name(name: &str, network: &Network) -> Option<NodeId> {
    (0..network.hosts() as u32).map(NodeId).find(|host| network.node(*host).name == name)
}

/// What is wrong with a text that names no host.
pub(super) fn no_such_host(text: &str, network: &Network) -> String {
    format!("{text}; there is no such host, hosts are numbered 0 to {}", network.hosts() - 1)
}
