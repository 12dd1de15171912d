//! Everything that a scenario can name: what it is called, what it is, and what its parameters are.
//! [`simulate`](crate::simulate) says how a transport runs.

use flowloom_core::{
    Family, Field, Gauge, HostProfile, Layout, Message, Need, PathNeed, Placement, PortProfile, PortSite, Profile, Transport,
    Wire, WireProfile,
};
use flowloom_transports::pfc::PausableTransport;
use flowloom_transports::{for_each_pausable_transport, for_each_transport};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::ideal::Oracle;
use crate::parameters::{Config, Parameters};
use crate::spec;
use crate::tables::{SizeTable, TABLES};

/// What `transport.name` can say: a transport, or the oracle, which stands in for one.
pub struct TransportEntry {
    /// Its name in scenarios and results.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// What tables, drawings and warnings must know about it.
    pub profile: Profile,
    /// What its hosts tell of their flows over the course of a run.
    pub gauges: &'static [Gauge],
    /// The format of its header on a real network and in traces.
    pub header: Layout,
    /// Whether its ports can share the memory of their switch.
    pub shares_memory: bool,
    /// What it needs of the paths of packets.
    pub paths: PathNeed,
    /// Where its control endpoints run with these parameters.
    pub placement: fn(&Parameters) -> Placement,
    /// What its policy goes by with these parameters, if that is something that flows may lack.
    pub need: fn(&Parameters) -> Option<Need>,
    /// What its ports and hosts are with these parameters; `None` for the oracle, which has none.
    pub profiles: Option<Profiles>,
    /// Whether it can run flows that wait for others.
    pub closed_loops: bool,
    /// The schema of its parameters.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Reads its parameters; those that are not given have their defaults.
    pub read: fn(toml::Table) -> Result<Parameters, toml::de::Error>,
}

/// What the ports and hosts of a transport are.
pub struct Profiles {
    /// The port at a site.
    pub port: fn(&Parameters, &PortSite<'_>) -> PortProfile,
    /// A host.
    pub host: fn(&Parameters) -> HostProfile,
}

/// The name under which the oracle is listed among the transports.
pub const IDEAL: &str = "ideal";

macro_rules! entries {
    ($($transport:ty),* $(,)?) => {
        /// Every transport, and the oracle.
        pub static TRANSPORTS: &[TransportEntry] = &[$(TransportEntry::of::<$transport>(),)* TransportEntry::ORACLE];
    };
}
for_each_transport!(entries);

/// The number of classes that a transport's ports have under given parameters.
type Classes = fn(&Parameters) -> u8;

macro_rules! pausable {
    ($($transport:ty),* $(,)?) => {
        /// The transports that can run over priority flow control, and how many classes their ports have then.
        pub static PAUSABLE: &[(&str, Classes)] = &[$((<$transport as Transport>::NAME, |parameters| {
            <$transport as PausableTransport>::classes(parameters.get().expect("they are this transport's"))
        }),)*];
    };
}
for_each_pausable_transport!(pausable);

/// How many classes the ports of a transport have, if they can be paused.
pub fn classes_to_pause(name: &str) -> Option<Classes> {
    PAUSABLE.iter().find(|(able, _)| *able == name).map(|(_, classes)| *classes)
}

/// The names of all transports.
pub fn transport_names() -> impl Iterator<Item = &'static str> {
    TRANSPORTS.iter().map(|entry| entry.name)
}

/// The transport of this name.
pub fn transport(name: &str) -> Option<&'static TransportEntry> {
    TRANSPORTS.iter().find(|entry| entry.name == name)
}

impl TransportEntry {
    const fn of<T: Transport>() -> TransportEntry
    where
        T::Config: Config,
    {
        TransportEntry {
            name: T::NAME,
            about: T::ABOUT,
            profile: T::PROFILE,
            gauges: T::GAUGES,
            header: T::Header::LAYOUT,
            shares_memory: T::SHARES_MEMORY,
            paths: T::PATHS,
            placement: |parameters| T::placement(parameters.get().expect("they are this transport's")),
            need: |parameters| T::need(parameters.get().expect("they are this transport's")),
            profiles: Some(Profiles {
                port: |parameters, site| T::port_profile(parameters.get().expect("they are this transport's"), site),
                host: |parameters| T::host_profile(parameters.get().expect("they are this transport's")),
            }),
            closed_loops: true,
            schema: T::Config::json_schema,
            read: Parameters::read::<T::Config>,
        }
    }

    const ORACLE: TransportEntry = TransportEntry {
        name: IDEAL,
        about: "no transport: how soon the flows could finish if only access links were scarce (the reference line)",
        profile: Profile::new("", "#000000", "", Family::Bound),
        gauges: &[],
        header: <() as Wire>::LAYOUT,
        shares_memory: true, // it ignores memory
        paths: PathNeed::Any,
        placement: |_| Placement::Nowhere,
        need: |parameters| parameters.get::<Oracle>().expect("they are the oracle's").order.need(),
        profiles: None,
        closed_loops: false, // it needs to know all starts beforehand
        schema: Oracle::json_schema,
        read: Parameters::read::<Oracle>,
    };

    /// Its parameters as they are if none is given.
    pub fn defaults(&self) -> Parameters {
        (self.read)(toml::Table::new()).expect("every parameter has a default")
    }
}

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
    fn defaults_obey_every_rule() {
        for entry in TRANSPORTS {
            entry.defaults().check().unwrap_or_else(|error| panic!("{}: {error:?}", entry.name));
        }
    }

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
