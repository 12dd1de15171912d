//! Samples of flows.

use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, Gauge, Readings, Time};

use super::open::OpenFlows;
use super::table::{Columns, Rows, Stamps};
use super::{Samples, Table, View, gbps};
use crate::spec::FlowChoice;

/// Samples open flows.
pub(super) struct Flows {
    choice: FlowChoice,
    tenants: Vec<u16>,
    gauges: &'static [Gauge],
    readings: Vec<f64>,
    pub rows: Rows<FlowColumns>,
}

/// A row for each flow that was open since the last sample.
#[derive(Default)]
pub(super) struct FlowColumns {
    stamps: Stamps,
    sent_bytes: Vec<u64>,
    delivered_bytes: Vec<u64>,
    goodput: Vec<f64>,
    gauges: Vec<(&'static str, Vec<f64>)>,
}

impl Flows {
    pub fn new(choice: &FlowChoice, tenants: &[u16], gauges: &'static [Gauge]) -> Flows {
        let mut flows = Flows {
            choice: choice.sorted(),
            tenants: tenants.to_vec(),
            gauges,
            readings: vec![0.0; gauges.len()],
            rows: Rows::new(Arc::default()),
        };
        flows.prepare();
        flows
    }

    /// Makes room for the gauges of the next rows.
    fn prepare(&mut self) {
        let columns = &mut self.rows.columns.gauges;
        if columns.is_empty() {
            columns.extend(self.gauges.iter().map(|gauge| (gauge.name, Vec::new())));
        }
    }

    fn is_chosen(&self, flow: &Flow) -> bool {
        self.choice.has(flow.id) && (self.tenants.is_empty() || self.tenants.contains(&flow.tenant))
    }

    pub fn sample(&mut self, at: Time, span: Duration, open: &OpenFlows, view: &dyn View) {
        if span == Duration::ZERO {
            return;
        }
        self.prepare();
        for other in &open.0 {
            let (flow, record) = view.flow(other.id);
            if !self.is_chosen(&flow) {
                continue;
            }
            let span = span.min(at.saturating_since(flow.start));
            if span == Duration::ZERO {
                continue; // it starts now
            }
            let delivered = Bytes::new(record.delivered_bytes);
            view.gauge(&flow, &mut Readings::new(self.gauges, &mut self.readings));
            let rows = &mut self.rows.columns;
            rows.stamps.push(at, span, flow.id.0);
            rows.sent_bytes.push(record.sent_bytes);
            rows.delivered_bytes.push(delivered.get());
            rows.goodput.push(gbps((delivered - other.delivered).get(), span));
            rows.gauges.iter_mut().zip(&self.readings).for_each(|((_, values), reading)| values.push(*reading));
        }
    }
}

impl Columns for FlowColumns {
    fn rows(&self) -> usize {
        self.stamps.of.len()
    }

    fn into_table(self, _: &Arc<[String]>) -> Table {
        let mut columns = self.stamps.into_columns("flow", Samples::Ids);
        columns.extend([
            ("sent_bytes", Samples::Counts(self.sent_bytes)),
            ("delivered_bytes", Samples::Counts(self.delivered_bytes)),
            ("goodput_gbps", Samples::Numbers(self.goodput)),
        ]);
        columns.extend(self.gauges.into_iter().map(|(name, values)| (name, Samples::Numbers(values))));
        Table { name: "flows", columns }
    }
}
