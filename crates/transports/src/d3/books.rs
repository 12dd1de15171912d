//! A port's books: the rates that it has allocated and the number of flows, without a list of flows.

use flowloom_core::{Rate, Time};

use super::header::{Purpose, Request};
use super::rules::Rules;

/// Sums over flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    flows: u64,
    /// In bits per second.
    desired: u64,
    allocated: u64,
}

impl Sums {
    /// A packet of a real network may name anything, so nothing here overflows.
    fn add(&mut self, desired: Rate, allocated: Rate) {
        self.flows = self.flows.saturating_add(1);
        self.desired = self.desired.saturating_add(desired.as_bps());
        self.allocated = self.allocated.saturating_add(allocated.as_bps());
    }
    fn remove(&mut self, desired: Rate, allocated: Rate) {
        self.flows = self.flows.saturating_sub(1);
        self.desired = self.desired.saturating_sub(desired.as_bps());
        self.allocated = self.allocated.saturating_sub(allocated.as_bps());
    }
}

/// The counters A, D and N of the paper, for the flows that renewed their allocation in this period and for those that last renewed it in
/// the period before. A request names the period of the allocation that it gives back, so it is taken out of the sums that it is in. An
/// allocation that was not renewed for a whole period is forgotten, and so is every error of a lost or repeated request: two periods
/// later at the latest.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    period: u64,
    current: Sums,
    last: Sums,
}

impl Books {
    /// Begins the period of `now`.
    fn turn(&mut self, now: Time, rules: &Rules) {
        let period = now.as_ps() / rules.hold.as_ps();
        match period - self.period {
            0 => return,
            1 => self.last = self.current,
            _ => self.last = Sums::default(),
        }
        self.current = Sums::default();
        self.period = period;
    }

    /// The sums that an allocation of the period with these low bits is in, if it still holds.
    fn sums_of(&mut self, period: u8) -> Option<&mut Sums> {
        match (self.period as u8).wrapping_sub(period) {
            0 => Some(&mut self.current),
            1 => Some(&mut self.last),
            _ => None,
        }
    }

    /// Handles a request on its way (the paper's Snippet 1): takes back what the flow holds here, and allocates anew out of `capacity`. If
    /// the vector is full, the port allocates nothing and the flow does not know of it.
    pub fn handle(&mut self, now: Time, request: &mut Request, capacity: Rate, rules: &Rules) {
        self.turn(now, rules);
        let hop = usize::from(request.path.hops);
        let Some(rate) = request.path.rates.get_mut(hop) else { return };
        let period = &mut request.path.periods[hop];
        if hop < usize::from(request.named)
            && let Some(sums) = self.sums_of(*period)
        {
            sums.remove(request.before, *rate);
        }
        request.path.hops += 1;
        *rate = match request.purpose {
            Purpose::Ask => self.allocate(request.desired, capacity, rules),
            Purpose::End | Purpose::GiveUp => Rate::default(),
        };
        *period = self.period as u8;
    }

    fn allocate(&mut self, desired: Rate, capacity: Rate, rules: &Rules) -> Rate {
        let left = capacity.as_bps().saturating_sub(self.allocated().as_bps());
        let demand = self.current.desired.saturating_add(self.last.desired).saturating_add(desired.as_bps());
        let fair_share = capacity.as_bps().saturating_sub(demand) / self.flows().saturating_add(1);
        let wish = desired.as_bps().saturating_add(fair_share);
        let granted = match left > desired.as_bps() {
            true if rules.limit_to_left => wish.min(left),
            true => wish,
            false => left,
        };
        let granted = Rate::from_bps(granted).max(rules.base);
        self.current.add(desired, granted);
        granted
    }

    /// The sum of all allocations: A.
    pub fn allocated(&self) -> Rate {
        Rate::from_bps(self.current.allocated.saturating_add(self.last.allocated))
    }
    /// The number of flows: N.
    pub fn flows(&self) -> u64 {
        self.current.flows.saturating_add(self.last.flows)
    }
    /// The sum of all desired rates: D.
    #[cfg(test)]
    pub fn desired(&self) -> Rate {
        Rate::from_bps(self.current.desired.saturating_add(self.last.desired))
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::Duration;
    use proptest::prelude::*;

    use super::*;
    use crate::d3::header::Path;

    const C: Rate = Rate::from_gbps(10);

    fn mbps(mbps: u64) -> Rate {
        Rate::from_bps(mbps * 1_000_000)
    }

    /// A flow as its sender knows it.
    #[derive(Clone, Copy, Default)]
    struct Client {
        desired: Rate,
        path: Path,
    }

    impl Client {
        fn request(self, desired: Rate, end: bool) -> Request {
            let purpose = if end { Purpose::End } else { Purpose::Ask };
            let path = Path { hops: 0, ..self.path };
            Request { purpose, named: self.path.hops, serial: 0, desired, before: self.desired, path }
        }
        /// The answer came.
        fn answered(&mut self, request: &Request) {
            (self.desired, self.path) = (request.desired, request.path);
        }
        /// Asks, is answered, and returns its allocation in Mb/s.
        fn ask(&mut self, books: &mut Books, desired: Rate, rules: &Rules) -> u64 {
            self.ask_at(Time::ZERO, books, desired, rules)
        }
        fn ask_at(&mut self, now: Time, books: &mut Books, desired: Rate, rules: &Rules) -> u64 {
            let mut request = self.request(desired, false);
            books.handle(now, &mut request, C, rules);
            self.answered(&request);
            self.path.rates[0].as_bps() / 1_000_000
        }
        fn end(&mut self, books: &mut Books, rules: &Rules) {
            books.handle(Time::ZERO, &mut self.request(Rate::default(), true), C, rules);
            *self = Client::default();
        }
    }

    fn sums(books: &Books) -> (u64, u64, u64) {
        (books.flows(), books.desired().as_bps() / 1_000_000, books.allocated().as_bps() / 1_000_000)
    }

    /// d + (C − d)/1.
    #[test]
    fn a_single_flow_gets_the_capacity_whatever_it_desires() {
        for desired in [0, 1, 4000, 9999, 10_000] {
            let (mut books, mut flow) = (Books::default(), Client::default());
            for _ in 0..3 {
                assert_eq!(flow.ask(&mut books, mbps(desired), &Rules::default()), 10_000);
            }
            assert_eq!(sums(&books), (1, desired, 10_000));
        }
    }

    /// Snippet 1 line by line: two flows whose desires fit get them and half of the rest each, once both have renewed.
    #[test]
    fn two_flows_get_what_they_desire_and_half_of_the_rest() {
        let (mut books, rules) = (Books::default(), Rules::default());
        let [mut first, mut second] = [Client::default(); 2];
        // Left 10, fair share (10 - 2) / 1.
        assert_eq!(first.ask(&mut books, mbps(2000), &rules), 10_000);
        // Left 0.
        assert_eq!(second.ask(&mut books, mbps(3000), &rules), 0);
        assert_eq!(sums(&books), (2, 5000, 10_000));
        // Left 10 again, fair share (10 - 5) / 2.
        assert_eq!(first.ask(&mut books, mbps(2000), &rules), 4500);
        assert_eq!(second.ask(&mut books, mbps(3000), &rules), 5500);
        assert_eq!(sums(&books), (2, 5000, 10_000));
        // The first desires less: fair share (10 - 4) / 2.
        assert_eq!(first.ask(&mut books, mbps(1000), &rules), 4000);
        assert_eq!(second.ask(&mut books, mbps(3000), &rules), 6000);
        first.end(&mut books, &rules);
        assert_eq!(sums(&books), (1, 3000, 6000));
        second.end(&mut books, &rules);
        assert_eq!(sums(&books), (0, 0, 0));
    }

    /// First come, first served: the desired rates exceed the capacity, and the later flow gets what is left, however urgent it is.
    #[test]
    fn what_exceeds_the_capacity_is_missing_for_the_last_to_ask() {
        let (mut books, rules) = (Books::default(), Rules::default());
        let [mut early, mut late] = [Client::default(); 2];
        early.ask(&mut books, mbps(8000), &rules);
        late.ask(&mut books, mbps(9000), &rules);
        for _ in 0..3 {
            assert_eq!(early.ask(&mut books, mbps(8000), &rules), 8000);
            assert_eq!(late.ask(&mut books, mbps(9000), &rules), 2000);
        }
        assert_eq!(sums(&books), (2, 17_000, 10_000));
    }

    /// Flows 1 and 2 hold 5 each. Flow 3 comes, flow 1 renews, and flow 3 renews before flow 2: left are 10 - 10/3 - 5.
    #[test]
    fn a_share_that_others_still_hold_is_not_given_twice() {
        for (limit_to_left, third) in [(true, 1666), (false, 3333)] {
            let rules = Rules { limit_to_left, ..Rules::default() };
            let mut books = Books::default();
            let mut flows = [Client::default(); 3];
            for flow in [0, 1, 0, 1, 2, 0] {
                flows[flow].ask(&mut books, Rate::default(), &rules);
            }
            assert_eq!(flows[2].ask(&mut books, Rate::default(), &rules), third);
            assert_eq!(books.allocated() > C, !limit_to_left);
        }
    }

    /// With a base rate, allocations exceed the capacity, and nothing is left. This is no negative rate.
    #[test]
    fn a_base_rate_is_allocated_when_nothing_is_left() {
        let (mut books, rules) = (Books::default(), Rules { base: mbps(10), ..Rules::default() });
        let mut flows = [Client::default(); 3];
        let mut ask = |flow: usize| flows[flow].ask(&mut books, mbps(10_000), &rules);
        assert_eq!([ask(0), ask(1), ask(2)], [10_000, 10, 10]);
        assert_eq!([ask(0), ask(1), ask(2)], [9980, 10, 10]);
    }

    #[test]
    fn what_is_not_renewed_for_a_period_is_taken_back() {
        let (mut books, rules) = (Books::default(), Rules::default());
        let [mut lost, mut other] = [Client::default(); 2];
        lost.ask(&mut books, mbps(7000), &rules);
        // It could have been made in the last instant of its period, so it holds for the whole next one.
        let before = Time::from_ps((rules.hold * 2).as_ps() - 1);
        assert_eq!(other.ask_at(before, &mut books, mbps(1000), &rules), 0);
        assert_eq!(other.ask_at(Time::ZERO + rules.hold * 2, &mut books, mbps(1000), &rules), 10_000);
        assert_eq!(sums(&books), (1, 1000, 10_000));
        // The forgotten flow comes back. The allocation that it names is not taken from others.
        assert_eq!(lost.ask_at(Time::ZERO + rules.hold * 2, &mut books, mbps(7000), &rules), 0);
        assert_eq!(sums(&books), (2, 8000, 10_000));
    }

    #[test]
    fn a_repeated_end_is_forgotten_after_two_periods() {
        let (mut books, rules) = (Books::default(), Rules::default());
        let [mut first, mut second] = [Client::default(); 2];
        for _ in 0..2 {
            first.ask(&mut books, mbps(2000), &rules);
            second.ask(&mut books, mbps(3000), &rules);
        }
        let end = first.request(Rate::default(), true);
        for _ in 0..2 {
            books.handle(Time::ZERO, &mut end.clone(), C, &rules);
        }
        // The second one took away what the other flow holds.
        assert_eq!(sums(&books), (0, 1000, 1000));
        for period in 0..=2 {
            second.ask_at(Time::ZERO + rules.hold * period, &mut books, mbps(3000), &rules);
        }
        assert_eq!(sums(&books), (1, 3000, 10_000));
    }

    /// A port at a hop that the vector has no place for allocates nothing, and a request from a hostile sender cannot do harm.
    #[test]
    fn no_request_makes_the_sums_overflow() {
        let (mut books, rules) = (Books::default(), Rules::default());
        let most = Rate::from_bps(u64::MAX);
        let (ask, end) = (Purpose::Ask, Purpose::End);
        for (hops, named, purpose) in [(8, 8, ask), (0, 8, ask), (0, 8, end), (3, 1, ask), (7, 8, end)] {
            let path = Path { hops, rates: [most; 8], ..Path::default() };
            for _ in 0..3 {
                let mut request = Request { purpose, named, serial: 0, desired: most, before: most, path };
                books.handle(Time::ZERO, &mut request, C, &rules);
            }
        }
        let later = Time::ZERO + rules.hold * 2;
        assert_eq!(Client::default().ask_at(later, &mut books, mbps(1), &rules), 10_000);
    }

    #[derive(Clone, Copy, Debug)]
    enum What {
        Answered,
        Lost,
        AnswerLost,
        Twice,
        End,
        EndTwice,
        EndLost,
    }

    /// The books hold the sums over all open flows, and no more is allocated than the link has.
    fn are_the_sums(books: &Books, flows: &[Client]) -> Result<(), TestCaseError> {
        let open = || flows.iter().filter(|flow| flow.path.hops > 0);
        let sum = |of: fn(&Client) -> Rate| Rate::from_bps(open().map(|flow| of(flow).as_bps()).sum());
        prop_assert_eq!(books.flows(), open().count() as u64);
        prop_assert_eq!(books.desired(), sum(|flow| flow.desired));
        prop_assert_eq!(books.allocated(), sum(|flow| flow.path.rates[0]));
        prop_assert!(books.allocated() <= C);
        Ok(())
    }

    proptest! {
        /// Without faults, the sums are those over the flows, and allocations never exceed the capacity.
        #[test]
        fn the_sums_are_those_over_a_list_of_flows(
            steps in prop::collection::vec((0_usize..6, 0_u64..6000, 0_u64..40, prop::bool::weighted(0.1)), 1..200),
        ) {
            let (mut books, rules) = (Books::default(), Rules::default());
            let mut flows = [Client::default(); 6];
            let mut now = Time::ZERO;
            for (flow, desired, pause_us, end) in steps {
                // All renew in each period of 800 us.
                now += Duration::from_us(pause_us);
                for other in flows.iter_mut().filter(|other| other.path.hops > 0) {
                    other.ask_at(now, &mut books, other.desired, &rules);
                }
                if end && flows[flow].path.hops > 0 {
                    books.handle(now, &mut flows[flow].request(Rate::default(), true), C, &rules);
                    flows[flow] = Client::default();
                } else {
                    flows[flow].ask_at(now, &mut books, mbps(desired), &rules);
                }
                are_the_sums(&books, &flows)?;
            }
        }

        /// After any losses and repetitions, two periods in which each flow renews once or more are enough.
        #[test]
        fn errors_do_not_last(
            steps in prop::collection::vec(
                (0_usize..6, 0_u64..9000, 0_u64..300, prop::sample::select(vec![
                    What::Answered, What::Lost, What::AnswerLost, What::Twice, What::End, What::EndTwice, What::EndLost,
                ])),
                1..200,
            ),
            calm_us in 1_u64..800,
        ) {
            let (mut books, rules) = (Books::default(), Rules::default());
            let mut flows = [Client::default(); 6];
            let mut now = Time::ZERO;
            for (flow, desired, pause_us, what) in steps {
                now += Duration::from_us(pause_us);
                let client = &mut flows[flow];
                let end = matches!(what, What::End | What::EndTwice | What::EndLost);
                let mut request = client.request(mbps(desired), end);
                if !matches!(what, What::Lost | What::EndLost) {
                    books.handle(now, &mut request, C, &rules);
                }
                if matches!(what, What::Twice | What::EndTwice) {
                    books.handle(now, &mut client.request(mbps(desired), end), C, &rules);
                }
                match what {
                    What::Answered | What::Twice => client.answered(&request),
                    What::Lost | What::AnswerLost => {}
                    What::End | What::EndTwice | What::EndLost => *client = Client::default(),
                }
            }
            let calm_until = now + rules.hold * 3;
            while now < calm_until {
                for flow in flows.iter_mut().filter(|flow| flow.path.hops > 0) {
                    flow.ask_at(now, &mut books, flow.desired, &rules);
                }
                now += Duration::from_us(calm_us);
            }
            books.turn(now, &rules);
            are_the_sums(&books, &flows)?;
        }
    }
}
