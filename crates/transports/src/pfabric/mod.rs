#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod port;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Ability, Family, Feature, Gauge, Need, Nic, NoControl, PortProfile, PortSite, Profile, Site, Transport};

pub use config::{Config, Priority};
pub use header::Header;
pub use host::Host;
use host::Outbox;
pub use port::PriorityDrop;

/// What [`PriorityDrop`] does: a switch sends and drops by a number in each packet.
const BY_NUMBER: Feature = Feature {
    ability: Ability::OrderByNumber,
    what: "it sends the packet with the smallest of four billion priorities first and drops that with the largest; queues have eight",
    without: "long flows delay and displace short ones",
    essential: true,
    key: None,
};

/// pFabric; with [`Priority::BytesSent`] its host and port are those of [LAS](crate::las).
pub enum PFabric {}

impl Transport for PFabric {
    const NAME: &'static str = "pfabric";
    const ABOUT: &'static str = "switches send and drop by remaining flow size, hosts start at line rate (SIGCOMM 2013)";
    const PROFILE: Profile = Profile::new("pFabric", "#D55E00", "s", Family::Papers);
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT];
    const NIC: Nic = Nic::Queued;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = PriorityDrop;
    type Control = NoControl<Header>;

    fn need(config: &Config) -> Option<Need> {
        config.priority.need()
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(config: &Config, site: &PortSite<'_>) -> PriorityDrop {
        PriorityDrop::new(config.port_limit(site.memory.bytes()))
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        config.port_profile(site.memory.bytes())
    }
}
