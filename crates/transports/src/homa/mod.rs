#![doc = include_str!("README.md")]

mod config;
mod cutoffs;
mod header;
mod host;
mod levels;
mod receiver;
mod schedule;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Nic, NoControl, PortProfile, PortSite, Profile, Site, Transport};

pub use config::{Assignment, Config};
pub use header::Header;
pub use host::Host;

use crate::disciplines::{Buffer, StrictPriority};

/// Homa.
pub enum Homa {}

impl Transport for Homa {
    const NAME: &'static str = "homa";
    const ABOUT: &'static str = "blind first packets, then grants with priorities that receivers choose (SIGCOMM 2018)";
    const PROFILE: Profile = Profile::new("Homa", "#680045", "h", Family::Other);
    const GAUGES: &'static [Gauge] = &[Gauge::TOKENS, Gauge::PRIORITY];
    const NIC: Nic = Nic::Pulled;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = StrictPriority;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    /// Strict priority among the levels, in one buffer.
    fn port(config: &Config, site: &PortSite<'_>) -> StrictPriority {
        let buffer = if config.push_out { Buffer::PushOut(site.memory.bytes()) } else { Buffer::Shared(site.memory.bytes()) };
        StrictPriority::new(config.levels, buffer)
    }

    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let blind = config.unscheduled_levels_or_one();
        let holds = (0..config.levels).map(|level| match level {
            0 if blind == 1 => "control packets, and first packets of all messages".to_owned(),
            0 => "control packets, and first packets of the shortest messages".to_owned(),
            level if level < blind => format!("first packets of longer messages (level {level})"),
            level => format!("granted packets (level {level})"),
        });
        let port = PortProfile::of_queues(holds, site.memory.bytes()).pushing_out(config.push_out);
        PortProfile { queues_key: Some("levels"), ..port }
    }
}
