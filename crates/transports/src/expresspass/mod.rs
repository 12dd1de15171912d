#![doc = include_str!("README.md")]

pub(crate) mod config;
pub(crate) mod credits;
mod feedback;
mod header;
mod host;
mod receiver;
pub(crate) mod scheme;
pub(crate) mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, Nic, NoControl, PathNeed, PortSite, Profile, Site, Transport};

pub(crate) use config::lost_to_requests;
pub use config::{Config, Feedback};
pub use header::Header;
pub use host::Host;

use crate::disciplines::{CreditLayout, CreditPort, Limit};

/// The rate at which a receiver asks for a flow's data (§3.2 of the paper).
pub(crate) const CREDIT_RATE: Gauge =
    Gauge::new("credit_gbps", "the rate of the payload that the receiver's credits or tokens ask for, in Gb/s");

/// ExpressPass.
pub enum ExpressPass {}

/// The class of credits. That of signals is 0.
const CREDIT: u8 = 1;
/// The class of data.
const DATA: u8 = 2;

impl Transport for ExpressPass {
    const NAME: &'static str = "expresspass";
    const ABOUT: &'static str =
        "receivers send credits, which every port limits to what the data they ask for leaves (SIGCOMM 2017)";
    const PROFILE: Profile = Profile::new("ExpressPass", "#6E7023", "d", Family::Other);
    const GAUGES: &'static [Gauge] = &[CREDIT_RATE, Gauge::RTT];
    const NIC: Nic = Nic::Queued;
    /// A port limits the credits for the data that crosses its link in the other direction.
    const PATHS: PathNeed = PathNeed::Symmetric;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = CreditPort;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }

    /// Hosts limit their credits as switches do, so that a receiver of many flows asks for no more than its link can carry.
    fn port(config: &Config, site: &PortSite<'_>) -> CreditPort {
        let layout = CreditLayout {
            credit_queues: 1,
            // A limit in bytes would drop more of the large credits than of the small ones, and the remaining ones would ask for more data
            // than the link can carry beside them: 96.4 % instead of 94.8 % where most credits are dropped.
            credit_limit: Limit::packets(config.credit_queue),
            credit_drop: config.credit_drop,
            seed: site.seed,
            lifetime: None,
            burst: site.wire.control * u64::from(config.credit_burst),
            slot: site.wire.control + site.wire.full,
            data: &[Limit::NONE],
            memory: site.memory.bytes(),
        };
        CreditPort::new(&layout, site.network.link(site.link).rate, &site.wire)
    }
}
