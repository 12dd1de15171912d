//! What priority flow control did in a run.

use std::collections::BTreeMap;

use flowloom_core::{LinkId, Time};
use flowloom_fabric::Report;
use serde::Serialize;

use crate::blocking::{Blocking, Victim};
use crate::headroom::{self, HopHeadroom};
use crate::plan::Setup;
use crate::record::LinkPauses;

/// The results of priority flow control.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Lossless {
    /// What each class could store, by the hop over which its packets came in.
    pub headroom: BTreeMap<String, HopHeadroom>,
    /// Pause frames that were sent, to stop neighbours and to let them go on.
    pub frames: u64,
    /// How often a class of a link was stopped.
    pub stops: u64,
    /// The share of the run for which the most-paused link was paused.
    pub paused_share_max: f64,
    /// The links that were paused, by the names of their nodes.
    pub by_link: BTreeMap<String, PausedLink>,
    /// How many flows were head-of-line victims: their packets waited at a paused port, and most of this port's pauses came from congested
    /// ports that the flow does not cross. `None` where packets of one flow take different paths, or routes change during the run.
    pub victims: Option<usize>,
    /// The victims with the most packets that waited, 20 at most.
    pub worst_victims: Vec<VictimFlow>,
    /// The links that were paused although the memory of the node at their end was not full: pause storms of broken NICs.
    pub storms: Vec<StormOrigin>,
}

/// A link that the node at its end paused without need.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StormOrigin {
    /// The node that sent the pause frames.
    pub node: String,
    /// The link that it paused.
    pub link: String,
    /// How many frames it sent without need.
    pub frames: u64,
    /// The other links whose pauses were mostly caused by this one. `None` where packets of one flow take different paths, or routes change during the run.
    pub behind: Option<Vec<String>>,
}

/// One direction of a link that was paused.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PausedLink {
    /// Pause frames that were sent to its egress port.
    pub frames: u64,
    /// How often one of its classes was stopped.
    pub stops: u64,
    /// How long each class was paused, in microseconds, up to the last class that was paused.
    pub paused_us: Vec<f64>,
    /// The share of the run for which its most-paused class was paused.
    pub share: f64,
}

/// A flow that waited for a congested port which it does not cross.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VictimFlow {
    /// The flow's number.
    pub flow: u32,
    /// The paused link at whose port it waited.
    pub at: String,
    /// The link behind the congested port to which most of the pauses are traced back.
    pub congested: String,
    /// How many of its packets came to the port while it was paused.
    pub packets: u64,
}

const EXAMPLES: usize = 20;

impl Lossless {
    /// The results of a run, given what happened to each link.
    pub(crate) fn of(setup: &Setup, report: &Report, links: &[LinkPauses]) -> Lossless {
        let blocking = Blocking::of(report, links, setup);
        let victims = blocking.as_ref().map(Blocking::victims);
        let by_link: BTreeMap<_, _> = (0..)
            .map(LinkId)
            .zip(links)
            .filter(|(_, link)| link.frames > 0)
            .map(|(id, link)| (report.network.link_name(id), PausedLink::of(link, report.end)))
            .collect();
        Lossless {
            headroom: headroom::by_hop(setup),
            frames: links.iter().map(|link| link.frames).sum(),
            stops: links.iter().map(|link| link.stops).sum(),
            paused_share_max: by_link.values().map(|link| link.share).fold(0.0, f64::max),
            by_link,
            victims: victims.as_deref().map(flows),
            worst_victims: victims.map(|victims| worst(victims, report)).unwrap_or_default(),
            storms: storms(report, links, blocking.as_ref()),
        }
    }
}

/// How many flows there are among victims, which are sorted by flow.
fn flows(victims: &[Victim]) -> usize {
    victims.chunk_by(|a, b| a.flow == b.flow).count()
}

fn worst(mut victims: Vec<Victim>, report: &Report) -> Vec<VictimFlow> {
    victims.sort_by_key(|victim| (std::cmp::Reverse(victim.packets), victim.flow, victim.at));
    let name = |link| report.network.link_name(link);
    let named = |victim: &Victim| VictimFlow {
        flow: victim.flow.0,
        at: name(victim.at),
        congested: name(victim.congested),
        packets: victim.packets,
    };
    victims.iter().take(EXAMPLES).map(named).collect()
}

fn storms(report: &Report, links: &[LinkPauses], blocking: Option<&Blocking<'_>>) -> Vec<StormOrigin> {
    let name = |link: LinkId| report.network.link_name(link);
    let origins = blocking.map(Blocking::origin_of_each);
    let origin = |(link, paused): (LinkId, &LinkPauses)| StormOrigin {
        node: report.network.node(report.network.link(link).to).name.clone(),
        link: name(link),
        frames: paused.needless_frames,
        behind: origins.as_ref().map(|origins| {
            let behind = origins.iter().filter(|(other, origin)| **other != link && **origin == link);
            behind.map(|(other, _)| name(*other)).collect()
        }),
    };
    (0..).map(LinkId).zip(links).filter(|(_, paused)| paused.needless_frames > 0).map(origin).collect()
}

impl PausedLink {
    fn of(link: &LinkPauses, end: Time) -> PausedLink {
        let last = link.paused.iter().rposition(|paused| paused.as_ps() > 0).map_or(0, |last| last + 1);
        PausedLink {
            frames: link.frames,
            stops: link.stops,
            paused_us: link.paused[..last].iter().map(|paused| paused.as_us_f64()).collect(),
            share: link.longest().as_secs_f64() / end.as_secs_f64(), // a frame was sent, so time has passed
        }
    }
}
