//! `kind = "burst"`: flows that start at once.

use flowloom_core::{NodeId, Time};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matrix::MatrixKind;
use super::traffic::{Tenant, Traffic};
use super::{Context, Deadline, FlowList, Kind, Sizes, Workload};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};

/// Random hosts send flows to random hosts, all at time 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// How many flows there are.
    #[schemars(range(min = 1, max = 100_000_000), example = 1_000)]
    pub flows: u32,
    /// The traffic matrix: which host sends to which.
    #[serde(default)]
    pub matrix: MatrixKind,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// The tenants that share the bytes. Without them there is one, number 0.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65_535))]
    pub tenants: Vec<Tenant>,
}

impl Kind for Burst {
    fn check(&self) -> Result<(), ScenarioError> {
        self.sizes.check("workload.sizes")
    }

    /// Sources are drawn in proportion to their shares of the traffic.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let traffic = Traffic::of(&self.sizes, self.matrix, &self.tenants, context)?;
        let hosts = context.network.hosts();
        let flows_per_byte: f64 = traffic.iter().map(|part| part.flows_in(1.0)).sum();
        let mut sum = 0.0;
        let mut running_weights = Vec::with_capacity(traffic.len() * hosts);
        for part in &traffic {
            let share = part.flows_in(1.0) / flows_per_byte;
            running_weights.extend(part.matrix.weights().iter().map(|weight| {
                sum += share * weight;
                sum
            }));
        }
        let stream = |purpose| Stream::new(context.seed, purpose, NETWORK);
        let (mut arrivals, mut sizes) = (stream(Purpose::Arrivals), stream(Purpose::Sizes));
        let mut destinations = stream(Purpose::Destinations);
        let mut flows = FlowList::with_capacity(self.flows.into())?;
        for _ in 0..self.flows {
            let chosen = arrivals.weighted(&running_weights);
            let (part, src) = (&traffic[chosen / hosts], (chosen % hosts) as u32);
            let (tenant, size) = part.draw(&mut sizes);
            flows.push(Time::ZERO, NodeId(src), part.matrix.destination(src, &mut destinations), size).tenant = tenant;
        }
        Ok(flows.0.into())
    }

    fn number(&self, _: u64) -> Option<u64> {
        Some(self.flows.into())
    }

    fn sizes(&self) -> Option<&Sizes> {
        Some(&self.sizes)
    }

    fn matrix(&self) -> Option<MatrixKind> {
        Some(self.matrix)
    }

    fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }

    fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }
}
