//! Which nodes there are, and what their endpoints are told of the network between them.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;

use flowloom_core::{Bytes, Duration, Network, NodeId, Rate, Switching, Transport, Wire, WireProfile};

use crate::flow_ids::NODES_MAX;
use crate::frame;

/// IPv4 and UDP headers.
const IPV4_UDP_BYTES: u64 = 20 + 8;
/// IPv6 and UDP headers.
const IPV6_UDP_BYTES: u64 = 40 + 8;
/// The most that fits the 16-bit length of an IPv4 packet.
const MTU_MAX: u64 = 65_535;

/// What a transport's times are made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The rate at which each node's NIC is emulated. Its slot, the time of one full packet, is the unit of most protocols' timers.
    pub line_rate: Rate,
    /// From a node to the switch between them all, or back.
    pub delay: Duration,
    /// The largest IP packet.
    pub mtu: Bytes,
    /// Memory of each NIC's queue, for transports that queue there.
    pub nic_buffer: Bytes,
    /// How many slots a late wake-up may catch up on, in one burst; what is later than that is lost, as on an idle wire.
    pub catch_up_slots: u64,
}

impl Profile {
    /// Processes of one machine over its loopback interface. The line rate is far below what a loopback carries, so that a slot is
    /// longer than the 50 to 100 us by which a Linux kernel wakes a waiting process late. The README has the measurements.
    pub const LOOPBACK: Profile = Profile {
        line_rate: Rate::from_bps(100_000_000),
        delay: Duration::from_us(50),
        mtu: Bytes::new(1500),
        nic_buffer: Bytes::new(36_864),
        catch_up_slots: 16,
    };
}

/// The nodes of one network, each at an address; a node's id is its place in the list.
#[derive(Clone, Debug)]
pub struct Cluster {
    addresses: Vec<SocketAddr>,
    profile: Profile,
}

impl Cluster {
    /// # Errors
    /// Where it is no network: fewer than two or more than 4096 nodes, an address twice or without a port, IPv4 and IPv6 mixed, a
    /// line rate of zero, or an MTU beyond 65,535 B.
    pub fn new(addresses: Vec<SocketAddr>, profile: Profile) -> io::Result<Cluster> {
        if !(2..=NODES_MAX).contains(&addresses.len()) {
            return Err(invalid(format!("{} nodes, but a network has 2 to {NODES_MAX}", addresses.len())));
        }
        let mut seen = HashSet::new();
        for address in &addresses {
            if address.port() == 0 || address.is_ipv4() != addresses[0].is_ipv4() || !seen.insert(address) {
                return Err(invalid(format!(
                    "node address {address}: it needs a port, the others' IP version, and is to occur once"
                )));
            }
        }
        if profile.line_rate == Rate::default() || profile.mtu.get() > MTU_MAX {
            let (rate, mtu) = (profile.line_rate, profile.mtu);
            return Err(invalid(format!(
                "a line rate of {rate} and an MTU of {mtu}: the one is positive, the other at most {MTU_MAX} B"
            )));
        }
        Ok(Cluster { addresses, profile })
    }

    /// Where each node is.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What the transport's times are made from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// All nodes on one switch, each on a link of the line rate.
    pub fn network(&self) -> Network {
        let mut network = Network::new(self.addresses.len(), Switching::StoreAndForward);
        let switch = network.add_switch(1, "switch", "switch");
        for node in 0..self.addresses.len() as u32 {
            network.connect(NodeId(node), switch, self.profile.line_rate, self.profile.delay);
        }
        network
    }

    /// The sizes of `T`'s packets: IP bytes, with room for its longest header.
    ///
    /// # Errors
    /// Where a full packet would have no room for payload.
    pub fn wire<T: Transport>(&self) -> io::Result<WireProfile> {
        let below = if self.addresses[0].is_ipv4() { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
        let overhead = Bytes::new(below + (frame::HEADER_BYTES + T::Header::MAX_BYTES) as u64);
        if self.profile.mtu <= overhead {
            return Err(invalid(format!("an MTU of {}, of which {}'s headers take {overhead}", self.profile.mtu, T::NAME)));
        }
        Ok(WireProfile { name: "udp", full: self.profile.mtu, overhead, control: overhead })
    }
}

/// An error about what the caller asked for.
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
    fn what_is_no_network_is_refused() {
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
        // 20 + 8 + 30 + 5 B of headers, and 20 B more of IPv6's.
        assert_eq!(v4.wire::<Probe>().unwrap(), WIRE);
        assert_eq!(v6.wire::<Probe>().unwrap().payload(), Bytes::new(1500 - 63 - 20));
    }

    #[test]
    fn nodes_are_two_links_apart() {
        let cluster = Cluster::new(addresses(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]), Profile::LOOPBACK).unwrap();
        let (network, wire) = (cluster.network(), cluster.wire::<Probe>().unwrap());
        assert!(network.check().is_ok());
        // 1500 B take 120 us at 100 Mb/s and 63 B take 5.04 us; two links each way, of 50 us.
        let expected = Duration::from_ns(2 * (120_000 + 5_040) + 4 * 50_000);
        assert_eq!(network.rtt(NodeId(0), NodeId(2), &wire), expected);
    }
}
