//! How large flows are, and whose.

use std::collections::HashSet;
use std::path::Path;

use flowloom_core::{Bytes, WireProfile};

use crate::ScenarioError;
use crate::cdf::{BYTES_MAX, Cdf};
use crate::cdf_file;
use crate::files;
use crate::random::Stream;
use crate::spec::{Bimodal, Fixed, Quantity, Sizes, Tenant, Uniform, Unit};
use crate::tables;

/// The distribution that `sizes` names. `key` is where the scenario says it.
///
/// # Errors
/// An unknown table, sizes in the wrong order or out of range, a file that cannot be read or is no distribution.
pub fn distribution(sizes: &Sizes, base_dir: &Path, key: &str) -> Result<Cdf, ScenarioError> {
    match sizes {
        Sizes::Table(name) => match tables::table(name) {
            Some(table) => Ok(table.cdf()),
            None => Err(ScenarioError::at_key(key, format!("\"{name}\" is no table of flow sizes"))),
        },
        Sizes::Fixed(Fixed { fixed }) => {
            let key = format!("{key}.fixed");
            Ok(Cdf::fixed(in_range(*fixed, &key)?))
        }
        Sizes::Uniform(Uniform { uniform }) => {
            let [low, high] = ascending(uniform, &format!("{key}.uniform"))?;
            Ok(Cdf::uniform(low, high))
        }
        Sizes::Bimodal(Bimodal { bimodal, first_share }) => {
            let [small, large] = ascending(bimodal, &format!("{key}.bimodal"))?;
            Ok(Cdf::bimodal(small, large, *first_share))
        }
        Sizes::Cdf(file) => {
            let (name, text) = files::read(base_dir, &file.cdf, &format!("{key}.cdf"))?;
            cdf_file::parse(&text, file.dialect, &name)
        }
    }
}

fn in_range(size: Quantity<Bytes>, key: &str) -> Result<u64, ScenarioError> {
    let bytes = size.0.get();
    if (1..=BYTES_MAX).contains(&bytes) {
        return Ok(bytes);
    }
    Err(ScenarioError::at_key(key, format!("found {}; a flow has 1B to {}", size.0, Bytes::new(BYTES_MAX).print())))
}

fn ascending(sizes: &[Quantity<Bytes>; 2], key: &str) -> Result<[u64; 2], ScenarioError> {
    let [low, high] = [in_range(sizes[0], key)?, in_range(sizes[1], key)?];
    if low <= high {
        return Ok([low, high]);
    }
    Err(ScenarioError::at_key(
        key,
        format!("{} comes before the smaller {}; give the smaller size first", sizes[0].0, sizes[1].0),
    ))
}

/// The tenants' sizes together: of which tenant a flow is, and how large.
pub struct Mix {
    cdfs: Vec<Cdf>,
    /// Running sums of the tenants' shares of the flows, by number.
    running_shares: Vec<f64>,
    mean_wire_bytes: f64,
}

impl Mix {
    /// All flows of tenant 0.
    pub fn single(cdf: Cdf, wire: &WireProfile) -> Mix {
        Mix::new(vec![(cdf, 1.0)], wire)
    }

    /// The sizes of a workload whose own are `sizes`. A tenant's share is of the wire bytes, so of the flows it has its share
    /// over its mean.
    pub(super) fn of(sizes: &Sizes, tenants: &[Tenant], wire: &WireProfile, base_dir: &Path) -> Result<Mix, ScenarioError> {
        if tenants.is_empty() {
            return Ok(Mix::single(distribution(sizes, base_dir, "workload.sizes")?, wire));
        }
        check_tenants(tenants)?;
        let member = |(index, tenant): (usize, &Tenant)| {
            let cdf = match &tenant.sizes {
                Some(own) => distribution(own, base_dir, &format!("workload.tenant.{index}.sizes"))?,
                None => distribution(sizes, base_dir, "workload.sizes")?,
            };
            Ok((cdf, tenant.share))
        };
        let members = tenants.iter().enumerate().map(member).collect::<Result<Vec<(Cdf, f64)>, ScenarioError>>()?;
        Ok(Mix::new(members, wire))
    }

    fn new(members: Vec<(Cdf, f64)>, wire: &WireProfile) -> Mix {
        let mut sum = 0.0;
        let running_shares: Vec<f64> = members
            .iter()
            .map(|(cdf, share)| {
                sum += share / cdf.mean_wire_bytes(wire);
                sum
            })
            .collect();
        let total_share: f64 = members.iter().map(|(_, share)| share).sum();
        Mix { cdfs: members.into_iter().map(|(cdf, _)| cdf).collect(), running_shares, mean_wire_bytes: total_share / sum }
    }

    /// The exact mean of a flow's bytes on the wire.
    pub fn mean_wire_bytes(&self) -> f64 {
        self.mean_wire_bytes
    }

    /// The next flow's tenant and size.
    pub fn draw(&self, stream: &mut Stream) -> (u16, Bytes) {
        let tenant = if self.cdfs.len() == 1 { 0 } else { stream.weighted(&self.running_shares) };
        (tenant as u16, self.cdfs[tenant].sample(stream.unit()))
    }
}

fn check_tenants(tenants: &[Tenant]) -> Result<(), ScenarioError> {
    let total: f64 = tenants.iter().map(|tenant| tenant.share).sum();
    if (total - 1.0).abs() > 1e-6 {
        return Err(ScenarioError::at_key("workload.tenant", format!("the tenants' shares add up to {total}, not 1")));
    }
    if tenants.len() > usize::from(u16::MAX) {
        return Err(ScenarioError::at_key("workload.tenant", format!("{} tenants; the limit is {}", tenants.len(), u16::MAX)));
    }
    let mut names = HashSet::new();
    match tenants.iter().position(|tenant| !names.insert(&tenant.name)) {
        Some(index) => {
            let message = format!("a second tenant is called \"{}\"", tenants[index].name);
            Err(ScenarioError::at_key(format!("workload.tenant.{index}.name"), message))
        }
        None => Ok(()),
    }
}
