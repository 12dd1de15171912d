#![doc = include_str!("README.md")]

mod books;
mod capacity;
mod config;
mod header;
mod host;
mod port;
mod rules;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{
    Ability, Attribute, Family, Feature, Gauge, Need, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport,
};

pub use config::{Config, QueueSample};
pub use header::{Answer, Header, MOST_HOPS, Path, Purpose, Request};
pub use host::Host;
pub use port::Port;
pub use rules::Rules;

/// D3.
pub enum D3 {}

/// What ports of switches do with requests.
const RATES: Feature = Feature {
    ability: Ability::ComputeRates,
    what: "it reserves rates for deadlines, first come first served, and shares out what is left, in each request that passes",
    without: "senders get no rates, so no flow sends",
    essential: true,
    key: None,
};

/// What a full port does with a data packet that carries a request.
const KEEPS_REQUESTS: Feature = Feature {
    ability: Ability::Trim,
    what: "it cuts the payload off a packet that does not fit but carries a request",
    without: "a lost request leaves its flow with the rate of the last one",
    essential: false,
    key: None,
};

impl Transport for D3 {
    const NAME: &'static str = "d3";
    const ABOUT: &'static str = "switches reserve rates for deadlines, first come first served (SIGCOMM 2011)";
    const PROFILE: Profile = Profile::new("D3", "#5242A3", "2", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::RATE, Gauge::RTT];
    const NIC: Nic = Nic::Pulled;
    /// A request gives back what the ports on its path hold for its flow, so all requests of a flow take one path. Answers may take another.
    const PATHS: PathNeed = PathNeed::One;
    const FIXED_RATES: Option<&'static str> = Some("its switches share out the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header>;

    fn need(_: &Config) -> Option<Need> {
        let without = "ports share what they have evenly among flows";
        Some(Need { key: None, of: Attribute::Deadline, without })
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(_: &Config, site: &PortSite<'_>) -> Port {
        Port::new(site.memory.bytes())
    }
    fn port_profile(_: &Config, site: &PortSite<'_>) -> PortProfile {
        PortProfile::of_queues(["all packets"], site.memory.bytes()).and(RATES).and(KEEPS_REQUESTS)
    }
    /// The constants of the ports, which follow from the network's round trip and so are found once per switch.
    fn shared(config: &Config, site: &Site<'_>) -> Rules {
        Rules::new(config, site)
    }
}
