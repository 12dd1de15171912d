//! What configurations of transports over RoCE have in common.

use flowloom_core::{Duration, Ecn, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::span_of;
use crate::toolkit::TimeWait;

/// What becomes of packets that come after a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// The receiver throws them away, and the sender sends everything again from the gap on, as RoCE's first NICs do.
    GoBackN,
    /// The receiver keeps them and reports each, and the sender repeats what is missing (IRN: Mittal et al., SIGCOMM 2018, §3.1).
    Selective,
}

/// The keys of a configuration that say how losses are found and mended.
#[derive(Clone, Copy, Debug)]
pub struct Reliability {
    /// What becomes of packets after a gap.
    pub recovery: Recovery,
    /// Every n-th packet asks for an acknowledgement.
    pub ack_every: u32,
    /// A receiver that throws packets away reports the same gap again after this time at the earliest.
    pub nack_interval: Duration,
    /// The base round-trip time, if it is given.
    pub base_rtt: Option<Duration>,
    /// The retransmission timeout in base round trips, and its least value.
    pub rto_rtts: f64,
    /// See `rto_rtts`.
    pub rto_min: Duration,
}

impl Reliability {
    /// Checks the keys.
    ///
    /// # Errors
    /// As those of [`Checked::check`](crate::Checked::check).
    pub fn check(&self) -> Result<(), String> {
        if !(1.0..=1e6).contains(&self.rto_rtts) {
            return Err(format!("rto_rtts: found {}; it must be from 1 to 1000000", self.rto_rtts));
        }
        if self.ack_every == 0 {
            return Err("ack_every: found 0; it must be 1 or more".to_owned());
        }
        for (name, span) in
            [("base_rtt", self.base_rtt), ("nack_interval", Some(self.nack_interval)), ("rto_min", Some(self.rto_min))]
        {
            if span == Some(Duration::ZERO) {
                return Err(format!("{name}: found 0; it must be a time such as \"1ms\""));
            }
        }
        Ok(())
    }
}

/// What transports over RoCE differ in, besides their controllers.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// How losses are found and mended.
    pub reliability: Reliability,
    /// Its times on this network.
    pub spans: Spans,
    /// The sizes of the transport's packets.
    pub wire: WireProfile,
    /// The class of data.
    pub data_class: u8,
    /// The class of acknowledgements. Reports of congestion have class 0.
    pub ack_class: u8,
    /// Whether ports may mark data.
    pub ecn: Ecn,
    /// The least time from one report of congestion of a flow to the next; `None` if receivers report none.
    pub congestion_interval: Option<Duration>,
}

/// Timeouts double at most this many times.
const RTO_DOUBLINGS_MAX: u32 = 6;

/// The times of a configuration on one network.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    /// The base round-trip time.
    pub rtt: Duration,
    /// How long after a flow's end its receiver must remember it.
    pub time_wait: Duration,
    rto: Duration,
}

impl Spans {
    /// `wire` has the sizes of the transport's packets.
    ///
    /// # Errors
    /// If a span is 0 or too long for a run. The message names the key.
    pub fn new(keys: &Reliability, idle: Duration) -> Result<Spans, String> {
        let rtt = span_of("base_rtt", Some(keys.base_rtt.unwrap_or(idle)))?;
        // Whatever the round trip is configured to be, acknowledgements do not come sooner than on the idle network.
        let of_rtt = if rtt > idle { "base_rtt" } else { "rto_rtts" };
        let from_rtt = span_of(of_rtt, rtt.max(idle).checked_scale(keys.rto_rtts))?;
        let rto = from_rtt.max(keys.rto_min);
        let rto_max = span_of(if rto > from_rtt { "rto_min" } else { of_rtt }, rto.checked_mul(1 << RTO_DOUBLINGS_MAX))?;
        Ok(Spans { rtt, rto, time_wait: TimeWait::span(rto_max) })
    }

    /// The timeout after this many timeouts in a row.
    pub fn rto(&self, timeouts: u32) -> Duration {
        self.rto * (1 << timeouts.min(RTO_DOUBLINGS_MAX))
    }

    /// The longest timeout.
    pub fn rto_max(&self) -> Duration {
        self.rto(RTO_DOUBLINGS_MAX)
    }
}
