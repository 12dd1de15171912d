//! The numbers that a run is judged by: a row per flow, and one summary. `docs/metrics.md` defines every number, and
//! `docs/data-dictionary.md` lists every column and key.

mod lossless;
mod ports;
mod requests;
mod stats;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use flowloom_core::{Bytes, Duration, Flow, Time, WireProfile};
use flowloom_fabric::{Abort, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ideal::UnloadedTimes;

pub use crate::headroom::HopHeadroom;
pub use lossless::{Lossless, PausedLink, StormOrigin, VictimFlow};
pub use ports::{Drops, HopQueue, HopUtilisation};
pub use requests::{RequestClass, Requests};
pub use stats::{Stats, mean, percentile};
pub use summary::{Background, ControlMessages, Distribution, Gaps, RunInfo, SizeBin, Summary, Tenant, TierMessages};
pub use table::{Column, columns};

/// Which event ends a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FctEnd {
    /// The last byte is delivered (PIAS, ExpressPass).
    #[default]
    Receiver,
    /// The sender has the final acknowledgement (pHost).
    Sender,
}

/// One flow's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The flow.
    pub flow: Flow,
    /// When it ended, `None` if the run ended first or it was aborted.
    pub finish: Option<Time>,
    /// When and why it was aborted, if it was. Such a flow has no finish.
    pub aborted: Option<Abort>,
    /// How long the flow takes when it is alone in the network, to the same kind of end, plus the request's delay. More than zero.
    pub optimum: Duration,
    /// The time before the flow's start that is not simulated: the delay of the request and the time of the application.
    pub request_delay: Duration,
    /// Payload that reached the receiver for the first time.
    pub delivered: Bytes,
    /// Data packets that were sent again.
    pub retransmissions: u32,
    /// How often its retransmission timer expired.
    pub timeouts: u32,
    /// How many of these timeouts came directly after another one without progress, as the second of a series.
    pub second_timeouts: u32,
}

impl Row {
    /// Flow completion time: the time from the start to the finish, plus the request's delay.
    pub fn fct(&self) -> Option<Duration> {
        self.finish.map(|finish| finish - self.flow.start + self.request_delay)
    }
    /// Slowdown: flow completion time over optimum (pHost, §4.1).
    pub fn slowdown(&self) -> Option<f64> {
        self.fct().map(|fct| fct.as_ps() as f64 / self.optimum.as_ps() as f64)
    }
    /// Whether it finished by its deadline; `None` if it has none. A flow that is unfinished or aborted is late.
    pub fn on_time(&self) -> Option<bool> {
        self.flow.deadline.map(|deadline| self.finish.is_some_and(|finish| finish <= deadline))
    }
}

/// The times that completion times are divided by.
#[derive(Clone, Copy, Debug)]
pub enum Optima<'a> {
    /// The closed form: the flow's packets back to back over the idle network.
    ClosedForm,
    /// The closed form behind the round trip of two control packets.
    Handshake,
    /// Measured ones: one for each flow of the workload, by its id.
    Solo(&'a [Duration]),
}

/// One row for each flow of a run, in the report's order. `request_delay` is added to completion times and optima. Background flows have rows
/// only if `background` is set.
///
/// # Panics
/// If measured optima lack a flow.
pub fn rows(
    report: &Report,
    wire: &WireProfile,
    end: FctEnd,
    request_delay: Duration,
    background: bool,
    optima: Optima<'_>,
) -> Vec<Row> {
    assert_eq!(report.flows.len(), report.records.len(), "one record for each flow");
    let mut unloaded = UnloadedTimes::new(&report.network, wire);
    let flows = report.flows.iter().zip(&report.records);
    flows
        .filter(|(flow, _)| background || !flow.background)
        .map(|(flow, record)| {
            let finish = match end {
                FctEnd::Receiver => record.received,
                FctEnd::Sender => record.acknowledged,
            };
            let optimum = match optima {
                Optima::ClosedForm => closed_form(&mut unloaded, flow, end),
                Optima::Handshake => unloaded.handshake(flow) + closed_form(&mut unloaded, flow, end),
                Optima::Solo(solo) => solo[flow.id.0 as usize],
            };
            Row {
                flow: *flow,
                finish: (finish != Time::MAX && record.aborted.is_none()).then_some(finish),
                aborted: record.aborted,
                optimum: optimum + request_delay,
                request_delay,
                delivered: Bytes::new(record.delivered_bytes),
                retransmissions: record.retransmissions,
                timeouts: record.timeouts,
                second_timeouts: record.second_timeouts,
            }
        })
        .collect()
}

pub(crate) fn closed_form(unloaded: &mut UnloadedTimes<'_>, flow: &Flow, end: FctEnd) -> Duration {
    match end {
        FctEnd::Receiver => unloaded.received(flow),
        FctEnd::Sender => unloaded.received(flow) + unloaded.acknowledgement(flow),
    }
}
