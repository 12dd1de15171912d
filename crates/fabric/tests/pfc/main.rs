//! Priority flow control: headroom, pause frames and what they do to flows, each with an answer worked out by hand.

#[path = "../common/mod.rs"]
mod common;
mod deadlock;
mod frames;
mod lossless;
mod storms;
mod victims;

use flowloom_core::{Bytes, Memory};
use flowloom_fabric::{PortCounters, Report};
use flowloom_transports::pfc::{OverPfc, PausableTransport, Pfc, Setting};

use crate::common::blast::{Blast, Plain, PlainQueued};

impl PausableTransport for Blast<Plain> {}
impl PausableTransport for Blast<PlainQueued> {}

/// Hosts that send all they have, as fast as they can, whatever the network does.
type Greedy = OverPfc<Blast<Plain>>;
/// The same, with all packets in the NIC's queue from the start.
type GreedyQueued = OverPfc<Blast<PlainQueued>>;

fn setting(pfc: Pfc, memory: Memory) -> Setting<()> {
    Setting { transport: (), pfc, memory, storms: Vec::new() }
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

fn bytes(n: u64) -> Option<Bytes> {
    Some(Bytes::new(n))
}
