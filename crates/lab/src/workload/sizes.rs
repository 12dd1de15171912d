//! Distributions of flow sizes that a scenario names.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::{Bytes, Flow};
use flowloom_transports::SizeShare;

use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::cdf_file;
use crate::files;
use crate::spec::{Bimodal, Fixed, Sizes, Uniform, WorkloadKind, WorkloadSpec, WorkloadTable};
use crate::tables;

/// The distribution that `sizes` names. `key` is where the scenario says it.
///
/// # Errors
/// An unknown table, a file that cannot be read or is no distribution.
pub fn distribution(sizes: &Sizes, base_dir: &Path, key: &str) -> Result<Cdf, ScenarioError> {
    match sizes {
        Sizes::Table(name) => match tables::table(name) {
            Some(table) => Ok(table.cdf()),
            None => Err(ScenarioError::at_key(key, format!("\"{name}\" is no table of flow sizes"))),
        },
        Sizes::Fixed(Fixed { fixed }) => Ok(Cdf::fixed(fixed.0.get())),
        Sizes::Uniform(Uniform { uniform: [low, high] }) => Ok(Cdf::uniform(low.0.get(), high.0.get())),
        Sizes::Bimodal(Bimodal { bimodal: [small, large], first_share }) => {
            Ok(Cdf::bimodal(small.0.get(), large.0.get(), *first_share))
        }
        Sizes::Cdf(file) => {
            let (name, text) = files::read(base_dir, &file.cdf, &format!("{key}.cdf"))?;
            cdf_file::parse(&text, file.dialect, &name)
        }
    }
}

/// The sizes of a workload's flows: its distribution if it has one only, otherwise the sizes of the flows that it waits for.
pub(crate) fn size_shares(table: &WorkloadTable, flows: &[Flow], base_dir: &Path) -> Vec<SizeShare> {
    // The file of a distribution has been read before. If it is gone now, the flows still have sizes.
    let cdf = only_sizes(table).and_then(|sizes| distribution(sizes, base_dir, "workload.sizes").ok());
    cdf.map_or_else(|| shares_of_flows(flows), |cdf| cdf.size_shares())
}

/// The distribution of all flows, if they have the same.
fn only_sizes(table: &WorkloadTable) -> Option<&Sizes> {
    match &table.spec {
        WorkloadSpec::One(kind) if kind.tenants().is_empty() => match kind {
            WorkloadKind::Poisson(poisson) => Some(&poisson.sizes),
            WorkloadKind::Permutation(permutation) => Some(&permutation.sizes),
            WorkloadKind::Burst(burst) => Some(&burst.sizes),
            WorkloadKind::ClosedLoop(closed_loop) => Some(&closed_loop.sizes),
            WorkloadKind::Incast(incast) => incast.sizes.as_ref(),
            WorkloadKind::Trace(_) | WorkloadKind::CoflowTrace(_) | WorkloadKind::CoflowSynthetic(_) => None,
        },
        _ => None,
    }
}

/// The sizes of the flows that the run waits for.
pub(crate) fn shares_of_flows(flows: &[Flow]) -> Vec<SizeShare> {
    let mut numbers: BTreeMap<Bytes, u32> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| !flow.background) {
        *numbers.entry(flow.size).or_default() += 1;
    }
    numbers.into_iter().map(|(size, number)| SizeShare { low: size, high: size, share: number.into() }).collect()
}
