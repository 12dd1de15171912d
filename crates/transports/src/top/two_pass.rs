//! The tokens of a port that two passes through a commodity switch emulate (§4.2, figure 7).

use std::collections::VecDeque;

use flowloom_core::{Dequeue, Discipline, DropReason, Duration, PacketId, Pool, PortCall, Time};

use super::header::Header;
use crate::disciplines::CreditPort;

/// Tokens first go to a sub-port that is slower than the port by the number of sub-ports. Its queues have priorities, and its rate limiter
/// is that of the whole port. From there they go through the assistant switch and back into the switch over another sub-port, and only then
/// do they come to the port itself, where they have one queue.
///
/// The sub-ports work beside the port, so they have their own time: what they did is computed when something happens at the port.
pub struct TwoPass {
    /// The queues and the limiter of the sub-port.
    first: CreditPort,
    /// When the sub-port has sent its last token.
    free_at: Time,
    /// When the sub-port may send its next token, if there is one.
    ask_at: Time,
    /// Tokens that have left it, and when they come to the port.
    returning: VecDeque<(Time, PacketId)>,
    /// From the start of a token's transmission on the first sub-port until it comes to the port.
    way: Duration,
    /// The transmission time of a token on a sub-port.
    transmission: Duration,
}

impl TwoPass {
    pub(super) fn new(first: CreditPort, way: Duration, transmission: Duration) -> TwoPass {
        let (free_at, ask_at) = (Time::ZERO, Time::ZERO);
        TwoPass { first, free_at, ask_at, returning: VecDeque::new(), way, transmission }
    }

    /// Computes what the sub-port has sent by now.
    fn advance(&mut self, call: &mut PortCall<'_, Header, ()>) {
        while !self.first.is_empty() && self.ask_at <= call.now {
            let mut then = PortCall { now: self.ask_at, ..call.reborrow() };
            match self.first.dequeue(&mut then) {
                Dequeue::Packet(token) => {
                    self.returning.push_back((self.ask_at + self.way, token));
                    self.free_at = self.ask_at + self.transmission;
                    self.ask_at = self.free_at;
                }
                Dequeue::NotBefore(at) | Dequeue::ClosedUntil(at) => self.ask_at = at,
                Dequeue::Idle => unreachable!("a port that is not empty waits for something"),
            }
        }
    }

    /// Queues a token, or drops it or others.
    pub(super) fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, token: PacketId) {
        self.advance(call);
        self.first.enqueue(call, token);
        self.ask_at = self.free_at.max(call.now);
        self.advance(call);
    }

    /// The token that may leave now.
    pub(super) fn take(&mut self, call: &mut PortCall<'_, Header, ()>) -> Option<PacketId> {
        self.advance(call);
        let (_, token) = self.returning.front().copied().filter(|(at, _)| *at <= call.now)?;
        self.returning.pop_front();
        Some(token)
    }

    /// Loses all tokens, because the link has been cut: also those on their way back, which are for this link.
    pub(super) fn lose_all(&mut self, call: &mut PortCall<'_, Header, ()>) {
        self.first.lose_all(call);
        self.returning.drain(..).for_each(|(_, token)| call.drop(token, DropReason::LinkDown));
    }

    /// Calls `visit` with each token. What has left the first sub-port since the last call counts as queued there.
    pub(super) fn each_queued(&self, pool: &Pool<Header>, visit: &mut dyn FnMut(PacketId)) {
        self.first.each_queued(pool, visit);
        self.returning.iter().for_each(|(_, token)| visit(*token));
    }

    /// When a token may leave, or something else is to be done; [`Time::MAX`] if there is none.
    pub(super) fn ready_at(&self) -> Time {
        match self.returning.front() {
            Some((at, _)) => *at,
            None if self.first.is_empty() => Time::MAX,
            None => self.ask_at + self.way,
        }
    }
}
