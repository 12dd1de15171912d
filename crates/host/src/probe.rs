//! For the tests of this crate: a transport that sends every packet once and never retransmits, and an in-memory network.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use flowloom_core::{
    Bytes, Duration, Ecn, Endpoint, Event, Flow, FlowId, Nic, NoControl, NodeId, Packet, PortSite, Site, Time, Transport,
    WireProfile, wire_format,
};
use flowloom_transports::disciplines::DropTail;

use crate::datagrams::{Arrival, Datagrams};

wire_format! {
    /// Two kinds of packets, whose headers differ in length.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// A part of a flow of this size.
        Data {
            /// The size in bytes.
            size: u32,
        },
        /// The receiver has all parts.
        Done,
    }
}

/// Packet sizes over IPv4 with an MTU of 1500 B.
pub const WIRE: WireProfile =
    WireProfile { name: "udp", full: Bytes::new(1500), overhead: Bytes::new(91), control: Bytes::new(91) };

/// The transport.
pub enum Probe {}

impl Transport for Probe {
    const NAME: &'static str = "probe";
    const ABOUT: &'static str = "sends every packet once";
    const NIC: Nic = Nic::Pulled;
    /// The period of the endpoint's timer, if it has one.
    type Config = Option<Duration>;
    type Header = Header;
    type Host = ProbeHost;
    type Port = DropTail;
    type Control = NoControl<Header>;
    fn host(config: &Option<Duration>, site: &Site<'_>) -> ProbeHost {
        ProbeHost {
            node: site.node,
            wire: site.wire,
            period: *config,
            next: config.map_or(Time::MAX, |period| Time::ZERO + period),
            woken: Vec::new(),
            missing: HashMap::new(),
            packets: VecDeque::new(),
            events: VecDeque::new(),
        }
    }
    fn port(_: &Option<Duration>, site: &PortSite<'_>) -> DropTail {
        DropTail::new(site.memory.bytes())
    }
}

/// Its endpoint.
pub struct ProbeHost {
    node: NodeId,
    wire: WireProfile,
    period: Option<Duration>,
    next: Time,
    /// The times of its timeouts.
    pub woken: Vec<Time>,
    /// The payload bytes of each flow being received that have not arrived.
    missing: HashMap<FlowId, u32>,
    packets: VecDeque<Packet<Header>>,
    events: VecDeque<Event>,
}

impl Endpoint for ProbeHost {
    type Header = Header;

    /// Packet k has class k mod 8 and the ECN field with index k mod 3.
    fn open(&mut self, _: Time, flow: &Flow) {
        for number in 0..self.wire.packets(flow.size) {
            let payload = self.wire.payload_of(flow.size, number);
            self.packets.push_back(Packet {
                flow: flow.id,
                src: self.node,
                dst: flow.dst,
                size_bytes: self.wire.data_size(payload).get() as u32,
                payload_bytes: payload.get() as u32,
                offset: self.wire.payload() * number,
                class: (number % 8) as u8,
                ecn: [Ecn::NotCapable, Ecn::Capable, Ecn::Marked][(number % 3) as usize],
                retransmission: false,
                corrupt: false,
                header: Header::Data { size: flow.size.get() as u32 },
            });
        }
    }

    fn handle_packet(&mut self, _: Time, packet: &Packet<Header>) {
        let flow = packet.flow;
        match packet.header {
            Header::Data { size } => {
                let missing = self.missing.remove(&flow).unwrap_or(size) - packet.payload_bytes;
                if missing > 0 {
                    self.missing.insert(flow, missing);
                }
                self.events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
                if missing == 0 {
                    self.events.push_back(Event::Received { flow });
                    let (src, dst) = (self.node, packet.src);
                    let size_bytes = self.wire.control.get() as u32;
                    self.packets.push_back(Packet { src, dst, payload_bytes: 0, size_bytes, header: Header::Done, ..*packet });
                }
            }
            Header::Done => self.events.push_back(Event::Acknowledged { flow }),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.woken.push(now);
        self.next += self.period.expect("a timeout without a period");
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.packets.pop_front()
    }

    fn may_transmit(&self) -> bool {
        !self.packets.is_empty()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.period.map(|_| self.next)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// An in-memory network: it records what is sent, and delivers what the test puts into `arriving`.
#[derive(Default)]
pub struct MemoryNetwork {
    /// Destination, TOS byte, datagram.
    pub sent: Vec<(SocketAddr, u8, Vec<u8>)>,
    /// Sender, TOS byte, datagram.
    pub arriving: VecDeque<(SocketAddr, u8, Vec<u8>)>,
    /// Whether every datagram to send is refused for lack of buffer space.
    pub full: bool,
    /// How many were refused since the last flush.
    pub refused: u64,
    /// The timeout of the last wait.
    pub waited: Option<std::time::Duration>,
}

impl Datagrams for MemoryNetwork {
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<()> {
        if self.full {
            self.refused += 1;
        } else {
            self.sent.push((to, tos, datagram.to_vec()));
        }
        Ok(())
    }
    fn flush(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.refused))
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        Ok(self.arriving.pop_front().map(|(from, tos, datagram)| {
            buffer[..datagram.len()].copy_from_slice(&datagram);
            Arrival { from, bytes: datagram.len(), tos }
        }))
    }
    fn wait(&mut self, timeout: std::time::Duration) -> io::Result<()> {
        self.waited = Some(timeout);
        Ok(())
    }
}
