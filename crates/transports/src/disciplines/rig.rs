//! Drives the ports of one node in a test.

use flowloom_core::{
    Bytes, Dequeue, Discipline, DropReason, Ecn, Effects, FlowId, NodeId, Onward, Packet, Pool, PortCall, PortNumber, Rate,
    Time,
};

/// A packet of `size` bytes. Its flow identifies it.
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

/// Ports with everything that a driver gives them. Calls go to one port: the first, unless [`Rig::at`] selects another.
pub(crate) struct Rig<H, D: Discipline<H>> {
    ports: Vec<D>,
    current: usize,
    pub(crate) shared: D::Shared,
    /// The time of calls; zero until a test changes it.
    pub(crate) now: Time,
    pool: Pool<H>,
    effects: Effects,
}

impl<H, D: Discipline<H>> Rig<H, D> {
    /// One port.
    pub(crate) fn new(port: D) -> Self {
        Self::node(vec![port])
    }

    /// The ports of a node.
    pub(crate) fn node(ports: Vec<D>) -> Self {
        let (pool, effects) = (Pool::default(), Effects::default());
        Rig { ports, current: 0, shared: D::Shared::default(), now: Time::ZERO, pool, effects }
    }

    /// Directs calls to this port from now on.
    pub(crate) fn at(&mut self, port: usize) -> &mut Self {
        self.current = port;
        self
    }

    /// The port that calls go to.
    pub(crate) fn port(&self) -> &D {
        &self.ports[self.current]
    }

    fn call<R>(&mut self, run: impl FnOnce(&mut D, &mut PortCall<'_, H, D::Shared>) -> R) -> R {
        let mut call = PortCall {
            now: self.now,
            pool: &mut self.pool,
            shared: &mut self.shared,
            number: PortNumber(self.current as u16),
            ingress: PortNumber::LOCAL,
            rate: Rate::from_gbps(10),
            effects: &mut self.effects,
        };
        run(&mut self.ports[self.current], &mut call)
    }

    pub(crate) fn enqueue(&mut self, packet: Packet<H>) {
        let id = self.pool.insert(packet);
        self.call(|port, call| port.enqueue(call, id));
    }

    /// Whether a packet that finds the port free may leave at once. The port does not keep it.
    pub(crate) fn pass(&mut self, packet: Packet<H>) -> bool {
        let id = self.pool.insert(packet);
        let passes = self.call(|port, call| port.pass(call, id));
        self.pool.remove(id);
        passes
    }

    /// The packet as it leaves, if it finds the port free and may leave at once.
    pub(crate) fn passed(&mut self, packet: Packet<H>) -> Option<Packet<H>>
    where
        H: Copy,
    {
        let id = self.pool.insert(packet);
        let passes = self.call(|port, call| port.pass(call, id));
        let packet = self.pool[id];
        self.pool.remove(id);
        passes.then_some(packet)
    }

    /// The next packet out, or when to ask again: [`Time::MAX`] if the port has nothing to send.
    pub(crate) fn serve(&mut self) -> Result<Packet<H>, Time>
    where
        H: Copy,
    {
        match self.call(D::dequeue) {
            Dequeue::Packet(id) => {
                let packet = self.pool[id];
                self.pool.remove(id);
                Ok(packet)
            }
            Dequeue::Idle => Err(Time::MAX),
            Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => Err(at),
        }
    }

    /// The next packet out of a port that never makes packets wait.
    pub(crate) fn dequeue(&mut self) -> Option<Packet<H>>
    where
        H: Copy,
    {
        match self.serve() {
            Ok(packet) => Some(packet),
            Err(Time::MAX) => None,
            Err(at) => panic!("not before {at}"),
        }
    }

    pub(crate) fn lose_all(&mut self) {
        self.call(D::lose_all);
    }

    /// The flows of all remaining packets, in the order in which they leave.
    pub(crate) fn drain(&mut self) -> Vec<u32>
    where
        H: Copy,
    {
        std::iter::from_fn(|| self.dequeue()).map(|packet| packet.flow.0).collect()
    }

    /// The flows of all packets that were dropped since the last call.
    pub(crate) fn dropped(&mut self) -> Vec<(u32, DropReason)> {
        let dropped = std::mem::take(&mut self.effects.dropped);
        let named = dropped.iter().map(|(id, why)| (self.pool[*id].flow.0, *why)).collect();
        for (id, _) in dropped {
            self.pool.remove(id);
        }
        named
    }

    /// All packets that were trimmed since the last call.
    pub(crate) fn trimmed(&mut self) -> Vec<Packet<H>>
    where
        H: Copy,
    {
        std::mem::take(&mut self.effects.trimmed).into_iter().map(|(id, ..)| self.pool[id]).collect()
    }

    /// Removes and returns all packets that were given to other ports since the last call.
    pub(crate) fn handed_over(&mut self) -> Vec<(Packet<H>, Onward)>
    where
        H: Copy,
    {
        let given = std::mem::take(&mut self.effects.handed_over);
        let named = given.iter().map(|(id, onward)| (self.pool[*id], *onward)).collect();
        for (id, _) in given {
            self.pool.remove(id);
        }
        named
    }

    /// How many packets were marked so far.
    pub(crate) fn marked(&self) -> u64 {
        self.effects.marked
    }

    /// How many packets are in the ports, or were dropped and not yet returned by [`Rig::dropped`].
    pub(crate) fn packets(&self) -> usize {
        self.pool.len()
    }
}
