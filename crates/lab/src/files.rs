//! Reads the files that a scenario names.

use std::path::Path;

use crate::ScenarioError;

/// The name, for errors, and the text of `file`, which is relative to `base_dir`; `key` is where the scenario names it.
pub(crate) fn read(base_dir: &Path, file: &str, key: &str) -> Result<(String, String), ScenarioError> {
    let path = base_dir.join(file);
    let name = path.display().to_string();
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            let why = error.to_string();
            let why = why.split(" (os error").next().unwrap_or_default();
            let message = format!("cannot read \"{name}\": {why}; files are named relative to the scenario's folder");
            Err(ScenarioError::at_key(key, message))
        }
    }
}
