//! D3's port: a drop-tail queue that answers rate requests as they pass.

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, Fifo, PacketId, PortCall, Rate};

use super::books::Books;
use super::capacity::Capacity;
use super::header::Header;
use super::rules::Rules;

/// One queue with a limit in bytes. A data packet that would exceed it is dropped, but if it carries a request, its header stays.
#[derive(Clone, Debug)]
pub struct Port {
    queue: Fifo,
    used: u64,
    limit: u64,
    capacity: Capacity,
    books: Books,
}

impl Port {
    /// A port that holds at most `limit`.
    pub fn new(limit: Bytes) -> Port {
        Port { queue: Fifo::default(), used: 0, limit: limit.get(), capacity: Capacity::default(), books: Books::default() }
    }
    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }
    /// The sum of the rates that it has allocated.
    pub fn allocated(&self) -> Rate {
        self.books.allocated()
    }
    /// The number of flows with an allocation.
    pub fn flows(&self) -> u64 {
        self.books.flows()
    }
    /// The sum of the rates that these flows desire.
    #[cfg(test)]
    pub fn desired(&self) -> Rate {
        self.books.desired()
    }
    /// The rate that it may allocate.
    pub fn capacity(&self) -> Rate {
        self.capacity.rate()
    }

    /// Handles a packet that will be sent.
    #[inline]
    fn accept(&mut self, call: &mut PortCall<'_, Header, Rules>, packet: PacketId) {
        let size = call.pool[packet].size_bytes;
        self.capacity.arrival(call.now, size, self.used, call.rate, self.books.flows(), call.shared);
        if let Some(request) = call.pool[packet].header.request_mut() {
            self.books.handle(call.now, request, self.capacity.rate(), call.shared);
        }
    }

    /// Cuts off the payload of a data packet that does not fit, if it carries a request.
    #[cold]
    fn keep_request(call: &mut PortCall<'_, Header, Rules>, packet: PacketId) {
        if let Header::Data { packets, request: Some(request), .. } = call.pool[packet].header {
            call.pool[packet].header = Header::Request { packets, request };
            call.trim(packet, call.shared.control.get() as u32);
        }
    }
}

impl Discipline<Header> for Port {
    type Shared = Rules;

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, Rules>, packet: PacketId) {
        if self.used + u64::from(call.pool[packet].size_bytes) > self.limit {
            Self::keep_request(call, packet);
        }
        let used = self.used + u64::from(call.pool[packet].size_bytes);
        if used > self.limit {
            call.drop(packet, DropReason::Overflow);
            return;
        }
        self.accept(call, packet);
        self.used = used;
        self.queue.push(packet, call.pool);
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, Header, Rules>, packet: PacketId) -> bool {
        let passes = self.queue.is_empty() && u64::from(call.pool[packet].size_bytes) <= self.limit;
        if passes {
            self.accept(call, packet);
            self.capacity.departure(0);
        }
        passes
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, Rules>) -> Dequeue {
        let Some(packet) = self.queue.pop(call.pool) else { return Dequeue::Idle };
        self.used -= u64::from(call.pool[packet].size_bytes);
        self.capacity.departure(self.used);
        Dequeue::Packet(packet)
    }
}
