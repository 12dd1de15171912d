#![doc = include_str!("README.md")]

mod arbiter;
mod config;
mod control;
mod course;
mod delegation;
mod header;
mod host;
mod messages;
mod ranking;
mod receiver;
mod scoreboard;
mod sender;
mod sending;
mod stamp;
#[cfg(test)]
mod tests;
mod window;

use flowloom_core::{
    Family, Flow, Gauge, HostProfile, Need, Nic, PathNeed, Paths, Placement, PortProfile, PortSite, Profile, Site, Transport,
};

pub use arbiter::{Arbiter, Request, Rounding, Rules, Share};
pub use config::{Arbitration, Config, Criterion, Cut, Demand, Probing, WindowRtt};
pub use control::Control;
pub use course::{Course, Half};
pub use header::{Acked, Asking, Header, Kbps};
pub use host::Host;
pub use stamp::Stamp;

use crate::disciplines::EcnPriority;
use crate::toolkit::Framing;

/// The output of a call, until it is polled.
type Outbox = crate::toolkit::Outbox<Header>;

/// The paths of all flows.
fn paths_of(site: &Site<'_>) -> Paths {
    site.paths.expect("a network in which each flow has one path").clone()
}

/// Whether the flow stays out of arbitration, in the last class.
fn is_background(flow: &Flow) -> bool {
    flow.background
}

/// The queue that the arbitrators on the path assign together (§3.1).
const QUEUE: Gauge = Gauge::new("queue", "the queue that the arbitrators assign, counted from 0; the flow's class follows it");
/// The reference rate that they assign (§3.1).
const REFERENCE: Gauge = Gauge::new("reference_gbps", "the reference rate that the arbitrators assign, in Gb/s");

/// PASE.
pub enum Pase {}

impl Transport for Pase {
    const NAME: &'static str = "pase";
    const ABOUT: &'static str = "arbitrated priorities and rates, priority queues, self-adjusting hosts (SIGCOMM 2014)";
    const PROFILE: Profile = Profile::new("PASE", "#CC79A7", "v", Family::Papers);
    const GAUGES: &'static [Gauge] = &[Gauge::WINDOW, Gauge::IN_FLIGHT, Gauge::RTT, Gauge::PRIORITY, QUEUE, REFERENCE];
    const NIC: Nic = Nic::Queued;
    const SHARES_MEMORY: bool = true;
    const PATHS: PathNeed = PathNeed::One;
    const FIXED_ROUTES: Option<&'static str> = Some("its endpoints ask the switches on the paths that they know");
    const FIXED_RATES: Option<&'static str> = Some("its arbitrators share out the rates that links have at the start");
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = EcnPriority;
    type Control = Control;

    fn placement(config: &Config) -> Placement {
        match config.arbitration {
            Arbitration::EndToEnd | Arbitration::SourceHalf => Placement::Switches,
            Arbitration::Local => Placement::Nowhere,
        }
    }
    fn need(config: &Config) -> Option<Need> {
        config.criterion.need()
    }
    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(config: &Config, site: &PortSite<'_>) -> EcnPriority {
        EcnPriority::new(&config.port(), config.queues, site)
    }
    fn port_profile(config: &Config, site: &PortSite<'_>) -> PortProfile {
        let arbitrated = (0..config.queues - 1).map(|queue| match queue {
            0 => "messages, acknowledgements and flows that arbitrators put into the top queue".to_owned(),
            _ => format!("flows that arbitrators put into queue {queue}"),
        });
        let queues = arbitrated.chain(["background flows".to_owned()]);
        PortProfile { queues_key: Some("queues"), ..config.port().profile(queues, "", site) }
    }
    fn host_profile(_: &Config) -> HostProfile {
        HostProfile { ecn: true, ..HostProfile::OWN }
    }
    fn control(config: &Config, site: &Site<'_>) -> Control {
        let spans = config::Spans::new(config, site.base_rtt(&site.wire), &site.wire).expect("the configuration was checked");
        let messages = messages::Messages::new(Framing::new(site.node, &site.wire), config.message_size, &site.wire);
        Control::new(config, site.node, &spans, paths_of(site), messages)
    }
}
