//! Everything that can be named in a scenario.

use flowloom_core::WireProfile;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::registry::{ENTRIES, Entry};
use crate::spec;
use crate::tables::{TABLES, Table};

/// Transports with their parameters, workloads with their distributions, topologies and wire profiles, each with a name and
/// what it is (`about`).
pub fn catalogue() -> Value {
    json!({
        "transports": ENTRIES.iter().map(transport).collect::<Value>(),
        "workloads": TABLES.iter().map(workload).collect::<Value>(),
        "topologies": topologies(),
        "wires": WireProfile::ALL.iter().map(wire).collect::<Value>(),
    })
}

fn transport(entry: &Entry) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = (entry.schema)(&mut SchemaGenerator::new(settings));
    let defaults = (entry.resolve)(&toml::Table::new()).expect("defaults are valid");
    json!({ "name": entry.name, "about": entry.about, "schema": schema, "defaults": defaults })
}

fn workload(table: &Table) -> Value {
    let cdf = table.cdf();
    let points: Value = cdf.points().iter().map(|point| json!([point.bytes, point.probability])).collect();
    json!({ "name": table.name, "about": table.about(), "source": table.source(), "mean_bytes": cdf.mean_bytes(), "points": points })
}

/// As the schema lists them: the first paragraph of a description says what it is.
fn topologies() -> Value {
    let schema = spec::schema();
    let shapes = schema["properties"]["topology"]["oneOf"].as_array().expect("the schema lists the topologies");
    let about = |shape: &Value| shape["description"].as_str().and_then(|text| text.split("\n\n").next()).map(str::to_owned);
    let shape = |shape: &Value| json!({ "name": shape["properties"]["kind"]["const"], "about": about(shape) });
    shapes.iter().map(shape).collect()
}

fn wire(wire: &WireProfile) -> Value {
    let about = format!("packets of {}, {} of it headers; control packets of {}", wire.full, wire.overhead, wire.control);
    json!({ "name": wire.name, "about": about })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_name_and_says_what_it_is() {
        let catalogue = catalogue();
        for (kind, least) in [("transports", 2), ("workloads", 17), ("topologies", 6), ("wires", 3)] {
            let entries = catalogue[kind].as_array().expect("a list");
            assert!(entries.len() >= least, "{kind}: {entries:?}");
            for entry in entries {
                assert!(entry["name"].as_str().is_some_and(|name| !name.is_empty()), "{kind}: {entry}");
                assert!(entry["about"].as_str().is_some_and(|about| !about.is_empty()), "{kind}: {entry}");
            }
        }
    }
}
