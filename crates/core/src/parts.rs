//! A transport as what it consists of, so that transports of the same parts are compiled once.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Bytes, Discipline, Endpoint, Nic, Placement, PortSite, Site, Transport, Wire, WireProfile};

/// Any transport with these headers, hosts, ports and control nodes, and with NICs that pull packets or not. Its parameters, [`Assembly`], say which.
///
/// A driver that runs `PartsOf<T, PULLED>` instead of `T` does the same, and the compiler sees one type for all transports that differ in
/// parameters only: the five of TCP's family.
pub struct Parts<H, E, P, C, const PULLED: bool>(PhantomData<(H, E, P, C)>);

/// The [`Parts`] of a transport. `PULLED` says whether its NIC is [`Nic::Pulled`].
pub type PartsOf<T, const PULLED: bool> =
    Parts<<T as Transport>::Header, <T as Transport>::Host, <T as Transport>::Port, <T as Transport>::Control, PULLED>;

/// How the parts of a transport are made.
pub struct Assembly<H, E, P: Discipline<H>, C>(Arc<dyn Assemble<H, E, P, C>>);

impl<H: Wire, E: Endpoint<Header = H>, P: Discipline<H>, C: Endpoint<Header = H>> Assembly<H, E, P, C> {
    /// The parts of a transport with these parameters.
    pub fn of<T: Transport<Header = H, Host = E, Port = P, Control = C>>(config: &T::Config) -> Self {
        Assembly(Arc::new(Configured::<T>(config.clone())))
    }
}

impl<H, E, P: Discipline<H>, C> Clone for Assembly<H, E, P, C> {
    fn clone(&self) -> Self {
        Assembly(self.0.clone())
    }
}

impl<H, E, P: Discipline<H>, C> Debug for Assembly<H, E, P, C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// See the functions of [`Transport`] with the same names.
trait Assemble<H, E, P: Discipline<H>, C>: Debug + Send + Sync {
    fn placement(&self) -> Placement;
    fn shortest(&self, wire: &WireProfile) -> Bytes;
    fn host(&self, site: &Site<'_>) -> E;
    fn port(&self, site: &PortSite<'_>) -> P;
    fn control(&self, site: &Site<'_>) -> C;
    fn shared(&self, site: &Site<'_>) -> P::Shared;
}

struct Configured<T: Transport>(T::Config);

impl<T: Transport> Debug for Configured<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} with {:?}", T::NAME, self.0)
    }
}

impl<T: Transport> Assemble<T::Header, T::Host, T::Port, T::Control> for Configured<T> {
    fn placement(&self) -> Placement {
        T::placement(&self.0)
    }
    fn shortest(&self, wire: &WireProfile) -> Bytes {
        T::shortest(&self.0, wire)
    }
    fn host(&self, site: &Site<'_>) -> T::Host {
        T::host(&self.0, site)
    }
    fn port(&self, site: &PortSite<'_>) -> T::Port {
        T::port(&self.0, site)
    }
    fn control(&self, site: &Site<'_>) -> T::Control {
        T::control(&self.0, site)
    }
    fn shared(&self, site: &Site<'_>) -> <T::Port as Discipline<T::Header>>::Shared {
        T::shared(&self.0, site)
    }
}

impl<H, E, P, C, const PULLED: bool> Transport for Parts<H, E, P, C, PULLED>
where
    H: Wire + 'static,
    E: Endpoint<Header = H> + 'static,
    P: Discipline<H> + 'static,
    C: Endpoint<Header = H> + 'static,
{
    const NAME: &'static str = "parts";
    const ABOUT: &'static str = "what its parameters say";
    const NIC: Nic = if PULLED { Nic::Pulled } else { Nic::Queued };
    type Config = Assembly<H, E, P, C>;
    type Header = H;
    type Host = E;
    type Port = P;
    type Control = C;

    fn placement(config: &Self::Config) -> Placement {
        config.0.placement()
    }
    fn shortest(config: &Self::Config, wire: &WireProfile) -> Bytes {
        config.0.shortest(wire)
    }
    fn host(config: &Self::Config, site: &Site<'_>) -> E {
        config.0.host(site)
    }
    fn port(config: &Self::Config, site: &PortSite<'_>) -> P {
        config.0.port(site)
    }
    fn control(config: &Self::Config, site: &Site<'_>) -> C {
        config.0.control(site)
    }
    fn shared(config: &Self::Config, site: &Site<'_>) -> P::Shared {
        config.0.shared(site)
    }
}
