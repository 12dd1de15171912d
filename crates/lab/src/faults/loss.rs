//! `kind = "loss"`: lost packets.

use flowloom_fabric::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, Random, Site, Wrong};

/// Packets vanish.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Loss(pub Random);

impl Failure for Loss {
    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        self.0.place(Fault::Loss(self.0.probability), site, faults)
    }
}
