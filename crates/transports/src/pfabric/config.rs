//! Parameters of pFabric.

use flowloom_core::{Attribute, Bytes, Division, Duration, Need, PortProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BY_NUMBER;
use crate::{Checked, Conditions, check_deadline, quantity};

/// What the priority number of a data packet means. Smaller numbers are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// SRPT: the bytes of the flow that are not acknowledged, cumulatively or selectively, when the packet is sent (pFabric).
    Remaining,
    /// EDF: the flow's absolute deadline in microseconds. Flows without a deadline come last (pHost paper §4.3, figure 5c).
    Deadline,
    /// LAS: the offset of the packet in its flow, so that the flow that has sent least goes first (PIAS paper, §VI).
    BytesSent,
    /// Smallest coflow first: the payload of all flows of the flow's coflow, in packets. A flow without a coflow is one of its own.
    CoflowSize,
}

impl Priority {
    pub(super) fn need(self) -> Option<Need> {
        let (of, without) = match self {
            Priority::Remaining | Priority::BytesSent => return None,
            Priority::Deadline => (Attribute::Deadline, "all data has the same priority"),
            Priority::CoflowSize => (Attribute::Coflow, "each flow counts as a coflow of its size"),
        };
        Some(Need { key: Some("priority"), of, without })
    }
}

/// Parameters of pFabric. The defaults are those of the pHost paper, §4.1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Packets that a flow may send before the first acknowledgement, about the bandwidth-delay product (pHost paper §4.1: 12; PASE
    /// table 3: 38; PIAS: 70).
    #[schemars(range(min = 1, max = 65536))]
    pub initial_window: u32,
    /// The most packets a flow may have unacknowledged (15 in the simulator behind the pHost paper's figures).
    #[schemars(range(min = 1, max = 65536))]
    pub max_window: u32,
    /// Retransmission timeout, fixed: no estimator, no back-off. About three round trips, and more than a full buffer takes to
    /// drain (pHost paper §4.1: 45 µs; PASE table 3: 1 ms; PIAS: 250 µs).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "1000s"))]
    pub rto: Duration,
    /// After this many consecutive timeouts a flow sends only a header at each timeout until it is answered; 0 means never (5 in the
    /// PIAS authors' simulator; the pHost authors' has no probes).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub probe_after: u32,
    /// Whether a selective acknowledgement alone lets the flow send on while an earlier packet is missing. In the simulators of both
    /// papers only a cumulative advance does.
    pub sack_clocking: bool,
    /// What the priority number of a data packet means: `remaining`, `deadline`, `bytes_sent` or `coflow_size`.
    pub priority: Priority,
    /// Whether senders that choose paths (`fabric.routing = "spray_labelled"`) leave out a path that loses more than others, such as one over a slow link. A path is left out if it loses
    /// twice the share of packets that the flow's paths lose together, as with NDP. The paper's senders do not choose paths.
    pub avoid_paths: bool,
    /// The most bytes that a port holds, even if it has more memory. pFabric is designed for two bandwidth-delay products (PIAS §V-C:
    /// 210 kB).
    #[serde(with = "quantity::bytes::option", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "2GB"))]
    pub port_most: Option<Bytes>,
    /// How long a receiver remembers a finished flow after its last duplicate, so that it acknowledges late duplicates. It is many
    /// times `rto`, so that as many losses in a row do no harm, and longer than a duplicate can wait in a starved queue.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100000s"))]
    pub time_wait: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initial_window: 12,
            max_window: 15,
            rto: Duration::from_us(45),
            probe_after: 5,
            sack_clocking: false,
            priority: Priority::Remaining,
            avoid_paths: false,
            port_most: None,
            time_wait: Duration::from_ms(1_000_000),
        }
    }
}

impl Config {
    /// The most bytes that a port with this much memory holds.
    pub fn port_limit(&self, buffer: Bytes) -> Bytes {
        self.port_most.map_or(buffer, |most| most.min(buffer))
    }
    /// Describes a port with this much memory.
    pub fn port_profile(&self, buffer: Bytes) -> PortProfile {
        let mut port = PortProfile::of_queues(["all packets"], self.port_limit(buffer)).and(BY_NUMBER);
        if let Some(memory) = &mut port.memory {
            memory.bytes_key = (memory.bytes < buffer).then_some("port_most");
            memory.division = Division::PushOut;
        }
        port
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        if self.initial_window == 0 {
            return Err("initial_window: found 0, and no flow could start; it must be 1 or more, such as 12".into());
        }
        if self.max_window < self.initial_window {
            let (most, initial) = (self.max_window, self.initial_window);
            return Err(format!("max_window: found {most}; it must be at least initial_window = {initial}"));
        }
        if self.rto == Duration::ZERO {
            return Err("rto: found 0; it must exceed a round trip, such as \"45us\"".into());
        }
        if self.time_wait < self.rto {
            let (wait, rto) = (self.time_wait, self.rto);
            return Err(format!("time_wait: found {wait}; it must be at least rto = {rto}, such as \"100ms\""));
        }
        Ok(())
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let full = conditions.wire.full;
        if let Some(most) = self.port_most.filter(|most| *most < full) {
            return Err(format!("port_most: found {most}; a port holds at least one full packet, {full}"));
        }
        if self.priority == Priority::Deadline {
            check_deadline("priority", conditions.last_deadline)?;
        }
        Ok(())
    }

    fn longest_pause(&self, _: &Conditions<'_>) -> Duration {
        self.rto
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let misfits = [
            conditions.early_timeout("rto", self.rto),
            conditions.small_window("max_window", self.max_window),
            conditions.large_window("initial_window", self.initial_window, self.port_limit(conditions.buffer)),
            conditions.unchosen_paths("avoid_paths", self.avoid_paths),
        ];
        misfits.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Rate, Switching, WireProfile, topology};

    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        let text = default_text::<Config>();
        assert!(text.contains("rto = \"45us\""), "{text}");
        assert!(toml::from_str::<Config>("windw = 3").is_err());
    }

    /// To leave out paths has an effect only where senders choose them.
    #[test]
    fn a_choice_that_senders_do_not_have_is_a_misfit() {
        let network = topology::single_switch(2, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
        let plain = Conditions::new(&network, WireProfile::IP_1500, Bytes::new(36_000));
        let said = |avoid_paths, senders_choose_paths| {
            let config = Config { avoid_paths, ..Config::default() };
            config.misfits(&Conditions { senders_choose_paths, ..plain })
        };
        assert!(
            [(false, false), (false, true), (true, true)].into_iter().all(|(avoid, choose)| said(avoid, choose).is_empty())
        );
        let [sentence] = &said(true, false)[..] else { panic!("one key has no effect") };
        assert!(sentence.starts_with("avoid_paths: it has no effect"), "{sentence}");
    }

    #[test]
    fn what_could_not_run_is_refused_by_name() {
        assert_eq!(refused::<Config>(""), Ok(()));
        for (text, key) in [
            ("initial_window = 0", "initial_window"),
            ("initial_window = 16", "max_window"),
            ("rto = \"0us\"", "rto"),
            ("time_wait = \"10us\"", "time_wait"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
