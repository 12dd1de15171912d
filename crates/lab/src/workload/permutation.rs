//! `kind = "permutation"`: each host sends one flow.

use flowloom_core::{NodeId, Time};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hosts::{HostRef, different_hosts, random_hosts};
use super::matrix::{MatrixKind, partners};
use super::sizes::distribution;
use super::{Context, Deadline, FlowList, Kind, Sizes, Workload};
use crate::ScenarioError;
use crate::random::Stream;

/// Each host, or each of some hosts, sends one flow to a partner of its own among them, all at time 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Permutation {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// The hosts that take part, by number or name. Without it, all do, or so many as `random_hosts` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65_000))]
    pub hosts: Vec<HostRef>,
    /// So many random hosts take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 65_000))]
    pub random_hosts: Option<u32>,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

impl Kind for Permutation {
    fn check(&self) -> Result<(), ScenarioError> {
        if !self.hosts.is_empty() && self.random_hosts.is_some() {
            return Err(ScenarioError::at_key(
                "workload.random_hosts",
                "hosts lists the hosts that take part; leave one of the two out",
            ));
        }
        if self.hosts.len() == 1 {
            return Err(ScenarioError::at_key("workload.hosts", "found one host; a permutation has at least two"));
        }
        self.sizes.check("workload.sizes")
    }

    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let hosts = self.members(context)?;
        let cdf = distribution(&self.sizes, context.base_dir, "workload.sizes")?;
        let mut flows = FlowList::with_capacity(hosts.len() as u64)?;
        for (host, partner) in hosts.iter().zip(partners(hosts.len() as u32, context.seed)) {
            let mut sizes = Stream::new(context.seed, Purpose::Sizes, u64::from(host.0));
            flows.push(Time::ZERO, *host, hosts[partner as usize], cdf.sample(sizes.unit()));
        }
        Ok(flows.0.into())
    }

    fn number(&self, hosts: u64) -> Option<u64> {
        Some(if self.hosts.is_empty() { self.random_hosts.map_or(hosts, u64::from) } else { self.hosts.len() as u64 })
    }

    fn sizes(&self) -> Option<&Sizes> {
        Some(&self.sizes)
    }

    fn matrix(&self) -> Option<MatrixKind> {
        (self.hosts.is_empty() && self.random_hosts.is_none()).then_some(MatrixKind::Permutation)
    }

    fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }
}

impl Permutation {
    /// The hosts that take part.
    fn members(&self, context: &Context<'_>) -> Result<Vec<NodeId>, ScenarioError> {
        let all = context.network.hosts() as u32;
        match self.random_hosts {
            _ if !self.hosts.is_empty() => different_hosts(&self.hosts, context.network, "workload.hosts"),
            Some(count) if count > all => {
                Err(ScenarioError::at_key("workload.random_hosts", format!("found {count}; the topology has {all} hosts")))
            }
            Some(count) => {
                let mut hosts = random_hosts(count, context);
                hosts.sort_unstable();
                Ok(hosts)
            }
            None => Ok((0..all).map(NodeId).collect()),
        }
    }
}
