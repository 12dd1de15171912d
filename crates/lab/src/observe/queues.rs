//! Samples of queues.

use std::sync::Arc;

use flowloom_core::{Duration, LinkId, Time};
use flowloom_fabric::CLASSES;

use super::table::{Columns, Rows, Stamps};
use super::{Samples, Table, View};

/// Samples the queues of ports.
pub(super) struct Queues {
    links: Vec<LinkId>,
    /// By port, the integrals of queued bytes and packets over time at the last sample.
    before: Vec<(u128, u128)>,
    pub rows: Rows<QueueColumns>,
}

/// A row for each port that had packets queued since the last sample.
#[derive(Default)]
pub(super) struct QueueColumns {
    stamps: Stamps,
    bytes: Vec<u64>,
    packets: Vec<u64>,
    mean_bytes: Vec<f64>,
    mean_packets: Vec<f64>,
    /// By row, the bytes and the packets of each class. Together, they are written in one go.
    by_class: Vec<[[u64; CLASSES]; 2]>,
}

const CLASS_BYTES: [&str; CLASSES] = [
    "class_0_bytes",
    "class_1_bytes",
    "class_2_bytes",
    "class_3_bytes",
    "class_4_bytes",
    "class_5_bytes",
    "class_6_bytes",
    "class_7_bytes",
];
const CLASS_PACKETS: [&str; CLASSES] = [
    "class_0_packets",
    "class_1_packets",
    "class_2_packets",
    "class_3_packets",
    "class_4_packets",
    "class_5_packets",
    "class_6_packets",
    "class_7_packets",
];

impl Queues {
    pub fn new(links: &[LinkId], names: Arc<[String]>) -> Queues {
        Queues { links: links.to_vec(), before: vec![(0, 0); links.len()], rows: Rows::new(names) }
    }

    pub fn sample(&mut self, at: Time, span: Duration, view: &dyn View) {
        let rows = &mut self.rows.columns;
        for ((index, link), before) in (0..).zip(&self.links).zip(&mut self.before) {
            let port = view.port(*link);
            // Nothing has been queued since the last sample: most ports are idle at most times.
            if port.queued_packets == 0 && port.counters.packet_time == before.1 {
                continue;
            }
            let now = (port.byte_time(at), port.packet_time(at));
            let (bytes, packets) = (now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1));
            *before = now;
            if span == Duration::ZERO || (packets == 0 && port.queued_packets == 0) {
                continue;
            }
            rows.stamps.push(at, span, index);
            rows.bytes.push(port.queued_bytes);
            rows.packets.push(port.queued_packets.into());
            rows.mean_bytes.push(mean(bytes, span));
            rows.mean_packets.push(mean(packets, span));
            let mut by_class = [[0; CLASSES]; 2];
            if port.queued_packets > 0 {
                view.each_queued(*link, &mut |class, size| {
                    let class = usize::from(class).min(CLASSES - 1);
                    by_class[0][class] += u64::from(size);
                    by_class[1][class] += 1;
                });
            }
            debug_assert_eq!(by_class[0].iter().sum::<u64>(), port.queued_bytes, "{link:?} at {at}");
            debug_assert_eq!(by_class[1].iter().sum::<u64>(), u64::from(port.queued_packets));
            rows.by_class.push(by_class);
        }
    }
}

/// An integral over time as a mean. Most integrals fit into half of their type, which is converted at a fifth of the cost.
fn mean(integral: u128, span: Duration) -> f64 {
    let integral = u64::try_from(integral).map_or_else(|_| integral as f64, |integral| integral as f64);
    integral / span.as_ps() as f64
}

impl Columns for QueueColumns {
    fn rows(&self) -> usize {
        self.stamps.of.len()
    }

    fn into_table(self, names: &Arc<[String]>) -> Table {
        let mut columns = self.stamps.into_columns("link", |of| Samples::Names(of, names.clone()));
        columns.extend([
            ("bytes", Samples::Counts(self.bytes)),
            ("packets", Samples::Counts(self.packets)),
            ("mean_bytes", Samples::Numbers(self.mean_bytes)),
            ("mean_packets", Samples::Numbers(self.mean_packets)),
        ]);
        for (what, names) in [CLASS_BYTES, CLASS_PACKETS].into_iter().enumerate() {
            let column = |class: usize| Samples::Counts(self.by_class.iter().map(|row| row[what][class]).collect());
            columns.extend(names.into_iter().enumerate().map(|(class, name)| (name, column(class))));
        }
        Table { name: "queues", columns }
    }
}
