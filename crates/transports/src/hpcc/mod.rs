#![doc = include_str!("README.md")]

mod config;
mod header;
#[cfg(test)]
mod tests;
mod window;

use flowloom_core::{
    Ability, Ecn, Family, Feature, Gauge, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport,
};

pub use config::Config;
pub use header::Header;

use crate::disciplines::{EcnConfig, EcnPriority, Stamped};
use crate::pfc::PausableTransport;
use crate::roce::{Host, Service};
use window::Window;

/// HPCC.
pub enum Hpcc {}

/// What ports of switches write into packets.
const REPORTS: Feature = Feature {
    ability: Ability::Telemetry,
    what: "it writes the length of its queues, the bytes that it has sent and the time into each data packet",
    without: "senders know nothing of the load and cannot set their windows",
    essential: true,
    key: Some("records"),
};

impl Transport for Hpcc {
    const NAME: &'static str = "hpcc";
    const ABOUT: &'static str =
        "switches report their load in each packet, and senders set window and rate by it (SIGCOMM 2019)";
    const PROFILE: Profile = Profile::new("HPCC", "#CCAD9B", "3", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT, Gauge::RATE];
    const NIC: Nic = Nic::Pulled;
    const SHARES_MEMORY: bool = true;
    /// Records of different ports cannot be compared, and a packet that overtakes others would look like a loss.
    const PATHS: PathNeed = PathNeed::One;
    const FIXED_ROUTES: Option<&'static str> =
        Some("its packets have room for the records of the switches on the shortest paths");
    const FIXED_RATES: Option<&'static str> = Some("its switches write into packets which rate their links have");
    type Config = Config;
    type Header = Header;
    type Host = Host<Window>;
    type Port = Stamped<EcnPriority>;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host<Window> {
        let spans = config.spans(site.base_rtt(&config.wire(&site.wire))).expect("the configuration suits the network");
        let service = Service {
            reliability: config.reliability(),
            spans,
            wire: config.wire(&site.wire),
            data_class: Config::DATA_CLASS,
            ack_class: if config.ack_first { 0 } else { Config::DATA_CLASS },
            ecn: Ecn::NotCapable,
            congestion_interval: None,
        };
        Host::new(&service, config.rules(&spans, site), site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> Stamped<EcnPriority> {
        Stamped::new(EcnPriority::new(&EcnConfig::UNMARKED, Config::CLASSES, site), config.records, site)
    }

    fn port_profile(_: &Config, site: &PortSite<'_>) -> PortProfile {
        let mut port = EcnConfig::UNMARKED.profile(["acknowledgements", "data"], "", site);
        if let Some(memory) = &mut port.memory {
            memory.division_key = None;
        }
        if site.at_switch() { port.and(REPORTS) } else { port }
    }
}

impl PausableTransport for Hpcc {
    fn classes(_: &Config) -> u8 {
        Config::CLASSES
    }
}
