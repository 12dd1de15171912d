//! The catalogue as data, for tools and pages.

use flowloom_core::{Field, Layout, Message, Profile, WireProfile};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::catalogue::{TRANSPORTS, TransportEntry};
use crate::spec;
use crate::tables::{SizeTable, TABLES};

/// Lists transports with their parameters, flow-size tables with their distributions, topologies and wire profiles. Each has a name,
/// and `about` says what it is.
pub fn catalogue() -> Value {
    json!({
        "transports": TRANSPORTS.iter().map(describe_transport).collect::<Value>(),
        "workloads": TABLES.iter().map(describe_table).collect::<Value>(),
        "topologies": describe_topologies(),
        "wires": WireProfile::ALL.iter().map(describe_wire).collect::<Value>(),
    })
}

fn describe_transport(entry: &TransportEntry) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = (entry.schema)(&mut SchemaGenerator::new(settings));
    let Profile { label, color, marker, family, ports, unmarked } = entry.profile;
    let profile = json!({
        "label": label, "color": color, "marker": marker, "family": family.name(), "ports": ports, "unmarked": unmarked
    });
    let gauges: Value = entry.gauges.iter().map(|gauge| json!({ "name": gauge.name, "about": gauge.about })).collect();
    let (name, about, defaults) = (entry.name, entry.about, entry.defaults());
    let header = describe_layout(&entry.header);
    json!({
        "name": name, "about": about, "profile": profile, "gauges": gauges, "header": header, "schema": schema, "defaults": defaults
    })
}

fn describe_layout(layout: &Layout) -> Value {
    match layout {
        Layout::Number { bytes, unit } => {
            json!({ "kind": "number", "bytes": bytes, "unit": unit.name() })
        }
        Layout::Flag => json!({ "kind": "flag" }),
        Layout::List(item) => json!({ "kind": "list", "of": describe_layout(item) }),
        Layout::Maybe(value) => json!({ "kind": "maybe", "of": describe_layout(value) }),
        Layout::Fields(fields) => json!({ "kind": "fields", "fields": describe_fields(fields) }),
        Layout::Choice(messages) => {
            let message = |message: &Message| json!({ "name": message.name, "fields": describe_fields(message.fields) });
            json!({ "kind": "choice", "messages": messages.iter().map(message).collect::<Value>() })
        }
    }
}

fn describe_fields(fields: &[Field]) -> Value {
    fields.iter().map(|field| json!({ "name": field.name, "layout": describe_layout(&field.layout) })).collect()
}

fn describe_table(table: &SizeTable) -> Value {
    let cdf = table.cdf();
    let points: Value = cdf.points().iter().map(|point| json!([point.bytes, point.probability])).collect();
    json!({ "name": table.name, "about": table.about(), "source": table.source(), "mean_bytes": cdf.mean_bytes(), "points": points })
}

/// The topologies of the schema. The first paragraph of a topology's description says what it is.
fn describe_topologies() -> Value {
    let schema = spec::schema();
    let shapes = schema["properties"]["topology"]["oneOf"].as_array().expect("the schema lists the topologies");
    let about = |shape: &Value| shape["description"].as_str().and_then(|text| text.split("\n\n").next()).map(str::to_owned);
    let shape = |shape: &Value| json!({ "name": shape["properties"]["kind"]["const"], "about": about(shape) });
    shapes.iter().map(shape).collect()
}

fn describe_wire(wire: &WireProfile) -> Value {
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
