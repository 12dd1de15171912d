//! Strict priority among up to eight classes.

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, PacketId, Pool, PortCall, Time};

use super::classes::{ClassSet, Classes, limit};

/// How classes divide a port's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// One limit for all classes. A packet that does not fit is dropped, whatever its class.
    Shared(Bytes),
    /// One limit for all classes. A packet that does not fit pushes out the newest packets of worse classes, the worst class first. If
    /// that does not make enough room, the packet is dropped and nothing is pushed out.
    PushOut(Bytes),
    /// Each class has this limit.
    PerClass(Bytes),
}

/// Strict priority: [`Packet::class`](flowloom_core::Packet::class) 0 leaves first, in order of arrival within a class. Classes
/// beyond the last are treated as the last.
#[derive(Clone, Debug)]
#[repr(C)] // fields that every packet uses come first
pub struct StrictPriority {
    per_class: bool,
    push_out: bool,
    limit: u32,
    classes: Classes,
}

impl StrictPriority {
    /// # Panics
    /// If there is no class, if there are more than eight, or the limit is 2 GiB or more.
    pub fn new(classes: u8, buffer: Buffer) -> StrictPriority {
        let (Buffer::Shared(memory) | Buffer::PushOut(memory) | Buffer::PerClass(memory)) = buffer;
        StrictPriority {
            per_class: matches!(buffer, Buffer::PerClass(_)),
            push_out: matches!(buffer, Buffer::PushOut(_)),
            limit: limit(memory),
            classes: Classes::new(classes),
        }
    }

    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(u64::from(self.classes.total()))
    }

    /// Makes room for `size` bytes of `class` by dropping packets of worse classes, if that is possible.
    #[cold]
    fn push_out<H>(&mut self, call: &mut PortCall<'_, H, ()>, class: usize, size: u32) -> bool {
        let worse: u32 = self.classes.used()[class + 1..].iter().sum();
        if self.classes.total() - worse + size > self.limit {
            return false;
        }
        while self.classes.total() + size > self.limit {
            // Worse classes hold enough, so the worst one is among them.
            let victim = self.classes.pop_newest(call.pool).expect("worse classes hold packets");
            call.drop(victim, DropReason::PushedOut);
        }
        true
    }
}

impl<H> Discipline<H> for StrictPriority {
    type Shared = ();

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) {
        let arrival = &call.pool[packet];
        let size = arrival.size_bytes;
        let class = self.classes.class_of(arrival);
        let held = if self.per_class { self.classes.used()[class] } else { self.classes.total() };
        if held + size > self.limit && !(self.push_out && self.push_out(call, class, size)) {
            call.drop(packet, DropReason::Overflow);
            return;
        }
        self.classes.push(class, size, packet, call.pool);
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, ()>, packet: PacketId) -> bool {
        self.classes.is_empty() && call.pool[packet].size_bytes <= self.limit
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, ()>) -> Dequeue {
        self.classes.pop(call.pool, ClassSet::NONE).map_or(Dequeue::Idle, |(_, packet)| Dequeue::Packet(packet))
    }

    /// An empty port asks for no service. The NIC of a `Nic::Pulled` endpoint is served after each packet, and is mostly empty then.
    #[inline]
    fn ready_at(&self, free_at: Time) -> Time {
        if self.classes.is_empty() { Time::MAX } else { free_at }
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.classes.ids(pool).for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disciplines::rig::{Rig, packet};

    #[test]
    fn the_best_class_leaves_first_and_order_is_kept_within_it() {
        let mut rig = Rig::new(StrictPriority::new(3, Buffer::Shared(Bytes::new(36_864))));
        for (flow, class) in [(0, 2), (1, 1), (2, 2), (3, 0), (4, 1), (5, 7)] {
            rig.enqueue(packet(flow, class, 1500));
        }
        assert_eq!(rig.drain(), [3, 1, 4, 0, 2, 5]);
    }

    #[test]
    fn an_empty_port_asks_for_no_service() {
        let mut rig = Rig::new(StrictPriority::new(2, Buffer::Shared(Bytes::new(3000))));
        let free_at = Time::from_ps(7);
        assert_eq!(Discipline::<()>::ready_at(rig.port(), free_at), Time::MAX);
        rig.enqueue(packet(0, 1, 1500));
        assert_eq!(Discipline::<()>::ready_at(rig.port(), free_at), free_at);
    }

    #[test]
    fn without_push_out_a_full_port_drops_whatever_comes() {
        let mut rig = Rig::new(StrictPriority::new(2, Buffer::Shared(Bytes::new(3000))));
        for (flow, class) in [(0, 1), (1, 1), (2, 0)] {
            rig.enqueue(packet(flow, class, 1500));
        }
        assert_eq!(rig.dropped(), [(2, DropReason::Overflow)]);
        assert_eq!(rig.drain(), [0, 1]);
    }

    #[test]
    fn only_a_packet_that_fits_passes() {
        for buffer in [Buffer::Shared, Buffer::PushOut, Buffer::PerClass] {
            let port = || Rig::new(StrictPriority::new(2, buffer(Bytes::new(1500))));
            assert!(port().pass(packet(0, 1, 1500)));
            assert!(!port().pass(packet(0, 1, 1501)));
        }
    }

    #[test]
    fn a_class_of_its_own_limit_does_not_touch_the_others() {
        let mut rig = Rig::new(StrictPriority::new(2, Buffer::PerClass(Bytes::new(1500))));
        for (flow, class) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
            rig.enqueue(packet(flow, class, 1500));
        }
        assert_eq!(rig.dropped(), [(1, DropReason::Overflow), (3, DropReason::Overflow)]);
        assert_eq!(rig.drain(), [2, 0]);
    }

    #[test]
    fn the_newest_of_the_worst_class_gives_way_until_the_arrival_fits() {
        let mut rig = Rig::new(StrictPriority::new(3, Buffer::PushOut(Bytes::new(3000))));
        for (flow, class, size) in [(0, 2, 1000), (1, 2, 100), (2, 1, 1000), (3, 2, 100), (4, 1, 800)] {
            rig.enqueue(packet(flow, class, size));
        }
        // 3000 of 3000 are used. 1300 need flows 3, 1 and 0 (1200) and then one of class 1: its newest.
        rig.enqueue(packet(5, 0, 1300));
        let why = DropReason::PushedOut;
        assert_eq!(rig.dropped(), [(3, why), (1, why), (0, why), (4, why)]);
        // A packet of the worst class finds no worse class, and a packet that could not fit pushes nothing out.
        rig.enqueue(packet(8, 2, 100));
        rig.enqueue(packet(6, 2, 1000));
        rig.enqueue(packet(7, 1, 1800));
        assert_eq!(rig.dropped(), [(6, DropReason::Overflow), (7, DropReason::Overflow)]);
        assert_eq!(rig.drain(), [5, 2, 8]);
        assert_eq!(rig.port().used(), Bytes::ZERO);
    }

    /// A reference model: the same rules on a plain list of (flow, class, size) in order of arrival.
    #[derive(Default)]
    struct Model(Vec<(u32, u8, u32)>);
    impl Model {
        fn enqueue(&mut self, arrival: (u32, u8, u32), limit: u32) -> Vec<u32> {
            let bytes = |keep: &dyn Fn(u8) -> bool| -> u32 {
                self.0.iter().filter(|(_, class, _)| keep(*class)).map(|(_, _, size)| size).sum()
            };
            if bytes(&|class| class <= arrival.1) + arrival.2 > limit {
                return vec![arrival.0];
            }
            let mut victims = Vec::new();
            while self.0.iter().map(|(_, _, size)| size).sum::<u32>() + arrival.2 > limit {
                let (index, _) = self.0.iter().enumerate().max_by_key(|(index, (_, class, _))| (*class, *index)).unwrap();
                victims.push(self.0.remove(index).0);
            }
            self.0.push(arrival);
            victims
        }
        fn dequeue(&mut self) -> Option<u32> {
            let (index, _) = self.0.iter().enumerate().min_by_key(|(index, (_, class, _))| (*class, *index))?;
            Some(self.0.remove(index).0)
        }
    }

    proptest! {
        #[test]
        fn push_out_agrees_with_a_plain_list(steps in prop::collection::vec((any::<bool>(), 0_u8..8, 40_u32..1500), 0..200)) {
            let limit = 6000;
            let mut rig = Rig::new(StrictPriority::new(8, Buffer::PushOut(Bytes::new(limit.into()))));
            let mut model = Model::default();
            for (flow, (add, class, size)) in (0..).zip(steps) {
                prop_assert_eq!(rig.pass(packet(flow, class, size)), model.0.is_empty());
                if add {
                    rig.enqueue(packet(flow, class, size));
                    let dropped: Vec<u32> = rig.dropped().into_iter().map(|(flow, _)| flow).collect();
                    prop_assert_eq!(dropped, model.enqueue((flow, class, size), limit));
                } else {
                    prop_assert_eq!(rig.dequeue().map(|packet| packet.flow.0), model.dequeue());
                }
                prop_assert_eq!(rig.packets(), model.0.len());
                prop_assert_eq!(rig.port().used().get(), model.0.iter().map(|(_, _, size)| u64::from(*size)).sum::<u64>());
            }
        }
    }
}
