//! The numbers that a run is judged by: a row per flow, and one summary. `docs/metrics.md` defines every number, and
//! `docs/data-dictionary.md` lists every column and key.

pub(crate) mod jobs;
mod lossless;
mod ports;
mod requests;
mod stats;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use flowloom_core::{Bytes, Duration, Flow, Time, WireProfile};
use flowloom_fabric::Report;

use crate::ideal::UnloadedTimes;

pub use crate::headroom::HopHeadroom;
pub use crate::row::Row;
pub use crate::spec::FctEnd;
pub use jobs::JobResult;
pub use lossless::{Lossless, PausedLink, StormOrigin, VictimFlow};
pub use ports::{Drops, HopQueue, HopUtilisation};
pub use requests::{RequestClass, Requests};
pub use stats::{Stats, mean, percentile};
pub use summary::{Background, ControlMessages, Distribution, Finding, Gaps, RunInfo, SizeBin, Summary, Tenant, TierMessages};
pub use table::{Column, columns};

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
