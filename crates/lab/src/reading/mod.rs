//! From TOML text to typed values. Errors name the file, the line and the key.

mod check;
mod toml_text;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Table;

pub(crate) use toml_text::TomlText;

use crate::ScenarioError;

/// The JSON schema of a type, with everything inlined.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    SchemaGenerator::new(settings).into_root_schema_for::<T>().into()
}

/// Checks a table against the schema of `T`, then makes a `T` of it.
pub(crate) fn read<T: DeserializeOwned>(
    table: Table,
    schema: &Value,
    file: &str,
    source: &TomlText,
) -> Result<T, ScenarioError> {
    check::check(&table, schema, source)?;
    table.try_into().map_err(|error: toml::de::Error| ScenarioError::at_place(file, error.message()))
}
