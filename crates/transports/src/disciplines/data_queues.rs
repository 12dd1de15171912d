//! Bounds on the queues of data where credits schedule all data.
//!
//! A port lets credits through at no more than the rate at which the data that they ask for can leave it in the other direction. Data then queues
//! only because the time from a credit to its data varies: if it varies by a span, all data of this span can arrive at once (ExpressPass's
//! argument for zero loss). The time varies with the length of the paths behind the port, and with the waits of credits and of
//! data at the ports of these paths.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, LinkId, Network, NodeId, NodeKind, PathNeed, Paths, Rate, WireProfile};

/// How the ports of a transport limit its credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditSchedule {
    /// What a credit of the size of a control packet takes of a link, together with the packet that it asks for.
    pub slot: Bytes,
    /// What the credits' bucket holds.
    pub burst: Bytes,
    /// Sizes of credits are uniform within this many bytes of that of a control packet.
    pub spread: Bytes,
    /// The longest wait of a credit at a port, in bytes that the link carries meanwhile.
    pub credit_wait: Bytes,
    /// How much data that no credit asked for can queue at a port.
    pub unscheduled: Bytes,
    /// By how much a host's time to answer a credit varies.
    pub host_jitter: Duration,
}

impl CreditSchedule {
    /// The standard deviation, in bytes, of the data that one credit asks for from its share: credits are limited in bytes, and each asks for a full
    /// packet whatever its size. For n credits in a row, it is larger by the square root of n. The mean size of credits is that of a control packet, so
    /// bounds must allow for the deviation only; where a link is full in both directions, no other bound exists.
    pub fn deviation(&self, wire: &WireProfile) -> f64 {
        let spread = self.spread.get() as f64;
        (spread * (spread + 1.0) / 3.0).sqrt() * wire.full.get() as f64 / wire.control.get() as f64
    }

    fn largest(&self, wire: &WireProfile) -> Bytes {
        wire.control + self.spread
    }
}

/// The shortest and the longest time from when a credit leaves the far end of a link until its data comes to the port at the near end.
#[derive(Clone, Copy, Debug)]
struct Answer {
    soonest: Duration,
    latest: Duration,
}

/// The most bytes of data that queue at each port, the packet that arrives included; [`Bytes::ZERO`] where no data passes. `None` where the waits
/// of ports depend on each other in a cycle, if credits do not take the path of their data back, or if they ask for more data than a link carries
/// beside them: then the argument gives no bound.
///
/// Signals, which nobody schedules, are not counted, nor is the data that waits for them. Credits are
/// taken to have the mean size: see [`CreditSchedule::deviation`].
pub fn data_queue_bounds(paths: &Paths, wire: &WireProfile, schedule: &CreditSchedule) -> Option<Vec<Bytes>> {
    if !paths.give(PathNeed::Symmetric) || schedule.slot < wire.control + wire.full {
        return None;
    }
    let network = paths.network();
    let feeders = feeders(paths);
    let mut bounds = Bounds { network, wire, schedule, feeders: &feeders, answers: BTreeMap::new() };
    let queue = |link: u32| match bounds.answer(LinkId(link))? {
        Some(answer) => Some(bounds.queue(LinkId(link), answer)),
        None => Some(Bytes::ZERO),
    };
    (0..network.links().len() as u32).map(queue).collect()
}

struct Bounds<'a> {
    network: &'a Network,
    wire: &'a WireProfile,
    schedule: &'a CreditSchedule,
    feeders: &'a [Option<Vec<LinkId>>],
    /// `None` while it is being worked out.
    answers: BTreeMap<LinkId, Option<Answer>>,
}

impl Bounds<'_> {
    fn rate(&self, link: LinkId) -> Rate {
        self.network.link(link).rate
    }

    /// The time in which a link sends this many bytes if they get `part` of each `whole` bytes.
    fn shared_time(&self, link: LinkId, bytes: Bytes, part: Bytes, whole: Bytes) -> Duration {
        let scaled = u128::from(bytes.get()) * u128::from(whole.get());
        let bytes = Bytes::new(u64::try_from(scaled.div_ceil(u128::from(part.get()))).unwrap_or(u64::MAX));
        self.rate(link).checked_transmit_time(bytes).unwrap_or(Duration::LONGEST)
    }

    /// The time from when a packet leaves a port until it is at the next one of its path, or can be used.
    fn passage(&self, link: LinkId, next: Option<LinkId>, size: Bytes) -> Duration {
        let hold = self.network.hold_time(self.rate(link), next.map(|next| self.rate(next)), size);
        hold + self.network.link(link).delay
    }

    /// The longest wait of a credit at the port of a link, and for a packet that has just begun to leave.
    fn credit_wait(&self, link: LinkId) -> Duration {
        let wait = self.rate(link).checked_transmit_time(self.schedule.credit_wait).unwrap_or(Duration::LONGEST);
        wait + self.rate(link).transmit_time(self.wire.full)
    }

    /// The longest wait of a data packet at the port of a link.
    fn data_wait(&self, link: LinkId, answer: Answer) -> Duration {
        let before = Bytes::new(self.queue(link, answer).get().saturating_sub(self.wire.full.get()));
        self.shared_time(link, before, Bytes::new(self.slot_of_data()), self.schedule.slot)
    }

    /// What a slot leaves for data.
    fn slot_of_data(&self) -> u64 {
        self.schedule.slot.get() - self.wire.control.get()
    }

    /// How much can queue at the port of a link: the data of the span by which answers vary; a packet for each credit of a burst; a burst of
    /// credits and a packet that has begun, which leave before the data; the arriving packet; and data that no credit asked for.
    fn queue(&self, link: LinkId, answer: Answer) -> Bytes {
        let (CreditSchedule { slot, burst, unscheduled, .. }, largest) = (*self.schedule, self.schedule.largest(self.wire));
        let span = answer.latest - answer.soonest;
        let bits_ps = u128::from(self.rate(link).as_bps()) * u128::from(span.as_ps());
        let span_bytes = bits_ps.div_ceil(8_000_000_000_000) * u128::from(self.wire.full.get()) / u128::from(slot.get());
        let of_burst = burst.get().div_ceil(self.wire.control.get()) * self.wire.full.get();
        let span_bytes = u64::try_from(span_bytes).unwrap_or(u64::MAX);
        let others = of_burst + burst.get() + largest.get() + self.wire.full.get() + unscheduled.get();
        Bytes::new(span_bytes.saturating_add(others))
    }

    /// The times of answers to credits that leave the far end of a link. `Some(None)` if no data passes the link, `None` if they depend on
    /// themselves.
    fn answer(&mut self, link: LinkId) -> Option<Option<Answer>> {
        if let Some(known) = self.answers.get(&link) {
            return known.map(Some);
        }
        let Some(feeders) = &self.feeders[link.index()] else { return Some(None) };
        self.answers.insert(link, None);
        let (back, WireProfile { control, .. }) = (link.reverse(), *self.wire);
        let largest = self.schedule.largest(self.wire);
        let smallest = Bytes::new(control.get().saturating_sub(self.schedule.spread.get()));
        let mut answer: Option<Answer> = None;
        if self.network.node(self.network.link(link).from).kind != NodeKind::Switch {
            let [soonest, used] = [smallest, largest].map(|credit| self.passage(back, None, credit));
            answer = Some(Answer { soonest, latest: used + self.schedule.host_jitter });
        }
        for feeder in feeders {
            let Some(before) = self.answer(*feeder)? else { continue };
            let onward = feeder.reverse();
            let soonest =
                self.passage(back, Some(onward), smallest) + before.soonest + self.passage(*feeder, Some(link), control);
            let latest = self.passage(back, Some(onward), largest)
                + self.credit_wait(onward)
                + before.latest
                + self.data_wait(*feeder, before)
                + self.passage(*feeder, Some(link), self.wire.full);
            let all = answer.get_or_insert(Answer { soonest, latest });
            *all = Answer { soonest: all.soonest.min(soonest), latest: all.latest.max(latest) };
        }
        self.answers.insert(link, answer);
        Some(answer)
    }
}

/// For each link, by its index, the links over which data comes to it, or `None` if no data passes it. Links of hosts that send have none.
fn feeders(paths: &Paths) -> Vec<Option<Vec<LinkId>>> {
    let network = paths.network();
    let mut feeders: Vec<Option<Vec<LinkId>>> = vec![None; network.links().len()];
    // By link and by port of the node that it leads to: whether data is known to take this way.
    let mut taken: Vec<Vec<bool>> = network.links().iter().map(|link| vec![false; network.ports(link.to).len()]).collect();
    // The last destination for which data was followed over each link.
    let mut followed_for = vec![None; network.links().len()];
    for dst in network.nic_ids() {
        let distance = network.has_several_nics().then(|| network.distances(dst));
        let is_reached = |src: &NodeId| distance.as_ref().is_none_or(|distance| distance[src.index()] < u32::MAX);
        let sources = network.nic_ids().filter(|src| *src != dst).filter(is_reached);
        let mut open: Vec<LinkId> = sources.map(|src| network.ports(src)[0]).collect();
        for link in &open {
            feeders[link.index()].get_or_insert_default();
        }
        while let Some(link) = open.pop() {
            let at = network.link(link).to;
            if at == dst {
                continue;
            }
            let mut follow = |next: LinkId| {
                let port = usize::from(network.link(next).from_port.0);
                if !std::mem::replace(&mut taken[link.index()][port], true) {
                    feeders[next.index()].get_or_insert_default().push(link);
                }
                if followed_for[next.index()].replace(dst) != Some(dst) {
                    open.push(next);
                }
            };
            paths.way(at, dst).links().iter().for_each(|next| follow(*next));
        }
    }
    feeders
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::{Routing, Switching, topology};

    use super::*;

    const WIRE: WireProfile = WireProfile::ETHERNET_1538;
    const SCHEDULE: CreditSchedule = CreditSchedule {
        slot: Bytes::new(1622),
        burst: Bytes::new(168),
        spread: Bytes::ZERO,
        credit_wait: Bytes::new(8 * 1622),
        unscheduled: Bytes::ZERO,
        host_jitter: Duration::ZERO,
    };

    fn bounds(network: Network, schedule: &CreditSchedule) -> Option<BTreeMap<String, u64>> {
        let network = Arc::new(network);
        let paths = Paths::new(network.clone(), Routing::EcmpSymmetric, 1);
        let bounds = data_queue_bounds(&paths, &WIRE, schedule)?;
        let named = |(index, bound): (usize, &Bytes)| (network.link_name(LinkId(index as u32)), bound.get());
        Some(bounds.iter().enumerate().map(named).collect())
    }

    /// By hand, store and forward at 10 Gb/s: the port of a host answers a credit at once, so two packets for a burst of credits, these credits, a
    /// credit that has begun and the packet itself are 3 × 1538 + 168 + 84 = 4866 B.
    ///
    /// At the switch, a credit can wait for 8 slots of 1.2976 us and a full packet, 1.2304 us; its data can wait at the host behind 4866 - 1538 B at 1538
    /// of 1622 parts of the link, 2.807808 us (rounded up by a byte); and the packet can be a full one instead of one of 84 B, 1.2304 - 0.0672 us. These
    /// 15.582208 us hold 19,477.76 B, of which 1538 of 1622 parts are data: 18,469 B.
    #[test]
    fn one_switch_by_hand() {
        let network = topology::single_switch(3, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
        let found = bounds(network, &SCHEDULE).unwrap();
        assert_eq!(found["h0-s0"], 4866);
        let span_ps = 8 * 1_297_600 + 1_230_400 + 2_808_000 + 1_230_400 - 67_200;
        assert_eq!(span_ps, 15_582_400);
        assert_eq!(found["s0-h0"], 19_478 * 1538 / 1622 + 4866);
    }

    /// Jitter of hosts, longer waits of credits and unscheduled data count where data passes, at the rates of the links.
    #[test]
    fn every_wait_counts() {
        let network = || {
            topology::leaf_spine(
                3,
                2,
                2,
                Rate::from_gbps(10),
                Rate::from_gbps(40),
                Duration::from_us(1),
                Switching::StoreAndForward,
            )
        };
        let plain = bounds(network(), &SCHEDULE).unwrap();
        let jitter = bounds(network(), &CreditSchedule { host_jitter: Duration::from_us(10), ..SCHEDULE }).unwrap();
        // The answers of a host vary by 10 us more, and its port holds the data of 10 us more. So the answers that come to the next port vary by 20 us
        // more, and so on. 10 us are 12,500 B at 10 Gb/s, of which 1538 of 1622 parts are data.
        for (link, us, gbps) in [("h0-l0", 10, 10), ("l0-s0", 20, 40), ("s0-l0", 40, 40), ("l0-h0", 80, 10)] {
            let more = us * gbps * 125 * 1538 / 1622;
            assert!((jitter[link] - plain[link]).abs_diff(more) < 10, "{link}: {} to {}", plain[link], jitter[link]);
        }
        let patient = bounds(network(), &CreditSchedule { credit_wait: Bytes::new(80 * 1622), ..SCHEDULE }).unwrap();
        let unscheduled = bounds(network(), &CreditSchedule { unscheduled: Bytes::new(1538), ..SCHEDULE }).unwrap();
        for (link, bound) in &plain {
            assert!(patient[link] >= *bound && unscheduled[link] >= bound + 1538, "{link}");
        }
        assert!(patient["l0-h0"] > plain["l0-h0"]);
        // The downlinks of a spine have only other racks behind them, whose paths are equally long.
        assert!(plain["s0-l0"] > plain["h0-l0"] && plain["l0-h0"] > plain["h0-l0"]);
    }

    /// Sizes from 76 to 92 B have a variance of (17² - 1) / 12 = 24, and a byte of credit stands for 1538 / 84 bytes of data.
    #[test]
    fn the_deviation_of_random_sizes_by_hand() {
        let spread = CreditSchedule { spread: Bytes::new(8), ..SCHEDULE };
        assert!((spread.deviation(&WIRE) - 24_f64.sqrt() * 1538.0 / 84.0).abs() < 1e-9);
        assert_eq!(SCHEDULE.deviation(&WIRE), 0.0);
    }

    /// A slot that is a byte too short for a credit and its packet lets through more credits than the link has room for their data.
    #[test]
    fn credits_for_more_data_than_a_link_carries_have_no_bound() {
        let network = topology::single_switch(3, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
        assert_eq!(bounds(network, &CreditSchedule { slot: Bytes::new(1621), ..SCHEDULE }), None);
    }

    /// In a ring of five switches whose hosts send two hops on, each port waits for the one before it.
    #[test]
    fn a_cycle_of_waits_has_no_bound() {
        let mut network = Network::new(5, Switching::StoreAndForward);
        let switches: Vec<NodeId> = (0..5).map(|n| network.add_switch(1, "leaf", format!("s{n}"))).collect();
        for n in 0..5 {
            network.connect(NodeId(n as u32), switches[n], Rate::from_gbps(10), Duration::from_us(1));
            network.connect(switches[n], switches[(n + 1) % 5], Rate::from_gbps(10), Duration::from_us(1));
        }
        assert_eq!(bounds(network, &SCHEDULE), None);
    }
}
