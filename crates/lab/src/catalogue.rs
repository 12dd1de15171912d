//! Everything that a scenario can name: what it is called, what it is, and what its parameters are.
//! [`simulate`](fn@crate::simulate) says how a transport runs.

use flowloom_core::{
    Family, Gauge, HostProfile, Layout, Need, PathNeed, Placement, PortProfile, PortSite, Profile, Routing, Transport, Wire,
};
use flowloom_transports::pfc::PausableTransport;
use flowloom_transports::{for_each_pausable_transport, for_each_transport};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::ideal::Oracle;
use crate::parameters::{Config, Parameters};

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
    /// The longest header on a real network.
    pub header_bytes: usize,
    /// Whether its ports can share the memory of their switch.
    pub shares_memory: bool,
    /// What it needs of the paths of packets.
    pub paths: PathNeed,
    /// The routing of a scenario that does not choose one.
    pub routing: Routing,
    /// Why routing cannot change while it runs, if it cannot.
    pub fixed_routes: Option<&'static str>,
    /// Why the rates of links cannot change while it runs, if they cannot.
    pub fixed_rates: Option<&'static str>,
    /// Where its control endpoints run with these parameters.
    pub placement: fn(&Parameters) -> Placement,
    /// What its policy goes by with these parameters, if that is something that flows may lack.
    pub need: fn(&Parameters) -> Option<Need>,
    /// What its ports and hosts are with these parameters; `None` for the oracle, which has none.
    pub profiles: Option<Profiles>,
    /// Whether it can run flows that wait for others.
    pub waiting_flows: bool,
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
            header_bytes: T::Header::MAX_BYTES,
            shares_memory: T::SHARES_MEMORY,
            paths: T::PATHS,
            routing: T::ROUTING,
            fixed_routes: T::FIXED_ROUTES,
            fixed_rates: T::FIXED_RATES,
            placement: |parameters| T::placement(parameters.get().expect("they are this transport's")),
            need: |parameters| T::need(parameters.get().expect("they are this transport's")),
            profiles: Some(Profiles {
                port: |parameters, site| T::port_profile(parameters.get().expect("they are this transport's"), site),
                host: |parameters| T::host_profile(parameters.get().expect("they are this transport's")),
            }),
            waiting_flows: true,
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
        header_bytes: <() as Wire>::MAX_BYTES,
        shares_memory: true, // it ignores memory
        paths: PathNeed::Any,
        routing: PathNeed::Any.routing(),
        fixed_routes: None,
        fixed_rates: None,
        placement: |_| Placement::Nowhere,
        need: |parameters| parameters.get::<Oracle>().expect("they are the oracle's").order.need(),
        profiles: None,
        waiting_flows: false, // it needs to know all starts beforehand
        schema: Oracle::json_schema,
        read: Parameters::read::<Oracle>,
    };

    /// Its parameters as they are if none is given.
    pub fn defaults(&self) -> Parameters {
        (self.read)(toml::Table::new()).expect("every parameter has a default")
    }
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
}
