//! Thresholds that fit a workload.

use flowloom_core::{Bytes, Network, WireProfile};

use super::config::MOST_THRESHOLDS;
use super::optimum::{self, Objective, Reading, slowdown};
use super::sizes::{Sizes, edge};
use crate::{Conditions, SizeShare};

/// The load that thresholds are fitted for. A scenario may have none, and the best thresholds depend little on it: the README has numbers.
const LOAD: f64 = 0.8;
/// Thresholds do not suit a workload if they make flows this many times as slow as the best ones do, in the model.
const MISFIT: f64 = 5.0;

/// What the fastest host can send in half of an idle round trip: [`Objective::idle`].
pub(super) fn idle_bytes(network: &Network, wire: &WireProfile) -> f64 {
    let products = network.rates_and_rtts(wire).map(|([_, fastest], rtt)| fastest.bytes_in(rtt).get());
    products.max().unwrap_or_default() as f64 / 2.0
}

/// The thresholds that minimise the mean slowdown of flows of these sizes, in the model of bursts. There are none without flows.
pub(super) fn thresholds(conditions: &Conditions<'_>, sizes: &[SizeShare]) -> Vec<Bytes> {
    best(&Sizes::of(sizes), MOST_THRESHOLDS, idle_bytes(conditions.network, &conditions.wire)).map(as_bytes).collect()
}

/// What is wrong with thresholds that are far from the best ones of their number.
pub(super) fn misfit(given: &[Bytes], conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<String> {
    if given.is_empty() {
        return None;
    }
    let (sizes, idle) = (Sizes::of(&sizes()), idle_bytes(conditions.network, &conditions.wire));
    let found = slowdown(&sizes, given.iter().map(|threshold| sizes.bin(threshold.get()) as u8), LOAD, idle);
    let least = slowdown(&sizes, best(&sizes, given.len(), idle), LOAD, idle);
    let times = found / least;
    (times > MISFIT).then(|| {
        format!(
            "thresholds: they do not fit the sizes of this workload's flows: in a queueing model, its mean slowdown is {times:.0} times that \
             of the best {} threshold(s); give \"fitted\", or see `flowloom thresholds`",
            given.len()
        )
    })
}

fn best(sizes: &Sizes, most: usize, idle: f64) -> impl Iterator<Item = u8> + use<> {
    optimum::thresholds(sizes, most + 1, Objective { reading: Reading::Bursts, load: LOAD, idle }).into_iter()
}

fn as_bytes(bin: u8) -> Bytes {
    Bytes::new(edge(usize::from(bin)))
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Duration, Rate, Switching, topology};

    use super::*;

    const WIRE: WireProfile = WireProfile::IP_1500;

    fn network() -> Network {
        topology::single_switch(2, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward)
    }

    fn under(network: &Network) -> Conditions<'_> {
        Conditions::new(network, WIRE, Bytes::new(1_000_000))
    }

    fn share(low: u64, high: u64, share: f64) -> SizeShare {
        SizeShare { low: Bytes::new(low), high: Bytes::new(high), share }
    }

    /// A round trip takes 6.464 us: twice 1.2 us for a full packet, 32 ns for an acknowledgement and 2 us for the links. At 10 Gb/s, 8080 B
    /// are sent in this time.
    #[test]
    fn the_idle_delay_is_half_a_round_trip() {
        assert_eq!(idle_bytes(&network(), &WIRE), 4040.0);
    }

    /// Two sizes are divided at the smallest edge that the smaller does not exceed. A single size is not divided, since a flow that is
    /// demoted only waits for others to catch up.
    #[test]
    fn thresholds_follow_the_sizes() {
        let network = network();
        let fitted = |sizes: &[SizeShare]| thresholds(&under(&network), sizes);
        assert_eq!(fitted(&[share(4380, 4380, 0.9), share(1_022_000, 1_022_000, 0.1)]), [Bytes::new(4635)]);
        assert_eq!(fitted(&[share(100_000, 100_000, 1.0)]), []);
        assert_eq!(fitted(&[]), []);
        let many = fitted(&[share(1000, 10_000, 0.6), share(10_000, 100_000, 0.3), share(100_000, 30_000_000, 0.1)]);
        assert!(many.len() == MOST_THRESHOLDS && many.is_sorted_by(|a, b| a < b), "{many:?}");
        // The smallest sizes end at 10 kB, which lies in the bin that ends at 10406 B.
        assert!(many[0] <= Bytes::new(10_406) && many[6] > Bytes::new(1_000_000), "{many:?}");
    }

    /// Without a threshold below 1 MB, nine short flows of ten wait for the long ones; with one below their own size, too. No threshold is no
    /// attempt at one.
    #[test]
    fn thresholds_that_divide_nothing_do_not_suit() {
        let network = network();
        let sizes = || vec![share(4380, 4380, 0.9), share(1_022_000, 1_022_000, 0.1)];
        let found = |given: &[u64]| misfit(&given.iter().map(|b| Bytes::new(*b)).collect::<Vec<_>>(), &under(&network), &sizes);
        for fits in [&[][..], &[4380], &[100_000], &[4380, 2_000_000]] {
            assert_eq!(found(fits), None);
        }
        for divides_nothing in [&[2_000_000, 3_000_000][..], &[1]] {
            assert!(found(divides_nothing).is_some_and(|text| text.starts_with("thresholds: they do not fit")));
        }
        assert_eq!(misfit(&[Bytes::new(1)], &under(&network), &Vec::new), None);
    }
}
