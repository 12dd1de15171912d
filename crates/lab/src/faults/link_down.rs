//! `kind = "link_down"`: links that are down for a while.

use flowloom_core::{Duration, Time};
use flowloom_fabric::Fault;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, LinkOutage, Noticed, Site, Span, Wrong, both_directions};
use crate::places::links_at;

/// Links are down for a while, in both directions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDown {
    /// The links that go down.
    #[serde(rename = "where")]
    #[schemars(example = "l0-s0")]
    pub place: String,
    /// When they go down.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When they come up again.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
    /// How long switches take to notice that the links are down or up again, and to send packets over other shortest paths. What is at the ports or on the links when these go
    /// down is lost. Without it, switches notice nothing, and what is at the ports waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub reroute_after: Option<Quantity<Duration>>,
}

impl LinkDown {
    /// From when until when it is known that the links are down, if that is noticed.
    pub(super) fn known(&self) -> Option<[Time; 2]> {
        self.reroute_after.map(|after| [self.from, self.to].map(|at| Time::ZERO + at.0 + after.0))
    }
}

impl Failure for LinkDown {
    fn span(&self) -> Option<Span> {
        let right = "the link comes up after it went down at";
        Some(Span { from: self.from.0, to: self.to.0, right })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        let named = links_at(&self.place, site.network).map_err(|message| ("where", message))?;
        let (from, to) = (Time::ZERO + self.from.0, Time::ZERO + self.to.0);
        // A broken cable affects both directions.
        let links = both_directions(&named);
        let Some([known_from, known_to]) = self.known() else {
            faults.strike(&links, Fault::Down(from, to).into());
            faults.link_outages.push(LinkOutage { fault: site.index, links: named, from, to });
            return Ok(());
        };
        if let Some(why) = site.fixed_routes {
            let message = format!("the routes of {} cannot change in a run, because {why}; leave it out", site.transport);
            return Err(("reroute_after", message));
        }
        if !site.network.is_connected_by(|link| links.binary_search(&link).is_err()) {
            return Err(("reroute_after", format!("without \"{}\", some nodes cannot be reached; leave it out", self.place)));
        }
        faults.strike(&links, Fault::Cut(from, to).into());
        // Nothing waits for the links once there is another way.
        faults.link_outages.push(LinkOutage { fault: site.index, links: named, from, to: to.min(known_from) });
        faults.noticed.push(Noticed { at: known_from, fault: site.index, links: links.clone(), down: true });
        faults.noticed.push(Noticed { at: known_to, fault: site.index, links, down: false });
        Ok(())
    }
}
