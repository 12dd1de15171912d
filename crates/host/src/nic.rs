//! The emulated NIC: an egress port that sends at the line rate.

use std::collections::VecDeque;

use flowloom_core::driver::{LinkLayer, Ports};
use flowloom_core::{
    Bytes, DropReason, LinkId, Memory, NodeId, Packet, PacketId, Pool, PortNumber, PortSite, Rate, Site, Time, Transport, mix,
};

/// The only port.
const NIC: LinkId = LinkId(0);

/// The link of an emulated NIC. What it has sent waits to be written to the network.
struct Link<H> {
    now: Time,
    /// The packets queued in the port, and no others.
    pool: Pool<H>,
    busy_until: Time,
    sent: VecDeque<Packet<H>>,
    dropped: u64,
}

impl<H: Copy> LinkLayer<H> for Link<H> {
    type Line = ();
    type Books = ();

    fn now(&self) -> Time {
        self.now
    }
    fn pool(&mut self) -> &mut Pool<H> {
        &mut self.pool
    }
    fn busy_until(&self, _: LinkId) -> Time {
        self.busy_until
    }
    fn node((): &()) -> NodeId {
        NodeId(0)
    }
    fn sibling(&self, (): &(), _: PortNumber) -> LinkId {
        NIC
    }
    fn route(&mut self, _: LinkId, (): &(), _: PacketId) -> LinkId {
        NIC
    }
    fn transmit(&mut self, _: LinkId, rate: Rate, (): &(), (): &mut (), id: PacketId) -> Time {
        let packet = self.pool[id];
        self.pool.remove(id);
        self.busy_until = self.now + rate.transmit_time(packet.size());
        self.sent.push_back(packet);
        self.busy_until
    }
    fn schedule_service(&mut self, _: LinkId, _: Time) {
        // The driver asks for `EmulatedNic::next_service`.
    }
    fn drop_packet(&mut self, _: LinkId, (): &mut (), id: PacketId, _: DropReason) {
        self.dropped += 1;
        self.pool.remove(id);
    }
}

/// One node's egress port and the packets queued there.
pub struct EmulatedNic<T: Transport> {
    ports: Ports<T::Header, T::Port, Link<T::Header>>,
}

impl<T: Transport> EmulatedNic<T> {
    /// The port of `site.node`'s first link.
    pub fn new(config: &T::Config, site: &Site<'_>, buffer: Bytes) -> EmulatedNic<T> {
        let link = site.network.ports(site.node)[0];
        let memory = Memory::PerPort(buffer);
        // The endpoint draws from the stream of `site.seed`.
        let port_site = PortSite { link, network: site.network, wire: site.wire, memory, seed: mix(site.seed) };
        let below = Link { now: Time::ZERO, pool: Pool::default(), busy_until: Time::ZERO, sent: VecDeque::new(), dropped: 0 };
        let mut ports = Ports::new(below, vec![T::shared(config, site)]);
        ports.push(T::port(config, &port_site), site.network.link(link).from_port, site.line_rate(), (), ());
        ports.start(NIC);
        EmulatedNic { ports }
    }

    /// Sets the current time, which must not decrease.
    pub fn set_now(&mut self, now: Time) {
        self.ports.link_layer.now = now;
    }

    /// Whether the NIC takes a packet from a [`Nic::Pulled`](flowloom_core::Nic::Pulled) endpoint now. If not because it is busy, it must be
    /// served when it is free.
    pub fn takes_packet(&mut self) -> bool {
        let wanted = self.ports.wants_packet(NIC);
        if !wanted {
            self.ports.schedule_pull(NIC);
        }
        wanted
    }

    /// When [`EmulatedNic::serve`] must be called next.
    pub fn next_service(&self) -> Option<Time> {
        Some(self.ports.serve_at(NIC)).filter(|at| *at < Time::MAX)
    }

    /// Sends the next packet if the link is free.
    pub fn serve(&mut self) {
        self.ports.serve_now(NIC);
    }

    /// Queues a packet of the endpoint.
    pub fn enqueue(&mut self, packet: Packet<T::Header>) {
        let id = self.ports.link_layer.pool.insert(packet);
        self.ports.enqueue(NIC, id, PortNumber::LOCAL);
    }

    /// The next packet that left the NIC, oldest first.
    pub fn poll_sent(&mut self) -> Option<Packet<T::Header>> {
        self.ports.link_layer.sent.pop_front()
    }

    /// Packets that the port has dropped.
    pub fn dropped(&self) -> u64 {
        self.ports.link_layer.dropped
    }
}
