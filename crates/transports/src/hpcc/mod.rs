#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod window;

use flowloom_core::{Family, Gauge, Nic, NoControl, PathNeed, PortSite, Profile, Site, Transport};

pub use config::Config;
pub use header::{Header, Kind};
pub use host::Host;

use crate::disciplines::{EcnConfig, EcnPriority, Marking, Stamped};
use crate::pfc::PausableTransport;

/// HPCC.
pub enum Hpcc {}

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
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Stamped<EcnPriority>;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> Stamped<EcnPriority> {
        let unmarked = EcnConfig { ecn: Marking::Off, ..EcnConfig::default() };
        Stamped::new(EcnPriority::new(&unmarked, Config::CLASSES, site), config.records, site)
    }
}

impl PausableTransport for Hpcc {
    fn classes(_: &Config) -> u8 {
        Config::CLASSES
    }
}
