#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod link;
mod port;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{
    Ability, Family, Feature, Gauge, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport,
};

pub use config::{Config, EarlyStartRtt};
pub use header::{Feedback, Header, LineRate, Pauser, Request, RoundTrip};
pub use host::Host;
pub use link::Link;
pub use port::{Port, Switch};

/// PDQ.
pub enum Pdq {}

/// What ports of switches do with requests.
const RATES: Feature = Feature {
    ability: Ability::ComputeRates,
    what: "it keeps a list of flows, gives the most critical ones their rates and pauses the others, in each packet that passes",
    without: "senders get no rates, so no flow sends",
    essential: true,
    key: None,
};

impl Transport for Pdq {
    const NAME: &'static str = "pdq";
    const ABOUT: &'static str = "switches give the most critical flows their full rate and pause the others (SIGCOMM 2012)";
    const PROFILE: Profile = Profile::new("PDQ", "#8D0500", "1", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::RATE, Gauge::RTT];
    const NIC: Nic = Nic::Pulled;
    /// An acknowledgement commits the rate at the ports that its data packet has left by.
    const PATHS: PathNeed = PathNeed::Symmetric;
    const FIXED_RATES: Option<&'static str> = Some("its switches share out the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(_: &Config, site: &PortSite<'_>) -> Port {
        Port::new(site.memory.bytes())
    }
    fn port_profile(_: &Config, site: &PortSite<'_>) -> PortProfile {
        let port = PortProfile::of_queues(["all packets"], site.memory.bytes());
        if site.at_switch() { port.and(RATES) } else { port }
    }
    fn shared(config: &Config, site: &Site<'_>) -> Switch {
        Switch::new(config, site)
    }
}
