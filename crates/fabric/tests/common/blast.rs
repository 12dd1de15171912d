//! A minimal transport: a flow is sent back to back, the receiver reports what arrives, and one packet acknowledges the whole flow.
//!
//! Tests add a field of their own to its header ([`Scheme::Extra`]) and choose the discipline of its ports.

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;

use flowloom_core::{
    AbortReason, Bytes, Discipline, Ecn, Endpoint, Event, Flow, FlowId, Layout, Nic, NoControl, NodeId, Packet, PortSite, Site,
    Time, Transport, Wire, WireProfile,
};

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Part of a flow of this size.
    Data(Bytes),
    /// The answer to a data packet; `true` if the receiver has the whole flow.
    Ack(bool),
    /// The payload of the packet at this offset was cut off and must be sent again.
    Nack(Bytes),
    /// A packet of the test's own scheme.
    #[default]
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header<X> {
    pub kind: Kind,
    pub extra: X,
}

/// These headers never leave the simulator.
impl<X: Copy + Send> Wire for Header<X> {
    const LAYOUT: Layout = Layout::Fields(&[]);
    const MAX_BYTES: usize = 0;
    fn encode(&self, _: &mut [u8]) -> usize {
        0
    }
    fn decode(_: &[u8]) -> Option<(Self, usize)> {
        None
    }
}

struct Sending {
    flow: Flow,
    class: u8,
    next: u64,
}

struct Receiving {
    missing: u64,
    arrived: Vec<bool>,
}

/// The endpoint. Flows are sent in the order in which they were opened, and control packets before data.
pub struct Blaster<X> {
    pub wire: WireProfile,
    node: NodeId,
    /// Whether every data packet is answered, not only the last one.
    echo: bool,
    sending: VecDeque<Sending>,
    sent: HashMap<FlowId, Flow>,
    receiving: HashMap<FlowId, Receiving>,
    control: VecDeque<Packet<Header<X>>>,
    again: VecDeque<Packet<Header<X>>>,
    events: VecDeque<Event>,
}

impl<X: Copy + Default> Blaster<X> {
    pub fn new(site: &Site<'_>, echo: bool) -> Self {
        Blaster {
            wire: site.wire,
            node: site.node,
            echo,
            sending: VecDeque::new(),
            sent: HashMap::new(),
            receiving: HashMap::new(),
            control: VecDeque::new(),
            again: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Opens a flow whose data packets have this class.
    pub fn open_in(&mut self, flow: &Flow, class: u8) {
        self.expect(flow);
        self.sending.push_back(Sending { flow: *flow, class, next: 0 });
    }

    /// Gives up a flow from here, unless all of it is acknowledged.
    pub fn abort(&mut self, flow: FlowId, reason: AbortReason) {
        self.sending.retain(|sending| sending.flow.id != flow);
        if self.sent.remove(&flow).is_some() {
            self.events.push_back(Event::Aborted { flow, reason });
        }
    }

    /// Registers a flow that the scheme sends itself, so that its last acknowledgement is reported.
    pub fn expect(&mut self, flow: &Flow) {
        self.sent.insert(flow.id, *flow);
    }

    /// Queues a packet without payload, which is sent before any data.
    pub fn control(&mut self, flow: FlowId, dst: NodeId, kind: Kind, extra: X) {
        let size_bytes = self.wire.control.get() as u32;
        let packet = Packet {
            flow,
            src: self.node,
            dst,
            size_bytes,
            payload_bytes: 0,
            offset: Bytes::ZERO,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            header: Header { kind, extra },
        };
        self.control.push_back(packet);
    }

    /// Packet number `index` of a flow.
    pub fn data(&self, flow: &Flow, index: u64, class: u8) -> Packet<Header<X>> {
        let payload = self.wire.payload_of(flow.size, index);
        Packet {
            flow: flow.id,
            src: self.node,
            dst: flow.dst,
            size_bytes: self.wire.data_size(payload).get() as u32,
            payload_bytes: payload.get() as u32,
            offset: self.wire.payload() * index,
            class,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            header: Header { kind: Kind::Data(flow.size), extra: X::default() },
        }
    }

    fn receive(&mut self, packet: &Packet<Header<X>>, size: Bytes) {
        if packet.payload_bytes == 0 && size > Bytes::ZERO {
            return self.control(packet.flow, packet.src, Kind::Nack(packet.offset), packet.header.extra);
        }
        let packets = self.wire.packets(size);
        let receiving =
            self.receiving.entry(packet.flow).or_insert(Receiving { missing: packets, arrived: vec![false; packets as usize] });
        let index = packet.offset.get() / self.wire.payload().get();
        let new = !std::mem::replace(&mut receiving.arrived[index as usize], true);
        receiving.missing -= u64::from(new);
        let complete = receiving.missing == 0;
        if new && packet.payload_bytes > 0 {
            self.events.push_back(Event::Delivered { flow: packet.flow, offset: packet.offset, bytes: packet.payload() });
        }
        if new && complete {
            self.events.push_back(Event::Received { flow: packet.flow });
        }
        if self.echo || (new && complete) {
            self.control(packet.flow, packet.src, Kind::Ack(complete), packet.header.extra);
        }
    }
}

impl<X: Copy + Default + Send> Endpoint for Blaster<X> {
    type Header = Header<X>;

    fn open(&mut self, _: Time, flow: &Flow) {
        self.open_in(flow, flow.tenant as u8);
    }

    fn handle_packet(&mut self, _: Time, packet: &Packet<Header<X>>) {
        match packet.header.kind {
            Kind::Data(size) => self.receive(packet, size),
            Kind::Ack(true) => {
                if self.sent.remove(&packet.flow).is_some() {
                    self.events.push_back(Event::Acknowledged { flow: packet.flow });
                }
            }
            Kind::Nack(offset) => {
                if let Some(flow) = self.sent.get(&packet.flow) {
                    let data = self.data(flow, offset.get() / self.wire.payload().get(), flow.tenant as u8);
                    self.again.push_back(Packet { retransmission: true, ..data });
                }
            }
            Kind::Ack(false) | Kind::Other => {}
        }
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header<X>>> {
        if let Some(packet) = self.control.pop_front().or_else(|| self.again.pop_front()) {
            return Some(packet);
        }
        let Sending { flow, class, next } = self.sending.front()?;
        let packet = self.data(flow, *next, *class);
        if next + 1 == self.wire.packets(flow.size) {
            self.sending.pop_front();
        } else {
            self.sending[0].next += 1;
        }
        Some(packet)
    }

    fn may_transmit(&self) -> bool {
        !(self.control.is_empty() && self.again.is_empty() && self.sending.is_empty())
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// What a test adds to the transport.
pub trait Scheme: 'static {
    const NIC: Nic = Nic::Pulled;
    /// Whether every data packet is answered, with the `extra` field of its header.
    const ECHO: bool = false;
    type Config: Clone + Default + std::fmt::Debug + Send + Sync;
    type Extra: Copy + Default + Send + std::fmt::Debug + 'static;
    type Port: Discipline<Header<Self::Extra>> + 'static;
    fn port(config: &Self::Config, site: &PortSite<'_>) -> Self::Port;
}

pub struct Blast<S>(PhantomData<S>);

impl<S: Scheme> Transport for Blast<S> {
    const NAME: &'static str = "blast";
    const ABOUT: &'static str = "sends back to back";
    const NIC: Nic = S::NIC;
    type Config = S::Config;
    type Header = Header<S::Extra>;
    type Host = Blaster<S::Extra>;
    type Port = S::Port;
    type Control = NoControl<Header<S::Extra>>;

    fn host(_: &S::Config, site: &Site<'_>) -> Self::Host {
        Blaster::new(site, S::ECHO)
    }
    fn port(config: &S::Config, site: &PortSite<'_>) -> S::Port {
        S::port(config, site)
    }
}

/// The transport with first-in first-out ports.
pub enum Plain {}

impl Scheme for Plain {
    type Config = ();
    type Extra = ();
    type Port = flowloom_transports::disciplines::DropTail;
    fn port((): &(), site: &PortSite<'_>) -> Self::Port {
        flowloom_transports::disciplines::DropTail::new(site.memory.bytes())
    }
}

/// As [`Plain`], with hosts that put all packets into their NIC's queue at once.
pub enum PlainQueued {}

impl Scheme for PlainQueued {
    const NIC: Nic = Nic::Queued;
    type Config = ();
    type Extra = ();
    type Port = flowloom_transports::disciplines::DropTail;
    fn port((): &(), site: &PortSite<'_>) -> Self::Port {
        flowloom_transports::disciplines::DropTail::new(site.memory.bytes())
    }
}
