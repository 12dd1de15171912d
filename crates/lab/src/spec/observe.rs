//! What is recorded over the course of a run.

use flowloom_core::{Duration, FlowId};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is recorded over the course of the run. Each kind of samples is a file in `series` (docs/data-dictionary.md). All but `pending` are taken at regular instants,
/// from `from` on with `period` between them; nothing is sampled while nothing happens. What is not asked for costs nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Observe {
    /// How much has arrived at the sources and has not been sent, as shares of all bytes, which shows whether the network keeps up. It is sampled as flows
    /// arrive.
    pub pending: bool,
    /// The ports whose queues are sampled: bytes and packets in all, and by class. Each entry names ports as `fault.where` does: a hop (`"leaf-host"`), one link
    /// (`"l0-s1"`), or `"all"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The links that are sampled, named likewise: utilisation, packets, bytes, drops, marks, trims and pauses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The flows that are sampled while they are open: delivered bytes, goodput, and what their endpoints tell, such as windows, rates and tokens. Either `"all"` or
    /// a list of numbers, as in the column `id` of the flow table.
    #[serde(skip_serializing_if = "FlowChoice::is_empty")]
    pub flows: FlowChoice,
    /// Of these flows, only those of these tenants, as in the column `tenant` of the flow table; an empty list means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<u16>,
    /// The hosts that are sampled: open flows, and the goodput that they receive. Each entry is a host's name, or `"all"`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The time between two samples.
    #[schemars(extend("x-min" = "1ns", "x-max" = "1000s"))]
    pub period: Quantity<Duration>,
    /// When sampling begins.
    #[schemars(extend("x-min" = "0s", "x-max" = "10000000s"))]
    pub from: Quantity<Duration>,
    /// When sampling ends, if it does before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "0s", "x-max" = "10000000s"))]
    pub to: Option<Quantity<Duration>>,
}

/// Flows that are sampled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FlowChoice {
    /// All.
    All(AllFlows),
    /// Those with these numbers.
    Ids(#[schemars(inner(range(max = 4_294_967_295_u32)))] Vec<u32>),
}

/// The word for all flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllFlows {
    /// All flows.
    All,
}

impl FlowChoice {
    /// Whether no flow is chosen.
    pub fn is_empty(&self) -> bool {
        *self == FlowChoice::Ids(Vec::new())
    }
    /// The same choice with its numbers in ascending order, for [`FlowChoice::has`].
    pub(crate) fn sorted(&self) -> FlowChoice {
        let mut sorted = self.clone();
        if let FlowChoice::Ids(ids) = &mut sorted {
            ids.sort_unstable();
        }
        sorted
    }
    /// Whether a flow is chosen. The numbers must be in ascending order.
    pub(crate) fn has(&self, flow: FlowId) -> bool {
        match self {
            FlowChoice::All(_) => true,
            FlowChoice::Ids(ids) => ids.binary_search(&flow.0).is_ok(),
        }
    }
}

impl Default for FlowChoice {
    fn default() -> FlowChoice {
        FlowChoice::Ids(Vec::new())
    }
}

impl Default for Observe {
    fn default() -> Observe {
        Observe {
            pending: true,
            queues: Vec::new(),
            links: Vec::new(),
            flows: FlowChoice::default(),
            tenants: Vec::new(),
            hosts: Vec::new(),
            period: Quantity(Duration::from_us(100)),
            from: Quantity::default(),
            to: None,
        }
    }
}
