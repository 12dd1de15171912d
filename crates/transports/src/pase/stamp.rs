//! When a message was sent, in periods.

use flowloom_core::{Duration, FlowId, Time, wire_number};

use crate::toolkit::FlowMap;

/// The number of the period in which a node asked, modulo 256. Answers, and requests that are passed on, carry that of the first request.
/// So messages that overtake each other can be told apart: only stamps of one node are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp(pub u8);

wire_number!(Stamp, u8, Plain, |period| Some(Stamp(period)), |stamp| stamp.0);

impl Stamp {
    /// The stamp of a message that is sent now.
    pub fn new(now: Time, period: Duration) -> Stamp {
        Stamp(number(now, period) as u8)
    }

    /// Whether it is older than another one. They must be less than 128 periods apart.
    pub fn precedes(self, other: Stamp) -> bool {
        (self.0.wrapping_sub(other.0) as i8) < 0
    }

    /// When a node sent it that sends one message per period, the last one at `last`; if that is less than 256 periods before.
    pub fn time(self, last: Time, period: Duration) -> Time {
        let behind = (number(last, period) as u8).wrapping_sub(self.0);
        Time::from_ps(last.as_ps().saturating_sub((period * u64::from(behind)).as_ps()))
    }
}

/// The number of the present period.
fn number(now: Time, period: Duration) -> u64 {
    now.as_ps() / period.as_ps()
}

/// The flows that have left an arbitrator, each with the stamp of its last message. A request that such a message has overtaken must not
/// bring the flow back: it would have few bytes left, and so keep the place of a critical flow until it expires.
#[derive(Clone, Debug)]
pub(super) struct Left {
    span: Duration,
    /// When `recent` was empty.
    since: Time,
    recent: FlowMap,
    before: FlowMap,
}

impl Left {
    /// For how many periods flows are remembered, at least; at most, for twice as many. Stamps that are 128 periods apart cannot be compared.
    const PERIODS: u64 = 60;

    pub fn new(period: Duration) -> Left {
        Left { span: period * Left::PERIODS, since: Time::ZERO, recent: FlowMap::default(), before: FlowMap::default() }
    }

    fn forget(&mut self, now: Time) {
        if now - self.since >= self.span {
            let recent = std::mem::take(&mut self.recent);
            self.before = if now - self.since < self.span * 2 { recent } else { FlowMap::default() };
            self.since = now;
        }
    }

    /// The flow leaves.
    pub fn insert(&mut self, now: Time, flow: FlowId, stamp: Stamp) {
        self.forget(now);
        self.recent.insert(flow, u32::from(stamp.0));
    }

    /// Whether the flow left after it sent a request with this stamp.
    pub fn has_left_since(&mut self, now: Time, flow: FlowId, stamp: Stamp) -> bool {
        self.forget(now);
        let last = self.recent.get(flow).or_else(|| self.before.get(flow));
        last.is_some_and(|last| !Stamp(last as u8).precedes(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_us(300);

    fn at(period: u64) -> Time {
        Time::ZERO + PERIOD * period
    }

    #[test]
    fn stamps_count_periods_and_wrap() {
        let stamp = |period| Stamp::new(at(period), PERIOD);
        assert_eq!(stamp(255), Stamp(255));
        assert_eq!(Stamp::new(at(256) + PERIOD / 2, PERIOD), Stamp(0));
        assert!(stamp(255).precedes(stamp(256)) && !stamp(256).precedes(stamp(255)) && !stamp(7).precedes(stamp(7)));
        for ago in [0, 1, 100, 255] {
            assert_eq!(stamp(1000 - ago).time(at(1000) + PERIOD / 2, PERIOD), at(1000 - ago) + PERIOD / 2);
        }
        assert_eq!(Stamp(9).time(at(3), PERIOD), Time::ZERO, "a stamp from the future of a clock that has just started");
    }

    #[test]
    fn a_flow_that_has_left_is_remembered_for_a_while() {
        let mut left = Left::new(PERIOD);
        left.insert(at(1), FlowId(4), Stamp(1));
        assert!(left.has_left_since(at(2), FlowId(4), Stamp(1)), "a request of the same period came before");
        assert!(!left.has_left_since(at(2), FlowId(4), Stamp(2)));
        assert!(!left.has_left_since(at(2), FlowId(5), Stamp(1)));
        left.insert(at(3), FlowId(4), Stamp(3));
        assert!(left.has_left_since(at(62), FlowId(4), Stamp(2)), "it is remembered for 60 periods");
        assert!(!left.has_left_since(at(130), FlowId(4), Stamp(2)), "but not for 120");
    }
}
