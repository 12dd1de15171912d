//! The network of a pair.

use flowloom_core::{Bytes, Duration, Memory, Network, NodeId, Rate, Switching, Time, WireProfile};

use crate::{Outage, Routing, SimSetup};

/// The network that a [`Pair`](super::Pair) runs on.
#[derive(Clone, Debug)]
pub struct PairSetup {
    /// The number of hosts around the switch; they are nodes `0..hosts`.
    pub hosts: usize,
    /// The rate of every link.
    pub rate: Rate,
    /// Propagation from host to host, half of it on each side of the switch.
    pub delay: Duration,
    /// The network, instead of hosts around one switch. `hosts`, `rate` and `delay` are then not used.
    pub network: Option<Network>,
    /// The choice among equal-cost paths.
    pub routing: Routing,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// The memory of the ports and of switches.
    pub memory: Memory,
    /// When endpoints are down, to come back without their state.
    pub outages: Vec<Outage>,
    /// The seed of every random stream.
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
            network: None,
            routing: Routing::EcmpSymmetric,
            wire: WireProfile::IP_1500,
            memory: Memory::PerPort(Bytes::new(36_864)),
            outages: Vec::new(),
            seed: 1,
            log: true,
        }
    }
}

impl PairSetup {
    pub(super) fn sim(&self) -> SimSetup {
        SimSetup {
            network: self.network.clone().unwrap_or_else(|| self.star()),
            wire: self.wire,
            memory: self.memory,
            routing: self.routing,
            seed: self.seed,
            time_limit: Time::LAST,
        }
    }

    /// Hosts around one switch, which forwards a packet when its first bit arrives.
    fn star(&self) -> Network {
        assert!(self.hosts >= 2, "a pair is two");
        assert!(
            self.delay > Duration::ZERO && self.delay.as_ps().is_multiple_of(2),
            "half the delay lies on each side of the switch"
        );
        let mut network = Network::new(self.hosts, Switching::CutThrough { header: Bytes::ZERO });
        let switch = network.add_switch(1, "switch", "switch");
        for host in 0..self.hosts as u32 {
            network.connect(NodeId(host), switch, self.rate, self.delay / 2);
        }
        network.check().expect("a star is connected");
        network
    }
}
