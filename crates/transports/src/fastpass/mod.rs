#![doc = include_str!("README.md")]

mod arbiter;
mod config;
mod header;
mod host;
mod matching;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Need, Nic, Placement, PortProfile, PortSite, Profile, Site, Transport};

pub use arbiter::Arbiter;
pub use config::{Config, Policy, ScheduleStart};
pub use header::{Header, MOST_SLOTS, Slots};
pub use host::Host;

use crate::disciplines::{Buffer, StrictPriority};

/// Fastpass, as the pHost paper evaluates it.
pub enum Fastpass {}

impl Transport for Fastpass {
    const NAME: &'static str = "fastpass";
    const ABOUT: &'static str =
        "a central arbiter gives every packet its time slot (SIGCOMM 2014), as the pHost paper compares it";
    const PROFILE: Profile = Profile::new("Fastpass", "#009E73", "^", Family::Papers);
    const GAUGES: &'static [Gauge] = &[Gauge::TOKENS];
    const NIC: Nic = Nic::Pulled;
    const FIXED_RATES: Option<&'static str> = Some("its arbiter gives out slots by the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = StrictPriority;
    type Control = Arbiter;

    fn placement(_: &Config) -> Placement {
        Placement::ExtraHost
    }
    fn need(config: &Config) -> Option<Need> {
        config.policy.need()
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    /// Control packets, then data, in one buffer.
    fn port(config: &Config, site: &PortSite<'_>) -> StrictPriority {
        StrictPriority::new(
            2,
            if config.push_out { Buffer::PushOut(site.memory.bytes()) } else { Buffer::Shared(site.memory.bytes()) },
        )
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let holds = ["requests, schedules and acknowledgements", "data"];
        PortProfile::of_queues(holds, site.memory.bytes()).pushing_out(config.push_out)
    }
    fn control(config: &Config, site: &Site<'_>) -> Arbiter {
        Arbiter::new(config, site)
    }
}
