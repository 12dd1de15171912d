//! Parameters of a port that marks.

use flowloom_core::{Bytes, Division, MarkProfile, Memory, PortProfile, PortSite, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Checked, Conditions, quantity};

/// Which bytes are compared with the marking threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Marking {
    /// The bytes of all classes of the port (PIAS paper, §IV-A2).
    Port,
    /// The bytes of the packet's own class.
    Queue,
    /// Nothing is marked.
    Off,
}

/// When a packet is marked. The threshold is compared with the instantaneous queue, which includes the packet itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkAt {
    /// On arrival, by the queue that it joins.
    Enqueue,
    /// On departure, by the queue that it leaves behind. The mark is then more recent by the time that the packet waited.
    Dequeue,
}

/// How a port's classes divide a memory that belongs to the port alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// One limit for all classes. A packet that does not fit is dropped, whatever its class, and nothing is pushed out.
    Shared,
    /// Each class has as much memory as the port is given.
    PerClass,
}

/// Parameters of [`EcnPriority`](super::EcnPriority). The defaults are those of the PIAS paper's simulations, §V-C.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EcnConfig {
    /// Which bytes are compared with `mark_above`: those of the whole `port`, those of the packet's own `queue` (class), or none
    /// (`off`).
    pub ecn: Marking,
    /// An ECN-capable packet is marked if more than this is queued, the packet included (PIAS paper, §V-C: 65 packets; §V-A, at 1 Gb/s:
    /// 20 kB). Without it: DCTCP's values, 20 packets of 1500 B where hosts send at 1 Gb/s or less, 65 at 10 Gb/s or more and a line in between, or DCTCP's
    /// lower bound, a seventh of the bandwidth-delay product (RFC 8257), if that is more.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_above: Option<Bytes>,
    /// If more than this is queued, each packet is marked. Between `mark_above` and this, packets are marked at random, and their share grows from 0 to `mark_share` (RED on the
    /// instantaneous queue: DCQCN's K_max, with `mark_above` as its K_min). Without it, each packet is marked above `mark_above`.
    #[serde(with = "quantity::bytes::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "1B", "x-max" = "4GB"))]
    pub mark_all_above: Option<Bytes>,
    /// The share of packets that are marked when `mark_all_above` is queued (DCQCN's P_max). Where more is queued, all are.
    #[schemars(range(min = 0, max = 1))]
    pub mark_share: f64,
    /// The rate of the links that `mark_above` and `mark_all_above` are for. Ports of other links have them in proportion to their rates, and at least one full packet. Without it, all ports have
    /// the same.
    #[serde(with = "quantity::rate::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::rate::schema", extend("x-min" = "1kb/s", "x-max" = "10Tb/s"))]
    pub marks_for: Option<Rate>,
    /// When packets are marked: at `enqueue`, by the queue that a packet joins, or at `dequeue`, by the queue that it leaves behind.
    /// The packet itself counts in both cases.
    pub mark_at: MarkAt,
    /// How classes divide a memory that belongs to the port alone: `shared` is one limit for all, without push-out; `per_class` gives
    /// each class as much memory as the port is given. It has no effect if ports share their switch's memory.
    pub split: Split,
}

impl Default for EcnConfig {
    fn default() -> EcnConfig {
        EcnConfig {
            ecn: Marking::Port,
            mark_above: None,
            mark_all_above: None,
            mark_share: 1.0,
            marks_for: None,
            mark_at: MarkAt::Enqueue,
            split: Split::Shared,
        }
    }
}

impl EcnConfig {
    /// The threshold of the PIAS paper's simulations (§V-C).
    pub const SIMULATED: Bytes = Bytes::new(65 * 1500);

    /// The queue above which packets are marked. Where nothing says it, it is that of the PIAS paper.
    pub fn threshold(&self) -> Bytes {
        self.mark_above.unwrap_or(EcnConfig::SIMULATED)
    }

    /// A port without marks, whose queues share its memory.
    pub const UNMARKED: EcnConfig = EcnConfig {
        ecn: Marking::Off,
        mark_above: Some(EcnConfig::SIMULATED),
        mark_all_above: None,
        mark_share: 1.0,
        marks_for: None,
        mark_at: MarkAt::Enqueue,
        split: Split::Shared,
    };

    /// The queues of a port of a link with this rate above which packets are marked: some of them, and all of them.
    pub fn thresholds(&self, rate: Rate, full: Bytes) -> [Bytes; 2] {
        let scaled = |bytes: Bytes| match self.marks_for {
            Some(of) => Bytes::new((bytes.get() as f64 * (rate.as_bps() as f64 / of.as_bps() as f64)).round() as u64).max(full),
            None => bytes,
        };
        let above = scaled(self.threshold());
        [above, self.mark_all_above.map_or(above, scaled)]
    }

    /// The configuration to run with in a scenario like this.
    #[must_use]
    pub(crate) fn fitted(self, conditions: &Conditions<'_>) -> EcnConfig {
        EcnConfig { mark_above: Some(self.mark_above.unwrap_or_else(|| conditions.marking_threshold())), ..self }
    }

    /// Describes an [`EcnPriority`](super::EcnPriority) port of queues that hold this. `table` is the dotted table, among a transport's parameters, of this
    /// configuration; empty if its keys are not in a table.
    pub fn profile(
        &self,
        holds: impl IntoIterator<Item = impl Into<String>>,
        table: &'static str,
        site: &PortSite<'_>,
    ) -> PortProfile {
        let memory = site.memory;
        let mut port = PortProfile::of_queues(holds, memory.bytes());
        let [above, all_above] = self.thresholds(site.rate(), site.wire.full);
        port.marks = (self.ecn != Marking::Off).then_some(MarkProfile {
            above,
            all_above,
            share: self.mark_share,
            by_queue: self.ecn == Marking::Queue,
            at_dequeue: self.mark_at == MarkAt::Dequeue,
            table,
        });
        let (division, key) = match (memory, self.split) {
            (Memory::PerSwitch { alpha, .. }, _) => (Division::Dynamic(alpha), None),
            (Memory::PerPort(_), Split::Shared) => (Division::Whole, Some("split")),
            (Memory::PerPort(_), Split::PerClass) => (Division::PerQueue, Some("split")),
        };
        if let Some(memory) = &mut port.memory {
            memory.division = division;
            memory.division_key = key.map(|key| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") });
        }
        port
    }
}

impl Checked for EcnConfig {
    fn check(&self) -> Result<(), String> {
        if self.mark_above == Some(Bytes::ZERO) {
            let right = "such as \"97.5kB\"; ecn = \"off\" marks none";
            return Err(format!("mark_above: found 0, and every packet would be marked; it must be above 0, {right}"));
        }
        if !(0.0..=1.0).contains(&self.mark_share) {
            return Err(format!("mark_share: found {}; it must be from 0 to 1", self.mark_share));
        }
        if self.marks_for == Some(Rate::from_bps(0)) {
            return Err("marks_for: found 0; it must be a rate such as \"40Gb/s\"".to_owned());
        }
        match (self.mark_above, self.mark_all_above) {
            (None, Some(all)) => Err(format!("mark_all_above: found {all} without mark_above; say both")),
            (Some(above), Some(all)) if all < above => {
                Err(format!("mark_all_above: found {all}; it must not be less than mark_above = {above}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::default_text;

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        assert_eq!(
            default_text::<EcnConfig>(),
            "ecn = \"port\"\nmark_share = 1.0\nmark_at = \"enqueue\"\nsplit = \"shared\"\n"
        );
        let testbed: EcnConfig =
            toml::from_str("ecn = \"queue\"\nmark_above = \"20kB\"\nmark_at = \"dequeue\"\nsplit = \"per_class\"").unwrap();
        let expected = EcnConfig {
            ecn: Marking::Queue,
            mark_above: Some(Bytes::new(20_000)),
            mark_at: MarkAt::Dequeue,
            split: Split::PerClass,
            ..EcnConfig::default()
        };
        assert_eq!(testbed, expected);
        assert!(toml::from_str::<EcnConfig>("mark = \"20kB\"").is_err());
        assert!(toml::from_str::<EcnConfig>("ecn = \"on\"").is_err());
    }

    #[test]
    fn a_threshold_of_nothing_is_refused_by_name() {
        assert_eq!(EcnConfig::default().check(), Ok(()));
        let none: EcnConfig = toml::from_str("mark_above = \"0B\"").unwrap();
        assert!(none.check().unwrap_err().starts_with("mark_above: found 0"));
    }

    #[test]
    fn thresholds_that_contradict_each_other_are_refused_by_name() {
        let refused = |text: &str| toml::from_str::<EcnConfig>(text).unwrap().check().err().unwrap_or_default();
        assert_eq!(refused("mark_above = \"5kB\"\nmark_all_above = \"5kB\"\nmark_share = 0.01\nmarks_for = \"40Gb/s\""), "");
        assert_eq!(
            refused("mark_above = \"5kB\"\nmark_all_above = \"4kB\""),
            "mark_all_above: found 4kB; it must not be less than mark_above = 5kB"
        );
        assert_eq!(refused("mark_all_above = \"4kB\""), "mark_all_above: found 4kB without mark_above; say both");
        assert_eq!(refused("mark_share = 1.5"), "mark_share: found 1.5; it must be from 0 to 1");
        assert!(refused("marks_for = \"0b/s\"").starts_with("marks_for: found 0"));
    }

    /// 5 kB and 200 kB at 40 Gb/s are 12.5 kB and 500 kB at 100 Gb/s. At 10 Gb/s, 1.25 kB would be less than a packet.
    #[test]
    fn thresholds_follow_the_rate_of_the_link() {
        let [low, high] = [5_000, 200_000].map(Bytes::new);
        let config = EcnConfig {
            mark_above: Some(low),
            mark_all_above: Some(high),
            marks_for: Some(Rate::from_gbps(40)),
            ..EcnConfig::default()
        };
        let at = |config: EcnConfig, gbps| config.thresholds(Rate::from_gbps(gbps), Bytes::new(1500)).map(Bytes::get);
        assert_eq!(at(config, 40), [5_000, 200_000]);
        assert_eq!(at(config, 100), [12_500, 500_000]);
        assert_eq!(at(config, 10), [1_500, 50_000]);
        assert_eq!(at(EcnConfig { marks_for: None, ..config }, 10), [5_000, 200_000]);
        assert_eq!(at(EcnConfig { mark_all_above: None, ..config }, 100), [12_500, 12_500]);
    }
}
