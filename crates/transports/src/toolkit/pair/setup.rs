//! The network of a pair.

use flowloom_core::{Bytes, Duration, LinkId, Memory, Network, NodeId, PortSite, Rate, Switching, WireProfile};

/// The network that a [`Pair`](super::Pair) runs on.
#[derive(Clone, Debug)]
pub struct PairSetup {
    /// The number of hosts; they are nodes `0..hosts`.
    pub hosts: usize,
    /// The rate of every link.
    pub rate: Rate,
    /// Propagation from host to host, half of it on each side of the switch.
    pub delay: Duration,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The memory of the ports and of the switch.
    pub memory: Memory,
    /// Whether endpoints expect packets to overtake each other.
    pub reorders: bool,
    /// The seed of the endpoints' random streams.
    pub seed: u64,
    /// Whether [`Pair::sent`](super::Pair::sent) is kept.
    pub log: bool,
}

impl Default for PairSetup {
    /// Two hosts, 10 Gb/s, 1 µs, 1500 B packets, 36,864 B per port.
    fn default() -> PairSetup {
        PairSetup {
            hosts: 2,
            rate: Rate::from_gbps(10),
            delay: Duration::from_us(1),
            wire: WireProfile::IP_1500,
            memory: Memory::PerPort(Bytes::new(36_864)),
            reorders: false,
            seed: 1,
            log: true,
        }
    }
}

impl PairSetup {
    pub(super) fn port_site<'a>(&self, link: LinkId, network: &'a Network) -> PortSite<'a> {
        let memory = self.memory.at(network.node(network.link(link).from).kind);
        PortSite { link, network, wire: self.wire, memory }
    }
}

pub(super) fn star(setup: &PairSetup, with_control: bool) -> Network {
    assert!(setup.hosts >= 2, "a pair is two");
    assert!(setup.delay.as_ps().is_multiple_of(2), "half the delay lies on each side of the switch");
    let mut network = Network::new(setup.hosts, Switching::CutThrough { header: Bytes::ZERO });
    let switch = network.add_switch(1, "switch", "switch");
    for host in 0..setup.hosts as u32 {
        network.connect(NodeId(host), switch, setup.rate, setup.delay / 2);
    }
    if with_control {
        let control = network.add_control_host("control");
        network.connect(control, switch, setup.rate, setup.delay / 2);
    }
    network.check().expect("a star is connected");
    network
}
