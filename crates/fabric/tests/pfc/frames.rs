//! Pause frames to the picosecond, and the worst case of the headroom.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Packet, PortSite, Time};
use flowloom_fabric::SimSetup;
use flowloom_transports::disciplines::{EcnConfig, EcnPriority, Marking};
use flowloom_transports::pfc::{OverPfc, PausableTransport, Pfc, Setting, stopped_by};

use crate::common::blast::{Blast, Header, Plain, PlainQueued, Scheme};
use crate::common::networks::{STORE, flow, gbps, ns, ps, setup, watch};
use crate::common::watch::Log;
use crate::{bytes, drops};

const SENDER: NodeId = NodeId(0);

/// Host 0 sends to host 1, whose link is ten times slower. Host 2 sends to host 0, so that pause frames meet packets.
fn network(delay: Duration) -> Network {
    let mut network = Network::new(3, STORE);
    let switch = network.add_switch(1, "switch", "s");
    for (host, rate) in [(0, gbps(10)), (1, gbps(1)), (2, gbps(10))] {
        network.connect(NodeId(host), switch, rate, delay);
    }
    network
}

/// Runs 20 packets from host 0 to host 1, and 8 from host 2 to host 0 from `other` on.
fn run<S>(delay: Duration, pfc: Pfc, other: Time) -> (u64, Log<Header<()>>)
where
    S: Scheme<Config = (), Extra = ()>,
    Blast<S>: PausableTransport<Config = (), Header = Header<()>>,
{
    let memory = Memory::PerPort(Bytes::new(100_000));
    let flows = vec![flow(0, 0, 1, 20 * 1460, Time::ZERO), flow(1, 2, 0, 8 * 1460, other)];
    let setting = Setting { transport: (), pfc, memory, storms: Vec::new() };
    let setup = SimSetup { memory, ..setup(network(delay)) };
    let (report, log) = watch::<OverPfc<Blast<S>>, Log<_>>(&setting, setup, flows, Log::default());
    (drops(&report), log)
}

/// When data packets left a host, in nanoseconds.
fn left(log: &Log<Header<()>>, link: LinkId) -> Vec<u64> {
    log.on(link).filter(|(_, packet)| packet.payload_bytes > 0).map(|(at, _)| at.as_ps()).collect()
}

/// By hand, with 1.2 us for a packet, 0.2 us of delay, a threshold of two packets, and XON at one.
///
/// Packet k of host 0 is at the switch at 1.4 + 1.2 k. Packet 0 leaves at once, 1 and 2 are stored, and 3 crosses the threshold at 5.0 us. Packets
/// of host 2 leave the switch at 1.9 + 1.2 j: the frame waits for the one that began at 4.3, until 5.5, and goes before the next one, which
/// arrives at 5.5. It takes 67.2 ns and 200 ns, and is obeyed 614.4 ns later, at 6.3816 us. Packet 5 has begun by then, at 6.0; packet 6 has not.
///
/// Packet 1 leaves the switch when packet 0 has left over the slow link, at 13.4 us, and one more every 12 us. The packets 1 to 3 free the headroom;
/// with packet 4, at 49.4 us, only packet 5 is stored, and host 0 may go on. The frame finds the link free, and packet 6 leaves at 49.6672 us.
#[test]
fn a_pause_frame_waits_travels_and_takes_effect_as_worked_out_by_hand() {
    let pfc = Pfc { xoff: bytes(3000), hysteresis: bytes(1500), ..Pfc::default() };
    let delay = Duration::from_ns(200);
    // A pulled host gives its NIC one packet that it cannot send, and keeps the others.
    for (name, given, (dropped, log)) in [
        ("pulled", 7, run::<Plain>(delay, pfc.clone(), ns(500))),
        ("queued", 20, run::<PlainQueued>(delay, pfc.clone(), ns(500))),
    ] {
        let of_sender =
            |(at, node, packet): &&(Time, NodeId, Packet<_>)| *node == SENDER && packet.payload_bytes > 0 && *at < ns(49_600);
        assert_eq!(log.injected.iter().filter(of_sender).count(), given, "{name}");
        assert_eq!(dropped, 0, "{name}");
        let uplink = LinkId(0);
        let frames: Vec<_> =
            log.on(uplink.reverse()).filter_map(|(at, packet)| Some((at, stopped_by(packet)?.0, packet.size_bytes))).collect();
        assert_eq!(frames[..2], [(ns(5_500), 1, 84), (ns(49_400), 0, 84)], "{name}");
        assert_eq!(log.on(uplink.reverse()).map(|(at, _)| at).find(|at| *at > ns(5_500)), Some(ps(5_567_200)), "{name}");
        let sent = left(&log, uplink);
        assert_eq!(sent[..7], [0, 1_200_000, 2_400_000, 3_600_000, 4_800_000, 6_000_000, 49_667_200], "{name}");
        assert_eq!(sent.len(), 20, "{name}");
        assert!(log.on(uplink).all(|(_, packet)| packet.src == SENDER), "hosts send no pause frames");
    }
}

/// Data in class 1, answers in class 0.
enum TwoClasses {}

impl Scheme for TwoClasses {
    type Config = ();
    type Extra = ();
    type Port = EcnPriority;
    fn port((): &(), site: &PortSite<'_>) -> EcnPriority {
        EcnPriority::new(&EcnConfig { ecn: Marking::Off, ..EcnConfig::default() }, 2, site)
    }
}

impl PausableTransport for Blast<TwoClasses> {
    fn classes((): &()) -> u8 {
        2
    }
}

/// As above, but the frame finds the link free at 5.0 us, and is obeyed before packet 5. The packets 3 and 4 are in the headroom; with packet 3, at
/// 37.4 us, one is left, and host 0 may go on. In the meantime, host 2's packets begin at 20 us. The last of 8 leaves at 28.4 and is at host 0 after
/// 2 × 1.2 + 2 × 0.2, at 31.2 us. The answer, of 40 B, is in another class: it leaves at once, and is at host 2 after 2 × 32 + 2 × 200 ns.
#[test]
fn a_paused_class_does_not_hold_back_another() {
    let memory = Memory::PerPort(Bytes::new(100_000));
    let pfc = Pfc { xoff: bytes(3000), hysteresis: bytes(1500), ..Pfc::default() };
    let with_class = |flow: Flow| Flow { tenant: 1, ..flow };
    let flows = [flow(0, 0, 1, 20 * 1460, Time::ZERO), flow(1, 2, 0, 8 * 1460, ns(20_000))].map(with_class).to_vec();
    let setting = Setting { transport: (), pfc, memory, storms: Vec::new() };
    let setup = SimSetup { memory, ..setup(network(Duration::from_ns(200))) };
    let (report, log) = watch::<OverPfc<Blast<TwoClasses>>, Log<_>>(&setting, setup, flows, Log::default());
    assert_eq!(left(&log, LinkId(0))[4..6], [4_800_000, 37_667_200]);
    assert_eq!(report.records[1].acknowledged, ns(31_664));
    assert_eq!(drops(&report), 0);
}

/// The worst case: packet 3 crosses the threshold, and the frame finds a full packet that has begun a nanosecond before. With 260 ns of delay, the
/// frame is obeyed 1.199 + 0.0672 + 0.26 + 0.6144 us later, 0.6 ns after host 0 has begun packet 6. So the headroom gets the packets 3 to 6,
/// 6000 B, and the formula gives 3 × 1500 + 84 + 1418 = 6002 B.
#[test]
fn the_headroom_is_enough_in_the_worst_case_and_no_byte_more_than_a_packet_too_much() {
    let delay = Duration::from_ns(260);
    let network = network(delay);
    let wire = setup(network.clone()).wire;
    let pfc = Pfc { xoff: bytes(3000), ..Pfc::default() };
    assert_eq!(pfc.headroom(network.link(LinkId(0)), &wire).get(), 6002);
    // Later pauses do not meet the worst case, but they also overflow half of the headroom.
    let lost = |headroom| {
        let (dropped, log) = run::<Plain>(delay, Pfc { headroom, ..pfc.clone() }, ns(1_199));
        let first = log.dropped.iter().filter(|(at, ..)| *at < ns(13_000)).count();
        assert_eq!(dropped == 0, first == 0);
        first
    };
    assert_eq!(lost(None), 0);
    assert_eq!(lost(bytes(6000)), 0);
    assert_eq!(lost(bytes(5999)), 1);
    assert_eq!(lost(bytes(6002 / 2)), 2);
}
