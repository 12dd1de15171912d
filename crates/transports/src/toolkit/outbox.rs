//! The output of an endpoint's call.

use std::collections::VecDeque;

use flowloom_core::{Event, Packet};

/// Packets and events, oldest first. It is drained after every call, so it stays as large as the output of one call.
#[derive(Clone, Debug)]
pub struct Outbox<H> {
    /// Packets to send.
    pub packets: VecDeque<Packet<H>>,
    /// Events to report.
    pub events: VecDeque<Event>,
}

impl<H> Default for Outbox<H> {
    fn default() -> Self {
        Outbox { packets: VecDeque::new(), events: VecDeque::new() }
    }
}
