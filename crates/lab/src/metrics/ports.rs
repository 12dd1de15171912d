//! The counters of ports, summed up by kind of hop.

use std::collections::BTreeMap;

use flowloom_core::{DropReason, Duration, Link, LinkId};
use flowloom_fabric::{CLASSES, PortCounters, Report};
use serde::Serialize;

use crate::record::{Before, Counted};

/// Packets that were lost. A trimmed packet is not lost: its header goes on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Drops {
    /// Data and control packets.
    pub total: u64,
    /// Data packets.
    pub data: u64,
    /// Data packets dropped over data packets that left their sources, where each transmission counts (pHost, §4.3). `None` if none
    /// left.
    pub rate: Option<f64>,
    /// Data and control packets, by the hop whose egress port or link lost them.
    pub by_hop: BTreeMap<String, u64>,
    /// Data and control packets, by [`DropReason::name`].
    pub by_reason: BTreeMap<&'static str, u64>,
}

/// The queues at the ports of one kind of hop.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HopQueue {
    /// Queued bytes, averaged over time and ports; `None` if no time passed.
    pub mean_bytes: Option<f64>,
    /// The most bytes ever queued at one port.
    pub peak_bytes: u64,
    /// How long a packet waits at this hop, averaged over the packets that left it; `None` if there were none.
    pub wait_us_mean: Option<f64>,
}

/// How busy the links of one kind of hop were: wire bytes sent over what the link could send.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HopUtilisation {
    /// The mean over all links; `None` if no time passed.
    pub mean: Option<f64>,
    /// The utilisation of the busiest link.
    pub max: Option<f64>,
}

/// The counters of each kind of hop, by [`Network::hop_name`](flowloom_core::Network::hop_name).
pub(super) struct Hops<'a> {
    report: &'a Report,
    /// What means over time refer to.
    span: Duration,
    by_name: BTreeMap<String, Vec<Port<'a>>>,
}

/// A port of the report.
struct Port<'a> {
    link: &'a Link,
    counters: &'a PortCounters,
    /// What it had counted before the time that means refer to.
    before: Counted,
}

impl<'a> Hops<'a> {
    /// The counters of a run with this active interval. Background flows go on after the last flow is over, so that with `before` means over time refer to
    /// the time that is counted, from the first start to the end of the run.
    pub(super) fn of(report: &'a Report, active: Duration, before: Option<&Before>) -> Hops<'a> {
        let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, (link, counters)) in report.network.links().iter().zip(&report.ports).enumerate() {
            let name = report.network.hop_name(LinkId(index as u32));
            let before = before.and_then(|before| before.ports.get(index)).copied().unwrap_or_default();
            by_name.entry(name).or_default().push(Port { link, counters, before });
        }
        let span = before.map_or(active, |before| report.end.saturating_since(before.at));
        Hops { report, span, by_name }
    }

    fn all(&self) -> impl Iterator<Item = &PortCounters> {
        self.report.ports.iter()
    }

    pub(super) fn drops(&self) -> Drops {
        let data = self.all().map(|port| port.dropped_data_packets).sum();
        let sent = self.report.data_packets;
        let by_reason = DropReason::ALL.iter().enumerate();
        Drops {
            total: self.all().map(PortCounters::drops).sum(),
            data,
            rate: (sent > 0).then(|| data as f64 / sent as f64),
            by_hop: self.each(|ports| ports.iter().map(|port| port.counters.drops()).sum()),
            by_reason: by_reason
                .map(|(index, reason)| (reason.name(), self.all().map(|port| port.dropped_packets[index]).sum()))
                .collect(),
        }
    }

    pub(super) fn sent_by_class(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.all().map(|port| port.sent[class].packets).sum())
    }

    pub(super) fn marks(&self) -> u64 {
        self.all().map(|port| port.marked_packets).sum()
    }

    pub(super) fn trims(&self) -> u64 {
        self.all().map(|port| port.trimmed_packets).sum()
    }

    /// How long a packet waits on its whole path: the sum of all waits over the packets that left hosts and control hosts.
    pub(super) fn queueing_us_mean(&self) -> Option<f64> {
        let network = &self.report.network;
        let entered = network.links().iter().zip(&self.report.ports).filter(|(link, _)| network.node(link.from).level == 0);
        wait_us(self.all(), entered.map(|(_, port)| port.packets()).sum())
    }

    /// The most bytes ever queued at one port of a switch.
    pub(super) fn queue_peak_bytes(&self) -> u64 {
        let network = &self.report.network;
        let of_switches = network.links().iter().zip(&self.report.ports).filter(|(link, _)| network.node(link.from).level > 0);
        of_switches.map(|(_, port)| port.peak_bytes).max().unwrap_or(0)
    }

    pub(super) fn queues(&self) -> BTreeMap<String, HopQueue> {
        self.each(|ports| {
            let counters = || ports.iter().map(|port| port.counters);
            let mean = |port: &Port<'_>| (port.counters.byte_time - port.before.byte_time) as f64 / self.span.as_ps() as f64;
            HopQueue {
                mean_bytes: self.over_time(|| ports.iter().map(mean).sum::<f64>() / ports.len() as f64),
                peak_bytes: counters().map(|port| port.peak_bytes).max().unwrap_or(0),
                wait_us_mean: wait_us(counters(), counters().map(PortCounters::packets).sum()),
            }
        })
    }

    pub(super) fn utilisation(&self) -> BTreeMap<String, HopUtilisation> {
        self.each(|ports| {
            let busy = |Port { link, counters, before }: &Port<'_>| {
                8.0 * (counters.bytes() - before.bytes) as f64 / (link.rate.as_bps() as f64 * self.span.as_secs_f64())
            };
            let shares: Option<Vec<f64>> = self.over_time(|| ports.iter().map(busy).collect());
            HopUtilisation {
                mean: shares.as_deref().and_then(super::mean),
                max: shares.and_then(|shares| shares.into_iter().reduce(f64::max)),
            }
        })
    }

    /// A mean over time, if time passed.
    fn over_time<T>(&self, mean: impl FnOnce() -> T) -> Option<T> {
        (self.span > Duration::ZERO).then(mean)
    }

    fn each<T>(&self, of: impl Fn(&[Port<'_>]) -> T) -> BTreeMap<String, T> {
        self.by_name.iter().map(|(name, ports)| (name.clone(), of(ports))).collect()
    }
}

/// The mean wait by Little's law: the integral of queued packets over time, divided by the number of packets.
fn wait_us<'a>(ports: impl Iterator<Item = &'a PortCounters>, packets: u64) -> Option<f64> {
    let ps: u128 = ports.map(|port| port.packet_time).sum();
    (packets > 0).then(|| ps as f64 / packets as f64 / 1e6)
}
