//! A transport: its endpoints, its ports, its header, and where its control endpoints run.

use std::fmt::Debug;

use crate::{
    Bytes, Discipline, Duration, Endpoint, Gauge, HostProfile, LinkId, Memory, Network, NodeId, NodeKind, PathNeed, Paths,
    PortProfile, Profile, Rate, Routing, Wire, WireProfile,
};

/// How packets get from a host's endpoint to the port of its NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nic {
    /// The driver takes one packet from the endpoint each time the NIC becomes idle (pHost, NDP, Homa).
    Pulled,
    /// The driver takes all packets from the endpoint at once, and the NIC's discipline queues, orders and drops them (TCP, pFabric).
    Queued,
}

/// Where a transport's control endpoints run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// It has no control endpoints.
    Nowhere,
    /// On one extra host, with a link to the first switch like that of any other host (Fastpass).
    ExtraHost,
    /// On every switch (PASE).
    Switches,
}

/// What an endpoint may know of the network when it is created.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The node that it runs on.
    pub node: NodeId,
    /// The whole network.
    pub network: &'a Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The seed of the node's own random stream.
    pub seed: u64,
    /// Whether the network sprays packets over several paths. Packets of one flow may then overtake each other, so a gap is no sign of
    /// loss.
    pub reorders: bool,
    /// The paths that the packets of each flow take, or among which an endpoint chooses by labels
    /// ([`Routing::SprayLabelled`](crate::Routing::SprayLabelled)); `None` if switches spray packets over several. An endpoint may keep a clone.
    pub paths: Option<&'a Paths>,
}

impl Site<'_> {
    /// The rate of this node's first link: a host's NIC.
    pub fn line_rate(&self) -> Rate {
        self.network.link(self.network.ports(self.node)[0]).rate
    }

    /// The longest round-trip time of the idle network, or of the part of it that this node is in.
    pub fn base_rtt(&self, wire: &WireProfile) -> Duration {
        self.network.base_rtt_at(self.node, wire)
    }
}

/// What a port may know of the network when it is created.
#[derive(Clone, Copy)]
pub struct PortSite<'a> {
    /// The link it sends on.
    pub link: LinkId,
    /// The whole network.
    pub network: &'a Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The memory of this port, or the memory that all ports of its switch share.
    pub memory: Memory,
    /// The seed of the port's own random stream.
    pub seed: u64,
}

impl PortSite<'_> {
    /// Whether it is a port of a switch.
    pub fn at_switch(&self) -> bool {
        self.network.node(self.network.link(self.link).from).kind == NodeKind::Switch
    }

    /// The rate of the port's link.
    pub fn rate(&self) -> Rate {
        self.network.link(self.link).rate
    }
}

/// What a flow may have beside its ends, its size and its start. See [`Flow`](crate::Flow).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// The time by which it should be complete.
    Deadline,
    /// The owner with whom it shares capacity. All flows have one, which tells nothing where they all have the same.
    Tenant,
    /// The flows that the application needs together with it.
    Coflow,
}

/// What a policy goes by when it chooses between flows. Where no flow has it, the policy has nothing to work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The parameter that chooses the policy; `None` if the transport has no other policy.
    pub key: Option<&'static str>,
    /// What the policy goes by.
    pub of: Attribute,
    /// What it does where no flow has it: the end of a sentence that begins with "so".
    pub without: &'static str,
}

/// One transport scheme. See `docs/add-a-transport.md`.
pub trait Transport: Sized + 'static {
    /// Its name in scenarios and results.
    const NAME: &'static str;
    /// Its description, in one line.
    const ABOUT: &'static str;
    /// What tables, drawings and warnings must know about it.
    const PROFILE: Profile = Profile::PLAIN;
    /// What its hosts tell of their flows over the course of a run ([`Endpoint::gauge`]).
    const GAUGES: &'static [Gauge] = &[];
    /// How packets get from its endpoints to their NIC.
    const NIC: Nic;
    /// Whether its ports can share a memory ([`Memory::PerSwitch`]).
    const SHARES_MEMORY: bool = false;
    /// What it needs of the paths of packets. A scenario whose routing does not provide it is refused.
    const PATHS: PathNeed = PathNeed::Any;
    /// The routing of a scenario that does not choose one. It provides [`Transport::PATHS`].
    const ROUTING: Routing = Self::PATHS.routing();
    /// Why routing cannot change while it runs, if it cannot: the end of a sentence.
    const FIXED_ROUTES: Option<&'static str> = None;
    /// Why the rates of links cannot change while it runs, if its switches go by them: the end of a sentence that begins with "because".
    const FIXED_RATES: Option<&'static str> = None;
    /// Its parameters. If they have defaults, those are the paper's. Nodes of a real network compare them by what `Debug` writes.
    type Config: Clone + Debug + Send + Sync;
    /// Its packet header.
    type Header: Wire;
    /// A host's protocol state.
    type Host: Endpoint<Header = Self::Header>;
    /// A port of a switch or of a host.
    type Port: Discipline<Self::Header>;
    /// A control node's protocol state; [`NoControl`](crate::NoControl) if there are no control nodes.
    type Control: Endpoint<Header = Self::Header>;

    /// Where control endpoints run.
    fn placement(config: &Self::Config) -> Placement {
        let _ = config;
        Placement::Nowhere
    }
    /// What the policy of this configuration goes by, if that is something that flows may lack. Users are warned if they all lack it.
    fn need(config: &Self::Config) -> Option<Need> {
        let _ = config;
        None
    }
    /// The size of its smallest packet. The simulator reckons with it: no packet crosses a link in less time.
    fn shortest(config: &Self::Config, wire: &WireProfile) -> Bytes {
        let _ = config;
        wire.control
    }
    /// Creates a host's endpoint.
    fn host(config: &Self::Config, site: &Site<'_>) -> Self::Host;
    /// Creates a port.
    fn port(config: &Self::Config, site: &PortSite<'_>) -> Self::Port;
    /// Describes what [`Transport::port`] creates. The default is one queue, first in, first out, in the port's memory.
    fn port_profile(config: &Self::Config, site: &PortSite<'_>) -> PortProfile {
        let _ = config;
        PortProfile::of_queues(["all packets"], site.memory.bytes())
    }
    /// Describes what it asks of real hosts.
    fn host_profile(config: &Self::Config) -> HostProfile {
        let _ = config;
        HostProfile::OWN
    }
    /// Creates a control endpoint.
    ///
    /// # Panics
    /// If [`Transport::placement`] is [`Placement::Nowhere`].
    fn control(config: &Self::Config, site: &Site<'_>) -> Self::Control {
        let _ = (config, site);
        unreachable!("{} has no control nodes", Self::NAME)
    }
    /// Creates the state that the ports of one node share.
    fn shared(config: &Self::Config, site: &Site<'_>) -> <Self::Port as Discipline<Self::Header>>::Shared {
        let _ = (config, site);
        Default::default()
    }
}
