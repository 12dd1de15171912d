//! `kind = "link_rate"`: links that are slower for a while.

use flowloom_core::{Duration, Rate, Time};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, Site, Slowed, Span, Wrong, both_directions};
use crate::places::links_at;

/// Links are slower for a while, in both directions, as after a negotiation that went wrong. Nobody is told: hosts and switches go on as if links had their own rates. A packet that is
/// on the wire when the rate changes keeps the old one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRate {
    /// The links that are slower.
    #[serde(rename = "where")]
    #[schemars(example = "l0-s0")]
    pub place: String,
    /// Their rate meanwhile, which is less than their own.
    #[schemars(extend("x-min" = "1b/s", "x-max" = "1000Tb/s"))]
    pub rate: Quantity<Rate>,
    /// From when on.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When they have their own rates again.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
}

impl Failure for LinkRate {
    fn span(&self) -> Option<Span> {
        let right = "the link has its own rate again after it became slower at";
        Some(Span { from: self.from.0, to: self.to.0, right })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        if let Some(why) = site.fixed_rates {
            let message = format!("rates cannot change in a run of {}, because {why}; leave it out", site.transport);
            return Err(("rate", message));
        }
        let named = links_at(&self.place, site.network).map_err(|message| ("where", message))?;
        for link in both_directions(&named) {
            let own = site.network.link(link).rate;
            if self.rate.0 >= own {
                let name = site.network.link_name(link);
                return Err(("rate", format!("found {}; the link {name} has {own}, and it must be less", self.rate.0)));
            }
            let (from, to) = (Time::ZERO + self.from.0, Time::ZERO + self.to.0);
            faults.slowed.push(Slowed { link, rate: self.rate.0, from, to, fault: site.index });
        }
        Ok(())
    }
}
