//! `kind = "flapping"`: links that go down again and again.

use flowloom_core::{Duration, Time};
use flowloom_fabric::Fault;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, LinkOutage, Site, Span, Wrong};
use crate::places::links_at;

/// Links go down again and again, as with a bad plug.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flapping {
    /// The links that go down, each in the direction that it is named in.
    #[serde(rename = "where")]
    #[schemars(example = "l0-s0")]
    pub place: String,
    /// When they go down for the first time.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// From then on, they stay up.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
    /// The time from one outage to the next.
    #[schemars(extend("x-min" = "1us", "x-max" = "1000000s"))]
    pub every: Quantity<Duration>,
    /// How long each outage lasts.
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub down: Quantity<Duration>,
}

impl Failure for Flapping {
    fn check(&self, _: bool) -> Result<(), Wrong> {
        if self.down < self.every {
            return Ok(());
        }
        Err(("down", format!("found {}; an outage ends before the next one begins, {} later", self.down.0, self.every.0)))
    }

    fn span(&self) -> Option<Span> {
        let right = "the links stay up after they went down at";
        Some(Span { from: self.from.0, to: self.to.0, right })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        let links = links_at(&self.place, site.network).map_err(|message| ("where", message))?;
        let mut from = self.from.0;
        while from < self.to.0 {
            let outage = LinkOutage {
                fault: site.index,
                links: links.clone(),
                from: Time::ZERO + from,
                to: Time::ZERO + (from + self.down.0).min(self.to.0),
            };
            faults.strike(&links, Fault::Down(outage.from, outage.to).into());
            faults.link_outages.push(outage);
            from += self.every.0;
        }
        Ok(())
    }
}
