//! The flow-size tables that come with the simulator.

use crate::cdf::Cdf;
use crate::cdf_file;

/// A flow-size table of `data/workloads`.
pub struct SizeTable {
    /// Its name in scenarios.
    pub name: &'static str,
    /// The text of its file.
    text: &'static str,
}

/// Lists the tables. The file of a table has the same name.
macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        /// Every table that comes with the simulator.
        pub static TABLES: &[SizeTable] = &[$(SizeTable {
            name: $name,
            text: include_str!(concat!("../../../data/workloads/", $name, ".csv")),
        }),*];
    };
}

tables![
    "web_search",
    "web_search_bytes",
    "web_search_xpass",
    "data_mining",
    "data_mining_bytes",
    "data_mining_xpass",
    "imc10",
    "cache_follower",
    "web_server",
    "fb_hadoop",
    "ali_storage",
    "google_rpc",
    "homa_w1",
    "homa_w2",
    "homa_w3",
    "homa_w4",
    "homa_w5",
];

/// The table of this name.
pub fn table(name: &str) -> Option<&'static SizeTable> {
    TABLES.iter().find(|table| table.name == name)
}

impl SizeTable {
    /// Its distribution.
    pub fn cdf(&self) -> Cdf {
        cdf_file::parse(self.text, None, self.name).unwrap_or_else(|error| panic!("{error}"))
    }
    /// What it is.
    pub fn about(&self) -> &'static str {
        self.comment("about")
    }
    /// Where its numbers come from.
    pub fn source(&self) -> &'static str {
        self.comment("source")
    }
    /// The text after `# key:` in the file.
    fn comment(&self, key: &str) -> &'static str {
        let value = |line: &'static str| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(": ");
        self.text.lines().find_map(value).unwrap_or_else(|| panic!("{}: no comment \"{key}\"", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use flowloom_core::WireProfile;
    use flowloom_fabric::seed::Purpose;

    #[test]
    fn every_table_says_what_it_is_and_its_mean() {
        for table in TABLES {
            assert!(!table.about().is_empty());
            assert!(!table.source().is_empty());
            assert_eq!(table.comment("dialect"), "bytes_probability");
            let declared: f64 = table.comment("mean_bytes").parse().unwrap();
            // The declared mean is that of the straight lines; a size of 0 counts as 1, which adds at most half a byte.
            let difference = table.cdf().mean_bytes() - declared;
            assert!((-0.051..0.5).contains(&difference), "{}: {difference}", table.name);
        }
    }

    #[test]
    fn every_file_is_listed_once() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/workloads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".csv").map(str::to_owned))
            .collect();
        let mut names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        files.sort_unstable();
        names.sort_unstable();
        assert_eq!(files, names);
    }

    /// The PIAS paper, §V-A: about 54 % of web-search and 82 % of data-mining flows are smaller than 100 kB.
    #[test]
    fn shares_that_the_pias_paper_states() {
        let share = |name| table(name).unwrap().cdf().share_up_to(100_000.0);
        assert!((share("web_search") - 0.544).abs() < 0.001);
        assert!((share("data_mining") - 0.824).abs() < 0.001);
    }

    /// Rates that follow from the means by hand: load 0.6 at 10 Gb/s, whole packets counted as 1500/1460 of the payload.
    #[test]
    fn wire_bytes_are_near_the_ratio_rule_for_packet_tables() {
        for (name, flows_per_second) in [("web_search", 438.0), ("data_mining", 97.7), ("imc10", 3737.0)] {
            let wire_bytes = table(name).unwrap().cdf().mean_wire_bytes(&WireProfile::IP_1500);
            let rate = 0.6 * 1e10 / 8.0 / wire_bytes;
            assert!((rate / flows_per_second - 1.0).abs() < 0.001, "{name}: {rate}");
        }
    }

    /// Kolmogorov and Smirnov's distance, allowing for atoms and for rounding to whole bytes: compared at the points where the
    /// distribution bends. Only there can it be farthest from the sample's, if the sample is uniform between them.
    #[test]
    fn samples_follow_their_table() {
        let n = 100_000;
        for table in TABLES {
            let cdf = table.cdf();
            let mut stream = Stream::new(11, Purpose::Sizes, 0);
            let mut sample: Vec<u64> = (0..n).map(|_| cdf.sample(stream.unit()).get()).collect();
            sample.sort_unstable();
            let points = cdf.points();
            let midpoints = points.windows(2).map(|pair| u64::midpoint(pair[0].bytes, pair[1].bytes));
            for bytes in points.iter().map(|point| point.bytes).chain(midpoints).filter(|bytes| *bytes > 0) {
                let below = sample.partition_point(|size| *size <= bytes) as f64 / f64::from(n);
                // Sizes up to half a byte above round down to here.
                let exact = cdf.share_up_to(bytes as f64 + 0.5);
                assert!((below - exact).abs() < 1.95 / f64::from(n).sqrt(), "{} at {bytes}: {below} {exact}", table.name);
            }
        }
    }
}
