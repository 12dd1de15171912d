//! The topologies that papers use. Each builder returns a [`Network`] whose hosts are nodes `0..hosts`, rack by rack.

use crate::{Duration, Network, NodeId, Position, Rate, Switching};

/// Propagation delays, one way. A [`Duration`] converts to the same delay on all links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delays {
    /// Of links between a host and its switch.
    pub hosts: Duration,
    /// Of links between switches, but for those of a third tier.
    pub switches: Duration,
    /// Of links between the second and the third tier of switches.
    pub core: Duration,
}

impl From<Duration> for Delays {
    fn from(delay: Duration) -> Delays {
        Delays { hosts: delay, switches: delay, core: delay }
    }
}

/// `hosts` hosts on one switch.
pub fn single_switch(hosts: usize, rate: Rate, delay: Duration, switching: Switching) -> Network {
    let mut network = Network::new(hosts, switching);
    let switch = network.add_switch(1, "switch", "s0");
    attach(&mut network, 0..hosts, switch, rate, delay);
    network.set_positions(tier(1, 0, 1, hosts).collect());
    network
}

/// Two racks of `hosts_per_side` hosts, joined by one link of `middle_rate`.
pub fn dumbbell(hosts_per_side: usize, host_rate: Rate, middle_rate: Rate, delay: Duration, switching: Switching) -> Network {
    let mut network = Network::new(2 * hosts_per_side, switching);
    let left = network.add_switch(1, "leaf", "l0");
    let right = network.add_switch(1, "leaf", "l1");
    attach(&mut network, 0..hosts_per_side, left, host_rate, delay);
    attach(&mut network, hosts_per_side..2 * hosts_per_side, right, host_rate, delay);
    network.connect(left, right, middle_rate, delay);
    network.set_positions(tier(2, hosts_per_side, 1, hosts_per_side).collect());
    network
}

/// `racks` leaves of `hosts_per_rack` hosts, each joined to each of `spines` spines.
pub fn leaf_spine(
    racks: usize,
    hosts_per_rack: usize,
    spines: usize,
    host_rate: Rate,
    spine_rate: Rate,
    delay: impl Into<Delays>,
    switching: Switching,
) -> Network {
    let delay = delay.into();
    let mut network = Network::new(racks * hosts_per_rack, switching);
    let leaves: Vec<NodeId> = (0..racks).map(|rack| network.add_switch(1, "leaf", format!("l{rack}"))).collect();
    let spines: Vec<NodeId> = (0..spines).map(|spine| network.add_switch(2, "spine", format!("s{spine}"))).collect();
    for (rack, leaf) in leaves.iter().enumerate() {
        attach(&mut network, rack * hosts_per_rack..(rack + 1) * hosts_per_rack, *leaf, host_rate, delay.hosts);
        for spine in &spines {
            network.connect(*leaf, *spine, spine_rate, delay.switches);
        }
    }
    let above = tier(spines.len(), 0, hosts_per_rack, racks);
    network.set_positions(tier(racks, hosts_per_rack, 1, hosts_per_rack).chain(above).collect());
    network
}

/// A tree of `racks` top-of-rack switches, divided evenly among `aggregations` aggregation switches, which connect to one core
/// switch.
///
/// # Panics
/// If `racks` is not a multiple of `aggregations`.
#[allow(clippy::too_many_arguments)] // a struct with the same names would be no clearer
pub fn three_tier(
    racks: usize,
    hosts_per_rack: usize,
    aggregations: usize,
    host_rate: Rate,
    aggregation_rate: Rate,
    core_rate: Rate,
    delay: impl Into<Delays>,
    switching: Switching,
) -> Network {
    assert!(racks.is_multiple_of(aggregations), "racks are divided evenly");
    let racks_each = racks / aggregations;
    let delay = delay.into();
    let mut network = Network::new(racks * hosts_per_rack, switching);
    let tors: Vec<NodeId> = (0..racks).map(|rack| network.add_switch(1, "tor", format!("t{rack}"))).collect();
    let aggs: Vec<NodeId> = (0..aggregations).map(|agg| network.add_switch(2, "agg", format!("a{agg}"))).collect();
    let core = network.add_switch(3, "core", "c0");
    for (rack, tor) in tors.iter().enumerate() {
        attach(&mut network, rack * hosts_per_rack..(rack + 1) * hosts_per_rack, *tor, host_rate, delay.hosts);
        network.connect(*tor, aggs[rack / racks_each], aggregation_rate, delay.switches);
    }
    for agg in &aggs {
        network.connect(*agg, core, core_rate, delay.core);
    }
    let hosts_each = racks_each * hosts_per_rack;
    let tors = tier(racks, hosts_per_rack, 1, hosts_per_rack);
    let aggs = tier(aggregations, hosts_each, hosts_per_rack, racks_each);
    network.set_positions(tors.chain(aggs).chain(tier(1, 0, hosts_each, aggregations)).collect());
    network
}

/// The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches and k³/4 hosts. All links have the same
/// rate.
///
/// # Panics
/// If `k` is odd or zero.
pub fn fat_tree(k: usize, rate: Rate, delay: impl Into<Delays>, switching: Switching) -> Network {
    FatTree { k, hosts_per_edge: k / 2, host_rate: rate, rate, core_rate: rate, delays: delay.into() }.build(switching)
}

/// A fat-tree whose tiers differ, or whose edge switches have more or fewer hosts than links to the switches above.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Twice the number of switches above each switch.
    pub k: usize,
    /// How many hosts are below each edge switch: k/2 in a fat-tree without oversubscription.
    pub hosts_per_edge: usize,
    /// The rate of the hosts' links.
    pub host_rate: Rate,
    /// The rate of the links between edge and aggregation switches.
    pub rate: Rate,
    /// The rate of the links between aggregation and core switches.
    pub core_rate: Rate,
    /// The delays of links.
    pub delays: Delays,
}

impl FatTree {
    /// Builds the network.
    ///
    /// # Panics
    /// If `k` is odd or zero.
    pub fn build(self, switching: Switching) -> Network {
        let FatTree { k, hosts_per_edge, host_rate, rate, core_rate, delays } = self;
        assert!(k > 0 && k.is_multiple_of(2), "a fat-tree's k is even");
        let half = k / 2;
        let mut network = Network::new(k * half * hosts_per_edge, switching);
        let add = |network: &mut Network, level, tier: &str, count, letter: char| -> Vec<NodeId> {
            (0..count).map(|index| network.add_switch(level, tier, format!("{letter}{index}"))).collect()
        };
        let edges = add(&mut network, 1, "edge", k * half, 'e');
        let aggs = add(&mut network, 2, "agg", k * half, 'a');
        let cores = add(&mut network, 3, "core", half * half, 'c');
        for (index, edge) in edges.iter().enumerate() {
            let hosts = index * hosts_per_edge..(index + 1) * hosts_per_edge;
            attach(&mut network, hosts, *edge, host_rate, delays.hosts);
            let pod = index / half;
            for agg in &aggs[pod * half..(pod + 1) * half] {
                network.connect(*edge, *agg, rate, delays.switches);
            }
        }
        for (index, agg) in aggs.iter().enumerate() {
            let group = index % half;
            for core in &cores[group * half..(group + 1) * half] {
                network.connect(*agg, *core, core_rate, delays.core);
            }
        }
        let of_pod = half * hosts_per_edge;
        let edges = tier(k * half, hosts_per_edge, 1, hosts_per_edge);
        let aggs = tier(k, of_pod, hosts_per_edge, half).flat_map(|pod| std::iter::repeat_n(pod, half));
        network.set_positions(edges.chain(aggs).chain(tier(half * half, 0, of_pod, k)).collect());
        network
    }
}

/// The same network several times over for the same hosts, each of which has a link in each of these planes. Switches are called by their plane, such as `p1.l0` and `p2.l0`. Without
/// further planes, it is the network itself.
pub fn planes(plane: Network, count: usize) -> Network {
    if count < 2 {
        return plane;
    }
    let hosts = plane.hosts();
    let mut network = Network::new(hosts, plane.switching());
    for _ in 1..count {
        for host in 0..hosts as u32 {
            network.add_nic(NodeId(host));
        }
    }
    for number in 0..count {
        let first = network.len();
        for switch in plane.switches() {
            let node = plane.node(switch);
            network.add_switch(node.level, &node.tier, format!("p{}.{}", number + 1, node.name));
        }
        // A host's NIC in this plane, or a switch of it.
        let here = |node: NodeId| {
            let index = node.index();
            NodeId(if index < hosts { number * hosts + index } else { first + index - hosts } as u32)
        };
        for link in plane.links().iter().step_by(2) {
            network.connect(here(link.from), here(link.to), link.rate, link.delay);
        }
    }
    network
}

/// A network of servers with accelerators, in which the accelerators with the same number in the servers of a pod are on one rail: one leaf switch.
#[derive(Clone, Copy, Debug)]
pub struct Rails {
    /// How many pods there are.
    pub pods: usize,
    /// How many servers each pod has.
    pub servers_per_pod: usize,
    /// How many accelerators each server has. Each of them is a host.
    pub per_server: usize,
    /// How many spines there are. Each is joined to each leaf.
    pub spines: usize,
    /// The rate of the hosts' links to their leaves.
    pub host_rate: Rate,
    /// The rate of the links between leaves and spines.
    pub spine_rate: Rate,
    /// The rate and delay of the links to a switch inside each server, if it has one.
    pub inside: Option<(Rate, Duration)>,
    /// The delays of other links.
    pub delays: Delays,
}

impl Rails {
    /// Builds the network. Hosts are numbered server by server.
    pub fn build(self, switching: Switching) -> Network {
        let Rails { pods, servers_per_pod, per_server, spines, host_rate, spine_rate, inside, delays } = self;
        let servers = pods * servers_per_pod;
        let hosts = servers * per_server;
        let mut network = Network::new(hosts, switching);
        let inner: Vec<NodeId> =
            inside.map_or(Vec::new(), |_| (0..hosts as u32).map(|host| network.add_nic(NodeId(host))).collect());
        let name = |number: usize| format!("l{}r{}", number / per_server, number % per_server);
        let leaves: Vec<NodeId> = (0..pods * per_server).map(|leaf| network.add_switch(1, "leaf", name(leaf))).collect();
        let spines: Vec<NodeId> = (0..spines).map(|spine| network.add_switch(2, "spine", format!("s{spine}"))).collect();
        for host in 0..hosts {
            let [server, rail] = [host / per_server, host % per_server];
            let leaf = leaves[server / servers_per_pod * per_server + rail];
            network.connect(NodeId(host as u32), leaf, host_rate, delays.hosts);
        }
        for (leaf, spine) in leaves.iter().flat_map(|leaf| spines.iter().map(move |spine| (*leaf, *spine))) {
            network.connect(leaf, spine, spine_rate, delays.switches);
        }
        if let Some((rate, delay)) = inside {
            for server in 0..servers {
                let switch = network.add_switch(1, "inner", format!("n{server}"));
                inner[server * per_server..][..per_server].iter().for_each(|nic| {
                    network.connect(*nic, switch, rate, delay);
                });
            }
        }
        network
    }
}

fn attach(network: &mut Network, hosts: std::ops::Range<usize>, switch: NodeId, rate: Rate, delay: Duration) {
    for host in hosts {
        network.connect(NodeId(host as u32), switch, rate, delay);
    }
}

/// The positions of `count` switches. The hosts below each of them begin `apart` hosts after those below the one before.
fn tier(count: usize, apart: usize, span: usize, children: usize) -> impl Iterator<Item = Position> {
    (0..count).map(move |index| Position { first: (index * apart) as u32, span: span as u32, children: children as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WireProfile;

    const SF: Switching = Switching::StoreAndForward;
    const D: Duration = Duration::from_ns(200);
    fn gbps(n: u64) -> Rate {
        Rate::from_gbps(n)
    }

    #[test]
    fn every_shape_is_connected_and_has_the_right_size() {
        let shapes = [
            (single_switch(5, gbps(10), D, SF), 5, 1, 5),
            (dumbbell(3, gbps(10), gbps(40), D, SF), 6, 2, 7),
            (leaf_spine(9, 16, 4, gbps(10), gbps(40), D, SF), 144, 13, 144 + 36),
            (three_tier(4, 40, 2, gbps(1), gbps(10), gbps(10), D, SF), 160, 7, 160 + 4 + 2),
            (fat_tree(4, gbps(10), D, SF), 16, 20, 16 + 16 + 16),
            (fat_tree(8, gbps(10), D, SF), 128, 80, 3 * 128),
        ];
        for (network, hosts, switches, links) in shapes {
            network.check().expect("connected");
            assert_eq!(network.hosts(), hosts);
            assert_eq!(network.switches().count(), switches);
            assert_eq!(network.links().len(), 2 * links);
        }
    }

    /// Two planes of 2 leaves with 3 hosts each and 2 spines: each host has a link to its leaf in each, and no link leads from one plane to the other.
    #[test]
    fn planes_have_the_same_hosts_and_nothing_else_in_common() {
        let plane = leaf_spine(2, 3, 2, gbps(10), gbps(40), D, SF);
        let network = planes(plane.clone(), 2);
        network.check().expect("each NIC has a link");
        assert_eq!((network.hosts(), network.nics(), network.switches().count()), (6, 12, 8));
        assert_eq!((network.links().len(), network.parts()), (2 * plane.links().len(), vec![NodeId(0), NodeId(6)]));
        for host in 0..6 {
            let nics = [host, host + 6].map(NodeId);
            assert_eq!(nics.map(|nic| network.host_of(nic)), [NodeId(host); 2]);
            let leaf = host / 3;
            let names = nics.map(|nic| network.link_name(network.ports(nic)[0]));
            assert_eq!(names, [format!("h{host}-p1.l{leaf}"), format!("h{host}:2-p2.l{leaf}")]);
        }
        assert_eq!((network.longest_path(), network.farthest(NodeId(6))), (4, NodeId(11)));
        assert_eq!(network.host_bps(), vec![20_000_000_000; 6]);
        assert_eq!(planes(plane.clone(), 1).positions(), plane.positions());
    }

    /// Two pods of two servers with three accelerators: the leaf of a pod and rail has one of each server, and what is inside a server joins its three.
    #[test]
    fn rails_join_accelerators_of_the_same_number() {
        let inside = Some((gbps(1000), Duration::from_ns(100)));
        let rails = Rails {
            pods: 2,
            servers_per_pod: 2,
            per_server: 3,
            spines: 2,
            host_rate: gbps(100),
            spine_rate: gbps(200),
            inside,
            delays: D.into(),
        };
        let network = rails.build(SF);
        network.check().expect("each NIC has a link");
        assert_eq!((network.hosts(), network.nics(), network.switches().count()), (12, 24, 6 + 2 + 4));
        assert_eq!(network.links().len(), 2 * (12 + 6 * 2 + 12));
        let hops = |a: u32, b: u32| network.path(NodeId(a), NodeId(b)).len();
        // Host 4 is the second accelerator of the second server; 7 that of the third server, which is in the other pod.
        assert_eq!((hops(1, 4), hops(1, 7), hops(1, 5)), (2, 4, 4));
        assert_eq!(hops(12 + 3, 12 + 5), 2);
        assert_eq!(network.parts(), [0, 12, 15, 18, 21].map(NodeId));
        // By hand: inside, 1500 B and 40 B take 12 and 0.32 ns on each of two links of 100 ns. Between pods, they take 120 and 3.2 ns at 100 Gb/s and half of that at 200 Gb/s, twice
        // each, on links of 200 ns.
        let rtts = [12, 0].map(|node| network.base_rtt_at(NodeId(node), &WireProfile::IP_1500).as_ps());
        assert_eq!(rtts, [2 * (12_000 + 320) + 400_000, 3 * (120_000 + 3_200) + 1_600_000]);
        assert_eq!(network.base_rtt(&WireProfile::IP_1500).as_ps(), rtts[1]);
        let without = Rails { inside: None, ..rails }.build(SF);
        assert_eq!((without.nics(), without.switches().count(), without.parts().len()), (12, 8, 1));
    }

    #[test]
    fn path_lengths_are_those_of_the_shape() {
        let tree = fat_tree(4, gbps(10), D, SF);
        let hops = |a: u32, b: u32| tree.path(NodeId(a), NodeId(b)).len();
        assert_eq!((hops(0, 1), hops(0, 2), hops(0, 15)), (2, 4, 6));
        let pase = three_tier(4, 40, 2, gbps(1), gbps(10), gbps(10), D, SF);
        let hops = |a: u32, b: u32| pase.path(NodeId(a), NodeId(b)).len();
        assert_eq!((hops(0, 39), hops(0, 40), hops(0, 159)), (2, 4, 6));
    }

    #[test]
    fn hosts_links_and_all_others_have_their_own_delays() {
        let delays = Delays { hosts: Duration::from_us(20), switches: D, core: Duration::from_us(3) };
        for network in [
            leaf_spine(3, 4, 2, gbps(10), gbps(40), delays, SF),
            three_tier(4, 3, 2, gbps(1), gbps(10), gbps(10), delays, SF),
            fat_tree(4, gbps(10), delays, SF),
        ] {
            for link in network.links() {
                let at_host = link.from.index().min(link.to.index()) < network.hosts();
                let at_core = [link.from, link.to].iter().any(|end| network.node(*end).name.starts_with('c'));
                let expected = [(at_host, delays.hosts), (at_core, delays.core), (true, delays.switches)];
                assert_eq!(link.delay, expected.iter().find(|(is_so, _)| *is_so).unwrap().1);
            }
        }
    }

    /// 8 pods of 4 edge switches with 12 hosts each, and 4 links of 40 Gb/s above them: 120 Gb/s of hosts below 160 Gb/s.
    #[test]
    fn a_fat_tree_has_as_many_hosts_and_the_rates_that_it_is_given() {
        let [hosts_per_edge, k] = [12, 8];
        let tree = FatTree { k, hosts_per_edge, host_rate: gbps(10), rate: gbps(40), core_rate: gbps(100), delays: D.into() };
        let network = tree.build(SF);
        network.check().expect("connected");
        assert_eq!((network.hosts(), network.switches().count()), (384, 80));
        let of_rate = |rate| network.links().iter().filter(|link| link.rate == rate).count() / 2;
        assert_eq!([gbps(10), gbps(40), gbps(100)].map(of_rate), [384, 128, 128]);
        let hops = |a: u32, b: u32| network.path(NodeId(a), NodeId(b)).len();
        assert_eq!((hops(0, 11), hops(0, 12), hops(0, 47), hops(0, 48)), (2, 4, 4, 6));
    }
}
