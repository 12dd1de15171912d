//! Four classes of coflows, each with its frequency and the sizes of its coflows.

use crate::random::Stream;

/// Bytes of a megabyte.
pub(super) const MEGABYTE: f64 = 1e6;
/// A coflow is long if its longest flow has at least this many bytes (Varys, SIGCOMM 2014, §7).
pub(crate) const LONG_BYTES: f64 = 5.0 * MEGABYTE;
/// A coflow is wide if it has more flows than this (the same).
pub(crate) const NARROW_FLOWS: u32 = 50;

/// The quantiles that the tables of a class give.
const SHARES: [f64; 10] = [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// Statistics of one class of the 526 coflows in the Facebook trace of the public coflow benchmark. Quantiles are by nearest rank, at [`SHARES`].
pub(super) struct Class {
    /// Whether its coflows have more than [`NARROW_FLOWS`].
    pub wide: bool,
    /// How many of the 526 coflows are in the class.
    pub count: f64,
    /// The number of mappers.
    pub mappers: [f64; 10],
    /// The number of reducers.
    pub reducers: [f64; 10],
    /// The mean size of a coflow's flows, in megabytes. In long classes it is that of the shortest long flow at least, since all flows of a
    /// synthetic coflow have the same size.
    pub megabytes: [f64; 10],
    /// Spearman's rank correlation of the mean size of flows with the number of mappers and with that of reducers.
    pub correlations: [f64; 2],
}

/// Short and narrow, long and narrow, short and wide, long and wide.
pub(super) const CLASSES: [Class; 4] = [
    Class {
        wide: false,
        count: 309.0,
        mappers: [1.0, 1.0, 1.0, 1.0, 3.0, 7.0, 25.0, 27.0, 29.0, 30.0],
        reducers: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 33.0, 43.0, 48.0],
        megabytes: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.23, 2.0, 2.0, 3.0],
        correlations: [-0.26, 0.58],
    },
    Class {
        wide: false,
        count: 90.0,
        mappers: [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 7.0, 16.0, 16.0],
        reducers: [1.0, 1.0, 1.0, 1.0, 1.0, 7.0, 35.0, 43.0, 50.0, 50.0],
        megabytes: [5.0, 5.0, 5.0, 7.74, 24.0, 58.0, 118.0, 279.0, 638.0, 638.0],
        correlations: [0.48, -0.45],
    },
    Class {
        wide: true,
        count: 59.0,
        mappers: [1.0, 1.0, 1.0, 23.0, 63.0, 122.0, 146.0, 147.0, 147.0, 147.0],
        reducers: [1.0, 1.0, 5.0, 19.0, 55.0, 70.0, 93.0, 134.0, 136.0, 136.0],
        megabytes: [1.0, 1.0, 1.0, 1.0, 1.02, 1.25, 2.05, 4.0, 4.0, 4.0],
        correlations: [-0.51, -0.13],
    },
    Class {
        wide: true,
        count: 68.0,
        mappers: [1.0, 3.0, 4.0, 13.0, 30.0, 137.0, 147.0, 147.0, 147.0, 147.0],
        reducers: [4.0, 8.0, 9.0, 15.0, 113.0, 122.0, 141.0, 143.0, 145.0, 145.0],
        megabytes: [5.0, 5.0, 5.0, 11.1, 23.1, 46.4, 75.1, 95.6, 501.0, 501.0],
        correlations: [0.44, 0.51],
    },
];

/// How large a synthetic coflow is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Extent {
    /// The place of its class in [`CLASSES`].
    pub class: usize,
    pub mappers: u32,
    pub reducers: u32,
    /// The size of each flow.
    pub megabytes: f64,
}

/// Draws the extent of a coflow.
///
/// The size of its flows has a random rank. With the probability of its rank correlation, a number has this rank too, or the opposite one if the
/// correlation is negative; otherwise its rank is drawn by itself. So each number has its own distribution, and its correlation with the size. If
/// the product of the numbers belongs to another class, which is so for 6 % of the coflows, the number of reducers becomes the nearest one
/// that does not. Drawing such pairs again would move the medians of all numbers: to 44 from 30 mappers in the long and wide class.
pub(super) fn draw(stream: &mut Stream) -> Extent {
    let mut sum = 0.0;
    let running = CLASSES.map(|class| {
        sum += class.count;
        sum
    });
    let index = stream.weighted(&running);
    let class = &CLASSES[index];
    let rank = stream.unit();
    let [mappers, reducers] = [(&class.mappers, class.correlations[0]), (&class.reducers, class.correlations[1])]
        .map(|(table, correlation)| quantile(table, related(rank, correlation, stream)).round() as u32);
    let reducers = if class.wide { reducers.max(NARROW_FLOWS / mappers + 1) } else { reducers.min(NARROW_FLOWS / mappers) };
    Extent { class: index, mappers, reducers, megabytes: quantile(&class.megabytes, rank) }
}

/// A rank whose correlation with `rank` is this.
fn related(rank: f64, correlation: f64, stream: &mut Stream) -> f64 {
    if stream.unit() > correlation.abs() {
        return stream.unit();
    }
    if correlation < 0.0 { 1.0 - rank } else { rank }
}

/// The value at a rank from 0 to 1, on straight lines between the quantiles of a table.
fn quantile(table: &[f64; 10], rank: f64) -> f64 {
    let above = SHARES.partition_point(|share| *share < rank).clamp(1, SHARES.len() - 1);
    let below = above - 1;
    let part = (rank - SHARES[below]) / (SHARES[above] - SHARES[below]);
    table[below] + part * (table[above] - table[below])
}
