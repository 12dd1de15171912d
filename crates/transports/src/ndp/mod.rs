#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod port;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Nic, NoControl, PortProfile, PortSite, Profile, Routing, Site, Transport};

pub use config::{Config, PullOrder};
pub use header::{Header, Part};
pub use host::Host;
pub use port::Port;

/// NDP.
pub enum Ndp {}

impl Transport for Ndp {
    const NAME: &'static str = "ndp";
    const ABOUT: &'static str = "switches trim payloads, receivers pull packets, senders spray them (SIGCOMM 2017)";
    const PROFILE: Profile = Profile::new("NDP", "#1F394C", "X", Family::Papers);
    const GAUGES: &'static [Gauge] = &[Gauge::TOKENS, Gauge::IN_FLIGHT];
    const NIC: Nic = Nic::Pulled;
    /// Senders walk through random permutations of all paths (§3).
    const ROUTING: Routing = Routing::SprayLabelled;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> Port {
        Port::new(config, site)
    }

    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        config.port_profile(site)
    }
}
