//! Parameters of a port that marks.

use flowloom_core::{Bytes, Division, MarkProfile, Memory, PortProfile};
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
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
    /// When packets are marked: at `enqueue`, by the queue that a packet joins, or at `dequeue`, by the queue that it leaves behind.
    /// The packet itself counts in both cases.
    pub mark_at: MarkAt,
    /// How classes divide a memory that belongs to the port alone: `shared` is one limit for all, without push-out; `per_class` gives
    /// each class as much memory as the port is given. It has no effect if ports share their switch's memory.
    pub split: Split,
}

impl Default for EcnConfig {
    fn default() -> EcnConfig {
        EcnConfig { ecn: Marking::Port, mark_above: None, mark_at: MarkAt::Enqueue, split: Split::Shared }
    }
}

impl EcnConfig {
    /// The threshold of the PIAS paper's simulations (§V-C).
    pub const SIMULATED: Bytes = Bytes::new(65 * 1500);

    /// The queue above which packets are marked. Where nothing says it, it is that of the PIAS paper.
    pub fn threshold(&self) -> Bytes {
        self.mark_above.unwrap_or(EcnConfig::SIMULATED)
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
        memory: Memory,
    ) -> PortProfile {
        let mut port = PortProfile::of_queues(holds, memory.bytes());
        port.marks = (self.ecn != Marking::Off).then_some(MarkProfile {
            above: self.threshold(),
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::default_text;

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        assert_eq!(default_text::<EcnConfig>(), "ecn = \"port\"\nmark_at = \"enqueue\"\nsplit = \"shared\"\n");
        let testbed: EcnConfig =
            toml::from_str("ecn = \"queue\"\nmark_above = \"20kB\"\nmark_at = \"dequeue\"\nsplit = \"per_class\"").unwrap();
        let expected = EcnConfig {
            ecn: Marking::Queue,
            mark_above: Some(Bytes::new(20_000)),
            mark_at: MarkAt::Dequeue,
            split: Split::PerClass,
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
}
