//! A capture in the pcapng format, with an interface for each link.
//!
//! A packet is an Ethernet frame with an IPv4 packet and a UDP datagram of [`flowloom_core::frame`], as between real hosts; its class and its ECN field are in the TOS
//! byte ([`flowloom_core::marking`]). Payload has no content in the simulator, so that a frame is captured up to its header, and its length says how long it is. A pause
//! frame is that of IEEE 802.1Qbb.

use std::net::Ipv4Addr;

use super::{Seen, pcapng};
use flowloom_core::{Flow, LinkId, Network, NodeId, Packet, Time, marking};
use flowloom_transports::pfc::stopped_by;

/// The UDP port of a flow's destination; a dissector of the datagrams is registered for it.
const PORT: u16 = 17_996;
/// Ports from here on are those of sources.
const FIRST_SOURCE_PORT: u16 = 20_000;
const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// Ethernet's shortest frame, without its checksum.
const PAUSE_BYTES: usize = 60;

/// Writes a capture.
pub(super) struct Capture {
    out: Vec<u8>,
    /// By link, the number of its interface.
    interfaces: Vec<Option<u32>>,
    /// By link, its ends.
    ends: Vec<[NodeId; 2]>,
    /// By flow, its source.
    sources: Vec<NodeId>,
}

impl Capture {
    /// A capture on the links for which `traced`, by link, says so.
    pub fn new(network: &Network, traced: &[bool], flows: impl Iterator<Item = Option<Flow>>) -> Capture {
        let mut out = Vec::new();
        pcapng::section(&mut out);
        pcapng::names(&mut out, network.node_ids().map(|node| (address(node), network.node(node).name.as_str())));
        let mut interfaces = vec![None; traced.len()];
        let links = (0..traced.len() as u32).map(LinkId).filter(|link| traced[link.index()]);
        for (number, link) in (0..).zip(links) {
            interfaces[link.index()] = Some(number);
            pcapng::interface(&mut out, &network.link_name(link), network.link(link).rate);
        }
        let ends = network.links().iter().map(|link| [link.from, link.to]).collect();
        Capture { out, interfaces, ends, sources: flows.map(|flow| flow.map_or(NodeId::LINK, |flow| flow.src)).collect() }
    }

    /// Writes what a port did to a packet, with remarks.
    pub fn write(&mut self, now: Time, link: LinkId, number: u64, seen: &Seen<'_>, mut remarks: Vec<String>) {
        let Some(interface) = self.interfaces[link.index()] else { return };
        let packet = &seen.packet;
        let captured = match stopped_by(packet) {
            Some(stopped) => pause(packet.src, stopped.0),
            None => self.frame(link, number, seen),
        };
        if packet.corrupt {
            remarks.push("damaged".to_owned());
        }
        let length = packet.size_bytes.max(captured.len() as u32);
        if packet.size_bytes < length {
            remarks.push(format!("{} B on the link", packet.size_bytes));
        }
        pcapng::packet(&mut self.out, interface, now.as_ps() / 1000, &captured, length, number, &remarks.join("; "));
    }

    /// The bytes since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// A packet's frame, up to its payload.
    fn frame(&self, link: LinkId, number: u64, Seen { packet, head, .. }: &Seen<'_>) -> Vec<u8> {
        let [from, to] = self.ends[link.index()];
        let captured = ETHERNET_BYTES + IP_BYTES + UDP_BYTES + head.len();
        let length = (packet.size_bytes as usize).max(captured) - ETHERNET_BYTES;
        let mut frame = Vec::with_capacity(captured);
        frame.extend(mac(to));
        frame.extend(mac(from));
        frame.extend(0x0800_u16.to_be_bytes());
        frame.extend(ip(packet, number, word(length)));
        frame.extend(self.ports(packet).iter().flat_map(|port| port.to_be_bytes()));
        frame.extend(word(length - IP_BYTES).to_be_bytes());
        frame.extend([0, 0]); // no checksum, which IPv4 allows
        frame.extend_from_slice(head);
        frame
    }

    /// The UDP ports of a packet: each flow is one conversation.
    fn ports(&self, packet: &Packet<()>) -> [u16; 2] {
        let own = FIRST_SOURCE_PORT + (packet.flow.0 % u32::from(u16::MAX - FIRST_SOURCE_PORT)) as u16;
        let forward = self.sources.get(packet.flow.0 as usize).is_none_or(|source| *source == packet.src);
        if forward { [own, PORT] } else { [PORT, own] }
    }
}

/// The address of a node: 10.0.0.1 is that of node 0.
fn address(node: NodeId) -> Ipv4Addr {
    let [_, high, middle, low] = (node.0 + 1).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

/// The Ethernet address of a node, which is locally administered.
fn mac(node: NodeId) -> [u8; 6] {
    let [_, high, middle, low] = (node.0 + 1).to_be_bytes();
    [0x02, 0, 0, high, middle, low]
}

fn ip(packet: &Packet<()>, number: u64, length: u16) -> [u8; IP_BYTES] {
    let mut header = [0; IP_BYTES];
    header[0] = 0x45;
    header[1] = marking::to_tos(packet.class, packet.ecn);
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    header[6] = 0x40; // it must not be split
    header[8] = 64;
    header[9] = 17; // UDP
    header[12..16].copy_from_slice(&address(packet.src).octets());
    header[16..20].copy_from_slice(&address(packet.dst).octets());
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    header[10..12].copy_from_slice(&(!((folded & 0xFFFF) + (folded >> 16)) as u16).to_be_bytes());
    header
}

/// A length that the headers can say.
fn word(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// A pause frame: for each class, stop for as long as can be, or go on. Class 0 is the priority 7, as in DSCPs.
fn pause(from: NodeId, stopped: u8) -> Vec<u8> {
    let mut frame = vec![0; PAUSE_BYTES];
    frame[..6].copy_from_slice(&[0x01, 0x80, 0xC2, 0, 0, 0x01]);
    frame[6..12].copy_from_slice(&mac(from));
    frame[12..18].copy_from_slice(&[0x88, 0x08, 0x01, 0x01, 0x00, 0xFF]);
    for class in (0..8_usize).filter(|class| stopped >> class & 1 == 1) {
        let at = 18 + 2 * (7 - class);
        frame[at..at + 2].fill(0xFF);
    }
    frame
}
