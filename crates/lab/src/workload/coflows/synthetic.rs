//! Coflows that are drawn at random.

use flowloom_core::Time;
use flowloom_fabric::seed::Purpose;

use super::classes::{Extent, MEGABYTE, draw};
use super::{Expansion, Shuffle};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::spec::{CoflowSynthetic, FLOWS_MAX, MatrixKind};
use crate::workload::arrivals::{PS_PER_S, check_length, next_start};
use crate::workload::load::total_bytes_per_second;
use crate::workload::matrix::Matrix;
use crate::workload::{Context, Workload};

/// Draws all coflows, and then their arrivals, whose rate follows from the wire bytes of these coflows.
///
/// The rate could also follow from the expected bytes of a coflow. But with such a heavy tail, a few hundred coflows have a fraction of the expected
/// bytes in most runs and a multiple in some, so the load of a run would be far from what the scenario says.
pub(in crate::workload) fn synthetic(spec: &CoflowSynthetic, context: &Context<'_>) -> Result<Workload, ScenarioError> {
    let stream = |purpose| Stream::new(context.seed, purpose, NETWORK);
    let (mut sizes, mut arrivals) = (stream(Purpose::Sizes), stream(Purpose::Arrivals));
    let mut places = Places { hosts: (0..context.network.hosts() as u32).collect(), stream: stream(Purpose::Destinations) };
    let extents: Vec<Extent> = (0..spec.coflows).map(|_| draw(&mut sizes)).collect();
    let count: u64 = extents.iter().map(|extent| u64::from(extent.mappers) * u64::from(extent.reducers)).sum();
    let too_many = |count| {
        let message = format!("found {}, which makes {count} flows; the limit is {FLOWS_MAX}", spec.coflows);
        ScenarioError::at_key("workload.coflows", message)
    };
    if count > u64::from(FLOWS_MAX) {
        return Err(too_many(count));
    }
    let mut expansion = Expansion::new(spec.size_divisor);
    for (number, extent) in (0..).zip(&extents) {
        expansion.add(number, Time::ZERO, &places.shuffle(extent)).map_err(|_| too_many(count))?;
    }
    // Hosts are drawn uniformly, so every ordered pair is as likely as any other.
    let matrix = Matrix::new(MatrixKind::RandomPairs, context.network, context.seed);
    let bytes_per_s = total_bytes_per_second(spec.load, spec.load_link, context.network, &[(&matrix, 1.0)])?;
    let seconds = expansion.wire_bytes(context) / bytes_per_s;
    check_length("workload.coflows", seconds)?;
    let mean_gap_ps = seconds * PS_PER_S / f64::from(spec.coflows);
    let mut last = Time::ZERO;
    let starts = (0..spec.coflows).map(|_| {
        last = next_start(last, &mut arrivals, mean_gap_ps);
        last
    });
    let starts: Vec<Time> = starts.collect();
    for flow in &mut expansion.flows.0 {
        flow.start = starts[flow.coflow.expect("a flow of a coflow").number as usize];
    }
    Ok(expansion.into_workload(spec.coflows, None, context))
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
