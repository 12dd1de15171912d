//! What TOP adds to ExpressPass's senders and credits.

use std::collections::BTreeSet;

use flowloom_core::{Bytes, Duration, Flow, LinkId, Network, Paths, Site, Time, mix};

use super::config::{Config, SwitchForm};
use super::header::Header;
use super::priorities::{Priorities, Standing};
use super::{FIRST_TOKENS, Top};
use crate::expresspass::scheme::{Outbound, Rules, Scheme};
use crate::toolkit::{RandomStream, Reassembly};

/// The packets of a flow that are still to be sent: those that the receiver misses, and then those that were never sent.
pub struct Pending {
    packets: u32,
    /// The next packet that was never sent.
    next: u32,
    missing: BTreeSet<u32>,
    /// Packets that were sent without tokens.
    pub(super) unscheduled: u32,
    urgency: u64,
    /// Whether packets do not tell how many there are.
    is_open: bool,
    /// An older token is no longer valid.
    token_age: Duration,
}

impl Pending {
    pub(super) fn new(flow: &Flow, rules: &Rules<Top>) -> Pending {
        let (packets, node) = (rules.framing.packets(flow.size), &rules.node);
        let unscheduled = if packets <= node.unscheduled { packets } else { 0 };
        Pending {
            packets,
            next: unscheduled,
            missing: BTreeSet::new(),
            unscheduled,
            urgency: node.priorities.urgency(flow),
            is_open: node.priorities.sizes_are_unknown(),
            token_age: node.token_age(flow),
        }
    }

    fn told(&self, packets: u32) -> u32 {
        if self.is_open { Reassembly::OPEN } else { packets }
    }
}

impl Outbound for Pending {
    fn left(&self) -> u32 {
        self.packets - self.next + self.missing.len() as u32
    }

    fn take(&mut self) -> (u32, bool) {
        if let Some(number) = self.missing.pop_first() {
            return (number, true);
        }
        self.next += 1;
        (self.next - 1, false)
    }

    fn miss(&mut self, number: u32) -> bool {
        let was_sent = number < self.next;
        if was_sent {
            self.missing.insert(number);
        }
        was_sent
    }
}

/// What a receiver knows of a flow that gets tokens.
pub struct Inbound {
    pub(super) standing: Standing,
    /// Packets that come without tokens, and were not asked for yet.
    pub(super) unscheduled: u32,
    /// All missing packets below this one were asked for.
    pub(super) reported: u32,
    /// When the first of these was asked for.
    pub(super) reported_at: Time,
}

/// What a node knows besides ExpressPass's rules.
pub struct Node {
    pub(super) priorities: Priorities,
    /// The most packets of a flow that is sent without tokens.
    pub(super) unscheduled: u32,
    /// Whether receivers send no more tokens than packets are missing.
    pub(super) one_to_one: bool,
    /// A packet that is more than this many behind the newest is lost.
    pub(super) reorder_window: u32,
    /// The class of data.
    data: u8,
    /// By how much the clock is ahead of that of the slowest host.
    ahead: Duration,
    ages: Ages,
}

/// The largest age of a token when it arrives at its sender.
enum Ages {
    /// Switches drop old tokens.
    Any,
    /// All the same.
    Fixed(Duration),
    /// It follows from their paths: the configuration, and the sizes of the largest token and of a slot.
    ByPath { paths: Paths, config: Box<Config>, token: Bytes, slot: Bytes },
}

impl Node {
    pub fn new(config: &Config, site: &Site<'_>) -> Node {
        let slot = config.slot(&site.wire);
        let window = match (config.reorder_window, site.reorders) {
            (0, false) => 3,
            (0, true) => {
                let slot = site.line_rate().transmit_time(slot);
                site.base_rtt(&site.wire).as_ps().div_ceil(slot.as_ps().max(1)).min(1_000_000) as u32
            }
            (given, _) => given,
        };
        let is_remedy = config.switch == SwitchForm::Remedy;
        // This stream differs from that of the jitter of tokens.
        let unit = f64::midpoint(RandomStream::new(mix(site.seed)).around_zero(), 1.0);
        Node {
            priorities: Priorities::new(config, &site.wire),
            unscheduled: config.unscheduled,
            one_to_one: config.one_to_one,
            reorder_window: window,
            data: FIRST_TOKENS + config.token_classes(),
            // Only differences of clocks matter. A clock that is never behind has no times before zero.
            ahead: if is_remedy { (config.clock_error * 2).scale(unit) } else { Duration::ZERO },
            ages: if is_remedy { Ages::new(config, site) } else { Ages::Any },
        }
    }

    /// The class of unscheduled packets.
    pub(super) fn unscheduled_class(&self) -> u8 {
        self.data + 1
    }

    /// The node's clock.
    #[inline]
    fn clock(&self, now: Time) -> Time {
        now + self.ahead
    }

    /// When the node's clock had this time.
    #[inline]
    pub(super) fn when(&self, clock: Time) -> Time {
        Time::from_ps(clock.as_ps().saturating_sub(self.ahead.as_ps()))
    }

    fn token_age(&self, flow: &Flow) -> Duration {
        match &self.ages {
            Ages::Any => Duration::MAX,
            Ages::Fixed(age) => *age,
            Ages::ByPath { paths, config, token, slot } => {
                let path: Vec<_> = paths.path(flow.id, flow.dst, flow.src).collect();
                oldest(config, paths.network(), &path, *token, *slot)
            }
        }
    }
}

impl Ages {
    fn new(config: &Config, site: &Site<'_>) -> Ages {
        if config.token_age > Duration::ZERO {
            return Ages::Fixed(config.token_age);
        }
        let (token, slot) = (site.wire.control, config.slot(&site.wire));
        if let Some(paths) = site.paths {
            return Ages::ByPath { paths: paths.clone(), config: Box::new(config.clone()), token, slot };
        }
        // Sprayed tokens take any of the shortest paths, so the longest one that ends here counts for all.
        let far = site.network.farthest(site.node);
        Ages::Fixed(oldest(config, site.network, &site.network.path(far, site.node), token, slot))
    }
}

/// How old a token may be at the end of its path (§5.4: d + |P| t_h). It crosses the assistant switch of each switch.
fn oldest(config: &Config, network: &Network, path: &[LinkId], token: Bytes, slot: Bytes) -> Duration {
    let rates = || path.iter().map(|link| network.link(*link).rate);
    let waits = rates().fold(Duration::ZERO, |sum, rate| sum + rate.transmit_time(slot).scale(config.lifetime));
    let detours = rates().skip(1).fold(Duration::ZERO, |sum, rate| sum + config.detour(rate, token).0);
    network.packet_time(path, token) + waits + detours
}

impl Scheme for Top {
    type Header = Header;
    type Node = Node;
    type Outbound = Pending;
    type Inbound = Inbound;

    #[inline]
    fn data_class(rules: &Rules<Top>) -> u8 {
        rules.node.data
    }
    fn request(flow: &Pending) -> Header {
        let (packets, remaining) = (flow.told(flow.packets), flow.told(flow.left()));
        Header::Sync { packets, remaining, unscheduled: flow.unscheduled, urgency: flow.urgency }
    }
    fn stop(flow: &Pending, again: bool) -> Header {
        Header::Fin { packets: flow.packets, again }
    }
    #[inline]
    fn data(flow: &Pending, number: u32, token: u32, sent: Time) -> Header {
        Header::Data { number, packets: flow.told(flow.packets), token, sent }
    }
    #[inline]
    fn credit(rules: &Rules<Top>, flow: &Inbound, now: Time, token: u32) -> (Header, u8) {
        let rank = rules.node.priorities.rank(&flow.standing, now);
        let class = (FIRST_TOKENS + rank.level).min(rules.node.data - 1);
        (Header::Token { token, sent: rules.node.clock(now), key: rank.key }, class)
    }
    #[inline]
    fn missing(rules: &Rules<Top>, flow: &Inbound) -> Option<u32> {
        rules.node.one_to_one.then(|| flow.standing.packets.saturating_sub(flow.standing.received))
    }
    #[inline]
    fn is_valid(rules: &Rules<Top>, flow: &Pending, now: Time, sent: Time) -> bool {
        rules.node.clock(now).saturating_since(sent) <= flow.token_age
    }
}
