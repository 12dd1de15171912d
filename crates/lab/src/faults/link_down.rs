//! `kind = "link_down"`: links that are down for a while.

use flowloom_core::{Duration, LinkId, Time};
use flowloom_fabric::Fault;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, LinkOutage, Site, Span, Wrong};
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
}

impl Failure for LinkDown {
    fn span(&self) -> Option<Span<'_>> {
        let right = "the link comes up after it went down at";
        Some(Span { from: self.from.0, to: self.to.0, right, node: None })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        let named = links_at(&self.place, site.network).map_err(|message| ("where", message))?;
        let (from, to) = (Time::ZERO + self.from.0, Time::ZERO + self.to.0);
        // A broken cable affects both directions.
        let mut links = [&named[..], &named.iter().map(|link| link.reverse()).collect::<Vec<LinkId>>()].concat();
        links.sort_unstable();
        links.dedup();
        faults.strike(&links, Fault::Down(from, to).into());
        faults.link_outages.push(LinkOutage { fault: site.index, links: named, from, to });
        Ok(())
    }
}
