#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod window;

use flowloom_core::{
    Ability, Bytes, Family, Feature, Gauge, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport,
};

pub use config::Config;
pub use header::{Header, Kind};
pub use host::Host;

use crate::disciplines::{EcnConfig, EcnPriority, MarkAt, Marking, Split, Stamped};
use crate::pfc::PausableTransport;

/// HPCC.
pub enum Hpcc {}

/// The port under the records.
const UNMARKED: EcnConfig =
    EcnConfig { ecn: Marking::Off, mark_above: Some(Bytes::new(1)), mark_at: MarkAt::Enqueue, split: Split::Shared };

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
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Stamped<EcnPriority>;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> Stamped<EcnPriority> {
        Stamped::new(EcnPriority::new(&UNMARKED, Config::CLASSES, site), config.records, site)
    }

    fn port_profile(_: &Config, site: &PortSite<'_>) -> PortProfile {
        let mut port = UNMARKED.profile(["acknowledgements", "data"], "", site.memory);
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
