//! `[topology]`: the kinds of networks. Each is a module with its keys, rules, size and construction, and has a place in the list below.

mod custom;
mod dumbbell;
mod fat_tree;
mod leaf_spine;
mod rails;
mod single_switch;
mod three_tier;

use std::path::Path;

use flowloom_core::topology::Delays;
use flowloom_core::{Duration, Network, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ScenarioError;

#[cfg(test)]
pub(crate) use custom::network_schema;
pub use custom::{HostEntry, LinkEntry, NetworkFile, NodeEntry, SwitchEntry};

/// A kind of network. Its fields are the keys of `[topology]`; its documentation says what it is and which hops it has.
trait Shape {
    /// The keys of a small network with at least three hosts, for tests of what works in any network.
    fn small() -> &'static str
    where
        Self: Sized;

    /// Checks the rules that several keys obey together, or that the schema cannot say.
    ///
    /// # Errors
    /// The first rule that is broken, with its key.
    fn check(&self) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// How large the network will be, if the keys say that. So nothing is built that is too large.
    fn size(&self) -> Option<Size>;

    /// Builds the network. The files that the keys name are relative to `base_dir`.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong.
    fn build(&self, base_dir: &Path, switching: Switching) -> Result<Network, ScenarioError>;
}

/// Makes the choice between the kinds.
macro_rules! kinds {
    ($($module:ident :: $kind:ident),* $(,)?) => {
        $(pub use $module::$kind;)*

        /// The shape of the network. A host has one link, if nothing else is said.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        #[allow(missing_docs)] // the documentation of the types is that of the kinds
        pub enum Topology {
            $($kind($kind)),*
        }

        impl Topology {
            /// For each kind, the keys of a small network with at least three hosts, as a table of TOML has them between its braces.
            pub fn small() -> Vec<&'static str> {
                vec![$($kind::small()),*]
            }

            fn shape(&self) -> &dyn Shape {
                match self {
                    $(Topology::$kind(shape) => shape),*
                }
            }
        }
    };
}

kinds![
    single_switch::SingleSwitch,
    dumbbell::Dumbbell,
    leaf_spine::LeafSpine,
    three_tier::ThreeTier,
    fat_tree::FatTree,
    rails::Rails,
    custom::Custom,
];

impl Topology {
    /// How many hosts and switches there will be, if the keys say that.
    pub fn nodes(&self) -> Option<u64> {
        self.shape().size().map(|size| size.hosts + size.switches)
    }

    /// Checks the rules of the kind, and whether the network will be too large.
    ///
    /// # Errors
    /// The first rule that is broken, with its key.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        self.shape().check()?;
        self.shape().size().map_or(Ok(()), Size::check)
    }

    /// Builds the network. The files that the keys name are relative to `base_dir`.
    ///
    /// # Errors
    /// A file that cannot be read or is wrong, a network that is too large.
    pub(crate) fn build(&self, base_dir: &Path, switching: Switching) -> Result<Network, ScenarioError> {
        let network = self.shape().build(base_dir, switching)?;
        Size::of(&network).check()?;
        Ok(network)
    }
}

/// How many there are of each.
struct Size {
    hosts: u64,
    switches: u64,
    links: u64,
}

const HOSTS_MOST: u64 = 100_000;
/// In a network from a file, the next hops of each pair of switches take 4 B, which is 3.6 GB then.
const SWITCHES_MOST: u64 = 30_000;
/// The simulator numbers the two directions of each link with 21 bits.
const LINKS_MOST: u64 = 1_000_000;

impl Size {
    /// That of so many planes.
    fn planes(self, planes: Option<u32>) -> Size {
        let planes = u64::from(planes.unwrap_or(1));
        Size { switches: self.switches * planes, links: self.links * planes, ..self }
    }

    fn of(network: &Network) -> Size {
        let [switches, links] = [network.switches().count(), network.links().len() / 2].map(|count| count as u64);
        Size { hosts: network.hosts() as u64, switches, links }
    }

    fn check(self) -> Result<(), ScenarioError> {
        let counts =
            [(self.hosts, "hosts", HOSTS_MOST), (self.switches, "switches", SWITCHES_MOST), (self.links, "links", LINKS_MOST)];
        match counts.into_iter().find(|(count, _, most)| count > most) {
            Some((count, what, most)) => {
                Err(ScenarioError::at_key("topology", format!("this makes {count} {what}; the limit is {most}")))
            }
            None => Ok(()),
        }
    }
}

/// So many of these networks beside each other, for the same hosts.
fn planes(plane: Network, planes: Option<u32>) -> Network {
    topology::planes(plane, planes.unwrap_or(1) as usize)
}

/// The delays of a network whose hosts and whose core may have their own.
fn delays(delay: Quantity<Duration>, [hosts, core]: [Option<Quantity<Duration>>; 2]) -> Delays {
    Delays { hosts: hosts.unwrap_or(delay).0, switches: delay.0, core: core.unwrap_or(delay).0 }
}

const fn gbps(n: u64) -> Quantity<Rate> {
    Quantity(Rate::from_gbps(n))
}

const fn ns(n: u64) -> Quantity<Duration> {
    Quantity(Duration::from_ns(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    const SWITCHING: Switching = Switching::StoreAndForward;

    /// A kind that says its size too small would escape the limits until its network has been built.
    #[test]
    fn each_kind_builds_what_its_size_says() {
        for keys in Topology::small() {
            let table: toml::Table = format!("topology = {{ {keys} }}").parse().unwrap();
            let topology: Topology = table["topology"].clone().try_into().unwrap();
            topology.check().unwrap();
            let Some(size) = topology.shape().size() else { continue };
            let built = Size::of(&topology.build(Path::new(""), SWITCHING).unwrap());
            assert_eq!([size.hosts, size.switches, size.links], [built.hosts, built.switches, built.links], "{keys}");
            assert!(built.hosts >= 3, "{keys}");
        }
    }

    #[test]
    fn a_network_from_a_file_is_held_to_the_limits_too() {
        let mut network = Network::new(1, SWITCHING);
        for switch in 0..=SWITCHES_MOST {
            network.add_switch(1, "switch", format!("s{switch}"));
        }
        let error = Size::of(&network).check().unwrap_err().to_string();
        assert!(error.contains("this makes 30001 switches; the limit is 30000"), "{error}");
    }
}
