//! Which numbers of datagrams have been seen.

/// How far a datagram may be behind the newest one. Priorities let later datagrams overtake thousands of earlier ones.
const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// The numbers that have been accepted, exact within a window behind the largest one. It takes 8 KiB.
#[derive(Clone, Debug)]
pub struct Seen {
    /// One more than the largest number.
    end: u64,
    /// A bit for each of the last [`WINDOW`] numbers, at its number modulo the window.
    bits: Box<[u64; WORDS]>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { end: 0, bits: vec![0; WORDS].try_into().expect("the window's size") }
    }
}

impl Seen {
    /// Whether a number is new. A number that is too old to know is not.
    pub fn is_new(&self, number: u64) -> bool {
        number >= self.end || number + WINDOW >= self.end && !self.holds(number)
    }

    /// Notes a number.
    pub fn note(&mut self, number: u64) {
        if number >= self.end {
            // What enters the window has not been seen.
            let fresh = (number - self.end).min(WINDOW);
            for skipped in number - fresh..number {
                self.set(skipped, false);
            }
            self.end = number + 1;
        }
        self.set(number, true);
    }

    fn holds(&self, number: u64) -> bool {
        self.bits[(number % WINDOW / 64) as usize] >> (number % 64) & 1 == 1
    }

    fn set(&mut self, number: u64, seen: bool) {
        let (word, bit) = (&mut self.bits[(number % WINDOW / 64) as usize], 1 << (number % 64));
        *word = if seen { *word | bit } else { *word & !bit };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of all numbers.
        #[test]
        fn each_number_is_new_once(steps in prop::collection::vec((0_u64..200_000, 0_u64..70_000), 1..200)) {
            let (mut seen, mut all, mut base) = (Seen::default(), HashSet::new(), 0_u64);
            for (ahead, back) in steps {
                base += ahead % 1000 * (ahead % 100 / 99 * 100 + 1);
                let number = base.saturating_sub(back);
                let largest = all.iter().max().copied();
                let known = largest.is_none_or(|largest| number > largest || largest - number < WINDOW);
                prop_assert_eq!(seen.is_new(number), known && !all.contains(&number), "number {}", number);
                if seen.is_new(number) {
                    seen.note(number);
                    all.insert(number);
                }
            }
        }
    }

    #[test]
    fn the_window_ends_where_it_should() {
        let mut seen = Seen::default();
        seen.note(WINDOW + 5);
        assert!(!seen.is_new(WINDOW + 5) && !seen.is_new(5) && seen.is_new(6) && seen.is_new(WINDOW + 6));
        seen.note(6);
        seen.note(2 * WINDOW + 5);
        assert!(!seen.is_new(WINDOW + 5) && seen.is_new(WINDOW + 6), "the oldest number in the window has not been seen");
    }
}
