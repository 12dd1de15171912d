#![doc = include_str!("README.md")]

mod config;
mod controller;
mod fit;
mod header;
mod host;
mod optimum;
mod sizes;
mod tagger;
#[cfg(test)]
mod tests;

use flowloom_core::{
    Duration, Family, Gauge, HostProfile, Need, Nic, Placement, PortProfile, PortSite, Profile, Site, Tagging, Transport,
};

pub use config::{Config, MOST_THRESHOLDS, Rule, Thresholds, Update};
pub use controller::Controller;
pub use header::Header;
pub use host::Host;
pub use optimum::{Objective, Reading, slowdown, thresholds};
pub use sizes::{BINS, Sizes};
pub use tagger::Tagger;

use crate::disciplines::EcnPriority;
use crate::tcp;

/// PIAS.
pub enum Pias {}

impl Transport for Pias {
    const NAME: &'static str = "pias";
    const ABOUT: &'static str = "flows fall through the switches' priorities as they send, over DCTCP (ToN 2017)";
    const PROFILE: Profile =
        Profile { ports: "tcp.port", unmarked: "controller = newreno", ..Profile::new("PIAS", "#E69F00", "D", Family::Papers) };
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT, Gauge::RTT, Gauge::MARKED, Gauge::PRIORITY];
    const NIC: Nic = Nic::Queued;
    const SHARES_MEMORY: bool = true;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = EcnPriority;
    type Control = Controller;

    fn placement(config: &Config) -> Placement {
        if config.update.period == Duration::ZERO { Placement::Nowhere } else { Placement::ExtraHost }
    }
    fn need(config: &Config) -> Option<Need> {
        config.controller.need().map(|need| Need { key: Some("controller"), ..need })
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(config: &Config, site: &PortSite<'_>) -> EcnPriority {
        tcp::port(&config.tcp, config.classes(), site)
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let port = tcp::port_profile(&config.tcp, config.queues(), ["tcp.port", "tcp.nic"], site);
        let key = if config.update.period == Duration::ZERO { "thresholds" } else { "update.period" };
        PortProfile { queues_key: Some(key), ..port }
    }
    fn host_profile(config: &Config) -> HostProfile {
        let thresholds = config.thresholds.list().to_vec();
        let tagger = Tagging { thresholds, key: "thresholds", command: "flowloom pias attach" };
        HostProfile { tagger: Some(tagger), ..config.tcp.host_profile(config.controller, "tcp") }
    }
    fn control(config: &Config, site: &Site<'_>) -> Controller {
        Controller::new(config, site)
    }
}
