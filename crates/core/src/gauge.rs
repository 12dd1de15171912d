//! What endpoints tell of their flows over the course of a run.

use crate::{Duration, Rate};

/// A number that an endpoint knows of a flow, such as its window. A transport lists its gauges ([`Transport::GAUGES`](crate::Transport::GAUGES)), and its endpoints
/// tell them when they are asked ([`Endpoint::gauge`](crate::Endpoint::gauge)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gauge {
    /// Its name in results, which ends with its unit if it has one.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
}

impl Gauge {
    /// The window of a sender.
    pub const WINDOW: Gauge = Gauge::new("window_bytes", "payload bytes that the sender lets be on their way at once");
    /// What a sender has on its way.
    pub const IN_FLIGHT: Gauge =
        Gauge::new("in_flight_bytes", "payload bytes that were sent and neither acknowledged nor taken for lost");
    /// The rate of a sender.
    pub const RATE: Gauge = Gauge::new("rate_gbps", "the rate at which the sender may send, in Gb/s");
    /// The round-trip time that a sender goes by.
    pub const RTT: Gauge = Gauge::new("rtt_us", "the round-trip time that the sender goes by, in µs");
    /// The class of the flow's data.
    pub const PRIORITY: Gauge = Gauge::new("priority", "the class that data would be sent with now; 0 is the best");
    /// The share of marked packets.
    pub const MARKED: Gauge = Gauge::new("marked_share", "the share of marked packets as the sender estimates it: DCTCP's α");
    /// Tokens, credits or grants that a sender may still use.
    pub const TOKENS: Gauge =
        Gauge::new("tokens", "packets that the sender may send with the tokens, credits or grants that it holds");

    /// A gauge with this name, which ends with its unit.
    pub const fn new(name: &'static str, about: &'static str) -> Gauge {
        Gauge { name, about }
    }
}

/// The gauges of one flow at one instant, which its two endpoints fill in.
#[derive(Debug)]
pub struct Readings<'a> {
    gauges: &'static [Gauge],
    values: &'a mut [f64],
}

impl<'a> Readings<'a> {
    /// Nothing is known yet: all `values`, one for each gauge, become NaN.
    ///
    /// # Panics
    /// If there is not one value for each gauge.
    pub fn new(gauges: &'static [Gauge], values: &'a mut [f64]) -> Readings<'a> {
        assert_eq!(gauges.len(), values.len(), "each gauge has a value");
        values.fill(f64::NAN);
        Readings { gauges, values }
    }

    /// Tells the value of a gauge.
    ///
    /// # Panics
    /// If the transport does not list this gauge.
    pub fn tell(&mut self, gauge: Gauge, value: f64) {
        let index = self.gauges.iter().position(|listed| *listed == gauge);
        self.values[index.unwrap_or_else(|| panic!("{} is not listed", gauge.name))] = value;
    }

    /// Tells a rate, for a gauge in Gb/s. It panics as [`Readings::tell`] does.
    pub fn tell_rate(&mut self, gauge: Gauge, rate: Rate) {
        self.tell(gauge, rate.as_bps() as f64 * 1e-9);
    }

    /// Tells a time, for a gauge in µs; nothing if it is zero, since a time that was never measured is zero. It panics as [`Readings::tell`] does.
    pub fn tell_span(&mut self, gauge: Gauge, span: Duration) {
        if span > Duration::ZERO {
            self.tell(gauge, span.as_us_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAUGES: &[Gauge] = &[Gauge::WINDOW, Gauge::RTT];

    #[test]
    fn what_is_not_told_is_not_known() {
        let mut values = [1.0, 2.0];
        Readings::new(GAUGES, &mut values).tell(Gauge::RTT, 12.5);
        assert!(values[0].is_nan());
        assert_eq!(values[1], 12.5);
    }

    #[test]
    #[should_panic(expected = "rate_gbps is not listed")]
    fn a_transport_lists_what_it_tells() {
        Readings::new(GAUGES, &mut [0.0; 2]).tell(Gauge::RATE, 1.0);
    }
}
