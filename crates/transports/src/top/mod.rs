#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod port;
mod priorities;
mod profile;
mod receiver;
mod scheme;
mod sorted;
#[cfg(test)]
mod tests;
mod thresholds;
mod two_pass;

use flowloom_core::{Family, Gauge, Need, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile, Site, Transport};

pub use config::{Config, Priority, SwitchForm, Thresholds};
pub use header::Header;
pub use host::Host;
pub use port::Port;

use crate::expresspass::CREDIT_RATE;

/// The priority of a flow's tokens (§3.2).
const LEVEL: Gauge = Gauge::new("level", "the priority of the flow's tokens, counted from 0, the best");

/// TOP.
pub enum Top {}

/// The best class of tokens. That of signals is 0, and those of data come after all classes of tokens.
const FIRST_TOKENS: u8 = 1;

impl Transport for Top {
    const NAME: &'static str = "top";
    const ABOUT: &'static str =
        "ExpressPass whose credits have priorities, so that flows have them before they send (TPDS 2020)";
    const PROFILE: Profile = Profile::new("TOP", "#56B4E9", "P", Family::Papers);
    const GAUGES: &'static [Gauge] = &[CREDIT_RATE, Gauge::RTT, LEVEL];
    const NIC: Nic = Nic::Queued;
    /// A port limits the tokens for the data that crosses its link in the other direction, or, on average, a link of the same tier.
    const PATHS: PathNeed = PathNeed::SymmetricOrSprayed;
    const FIXED_ROUTES: Option<&'static str> = Some("the age at which a token is worthless follows from its path");
    const FIXED_RATES: Option<&'static str> = Some("its ports limit tokens by the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = Port;
    type Control = NoControl<Header>;

    fn need(config: &Config) -> Option<Need> {
        config.priority.need()
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    fn port(config: &Config, site: &PortSite<'_>) -> Port {
        Port::new(config, site)
    }

    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        profile::port(config, site)
    }
}
