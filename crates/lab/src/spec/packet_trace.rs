//! Which packets are recorded one by one.

use flowloom_core::Duration;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AllFlows, FlowChoice};

/// Packets that are recorded one by one, as a capture for Wireshark and as a timeline for Perfetto (docs/traces.md). An empty section records the first packets of the run.
/// A run without it pays nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacketTrace {
    /// The flows whose packets are recorded: `"all"`, or a list of numbers, as in the column `id` of the flow table.
    pub flows: FlowChoice,
    /// The links on which they are recorded, named as in `fault.where`: a hop (`"leaf-host"`), one link (`"l0-s1"`), or `"all"`.
    pub links: Vec<String>,
    /// When recording begins.
    #[schemars(extend("x-min" = "0s", "x-max" = "10000000s"))]
    pub from: Quantity<Duration>,
    /// When recording ends, if it does before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "10000000s"))]
    pub to: Option<Quantity<Duration>>,
    /// How many transmissions and drops are recorded at most. Each takes about 150 bytes of the capture and 250 bytes of the timeline.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub records: u32,
    /// Whether there is a capture, `trace/packets.pcapng`.
    pub capture: bool,
    /// Whether there is a timeline, `trace/timeline.pftrace`.
    pub timeline: bool,
}

impl Default for PacketTrace {
    fn default() -> PacketTrace {
        PacketTrace {
            flows: FlowChoice::All(AllFlows::All),
            links: vec!["all".to_owned()],
            from: Quantity::default(),
            to: None,
            records: 200_000,
            capture: true,
            timeline: true,
        }
    }
}
