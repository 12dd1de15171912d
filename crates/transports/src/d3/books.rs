//! A port's books: what it has allocated and to how many flows, without a list of flows.

use flowloom_core::{Rate, Time};

use super::header::Request;
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

/// The counters A, D and N of the paper, for the flows that renewed their allocation in this period and for those that last did in the
/// period before. A request names the period of the allocation that it gives back, so it is taken out of the sums that it is in. What was
/// not renewed for a whole period is forgotten. So is every error that a lost or repeated request has made: at the latest, two periods
/// later.
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
        *rate = if request.end { Rate::default() } else { self.allocate(request.desired, capacity, rules) };
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
