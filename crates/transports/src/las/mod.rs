#![doc = include_str!("README.md")]

mod config;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Nic, NoControl, PortProfile, PortSite, Profile, Site, Transport};

pub use config::Config;

use crate::pfabric::{Header, Host, PriorityDrop};

/// Least attained service.
pub enum Las {}

impl Transport for Las {
    const NAME: &'static str = "las";
    const ABOUT: &'static str = "switches send and drop by the bytes that a flow has sent: least attained service (PIAS paper)";
    const PROFILE: Profile = Profile::new("LAS", "#C04ECB", "p", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT];
    const NIC: Nic = Nic::Queued;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = PriorityDrop;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(&config.pfabric(), site)
    }
    fn port(config: &Config, site: &PortSite<'_>) -> PriorityDrop {
        PriorityDrop::new(config.pfabric().port_limit(site.memory.bytes()))
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        config.pfabric().port_profile(site.memory.bytes())
    }
}
