//! What a run records over its course, besides its results. A recorder is an observer of the simulator; a run that records nothing has
//! the observer that costs nothing.

mod gaps;
mod pending;

use flowloom_core::{Event, Flow, LinkId, NodeId, Packet, Time};
use flowloom_fabric::Observer;

pub use gaps::{GapTotals, Gaps};
pub use pending::Pending;

/// Columns of one length that belong together: one file in `series`.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The name of the file.
    pub name: String,
    /// Each column's name and values; the first is the axis.
    pub columns: Vec<(String, Vec<f64>)>,
}

/// What a run has recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recorded {
    /// The series, in no particular order.
    pub series: Vec<Series>,
    /// The gaps at receivers, if they were recorded.
    pub gaps: Option<GapTotals>,
}

/// An observer that leaves records behind.
pub trait Recorder<H>: Observer<H> {
    /// What it has recorded in a run that ended at this time.
    fn into_recorded(self, end: Time) -> Recorded;
}

impl<H> Recorder<H> for () {
    fn into_recorded(self, _: Time) -> Recorded {
        Recorded::default()
    }
}

/// All recorders, each of which may be off. They are one type, so that the simulator is compiled only twice for each transport: for runs that
/// record something, and for runs that record nothing.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Whether the network keeps up with its load.
    pub pending: Option<Pending>,
    /// How long links to hosts are idle.
    pub gaps: Option<Gaps>,
}

impl Recording {
    /// Whether nothing is recorded.
    pub fn is_off(&self) -> bool {
        self.pending.is_none() && self.gaps.is_none()
    }
}

impl<H> Observer<H> for Recording {
    fn flow_opened(&mut self, now: Time, flow: &Flow) {
        if let Some(pending) = &mut self.pending {
            pending.open(flow);
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.open(now, flow);
        }
    }
    #[inline]
    fn packet_injected(&mut self, _: Time, _: NodeId, packet: &Packet<H>) {
        if let Some(pending) = &mut self.pending {
            pending.inject(packet);
        }
    }
    #[inline]
    fn packet_sent(&mut self, now: Time, link: LinkId, packet: &Packet<H>) {
        if let Some(gaps) = &mut self.gaps
            && packet.payload_bytes > 0
        {
            gaps.send(now, link, packet.flow, packet.size());
        }
    }
    #[inline]
    fn flow_event(&mut self, now: Time, _: NodeId, event: &Event) {
        if let Some(gaps) = &mut self.gaps {
            gaps.note(now, event);
        }
    }
}

impl<H> Recorder<H> for Recording {
    fn into_recorded(self, end: Time) -> Recorded {
        Recorded {
            series: self.pending.map(Pending::into_series).into_iter().collect(),
            gaps: self.gaps.map(|gaps| gaps.into_totals(end)),
        }
    }
}
