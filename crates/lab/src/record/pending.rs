//! How much payload waits at its source, over the course of a run.

use flowloom_core::{Flow, Packet};

use crate::sink::{Samples, Table};

/// Records whether a network keeps up with its load, as figure 7 of the pHost paper does (§4.3).
///
/// A sample is how many payload bytes had been handed to all sources, and how many of these had been put into the network, where
/// retransmissions do not count. The series `pending` has two columns, both relative to the payload of all flows of the run.
/// `arrived_share` is what has arrived at sources. `pending_share` is what has arrived and has not been put into the network: it stays
/// flat if the network is stable, and grows if it is not. The figure counts packets; bytes differ from them by each flow's last packet.
///
/// If the run has several regions, each has a recorder. All of them count the flows that arrive anywhere, so they take their samples at the same flows; each counts
/// what sources of its region put into the network.
#[derive(Clone, Debug)]
pub struct Pending {
    total_bytes: u64,
    next_sample_bytes: u64,
    arrived_bytes: u64,
    injected_bytes: u64,
    /// By flow, whether it is a background flow, which is left out. Flows beyond the end are none.
    background: Vec<bool>,
    /// Arrived and injected bytes, in order of time.
    samples: Vec<(u64, u64)>,
}

impl Pending {
    /// How many samples there are, at most: they are taken when flows arrive.
    const SAMPLES: u64 = 200;

    /// A recorder of a run with these flows.
    pub fn new(flows: impl Iterator<Item = Flow>) -> Pending {
        let (mut background, mut total_bytes) = (Vec::new(), 0);
        for (index, flow) in flows.enumerate() {
            if flow.background {
                background.resize(index, false);
                background.push(true);
            } else {
                total_bytes += flow.size.get();
            }
        }
        Pending { total_bytes, next_sample_bytes: 0, arrived_bytes: 0, injected_bytes: 0, background, samples: Vec::new() }
    }

    /// A flow arrives at its source, here or in another region.
    pub fn arrive(&mut self, flow: &Flow) {
        if flow.background {
            return;
        }
        self.arrived_bytes += flow.size.get();
        if self.arrived_bytes >= self.next_sample_bytes {
            self.next_sample_bytes = self.arrived_bytes + (self.total_bytes / Pending::SAMPLES).max(1);
            self.samples.push((self.arrived_bytes, self.injected_bytes));
        }
    }

    /// Adds what sources of another region have put into the network.
    pub fn join(mut self, other: Pending) -> Pending {
        assert_eq!(self.samples.len(), other.samples.len(), "all regions take samples at the same flows");
        for ((arrived, injected), (same, more)) in self.samples.iter_mut().zip(&other.samples) {
            assert_eq!(arrived, same, "all regions take samples at the same flows");
            *injected += more;
        }
        self
    }

    /// A source of this region handed a packet to the network.
    #[inline]
    pub fn inject<H>(&mut self, packet: &Packet<H>) {
        let background = self.background.get(packet.flow.0 as usize).copied().unwrap_or_default();
        if !packet.retransmission && !background {
            self.injected_bytes += u64::from(packet.payload_bytes);
        }
    }

    /// What it has recorded.
    pub fn into_table(self) -> Table {
        // Flows of no bytes have no shares.
        let samples: &[(u64, u64)] = if self.total_bytes == 0 { &[] } else { &self.samples };
        let share = |bytes: u64| bytes as f64 / self.total_bytes as f64;
        let arrived = samples.iter().map(|(arrived, _)| share(*arrived)).collect();
        let pending = samples.iter().map(|(arrived, injected)| share(arrived.saturating_sub(*injected))).collect();
        let columns = vec![("arrived_share", Samples::Numbers(arrived)), ("pending_share", Samples::Numbers(pending))];
        Table { name: "pending", columns }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Bytes, Ecn, FlowId, NodeId, Time};

    use super::*;

    fn flow(id: u32, bytes: u64) -> Flow {
        let size = Bytes::new(bytes);
        Flow {
            id: FlowId(id),
            src: NodeId(0),
            dst: NodeId(1),
            size,
            start: Time::ZERO,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        }
    }

    fn packet(payload_bytes: u32, retransmission: bool) -> Packet<()> {
        Packet {
            flow: FlowId(0),
            src: NodeId(0),
            dst: NodeId(1),
            size_bytes: payload_bytes + 40,
            payload_bytes,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission,
            corrupt: false,
            offset: Bytes::ZERO,
            header: (),
        }
    }

    #[test]
    fn pending_shares_by_hand() {
        let flows = [flow(0, 250), flow(1, 250), flow(2, 500)];
        let mut pending = Pending::new(flows.into_iter());
        let injected = [[(250, false), (999, true)], [(50, false), (0, false)], [(300, false), (1, true)]];
        for (flow, packets) in flows.iter().zip(injected) {
            pending.arrive(flow);
            for (bytes, again) in packets {
                pending.inject(&packet(bytes, again));
            }
        }
        let expected = [("arrived_share", vec![0.25, 0.5, 1.0]), ("pending_share", vec![0.25, 0.25, 0.7])];
        assert_eq!(pending.into_table().columns, expected.map(|(name, values)| (name, Samples::Numbers(values))));
    }

    #[test]
    fn background_flows_are_left_out() {
        let behind = Flow { background: true, ..flow(1, 1_000_000) };
        let mut pending = Pending::new([flow(0, 500), behind, flow(2, 500)].into_iter());
        for (flow, own) in [(flow(0, 500), 100), (behind, 0), (flow(2, 500), 200)] {
            pending.arrive(&flow);
            pending.inject(&packet(own, false));
            pending.inject(&Packet { flow: FlowId(1), ..packet(1460, false) });
        }
        let expected = [("arrived_share", vec![0.5, 1.0]), ("pending_share", vec![0.5, 0.9])];
        assert_eq!(pending.into_table().columns, expected.map(|(name, values)| (name, Samples::Numbers(values))));
    }

    #[test]
    fn flows_of_no_bytes_have_no_shares() {
        let flows = [flow(0, 0)];
        let mut pending = Pending::new(flows.into_iter());
        pending.arrive(&flows[0]);
        assert!(pending.into_table().columns[0].1.is_empty());
    }
}
