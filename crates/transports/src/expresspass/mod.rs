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

use flowloom_core::{
    Ability, Bytes, Family, Feature, Gauge, LimiterProfile, Nic, NoControl, PathNeed, PortProfile, PortSite, Profile,
    QueueLimit, Site, Transport, WireProfile,
};

pub(crate) use config::lost_to_requests;
pub use config::{Config, Feedback};
pub use header::Header;
pub use host::Host;

use crate::disciplines::{CreditDrop, CreditLayout, CreditPort, Limit};

/// The rate at which a receiver asks for a flow's data (§3.2 of the paper).
pub(crate) const CREDIT_RATE: Gauge =
    Gauge::new("credit_gbps", "the rate of the payload that the receiver's credits or tokens ask for, in Gb/s");

/// ExpressPass.
pub enum ExpressPass {}

/// The class of credits. That of signals is 0.
const CREDIT: u8 = 1;
/// The class of data.
const DATA: u8 = 2;

/// Which credit a full queue drops; `key` is the parameter.
pub(crate) const fn random_drop(key: &'static str) -> Feature {
    Feature {
        ability: Ability::DropAtRandom,
        what: "it drops any of the credits of a full queue or the arrival, each with the same probability",
        without: "a flow whose credits come in step with the limiter keeps those of other flows out",
        essential: false,
        key: Some(key),
    }
}

impl Config {
    /// The limit of a queue of credits; `key` is the parameter.
    pub(crate) fn credit_limit(&self, key: &'static str, wire: &WireProfile) -> QueueLimit {
        QueueLimit { bytes: wire.control * u64::from(self.credit_queue), key }
    }
}

impl Transport for ExpressPass {
    const NAME: &'static str = "expresspass";
    const ABOUT: &'static str =
        "receivers send credits, which every port limits to what the data they ask for leaves (SIGCOMM 2017)";
    const PROFILE: Profile = Profile::new("ExpressPass", "#6E7023", "d", Family::Other);
    const GAUGES: &'static [Gauge] = &[CREDIT_RATE, Gauge::RTT];
    const NIC: Nic = Nic::Queued;
    /// A port limits the credits for the data that crosses its link in the other direction.
    const PATHS: PathNeed = PathNeed::Symmetric;
    const FIXED_RATES: Option<&'static str> = Some("its ports limit credits by the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = CreditPort;
    type Control = NoControl<Header>;

    /// A small credit.
    fn shortest(config: &Config, wire: &WireProfile) -> Bytes {
        wire.control - config.credit_spread
    }

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

    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let wire = &site.wire;
        let mut port = PortProfile::of_queues(["signals", "credits", "data"], site.memory.bytes());
        port.queues[usize::from(CREDIT)].limit = Some(config.credit_limit("credit_queue", wire));
        port.limiter = Some(LimiterProfile {
            first: CREDIT,
            queues: 1,
            part: wire.control,
            whole: wire.control + wire.full,
            burst: wire.control * u64::from(config.credit_burst),
            share_key: None,
            burst_key: "credit_burst",
        });
        if config.credit_drop == CreditDrop::Random { port.and(random_drop("credit_drop")) } else { port }
    }
}
