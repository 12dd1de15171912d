//! The nodes of a cluster, and the network that their endpoints see.

use std::collections::HashSet;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Network, NodeId, Rate, Switching, Transport, Wire, WireProfile};

use serde::{Deserialize, Deserializer, de};

use crate::flow_ids::{HOSTS_MAX, IdSpace};
use crate::frame;
use crate::trust::Key;

/// The largest value of the 16-bit length field of an IPv4 packet.
const MTU_MAX: u64 = 65_535;

/// The parameters of a node and of the emulated network, from which transports derive their timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The rate of each emulated NIC, unless the cluster's file gives another. The time of one full packet at this rate, a slot, is the unit of most protocols' timers.
    pub line_rate: Rate,
    /// The propagation delay of each link, in each direction, unless the cluster's file gives another.
    pub delay: Duration,
    /// The size of the largest IP packet.
    pub mtu: Bytes,
    /// The memory of each NIC, for transports that queue packets there and find losses by themselves, such as pFabric: most of its lost packets are lost at hosts.
    pub nic_buffer: Bytes,
    /// The memory of each NIC, for senders that are a TCP or react to marks as one does. A TCP of a real host loses nothing at its own NIC: what finds no room there waits in its
    /// socket. So there is room for all windows, which limit what is queued.
    pub windows_buffer: Bytes,
    /// For how many slots a late wake-up catches up in one burst. Slots missed before these stay unused, as on an idle link.
    pub catch_up_slots: u64,
    /// How long a node with work to do sleeps at least, so that there is more of it when it wakes: as the interrupt moderation of a network card.
    pub grain: Duration,
    /// After how long a node that says nothing counts as gone, if there are open flows with it. Nodes ask each other for signs of life.
    pub silence: Duration,
}

impl Profile {
    /// Processes on one machine over its loopback interface. The line rate is far below the capacity of a loopback, so that a slot is
    /// longer than the delay of 50 to 100 us with which a Linux kernel wakes a waiting process. The README has the measurements.
    pub const LOOPBACK: Profile = Profile {
        line_rate: Rate::from_bps(100_000_000),
        delay: Duration::from_us(50),
        mtu: Bytes::new(1500),
        nic_buffer: Bytes::new(131_072),
        windows_buffer: Bytes::new(1 << 30),
        catch_up_slots: 16,
        grain: Duration::ZERO,
        silence: Duration::from_ms(10_000),
    };

    /// Ten times as fast. A slot of 12 us is shorter than the delay of a wake-up, so a node sleeps until there is a burst of slots to handle, which goes to the kernel as one batch.
    /// Transports whose rules count slots get parameters that allow this ([`Profile::parameters`]).
    pub const BATCHED: Profile = Profile {
        line_rate: Rate::from_bps(1_000_000_000),
        nic_buffer: Bytes::new(1 << 20),
        catch_up_slots: 64,
        grain: Duration::from_us(100),
        ..Profile::LOOPBACK
    };

    /// The profile of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Profile, String> {
        match name {
            "loopback" => Ok(Profile::LOOPBACK),
            "batched" => Ok(Profile::BATCHED),
            _ => Err(format!("there is no profile \"{name}\"; there are loopback and batched")),
        }
    }

    /// How far the time of a node with this line rate may be behind the clock: what a late wake-up catches up. A sleep of a grain ends late, too.
    pub(crate) fn lag_max(&self, line_rate: Rate, full: Bytes) -> Duration {
        (line_rate.transmit_time(full) * self.catch_up_slots).max(self.grain * 4)
    }

    /// The memory of each NIC for a transport.
    pub fn nic_memory<T: Transport>(&self, config: &T::Config) -> Bytes {
        let host = T::host_profile(config);
        if host.ecn || host.kernel.is_some() { self.windows_buffer } else { self.nic_buffer }
    }

    /// What `T` needs to be told in this profile, as TOML, where the paper's rules count slots and a node sees the time only once in a burst. pHost's tokens live for 1.5 slots in the paper
    /// (section 3.2), eight tokens without an answer downgrade a flow, and a flow has eight free tokens (section 3.3). Here these are as many as a burst may have.
    pub fn parameters<T: Transport>(&self) -> String {
        if T::NAME != "phost" || self.grain == Duration::ZERO {
            return String::new();
        }
        let slots =
            self.lag_max(self.line_rate, self.mtu).as_ps().div_ceil(self.line_rate.transmit_time(self.mtu).as_ps().max(1));
        format!("token_life_slots = {slots}.0\ndowngrade_threshold = {slots}\nreissue_slots = {slots}.0\nfree_tokens = {slots}")
    }
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where its process is; `None` for a switch at which no process runs.
    pub address: Option<SocketAddr>,
}

/// The nodes of one network. A node's id is its index in the list of members: hosts come first, then switches, then the controller if there is one.
#[derive(Clone, Debug)]
pub struct Cluster {
    members: Vec<Member>,
    network: Arc<Network>,
    profile: Profile,
    key: Key,
}

impl Cluster {
    /// A cluster of hosts at these addresses, on one switch. Without a key of its own ([`Cluster::with_key`]), it has the one that everybody knows.
    ///
    /// # Errors
    /// If there are fewer than two or more than 4096 nodes, an address occurs twice, has no port or is none to send from, IPv4 and IPv6 are mixed, the line
    /// rate is zero, or the MTU exceeds 65,535 B.
    pub fn new(addresses: Vec<SocketAddr>, profile: Profile) -> io::Result<Cluster> {
        let hosts = addresses.into_iter().enumerate().map(|(number, address)| HostEntry {
            name: number.to_string(),
            address,
            switch: "switch".to_owned(),
            rate: None,
            delay: None,
        });
        let name = "switch".to_owned();
        let switch = SwitchEntry { name, address: None, above: Vec::new(), rate: None, delay: None };
        Description { hosts: hosts.collect(), switches: vec![switch], ..Description::default() }.build(profile)
    }

    /// Reads the description of a cluster (TOML): its hosts, each with its switch, and its switches, each with those above it.
    ///
    /// ```
    /// # use flowloom_host::{Cluster, Profile};
    /// let cluster = Cluster::parse(
    ///     r#"
    ///     host = [
    ///         { name = "a", address = "10.0.0.1:7000", switch = "tor0", rate = "200Mb/s", delay = "5us" },
    ///         { name = "b", address = "10.0.0.2:7000", switch = "tor1" },
    ///     ]
    ///     switch = [
    ///         { name = "tor0", address = "10.0.0.9:7000", above = ["core"], rate = "1Gb/s" },
    ///         { name = "tor1", address = "10.0.0.9:7001", above = ["core"], rate = "1Gb/s" },
    ///         { name = "core" },
    ///     ]
    ///     "#,
    ///     Profile::LOOPBACK,
    /// )?;
    /// assert_eq!(cluster.members().len(), 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong, with the name of the entry; else as [`Cluster::new`].
    pub fn parse(text: &str, profile: Profile) -> io::Result<Cluster> {
        let description: Description = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        description.build(profile)
    }

    /// The same cluster with a secret of its own.
    #[must_use]
    pub fn with_key(self, key: Key) -> Cluster {
        Cluster { key, ..self }
    }

    /// Its secret.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Its nodes.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The node of this name, or with this number.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        let named = self.members.iter().position(|member| member.name == name);
        named.or_else(|| name.parse().ok().filter(|number| *number < self.members.len())).map(|index| NodeId(index as u32))
    }

    /// The parameters of the emulated network.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The network that endpoints see.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How flow ids are divided among its hosts.
    pub(crate) fn id_space(&self) -> IdSpace {
        IdSpace::new(self.network.hosts())
    }

    /// A digest of all that nodes must agree on: names, addresses, links and the MTU. How each of them waits and stores is its own affair.
    pub(crate) fn digest(&self) -> u64 {
        digest(format!("{:?} {:?} {}", self.members, self.network.links(), self.profile.mtu).as_bytes())
    }

    /// The sizes of `T`'s packets in IP bytes, with room for its longest header.
    ///
    /// # Errors
    /// If a full packet has no room for payload.
    pub fn wire<T: Transport>(&self) -> io::Result<WireProfile> {
        let ipv4 = self.members.iter().flat_map(|member| member.address).all(|address| address.is_ipv4());
        frame::wire(self.profile.mtu, T::Header::MAX_BYTES, ipv4).ok_or_else(|| {
            invalid(format!("an MTU of {} has no room for payload behind the headers of {}", self.profile.mtu, T::NAME))
        })
    }
}

/// A cluster as its file describes it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(rename = "host")]
    hosts: Vec<HostEntry>,
    #[serde(rename = "switch")]
    switches: Vec<SwitchEntry>,
    /// The extra host of transports that have one.
    controller: Option<ControllerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    address: SocketAddr,
    switch: String,
    /// The rate and the delay of the link to the switch; by default the profile's.
    #[serde(default, deserialize_with = "quantity")]
    rate: Option<Rate>,
    #[serde(default, deserialize_with = "quantity")]
    delay: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    address: Option<SocketAddr>,
    #[serde(default)]
    above: Vec<String>,
    /// The rate and the delay of the links to the switches above; by default the profile's.
    #[serde(default, deserialize_with = "quantity")]
    rate: Option<Rate>,
    #[serde(default, deserialize_with = "quantity")]
    delay: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerEntry {
    address: SocketAddr,
}

fn quantity<'de, D: Deserializer<'de>, Q: FromStr<Err: Display>>(from: D) -> Result<Option<Q>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// The name of the extra host.
const CONTROLLER: &str = "controller";

impl Description {
    fn build(self, profile: Profile) -> io::Result<Cluster> {
        if !(2..=HOSTS_MAX).contains(&self.hosts.len()) {
            return Err(invalid(format!("{} hosts, but a cluster has 2 to {HOSTS_MAX}", self.hosts.len())));
        }
        if profile.line_rate == Rate::default() || profile.mtu.get() > MTU_MAX {
            let (rate, mtu) = (profile.line_rate, profile.mtu);
            return Err(invalid(format!(
                "a line rate of {rate} and an MTU of {mtu}: the line rate must be positive, and the MTU at most {MTU_MAX} B"
            )));
        }
        let hosts = self.hosts.iter().map(|host| Member { name: host.name.clone(), address: Some(host.address) });
        let switches = self.switches.iter().map(|switch| Member { name: switch.name.clone(), address: switch.address });
        let controller = self.controller.as_ref();
        let controller = controller.map(|at| Member { name: CONTROLLER.to_owned(), address: Some(at.address) });
        let members: Vec<Member> = hosts.chain(switches).chain(controller).collect();
        check_names(&members)?;
        let network = self.network(&profile)?;
        network.check().map_err(|error| invalid(error.to_string()))?;
        Ok(Cluster { members, network: Arc::new(network), profile, key: Key::PUBLIC })
    }

    fn network(&self, profile: &Profile) -> io::Result<Network> {
        let mut network = Network::new(self.hosts.len(), Switching::StoreAndForward);
        for (number, host) in (0..).zip(&self.hosts) {
            network.set_name(NodeId(number), host.name.as_str());
        }
        let levels = self.levels()?;
        let ids: Vec<NodeId> = levels
            .iter()
            .zip(&self.switches)
            .map(|(level, switch)| network.add_switch(*level, "switch", switch.name.as_str()))
            .collect();
        let mut connect = |below: NodeId, above: NodeId, rate: Option<Rate>, delay: Option<Duration>| {
            network.connect(below, above, rate.unwrap_or(profile.line_rate), delay.unwrap_or(profile.delay));
        };
        for (number, host) in (0..).zip(&self.hosts) {
            let switch = ids[self.switch(&host.switch, &host.name)?];
            connect(NodeId(number), switch, host.rate, host.delay);
        }
        for (id, switch) in ids.iter().zip(&self.switches) {
            for above in &switch.above {
                let above = ids[self.switch(above, &switch.name)?];
                connect(*id, above, switch.rate, switch.delay);
            }
        }
        if self.controller.is_some() {
            network.add_control_host(CONTROLLER);
        }
        Ok(network)
    }
}

impl Description {
    /// The index of the switch of this name, which the entry `by` names.
    fn switch(&self, name: &str, by: &str) -> io::Result<usize> {
        let index = self.switches.iter().position(|switch| switch.name == name);
        index.ok_or_else(|| invalid(format!("\"{by}\": there is no switch \"{name}\"")))
    }

    /// How high each switch is: above all those that it is above of. PASE's arbitrators go by this: that of a link is at its lower end.
    fn levels(&self) -> io::Result<Vec<u8>> {
        let mut levels = vec![1_u8; self.switches.len()];
        // A chain of switches has at most all of them.
        for _ in 0..=self.switches.len() {
            let mut settled = true;
            for (below, switch) in self.switches.iter().enumerate() {
                for above in &switch.above {
                    let above = self.switch(above, &switch.name)?;
                    if levels[above] <= levels[below] {
                        levels[above] = levels[below].saturating_add(1);
                        settled = false;
                    }
                }
            }
            if settled {
                return Ok(levels);
            }
        }
        Err(invalid("there are switches that are above themselves".to_owned()))
    }
}

/// Names and addresses are unique, and addresses can be used together.
fn check_names(members: &[Member]) -> io::Result<()> {
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    let first = members.iter().find_map(|member| member.address);
    for Member { name, address } in members {
        if !names.insert(name) {
            return Err(invalid(format!("two nodes are called \"{name}\"")));
        }
        let Some(address) = address else { continue };
        // No datagram comes from such an address, so nobody would take this node's.
        if address.ip().is_unspecified() || address.ip().is_multicast() {
            return Err(invalid(format!(
                "node address {address}: it must be the address from which the node sends, such as 10.0.0.1:7000"
            )));
        }
        if address.port() == 0 || Some(address.is_ipv4()) != first.map(|first| first.is_ipv4()) || !addresses.insert(address) {
            return Err(invalid(format!(
                "node address {address}: an address must have a port, all must have the same IP version, and none may occur twice"
            )));
        }
    }
    Ok(())
}

/// The 64-bit FNV-1a hash of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
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
        let bad: [&[&str]; 7] = [
            &[],
            &["127.0.0.1:7000"],
            &["127.0.0.1:7000", "127.0.0.1:0"],
            &["127.0.0.1:7000", "127.0.0.1:7000"],
            &["127.0.0.1:7000", "[::1]:7000"],
            &["127.0.0.1:7000", "0.0.0.0:7001"],
            &["[::1]:7000", "[ff02::1]:7001"],
        ];
        for list in bad {
            assert!(Cluster::new(addresses(list), Profile::LOOPBACK).is_err(), "{list:?}");
        }
        let two = || addresses(&["127.0.0.1:7000", "127.0.0.1:7001"]);
        assert!(Cluster::new(two(), Profile { line_rate: Rate::default(), ..Profile::LOOPBACK }).is_err());
        assert!(Cluster::new(two(), Profile { mtu: Bytes::new(65_536), ..Profile::LOOPBACK }).is_err());
        let tiny = Cluster::new(two(), Profile { mtu: Bytes::new(91), ..Profile::LOOPBACK }).unwrap();
        assert!(tiny.wire::<Probe>().is_err());
    }

    const TREE: &str = r#"
        host = [
            { name = "a", address = "10.0.0.1:7000", switch = "tor0" },
            { name = "b", address = "10.0.0.2:7000", switch = "tor1", rate = "500Mb/s", delay = "20us" },
        ]
        switch = [
            { name = "tor0", address = "10.0.0.9:7000", above = ["core"], rate = "1Gb/s", delay = "7us" },
            { name = "tor1", above = ["core"] },
            { name = "core" },
        ]
        controller = { address = "10.0.0.8:7000" }
        "#;

    #[test]
    fn a_file_describes_a_tree() {
        let cluster = Cluster::parse(TREE, Profile::LOOPBACK).unwrap();
        let names: Vec<&str> = cluster.members().iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "tor0", "tor1", "core", "controller"]);
        let hops: Vec<String> =
            cluster.network().path(NodeId(0), NodeId(1)).iter().map(|link| cluster.network().link_name(*link)).collect();
        assert_eq!(hops.len(), 4);
        let rates: Vec<u64> = cluster.network().links().iter().step_by(2).map(|link| link.rate.as_bps() / 1_000_000).collect();
        assert_eq!(rates, [100, 500, 1000, 100, 100], "two hosts, two switches below the core, the controller");
        let level = |name| cluster.network().node(cluster.find(name).unwrap()).level;
        assert_eq!((level("a"), level("tor0"), level("tor1"), level("core")), (0, 1, 1, 2));
        assert_eq!((cluster.find("tor1"), cluster.find("1"), cluster.find("c")), (Some(NodeId(3)), Some(NodeId(1)), None));
        let delays: Vec<u64> = cluster.network().links().iter().step_by(2).map(|link| link.delay.as_ps() / 1_000_000).collect();
        assert_eq!(delays, [50, 20, 7, 50, 50], "in microseconds");
        let renamed = Cluster::parse(&TREE.replace("core", "top"), Profile::LOOPBACK).unwrap();
        assert_ne!(cluster.digest(), renamed.digest());
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let cases = [
            (TREE.replace("switch = \"tor1\"", "switch = \"tor9\""), "\"b\": there is no switch \"tor9\""),
            (TREE.replace("name = \"b\"", "name = \"a\""), "two nodes are called \"a\""),
            (TREE.replace("10.0.0.2:7000", "10.0.0.9:7000"), "none may occur twice"),
            (TREE.replace("{ name = \"tor1\", above = [\"core\"] }", "{ name = \"tor1\" }"), "b"),
            (TREE.replace("rate = \"1Gb/s\"", "rate = \"1\""), "unit"),
            (TREE.replace("above", "below"), "unknown field `below`"),
            (TREE.replace("[\"core\"], rate", "[\"tor0\"], rate"), "above themselves"),
        ];
        for (text, expected) in cases {
            let error = Cluster::parse(&text, Profile::LOOPBACK).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn a_full_packet_is_an_mtu() {
        let v4 = Cluster::new(addresses(&["127.0.0.1:7000", "127.0.0.1:7001"]), Profile::LOOPBACK).unwrap();
        let v6 = Cluster::new(addresses(&["[::1]:7000", "[::1]:7001"]), Profile::LOOPBACK).unwrap();
        // 20 + 8 + 30 + 5 B of headers and 28 B of seal, and 20 B more with IPv6.
        assert_eq!(v4.wire::<Probe>().unwrap(), WIRE);
        assert_eq!(v6.wire::<Probe>().unwrap().payload(), Bytes::new(1500 - 91 - 20));
    }

    #[test]
    fn nodes_are_two_links_apart() {
        let cluster = Cluster::new(addresses(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]), Profile::LOOPBACK).unwrap();
        let (network, wire) = (cluster.network(), cluster.wire::<Probe>().unwrap());
        assert!(network.check().is_ok());
        // 1500 B take 120 us at 100 Mb/s and 91 B take 7.28 us. Each direction has two links of 50 us.
        let expected = Duration::from_ns(2 * (120_000 + 7_280) + 4 * 50_000);
        assert_eq!(network.rtt(NodeId(0), NodeId(2), &wire), expected);
    }
}
