//! What a run has shown that makes its numbers misleading, and that only its plan explains.

use flowloom_core::DropReason;
use flowloom_fabric::Report;

use crate::dead_links;
use crate::metrics::Finding;
use crate::plan::Setup;
use crate::record::TraceEnd;
use crate::row::Row;

/// Where no design excludes losses, a warning comes when full ports lost more than this share of the data packets that left their sources. Transports that accept losses
/// lose less under a load that arrives over time, if their parameters suit the network: on the fabrics of the papers and at loads of up to 0.8, pFabric loses 1 % to 2 %,
/// TCP up to 6 %, and LAS up to 9 %. Above a tenth, a tenth of what hosts send is in vain.
const LOST_MOST: f64 = 0.1;

/// What is to be known about the results of a plan's run.
pub(crate) fn of(setup: &Setup, report: &Report, rows: &[Row], trace: Option<TraceEnd>) -> Vec<Finding> {
    let waited = dead_links::observed(setup, report, rows).into_iter().map(|text| Finding { flag: "dead link", text });
    waited.chain(lost_data(setup, report)).chain(trace.and_then(cut_trace)).collect()
}

/// A trace that reached its limit.
fn cut_trace(trace: TraceEnd) -> Option<Finding> {
    let TraceEnd { records, full_at } = trace;
    let at = full_at?;
    let text = format!(
        "trace.records: {records} transmissions and drops were recorded until {at}, and nothing afterwards; choose fewer flows, links or a later trace.from, or raise it"
    );
    Some(Finding { flag: "trace cut", text })
}

/// Data that full ports lost although the design excludes it, or a large share of all data.
fn lost_data(setup: &Setup, report: &Report) -> Option<Finding> {
    let lost: u64 = report.ports.iter().map(|port| port.dropped_data_packets).sum();
    // Faults disturb any design, and what they lose is what the scenario asks for.
    let no_loss = setup.parameters.no_loss(&setup.conditions()).filter(|_| lost > 0 && setup.is_calm());
    let name = setup.transport.name;
    let text = if let Some(no_loss) = no_loss {
        format!("{lost} data packets were lost, although {name} {}: {}", no_loss.how, no_loss.advice)
    } else {
        let by_faults: u64 =
            report.ports.iter().flat_map(|port| FAULTS.map(|reason| port.dropped_packets[reason as usize])).sum();
        let by_ports = lost.saturating_sub(by_faults);
        let share = by_ports as f64 / report.data_packets.max(1) as f64;
        if share <= LOST_MOST {
            return None;
        }
        let sent = report.data_packets;
        format!(
            "full ports lost {by_ports} of {sent} data packets, {:.0} %, so that completion times depend on how {name} finds losses; raise \
             fabric.buffer ({}), or let {name} send less at once",
            100.0 * share,
            setup.memory.bytes()
        )
    };
    Some(Finding { flag: "data lost", text })
}

/// What faults do to packets.
const FAULTS: [DropReason; 4] = [DropReason::Lost, DropReason::Corrupted, DropReason::LinkDown, DropReason::NodeDown];
