//! Flows that have just finished.

use std::collections::VecDeque;

use flowloom_core::{Duration, FlowId, Time};

use super::FlowMap;

/// How many of a sender's repetitions in a row are taken to be never all lost. A path that loses nine packets of ten loses them all once in
/// 10^11 times. With 16, one flow in eighty was forgotten too soon where links lost 30 %.
const SILENT_REPEATS: u64 = 256;
/// A packet can be late by this much: a queue starves it, or a fault holds it back.
const LATE: Duration = Duration::from_ms(1_000_000);

/// Remembers flows for a span after they finished, so that a late duplicate is answered and does not open the flow again. It needs no
/// timer: each insertion removes the entries that are due, so memory follows the number of flows that finish per span.
#[derive(Clone, Debug)]
pub struct TimeWait {
    span: Duration,
    /// When entries expire, ascending. A flow has one entry for its end and one for each refresh.
    fading: VecDeque<(Time, FlowId)>,
    /// How many entries of `fading` each flow has.
    entries: FlowMap,
}

impl TimeWait {
    /// How long a receiver must remember a flow, at most as long as a run: a sender that has not received its answer repeats itself, and pauses
    /// for at most `longest_pause` between two repetitions. A remembered flow takes some 30 B, a fraction of what a run keeps of each flow anyway.
    pub fn span(longest_pause: Duration) -> Duration {
        longest_pause.checked_mul(SILENT_REPEATS).unwrap_or(Duration::LONGEST).max(LATE)
    }

    /// Remembers flows for `span`.
    pub fn new(span: Duration) -> TimeWait {
        TimeWait { span, fading: VecDeque::new(), entries: FlowMap::default() }
    }
    /// Whether the flow finished, or was refreshed, less than a span ago. It may be remembered longer.
    #[inline]
    pub fn contains(&self, flow: FlowId) -> bool {
        self.entries.get(flow).is_some()
    }
    /// The number of remembered flows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether no flow is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers the flow for a span from `now`, which must not decrease from call to call.
    pub fn insert(&mut self, now: Time, flow: FlowId) {
        self.expire(now);
        let before = self.entries.get(flow).unwrap_or(0);
        self.entries.insert(flow, before + 1);
        self.fading.push_back((now + self.span, flow));
    }

    /// If the flow is remembered, remembers it for a further span from `now` and returns true. A sender that still repeats itself has
    /// not received the answer, and may go on until it does.
    pub fn refresh(&mut self, now: Time, flow: FlowId) -> bool {
        let known = self.contains(flow);
        if known {
            self.insert(now, flow);
        }
        known
    }

    /// Removes the entries that are due.
    pub fn expire(&mut self, now: Time) {
        while let Some((due, flow)) = self.fading.front().copied()
            && due <= now
        {
            self.fading.pop_front();
            match self.entries.get(flow) {
                Some(1) => self.entries.remove(flow),
                Some(n) => self.entries.insert(flow, n - 1),
                None => unreachable!("every entry is counted"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_flow_is_remembered_from_its_last_sign_for_a_span(
            steps in prop::collection::vec((0_u8..2, 0_u64..30, 0_u32..10), 0..100),
        ) {
            let span = Duration::from_us(50);
            let mut wait = TimeWait::new(span);
            let mut last: BTreeMap<FlowId, Time> = BTreeMap::new();
            let mut now = Time::ZERO;
            for (what, pause_us, id) in steps {
                now += Duration::from_us(pause_us);
                let flow = FlowId(id);
                last.retain(|_, seen| now - *seen < span);
                if what == 0 {
                    wait.insert(now, flow);
                    last.insert(flow, now);
                } else {
                    wait.expire(now);
                    let known = wait.refresh(now, flow);
                    prop_assert_eq!(known, last.contains_key(&flow));
                    last.entry(flow).and_modify(|seen| *seen = now);
                }
                prop_assert_eq!(wait.len(), last.len());
                prop_assert!((0..10).all(|id| wait.contains(FlowId(id)) == last.contains_key(&FlowId(id))));
            }
            wait.expire(now + span);
            prop_assert!(wait.is_empty() && wait.fading.is_empty());
        }
    }
}
