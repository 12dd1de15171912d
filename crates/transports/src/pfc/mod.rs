#![doc = include_str!("README.md")]

mod accounts;
mod frame;
mod limits;
mod port;
mod storm;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use flowloom_core::{
    Bytes, Discipline, Gauge, HostProfile, Memory, Nic, PathNeed, Placement, PortProfile, PortSite, Profile, Routing, Site,
    Transport, WireProfile,
};

pub use frame::{NOBODY, stopped_by};
pub use limits::{ClassLimits, NodeLimits, Pfc};
pub use port::{PfcPort, PfcShared};
pub use storm::Storm;

use crate::disciplines::Pausable;

/// A transport whose ports can be lossless: [`OverPfc`] runs it over priority flow control. It is listed in
/// [`for_each_pausable_transport`](crate::for_each_pausable_transport). The default header is that of pause frames which no packet causes; nobody
/// reads it.
pub trait PausableTransport: Transport<Port: Pausable<Self::Header>, Header: Default> {
    /// How many classes its ports have; each has a headroom of its own.
    fn classes(config: &Self::Config) -> u8 {
        let _ = config;
        1
    }
}

/// The parameters of [`OverPfc`].
#[derive(Clone, Debug)]
pub struct Setting<C> {
    /// The transport's own.
    pub transport: C,
    /// Those of flow control.
    pub pfc: Pfc,
    /// The memory of ports and switches. It is the run's.
    pub memory: Memory,
    /// Nodes that pause their neighbours without need. Those of one node do not touch each other.
    pub storms: Vec<Storm>,
}

impl<C: Default> Default for Setting<C> {
    fn default() -> Self {
        Setting {
            transport: C::default(),
            pfc: Pfc::default(),
            memory: Memory::PerPort(Bytes::new(1_000_000)),
            storms: Vec::new(),
        }
    }
}

/// A transport over priority flow control. Endpoints and headers are the transport's own; its ports are those of the transport in a
/// [`PfcPort`]. Transports without flow control are not affected.
pub struct OverPfc<T>(PhantomData<T>);

/// The memory of the transport's own ports. They are never full: at switches, the accounts of [`PfcPort`] say what is stored; hosts keep
/// what their link does not take.
const UNLIMITED: Memory = Memory::PerPort(Bytes::new(i32::MAX as u64));

impl<T: PausableTransport> Transport for OverPfc<T> {
    const NAME: &'static str = T::NAME;
    const ABOUT: &'static str = T::ABOUT;
    const PROFILE: Profile = T::PROFILE;
    const GAUGES: &'static [Gauge] = T::GAUGES;
    const NIC: Nic = T::NIC;
    const SHARES_MEMORY: bool = true;
    const PATHS: PathNeed = T::PATHS;
    const ROUTING: Routing = T::ROUTING;
    const FIXED_ROUTES: Option<&'static str> = T::FIXED_ROUTES;
    const FIXED_RATES: Option<&'static str> = T::FIXED_RATES;
    type Config = Setting<T::Config>;
    type Header = T::Header;
    type Host = T::Host;
    type Port = PfcPort<T::Port>;
    type Control = T::Control;

    fn placement(config: &Self::Config) -> Placement {
        T::placement(&config.transport)
    }
    fn shortest(config: &Self::Config, wire: &WireProfile) -> Bytes {
        T::shortest(&config.transport, wire)
    }
    fn host(config: &Self::Config, site: &Site<'_>) -> T::Host {
        T::host(&config.transport, site)
    }
    fn port(config: &Self::Config, site: &PortSite<'_>) -> Self::Port {
        let inner = T::port(&config.transport, &PortSite { memory: UNLIMITED, ..*site });
        PfcPort::new(inner, T::classes(&config.transport), &config.pfc, site).with_storms(&config.storms)
    }
    /// Flow control is not in it: [`Pfc::limits`] describes that.
    fn port_profile(config: &Self::Config, site: &PortSite<'_>) -> PortProfile {
        T::port_profile(&config.transport, site)
    }
    fn host_profile(config: &Self::Config) -> HostProfile {
        T::host_profile(&config.transport)
    }
    fn control(config: &Self::Config, site: &Site<'_>) -> T::Control {
        T::control(&config.transport, site)
    }
    /// # Panics
    /// If the memory does not hold the headrooms: see [`Pfc::limits`].
    fn shared(config: &Self::Config, site: &Site<'_>) -> <Self::Port as Discipline<T::Header>>::Shared {
        let classes = T::classes(&config.transport);
        let limits = config.pfc.limits(site.network, site.node, &site.wire, config.memory, classes);
        PfcShared::new(&limits.unwrap_or_else(|why| panic!("{why}")), T::shared(&config.transport, site))
    }
}
