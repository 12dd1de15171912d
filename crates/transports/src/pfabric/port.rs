//! pFabric's switch port.

use flowloom_core::{Bytes, Dequeue, Discipline, DropReason, FlowId, PacketId, Pool, PortCall};

use super::Header;

/// A small pool of packets in order of arrival. A full port drops its worst packet. A free port sends the oldest packet of the flow
/// that has the best packet, so that a flow's own priorities neither starve nor reorder its packets.
///
/// A plain scan finds the best of some dozen packets as fast as a heap would, and a heap could neither find a flow's oldest packet nor
/// remove one from its middle. Priorities have their own array, so that the scan is a few vector instructions.
#[derive(Clone, Debug)]
pub struct PriorityDrop {
    priorities: Vec<Priority>,
    packets: Vec<(FlowId, PacketId)>,
    used: u64,
    limit: u64,
}

/// A priority number less 2³¹, because the vector units that every x86-64 has compare signed numbers only.
type Priority = i32;

fn signed(priority: u32) -> Priority {
    (priority ^ 1 << 31).cast_signed()
}

impl PriorityDrop {
    /// A port that holds at most `limit`.
    pub fn new(limit: Bytes) -> PriorityDrop {
        PriorityDrop { priorities: Vec::new(), packets: Vec::new(), used: 0, limit: limit.get() }
    }
    /// Bytes queued.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    fn remove(&mut self, index: usize) -> PacketId {
        self.priorities.remove(index);
        self.packets.remove(index).1
    }

    /// Drops the packet with the largest number, and among equal numbers the newest, until the rest fits. One drop is not always
    /// enough: a full packet may have to displace several short ones.
    #[cold]
    fn shed(&mut self, call: &mut PortCall<'_, Header, ()>, arrival: PacketId) {
        while self.used > self.limit {
            let largest = self.priorities.iter().fold(Priority::MIN, |most, priority| most.max(*priority));
            let worst = self.priorities.iter().rposition(|priority| *priority == largest).expect("a full port holds packets");
            let victim = self.remove(worst);
            self.used -= u64::from(call.pool[victim].size_bytes);
            call.drop(victim, if victim == arrival { DropReason::Overflow } else { DropReason::PushedOut });
        }
    }

    /// Removes the oldest packet of the flow with the smallest number; among equal numbers, that of the oldest packet.
    #[inline(never)]
    fn take_best(&mut self) -> PacketId {
        let smallest = self.priorities.iter().fold(Priority::MAX, |least, priority| least.min(*priority));
        let best = self.priorities.iter().position(|priority| *priority == smallest).expect("a packet");
        let flow = self.packets[best].0;
        let oldest = self.packets[..best].iter().position(|(other, _)| *other == flow).unwrap_or(best);
        self.remove(oldest)
    }
}

impl Discipline<Header> for PriorityDrop {
    type Shared = ();

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        let arrival = &call.pool[packet];
        self.used += u64::from(arrival.size_bytes);
        self.priorities.push(signed(arrival.header.priority()));
        self.packets.push((arrival.flow, packet));
        if self.used > self.limit {
            self.shed(call, packet);
        }
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) -> bool {
        self.packets.is_empty() && u64::from(call.pool[packet].size_bytes) <= self.limit
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, Header, ()>) -> Dequeue {
        // A port that was busy most often holds one packet, and needs no search.
        let packet = match self.packets[..] {
            [] => return Dequeue::Idle,
            [(_, only)] => {
                self.priorities.clear();
                self.packets.clear();
                only
            }
            _ => self.take_best(),
        };
        self.used -= u64::from(call.pool[packet].size_bytes);
        Dequeue::Packet(packet)
    }

    fn each_queued(&self, _: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.packets.iter().for_each(|(_, packet)| visit(*packet));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disciplines::rig::{Rig, with_header};

    fn rig(limit: u64) -> Rig<Header, PriorityDrop> {
        Rig::new(PriorityDrop::new(Bytes::new(limit)))
    }

    /// A packet that its number identifies.
    fn packet(flow: u32, priority: u32, number: u32, size: u32) -> flowloom_core::Packet<Header> {
        with_header(flow, 1, size, Header::Data { priority, number, packets: u32::MAX, path: None })
    }

    fn number_of(packet: flowloom_core::Packet<Header>) -> u32 {
        match packet.header {
            Header::Data { number, .. } => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_full_port_drops_the_largest_number_and_among_equals_the_newest() {
        let mut rig = rig(4500);
        for (flow, priority) in [(0, 50), (1, 70), (2, 70)] {
            rig.enqueue(packet(flow, priority, 0, 1500));
        }
        rig.enqueue(packet(3, 60, 0, 1500));
        assert_eq!(rig.dropped(), [(2, DropReason::PushedOut)]);
        // The arrival itself is the newest of the largest.
        rig.enqueue(packet(4, 70, 0, 1500));
        assert_eq!(rig.dropped(), [(4, DropReason::Overflow)]);
        assert_eq!(rig.drain(), [0, 3, 1]);
        assert_eq!(rig.port().used(), Bytes::ZERO);
    }

    #[test]
    fn only_a_packet_that_fits_passes() {
        assert!(rig(1500).pass(packet(0, 1, 0, 1500)));
        assert!(!rig(1499).pass(packet(0, 1, 0, 1500)));
    }

    #[test]
    fn short_packets_make_room_for_a_long_one_until_it_fits() {
        let mut rig = rig(3000);
        for flow in 0..30 {
            rig.enqueue(packet(flow, 100 + flow, 0, 100));
        }
        rig.enqueue(packet(99, 1, 0, 1500));
        let victims: Vec<u32> = rig.dropped().into_iter().map(|(flow, _)| flow).collect();
        assert_eq!(victims, (15..30).rev().collect::<Vec<_>>());
        assert_eq!(rig.port().used(), Bytes::new(3000));
    }

    #[test]
    fn the_flow_with_the_best_packet_sends_its_oldest() {
        let mut rig = rig(36_864);
        // Flow 7's later packets are better than its earlier ones, as remaining bytes shrink; flow 8 lies between them.
        for (flow, priority, number) in [(7, 900, 0), (8, 500, 0), (7, 800, 1), (7, 400, 2)] {
            rig.enqueue(packet(flow, priority, number, 1500));
        }
        let order: Vec<_> = std::iter::from_fn(|| rig.dequeue()).map(|packet| (packet.flow.0, number_of(packet))).collect();
        assert_eq!(order, [(7, 0), (7, 1), (7, 2), (8, 0)]);
    }

    #[test]
    fn acknowledgements_and_probes_are_better_than_data() {
        let mut rig = rig(36_864);
        rig.enqueue(packet(1, 1, 0, 1500));
        rig.enqueue(with_header(2, 0, 40, Header::Ack { cumulative: 0, answers: None }));
        rig.enqueue(with_header(3, 0, 40, Header::Probe { packets: 1 }));
        assert_eq!(rig.drain(), [2, 3, 1]);
    }

    proptest! {
        /// Compares with the rules on a plain list of (flow, priority, number, size).
        #[test]
        fn agrees_with_a_plain_list(
            steps in prop::collection::vec((any::<bool>(), 0_u32..6, 0_u32..8, 40_u32..1500), 0..200),
        ) {
            let limit = 6000;
            let mut rig = rig(limit);
            let mut list: Vec<(u32, u32, u32, u32)> = Vec::new();
            for (number, (add, flow, priority, size)) in (0..).zip(steps) {
                prop_assert_eq!(rig.pass(packet(flow, priority, number, size)), list.is_empty());
                if add {
                    rig.enqueue(packet(flow, priority, number, size));
                    list.push((flow, priority, number, size));
                    while list.iter().map(|packet| u64::from(packet.3)).sum::<u64>() > limit {
                        let worst = (0..list.len()).max_by_key(|index| (list[*index].1, *index)).unwrap();
                        list.remove(worst);
                    }
                    rig.dropped();
                } else {
                    let best = (0..list.len()).min_by_key(|index| (list[*index].1, *index));
                    let oldest = best.and_then(|best| list.iter().position(|packet| packet.0 == list[best].0));
                    let expected = oldest.map(|oldest| list.remove(oldest).2);
                    prop_assert_eq!(rig.dequeue().map(number_of), expected);
                }
                prop_assert_eq!(rig.packets(), list.len());
                prop_assert_eq!(rig.port().used().get(), list.iter().map(|packet| u64::from(packet.3)).sum::<u64>());
            }
        }
    }
}
