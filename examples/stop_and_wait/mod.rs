#![doc = include_str!("README.md")]

mod config;
mod header;
mod host;
mod sender;
#[cfg(test)]
mod tests;

use flowloom_core::{Nic, NoControl, PortSite, Site, Transport};

pub use config::Config;
pub use header::Header;
pub use host::Host;

use crate::disciplines::DropTail;

/// Stop-and-wait; with a larger window, selective repeat.
pub enum StopAndWait {}

impl Transport for StopAndWait {
    const NAME: &'static str = "stop_and_wait";
    const ABOUT: &'static str = "a fixed window, an acknowledgement per packet, a timeout (textbook)";
    const NIC: Nic = Nic::Queued;
    type Config = Config;
    type Header = Header;
    type Host = Host;
    type Port = DropTail;
    type Control = NoControl<Header>;

    fn host(config: &Config, site: &Site<'_>) -> Host {
        Host::new(config, site)
    }
    fn port(_: &Config, site: &PortSite<'_>) -> DropTail {
        DropTail::new(site.memory.bytes())
    }
}
