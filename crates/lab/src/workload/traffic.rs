//! Traffic of one or several tenants: its matrices and flow sizes.

use std::collections::HashSet;

use flowloom_core::{Bytes, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Context;
use super::matrix::{Matrix, MatrixKind};
use super::sizes::{Sizes, distribution};
use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::random::Stream;

/// One of several tenants, which share the load of a Poisson workload or the bytes of a burst.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The tenant's name, which no other tenant has. It serves readers of the scenario. Results number tenants from 0, in this order.
    #[schemars(example = &"a")]
    pub name: String,
    /// The sizes of its flows. By default, they are the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Its traffic matrix. By default, it is the workload's. The load is that of all tenants together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<MatrixKind>,
    /// Its expected share of the wire bytes. All shares together make 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.5)]
    pub share: f64,
}

/// Checks that the shares of tenants add up to 1, and that each has a name of its own.
pub(super) fn check_tenants(tenants: &[Tenant]) -> Result<(), ScenarioError> {
    if tenants.is_empty() {
        return Ok(());
    }
    let total: f64 = tenants.iter().map(|tenant| tenant.share).sum();
    if (total - 1.0).abs() > 1e-6 {
        return Err(ScenarioError::at_key("workload.tenant", format!("the tenants' shares add up to {total}, not 1")));
    }
    if let Some(index) = first_repeated(tenants.iter().map(|tenant| &tenant.name)) {
        let message = format!("a second tenant is called \"{}\"", tenants[index].name);
        return Err(ScenarioError::at_key(format!("workload.tenant.{index}.name"), message));
    }
    for (index, tenant) in tenants.iter().enumerate() {
        if let Some(sizes) = &tenant.sizes {
            sizes.check(&format!("workload.tenant.{index}.sizes"))?;
        }
    }
    Ok(())
}

/// The index of the first name that was there before.
pub(super) fn first_repeated<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<usize> {
    let mut seen = HashSet::new();
    names.position(|name| !seen.insert(name))
}

/// The traffic of all tenants that have the same matrix. A workload without tenants has one, number 0.
pub(super) struct Traffic {
    /// Who sends to whom.
    pub matrix: Matrix,
    /// Its share of all wire bytes, in expectation.
    pub share: f64,
    /// The number and the flow sizes of each tenant.
    tenants: Vec<(u16, Cdf)>,
    /// Running sums of the tenants' shares, where shares are numbers of flows.
    running_shares: Vec<f64>,
    mean_wire_bytes: f64,
}

/// A tenant's number, its flows' sizes, and its share of the wire bytes.
type Member = (u16, Cdf, f64);

impl Traffic {
    /// The traffic of a workload, one entry for each matrix. Tenants without sizes or a matrix of their own have `sizes` and `matrix`.
    ///
    /// # Errors
    /// Sizes from a file that is no distribution.
    pub fn of(
        sizes: &Sizes,
        matrix: MatrixKind,
        tenants: &[Tenant],
        context: &Context<'_>,
    ) -> Result<Vec<Traffic>, ScenarioError> {
        let mut groups: Vec<(MatrixKind, Vec<Member>)> = Vec::new();
        if tenants.is_empty() {
            groups.push((matrix, vec![(0, distribution(sizes, context.base_dir, "workload.sizes")?, 1.0)]));
        }
        for (number, tenant) in (0u16..).zip(tenants) {
            let cdf = match &tenant.sizes {
                Some(own) => distribution(own, context.base_dir, &format!("workload.tenant.{number}.sizes"))?,
                None => distribution(sizes, context.base_dir, "workload.sizes")?,
            };
            let kind = tenant.matrix.unwrap_or(matrix);
            let member = (number, cdf, tenant.share);
            match groups.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, members)) => members.push(member),
                None => groups.push((kind, vec![member])),
            }
        }
        let share = |members: &[Member]| members.iter().map(|(.., share)| share).sum::<f64>();
        let total: f64 = groups.iter().map(|(_, members)| share(members)).sum();
        let traffic = |(kind, members): (MatrixKind, Vec<Member>)| {
            let matrix = Matrix::new(kind, context.network, context.seed);
            Traffic::new(matrix, share(&members) / total, members, context.wire)
        };
        Ok(groups.into_iter().map(traffic).collect())
    }

    /// A tenant's share is one of wire bytes. Its share of the flows is proportional to that over the mean wire bytes of its flows.
    fn new(matrix: Matrix, share: f64, members: Vec<Member>, wire: &WireProfile) -> Traffic {
        let mut sum = 0.0;
        let running_shares: Vec<f64> = members
            .iter()
            .map(|(_, cdf, share)| {
                sum += share / cdf.mean_wire_bytes(wire);
                sum
            })
            .collect();
        let of_members: f64 = members.iter().map(|(.., share)| share).sum();
        let tenants = members.into_iter().map(|(number, cdf, _)| (number, cdf)).collect();
        Traffic { matrix, share, tenants, running_shares, mean_wire_bytes: of_members / sum }
    }

    /// The expected number of its flows if the whole workload has this many wire bytes.
    pub fn flows_in(&self, total_bytes: f64) -> f64 {
        total_bytes * self.share / self.mean_wire_bytes
    }

    /// The next flow's tenant and size.
    pub fn draw(&self, stream: &mut Stream) -> (u16, Bytes) {
        let index = if self.tenants.len() == 1 { 0 } else { stream.weighted(&self.running_shares) };
        let (tenant, cdf) = &self.tenants[index];
        (*tenant, cdf.sample(stream.unit()))
    }
}
