//! The tokens of an ideal port: as many priorities as there are flows (§3.2).

use flowloom_core::{DropReason, Duration, PacketId, PortCall, Time};

use super::header::Header;
use crate::disciplines::Bucket;

#[derive(Clone, Copy, Debug)]
struct Token {
    key: u64,
    came: Time,
    packet: PacketId,
}

/// Tokens in the order in which they came, so that those that are too old come first. The one with the smallest key leaves first, the oldest
/// among equal ones. A plain scan finds it among some dozen tokens.
pub struct Sorted {
    tokens: Vec<Token>,
    most: usize,
    lifetime: Duration,
    bucket: Bucket,
    /// What each token takes out of the bucket.
    size: u32,
    /// No queued token may leave earlier.
    ready_at: Time,
}

impl Sorted {
    /// At most `most` tokens, for at most `lifetime`, at the rate of the bucket, which holds at least one token of `size`.
    pub(super) fn new(most: usize, lifetime: Duration, bucket: Bucket, size: u32) -> Sorted {
        Sorted { tokens: Vec::new(), most, lifetime, bucket, size, ready_at: Time::MAX }
    }

    fn expire(&mut self, call: &mut PortCall<'_, Header, ()>) {
        let old = self.tokens.iter().take_while(|token| call.now.saturating_since(token.came) > self.lifetime).count();
        for token in self.tokens.drain(..old) {
            call.drop(token.packet, DropReason::Expired);
        }
    }

    fn best(&self) -> Option<usize> {
        (0..self.tokens.len()).min_by_key(|index| self.tokens[*index].key)
    }

    /// Computes when a token may leave, or the oldest will have expired.
    fn plan(&mut self) {
        let expired = self.tokens.first().map(|oldest| oldest.came + self.lifetime + Duration::from_ps(1));
        self.ready_at = expired.map_or(Time::MAX, |expired| expired.min(self.bucket.ready_at(self.size)));
    }

    /// Queues a token, or drops it or others.
    pub(super) fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        self.expire(call);
        self.tokens.push(Token { key: call.pool[packet].header.key(), came: call.now, packet });
        if self.tokens.len() > self.most {
            // The newest among equal ones. It may be the arrival itself.
            let worst = (0..self.tokens.len()).max_by_key(|index| self.tokens[*index].key).expect("a full port holds tokens");
            let victim = self.tokens.remove(worst).packet;
            call.drop(victim, if victim == packet { DropReason::Overflow } else { DropReason::PushedOut });
        }
        self.plan();
    }

    /// The token that may leave now.
    pub(super) fn take(&mut self, call: &mut PortCall<'_, Header, ()>) -> Option<PacketId> {
        self.expire(call);
        let best = self.best().filter(|_| self.bucket.take(call.now, self.size));
        let taken = best.map(|best| self.tokens.remove(best).packet);
        self.plan();
        taken
    }

    /// When a token may leave, or something else is to be done; [`Time::MAX`] if there is none.
    pub(super) fn ready_at(&self) -> Time {
        self.ready_at
    }
}
