//! Which priority a flow's tokens have (§3.2).

use flowloom_core::{Bytes, Flow, Time, WireProfile};

use super::config::{Config, Priority, SwitchForm, Thresholds};

/// The most priorities that a configuration can name.
const MOST: usize = 8;
/// The value of a flow that does not say what its priority follows from.
const NONE: u64 = u64::MAX - 1;

/// What a receiver knows of a flow that it may prioritize.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Packets of the flow.
    pub packets: u32,
    /// Packets that have arrived.
    pub received: u32,
    /// What the sender says of its urgency: see [`Priorities::urgency`].
    pub urgency: u64,
}

/// How urgent tokens are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rank {
    /// 0 is the best.
    pub level: u8,
    /// What an ideal port sorts tokens by, the smallest first.
    pub key: u64,
}

/// The rules by which a flow's tokens get their priority.
#[derive(Clone, Debug)]
pub(super) struct Priorities {
    by: Priority,
    /// The least value of each level but the best.
    from: [u64; MOST - 1],
    late_last: bool,
    wire: WireProfile,
    /// Whether ports tell levels apart and no more than that.
    by_level: bool,
}

impl Priorities {
    pub fn new(config: &Config, wire: &WireProfile) -> Priorities {
        let levels = usize::from(config.levels());
        let mut from = [u64::MAX; MOST - 1];
        for (index, from) in from.iter_mut().enumerate().take(levels - 1) {
            *from = match config.priority {
                Priority::Deadline => exponential(config.deadline_mean.as_ps() as f64, index + 1, levels).ceil() as u64,
                _ if config.cutoffs.is_empty() => threshold(config, wire, index + 1, levels),
                _ => config.cutoffs.get(index).map_or(u64::MAX, |cutoff| wire.packets(*cutoff) + 1),
            };
        }
        let by_level = config.switch == SwitchForm::Ideal && config.priority == Priority::Attained;
        Priorities { by: config.priority, from, late_last: config.late_last, wire: *wire, by_level }
    }

    /// Whether receivers do not know the size of flows.
    pub fn sizes_are_unknown(&self) -> bool {
        self.by == Priority::Attained
    }

    /// What a sender tells the receiver of a flow.
    pub fn urgency(&self, flow: &Flow) -> u64 {
        match self.by {
            Priority::Deadline => flow.deadline.map_or(NONE, Time::as_ps),
            Priority::Coflow => self.wire.packets(flow.coflow_size()),
            _ => NONE,
        }
    }

    /// The priority of a flow's next token.
    #[inline]
    pub fn rank(&self, flow: &Standing, now: Time) -> Rank {
        let value = match self.by {
            Priority::Size => u64::from(flow.packets),
            Priority::Remaining => u64::from(flow.packets.saturating_sub(flow.received)),
            Priority::Attained => u64::from(flow.received) + 1,
            Priority::Coflow => flow.urgency,
            Priority::Deadline if self.late_last && flow.urgency < now.as_ps() => NONE,
            Priority::Deadline => flow.urgency.saturating_sub(now.as_ps()),
        };
        let level = self.from.iter().filter(|from| value.min(NONE) >= **from).count() as u8;
        let key = match self.by {
            _ if self.by_level => u64::from(level),
            // The time that is left would change the order of tokens that were sent at different times.
            Priority::Deadline if value < NONE => flow.urgency,
            _ => value,
        };
        Rank { level, key }
    }
}

/// Threshold number `index` of a distribution function 1 - exp(-x / mean): a share of `index / levels` of all values is below it.
fn exponential(mean: f64, index: usize, levels: usize) -> f64 {
    -mean * libm::log(1.0 - index as f64 / levels as f64)
}

/// The least number of packets of a flow at level `index`, counted from 0: threshold t applies to ax + b.
fn threshold(config: &Config, wire: &WireProfile, index: usize, levels: usize) -> u64 {
    let packets =
        |given: Bytes, default: u64| wire.packets(if given == Bytes::ZERO { Bytes::new(default) } else { given }) as f64;
    let scaled = match config.thresholds {
        Thresholds::EqualBytes | Thresholds::HeavyTail => {
            libm::pow(packets(config.largest, 1_000_000_000).max(2.0), index as f64 / levels as f64)
        }
        Thresholds::LightTail => exponential(packets(config.mean, 1_000_000), index, levels),
    };
    let least = (scaled - config.b) / config.a;
    // The power of a whole number may miss a whole number by the last bit.
    let whole = least.round();
    if (least - whole).abs() <= 1e-9 * whole.abs() { whole.max(0.0) as u64 } else { least.ceil().max(0.0) as u64 }
}
