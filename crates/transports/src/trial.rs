//! Properties that every scheme must have, and what the schemes' tests have in common.

#[path = "trial/live.rs"] // also where a test includes this file by its path
mod live;
#[path = "trial/wire.rs"]
mod wire;

use std::fmt::Debug;
use std::sync::Arc;

use flowloom_core::{
    Bytes, Coflow, Duration, Endpoint, Flow, FlowId, NodeId, Packet, Paths, Placement, Rate, Routing, Site, Switching, Time,
    Transport, WireProfile, topology,
};
use flowloom_fabric::pair::{Fate, Faults, Pair, PairSetup, SentPacket};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Checked;
use crate::toolkit::Framing;
use live::live;
pub use wire::wire_format_holds;

/// A few flows between four hosts over a network that loses, duplicates and delays packets.
#[derive(Clone, Debug)]
pub struct Trial {
    flows: Vec<Flow>,
    faults: Faults,
    seed: u64,
    rate: Rate,
}

/// Up to a dozen flows at 1, 10 or 40 Gb/s, with up to 30 % of packets lost.
pub fn trials() -> impl Strategy<Value = Trial> {
    let flows = prop::collection::vec((0_u32..4, 1_u32..4, 0_u64..200_000, 0_u64..100), 1..12);
    let faults = (0.0..0.3, 0.0..0.2, 0.0..0.3);
    (flows, faults, any::<u64>(), prop::sample::select(vec![1_u64, 10, 40])).prop_map(
        |(flows, (loss, duplicate, reorder), seed, gbps)| Trial {
            flows: (0..).zip(flows).map(|(id, ends)| drawn(id, ends)).collect(),
            faults: Faults { loss, duplicate, reorder, late: Duration::from_us(100) },
            seed,
            rate: Rate::from_gbps(gbps),
        },
    )
}

fn drawn(id: u32, (src, hop, size, start_us): (u32, u32, u64, u64)) -> Flow {
    let start = Time::ZERO + Duration::from_us(start_us);
    let deadline = id.is_multiple_of(2).then(|| start + Duration::from_ms(1));
    let coflow =
        (!id.is_multiple_of(3)).then(|| Coflow { number: id % 3, size: Bytes::new(20_000 * u64::from(id % 3)), start });
    Flow { tenant: (id % 3) as u16, coflow, ..flow(id, src, (src + hop) % 4, size, start, deadline) }
}

/// A flow of `size` bytes.
pub fn flow(id: u32, src: u32, dst: u32, size: u64, start: Time, deadline: Option<Time>) -> Flow {
    let (src, dst, size) = (NodeId(src), NodeId(dst), Bytes::new(size));
    Flow { id: FlowId(id), src, dst, size, start, deadline, tenant: 0, coflow: None, background: false }
}

/// Loses the packets for which `is_lost` holds, for the first `count` of them.
pub fn lose<H>(count: u32, is_lost: impl Fn(&Packet<H>) -> bool + Send + 'static) -> impl FnMut(&SentPacket<H>) -> Fate + Send {
    let mut left = count;
    move |sent| {
        if left == 0 || !is_lost(&sent.packet) {
            return Fate::Pass;
        }
        left -= 1;
        Fate::Drop
    }
}

impl Trial {
    /// Asserts that every flow completes, or is given up by its source, within 20 s. The harness asserts that no byte is delivered twice.
    pub fn survive<T: Transport>(self, config: &T::Config) {
        let setup = PairSetup { hosts: 4, rate: self.rate, log: false, ..PairSetup::default() };
        let mut pair = Pair::<T>::new(config, setup);
        pair.on_packet(self.faults.hook(self.seed));
        for flow in self.flows {
            pair.open_flow(flow);
        }
        pair.run_to_end(Time::ZERO + Duration::from_ms(20_000));
    }
}

/// How many packets a host sent while it was given others.
pub struct Sent {
    /// All of them.
    pub all: u32,
    /// The most in answer to one.
    pub most: u32,
}

/// Numbers that the packets of a small flow, or the nodes of a small network, can have, and any others.
pub fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![0_u32..16, any::<u32>()]
}

/// The number of a packet and the number of packets of its flow.
pub fn places() -> impl Strategy<Value = (u32, u32)> {
    (numbers(), numbers()).prop_filter("numbers are below the count", |(number, packets)| number < packets)
}

/// Up to 100 packets without payload from host 1 to host 0, of three flows, each up to `longest_us` after the one before.
pub fn attacks<H: Debug>(
    wire: WireProfile,
    longest_us: u64,
    header: impl Strategy<Value = H>,
) -> impl Strategy<Value = Vec<(Duration, Packet<H>)>> {
    let framing = Framing::new(NodeId(1), &wire);
    let packet =
        move |(header, id, pause_ns)| (Duration::from_ns(1 + pause_ns), framing.control(FlowId(id), NodeId(0), header));
    prop::collection::vec((header, 0_u32..3, 0..longest_us * 1000).prop_map(packet), 1..100)
}

/// Two hosts at a switch, and the control host, if the transport has one.
pub fn two_hosts<T: Transport>(config: &T::Config) -> Paths {
    let mut network = topology::single_switch(2, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
    if T::placement(config) == Placement::ExtraHost {
        network.add_control_host("arbiter");
    }
    Paths::new(Arc::new(network), Routing::Ecmp, 1)
}

/// What a node knows of a network in which each flow has one path.
pub fn site(paths: &Paths, node: NodeId, wire: WireProfile) -> Site<'_> {
    Site { node, network: paths.network(), wire, seed: 1, reorders: false, paths: Some(paths) }
}

/// Assails the host 0 of two at a switch, whose `own` flows go to host 1.
pub fn assail<T: Transport<Header: Debug>>(
    config: &T::Config,
    wire: WireProfile,
    own: &[Flow],
    packets: impl IntoIterator<Item = (Duration, Packet<T::Header>)>,
) -> Result<Sent, TestCaseError> {
    assail_endpoint(&mut T::host(config, &site(&two_hosts::<T>(config), NodeId(0), wire)), own, packets)
}

/// The most memory that an endpoint may keep for a packet, on average, besides that for its own flows.
const KEPT_PER_PACKET: isize = 1024;
/// What an endpoint may keep for the first packet.
const KEPT_AT_FIRST: isize = 8192;

/// Opens the endpoint's `own` flows and gives it packets. Each comes a span after the one before, and timers expire in between. Asserts
/// that the endpoint sends only what its flows have, that it keeps little memory for each packet, whatever numbers the packet has, and that
/// its timers then lie in the future.
pub fn assail_endpoint<E: Endpoint<Header: Debug>>(
    host: &mut E,
    own: &[Flow],
    packets: impl IntoIterator<Item = (Duration, Packet<E::Header>)>,
) -> Result<Sent, TestCaseError> {
    let largest = own.iter().map(|flow| flow.size).max().unwrap_or_default();
    for flow in own {
        host.open(Time::ZERO, flow);
    }
    let mut sent = Sent { all: 0, most: 0 };
    let transmit = |host: &mut E, now: Time| {
        let mut count = 0;
        while let Some(packet) = host.poll_transmit(now) {
            prop_assert!(packet.offset + packet.payload() <= largest, "{:?}", packet);
            count += 1;
        }
        Ok(count)
    };
    let expire = |host: &mut E, now: Time| {
        let mut count = 0;
        for timers in 0.. {
            let Some(due) = host.poll_timeout().filter(|at| *at <= now) else { break };
            prop_assert!(timers < 100_000, "timers without end at {}", due);
            host.handle_timeout(due);
            count += transmit(host, due)?;
        }
        Ok(count)
    };
    let mut now = Time::ZERO;
    let mut most = KEPT_AT_FIRST + live();
    for (pause, packet) in packets {
        now += pause;
        sent.all += expire(host, now)?;
        host.handle_packet(now, &packet);
        let answers = transmit(host, now)? + expire(host, now)?;
        sent = Sent { all: sent.all + answers, most: sent.most.max(answers) };
        while host.poll_event().is_some() {}
        prop_assert!(host.poll_timeout().is_none_or(|at| at > now));
        most += KEPT_PER_PACKET;
        prop_assert!(live() <= most, "{} B too many after {:?}", live() - most, packet);
    }
    Ok(sent)
}

/// Checks a configuration. The error is the name of the key that is refused.
pub fn refused<C: Checked + DeserializeOwned>(text: &str) -> Result<(), String> {
    let config: C = toml::from_str(text).unwrap();
    config.check().map_err(|why| why.split(':').next().unwrap().to_owned())
}

/// The default configuration as text. Asserts that this text, and an empty one, read back as the default.
pub fn default_text<C: Default + PartialEq + Debug + Serialize + DeserializeOwned>() -> String {
    let text = toml::to_string(&C::default()).unwrap();
    assert_eq!(toml::from_str::<C>(&text).unwrap(), C::default());
    assert_eq!(toml::from_str::<C>("").unwrap(), C::default());
    text
}
