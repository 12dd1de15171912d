//! The queues of a port with priorities.

use flowloom_core::{Bytes, Fifo, Packet, PacketId, Pool};

/// The largest number of classes of a port.
pub const MOST_CLASSES: usize = 8;

/// A set of a port's classes; bit i stands for class i.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassSet(pub u8);

impl ClassSet {
    /// No class.
    pub const NONE: ClassSet = ClassSet(0);
    /// The classes below `count`, which is 1 to 8.
    pub const fn first(count: u8) -> ClassSet {
        ClassSet(u8::MAX >> (MOST_CLASSES as u8 - count))
    }
    /// Whether a class is in it.
    #[inline]
    pub const fn has(self, class: usize) -> bool {
        self.0 >> class & 1 == 1
    }
    /// Adds a class, or takes it out.
    #[inline]
    pub const fn set(&mut self, class: usize, inside: bool) {
        self.0 = self.0 & !(1 << class) | (inside as u8) << class;
    }
}

/// The limit of a port's or a node's memory, in bytes. It is so low that the sum of a full memory and a packet fits in 32 bits.
///
/// # Panics
/// If the memory is 2 GiB or more.
pub(super) fn limit(memory: Bytes) -> u32 {
    i32::try_from(memory.get()).expect("a port has less than 2 GiB").cast_unsigned()
}

/// Up to eight queues and their lengths in bytes. Class 0 leaves first; within a class, packets leave in order of arrival. Class numbers
/// beyond the last one count as the last. The owner decides which packets come in.
#[derive(Clone, Debug)]
#[repr(C)] // fields that every packet uses come first
pub(super) struct Classes {
    /// Bit i is set where class i is not empty.
    occupied: u8,
    last: u8,
    total: u32,
    used: [u32; MOST_CLASSES],
    queues: [Fifo; MOST_CLASSES],
}

impl Classes {
    /// # Panics
    /// If there is no class, if there are more than eight.
    pub fn new(classes: u8) -> Classes {
        assert!((1..=MOST_CLASSES).contains(&usize::from(classes)), "{classes} classes, but a port has 1 to 8");
        Classes { occupied: 0, last: classes - 1, total: 0, used: [0; MOST_CLASSES], queues: [Fifo::default(); MOST_CLASSES] }
    }

    /// Bytes in all queues.
    #[inline]
    pub fn total(&self) -> u32 {
        self.total
    }
    /// Bytes in each queue.
    #[inline]
    pub fn used(&self) -> &[u32; MOST_CLASSES] {
        &self.used
    }
    /// Whether nothing is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The index of a packet's queue.
    #[inline]
    pub fn class_of<H>(&self, packet: &Packet<H>) -> usize {
        usize::from(packet.class.min(self.last)) % MOST_CLASSES
    }

    /// Appends a packet of `size` bytes.
    #[inline]
    pub fn push<H>(&mut self, class: usize, size: u32, packet: PacketId, pool: &mut Pool<H>) {
        self.used[class] += size;
        self.total += size;
        self.occupied |= 1 << class;
        self.queues[class].push(packet, pool);
    }

    /// Removes the oldest packet of the best class that holds packets and is not `closed`, and returns the class with it.
    #[inline]
    pub fn pop<H>(&mut self, pool: &Pool<H>, closed: ClassSet) -> Option<(usize, PacketId)> {
        let class = (self.occupied & !closed.0).trailing_zeros() as usize;
        if class >= MOST_CLASSES {
            return None;
        }
        let packet = self.queues[class].pop(pool).expect("an occupied class");
        self.left(class, pool[packet].size_bytes);
        Some((class, packet))
    }

    /// Removes the newest packet of the worst class that holds packets.
    pub fn pop_newest<H>(&mut self, pool: &mut Pool<H>) -> Option<PacketId> {
        let worst = self.occupied.checked_ilog2()? as usize;
        let packet = self.queues[worst].pop_newest(pool).expect("an occupied class");
        self.left(worst, pool[packet].size_bytes);
        Some(packet)
    }

    /// All packets.
    pub fn ids<H>(&self, pool: &Pool<H>) -> impl Iterator<Item = PacketId> {
        self.queues.iter().flat_map(|queue| queue.ids(pool))
    }

    /// Accounts for a packet that left a class.
    #[inline]
    fn left(&mut self, class: usize, size: u32) {
        self.used[class] -= size;
        self.total -= size;
        self.occupied &= !(u8::from(self.queues[class].is_empty()) << class);
    }
}
