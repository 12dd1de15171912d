//! The times of packets that cross an idle path back to back, by the recursion of a tandem queue: packet after packet and link
//! after link, written from the definition of store-and-forward and cut-through and from nothing else.

use flowloom_core::{Bytes, Duration, LinkId, Network, Switching, WireProfile};

fn on_wire(bytes: u64, bps: u64) -> u64 {
    (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(bps)) as u64
}

/// An idle path into which packets are put one after the other.
pub struct Tandem<'a> {
    network: &'a Network,
    path: &'a [LinkId],
    /// When each link's sender is free again.
    free: Vec<u64>,
}

impl<'a> Tandem<'a> {
    pub fn new(network: &'a Network, path: &'a [LinkId]) -> Self {
        Tandem { network, path, free: vec![0; path.len()] }
    }

    /// When the last bit arrives of a packet of `size` bytes on the wire that may leave at `release`.
    pub fn send(&mut self, release: Duration, size: u64) -> Duration {
        let mut usable = release.as_ps();
        for (index, link) in self.path.iter().enumerate() {
            let link = self.network.link(*link);
            let start = self.free[index].max(usable);
            self.free[index] = start + on_wire(size, link.rate.as_bps());
            let next = self.path.get(index + 1).map(|next| self.network.link(*next).rate);
            let needed = match (self.network.switching(), next) {
                (Switching::CutThrough { header }, Some(next)) if next <= link.rate => header.get().min(size),
                _ => size,
            };
            usable = start + on_wire(needed, link.rate.as_bps()) + link.delay.as_ps();
        }
        Duration::from_ps(usable)
    }
}

/// When the last bit arrives of the last of some packets, of so many bytes on the wire, that leave back to back from zero on.
pub fn back_to_back(network: &Network, path: &[LinkId], sizes: &[u64]) -> Duration {
    let mut tandem = Tandem::new(network, path);
    sizes.iter().fold(Duration::ZERO, |_, size| tandem.send(Duration::ZERO, *size))
}

/// What each packet of a flow takes on a wire.
pub fn sizes_on_wire(size: Bytes, wire: &WireProfile) -> Vec<u64> {
    (0..wire.packets(size)).map(|index| wire.data_size(wire.payload_of(size, index)).get()).collect()
}
