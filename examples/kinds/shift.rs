//! `kind = "shift"`: each host sends to the host a few places further on.

use flowloom_core::{Bytes, NodeId, Time};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, FlowList, Kind, Workload};
use crate::ScenarioError;

/// Each host sends one flow to the host `by` places further on, all at time 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// How far: 1 is the next host. After the last host comes the first.
    #[schemars(range(min = 1, max = 99_999))]
    pub by: u32,
    /// The size of each flow.
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"))]
    pub bytes: Quantity<Bytes>,
}

impl Kind for Shift {
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let hosts = context.network.hosts() as u32;
        if self.by.is_multiple_of(hosts) {
            let message = format!("found {}; each of the {hosts} hosts would send to itself", self.by);
            return Err(ScenarioError::at_key("workload.by", message));
        }
        let mut flows = FlowList::with_capacity(hosts.into())?;
        for host in 0..hosts {
            flows.push(Time::ZERO, NodeId(host), NodeId((host + self.by) % hosts), self.bytes.0);
        }
        Ok(flows.0.into())
    }

    fn number(&self, hosts: u64) -> Option<u64> {
        Some(hosts)
    }
}
