//! The emulated NIC: a port like any other, that sends at the line rate.

use flowloom_core::{
    Bytes, Dequeue, Discipline, Effects, LinkId, Memory, Packet, PacketId, Pool, PortCall, PortNumber, PortSite, Rate, Site,
    Time, Transport,
};

/// One node's egress port and the packets queued there.
pub struct EmulatedNic<T: Transport> {
    port: T::Port,
    shared: <T::Port as Discipline<T::Header>>::Shared,
    /// All packets in it are queued in `port`.
    pool: Pool<T::Header>,
    effects: Effects,
    number: PortNumber,
    rate: Rate,
    busy_until: Time,
    not_before: Option<Time>,
    /// It had something queued when last asked and would not send it.
    blocked: bool,
    /// Packets that the port gave up.
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

    /// Whether the wire is idle.
    pub fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now
    }

    /// Whether a pulled endpoint is to be asked for a packet.
    pub fn wants_packet(&self, now: Time) -> bool {
        self.is_idle(now) && !self.blocked
    }

    /// When it wants to be served next, later than `now`; `endpoint_has_more` says whether there may be something to send
    /// besides what is queued.
    pub fn next_service(&self, now: Time, endpoint_has_more: bool) -> Option<Time> {
        if self.busy_until > now {
            (endpoint_has_more || !self.pool.is_empty()).then_some(self.busy_until)
        } else {
            self.not_before.filter(|at| *at > now)
        }
    }

    /// Queues a packet that the endpoint made.
    pub fn enqueue(&mut self, now: Time, packet: Packet<T::Header>) {
        let id = self.pool.insert(packet);
        self.blocked = false;
        self.call(now, |port, call| port.enqueue(call, id));
    }

    /// The packet to put on the idle wire now; the wire is busy with it from now on.
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
        what: impl FnOnce(&mut T::Port, &mut PortCall<'_, T::Header, <T::Port as Discipline<T::Header>>::Shared>) -> R,
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
        let result = what(&mut self.port, &mut call);
        if self.effects.any {
            let effects = std::mem::take(&mut self.effects);
            self.dropped += effects.dropped.len() as u64;
            effects.dropped.iter().for_each(|(id, _)| self.pool.remove(*id));
        }
        result
    }
}
