#![doc = include_str!("README.md")]

mod config;
mod header;
mod rate;
#[cfg(test)]
mod tests;

use flowloom_core::{
    Ecn, Family, Gauge, HostProfile, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport,
};

pub use config::{Config, Windowed};
pub use header::Header;

use crate::disciplines::{EcnConfig, EcnPriority};
use crate::pfc::PausableTransport;
use crate::roce::{Host, Service};
use rate::SendingRate;

/// DCQCN.
pub enum Dcqcn {}

impl Transport for Dcqcn {
    const NAME: &'static str = "dcqcn";
    const ABOUT: &'static str = "receivers report marked packets, and senders cut and raise their rates (SIGCOMM 2015)";
    const PROFILE: Profile = Profile::new("DCQCN", "#0000E5", "4", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT, Gauge::RATE];
    const NIC: Nic = Nic::Pulled;
    const SHARES_MEMORY: bool = true;
    /// A packet that overtakes others would look like a loss.
    const PATHS: PathNeed = PathNeed::One;
    type Config = Config;
    type Header = Header;
    type Host = Host<SendingRate>;
    type Port = EcnPriority;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host<SendingRate> {
        let service = Service {
            reliability: config.reliability(),
            spans: config.spans(site.base_rtt(&site.wire)).expect("the configuration suits the network"),
            wire: site.wire,
            data_class: Config::DATA_CLASS,
            ack_class: if config.ack_first { 0 } else { Config::DATA_CLASS },
            ecn: Ecn::Capable,
            congestion_interval: Some(config.cnp_interval),
        };
        Host::new(&service, config.rules(&service.spans, site), site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> EcnPriority {
        EcnPriority::new(&config.at(site), Config::CLASSES, site)
    }

    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        config.at(site).profile(["acknowledgements and reports", "data"], "", site)
    }

    fn host_profile(_: &Config) -> HostProfile {
        HostProfile { ecn: true, in_nics: true, ..HostProfile::OWN }
    }
}

impl Config {
    /// The marks of a port. A NIC, which takes a packet when it can send it, needs none.
    fn at(&self, site: &PortSite<'_>) -> EcnConfig {
        if site.at_switch() { self.port() } else { EcnConfig::UNMARKED }
    }
}

impl PausableTransport for Dcqcn {
    fn classes(_: &Config) -> u8 {
        Config::CLASSES
    }
}
