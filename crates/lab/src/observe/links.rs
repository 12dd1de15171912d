//! Samples of links.

use std::sync::Arc;

use flowloom_core::{Duration, LinkId, Network, Rate, Time};
use flowloom_fabric::PortView;

use super::table::{Columns, Rows, Stamps};
use super::{Samples, Table, View, gbps};

/// Samples what links and their ports did.
pub(super) struct Links {
    links: Vec<(LinkId, Rate)>,
    /// By link, the counters at the last sample.
    before: Vec<Counters>,
    pub rows: Rows<LinkColumns>,
}

/// What is counted at a link.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Counters {
    packets: u64,
    bytes: u64,
    drops: u64,
    data_drops: u64,
    marks: u64,
    trims: u64,
    paused: Duration,
}

/// A row for each link on which something happened since the last sample.
#[derive(Default)]
pub(super) struct LinkColumns {
    stamps: Stamps,
    packets: Vec<u64>,
    bytes: Vec<u64>,
    utilisation: Vec<f64>,
    drops: Vec<u64>,
    data_drops: Vec<u64>,
    marks: Vec<u64>,
    trims: Vec<u64>,
    paused: Vec<f64>,
}

impl Links {
    pub fn new(links: &[LinkId], names: Arc<[String]>, network: &Network) -> Links {
        let links: Vec<_> = links.iter().map(|link| (*link, network.link(*link).rate)).collect();
        Links { before: vec![Counters::default(); links.len()], links, rows: Rows::new(names) }
    }

    pub fn sample(&mut self, at: Time, span: Duration, view: &dyn View) {
        let rows = &mut self.rows.columns;
        for ((index, (link, rate)), before) in (0..).zip(&self.links).zip(&mut self.before) {
            let PortView { counters, .. } = view.port(*link);
            let now = Counters {
                packets: counters.packets(),
                bytes: counters.bytes(),
                drops: counters.drops(),
                data_drops: counters.dropped_data_packets,
                marks: counters.marked_packets,
                trims: counters.trimmed_packets,
                paused: view.paused(*link, at),
            };
            let before = std::mem::replace(before, now);
            if span == Duration::ZERO || now == before {
                continue;
            }
            let bytes = now.bytes - before.bytes;
            rows.stamps.push(at, span, index);
            rows.packets.push(now.packets - before.packets);
            rows.bytes.push(bytes);
            rows.utilisation.push(gbps(bytes, span) * 1e9 / rate.as_bps() as f64);
            rows.drops.push(now.drops - before.drops);
            rows.data_drops.push(now.data_drops - before.data_drops);
            rows.marks.push(now.marks - before.marks);
            rows.trims.push(now.trims - before.trims);
            rows.paused.push((now.paused - before.paused).as_secs_f64());
        }
    }
}

impl Columns for LinkColumns {
    fn rows(&self) -> usize {
        self.stamps.of.len()
    }

    fn into_table(self, names: &Arc<[String]>) -> Table {
        let mut columns = self.stamps.into_columns("link", |of| Samples::Names(of, names.clone()));
        columns.extend([
            ("packets", Samples::Counts(self.packets)),
            ("bytes", Samples::Counts(self.bytes)),
            ("utilisation", Samples::Numbers(self.utilisation)),
            ("drops", Samples::Counts(self.drops)),
            ("data_drops", Samples::Counts(self.data_drops)),
            ("marks", Samples::Counts(self.marks)),
            ("trims", Samples::Counts(self.trims)),
            ("paused", Samples::Numbers(self.paused)),
        ]);
        Table { name: "links", columns }
    }
}
