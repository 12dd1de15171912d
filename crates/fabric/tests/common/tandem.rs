//! The times of packets that cross an idle path back to back, by the recursion of a tandem queue: packet after packet and link
//! after link, written from the definition of store-and-forward and cut-through and from nothing else.

use flowloom_core::{Duration, LinkId, Network, Switching};

fn on_wire(bytes: u64, bps: u64) -> u64 {
    (u128::from(bytes) * 8 * 1_000_000_000_000).div_ceil(u128::from(bps)) as u64
}

/// When the last bit of each packet arrives at the end of `path`; `sizes` in wire bytes, the first bit leaves at zero.
pub fn arrivals(network: &Network, path: &[LinkId], sizes: &[u64]) -> Vec<Duration> {
    // When each link's sender is free again.
    let mut free = vec![0u64; path.len()];
    let mut times = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut usable = 0;
        for (index, link) in path.iter().enumerate() {
            let link = network.link(*link);
            let start = free[index].max(usable);
            free[index] = start + on_wire(*size, link.rate.as_bps());
            let next = path.get(index + 1).map(|next| network.link(*next).rate);
            let needed = match (network.switching(), next) {
                (Switching::CutThrough { header }, Some(next)) if next <= link.rate => header.get().min(*size),
                _ => *size,
            };
            usable = start + on_wire(needed, link.rate.as_bps()) + link.delay.as_ps();
        }
        times.push(Duration::from_ps(usable));
    }
    times
}
