//! Drives one port in a test.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Ecn, Effects, FlowId, NodeId, Packet, Pool, PortCall, PortNumber, Rate, Time,
};

/// A packet of `size` bytes, told from others by its flow.
pub(crate) fn packet(flow: u32, class: u8, size: u32) -> Packet<()> {
    with_header(flow, class, size, ())
}

/// The same with a header.
pub(crate) fn with_header<H>(flow: u32, class: u8, size: u32, header: H) -> Packet<H> {
    Packet {
        flow: FlowId(flow),
        src: NodeId(0),
        dst: NodeId(1),
        size_bytes: size,
        payload_bytes: size - 40,
        offset: Bytes::ZERO,
        class,
        ecn: Ecn::NotCapable,
        retransmission: false,
        corrupt: false,
        header,
    }
}

/// A port with everything it is lent.
pub(crate) struct Rig<H, D> {
    pub(crate) port: D,
    pool: Pool<H>,
    effects: Effects,
}

impl<H, D: Discipline<H, Shared = ()>> Rig<H, D> {
    pub(crate) fn new(port: D) -> Self {
        Rig { port, pool: Pool::default(), effects: Effects::default() }
    }

    fn call<R>(&mut self, run: impl FnOnce(&mut D, &mut PortCall<'_, H, ()>) -> R) -> R {
        let mut call = PortCall {
            now: Time::ZERO,
            pool: &mut self.pool,
            shared: &mut (),
            number: PortNumber(0),
            ingress: PortNumber::LOCAL,
            rate: Rate::from_gbps(10),
            effects: &mut self.effects,
        };
        run(&mut self.port, &mut call)
    }

    pub(crate) fn enqueue(&mut self, packet: Packet<H>) {
        let id = self.pool.insert(packet);
        self.call(|port, call| port.enqueue(call, id));
    }

    /// Whether a packet that finds the port free may leave at once; the port does not keep it.
    pub(crate) fn pass(&mut self, packet: Packet<H>) -> bool {
        let id = self.pool.insert(packet);
        let passes = self.call(|port, call| port.pass(call, id));
        self.pool.remove(id);
        passes
    }

    /// The next packet out.
    pub(crate) fn dequeue(&mut self) -> Option<Packet<H>>
    where
        H: Copy,
    {
        match self.call(D::dequeue) {
            Dequeue::Packet(id) => {
                let packet = self.pool[id];
                self.pool.remove(id);
                Some(packet)
            }
            Dequeue::Idle => None,
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => panic!("not before {at}"),
        }
    }

    /// The flows of all packets that are left, in the order in which they leave.
    pub(crate) fn drain(&mut self) -> Vec<u32>
    where
        H: Copy,
    {
        std::iter::from_fn(|| self.dequeue()).map(|packet| packet.flow.0).collect()
    }

    /// The flows of all packets given up since the last call.
    pub(crate) fn dropped(&mut self) -> Vec<(u32, DropReason)> {
        let dropped = std::mem::take(&mut self.effects.dropped);
        let named = dropped.iter().map(|(id, why)| (self.pool[*id].flow.0, *why)).collect();
        for (id, _) in dropped {
            self.pool.remove(id);
        }
        named
    }

    /// How many packets are in the port, or were given up and not asked for.
    pub(crate) fn packets(&self) -> usize {
        self.pool.len()
    }
}
