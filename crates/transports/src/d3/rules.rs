//! The configuration in the units of a switch's ports.

use flowloom_core::{Bytes, Duration, Rate, Site, WireProfile};

use super::config::{Config, QueueSample, Spans};

/// What all ports of a node have in common. It does not change.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Half of the longest time for which an allocation holds without renewal.
    pub(super) hold: Duration,
    /// How often a port adapts its capacity.
    pub(super) interval: Duration,
    pub(super) spare_gain: f64,
    pub(super) queue_gain: f64,
    pub(super) queue_sample: QueueSample,
    pub(super) capacity_max: f64,
    pub(super) limit_to_left: bool,
    /// The least allocation.
    pub(super) base: Rate,
    /// The sizes of a full packet and of one without payload.
    pub(super) full: Bytes,
    pub(super) control: Bytes,
}

impl Rules {
    pub(super) fn new(config: &Config, site: &Site<'_>) -> Rules {
        let spans = Spans::new(config, site.base_rtt(&site.wire)).expect("the configuration suits the network");
        Rules::of(config, &spans, &site.wire)
    }

    fn of(config: &Config, spans: &Spans, wire: &WireProfile) -> Rules {
        Rules {
            hold: spans.hold,
            interval: spans.interval,
            spare_gain: config.spare_gain,
            queue_gain: config.queue_gain,
            queue_sample: config.queue_sample,
            capacity_max: config.capacity_max,
            limit_to_left: config.limit_to_left,
            base: config.base(spans.round_trip, wire.control),
            full: wire.full,
            control: wire.control,
        }
    }
}

impl Default for Rules {
    /// Those of the default configuration, a round trip of 100 µs and packets of 1500 B.
    fn default() -> Rules {
        let config = Config::default();
        let spans = Spans::new(&config, Duration::from_us(100)).expect("the default configuration has a finite time");
        Rules::of(&config, &spans, &WireProfile::IP_1500)
    }
}

impl Config {
    /// The rate of a flow for which a port has nothing left.
    pub(super) fn base(&self, round_trip: Duration, control: Bytes) -> Rate {
        Rate::from_bps((self.base_packets * control.get() as f64 * 8.0 / round_trip.as_secs_f64()) as u64)
    }
}
