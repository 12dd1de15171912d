//! What decides a packet's class, as a user gives it and as the programs in the kernel read it.

use flowloom_core::{Bytes, Duration};

use crate::{Error, Result};

/// The largest number of thresholds: DSCPs have eight class selectors.
pub const THRESHOLDS_MAX: usize = 7;
/// The number of words of the map `rules_map`.
pub(crate) const WORDS: usize = THRESHOLDS_MAX + 3;

/// What decides a packet's class. Changes apply to the packets that leave afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Ascending, above 0 and at most 7. A packet's class is the number of thresholds that its offset in its message exceeds.
    pub thresholds: Vec<Bytes>,
    /// A message begins if the application has been silent for longer than this, and its send buffer is empty (§IV-A1).
    pub idle_gap: Duration,
    /// A flow counts as new after so many consecutive timeouts (§III-B3); 0: never.
    pub timeouts: u64,
    /// Leaves the ECN field as it is, instead of making all packets of TCP connections with ECN ECN-capable (§IV-A3).
    pub keep_ecn: bool,
}

impl Rules {
    /// Rules with these thresholds, and the paper's values for everything else.
    pub fn new(thresholds: Vec<Bytes>) -> Rules {
        Rules { thresholds, idle_gap: Duration::from_us(500), timeouts: 2, keep_ecn: false }
    }

    /// Reads thresholds that are separated by commas, such as `20kB,100kB,1MB`.
    ///
    /// # Errors
    ///
    /// One of them is no size, or together they are no thresholds.
    pub fn parse_thresholds(text: &str) -> Result<Vec<Bytes>> {
        let parse = |word: &str| word.parse().map_err(|error| Error::Input(format!("--thresholds {text}: {error}")));
        let found = text.split(',').map(parse).collect::<Result<Vec<Bytes>>>()?;
        check(&found).map_err(|why| Error::Input(format!("--thresholds {text}: {why}")))?;
        Ok(found)
    }

    /// Checks thresholds in bytes.
    ///
    /// # Errors
    ///
    /// There are too many, or they do not ascend.
    pub fn check_thresholds(bytes: &[u64]) -> Result<Vec<Bytes>> {
        let found: Vec<Bytes> = bytes.iter().copied().map(Bytes::new).collect();
        check(&found).map_err(Error::Input)?;
        Ok(found)
    }

    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [u64::MAX; WORDS];
        for (word, threshold) in words.iter_mut().zip(&self.thresholds) {
            *word = threshold.get();
        }
        words[THRESHOLDS_MAX] = self.idle_gap.as_ps() / PS_PER_NS;
        words[THRESHOLDS_MAX + 1] = self.timeouts;
        words[THRESHOLDS_MAX + 2] = u64::from(self.keep_ecn);
        words
    }

    pub(crate) fn from_words(words: &[u64; WORDS]) -> Rules {
        let thresholds = &words[..THRESHOLDS_MAX];
        Rules {
            thresholds: thresholds.iter().copied().filter(|&word| word != u64::MAX).map(Bytes::new).collect(),
            idle_gap: Duration::from_ns(words[THRESHOLDS_MAX]),
            timeouts: words[THRESHOLDS_MAX + 1],
            keep_ecn: words[THRESHOLDS_MAX + 2] != 0,
        }
    }
}

const PS_PER_NS: u64 = 1000;

fn check(thresholds: &[Bytes]) -> std::result::Result<(), String> {
    let count = thresholds.len();
    if count == 0 || count > THRESHOLDS_MAX {
        return Err(format!("found {count} thresholds; packets have up to eight classes, so give 1 to {THRESHOLDS_MAX}"));
    }
    let ascend = thresholds.windows(2).all(|pair| pair[0] < pair[1]);
    if !ascend || thresholds[0] == Bytes::ZERO {
        return Err("thresholds must be above 0 and ascend, such as 20kB,100kB,1MB".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_the_rules_and_gives_them_back() {
        let rules = Rules { timeouts: 3, keep_ecn: true, ..Rules::new(vec![Bytes::new(20_000), Bytes::new(1_000_000)]) };
        let words = rules.words();
        assert_eq!(words, [20_000, 1_000_000, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, 500_000, 3, 1]);
        assert_eq!(Rules::from_words(&words), rules);
    }

    #[test]
    fn thresholds_that_make_no_sense_are_refused_with_what_would_be_right() {
        assert_eq!(Rules::parse_thresholds("20kB,1MB").unwrap(), [Bytes::new(20_000), Bytes::new(1_000_000)]);
        for (text, part) in [
            ("", "expected a number and a unit"),
            ("20", "has no unit"),
            ("20kB,20kB", "ascend"),
            ("1MB,20kB", "ascend"),
            ("0B,20kB", "above 0"),
            ("1B,2B,3B,4B,5B,6B,7B,8B", "found 8"),
        ] {
            let why = Rules::parse_thresholds(text).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(Rules::check_thresholds(&[]).is_err());
    }
}
