//! What can run, by name: every transport, and the oracle. Their types end here.

use flowloom_core::{Duration, Transport};
use flowloom_transports::{Checked, Conditions, for_each_transport};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ideal::Oracle;
use crate::plan::Plan;
use crate::run::{Progress, Ran, RunError, oracle, simulate};

/// Something that can run a plan's flows.
pub struct Entry {
    /// Its name in scenarios and results.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether it can run where a switch's ports share a memory.
    pub shares_memory: bool,
    /// The schema of its parameters.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Fills in the defaults of its parameters.
    pub resolve: fn(&toml::Table) -> Result<toml::Table, BadParameter>,
    /// Says what is wrong with the parameters, which have been resolved, in a scenario like this; otherwise, how long a flow may be
    /// silent before it tries again.
    pub longest_pause: fn(&toml::Table, &Conditions<'_>) -> Result<Duration, BadParameter>,
    /// Whether it can run flows that wait for others.
    pub closed_loops: bool,
    /// Runs the plan's flows with the plan's parameters, which have been resolved.
    pub run: fn(&Plan, &mut Progress<'_>) -> Result<Ran, RunError>,
}

/// What is wrong with a transport's parameters.
#[derive(Debug)]
pub struct BadParameter {
    /// The key at fault, if it is one key's.
    pub key: Option<String>,
    /// What was found and what would be right.
    pub message: String,
}

macro_rules! entries {
    ($($transport:ty),* $(,)?) => {
        /// Every transport, and `ideal`.
        pub static ENTRIES: &[Entry] = &[$(Entry::of::<$transport>(),)* Entry::IDEAL];
    };
}
for_each_transport!(entries);

/// The names of all transports.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

/// The transport of this name.
pub fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    const fn of<T: Transport>() -> Entry
    where
        T::Config: Serialize + DeserializeOwned + JsonSchema + Checked,
    {
        Entry {
            name: T::NAME,
            about: T::ABOUT,
            shares_memory: T::SHARES_MEMORY,
            schema: T::Config::json_schema,
            resolve: resolve::<T::Config>,
            longest_pause: longest_pause::<T::Config>,
            closed_loops: true,
            run: simulate::<T>,
        }
    }

    const IDEAL: Entry = Entry {
        name: "ideal",
        about: "no transport: how soon the flows could finish if only access links were scarce (the reference line)",
        shares_memory: true, // it knows no memory
        schema: Oracle::json_schema,
        resolve: resolve::<Oracle>,
        longest_pause: longest_pause::<Oracle>,
        closed_loops: false,
        run: oracle,
    };
}

fn resolve<C: Serialize + DeserializeOwned + Checked>(given: &toml::Table) -> Result<toml::Table, BadParameter> {
    let config: C = given.clone().try_into().map_err(|error| culprit::<C>(given, &error))?;
    config.check().map_err(BadParameter::from)?;
    Ok(toml::Table::try_from(config).expect("parameters are written as TOML"))
}

impl From<String> for BadParameter {
    /// From a sentence that starts with the key's name.
    fn from(message: String) -> BadParameter {
        match message.split_once(": ") {
            Some((key, rest)) => BadParameter { key: Some(key.to_owned()), message: rest.to_owned() },
            None => BadParameter { key: None, message },
        }
    }
}

fn longest_pause<C: DeserializeOwned + Checked>(
    resolved: &toml::Table,
    conditions: &Conditions<'_>,
) -> Result<Duration, BadParameter> {
    let config: C = resolved.clone().try_into().expect("parameters were resolved");
    config.check_under(conditions)?;
    Ok(config.longest_pause(conditions))
}

/// The key that is wrong on its own: parameters all have defaults, so each can be read alone.
fn culprit<C: DeserializeOwned>(given: &toml::Table, error: &toml::de::Error) -> BadParameter {
    let alone = |(key, value): (&String, &toml::Value)| {
        let error = toml::Table::from_iter([(key.clone(), value.clone())]).try_into::<C>().err()?;
        Some(BadParameter { key: Some(key.clone()), message: error.message().to_owned() })
    };
    let together = || BadParameter { key: None, message: error.message().to_owned() };
    given.iter().find_map(alone).unwrap_or_else(together)
}
