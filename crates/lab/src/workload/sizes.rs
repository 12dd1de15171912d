//! How large flows are.

use std::path::Path;

use flowloom_core::Bytes;

use crate::ScenarioError;
use crate::cdf::{BYTES_MAX, Cdf};
use crate::cdf_file;
use crate::files;
use crate::spec::{Bimodal, Fixed, Quantity, Sizes, Uniform};
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
    Err(ScenarioError::at_key(key, format!("found {}; a flow has 1B to {}", size.0, Bytes::new(BYTES_MAX))))
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
