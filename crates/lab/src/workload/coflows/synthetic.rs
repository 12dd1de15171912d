//! `kind = "coflow_synthetic"`: coflows that are drawn at random.

use flowloom_core::Time;
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classes::{Extent, MEGABYTE, draw};
use super::{Expansion, Shuffle, one};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::workload::arrivals::{PS_PER_S, check_length, next_start};
use crate::workload::load::{LoadLink, total_bytes_per_second};
use crate::workload::matrix::{Matrix, MatrixKind};
use crate::workload::{Context, FLOWS_MAX, Kind, Workload};

/// Coflows that are drawn at random and resemble those of the Facebook trace.
///
/// They arrive as a Poisson process. Each is short or long, by its longest flow, and narrow or wide, by its number of flows, as often as in the
/// trace; the numbers of its mappers and reducers and the size of its flows, which is the same for all, are drawn from the trace's
/// distributions in this class. Mappers and reducers are random hosts. docs/coflows.md says what is kept of the trace and what is not.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoflowSynthetic {
    /// How many coflows there are.
    #[schemars(range(min = 1, max = 1_000_000), example = 100)]
    pub coflows: u32,
    /// The utilisation of the busiest link among those that `load_link` names, in expectation over arrivals and hosts, given the bytes of
    /// the coflows that were drawn. Payload and headers of every data packet sent once count.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.6)]
    pub load: f64,
    /// Which links `load` is about.
    #[serde(default)]
    pub load_link: LoadLink,
    /// All sizes are divided by this number. A flow has one byte at least.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub size_divisor: f64,
}

impl Kind for CoflowSynthetic {
    /// Draws all coflows, and then their arrivals, whose rate follows from the wire bytes of these coflows.
    ///
    /// The rate could also follow from the expected bytes of a coflow. But with such a heavy tail, a few hundred coflows have a fraction of the expected
    /// bytes in most runs and a multiple in some, so the load of a run would be far from what the scenario says.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let stream = |purpose| Stream::new(context.seed, purpose, NETWORK);
        let (mut sizes, mut arrivals) = (stream(Purpose::Sizes), stream(Purpose::Arrivals));
        let mut places = Places { hosts: (0..context.network.hosts() as u32).collect(), stream: stream(Purpose::Destinations) };
        let extents: Vec<Extent> = (0..self.coflows).map(|_| draw(&mut sizes)).collect();
        let count: u64 = extents.iter().map(|extent| u64::from(extent.mappers) * u64::from(extent.reducers)).sum();
        let too_many = |count| {
            let message = format!("found {}, which makes {count} flows; the limit is {FLOWS_MAX}", self.coflows);
            ScenarioError::at_key("workload.coflows", message)
        };
        if count > u64::from(FLOWS_MAX) {
            return Err(too_many(count));
        }
        let mut expansion = Expansion::new(self.size_divisor);
        for (number, extent) in (0..).zip(&extents) {
            expansion.add(number, Time::ZERO, &places.shuffle(extent)).map_err(|_| too_many(count))?;
        }
        // Hosts are drawn uniformly, so every ordered pair is as likely as any other.
        let matrix = Matrix::new(MatrixKind::RandomPairs, context.network, context.seed);
        let bytes_per_s = total_bytes_per_second(self.load, self.load_link, context.network, context.nics, &[(&matrix, 1.0)])?;
        let seconds = expansion.wire_bytes(context) / bytes_per_s;
        check_length("workload.coflows", seconds)?;
        let mean_gap_ps = seconds * PS_PER_S / f64::from(self.coflows);
        let mut last = Time::ZERO;
        let starts = (0..self.coflows).map(|_| {
            last = next_start(last, &mut arrivals, mean_gap_ps);
            last
        });
        let starts: Vec<Time> = starts.collect();
        for flow in &mut expansion.flows.0 {
            flow.start = starts[flow.coflow.expect("a flow of a coflow").number as usize];
        }
        Ok(expansion.into_workload(self.coflows, None, context))
    }
}

/// Chooses hosts.
struct Places {
    hosts: Vec<u32>,
    stream: Stream,
}

impl Places {
    /// The ends of a coflow's flows: hosts in a random order, the mappers first and the reducers after them. If there are not enough hosts, it begins
    /// again with the first one.
    fn shuffle(&mut self, extent: &Extent) -> Shuffle {
        let count = self.hosts.len();
        let (mappers, reducers) = (extent.mappers as usize, extent.reducers as usize);
        for index in 0..(mappers + reducers).min(count) {
            let chosen = index + self.stream.below(count - index);
            self.hosts.swap(index, chosen);
        }
        let bytes = extent.megabytes * MEGABYTE * f64::from(extent.mappers);
        let place = |index: usize| self.hosts[index % count];
        Shuffle {
            mappers: (0..mappers).map(place).collect(),
            reducers: (mappers..mappers + reducers).map(|index| (place(index), bytes)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five hosts have room for a coflow of two mappers and three reducers, and one of 4 x 4 begins again with the first host.
    #[test]
    fn hosts_are_used_again_only_if_there_are_not_enough() {
        let mut places = Places { hosts: (0..5).collect(), stream: Stream::new(3, Purpose::Destinations, NETWORK) };
        let mut used = |mappers, reducers| {
            let shuffle = places.shuffle(&Extent { class: 0, mappers, reducers, megabytes: 2.0 });
            assert!(shuffle.reducers.iter().all(|(_, bytes)| *bytes == 2e6 * f64::from(mappers)));
            let all: Vec<u32> = shuffle.mappers.into_iter().chain(shuffle.reducers.into_iter().map(|(host, _)| host)).collect();
            all
        };
        for _ in 0..50 {
            let mut all = used(2, 3);
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
            let all = used(4, 4);
            assert_eq!(all[..3], all[5..]);
        }
    }
}
