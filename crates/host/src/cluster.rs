//! The nodes of a cluster, and the network that their endpoints see.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;

use flowloom_core::{Bytes, Duration, Network, NodeId, Rate, Switching, Transport, Wire, WireProfile};

use crate::flow_ids::NODES_MAX;
use crate::frame;

/// The size of an IPv4 and a UDP header.
const IPV4_UDP_BYTES: u64 = 20 + 8;
/// The size of an IPv6 and a UDP header.
const IPV6_UDP_BYTES: u64 = 40 + 8;
/// The largest value of the 16-bit length field of an IPv4 packet.
const MTU_MAX: u64 = 65_535;

/// The parameters of the emulated network, from which transports derive their timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The rate of each emulated NIC. The time of one full packet at this rate, a slot, is the unit of most protocols' timers.
    pub line_rate: Rate,
    /// The propagation delay between a node and the one switch, in each direction.
    pub delay: Duration,
    /// The size of the largest IP packet.
    pub mtu: Bytes,
    /// The memory of each NIC, for transports that queue packets there.
    pub nic_buffer: Bytes,
    /// For how many slots a late wake-up catches up in one burst. Slots missed before these stay unused, as on an idle link.
    pub catch_up_slots: u64,
}

impl Profile {
    /// Processes on one machine over its loopback interface. The line rate is far below the capacity of a loopback, so that a slot is
    /// longer than the delay of 50 to 100 us with which a Linux kernel wakes a waiting process. The README has the measurements.
    pub const LOOPBACK: Profile = Profile {
        line_rate: Rate::from_bps(100_000_000),
        delay: Duration::from_us(50),
        mtu: Bytes::new(1500),
        nic_buffer: Bytes::new(36_864),
        catch_up_slots: 16,
    };
}

/// The nodes of one network, each at an address. A node's id is its index in the list of addresses.
#[derive(Clone, Debug)]
pub struct Cluster {
    addresses: Vec<SocketAddr>,
    profile: Profile,
}

impl Cluster {
    /// A cluster of nodes at these addresses.
    ///
    /// # Errors
    /// If there are fewer than two or more than 4096 nodes, an address occurs twice or has no port, IPv4 and IPv6 are mixed, the line
    /// rate is zero, or the MTU exceeds 65,535 B.
    pub fn new(addresses: Vec<SocketAddr>, profile: Profile) -> io::Result<Cluster> {
        if !(2..=NODES_MAX).contains(&addresses.len()) {
            return Err(invalid(format!("{} nodes, but a network has 2 to {NODES_MAX}", addresses.len())));
        }
        let mut seen = HashSet::new();
        for address in &addresses {
            if address.port() == 0 || address.is_ipv4() != addresses[0].is_ipv4() || !seen.insert(address) {
                return Err(invalid(format!(
                    "node address {address}: an address must have a port, all must have the same IP version, and none may occur twice"
                )));
            }
        }
        if profile.line_rate == Rate::default() || profile.mtu.get() > MTU_MAX {
            let (rate, mtu) = (profile.line_rate, profile.mtu);
            return Err(invalid(format!(
                "a line rate of {rate} and an MTU of {mtu}: the line rate must be positive, and the MTU at most {MTU_MAX} B"
            )));
        }
        Ok(Cluster { addresses, profile })
    }

    /// The address of each node.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The parameters of the emulated network.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The network that endpoints see: all nodes on one switch, each with a link of the line rate.
    pub fn network(&self) -> Network {
        let mut network = Network::new(self.addresses.len(), Switching::StoreAndForward);
        let switch = network.add_switch(1, "switch", "switch");
        for node in 0..self.addresses.len() as u32 {
            network.connect(NodeId(node), switch, self.profile.line_rate, self.profile.delay);
        }
        network
    }

    /// The sizes of `T`'s packets in IP bytes, with room for its longest header.
    ///
    /// # Errors
    /// If a full packet has no room for payload.
    pub fn wire<T: Transport>(&self) -> io::Result<WireProfile> {
        let below = if self.addresses[0].is_ipv4() { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
        let overhead = Bytes::new(below + (frame::HEADER_BYTES + T::Header::MAX_BYTES) as u64);
        if self.profile.mtu <= overhead {
            return Err(invalid(format!(
                "an MTU of {} has no room for payload, because the headers of {} take {overhead}",
                self.profile.mtu,
                T::NAME
            )));
        }
        Ok(WireProfile { name: "udp", full: self.profile.mtu, overhead, control: overhead })
    }
}

/// An error about the caller's input.
pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Probe, WIRE};

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn an_invalid_cluster_is_refused() {
        let bad: [&[&str]; 5] = [
            &[],
            &["127.0.0.1:7000"],
            &["127.0.0.1:7000", "127.0.0.1:0"],
            &["127.0.0.1:7000", "127.0.0.1:7000"],
            &["127.0.0.1:7000", "[::1]:7000"],
        ];
        for list in bad {
            assert!(Cluster::new(addresses(list), Profile::LOOPBACK).is_err(), "{list:?}");
        }
        let two = || addresses(&["127.0.0.1:7000", "127.0.0.1:7001"]);
        assert!(Cluster::new(two(), Profile { line_rate: Rate::default(), ..Profile::LOOPBACK }).is_err());
        assert!(Cluster::new(two(), Profile { mtu: Bytes::new(65_536), ..Profile::LOOPBACK }).is_err());
        let tiny = Cluster::new(two(), Profile { mtu: Bytes::new(63), ..Profile::LOOPBACK }).unwrap();
        assert!(tiny.wire::<Probe>().is_err());
    }

    #[test]
    fn a_full_packet_is_an_mtu() {
        let v4 = Cluster::new(addresses(&["127.0.0.1:7000", "127.0.0.1:7001"]), Profile::LOOPBACK).unwrap();
        let v6 = Cluster::new(addresses(&["[::1]:7000", "[::1]:7001"]), Profile::LOOPBACK).unwrap();
        // 20 + 8 + 30 + 5 B of headers, and 20 B more with IPv6.
        assert_eq!(v4.wire::<Probe>().unwrap(), WIRE);
        assert_eq!(v6.wire::<Probe>().unwrap().payload(), Bytes::new(1500 - 63 - 20));
    }

    #[test]
    fn nodes_are_two_links_apart() {
        let cluster = Cluster::new(addresses(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]), Profile::LOOPBACK).unwrap();
        let (network, wire) = (cluster.network(), cluster.wire::<Probe>().unwrap());
        assert!(network.check().is_ok());
        // 1500 B take 120 us at 100 Mb/s and 63 B take 5.04 us. Each direction has two links of 50 us.
        let expected = Duration::from_ns(2 * (120_000 + 5_040) + 4 * 50_000);
        assert_eq!(network.rtt(NodeId(0), NodeId(2), &wire), expected);
    }
}
