//! Any bytes as what a peer sends: datagrams, headers of every transport, and packets with these headers to a host or an arbitrator.
//!
//! The first byte chooses a transport and the node that the packets go to. Each packet is twelve bytes and the transport's header.

#![no_main]

use std::sync::Arc;

use flowloom_core::{
    Bytes, Duration, Ecn, Endpoint, Flow, FlowId, NodeId, Packet, Paths, Placement, Rate, Routing, Site, Switching, Time,
    Transport, Wire, WireProfile, frame, marking, topology,
};
use flowloom_transports::for_each_transport;
use libfuzzer_sys::{Corpus, fuzz_target};

const WIRE: WireProfile = WireProfile::IP_1500;
const HOST: NodeId = NodeId(0);
const PEER: NodeId = NodeId(1);
/// What an input may make a node do, so that it ends soon.
const STEPS_MOST: u32 = 20_000;
/// The largest datagram, with the largest header.
const DATAGRAM_MOST: usize = 65_536;

macro_rules! attempts {
    ($($transport:ty),* $(,)?) => { &[$(attempt::<$transport>),*] };
}

const ATTEMPTS: &[fn(u8, &[u8])] = for_each_transport!(attempts);

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((first, rest)) = data.split_first() else { return Corpus::Reject };
    let (count, first) = (ATTEMPTS.len(), usize::from(*first));
    ATTEMPTS[first % count]((first / count) as u8, rest);
    Corpus::Keep
});

fn attempt<T: Transport<Config: Default>>(node: u8, bytes: &[u8]) {
    datagram::<T>(bytes);
    let config = T::Config::default();
    let mut network = topology::single_switch(2, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
    let control = match T::placement(&config) {
        Placement::Nowhere => None,
        Placement::ExtraHost => Some(network.add_control_host("arbiter")),
        Placement::Switches => network.switches().next(),
    };
    let paths = Paths::new(Arc::new(network), Routing::Ecmp, 1);
    match control.filter(|_| node % 2 == 1) {
        Some(control) => assail::<T, _>(&mut T::control(&config, &site(&paths, control)), control, &[], bytes),
        None => assail::<T, _>(&mut T::host(&config, &site(&paths, HOST)), HOST, &own_flows(), bytes),
    }
}

fn site(paths: &Paths, node: NodeId) -> Site<'_> {
    Site { node, network: paths.network(), wire: WIRE, seed: 1, reorders: false, paths: Some(paths) }
}

/// A short flow, and one of ten packets with a deadline.
fn own_flows() -> [Flow; 2] {
    let flow = |id, size, deadline| Flow {
        id: FlowId(id),
        src: HOST,
        dst: PEER,
        size: Bytes::new(size),
        start: Time::ZERO,
        deadline,
        tenant: 0,
        coflow: None,
        background: false,
    };
    [flow(0, 1, None), flow(1, 14_600, Some(Time::ZERO + Duration::from_ms(1)))]
}

/// What a datagram is read as is written as the same datagram.
fn datagram<T: Transport>(bytes: &[u8]) {
    let Some((tos, datagram)) = bytes.split_first() else { return };
    if let Ok(frame) = frame::parse::<T>(datagram, *tos, &WIRE) {
        let mut again = vec![0; DATAGRAM_MOST];
        let length = frame::write::<T>(&frame.packet, frame.payload, &mut again);
        assert!(&again[..length] == datagram, "{datagram:?} is written as {:?}", &again[..length]);
    }
}

/// Reads a packet to `node` from the front of `bytes`, with the time that passes before it comes. Only what the UDP loop accepts is made: a
/// flow between the two nodes, whose payload comes from its source.
fn packet<T: Transport>(node: NodeId, bytes: &[u8]) -> Option<(Duration, Packet<T::Header>, &[u8])> {
    let (fixed, rest) = bytes.split_first_chunk::<12>()?;
    let [pause, flow, tos, flags, ..] = *fixed;
    let (header, length) = T::Header::decode(rest)?;
    let mut again = vec![0; T::Header::MAX_BYTES];
    let written = header.encode(&mut again);
    assert!(again[..written] == rest[..length], "{:?} is written as {:?}", &rest[..length], &again[..written]);
    let is_peers = flow >= 4;
    let payload = if is_peers { u16::from_be_bytes([fixed[4], fixed[5]]) % 1461 } else { 0 };
    let offset = u64::from_be_bytes([0, 0, fixed[6], fixed[7], fixed[8], fixed[9], fixed[10], fixed[11]]);
    let (class, ecn): (u8, Ecn) = marking::from_tos(tos);
    let packet = Packet {
        flow: FlowId(if is_peers { (PEER.0 << 20) + u32::from(flow % 4) } else { flow.into() }),
        src: if node != HOST && flags & 2 != 0 { HOST } else { PEER },
        dst: node,
        size_bytes: WIRE.data_size(Bytes::new(payload.into())).get() as u32,
        payload_bytes: payload.into(),
        offset: Bytes::new(offset),
        class,
        ecn,
        retransmission: flags & 1 != 0,
        corrupt: false,
        header,
    };
    // Up to four seconds, with all orders of magnitude alike.
    Some((Duration::from_ps(1 << (pause % 43)), packet, &rest[length..]))
}

/// Gives an endpoint packets, and calls it as a driver does. It must send only what its flows have.
fn assail<T: Transport, E: Endpoint<Header = T::Header>>(endpoint: &mut E, node: NodeId, own: &[Flow], mut bytes: &[u8]) {
    let mut now = Time::ZERO;
    let mut steps = 0;
    for flow in own {
        endpoint.open(now, flow);
    }
    settle(endpoint, now, own, &mut steps);
    while let Some((pause, packet, rest)) = packet::<T>(node, bytes) {
        bytes = rest;
        let next = now + pause;
        while let Some(due) = endpoint.poll_timeout().filter(|due| *due <= next) {
            endpoint.handle_timeout(due);
            settle(endpoint, due, own, &mut steps);
            if steps > STEPS_MOST {
                return;
            }
        }
        now = next;
        endpoint.handle_packet(now, &packet);
        settle(endpoint, now, own, &mut steps);
        if steps > STEPS_MOST {
            return;
        }
    }
}

fn settle<E: Endpoint>(endpoint: &mut E, now: Time, own: &[Flow], steps: &mut u32) {
    *steps += 1;
    while endpoint.poll_event().is_some() {}
    while let Some(packet) = endpoint.poll_transmit(now) {
        let size = own.iter().find(|flow| flow.id == packet.flow).map_or(Bytes::ZERO, |flow| flow.size);
        assert!(
            packet.payload_bytes == 0 || packet.offset + packet.payload() <= size,
            "{} B at {} of {size}",
            packet.payload_bytes,
            packet.offset
        );
        *steps += 1;
        if *steps > STEPS_MOST {
            return;
        }
    }
    assert!(endpoint.poll_timeout().is_none_or(|due| due > now), "a timer is due at {now} or before");
}
