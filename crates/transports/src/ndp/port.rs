//! NDP's switch port (§3.1): a short queue of data, and a queue of headers that goes first.

use flowloom_core::{Dequeue, Discipline, DropReason, Fifo, NodeKind, PacketId, Pool, PortCall, PortSite};

use super::Config;
use super::header::{Header, Part};
use crate::toolkit::RandomStream;

/// Two queues, one for data and one for headers and control packets. If the data queue is full, the arriving packet or the newest one in
/// the queue is trimmed, each with probability one half, so that no sender is always the one that loses.
#[derive(Clone, Debug)]
pub struct Port {
    data: Fifo,
    headers: Fifo,
    data_packets: u32,
    data_max: u32,
    header_bytes: u64,
    header_max: u64,
    /// How many headers were sent since the last data packet, while data waited.
    in_a_row: u32,
    headers_per_data: u32,
    /// Bytes on the wire that trimming leaves.
    trimmed_bytes: u32,
    returns: bool,
    random: RandomStream,
}

impl Port {
    /// The port of a switch. A host's port never trims: its endpoint gives it a packet only when the link is free.
    pub fn new(config: &Config, site: &PortSite<'_>) -> Port {
        let at_switch = site.network.node(site.network.link(site.link).from).kind == NodeKind::Switch;
        Port {
            data: Fifo::default(),
            headers: Fifo::default(),
            data_packets: 0,
            data_max: if at_switch { config.data_queue } else { u32::MAX },
            header_bytes: 0,
            header_max: if at_switch { config.header_queue(&site.wire) } else { u64::MAX },
            in_a_row: 0,
            headers_per_data: config.headers_per_data,
            trimmed_bytes: u32::try_from(site.wire.control.get()).expect("packets are below 4 GiB"),
            returns: config.return_to_sender,
            random: RandomStream::new(site.seed),
        }
    }

    /// How many data packets wait.
    pub fn data_packets(&self) -> u32 {
        self.data_packets
    }

    /// Makes room for an arrival at a full data queue, by trimming it or the newest packet in the queue.
    #[cold]
    fn trim(&mut self, call: &mut PortCall<'_, Header, ()>, arrival: PacketId) {
        let mut trimmed = arrival;
        if self.random.coin() {
            trimmed = self.data.pop_newest(call.pool).expect("a full queue holds a packet");
            self.data.push(arrival, call.pool);
        }
        call.trim(trimmed, self.trimmed_bytes);
        if let Header::Data { part, .. } = &mut call.pool[trimmed].header {
            *part = Part::Cut;
        }
        self.queue_header(call, trimmed);
    }

    fn queue_header(&mut self, call: &mut PortCall<'_, Header, ()>, id: PacketId) {
        let packet = &mut call.pool[id];
        let size = u64::from(packet.size_bytes);
        if self.header_bytes + size <= self.header_max {
            self.header_bytes += size;
            return self.headers.push(id, call.pool);
        }
        match &mut packet.header {
            Header::Data { part: part @ Part::Cut, .. } if self.returns => {
                *part = Part::Returned;
                call.send_back(id);
            }
            _ => call.drop(id, DropReason::Overflow),
        }
    }
}

impl Discipline<Header> for Port {
    type Shared = ();

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        if call.pool[packet].payload_bytes == 0 {
            self.queue_header(call, packet);
        } else if self.data_packets < self.data_max {
            self.data_packets += 1;
            self.data.push(packet, call.pool);
        } else {
            self.trim(call, packet);
        }
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        let packet = &call.pool[packet];
        if !self.data.is_empty() || !self.headers.is_empty() || u64::from(packet.size_bytes) > self.header_max {
            return false;
        }
        if packet.payload_bytes > 0 {
            self.in_a_row = 0;
        }
        true
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        let data_waits = !self.data.is_empty();
        if (!data_waits || self.in_a_row < self.headers_per_data)
            && let Some(id) = self.headers.pop(call.pool)
        {
            self.header_bytes -= u64::from(call.pool[id].size_bytes);
            self.in_a_row += u32::from(data_waits);
            return Dequeue::Packet(id);
        }
        let Some(id) = self.data.pop(call.pool) else { return Dequeue::Idle };
        self.data_packets -= 1;
        self.in_a_row = 0;
        Dequeue::Packet(id)
    }

    fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.headers.ids(pool).chain(self.data.ids(pool)).for_each(visit);
    }
}
