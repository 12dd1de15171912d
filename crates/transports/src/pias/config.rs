//! Parameters of PIAS.

use flowloom_core::{Bytes, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::fit;
use super::optimum::Reading;
use crate::tcp::controllers::Kind;
use crate::{Checked, Conditions, PortMemory, SizeShare, quantity, tcp};

/// The shortest period. Each period costs a packet from every host and a search for thresholds.
const PERIOD_MIN: Duration = Duration::from_us(10);
/// The largest number of thresholds: one less than a port's classes.
pub const MOST_THRESHOLDS: usize = 7;

/// Where a flow is demoted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Thresholds {
    /// A rule computes them.
    Rule(Rule),
    /// They are given.
    List(
        #[serde(with = "quantity::bytes::list")]
        #[schemars(schema_with = "thresholds_schema", length(max = 7))]
        Vec<Bytes>,
    ),
}

/// Rules for thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// They follow from the sizes of the workload's flows.
    Fitted,
}

impl Thresholds {
    /// The list; it is empty if the thresholds have not been computed.
    pub fn list(&self) -> &[Bytes] {
        match self {
            Thresholds::Rule(Rule::Fitted) => &[],
            Thresholds::List(list) => list,
        }
    }
}

impl From<Vec<Bytes>> for Thresholds {
    fn from(list: Vec<Bytes>) -> Thresholds {
        Thresholds::List(list)
    }
}

/// Parameters of PIAS. The defaults are those of the paper's simulations, §V-C, but for the thresholds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Demotion thresholds, ascending, at most 7. A packet's class is the index of the first threshold that its offset in the flow does
    /// not exceed, or the last class beyond all thresholds. An empty list makes one class. `fitted` computes the thresholds that minimise
    /// the mean slowdown of the workload's flows in a queueing model; on real hosts, where the workload is not known, it makes one class.
    /// `flowloom thresholds` computes thresholds, compares them in simulations, and lists those of the paper.
    pub thresholds: Thresholds,
    /// The controller of the window: `newreno`, `dctcp` (the paper's), `d2tcp`, `l2dct` or `ecn_star`.
    pub controller: Kind,
    /// After this many consecutive timeouts a flow counts as new (§III-B3: 2; the authors' kernel module: 3; their simulator: never,
    /// 0).
    #[schemars(range(min = 0, max = 1_000_000))]
    pub aging: u32,
    /// Parameters of TCP below PIAS.
    pub tcp: tcp::Config,
    /// How thresholds follow the traffic.
    pub update: Update,
}

/// The loop of §III-B1: hosts report what they sent; a central controller on its own host computes new thresholds and distributes them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Update {
    /// The period of the loop; 0 means no updates.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "100000s"))]
    pub period: Duration,
    /// The time from the hosts' reports until the new thresholds are sent, for collecting and computing.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "0s", "x-max" = "100000s"))]
    pub delay: Duration,
    /// The weight of the latest period against all earlier ones; with 1, only the latest counts.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub smoothing: f64,
    /// What the new thresholds minimise: `exact`, `per_packet` or `bursts`. `bursts` does best in simulation, see `flowloom thresholds`.
    pub reading: Reading,
}

fn thresholds_schema(generator: &mut SchemaGenerator) -> Schema {
    quantity::sizes_schema(generator, "1TB")
}

impl Default for Config {
    fn default() -> Config {
        Config {
            thresholds: Thresholds::Rule(Rule::Fitted),
            controller: Kind::Dctcp,
            aging: 0,
            tcp: tcp::Config::default(),
            update: Update::default(),
        }
    }
}

impl Default for Update {
    fn default() -> Update {
        Update { period: Duration::ZERO, delay: Duration::from_ms(1), smoothing: 0.5, reading: Reading::Exact }
    }
}

impl Config {
    /// The number of classes that the thresholds make.
    pub fn classes(&self) -> u8 {
        if self.update.period == Duration::ZERO { self.thresholds.list().len() as u8 + 1 } else { MOST_THRESHOLDS as u8 + 1 }
    }
    /// What each class holds.
    pub(super) fn queues(&self) -> Vec<String> {
        let thresholds = self.thresholds.list();
        let name = |class: usize| match (class.checked_sub(1).and_then(|before| thresholds.get(before)), thresholds.get(class))
        {
            (None, Some(end)) if class == 0 => format!("the first {end} of each flow"),
            (Some(begin), Some(end)) => format!("what flows send beyond {begin}, up to {end}"),
            (Some(begin), None) => format!("what flows send beyond {begin}"),
            (None, _) if class == 0 => "all packets".to_owned(),
            (None, _) => format!("what flows send beyond threshold {class}"),
        };
        (0..usize::from(self.classes())).map(name).collect()
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        let thresholds = self.thresholds.list();
        let count = thresholds.len();
        if count > MOST_THRESHOLDS {
            return Err(format!(
                "thresholds: found {count}; ports have eight classes, so there may be up to {MOST_THRESHOLDS} thresholds"
            ));
        }
        if thresholds.contains(&Bytes::ZERO) || !thresholds.is_sorted() {
            let right = "such as [\"100kB\", \"1MB\"]";
            return Err(format!("thresholds: they must be above 0 and ascend, {right}"));
        }
        let Update { period, delay, .. } = self.update;
        if period != Duration::ZERO && period < PERIOD_MIN {
            return Err(format!("update.period: found {period}; it must be 0 or at least {PERIOD_MIN}"));
        }
        if period != Duration::ZERO && (delay == Duration::ZERO || delay >= period) {
            return Err(format!("update.delay: found {delay}; it must be above 0 and below update.period = {period}"));
        }
        self.tcp.check().map_err(|why| format!("tcp.{why}"))
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        self.tcp.longest_pause(conditions)
    }

    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        self.tcp.port_memory(conditions)
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        self.tcp.misfits(conditions).into_iter().map(|misfit| format!("tcp.{misfit}")).collect()
    }

    fn misfits_of_sizes(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Vec<String> {
        fit::misfit(self.thresholds.list(), conditions, sizes).into_iter().collect()
    }

    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Config> {
        let thresholds =
            (self.thresholds == Thresholds::Rule(Rule::Fitted)).then(|| fit::thresholds(conditions, &sizes()).into());
        let tcp = self.tcp.fitted(conditions, sizes);
        if thresholds.is_none() && tcp.is_none() {
            return None;
        }
        let mut fitted = self.clone();
        if let Some(thresholds) = thresholds {
            fitted.thresholds = thresholds;
        }
        if let Some(tcp) = tcp {
            fitted.tcp = tcp;
        }
        Some(fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_is_written_with_units_and_reads_back() {
        let text = default_text::<Config>();
        assert!(text.contains("thresholds = \"fitted\"") && text.contains("[update]"), "{text}");
        let given: Config = toml::from_str("thresholds = [\"100kB\", \"1MB\"]").unwrap();
        assert_eq!(given.thresholds.list(), [100_000, 1_000_000].map(Bytes::new));
        assert_eq!(toml::from_str::<Config>(&toml::to_string(&given).unwrap()), Ok(given));
        assert!(toml::from_str::<Config>("thresholds = \"fited\"").is_err());
        assert!(toml::from_str::<Config>("treshold = []").is_err());
    }

    #[test]
    fn what_could_not_run_is_refused_by_name() {
        assert_eq!(refused::<Config>("thresholds = []"), Ok(()));
        assert_eq!(refused::<Config>("thresholds = [\"20kB\", \"20kB\"]"), Ok(()));
        let eight = format!("thresholds = [{}]", ["\"1MB\""; 8].join(","));
        for (text, key) in [
            ("thresholds = [\"2MB\", \"1MB\"]", "thresholds"),
            ("thresholds = [\"0B\"]", "thresholds"),
            (&eight, "thresholds"),
            ("[update]\nperiod = \"1ms\"", "update.delay"),
            ("[tcp]\nrto_min = \"0s\"", "tcp.rto_min"),
            ("[tcp.nic]\nmark_above = \"0B\"", "tcp.nic.mark_above"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()));
        }
    }
}
