//! Parameters of the TCP family.

use flowloom_core::{Bytes, Duration, HostProfile, KernelTcp, Knob};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::controllers::{Any, Controller, Kind};
use super::rtt::Timeouts;
use crate::disciplines::{EcnConfig, Marking};
use crate::{Checked, Conditions, PortMemory, SizeShare, quantity};

/// Whether duplicate acknowledgements say that a packet is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FastRetransmit {
    /// Where packets of a flow cannot overtake each other: not under packet spraying.
    Auto,
    /// Always.
    On,
    /// Never: only the timer finds losses.
    Off,
}

/// What a flow inherits from earlier flows on its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// The window and the slow-start threshold of the last flow, however long the connection was idle (Linux with
    /// `tcp_slow_start_after_idle = 0`).
    Keep,
    /// As `keep`, but after an idle time of one retransmission timeout the window is at most the initial one (RFC 5681 §4.1).
    Restart,
    /// As `keep`, but each retransmission timeout of idle time halves the window, down to the initial one at the least. The threshold
    /// is then at least three quarters of the old window (RFC 2861; Linux with `tcp_slow_start_after_idle = 1`, its default).
    Decay,
    /// The state of a new connection: the initial window and no threshold (the PIAS authors' simulator).
    Reset,
}

/// Which acknowledgements grow the window while some of them echo marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkedGrowth {
    /// Those without an echo (RFC 3168 §6.1.2).
    Unmarked,
    /// Those without an echo, and from the second on in a row of acknowledgements with one (the PIAS authors' simulator).
    AfterFirst,
    /// None from a cut until all that was sent before it has been acknowledged (Linux's state CWR).
    NextWindow,
}

/// Whether a timeout halves the slow-start threshold if the last cut of the window was for a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutAfterCut {
    /// It always does (RFC 5681 §3.1).
    Halve,
    /// Not in the window that the cut was made in (RFC 3168 §6.1.2: one answer per window; Linux).
    OncePerWindow,
    /// Not until a loss has been answered in another way (the PIAS authors' simulator).
    Keep,
}

/// Whether fast recovery halves the window if it was cut for a mark in the same window of packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryAfterCut {
    /// It always does (RFC 5681 §3.2; DCTCP in the PIAS authors' simulator).
    #[default]
    Halve,
    /// The window that the mark left stays (RFC 3168 §6.1.2: one answer per window; Linux).
    OncePerWindow,
}

impl RecoveryAfterCut {
    fn is_default(&self) -> bool {
        *self == RecoveryAfterCut::default()
    }
}

/// What the weight of an L2DCT flow applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightOn {
    /// Growth and cuts: the window grows by w/w_max packets per round trip, and a mark costs half of α^w (the L2DCT paper).
    GrowthAndCuts,
    /// Cuts only: the window grows by one packet per round trip at every age, and a mark costs half of α^w. The PIAS authors' simulator
    /// has this effect, since its window grows as soon as one of the two growth laws allows it.
    Cuts,
}

/// How the retransmission timeout follows from measured round-trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RtoRule {
    /// SRTT + 4·RTTVAR, and at least `rto_min`. Consecutive timeouts double it (RFC 6298).
    Rfc6298,
    /// SRTT + max(4·RTTVAR, `rto_min`). Consecutive timeouts double it (Linux).
    Linux,
    /// Always `rto_min` (the PIAS authors' simulator).
    Fixed,
}

/// Parameters of TCP and of every controller of its window. The defaults are those of the PIAS paper's simulations, §V-C, with the
/// controllers' own from their papers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Packets a new connection may send before the first acknowledgement (PIAS §V-C: 70, the bandwidth-delay product; its testbed: 10).
    #[schemars(range(min = 1, max = 65536))]
    pub initial_window: u32,
    /// The most packets a flow may have unacknowledged (239 in the PIAS authors' simulator: one less than a port holds).
    #[schemars(range(min = 1, max = 65536))]
    pub max_window: u32,
    /// The smallest window that a mark leaves, in packets (1 in ns-2, 2 in Linux).
    #[schemars(range(min = 1, max = 65536))]
    pub min_window: u32,
    /// The least retransmission timeout (PIAS §V-C: 2 ms; its testbed and the PASE paper: 10 ms; Linux: 200 ms; RFC 6298: 1 s).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_min: Duration,
    /// The timeout before the first round-trip time is known (2 ms in the PIAS authors' simulator; RFC 6298: 1 s).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_initial: Duration,
    /// The longest timeout that back-off reaches (RFC 6298: 60 s or more).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto_max: Duration,
    /// How the timeout follows from round-trip times: `rfc6298`, `linux` (which adds `rto_min` to the smoothed round-trip time instead of
    /// taking the larger one) or `fixed` (always `rto_min`, without back-off: the PIAS authors' simulator).
    pub rto_rule: RtoRule,
    /// Whether a timeout halves the slow-start threshold if the last cut of the window was for a mark: `halve` (it always does: RFC 5681),
    /// `once_per_window` (not in the window of that cut: Linux) or `keep` (not until another loss: the PIAS authors' simulator).
    pub timeout_after_cut: TimeoutAfterCut,
    /// Whether fast recovery halves the window if it was cut for a mark in the same window of packets: `halve` (it always does, also without this key: RFC 5681) or `once_per_window`
    /// (the window that the mark left stays: RFC 3168, Linux).
    #[serde(skip_serializing_if = "RecoveryAfterCut::is_default")]
    pub recovery_after_cut: RecoveryAfterCut,
    /// Whether duplicate acknowledgements say that a packet is lost: `auto` (not under packet spraying), `on` or `off`.
    pub fast_retransmit: FastRetransmit,
    /// How many duplicate acknowledgements, or how many selectively acknowledged packets beyond a missing one, show that it is lost.
    #[schemars(range(min = 1, max = 65536))]
    pub dup_ack_threshold: u32,
    /// Whether receivers acknowledge selectively and senders recover losses by that (RFC 6675). If not, recovery uses partial
    /// acknowledgements alone (RFC 6582).
    pub sack: bool,
    /// A receiver sends one acknowledgement for this many packets in order (1 in data-center simulations; RFC 5681: 2). A packet out of
    /// order, and the last packet of a flow, are acknowledged at once.
    #[schemars(range(min = 1, max = 65536))]
    pub ack_every: u32,
    /// The longest time that an acknowledgement waits for further packets, if `ack_every` is above 1.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "1000s"))]
    pub ack_delay: Duration,
    /// Connections that each pair of hosts has from the start (PIAS §V-A: 5; its simulator: 1). More are opened when all are busy.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub connections: u32,
    /// Whether a connection, with its window, serves one flow after the other (PIAS §V). If not, each flow opens its own connection.
    pub persistent: bool,
    /// Whether opening a further connection takes a round trip before its first data.
    pub handshake: bool,
    /// What a flow inherits on a connection that has served others: `keep` (window and slow-start threshold), `restart` (the same, but
    /// at most the initial window after an idle retransmission timeout: RFC 5681 §4.1), `decay` (half the window for each idle timeout:
    /// RFC 2861, Linux) or `reset` (the initial window and no threshold: the PIAS authors' simulator).
    pub reuse: Reuse,
    /// Whether acknowledgements grow the window only if the window limited the flow (RFC 2861, RFC 7661). If not, they also grow the
    /// window of a flow that had nothing more to send (the PIAS authors' simulator).
    pub window_validation: bool,
    /// Which acknowledgements grow the window while some echo marks: `unmarked` (those without an echo: RFC 3168 §6.1.2), `after_first`
    /// (all but the first of a row of echoes: the PIAS authors' simulator) or `next_window` (none until the window of a cut is
    /// acknowledged: Linux).
    pub growth_under_marks: MarkedGrowth,
    /// Weight of the latest round trip in the estimated share of marked packets (dctcp, d2tcp, l2dct; RFC 8257: 1/16).
    #[schemars(range(min = 0, max = 1))]
    pub gain: f64,
    /// The estimate that a new connection starts with (dctcp, d2tcp, l2dct; RFC 8257 and Linux: 1; the PIAS authors' simulator: 0).
    #[schemars(range(min = 0, max = 1))]
    pub initial_alpha: f64,
    /// The least urgency of a flow with a deadline. Flows with distant deadlines back off as if more packets were marked (d2tcp: 0.5).
    #[schemars(range(min = 0, max = 1000))]
    pub urgency_min: f64,
    /// The largest urgency of a flow with a deadline (d2tcp: 2).
    #[schemars(range(min = 0, max = 1000))]
    pub urgency_max: f64,
    /// Weight of a flow that has sent less than `young` (l2dct: 2.5).
    #[schemars(range(min = 0, max = 1000))]
    pub weight_max: f64,
    /// Weight of a flow that has sent more than `old` (l2dct: 0.125).
    #[schemars(range(min = 0, max = 1000))]
    pub weight_min: f64,
    /// A flow that has sent up to this has `weight_max` (l2dct: 200 KiB).
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1TB"))]
    pub young: Bytes,
    /// A flow that has sent this or more has `weight_min` (l2dct: 1 MiB). In between, the weight falls linearly.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "1TB"))]
    pub old: Bytes,
    /// What a flow's weight applies to (l2dct): `growth_and_cuts` (the L2DCT paper) or `cuts` (the effect in the PIAS authors'
    /// simulator).
    pub weight_on: WeightOn,
    /// How long a receiver remembers a finished flow after its last duplicate, so that it acknowledges late duplicates (60 s in Linux,
    /// which answers later ones with a reset). It is many times `rto_max`, so that as many losses in a row do no harm, and longer than
    /// a duplicate can wait in a starved queue.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100000s"))]
    pub time_wait: Duration,
    /// The ports of switches.
    pub port: EcnConfig,
    /// The hosts' own ports. Their `mark_above` does not depend on the network.
    pub nic: EcnConfig,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initial_window: 70,
            max_window: 239,
            min_window: 1,
            rto_min: Duration::from_ms(2),
            rto_initial: Duration::from_ms(2),
            rto_max: Duration::from_ms(60_000),
            rto_rule: RtoRule::Rfc6298,
            timeout_after_cut: TimeoutAfterCut::Halve,
            recovery_after_cut: RecoveryAfterCut::Halve,
            fast_retransmit: FastRetransmit::Auto,
            dup_ack_threshold: 3,
            sack: true,
            ack_every: 1,
            ack_delay: Duration::from_us(500),
            connections: 1,
            persistent: true,
            handshake: false,
            reuse: Reuse::Restart,
            window_validation: true,
            growth_under_marks: MarkedGrowth::Unmarked,
            gain: 1.0 / 16.0,
            initial_alpha: 1.0,
            urgency_min: 0.5,
            urgency_max: 2.0,
            weight_max: 2.5,
            weight_min: 0.125,
            young: Bytes::new(200 * 1024),
            old: Bytes::new(1024 * 1024),
            weight_on: WeightOn::GrowthAndCuts,
            time_wait: Duration::from_ms(20_000_000),
            port: EcnConfig::default(),
            nic: EcnConfig { mark_above: Some(EcnConfig::SIMULATED), ..EcnConfig::default() },
        }
    }
}

/// What a port holds in the PIAS paper's simulations.
const PORT_PACKETS: u64 = 240;

/// The blocks of an acknowledgement cannot describe packets more than this beyond the first missing one.
const MOST_WINDOW: u32 = 1 << 16;

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        self.check_windows()?;
        self.check_timers()?;
        self.check_controllers()?;
        self.port.check().map_err(|why| format!("port.{why}"))?;
        self.nic.check().map_err(|why| format!("nic.{why}"))
    }

    fn longest_pause(&self, _: &Conditions<'_>) -> Duration {
        self.rto_max.max(self.rto_min).max(self.ack_delay)
    }

    /// As much as in the PIAS paper's simulations, whose windows the defaults are (§V-C). Where that is less, the first window of a flow finds the queue that marks allow; without
    /// marks, it finds a bandwidth-delay product, with which a link is never idle when a window is halved.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let (packets, full) = (self.initial_window, conditions.wire.full);
        let (queue, why) = match self.port.ecn {
            Marking::Off => (conditions.bandwidth_delay_product(&conditions.wire), "a bandwidth-delay product"),
            Marking::Port | Marking::Queue => (self.port.fitted(conditions).threshold(), "mark_above"),
        };
        let (simulated, needed) = (full * PORT_PACKETS, queue + full * u64::from(packets));
        Some(if simulated >= needed {
            PortMemory { bytes: simulated, holds: format!("{PORT_PACKETS} packets, as in the PIAS paper") }
        } else {
            PortMemory { bytes: needed, holds: format!("a queue of {queue} ({why}) and the first {packets} packets of a flow") }
        })
    }

    fn fitted(&self, conditions: &Conditions<'_>, _: &dyn Fn() -> Vec<SizeShare>) -> Option<Config> {
        let port = self.port.fitted(conditions);
        (port != self.port).then(|| Config { port, ..self.clone() })
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let (key, timeout) = match self.rto_rule {
            RtoRule::Fixed => ("rto_min", self.rto_min),
            RtoRule::Rfc6298 | RtoRule::Linux => ("rto_initial", self.rto_initial),
        };
        let windows = [
            conditions.small_window("max_window", self.max_window),
            conditions.large_window("initial_window", self.initial_window, conditions.buffer),
        ];
        conditions.early_timeout(key, timeout).into_iter().chain(windows.into_iter().flatten()).collect()
    }
}

impl Config {
    /// Describes what hosts need for TCP with this controller. `table` is the dotted table of this configuration among a transport's parameters; empty if
    /// it is the whole.
    pub fn host_profile(&self, controller: Kind, table: &str) -> HostProfile {
        let key = |name: &str| if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") };
        let mut knobs = vec![
            (Knob::InitialWindow(self.initial_window), key("initial_window")),
            (Knob::RtoMin(self.rto_min), key("rto_min")),
            (Knob::Sack(self.sack), key("sack")),
            (Knob::SlowStartAfterIdle(self.reuse != Reuse::Keep), key("reuse")),
            (Knob::Reordering(self.dup_ack_threshold), key("dup_ack_threshold")),
        ];
        let running = Any::new(controller, self);
        if running.alpha().is_some() {
            knobs.push((Knob::Gain(self.gain), key("gain")));
            knobs.push((Knob::InitialAlpha(self.initial_alpha), key("initial_alpha")));
        }
        let (control, lacks) = controller.in_the_kernel();
        let kernel = Some(KernelTcp { control, lacks, knobs });
        HostProfile { ecn: running.reacts_to_marks(), kernel, ..HostProfile::OWN }
    }

    /// What the timeout follows from.
    #[inline]
    pub fn timeouts(&self) -> Timeouts {
        Timeouts { rule: self.rto_rule, least: self.rto_min, initial: self.rto_initial, most: self.rto_max }
    }

    fn check_windows(&self) -> Result<(), String> {
        let (initial, most, least) = (self.initial_window, self.max_window, self.min_window);
        if initial == 0 {
            return Err("initial_window: found 0, and no flow could start; it must be 1 or more, such as 10".into());
        }
        if most < initial || most > MOST_WINDOW {
            return Err(format!("max_window: found {most}; it must be from initial_window = {initial} to {MOST_WINDOW}"));
        }
        if least == 0 || least > most {
            return Err(format!("min_window: found {least}; it must be from 1 to max_window = {most}"));
        }
        for (key, found) in [("dup_ack_threshold", self.dup_ack_threshold), ("ack_every", self.ack_every)] {
            if found == 0 {
                return Err(format!("{key}: found 0; it must be 1 or more"));
            }
        }
        Ok(())
    }

    fn check_timers(&self) -> Result<(), String> {
        if self.rto_min == Duration::ZERO {
            return Err("rto_min: found 0; it must exceed a round trip, such as \"2ms\"".into());
        }
        for (key, found) in [("rto_initial", self.rto_initial), ("rto_max", self.rto_max), ("time_wait", self.time_wait)] {
            if found < self.rto_min {
                return Err(format!("{key}: found {found}; it must be at least rto_min = {}", self.rto_min));
            }
        }
        if self.ack_every > 1 && (self.ack_delay == Duration::ZERO || self.ack_delay >= self.rto_min) {
            let (found, rto) = (self.ack_delay, self.rto_min);
            return Err(format!("ack_delay: found {found}; it must be above 0 and below rto_min = {rto}"));
        }
        Ok(())
    }

    fn check_controllers(&self) -> Result<(), String> {
        let (least, most) = (self.urgency_min, self.urgency_max);
        if most < least {
            return Err(format!("urgency_max: found {most}; it must be at least urgency_min = {least}"));
        }
        let (least, most) = (self.weight_min, self.weight_max);
        if most < least || most == 0.0 {
            return Err(format!("weight_max: found {most}; it must be above 0 and at least weight_min = {least}"));
        }
        if self.old <= self.young {
            return Err(format!("old: found {}; it must be above young = {}", self.old, self.young));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        let text = default_text::<Config>();
        assert!(text.contains("rto_min = \"2ms\""), "{text}");
        assert!(toml::from_str::<Config>("windw = 3").is_err());
    }

    #[test]
    fn what_could_not_run_is_refused_by_name() {
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("initial_window = 0", "initial_window"),
            ("initial_window = 240", "max_window"),
            ("max_window = 65537", "max_window"),
            ("min_window = 0", "min_window"),
            ("ack_every = 0", "ack_every"),
            ("dup_ack_threshold = 0", "dup_ack_threshold"),
            ("rto_min = \"0us\"", "rto_min"),
            ("rto_min = \"3ms\"", "rto_initial"),
            ("rto_max = \"1ms\"", "rto_max"),
            ("time_wait = \"1ms\"", "time_wait"),
            ("ack_every = 2\nack_delay = \"2ms\"", "ack_delay"),
            ("urgency_max = 0.1", "urgency_max"),
            ("weight_max = 0.1", "weight_max"),
            ("young = \"2MB\"", "old"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
