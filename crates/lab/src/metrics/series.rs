//! Numbers over time.

/// Columns of one length that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Each column's name and values; the first is the axis.
    pub columns: Vec<(String, Vec<f64>)>,
}

/// Whether a network keeps up (pHost, §4.3, figure 7). A sample is how many payload bytes had been handed to all sources, and
/// how many of these they had put into the network, each counted once. Against `arrived_share`, the share of the run's
/// `total_bytes` that has arrived at sources, stands `pending_share`, the share of that total that has arrived and has not been
/// injected: flat if the network is stable, rising if it is not. Bytes stand for the figure's packets, which are alike but for
/// each flow's last. Empty where the total is zero.
pub fn pending_share(samples: &[(u64, u64)], total_bytes: u64) -> Series {
    let samples = if total_bytes == 0 { &[] } else { samples };
    let share = |bytes: u64| bytes as f64 / total_bytes as f64;
    let arrived = samples.iter().map(|(arrived, _)| share(*arrived)).collect();
    let pending = samples.iter().map(|(arrived, injected)| share(arrived.saturating_sub(*injected))).collect();
    Series { name: "pending".into(), columns: vec![("arrived_share".into(), arrived), ("pending_share".into(), pending)] }
}
