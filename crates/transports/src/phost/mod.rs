#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Need, Nic, NoControl, PortProfile, PortSite, Profile, Site, Transport};

pub use config::{Config, FreeTokenAccount, FreeTokenRule, Policy};
pub use header::Header;
pub use host::Host;

use crate::disciplines::{Buffer, StrictPriority};

/// Tokens that a receiver has sent and that no data has answered (§3.2 pauses a flow that has too many).
const TOKENS_OUT: Gauge =
    Gauge::new("tokens_unanswered", "tokens that the receiver has given the flow and that no data has answered");

/// pHost.
pub enum PHost {}

impl Transport for PHost {
    const NAME: &'static str = "phost";
    const ABOUT: &'static str = "receivers schedule every packet with tokens over commodity switches (CoNEXT 2015)";
    const PROFILE: Profile = Profile::new("pHost", "#0072B2", "o", Family::Papers);
    const GAUGES: &'static [Gauge] = &[Gauge::TOKENS, Gauge::PRIORITY, TOKENS_OUT];
    const NIC: Nic = Nic::Pulled;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = StrictPriority;
    type Control = NoControl<Header>;

    fn need(config: &Config) -> Option<Need> {
        config.policy.need()
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    /// Control, short flows, long flows: three classes in one buffer.
    fn port(config: &Config, site: &PortSite<'_>) -> StrictPriority {
        let buffer = if config.push_out { Buffer::PushOut(site.memory.bytes()) } else { Buffer::Shared(site.memory.bytes()) };
        StrictPriority::new(3, buffer)
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let holds = ["requests, tokens and acknowledgements", "data of short flows", "data of long flows"];
        PortProfile::of_queues(holds, site.memory.bytes()).pushing_out(config.push_out)
    }
}
