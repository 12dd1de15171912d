//! The parameters of a transport: a value of the transport's own type, in a box that hides which type it is.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use flowloom_core::{Duration, WireProfile};
use flowloom_transports::disciplines::CreditSchedule;
use flowloom_transports::{Checked, Conditions, NoLoss, PortMemory, SizeShare};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

/// What the lab asks of a transport's type of parameters.
pub trait Config: Checked + Any + Debug + PartialEq + Send + Sync + Serialize + DeserializeOwned + JsonSchema {}

impl<C> Config for C where C: Checked + Any + Debug + PartialEq + Send + Sync + Serialize + DeserializeOwned + JsonSchema {}

/// The parameters of one transport, all of them.
#[derive(Clone, Debug)]
pub struct Parameters(Arc<dyn AnyConfig>);

/// A [`Config`] of any type.
trait AnyConfig: Any + Debug + Send + Sync {
    fn check(&self) -> Result<(), String>;
    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String>;
    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration;
    fn misfits(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Vec<String>;
    fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule>;
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory>;
    fn no_loss(&self, conditions: &Conditions<'_>) -> Option<NoLoss>;
    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Parameters>;
    fn to_table(&self) -> toml::Table;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<C: Config> AnyConfig for C {
    fn check(&self) -> Result<(), String> {
        Checked::check(self)
    }
    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        Checked::check_under(self, conditions)
    }
    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        Checked::longest_pause(self, conditions)
    }
    fn misfits(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Vec<String> {
        let misfits = Checked::misfits(self, conditions);
        misfits.into_iter().chain(self.misfits_of_sizes(conditions, sizes)).collect()
    }
    fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule> {
        Checked::credit_schedule(self, wire)
    }
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        Checked::port_memory(self, conditions)
    }
    fn no_loss(&self, conditions: &Conditions<'_>) -> Option<NoLoss> {
        Checked::no_loss(self, conditions)
    }
    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Parameters> {
        Checked::fitted(self, conditions, sizes).map(|config| Parameters(Arc::new(config)))
    }
    fn to_table(&self) -> toml::Table {
        toml::Table::try_from(self).expect("parameters are written as TOML")
    }
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self == other)
    }
}

/// A rule of a transport that its parameters break.
#[derive(Debug)]
pub struct BadParameter {
    /// The key at fault, if it is one key's.
    pub key: Option<String>,
    /// What was found and what would be right.
    pub message: String,
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

impl Parameters {
    /// Reads the parameters of a transport with this type of parameters. Those that are not given have their defaults.
    ///
    /// # Errors
    /// If the table does not fit the type. A table that fits the type's schema does.
    pub fn read<C: Config>(given: toml::Table) -> Result<Parameters, toml::de::Error> {
        Ok(Parameters(Arc::new(given.try_into::<C>()?)))
    }

    /// The value itself, if it is of type `C`.
    pub fn get<C: Config>(&self) -> Option<&C> {
        let config: &dyn Any = &*self.0;
        config.downcast_ref()
    }

    /// Every parameter as TOML.
    pub fn to_table(&self) -> toml::Table {
        self.0.to_table()
    }

    /// Checks what neither the types nor the schema of the parameters can say.
    ///
    /// # Errors
    /// The first rule that the parameters break.
    pub fn check(&self) -> Result<(), BadParameter> {
        Ok(self.0.check()?)
    }

    /// How ports limit the credits that schedule all data, if the transport has such credits.
    pub fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule> {
        self.0.credit_schedule(wire)
    }

    /// How much memory a port needs in a scenario like this, if the transport says so.
    pub fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        self.0.port_memory(conditions)
    }

    /// How the transport's design keeps full ports from losing data in a scenario like this, if it does.
    pub fn no_loss(&self, conditions: &Conditions<'_>) -> Option<NoLoss> {
        self.0.no_loss(conditions)
    }

    /// The parameters to run with in a scenario like this, where some of them follow from it.
    #[must_use]
    pub fn fitted(self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Parameters {
        self.0.fitted(conditions, sizes).unwrap_or(self)
    }

    /// The longest that a flow may be silent before it tries again, in a scenario like this.
    ///
    /// # Errors
    /// The first rule that the parameters break in such a scenario.
    pub fn longest_pause(&self, conditions: &Conditions<'_>) -> Result<Duration, BadParameter> {
        self.0.check_under(conditions)?;
        Ok(self.0.longest_pause(conditions))
    }

    /// What does not suit a network like this, or flows of these sizes, although a run is possible: sentences that start with the key's
    /// name.
    pub fn misfits(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Vec<String> {
        self.0.misfits(conditions, sizes)
    }
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Parameters) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_table().serialize(serializer)
    }
}
