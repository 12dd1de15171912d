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
    class_bytes: [Vec<u64>; CLASSES],
    class_packets: [Vec<u64>; CLASSES],
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
            let now = (port.byte_time(at), port.packet_time(at));
            let (bytes, packets) = (now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1));
            *before = now;
            if span == Duration::ZERO || (packets == 0 && port.queued_packets == 0) {
                continue;
            }
            rows.stamps.push(at, span, index);
            rows.bytes.push(port.queued_bytes);
            rows.packets.push(port.queued_packets.into());
            rows.mean_bytes.push(bytes as f64 / span.as_ps() as f64);
            rows.mean_packets.push(packets as f64 / span.as_ps() as f64);
            let mut by_class = [(0_u64, 0_u64); CLASSES];
            if port.queued_packets > 0 {
                view.each_queued(*link, &mut |class, size| {
                    let (bytes, packets) = &mut by_class[usize::from(class).min(CLASSES - 1)];
                    *bytes += u64::from(size);
                    *packets += 1;
                });
            }
            debug_assert_eq!(by_class.iter().map(|class| class.0).sum::<u64>(), port.queued_bytes, "{link:?} at {at}");
            debug_assert_eq!(by_class.iter().map(|class| class.1).sum::<u64>(), u64::from(port.queued_packets));
            for (class, (bytes, packets)) in by_class.into_iter().enumerate() {
                rows.class_bytes[class].push(bytes);
                rows.class_packets[class].push(packets);
            }
        }
    }
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
        columns.extend(CLASS_BYTES.into_iter().zip(self.class_bytes.map(Samples::Counts)));
        columns.extend(CLASS_PACKETS.into_iter().zip(self.class_packets.map(Samples::Counts)));
        Table { name: "queues", columns }
    }
}
