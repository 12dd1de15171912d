//! `kind = "duplicate"`: duplicates.

use flowloom_fabric::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, Random, Site, Wrong};

/// Packets are sent twice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Duplicate(pub Random);

impl Failure for Duplicate {
    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        self.0.place(Fault::Duplicate(self.0.probability), site, faults)
    }
}
