//! Reads the files that a scenario names.

use std::io;
use std::path::Path;

use crate::ScenarioError;
use crate::error::shown;

/// The name, for errors, and the text of `file`, which is relative to `base_dir`, without the byte order mark that some tools begin
/// text with; `key` is where the scenario names it.
pub(crate) fn read(base_dir: &Path, file: &str, key: &str) -> Result<(String, String), ScenarioError> {
    let path = base_dir.join(file);
    let name = path.display().to_string();
    match text_of(&path) {
        Ok(mut text) => {
            if text.starts_with('\u{feff}') {
                text.drain(..'\u{feff}'.len_utf8());
            }
            Ok((name, text))
        }
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
                _ => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
            };
            let name = shown(&name);
            let message = format!("cannot read \"{name}\": {why}; files are named relative to the scenario's folder");
            Err(ScenarioError::at_key(key, message))
        }
    }
}

/// A device or a pipe is refused: reading it may never end.
fn text_of(path: &Path) -> io::Result<String> {
    let kind = std::fs::metadata(path)?;
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is not a regular file"));
    }
    std::fs::read_to_string(path)
}
