//! Which flows are open.

use flowloom_core::{Bytes, FlowId};

use super::View;

/// An open flow, and what had been delivered of it at the last sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFlow {
    pub id: FlowId,
    pub delivered: Bytes,
}

/// The flows that have been open since the last sample, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct OpenFlows(pub Vec<OpenFlow>);

impl OpenFlows {
    /// Adds the flows that were opened since the last sample.
    pub fn add(&mut self, view: &mut dyn View) {
        let opened = view.take_opened();
        let in_order = self.0.last().map(|last| last.id) < opened.first().copied() && opened.is_sorted();
        self.0.extend(opened.into_iter().map(|id| OpenFlow { id, delivered: Bytes::ZERO }));
        if !in_order {
            self.0.sort_unstable_by_key(|flow| flow.id);
        }
    }

    /// Removes the flows that are over, and remembers what has been delivered of the others.
    pub fn settle(&mut self, view: &dyn View) {
        self.0.retain_mut(|flow| {
            let (_, record) = view.flow(flow.id);
            flow.delivered = Bytes::new(record.delivered_bytes);
            !record.is_over()
        });
    }
}
