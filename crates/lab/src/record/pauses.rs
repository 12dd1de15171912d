//! What priority flow control does: pause frames, how long links are paused, and whose packets wait at paused ports.

use std::collections::BTreeMap;

use flowloom_core::{Duration, FlowId, LinkId, Packet, Time};
use flowloom_fabric::{AimedFault, Fault, Observer};
use flowloom_transports::disciplines::{ClassSet, MOST_CLASSES};
use flowloom_transports::pfc::{NOBODY, stopped_by};

use super::{AtEachHop, Recorded};
use crate::changing::ChangingNetwork;

/// What pause frames did to one direction of a link.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkPauses {
    /// Frames that were sent to its egress port.
    pub frames: u64,
    /// Of these, frames that stopped a class which could be sent before. Frames that were damaged on their way do not count.
    pub stops: u64,
    /// Frames that were sent for no packet: the node at the link's end pauses the link without need.
    pub needless_frames: u64,
    /// Of the stops, those for no packet.
    pub needless_stops: u64,
    /// How long each class was paused.
    pub paused: [Duration; MOST_CLASSES],
    /// The classes that were paused when the run ended. A cut ends all pauses of a link.
    pub standing: ClassSet,
    /// The time since when they were paused, by class.
    pub since: [Time; MOST_CLASSES],
    /// When the last pause of each class that has ended did, or will: a frame that is on its way counts already.
    pub until: [Time; MOST_CLASSES],
    /// The flows for whose packets the link was stopped, and how often.
    pub causes: BTreeMap<FlowId, u64>,
    /// The flows whose packets came to the port while their class was paused, and how many did.
    pub waiting: BTreeMap<FlowId, u64>,
}

impl LinkPauses {
    /// How long the most-paused class was paused.
    pub fn longest(&self) -> Duration {
        self.paused.into_iter().max().unwrap_or_default()
    }
    /// Counts the pause of a class that ends at this time.
    fn end(&mut self, class: usize, at: Time) {
        self.paused[class] += at.saturating_since(self.since[class]);
        self.until[class] = at;
    }
    /// Ends the pauses of all classes.
    fn end_all(&mut self, at: Time) {
        let standing = std::mem::replace(&mut self.standing, ClassSet::NONE);
        for class in (0..MOST_CLASSES).filter(|class| standing.has(*class)) {
            self.end(class, at);
        }
    }
    /// The same while the run goes on, at this time: classes that are paused now count until now.
    fn longest_until(&self, now: Time) -> Duration {
        let until = |class: usize| {
            let since = self.since[class];
            if self.standing.has(class) {
                return self.paused[class] + now.saturating_since(since);
            }
            // Of the last pause, a part may still be to come.
            self.paused[class] - self.until[class].saturating_since(now.max(since))
        };
        (0..MOST_CLASSES).map(until).max().unwrap_or_default()
    }
}

/// Records pauses. It sees each pause frame when it leaves, and computes when it takes effect: on its arrival, and for a pause after the reaction
/// time in addition.
#[derive(Clone, Debug)]
pub struct Pauses {
    network: ChangingNetwork,
    reaction: Duration,
    /// The last class; packets of higher ones are in it.
    last: usize,
    /// By the link that is paused.
    links: Vec<LinkPauses>,
    /// When each link is cut, the next time last.
    cuts: Vec<Vec<Time>>,
}

impl Pauses {
    /// A recorder for this network, whose ports have this many classes, and whose links have these faults.
    pub fn new(network: ChangingNetwork, reaction: Duration, classes: u8, faults: &[Vec<AimedFault>]) -> Pauses {
        let links = vec![LinkPauses::default(); network.last().links().len()];
        let cut = |aimed: &AimedFault| if let Fault::Cut(from, _) = aimed.fault { Some(from) } else { None };
        let cuts = faults.iter().map(|faults| {
            let mut cuts: Vec<Time> = faults.iter().filter_map(cut).collect();
            cuts.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
            cuts
        });
        Pauses { network, reaction, last: usize::from(classes) - 1, links, cuts: cuts.collect() }
    }

    /// What is known of a link at this time, before which its cuts have ended its pauses.
    #[cold]
    fn link_at(&mut self, link: LinkId, now: Time) -> Option<&mut LinkPauses> {
        let paused = self.links.get_mut(link.index())?;
        let cuts = &mut self.cuts[link.index()];
        while let Some(cut) = cuts.pop_if(|cut| *cut <= now) {
            paused.end_all(cut);
        }
        Some(paused)
    }

    #[cold]
    fn frame<H>(&mut self, now: Time, link: LinkId, packet: &Packet<H>, stopped: ClassSet) {
        self.link_at(link.reverse(), now);
        let Some(paused) = self.links.get_mut(link.reverse().index()) else { return };
        let line = self.network.at(now).link(link);
        let arrives = now + line.rate.transmit_time(packet.size()) + line.delay;
        paused.frames += 1;
        paused.needless_frames += u64::from(packet.flow == NOBODY);
        if packet.corrupt || stopped == paused.standing {
            return;
        }
        for class in 0..MOST_CLASSES {
            match (paused.standing.has(class), stopped.has(class)) {
                (false, true) => {
                    paused.since[class] = arrives + self.reaction;
                    paused.stops += 1;
                    match packet.flow {
                        NOBODY => paused.needless_stops += 1,
                        flow => *paused.causes.entry(flow).or_default() += 1,
                    }
                }
                (true, false) => paused.end(class, arrives),
                _ => {}
            }
        }
        paused.standing = stopped;
    }

    /// What happened in a run that ended at this time, by link.
    pub fn into_links(mut self, end: Time) -> Vec<LinkPauses> {
        for index in 0..self.links.len() {
            let Some(link) = self.link_at(LinkId(index as u32), end) else { continue };
            for class in (0..MOST_CLASSES).filter(|class| link.standing.has(*class)) {
                link.paused[class] += end.saturating_since(link.since[class]);
            }
        }
        self.links
    }
}

impl<H> Observer<H> for Pauses {
    #[inline]
    fn packet_queued(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>, _: u64) {
        let class = usize::from(packet.class).min(self.last);
        let is_paused = |link: &LinkPauses| link.standing.has(class) && link.since[class] <= now;
        // A control host's link is not known.
        if self.links.get(link.index()).is_some_and(is_paused)
            && let Some(paused) = self.link_at(link, now)
            && is_paused(paused)
        {
            *paused.waiting.entry(packet.flow).or_default() += 1;
        }
    }
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>) {
        if let Some(stopped) = stopped_by(packet) {
            self.frame(now, link, packet, stopped);
        }
    }
}

impl<H> AtEachHop<H> for Pauses {
    fn add_to(self, recorded: &mut Recorded, end: Time) {
        recorded.pauses = Some(self.into_links(end));
    }
    fn paused(&self, link: LinkId, now: Time) -> Duration {
        let next_cut = self.cuts.get(link.index()).and_then(|cuts| cuts.last()).copied().unwrap_or(Time::MAX);
        self.links.get(link.index()).map_or(Duration::ZERO, |link| link.longest_until(now.min(next_cut)))
    }
}
