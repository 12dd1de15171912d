//! The arrival times of packets sent back to back over an idle path, by the recursion of a tandem queue over packets and links. It is
//! written only from the definitions of store-and-forward and cut-through, independently of the simulator.

use flowloom_core::{Bytes, Duration, LinkId, Network, Switching, WireProfile};

fn on_wire(bytes: u64, bps: u64) -> u64 {
    (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(bps)) as u64
}

/// A path that is idle but for the packets given to [`Tandem::send`], one after the other.
pub struct Tandem<'a> {
    network: &'a Network,
    path: &'a [LinkId],
    /// When each link is free again.
    free: Vec<u64>,
}

impl<'a> Tandem<'a> {
    pub fn new(network: &'a Network, path: &'a [LinkId]) -> Self {
        Tandem { network, path, free: vec![0; path.len()] }
    }

    /// Sends a packet of `size` bytes on the wire at `release` or later, and returns when its last bit arrives.
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

/// When the last bit of the last packet arrives, if packets of these sizes on the wire are sent back to back from time zero.
pub fn back_to_back(network: &Network, path: &[LinkId], sizes: &[u64]) -> Duration {
    let mut tandem = Tandem::new(network, path);
    sizes.iter().fold(Duration::ZERO, |_, size| tandem.send(Duration::ZERO, *size))
}

/// The size on the wire of each packet of a flow.
pub fn sizes_on_wire(size: Bytes, wire: &WireProfile) -> Vec<u64> {
    (0..wire.packets(size)).map(|index| wire.data_size(wire.payload_of(size, index)).get()).collect()
}
