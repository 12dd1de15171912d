//! A network whose links change their rates during a run.

use std::collections::VecDeque;
use std::sync::Arc;

use flowloom_core::{Network, Paths, Time};

/// The network as it is when somebody asks, who asks in the order of time.
#[derive(Clone, Debug)]
pub struct ChangingNetwork {
    now: Arc<Network>,
    changes: VecDeque<(Time, Arc<Network>)>,
}

impl ChangingNetwork {
    /// A network that changes as [`Setup::reroutes`](crate::Setup::reroutes) says.
    pub fn new(network: Arc<Network>, reroutes: &[(Time, Paths)]) -> ChangingNetwork {
        let changes = reroutes.iter().map(|(at, paths)| (*at, paths.network().clone()));
        ChangingNetwork { now: network, changes: changes.collect() }
    }

    /// The network at this instant. What changes then does so after everything else.
    #[inline]
    pub fn at(&mut self, now: Time) -> &Network {
        while self.changes.front().is_some_and(|(at, _)| *at < now) {
            self.change();
        }
        &self.now
    }

    #[cold]
    fn change(&mut self) {
        if let Some((_, network)) = self.changes.pop_front() {
            self.now = network;
        }
    }

    /// The network as it was when somebody last asked. Names, nodes and ends of links never change.
    pub fn last(&self) -> &Network {
        &self.now
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Duration, LinkId, Rate, Routing, Switching, topology};

    use super::*;

    #[test]
    fn a_link_has_its_new_rate_after_the_instant_of_the_change() {
        let own = Rate::from_gbps(10);
        let network = Arc::new(topology::single_switch(2, own, Duration::from_us(1), Switching::StoreAndForward));
        let paths = Paths::new(network.clone(), Routing::Ecmp, 1);
        let slow = Rate::from_gbps(1);
        let mut slower = (*network).clone();
        slower.set_rate(LinkId(1), slow);
        let us = |us: u64| Time::ZERO + Duration::from_us(us);
        let over = |network: &Arc<Network>| paths.over(network.clone(), &[]).expect("nothing is dead");
        let reroutes = [(us(5), over(&Arc::new(slower))), (us(8), over(&network))];
        let mut changing = ChangingNetwork::new(network, &reroutes);
        let rates = [0, 5, 6, 8, 9].map(|at| changing.at(us(at)).link(LinkId(1)).rate);
        assert_eq!(rates, [own, own, slow, slow, own]);
        assert_eq!(ChangingNetwork::new(paths.network().clone(), &reroutes).at(us(7)).link(LinkId(0)).rate, own);
    }
}
