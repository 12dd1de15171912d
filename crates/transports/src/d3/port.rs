//! D3's port: a drop-tail queue that answers rate requests as they pass.

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, Fifo, PacketId, Pool, PortCall, Rate};

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

    fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.queue.ids(pool).for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::d3::header::{Path, Purpose, Request};
    use crate::disciplines::rig::{Rig, with_header};

    fn rig(limit: u64) -> Rig<Header, Port> {
        Rig::new(Port::new(Bytes::new(limit)))
    }

    fn request() -> Request {
        let desired = Rate::from_gbps(1);
        Request { purpose: Purpose::Ask, named: 0, serial: 1, desired, before: Rate::default(), path: Path::default() }
    }

    fn data(flow: u32, request: Option<Request>) -> flowloom_core::Packet<Header> {
        with_header(flow, 0, 1500, Header::Data { number: 3, packets: 9, request })
    }

    #[test]
    fn a_request_gets_its_allocation_once_whether_it_waits_or_passes() {
        for waits in [false, true] {
            let mut rig = rig(36_864);
            if waits {
                rig.enqueue(data(0, Some(request())));
                let Header::Data { request: Some(request), .. } = rig.dequeue().unwrap().header else { panic!() };
                assert_eq!((request.path.hops, request.path.rates[0]), (1, Rate::from_gbps(10)));
            } else {
                assert!(rig.pass(data(0, Some(request()))));
            }
            assert_eq!((rig.port().allocated(), rig.port().flows()), (Rate::from_gbps(10), 1));
            assert_eq!(rig.port().desired(), Rate::from_gbps(1));
        }
    }

    #[test]
    fn packets_leave_in_order_and_only_those_that_fit_are_queued() {
        let mut rig = rig(3040);
        for flow in 0..3 {
            rig.enqueue(data(flow, None));
        }
        rig.enqueue(with_header(3, 0, 40, Header::Ack { cumulative: 1, number: None, answer: None }));
        assert_eq!(rig.dropped(), [(2, DropReason::Overflow)]);
        assert_eq!(rig.port().used(), Bytes::new(3040));
        assert!(!rig.pass(data(4, None)));
        assert_eq!(rig.drain(), [0, 1, 3]);
        assert_eq!(rig.port().used(), Bytes::ZERO);
        assert!(rig.pass(data(4, None)));
    }

    /// The payload of a request that does not fit is cut off, so that the allocation is made or given back.
    #[test]
    fn a_full_port_keeps_the_request_of_a_packet_and_drops_its_payload() {
        let mut rig = rig(1540);
        rig.enqueue(data(0, None));
        rig.enqueue(data(1, Some(request())));
        assert_eq!(rig.dropped(), []);
        assert_eq!(rig.port().flows(), 1);
        rig.dequeue();
        let kept = rig.dequeue().unwrap();
        assert_eq!((kept.size_bytes, kept.payload_bytes), (40, 0));
        let Header::Request { packets: 9, request } = kept.header else { panic!("{:?}", kept.header) };
        assert_eq!(request.path.hops, 1);
    }

    /// If a request is dropped, its sender never learns of the allocation.
    #[test]
    fn a_request_that_does_not_fit_at_all_is_not_booked() {
        let mut rig = rig(1500);
        rig.enqueue(data(0, None));
        rig.enqueue(data(1, Some(request())));
        assert_eq!(rig.dropped(), [(1, DropReason::Overflow)]);
        assert_eq!(rig.port().flows(), 0);
    }
}
