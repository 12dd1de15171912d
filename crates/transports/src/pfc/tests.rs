use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Duration, Effects, Link, LinkId, Memory, Network, NodeId, Packet, PacketId, Pool,
    PortCall, PortNumber, PortSite, Rate, Switching, Time, WireProfile,
};
use proptest::prelude::*;

use super::accounts::Accounts;
use super::limits::{Limits, NodeLimits};
use super::*;
use crate::disciplines::rig::packet;
use crate::disciplines::{ClassSet, EcnConfig, EcnPriority, SharedMemory};

fn line(gbps: u64, delay: Duration) -> Link {
    let rate = Rate::from_gbps(gbps);
    Link { from: NodeId(0), to: NodeId(1), rate, delay, from_port: PortNumber(0), to_port: PortNumber(0) }
}

/// At 10 Gb/s, 400 ns on the link and 614.4 ns of reaction are 1268 B; at 100 Gb/s, 2 us and 614.4 ns are 32,680 B. Parts of a byte are rounded up.
#[test]
fn the_headroom_of_two_links_by_hand() {
    let pfc = Pfc::default();
    let headroom = |gbps, delay, wire| pfc.headroom(&line(gbps, delay), &wire).get();
    assert_eq!(headroom(10, Duration::from_ns(200), WireProfile::IP_1500), 3 * 1500 + 84 + 1268);
    assert_eq!(headroom(100, Duration::from_us(1), WireProfile::JUMBO_9000), 3 * 9000 + 84 + 32_680);
    let slow = Pfc { reaction: Duration::from_ps(1), ..Pfc::default() };
    assert_eq!(slow.headroom(&line(10, Duration::ZERO), &WireProfile::IP_1500).get(), 3 * 1500 + 84 + 1);
    let set = Pfc { headroom: Some(Bytes::new(7)), ..Pfc::default() };
    assert_eq!(set.headroom(&line(10, Duration::ZERO), &WireProfile::IP_1500).get(), 7);
}

/// Absurd links do not overflow: the headroom is then more than any memory.
#[test]
fn an_absurd_link_needs_more_than_any_memory() {
    let mut network = Network::new(1, Switching::StoreAndForward);
    let switch = network.add_switch(1, "switch", "s");
    network.connect(NodeId(0), switch, Rate::from_bps(u64::MAX), Duration::from_ps(u64::MAX));
    for memory in
        [Memory::PerPort(Bytes::new(2_000_000_000)), Memory::PerSwitch { bytes: Bytes::new(2_000_000_000), alpha: 1.0 }]
    {
        let refused = Pfc::default().limits(&network, switch, &WireProfile::IP_1500, memory, 8);
        assert!(refused.unwrap_err().starts_with("buffer: found 2GB"));
    }
}

const HEADROOM: u32 = 4000;
const XOFF: u32 = 3000;

fn accounts(shared: Option<(u64, f64)>) -> Accounts {
    Accounts::new(&NodeLimits {
        ingress: vec![Limits { xoff: XOFF, headroom: HEADROOM }; 2],
        shared: shared.map(|(bytes, alpha)| (Bytes::new(bytes), alpha)),
        hysteresis: Bytes::new(1000),
    })
}

#[test]
fn a_class_stops_above_xoff_and_goes_on_below_xon() {
    let mut accounts = accounts(None);
    let port = PortNumber(1);
    let mut arrive = |size| {
        let arrival = accounts.arrive(port, 2, size);
        (arrival.fits, arrival.stops)
    };
    assert_eq!([arrive(1500), arrive(1500), arrive(1)], [(true, false), (true, false), (true, true)]);
    // All that comes now is in the headroom.
    assert_eq!([arrive(3999), arrive(1)], [(true, false), (false, false)]);
    assert!(accounts.stopped(port).has(2) && accounts.stopped(PortNumber(0)) == ClassSet::NONE);
    // Other classes and ports are not concerned.
    assert!(!accounts.arrive(port, 3, 3000).stops && !accounts.arrive(PortNumber(0), 2, 3000).stops);
    // The headroom is freed first, and XON is 2000.
    assert_eq!([3999, 1, 999].map(|size| accounts.leave(port, 2, size)), [false; 3]);
    assert!(accounts.leave(port, 2, 1) && accounts.stopped(port) == ClassSet::NONE);
}

/// A headroom that holds no packet loses packets, but stops nobody for ever.
#[test]
fn a_class_of_which_nothing_is_stored_is_not_stopped() {
    let ingress = vec![Limits { xoff: 1000, headroom: 100 }];
    let mut accounts = Accounts::new(&NodeLimits { ingress, shared: None, hysteresis: Bytes::ZERO });
    let port = PortNumber(0);
    let lost = accounts.arrive(port, 0, 1500);
    assert!(!lost.fits && !lost.stops && accounts.stopped(port) == ClassSet::NONE);
    assert!(accounts.arrive(port, 0, 900).fits);
    let lost = accounts.arrive(port, 0, 1500);
    assert!(!lost.fits && lost.stops);
    assert!(accounts.leave(port, 0, 900));
}

/// With alpha 1 and 10,000 B, one class gets half, as under any dynamic threshold. It goes on when it is 1000 B below the threshold, which is then
/// what is free.
#[test]
fn the_dynamic_threshold_is_a_share_of_what_is_free() {
    let mut accounts = accounts(Some((10_000, 1.0)));
    let port = PortNumber(0);
    let stored = (0..).take_while(|_| !accounts.arrive(port, 0, 100).stops).count();
    assert_eq!(stored, 50);
    // The other port finds half of it free, and gets a quarter.
    let stored = (0..).take_while(|_| !accounts.arrive(PortNumber(1), 0, 100).stops).count();
    assert_eq!(stored, 25);
    // The first packet that leaves frees the headroom. Then 5000 - 100 n + 1000 <= 2500 + 100 n after 18 more.
    let left = (0..).take_while(|_| !accounts.leave(port, 0, 100)).count();
    assert_eq!(left, 18);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(u16, u8, u32),
    Leave(u16),
    Order(u16, u8),
    Cut(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0..2_u16, 0..4_u8, 40..1500_u32).prop_map(|(port, class, size)| Step::Arrive(port, class, size)),
        40 => (0..2_u16).prop_map(Step::Leave),
        10 => (0..2_u16, any::<u8>()).prop_map(|(port, classes)| Step::Order(port, classes)),
        1 => (0..2_u16).prop_map(Step::Cut),
    ]
}

type Port = PfcPort<EcnPriority>;

/// Two ports of a switch, driven by hand: what comes in through one leaves through the other.
struct Node {
    ports: Vec<Port>,
    shared: PfcShared<SharedMemory>,
    pool: Pool<()>,
    effects: Effects,
}

impl Node {
    fn new(memory: Memory, pfc: &Pfc) -> Node {
        let mut network = Network::new(2, Switching::StoreAndForward);
        let switch = network.add_switch(1, "switch", "s");
        let links: Vec<LinkId> =
            (0..2).map(|host| network.connect(switch, NodeId(host), Rate::from_gbps(10), Duration::from_ns(200))).collect();
        let wire = WireProfile::IP_1500;
        let port = |link: &LinkId| {
            let site = PortSite { link: *link, network: &network, wire, memory: UNLIMITED, seed: 1 };
            PfcPort::new(EcnPriority::new(&EcnConfig::default(), 4, &site), 4, pfc, &site)
        };
        let limits = pfc.limits(&network, switch, &wire, memory, 4).expect("memory for headrooms");
        Node {
            ports: links.iter().map(port).collect(),
            shared: PfcShared::new(&limits, Default::default()),
            pool: Default::default(),
            effects: Default::default(),
        }
    }

    fn call<R>(
        &mut self,
        port: u16,
        ingress: PortNumber,
        run: impl FnOnce(&mut PfcPort<EcnPriority>, &mut PortCall<'_, (), PfcShared<SharedMemory>>) -> R,
    ) -> R {
        let mut call = PortCall {
            now: Time::ZERO,
            pool: &mut self.pool,
            shared: &mut self.shared,
            number: PortNumber(port),
            ingress,
            rate: Rate::from_gbps(10),
            effects: &mut self.effects,
        };
        run(&mut self.ports[usize::from(port)], &mut call)
    }

    fn insert(&mut self, class: u8, size: u32) -> PacketId {
        self.pool.insert(packet(0, class, size))
    }

    /// The packet that leaves a port, if there is one.
    fn leaves(&mut self, port: u16) -> Option<Packet<()>> {
        let Dequeue::Packet(id) = self.call(port, PortNumber::LOCAL, PfcPort::dequeue) else {
            return None;
        };
        let packet = self.pool[id];
        self.pool.remove(id);
        Some(packet)
    }
}

proptest! {
    /// Whatever arrives, whatever neighbours order, and whatever a cut loses, which are packets and no frames: what the accounts hold is what the ports hold, memory is never exceeded, a paused class does not
    /// leave, each frame says what the neighbour must do now, and at the end nothing is left.
    #[test]
    fn accounts_agree_with_the_ports(shared in any::<bool>(), steps in prop::collection::vec(step(), 0..300)) {
        let bytes = 8 * 5852 + 20_000;
        let memory =
            if shared { Memory::PerSwitch { bytes: Bytes::new(bytes), alpha: 1.0 } } else { Memory::PerPort(Bytes::new(bytes)) };
        let pfc = Pfc { reaction: Duration::ZERO, ..Pfc::default() };
        let mut node = Node::new(memory, &pfc);
        let (mut held, mut paused, mut told) = (0_u64, [0_u8; 2], [0_u8; 2]);
        let all = if shared { bytes } else { 2 * bytes };
        for step in steps {
            match step {
                Step::Arrive(ingress, class, size) => {
                    let id = node.insert(class, size);
                    node.call(1 - ingress, PortNumber(ingress), |port, call| port.enqueue(call, id));
                    match node.effects.dropped.pop() {
                        Some((id, _)) => node.pool.remove(id),
                        None => held += u64::from(size),
                    }
                }
                Step::Leave(port) => {
                    if let Some(packet) = node.leaves(port) {
                        if let Some(stopped) = stopped_by(&packet) {
                            told[usize::from(port)] = stopped.0;
                        } else {
                            prop_assert!(paused[usize::from(port)] >> packet.class & 1 == 0, "{packet:?} of a paused class");
                            held -= u64::from(packet.size_bytes);
                        }
                    }
                }
                Step::Order(port, classes) => {
                    let id = node.insert(0, 84);
                    node.pool[id].dst = NodeId::LINK;
                    // All bits but the last eight mean nothing.
                    node.pool[id].offset = Bytes::new(u64::MAX << 8 | u64::from(classes));
                    node.call(port, PortNumber::LOCAL, |port, call| port.handle_link_frame(call, id));
                    node.pool.remove(id);
                    paused[usize::from(port)] = classes;
                }
                Step::Cut(port) => {
                    node.call(port, PortNumber::LOCAL, PfcPort::lose_all);
                    for (id, why) in std::mem::take(&mut node.effects.dropped) {
                        prop_assert_eq!((why, node.pool[id].dst), (DropReason::LinkDown, NodeId(1)));
                        held -= u64::from(node.pool[id].size_bytes);
                        node.pool.remove(id);
                    }
                    paused[usize::from(port)] = 0;
                }
            }
            prop_assert_eq!(node.shared.used(), held);
            prop_assert!(held <= all, "{held} B in {all} B");
        }
        for port in 0..2 {
            let id = node.insert(0, 84);
            node.pool[id].dst = NodeId::LINK;
            node.call(port, PortNumber::LOCAL, |port, call| port.handle_link_frame(call, id));
            node.pool.remove(id);
        }
        // A port's last packets make the other port send its last frame.
        for port in [0, 1, 0, 1] {
            while let Some(packet) = node.leaves(port) {
                if let Some(stopped) = stopped_by(&packet) {
                    told[usize::from(port)] = stopped.0;
                }
            }
        }
        prop_assert_eq!((node.shared.used(), node.pool.len(), told), (0, 0, [0, 0]));
    }
}
