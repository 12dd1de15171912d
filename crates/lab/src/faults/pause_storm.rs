//! `kind = "pause_storm"`: a node that pauses its neighbours without need.

use flowloom_core::{Duration, Time};
use flowloom_transports::pfc::Storm;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Deed, Failure, Faults, Site, Span, Wrong};

/// A node pauses all its neighbours for a while although it is not out of memory, as a broken NIC does. It needs `[fabric.pfc]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseStorm {
    /// The name of a NIC or of a switch. A host with one NIC, and the first NIC of one with several, is called `h0`; its other NICs are called `h0:2`, `h0:3` and so on.
    #[schemars(example = &"h0")]
    pub node: String,
    /// When it sends the first pause frame, to each neighbour. Frames stop all classes.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// When it sends the last frame, which lets its neighbours go on.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub to: Quantity<Duration>,
    /// The time from one frame to the next. The default is half of the longest pause that a frame of IEEE 802.1Qbb can ask for at 10 Gb/s, 65,535
    /// quanta of 512 bits.
    #[serde(default = "half_of_the_longest_pause")]
    #[schemars(extend("x-min" = "1us", "x-max" = "1000000s"))]
    pub every: Quantity<Duration>,
}

fn half_of_the_longest_pause() -> Quantity<Duration> {
    Quantity(Duration::from_ns(1_677_696))
}

impl Failure for PauseStorm {
    fn check(&self, flow_control: bool) -> Result<(), Wrong> {
        if flow_control {
            return Ok(());
        }
        let found = "found \"pause_storm\", but no port obeys pause frames without priority flow control";
        Err(("kind", format!("{found}; add [fabric.pfc], or give another kind")))
    }

    fn span(&self) -> Option<Span> {
        let right = "the storm ends after it began at";
        Some(Span { from: self.from.0, to: self.to.0, right })
    }

    fn place(&self, site: &Site<'_>, faults: &mut Faults) -> Result<(), Wrong> {
        let node = site.node_named(&self.node).map_err(|message| ("node", message))?;
        let (from, to) = (Time::ZERO + self.from.0, Time::ZERO + self.to.0);
        faults.storms.push(Storm { node, from, to, every: self.every.0 });
        faults.deeds.push(Deed { what: "pauses its neighbours", node, from, to, fault: site.index });
        Ok(())
    }
}
