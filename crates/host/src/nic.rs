//! The emulated NIC: an egress port that sends at the line rate.

use flowloom_core::{
    Bytes, Dequeue, Discipline, Effects, LinkId, Memory, Packet, PacketId, Pool, PortCall, PortNumber, PortSite, Rate, Site,
    Time, Transport,
};

/// One node's egress port and the packets queued there.
pub struct EmulatedNic<T: Transport> {
    port: T::Port,
    shared: <T::Port as Discipline<T::Header>>::Shared,
    /// The packets queued in `port`, and no others.
    pool: Pool<T::Header>,
    effects: Effects,
    number: PortNumber,
    rate: Rate,
    busy_until: Time,
    not_before: Option<Time>,
    /// The port had queued packets when it was last served, and sent none.
    blocked: bool,
    /// Packets that the port dropped.
    pub dropped: u64,
}

impl<T: Transport> EmulatedNic<T> {
    /// The port of `site.node`'s first link.
    pub fn new(config: &T::Config, site: &Site<'_>, buffer: Bytes) -> EmulatedNic<T> {
        let link: LinkId = site.network.ports(site.node)[0];
        let port_site = PortSite { link, network: site.network, wire: site.wire, memory: Memory::PerPort(buffer) };
        EmulatedNic {
            port: T::port(config, &port_site),
            shared: T::shared(config, site),
            pool: Pool::default(),
            effects: Effects::default(),
            number: site.network.link(link).from_port,
            rate: site.line_rate(),
            busy_until: Time::ZERO,
            not_before: None,
            blocked: false,
            dropped: 0,
        }
    }

    /// Whether the link is idle.
    pub fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now
    }

    /// Whether the NIC takes a packet from a [`Nic::Pulled`](flowloom_core::Nic::Pulled) endpoint now.
    pub fn wants_packet(&self, now: Time) -> bool {
        self.is_idle(now) && !self.blocked
    }

    /// When the NIC must be served next, later than `now`. `endpoint_has_more` tells whether the endpoint may have packets to send.
    pub fn next_service(&self, now: Time, endpoint_has_more: bool) -> Option<Time> {
        if self.busy_until > now {
            (endpoint_has_more || !self.pool.is_empty()).then_some(self.busy_until)
        } else {
            self.not_before.filter(|at| *at > now)
        }
    }

    /// Queues a packet of the endpoint.
    pub fn enqueue(&mut self, now: Time, packet: Packet<T::Header>) {
        let id = self.pool.insert(packet);
        self.blocked = false;
        self.call(now, |port, call| port.enqueue(call, id));
    }

    /// Takes the next packet to send. The link must be idle, and is busy with this packet from `now` on.
    pub fn dequeue(&mut self, now: Time) -> Option<Packet<T::Header>> {
        debug_assert!(self.is_idle(now));
        self.not_before = None;
        match self.call(now, Discipline::dequeue) {
            Dequeue::Packet(id) => {
                let packet = self.take(id);
                self.busy_until = now + self.rate.transmit_time(packet.size());
                self.blocked = false;
                Some(packet)
            }
            Dequeue::Idle => {
                self.blocked = !self.pool.is_empty();
                None
            }
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => {
                self.not_before = Some(at);
                self.blocked = false;
                None
            }
        }
    }

    fn take(&mut self, id: PacketId) -> Packet<T::Header> {
        let packet = self.pool[id];
        self.pool.remove(id);
        packet
    }

    fn call<R>(
        &mut self,
        now: Time,
        operation: impl FnOnce(&mut T::Port, &mut PortCall<'_, T::Header, <T::Port as Discipline<T::Header>>::Shared>) -> R,
    ) -> R {
        let mut call = PortCall {
            now,
            pool: &mut self.pool,
            shared: &mut self.shared,
            number: self.number,
            ingress: PortNumber::LOCAL,
            rate: self.rate,
            effects: &mut self.effects,
        };
        let result = operation(&mut self.port, &mut call);
        if self.effects.any {
            let effects = std::mem::take(&mut self.effects);
            self.dropped += effects.dropped.len() as u64;
            effects.dropped.iter().for_each(|(id, _)| self.pool.remove(*id));
        }
        result
    }
}
