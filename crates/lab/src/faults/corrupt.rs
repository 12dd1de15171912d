//! `kind = "corrupt"`: damaged packets.

use flowloom_fabric::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Failure, Faults, Random, Site, Wrong};

/// Packets arrive damaged, and the receiving host discards them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Corrupt(pub Random);

impl Failure for Corrupt {
    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        self.0.place(Fault::Corrupt(self.0.probability), site, faults)
    }
}
