//! `kind = "permutation"`: each host sends one flow.

use flowloom_core::{NodeId, Time};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matrix::{MatrixKind, partners};
use super::sizes::distribution;
use super::{Context, Deadline, FlowList, Kind, Sizes, Workload};
use crate::ScenarioError;
use crate::random::Stream;

/// Each host sends one flow to a partner of its own, all at time 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Permutation {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

impl Kind for Permutation {
    fn check(&self) -> Result<(), ScenarioError> {
        self.sizes.check("workload.sizes")
    }

    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let hosts = context.network.hosts() as u32;
        let cdf = distribution(&self.sizes, context.base_dir, "workload.sizes")?;
        let mut flows = FlowList::with_capacity(hosts.into())?;
        for (host, partner) in (0u32..).zip(partners(hosts, context.seed)) {
            let mut sizes = Stream::new(context.seed, Purpose::Sizes, u64::from(host));
            flows.push(Time::ZERO, NodeId(host), NodeId(partner), cdf.sample(sizes.unit()));
        }
        Ok(flows.0.into())
    }

    fn number(&self, hosts: u64) -> Option<u64> {
        Some(hosts)
    }

    fn sizes(&self) -> Option<&Sizes> {
        Some(&self.sizes)
    }

    fn matrix(&self) -> Option<MatrixKind> {
        Some(MatrixKind::Permutation)
    }

    fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }
}
