//! Parameters of DCQCN.

use flowloom_core::{Bytes, Duration, Rate, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate::Rules;
use crate::disciplines::{EcnConfig, MarkAt, Marking, Split};
use crate::roce::{Recovery, Reliability, Spans};
use crate::{Checked, Conditions, NoLoss, PortMemory, quantity};

/// What limits the bytes of a flow that are under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Windowed {
    /// Nothing: rates alone limit flows (the DCQCN paper).
    Off,
    /// What the NIC sends in a base round trip (`DCQCN+win` of the HPCC paper).
    Fixed,
    /// What the flow sends in a base round trip at its present rate.
    ByRate,
}

/// Parameters of DCQCN. The defaults are those of the paper's figure 14, for links of 40 Gb/s, where it gives a value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The weight of a report of congestion in a flow's estimate α (g; the paper: 1/256).
    #[schemars(range(min = 0.000_001, max = 1))]
    pub gain: f64,
    /// The least time from one report of congestion of a flow to the next (the paper: 50 us, as its NICs can).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub cnp_interval: Duration,
    /// After this time without a report, and again after each such time, α falls by `gain` (K; the paper: 55 us). It must be longer than `cnp_interval`.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub alpha_timer: Duration,
    /// After this time without a report, and again after each such time, the rate rises (T; the paper: 55 us).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub rate_timer: Duration,
    /// After as many bytes on the wire, the rate rises, too (B; the paper: 10 MB).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1kB", "x-max" = "1TB"))]
    pub byte_counter: Bytes,
    /// As often, after a cut, the timer or the byte counter raises the rate to half of the way to the rate before the cut (F; the paper: 5). Later rises also raise that rate.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub fast_rises: u32,
    /// What later rises add to the rate before the cut (R_AI; the paper: 40 Mb/s).
    #[serde(with = "quantity::rate")]
    #[schemars(schema_with = "quantity::rate::schema", extend("x-min" = "1kb/s", "x-max" = "10Tb/s"))]
    pub additive_increase: Rate,
    /// What rises add when both the timer and the byte counter have raised the rate more than `fast_rises` times: this once for the first, twice for the second and so on
    /// (R_HAI; ten times `additive_increase`, as in QCN: the paper gives no value).
    #[serde(with = "quantity::rate")]
    #[schemars(schema_with = "quantity::rate::schema", extend("x-min" = "1kb/s", "x-max" = "10Tb/s"))]
    pub hyper_increase: Rate,
    /// The least rate of a flow, as a share of its NIC's (ours: the paper gives none).
    #[schemars(range(min = 0.000_001, max = 1))]
    pub min_rate: f64,
    /// What limits the bytes of a flow that are under way: `off` (the paper), `fixed` (what the NIC sends in a base round trip: `DCQCN+win` of the HPCC paper) or `by_rate` (what the
    /// flow sends in a base round trip at its present rate).
    pub window: Windowed,
    /// The base round-trip time of all flows, for windows and timeouts. By default, it is that of the most distant hosts, with a full packet and its acknowledgement.
    #[serde(with = "quantity::duration::option", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub base_rtt: Option<Duration>,
    /// What becomes of packets after a gap: `go_back_n` (the receiver throws them away, and the sender sends everything again from the gap on, as the paper's NICs do) or
    /// `selective` (the receiver keeps and reports them, and the sender repeats what is missing: IRN, SIGCOMM 2018).
    pub recovery: Recovery,
    /// Every n-th packet asks for an acknowledgement, and the last one of a flow.
    #[schemars(range(min = 1, max = 65536))]
    pub ack_every: u32,
    /// Whether acknowledgements have a class of their own, which leaves every port before data. If not, they queue with the data. Reports of congestion have that class in
    /// any case.
    pub ack_first: bool,
    /// A receiver that throws packets away reports a gap at once, and again after this time at the earliest if it is still there.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub nack_interval: Duration,
    /// The least retransmission timeout.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub rto_min: Duration,
    /// The retransmission timeout in base round-trip times. It must exceed a round trip through full queues. It doubles with each timeout in a
    /// row, up to 64 times.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rto_rtts: f64,
    /// Which bytes of a port are compared with the thresholds of marks: those of all packets (`port`) or of data alone (`queue`); with `off`, nothing is marked, and priority flow control
    /// alone limits flows.
    pub ecn: Marking,
    /// If more than this is queued, the packet included, packets are marked at random (K_min; the paper: 5 kB).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_above: Bytes,
    /// If more than this is queued, each packet is marked (K_max; the paper: 200 kB).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_all_above: Bytes,
    /// The share of packets that are marked when `mark_all_above` is queued; from `mark_above` on, it grows from 0 to this (P_max; the paper: 1 %).
    #[schemars(range(min = 0, max = 1))]
    pub mark_share: f64,
    /// The rate of the links that both thresholds are for (the paper: 40 Gb/s). Ports of other links have them in proportion to their rates, and at least one full packet.
    #[serde(with = "quantity::rate")]
    #[schemars(schema_with = "quantity::rate::schema", extend("x-min" = "1kb/s", "x-max" = "10Tb/s"))]
    pub marks_for: Rate,
    /// When packets are marked: at `dequeue`, by the queue that they leave behind, as switches with shared memory do (*ECN or Delay*, CoNEXT 2016), or at `enqueue`. Marks at `enqueue`
    /// are older by the time in the queue, and with eight flows or more the queue then oscillates.
    pub mark_at: MarkAt,
    /// How classes divide a memory that belongs to the port alone: `shared` is one limit for all, without push-out; `per_class` gives each class as much memory as the port is given.
    pub split: Split,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            gain: 1.0 / 256.0,
            cnp_interval: Duration::from_us(50),
            alpha_timer: Duration::from_us(55),
            rate_timer: Duration::from_us(55),
            byte_counter: Bytes::new(10_000_000),
            fast_rises: 5,
            additive_increase: Rate::from_bps(40_000_000),
            hyper_increase: Rate::from_bps(400_000_000),
            min_rate: 0.001,
            window: Windowed::Off,
            base_rtt: None,
            recovery: Recovery::GoBackN,
            ack_every: 1,
            ack_first: true,
            nack_interval: Duration::from_us(500),
            rto_min: Duration::from_ms(1),
            rto_rtts: 10.0,
            ecn: Marking::Queue,
            mark_above: Bytes::new(5_000),
            mark_all_above: Bytes::new(200_000),
            mark_share: 0.01,
            marks_for: Rate::from_gbps(40),
            mark_at: MarkAt::Dequeue,
            split: Split::Shared,
        }
    }
}

impl Config {
    /// The classes of a port: acknowledgements and reports of congestion, and data.
    pub const CLASSES: u8 = 2;
    pub(super) const DATA_CLASS: u8 = 1;

    /// How losses are found and mended.
    pub fn reliability(&self) -> Reliability {
        Reliability {
            recovery: self.recovery,
            ack_every: self.ack_every,
            nack_interval: self.nack_interval,
            base_rtt: self.base_rtt,
            rto_rtts: self.rto_rtts,
            rto_min: self.rto_min,
        }
    }

    /// The ports of switches.
    pub fn port(&self) -> EcnConfig {
        EcnConfig {
            ecn: self.ecn,
            mark_above: Some(self.mark_above),
            mark_all_above: Some(self.mark_all_above),
            mark_share: self.mark_share,
            marks_for: Some(self.marks_for),
            mark_at: self.mark_at,
            split: self.split,
        }
    }

    pub(super) fn spans(&self, idle_rtt: Duration) -> Result<Spans, String> {
        Spans::new(&self.reliability(), idle_rtt)
    }

    /// The rules of rates at a host.
    pub(super) fn rules(&self, spans: &Spans, site: &Site<'_>) -> Rules {
        let line = site.line_rate().as_bps() as f64;
        Rules {
            gain: self.gain,
            alpha_timer: self.alpha_timer,
            rate_timer: self.rate_timer,
            byte_counter: self.byte_counter.get(),
            fast_rises: self.fast_rises,
            additive: self.additive_increase.as_bps() as f64 / line,
            hyper: self.hyper_increase.as_bps() as f64 / line,
            least: self.min_rate,
            windowed: self.window,
            round_trip: line / 8.0 * spans.rtt.as_secs_f64(),
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        for (name, share) in [("gain", self.gain), ("min_rate", self.min_rate)] {
            if !(1e-6..=1.0).contains(&share) {
                return Err(format!("{name}: found {share}; it must be from 0.000001 to 1"));
            }
        }
        for (name, span) in
            [("cnp_interval", self.cnp_interval), ("alpha_timer", self.alpha_timer), ("rate_timer", self.rate_timer)]
        {
            if span == Duration::ZERO {
                return Err(format!("{name}: found 0; it must be a time such as \"55us\""));
            }
        }
        if self.byte_counter < Bytes::new(1000) {
            return Err(format!("byte_counter: found {}; it must be 1kB or more", self.byte_counter));
        }
        self.reliability().check()?;
        self.port().check()
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        self.spans(conditions.network.base_rtt(&conditions.wire)).map(drop)
    }

    fn misfits(&self, _: &Conditions<'_>) -> Vec<String> {
        if self.alpha_timer > self.cnp_interval {
            return Vec::new();
        }
        vec![format!(
            "alpha_timer: {} is not more than cnp_interval, {}, so the estimate also falls where each packet is marked; raise it",
            self.alpha_timer, self.cnp_interval
        )]
    }

    /// A flow begins at the rate of its host, and hears of marks a round trip later. Queues that do not mark each packet are no longer than the upper threshold.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let [_, fastest] = conditions.host_rates();
        let [_, queue] = self.port().thresholds(fastest, conditions.wire.full);
        let first = conditions.bandwidth_delay_product(&conditions.wire);
        let holds = format!("a queue of {queue}, above which each packet is marked, and what a flow sends in a round trip");
        Some(PortMemory { bytes: queue + first, holds })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        Some(NoLoss {
            how: "runs over ports that pause their neighbours before they are full",
            advice: "nothing pauses them here; add [fabric.pfc], or raise fabric.buffer".to_owned(),
        })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        self.spans(conditions.network.base_rtt(&conditions.wire)).map_or(Duration::LONGEST, |spans| spans.rto_max())
    }
}
