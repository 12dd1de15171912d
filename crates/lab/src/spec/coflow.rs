//! `kind = "coflow_trace"` and `kind = "coflow_synthetic"`: workloads of coflows.

use flowloom_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LoadLink, Quantity};

/// Coflows from a file in the format of the Facebook trace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoflowTrace {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "FB2010-1Hr-150-0.txt")]
    pub file: String,
    /// All sizes are divided by this number. A flow has one byte at least.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub size_divisor: f64,
    /// All times between arrivals are divided by this number.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub time_divisor: f64,
    /// Coflows that arrive earlier than this in the trace are left out. The run starts at this time of the trace.
    #[serde(default)]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// Coflows that arrive at this time of the trace or later are left out. Without it, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub until: Option<Quantity<Duration>>,
    /// The most coflows that are taken, in order of arrival. Without it, all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000), example = 100)]
    pub coflows: Option<u32>,
}

/// Coflows that are drawn at random, like those of the Facebook trace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoflowSynthetic {
    /// How many coflows there are.
    #[schemars(range(min = 1, max = 1_000_000), example = 100)]
    pub coflows: u32,
    /// The utilisation of the busiest link among those that `load_link` names, in expectation over arrivals and hosts, given the bytes of
    /// the coflows that were drawn. Payload and headers of every data packet sent once count.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.6)]
    pub load: f64,
    /// Which links `load` is about.
    #[serde(default)]
    pub load_link: LoadLink,
    /// All sizes are divided by this number. A flow has one byte at least.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub size_divisor: f64,
}

fn one() -> f64 {
    1.0
}
