//! Hosts in scenarios.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A host, by its number or its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HostRef {
    /// Counted from 0.
    Number(#[schemars(range(max = 99_999))] u32),
    /// As in the topology: `h0` and so on, where it gives no others.
    Name(String),
}
