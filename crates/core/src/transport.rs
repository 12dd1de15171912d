//! One scheme: its endpoints, its ports, its header, and where its control nodes live.

use crate::{Discipline, Endpoint, LinkId, Memory, Network, NodeId, Rate, Wire, WireProfile};

/// How packets get from a host's endpoint to its NIC's port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nic {
    /// The endpoint is asked for one packet each time the NIC falls idle (pHost, NDP, Homa).
    Pulled,
    /// The endpoint gives all it wants to send at once, and the NIC's discipline queues, orders and drops (TCP, pFabric).
    Queued,
}

/// Where a transport's control endpoints live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// It has none.
    Nowhere,
    /// On one extra host beside the first switch, on a link like any other host's (Fastpass).
    ExtraHost,
    /// At every switch (PASE).
    Switches,
}

/// What an endpoint may know of the network when it is made.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The node it lives on.
    pub node: NodeId,
    /// The whole network.
    pub network: &'a Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The node's own random stream starts here.
    pub seed: u64,
    /// Whether packets of one flow may overtake each other on their way, so that a gap says nothing about loss: the network
    /// sprays packets over several paths.
    pub reorders: bool,
}

impl Site<'_> {
    /// The rate of this node's first link: a host's NIC.
    pub fn line_rate(&self) -> Rate {
        self.network.link(self.network.ports(self.node)[0]).rate
    }
}

/// What a port may know of the network when it is made.
#[derive(Clone, Copy)]
pub struct PortSite<'a> {
    /// The link it sends on.
    pub link: LinkId,
    /// The whole network.
    pub network: &'a Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The memory of this port, or that of all ports of its switch together.
    pub memory: Memory,
}

/// One scheme. See `docs/add-a-transport.md`.
pub trait Transport: Sized + 'static {
    /// Its name in scenarios and results.
    const NAME: &'static str;
    /// What it is, in one line.
    const ABOUT: &'static str;
    /// How its hosts feed their NIC.
    const NIC: Nic;
    /// Whether its ports can share a memory ([`Memory::PerSwitch`]).
    const SHARES_MEMORY: bool = false;
    /// Its parameters; the default is the paper's.
    type Config: Clone + Default;
    /// Its packet header.
    type Header: Wire;
    /// A host's protocol state.
    type Host: Endpoint<Header = Self::Header>;
    /// A port of a switch or of a host.
    type Port: Discipline<Self::Header>;
    /// A control node's protocol state; [`NoControl`](crate::NoControl) where there is none.
    type Control: Endpoint<Header = Self::Header>;

    /// Where control endpoints live.
    fn placement(config: &Self::Config) -> Placement {
        let _ = config;
        Placement::Nowhere
    }
    /// Makes a host's endpoint.
    fn host(config: &Self::Config, site: &Site<'_>) -> Self::Host;
    /// Makes a port.
    fn port(config: &Self::Config, site: &PortSite<'_>) -> Self::Port;
    /// Makes a control endpoint.
    ///
    /// # Panics
    /// Where [`Transport::placement`] is [`Placement::Nowhere`].
    fn control(config: &Self::Config, site: &Site<'_>) -> Self::Control {
        let _ = (config, site);
        unreachable!("{} has no control nodes", Self::NAME)
    }
    /// Makes the state that the ports of one node share.
    fn shared(config: &Self::Config, site: &Site<'_>) -> <Self::Port as Discipline<Self::Header>>::Shared {
        let _ = (config, site);
        Default::default()
    }
}
