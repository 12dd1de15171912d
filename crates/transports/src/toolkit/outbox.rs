//! What an endpoint's call leaves to be polled.

use std::collections::VecDeque;

use flowloom_core::{Event, Packet};

/// Packets and events, oldest first. Drained after every call, so it stays as large as one call makes it.
#[derive(Clone, Debug)]
pub struct Outbox<H> {
    /// To send.
    pub packets: VecDeque<Packet<H>>,
    /// To report.
    pub events: VecDeque<Event>,
}

impl<H> Default for Outbox<H> {
    fn default() -> Self {
        Outbox { packets: VecDeque::new(), events: VecDeque::new() }
    }
}
