//! How long links to hosts send no data while flows to these hosts are open.

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, LinkId, NodeId, Time, WireProfile};

use crate::changing::ChangingNetwork;
use crate::workload::Flows;

/// What [`Gaps`] adds up, over all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GapTotals {
    /// How many gaps there were.
    pub gaps: u64,
    /// How many of these were between packets of two flows.
    pub switches: u64,
    /// The time in gaps, in picoseconds.
    pub idle_ps: u128,
    /// The time in which hosts had open flows, in picoseconds.
    pub open_ps: u128,
}

/// Records the gaps at receivers.
///
/// A flow is open at its destination from its start until its last byte is there, or until it is aborted. Background flows are never open,
/// and neither are flows without payload. A *gap* is a time longer than the transmission of one full packet, at the link's rate when it ends, in which the link to a host sends
/// no packet with payload although a flow to the host is open all the time. It begins when the link has sent a packet, or when the first
/// flow is opened. It ends when the link begins to send the next packet, of whatever flow, or when the last flow is aborted. The time after the
/// last packet of the last flow is no gap, because nothing is left to send. A gap is a *switch gap* if the packets directly before and after it
/// belong to two flows.
#[derive(Clone, Debug)]
pub struct Gaps {
    network: ChangingNetwork,
    /// The size of a full packet.
    full: Bytes,
    /// By link, the number of the host that the link leads to, or [`NOBODY`].
    host_at: Vec<u32>,
    downlinks: Vec<Downlink>,
    /// By flow, its destination while the flow can be open, and [`NOBODY`] afterwards.
    open_to: Vec<u32>,
    totals: GapTotals,
}

/// No host.
const NOBODY: u32 = u32::MAX;

/// The link to one host.
#[derive(Clone, Copy, Debug)]
struct Downlink {
    link: LinkId,
    /// How many flows to the host are open.
    open: u32,
    /// When the first of them was opened.
    open_since: Time,
    /// When the link had sent the last packet with payload.
    sent_at: Time,
    /// The flow of this packet, if there was one.
    sent: Option<FlowId>,
}

impl Gaps {
    /// A recorder of a run of these flows.
    pub fn new(network: ChangingNetwork, wire: &WireProfile, flows: &Flows) -> Gaps {
        let shape = network.last();
        let mut host_at = vec![NOBODY; shape.links().len()];
        let downlinks = (0..shape.nics() as u32).map(|host| {
            let link = shape.ports(NodeId(host))[0].reverse();
            host_at[link.index()] = host;
            Downlink { link, open: 0, open_since: Time::ZERO, sent_at: Time::ZERO, sent: None }
        });
        let downlinks = downlinks.collect();
        let can_be_open = |flow: &Flow| !flow.background && flow.size > Bytes::ZERO;
        let open_to = flows.by_id().map(|flow| flow.filter(can_be_open).map_or(NOBODY, |flow| flow.dst.0)).collect();
        Gaps { network, full: wire.full, host_at, downlinks, open_to, totals: GapTotals::default() }
    }

    /// How long the link to a host has sent nothing, if this is a gap.
    fn gap(&mut self, now: Time, host: u32) -> Option<Duration> {
        let Downlink { link, open, open_since, sent_at, .. } = self.downlinks[host as usize];
        let length = now.saturating_since(sent_at.max(open_since));
        let is_gap = open > 0 && length > self.network.at(now).link(link).rate.transmit_time(self.full);
        is_gap.then_some(length)
    }

    /// A flow was handed to its source.
    pub fn open(&mut self, now: Time, flow: &Flow) {
        let host = self.open_to[flow.id.0 as usize];
        if host != NOBODY {
            let downlink = &mut self.downlinks[host as usize];
            if downlink.open == 0 {
                downlink.open_since = now;
            }
            downlink.open += 1;
        }
    }

    /// A link began to send a packet with payload. A link that the network did not have when the recorder was made leads to no host.
    #[inline]
    pub fn send(&mut self, now: Time, link: LinkId, flow: FlowId, size: Bytes) {
        let host = self.host_at.get(link.index()).copied().unwrap_or(NOBODY);
        if host == NOBODY {
            return;
        }
        let gap = self.gap(now, host);
        let downlink = &mut self.downlinks[host as usize];
        if let Some(length) = gap {
            self.totals.gaps += 1;
            let other = downlink.sent.is_some_and(|sent| sent != flow);
            self.totals.switches += u64::from(other && downlink.sent_at >= downlink.open_since);
            self.totals.idle_ps += u128::from(length.as_ps());
        }
        downlink.sent_at = now + self.network.at(now).link(link).rate.transmit_time(size);
        downlink.sent = Some(flow);
    }

    /// An endpoint reported an event.
    #[inline]
    pub fn note(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Received { flow } => self.close(now, flow, false),
            Event::Aborted { flow, .. } => self.close(now, flow, true),
            Event::Delivered { .. } | Event::TimedOut { .. } | Event::Acknowledged { .. } => {}
        }
    }

    /// A flow is no longer open. Its host may hear of its end twice.
    fn close(&mut self, now: Time, flow: FlowId, aborted: bool) {
        let host = std::mem::replace(&mut self.open_to[flow.0 as usize], NOBODY);
        if host == NOBODY {
            return;
        }
        if self.downlinks[host as usize].open == 1 {
            self.add_rest(now, host, aborted);
        }
        self.downlinks[host as usize].open -= 1;
    }

    /// Adds the open time of a host that ends now, and the gap that ends with it if the host still waits for data.
    fn add_rest(&mut self, now: Time, host: u32, waits: bool) {
        self.totals.open_ps += u128::from(now.saturating_since(self.downlinks[host as usize].open_since).as_ps());
        if let Some(length) = self.gap(now, host).filter(|_| waits) {
            self.totals.gaps += 1;
            self.totals.idle_ps += u128::from(length.as_ps());
        }
    }

    /// The sums over a run that ended at this time.
    pub fn into_totals(mut self, end: Time) -> GapTotals {
        for host in 0..self.downlinks.len() as u32 {
            if self.downlinks[host as usize].open > 0 {
                self.add_rest(end, host, true);
            }
        }
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::{AbortReason, Paths, Rate, Routing, Switching, topology};

    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    /// A flow of 2 kB from host 0 to `dst`.
    fn flow(id: u32, dst: u32) -> Flow {
        Flow {
            id: FlowId(id),
            src: NodeId(0),
            dst: NodeId(dst),
            size: Bytes::new(2000),
            start: Time::ZERO,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        }
    }

    /// Four hosts at 1 Gb/s, where a full packet takes 8 µs. The link to host n is 2n + 1.
    fn gaps(flows: &[Flow]) -> Gaps {
        slowed_gaps(flows, &[])
    }

    /// The same, where the link to host 1 has other rates from these instants on.
    fn slowed_gaps(flows: &[Flow], rates: &[(Time, Rate)]) -> Gaps {
        let network = topology::single_switch(4, Rate::from_gbps(1), Duration::from_us(25), Switching::StoreAndForward);
        let paths = Paths::new(Arc::new(network.clone()), Routing::Ecmp, 1);
        let reroutes = rates.iter().map(|(at, rate)| {
            let mut slower = network.clone();
            slower.set_rate(LinkId(3), *rate);
            (*at, paths.over(Arc::new(slower), &[]).expect("nothing is dead"))
        });
        let changing = ChangingNetwork::new(paths.network().clone(), &reroutes.collect::<Vec<_>>());
        Gaps::new(changing, &WireProfile::NS2_1000, &flows.to_vec().into())
    }

    fn send(gaps: &mut Gaps, at_us: u64, host: u32, flow: u32) {
        gaps.send(us(at_us), LinkId(2 * host + 1), FlowId(flow), Bytes::new(1000));
    }
    fn received(gaps: &mut Gaps, at_us: u64, flow: u32) {
        gaps.note(us(at_us), &Event::Received { flow: FlowId(flow) });
    }
    fn aborted(gaps: &mut Gaps, at_us: u64, flow: u32) {
        gaps.note(us(at_us), &Event::Aborted { flow: FlowId(flow), reason: AbortReason::Deadline });
    }

    fn totals(gaps: u64, switches: u64, idle_us: u128, open_us: u128) -> GapTotals {
        GapTotals { gaps, switches, idle_ps: idle_us * 1_000_000, open_ps: open_us * 1_000_000 }
    }

    /// Flow 0 begins to send after 100 µs, and stops for 8 µs, which is one packet's time, and for 9 µs. Flow 1 waits for flow 0, and begins to
    /// send 100 µs after flow 0's last packet.
    #[test]
    fn two_flows_one_after_the_other() {
        let flows = [flow(0, 1), flow(1, 1)];
        let mut gaps = gaps(&flows);
        gaps.open(us(0), &flows[0]);
        [100, 108, 124, 141].into_iter().for_each(|at| send(&mut gaps, at, 1, 0));
        gaps.open(us(150), &flows[1]);
        received(&mut gaps, 174, 0);
        [249, 257].into_iter().for_each(|at| send(&mut gaps, at, 1, 1));
        received(&mut gaps, 290, 1);
        assert_eq!(gaps.into_totals(us(400)), totals(3, 1, 100 + 9 + 100, 290));
    }

    /// The second flow is opened when the first one is done: the time before its first packet is a gap, but no switch gap, and the time
    /// between the flows is not open.
    #[test]
    fn two_flows_that_do_not_meet() {
        let flows = [flow(0, 1), flow(1, 1)];
        let mut gaps = gaps(&flows);
        gaps.open(us(10), &flows[0]);
        [15, 23].into_iter().for_each(|at| send(&mut gaps, at, 1, 0));
        received(&mut gaps, 56, 0);
        gaps.open(us(1000), &flows[1]);
        [1050, 1058].into_iter().for_each(|at| send(&mut gaps, at, 1, 1));
        received(&mut gaps, 1091, 1);
        assert_eq!(gaps.into_totals(us(5000)), totals(1, 0, 50, 46 + 91));
    }

    /// The link to host 1 is busy with a background flow until 108 µs, and so is that to host 2, to which no flow is open. Flow 0 is aborted at
    /// 200 µs; flow 2 is open when the run ends at 300 µs; flow 3 has no payload.
    #[test]
    fn background_flows_take_the_link_and_are_not_open() {
        let flows = [flow(0, 1), Flow { background: true, ..flow(1, 1) }, flow(2, 3), Flow { size: Bytes::ZERO, ..flow(3, 2) }];
        let mut gaps = gaps(&flows);
        gaps.open(us(0), &flows[1]);
        gaps.open(us(50), &flows[3]);
        for at in [80, 90, 100] {
            send(&mut gaps, at, 1, 1);
            send(&mut gaps, at, 2, 1);
        }
        gaps.open(us(90), &flows[0]);
        gaps.open(us(250), &flows[2]);
        // The link from host 1, and one that the network does not have.
        gaps.send(us(150), LinkId(2), FlowId(0), Bytes::new(1000));
        gaps.send(us(150), LinkId(8), FlowId(0), Bytes::new(1000));
        aborted(&mut gaps, 200, 0);
        received(&mut gaps, 210, 0);
        received(&mut gaps, 210, 1);
        received(&mut gaps, 210, 3);
        // From 108 to 200 µs and from 250 to 300 µs.
        assert_eq!(gaps.into_totals(us(300)), totals(2, 0, 92 + 50, 110 + 50));
    }

    /// A tenth of the rate from 100 to 400 µs, in which a packet takes 80 µs. The link is busy from the first packet to the last, whatever its rate.
    #[test]
    fn a_busy_link_has_no_gaps_while_it_is_slower() {
        let flows = [flow(0, 1)];
        let mut gaps = slowed_gaps(&flows, &[(us(100), Rate::from_bps(100_000_000)), (us(400), Rate::from_gbps(1))]);
        gaps.open(us(84), &flows[0]);
        [84, 92, 100, 108, 188, 268, 348, 428, 436].into_iter().for_each(|at| send(&mut gaps, at, 1, 0));
        received(&mut gaps, 469, 0);
        assert_eq!(gaps.into_totals(us(500)), totals(0, 0, 0, 385));
    }
}
