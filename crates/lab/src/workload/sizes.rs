//! Distributions of flow sizes that a scenario names.

use std::path::Path;

use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::cdf_file;
use crate::files;
use crate::spec::{Bimodal, Fixed, Sizes, Uniform};
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
