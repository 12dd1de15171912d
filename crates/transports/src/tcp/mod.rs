#![doc = include_str!("README.md")]

mod config;
mod connection;
pub mod controllers;
mod header;
mod host;
mod receiver;
mod rtt;
mod sender;
mod sending;
#[cfg(test)]
mod tests;

use flowloom_core::{Family, Gauge, HostProfile, Need, Nic, NoControl, PortProfile, PortSite, Profile, Site, Transport};

pub use config::{Config, FastRetransmit, MarkedGrowth, RecoveryAfterCut, Reuse, RtoRule, TimeoutAfterCut, WeightOn};
use controllers::Kind;
pub use header::{Blocks, Header, MOST_BLOCKS};
pub use host::Host;
pub(crate) use rtt::{RttEstimator, Timeouts};

use crate::disciplines::EcnPriority;
use crate::pfc::PausableTransport;

/// What a host tells of a flow that it sends.
pub(crate) const GAUGES: &[Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT, Gauge::RTT, Gauge::MARKED];

/// The output of a call, until it is polled.
type Outbox = crate::toolkit::Outbox<Header>;

/// The port of a switch or a host, with `classes` classes.
pub fn port(config: &Config, classes: u8, site: &PortSite<'_>) -> EcnPriority {
    EcnPriority::new(if site.at_switch() { &config.port } else { &config.nic }, classes, site)
}

/// Describes [`port`]. `tables` are the dotted tables, among a transport's parameters, of the ports of switches and of hosts.
pub fn port_profile(
    config: &Config,
    holds: impl IntoIterator<Item = impl Into<String>>,
    tables: [&'static str; 2],
    site: &PortSite<'_>,
) -> PortProfile {
    let (port, table) = if site.at_switch() { (&config.port, tables[0]) } else { (&config.nic, tables[1]) };
    port.profile(holds, table, site)
}

/// Defines a transport: TCP's host and ports with one controller.
macro_rules! transport {
    ($(#[$about:meta])* $type:ident, $name:literal, $kind:expr, $what:literal, $profile:expr) => {
        $(#[$about])*
        pub enum $type {}

        impl Transport for $type {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $what;
            const PROFILE: Profile = $profile;
            const GAUGES: &'static [Gauge] = GAUGES;
            const NIC: Nic = Nic::Queued;
            const SHARES_MEMORY: bool = true;
            type Config = Config;
            type Header = Header;
            type Host = Host;
            type Port = EcnPriority;
            type Control = NoControl<Header>;

            fn need(_: &Config) -> Option<Need> {
                $kind.need()
            }
            fn host(config: &Config, site: &Site<'_>) -> Host {
                Host::new(config, $kind, site)
            }
            fn port(config: &Config, site: &PortSite<'_>) -> EcnPriority {
                port(config, 1, site)
            }
            fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
                port_profile(config, ["all packets"], ["port", "nic"], site)
            }
            fn host_profile(config: &Config) -> HostProfile {
                config.host_profile($kind, "")
            }
        }

        impl PausableTransport for $type {}
    };
}

transport!(
    /// TCP NewReno with selective acknowledgement.
    Tcp, "tcp", Kind::NewReno, "NewReno with selective acknowledgement over drop-tail queues (RFC 5681, RFC 6675)",
    Profile { unmarked: "always", ..Profile::new("TCP", "#005629", "+", Family::Tcp) }
);
transport!(
    /// DCTCP.
    Dctcp, "dctcp", Kind::Dctcp, "windows cut by the share of marked packets (RFC 8257)",
    Profile::new("DCTCP", "#2385F8", "x", Family::Tcp)
);
transport!(
    /// D2TCP.
    D2tcp, "d2tcp", Kind::D2tcp, "DCTCP with smaller cuts for flows with more urgent deadlines (SIGCOMM 2012)",
    Profile::new("D2TCP", "#00C34D", ">", Family::Tcp)
);
transport!(
    /// L2DCT.
    L2dct, "l2dct", Kind::L2dct, "DCTCP that favours flows that have sent little (INFOCOM 2013)",
    Profile::new("L2DCT", "#2BCFB2", "<", Family::Tcp)
);
transport!(
    /// ECN*.
    EcnStar, "ecn_star", Kind::EcnStar, "windows halved by marks on the instantaneous queue (CoNEXT 2012)",
    Profile::new("ECN*", "#D49AEB", "*", Family::Tcp)
);
