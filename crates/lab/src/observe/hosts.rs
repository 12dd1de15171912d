//! Samples of hosts.

use std::sync::Arc;

use flowloom_core::{Duration, Network, NodeId, Time};

use super::open::OpenFlows;
use super::table::{Columns, Rows, Stamps};
use super::{Samples, Table, View, gbps};

/// Samples the open flows of hosts.
pub(super) struct Hosts {
    /// By host, its index among those that are sampled.
    index: Vec<Option<u32>>,
    /// By sampled host, what is added up over the open flows.
    sums: Vec<Sums>,
    pub rows: Rows<HostColumns>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    sending: u64,
    receiving: u64,
    waiting_bytes: u64,
    received_bytes: u64,
}

/// A row for each host that was an end of an open flow since the last sample.
#[derive(Default)]
pub(super) struct HostColumns {
    stamps: Stamps,
    sending: Vec<u64>,
    receiving: Vec<u64>,
    waiting_bytes: Vec<u64>,
    received_bytes: Vec<u64>,
    goodput: Vec<f64>,
}

impl Hosts {
    pub fn new(hosts: &[NodeId], network: &Network) -> Hosts {
        let mut index = vec![None; network.nics()];
        (0..).zip(hosts).for_each(|(number, host)| index[host.index()] = Some(number));
        let names = hosts.iter().map(|host| network.node(*host).name.clone()).collect();
        Hosts { index, sums: vec![Sums::default(); hosts.len()], rows: Rows::new(names) }
    }

    pub fn sample(&mut self, at: Time, span: Duration, open: &OpenFlows, view: &dyn View) {
        if span == Duration::ZERO {
            return;
        }
        self.sums.fill(Sums::default());
        for other in &open.0 {
            let (flow, record) = view.flow(other.id);
            let is_open = u64::from(!record.is_over());
            if let Some(source) = self.index[flow.src.index()] {
                let sums = &mut self.sums[source as usize];
                sums.sending += is_open;
                sums.waiting_bytes += is_open * flow.size.get().saturating_sub(record.delivered_bytes);
            }
            if let Some(destination) = self.index[flow.dst.index()] {
                let sums = &mut self.sums[destination as usize];
                sums.receiving += u64::from(record.received == Time::MAX && record.aborted.is_none());
                sums.received_bytes += record.delivered_bytes - other.delivered.get();
            }
        }
        let rows = &mut self.rows.columns;
        for (host, sums) in (0..).zip(&self.sums) {
            let Sums { sending, receiving, waiting_bytes, received_bytes } = *sums;
            if sending + receiving + received_bytes == 0 {
                continue;
            }
            rows.stamps.push(at, span, host);
            rows.sending.push(sending);
            rows.receiving.push(receiving);
            rows.waiting_bytes.push(waiting_bytes);
            rows.received_bytes.push(received_bytes);
            rows.goodput.push(gbps(received_bytes, span));
        }
    }
}

impl Columns for HostColumns {
    fn rows(&self) -> usize {
        self.stamps.of.len()
    }

    fn into_table(self, names: &Arc<[String]>) -> Table {
        let mut columns = self.stamps.into_columns("host", |of| Samples::Names(of, names.clone()));
        columns.extend([
            ("sending", Samples::Counts(self.sending)),
            ("receiving", Samples::Counts(self.receiving)),
            ("waiting_bytes", Samples::Counts(self.waiting_bytes)),
            ("received_bytes", Samples::Counts(self.received_bytes)),
            ("goodput_gbps", Samples::Numbers(self.goodput)),
        ]);
        Table { name: "hosts", columns }
    }
}
