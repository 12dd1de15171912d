//! The tokens of an ideal port: as many priorities as there are flows (§3.2).

use flowloom_core::{DropReason, Duration, PacketId, PortCall, Time};

use super::config::Config;
use super::header::Header;
use crate::disciplines::{Bucket, CreditDrop};
use crate::toolkit::RandomStream;

#[derive(Clone, Copy, Debug)]
struct Token {
    key: u64,
    came: Time,
    packet: PacketId,
}

/// Tokens in the order in which they came, so that those that are too old come first. The one with the smallest key leaves first, the oldest
/// among equal ones. A plain scan finds it among some dozen tokens.
///
/// Tokens of one key are a queue of their own, with the limit of a queue. Without this limit, they would wait until they expire: tokens of a flow
/// that come at the pace at which others leave would then leave just in time, and those of another flow, at another phase, never.
pub struct Sorted {
    tokens: Vec<Token>,
    most: usize,
    most_per_key: u32,
    drop: CreditDrop,
    random: RandomStream,
    lifetime: Duration,
    bucket: Bucket,
    /// What each token takes out of the bucket.
    size: u32,
    /// No queued token may leave earlier.
    ready_at: Time,
}

impl Sorted {
    /// A port with this bucket, whose tokens all have the size of a token.
    pub(super) fn new(config: &Config, lifetime: Duration, bucket: Bucket, token: u32, seed: u64) -> Sorted {
        Sorted {
            tokens: Vec::new(),
            most: config.ideal_queue as usize,
            most_per_key: config.credits.credit_queue,
            drop: config.credits.credit_drop,
            random: RandomStream::new(seed),
            lifetime,
            bucket,
            size: token,
            ready_at: Time::MAX,
        }
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

    /// The token to drop because there are too many with the key of the newest, or in all.
    fn surplus(&mut self) -> Option<usize> {
        let newest = self.tokens.len() - 1;
        let key = self.tokens[newest].key;
        let mut equal = (0..=newest).filter(|index| self.tokens[*index].key == key);
        let number = equal.clone().count() as u32;
        if number > self.most_per_key {
            return match self.drop {
                CreditDrop::Newest => Some(newest),
                CreditDrop::Random => equal.nth(self.random.below(number) as usize),
            };
        }
        // The newest among equal ones.
        if newest < self.most { None } else { (0..=newest).max_by_key(|index| self.tokens[*index].key) }
    }

    /// Queues a token, or drops it or others.
    pub(super) fn enqueue(&mut self, call: &mut PortCall<'_, Header, ()>, packet: PacketId) {
        self.expire(call);
        self.tokens.push(Token { key: call.pool[packet].header.key(), came: call.now, packet });
        if let Some(surplus) = self.surplus() {
            let victim = self.tokens.remove(surplus).packet;
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

    /// Loses all tokens, because the link has been cut.
    pub(super) fn lose_all(&mut self, call: &mut PortCall<'_, Header, ()>) {
        self.tokens.drain(..).for_each(|token| call.drop(token.packet, DropReason::LinkDown));
        self.plan();
    }

    /// Calls `visit` with each token.
    pub(super) fn each_queued(&self, visit: &mut dyn FnMut(PacketId)) {
        self.tokens.iter().for_each(|token| visit(token.packet));
    }

    /// When a token may leave, or something else is to be done; [`Time::MAX`] if there is none.
    pub(super) fn ready_at(&self) -> Time {
        self.ready_at
    }
}
