//! Which packets of a flow have arrived.

use std::ops::Range;

/// A set of packet numbers as sorted, disjoint, non-adjacent ranges. Packets mostly arrive in order, so the lowest range is stored
/// inline and the others, one per hole, on the heap. A flow of any length without holes takes 40 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// The lowest range, `start..end`; empty if the set is.
    start: u32,
    end: u32,
    /// The ranges above the lowest, ascending.
    rest: Vec<(u32, u32)>,
    len: u32,
}

impl RangeSet {
    /// The number of packets in the set.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether the set contains all of `0..total`.
    #[inline]
    pub fn is_complete(&self, total: u32) -> bool {
        self.first_missing() >= total
    }
    /// The least number that is not in the set: the value of a cumulative acknowledgement.
    #[inline]
    pub fn first_missing(&self) -> u32 {
        if self.start == 0 { self.end } else { 0 }
    }
    /// One more than the largest number; 0 if the set is empty.
    #[inline]
    pub fn end(&self) -> u32 {
        self.rest.last().map_or(self.end, |(_, end)| *end)
    }
    /// The ranges, ascending.
    #[cfg(test)]
    fn ranges(&self) -> impl Iterator<Item = Range<u32>> {
        let lowest = (self.len > 0).then_some((self.start, self.end));
        lowest.into_iter().chain(self.rest.iter().copied()).map(|(start, end)| start..end)
    }

    /// The ranges above the least missing number, highest first: the content of a selective acknowledgement.
    #[inline]
    pub fn islands(&self) -> impl Iterator<Item = Range<u32>> {
        let lowest = (self.start > 0).then_some((self.start, self.end));
        self.rest.iter().rev().copied().chain(lowest).map(|(start, end)| start..end)
    }

    /// How many numbers of `range` are in the set.
    pub fn count_in(&self, range: Range<u32>) -> u32 {
        let overlap = |island: Range<u32>| island.end.min(range.end).saturating_sub(island.start.max(range.start));
        self.islands().map(overlap).sum::<u32>() + overlap(0..self.first_missing())
    }

    /// The `count`-th highest number of the set, counted from 1, among those above the least missing number.
    pub fn highest(&self, count: u32) -> Option<u32> {
        let mut left = count;
        for island in self.islands() {
            let length = island.end - island.start;
            if left <= length {
                return Some(island.end - left);
            }
            left -= length;
        }
        None
    }

    /// Whether `n` is in the set.
    #[inline]
    pub fn contains(&self, n: u32) -> bool {
        n < self.end && n >= self.start || n > self.end && self.range_with(n).is_some()
    }

    /// The range in `rest` that holds `n`.
    fn range_with(&self, n: u32) -> Option<(u32, u32)> {
        // Most queries are for numbers beyond the whole set.
        if self.rest.last().is_none_or(|(_, end)| *end <= n) {
            return None;
        }
        let after = self.rest.partition_point(|(start, _)| *start <= n);
        let range = *self.rest.get(after.checked_sub(1)?)?;
        (n < range.1).then_some(range)
    }

    /// The least number above `n` that is not in the set.
    ///
    /// # Panics
    /// If `n` is `u32::MAX`.
    pub fn next_missing_after(&self, n: u32) -> u32 {
        let next = n.checked_add(1).expect("packet numbers end below u32::MAX");
        if next < self.end && next >= self.start {
            return self.end;
        }
        self.range_with(next).map_or(next, |(_, end)| end)
    }

    /// Inserts `n` and returns whether it is new.
    #[inline]
    pub fn insert(&mut self, n: u32) -> bool {
        if n == self.end && self.len > 0 {
            self.end += 1;
            self.len += 1;
            if !self.rest.is_empty() {
                self.join_lowest();
            }
            return true;
        }
        // Packet spraying often swaps neighbours: most other packets lie at or beyond the end of the set.
        let Some(last) = self.rest.last_mut() else { return self.insert_out_of_order(n) };
        if n < last.1 {
            return self.insert_out_of_order(n);
        }
        if n == last.1 {
            last.1 += 1;
        } else {
            self.rest.push((n, n + 1));
        }
        self.len += 1;
        true
    }

    fn insert_out_of_order(&mut self, n: u32) -> bool {
        if self.len == 0 {
            (self.start, self.end, self.len) = (n, n + 1, 1);
            return true;
        }
        if self.contains(n) {
            return false;
        }
        self.len += 1;
        if n > self.end {
            self.insert_above(n);
        } else if n + 1 == self.start {
            self.start = n;
        } else {
            self.rest.insert(0, (self.start, self.end));
            (self.start, self.end) = (n, n + 1);
        }
        true
    }

    /// Merges the next range if the lowest one has grown up to it.
    fn join_lowest(&mut self) {
        if let Some((start, end)) = self.rest.first().copied()
            && start == self.end
        {
            self.end = end;
            self.rest.remove(0);
        }
    }

    fn insert_above(&mut self, n: u32) {
        let after = self.rest.partition_point(|(start, _)| *start <= n);
        let joins_before = after > 0 && self.rest[after - 1].1 == n;
        let joins_after = self.rest.get(after).is_some_and(|(start, _)| *start == n + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                self.rest[after - 1].1 = self.rest[after].1;
                self.rest.remove(after);
            }
            (true, false) => self.rest[after - 1].1 = n + 1,
            (false, true) => self.rest[after].0 = n,
            (false, false) => self.rest.insert(after, (n, n + 1)),
        }
    }

    /// Inserts a range, as for a selective acknowledgement, and returns how many of its numbers are new.
    pub fn insert_range(&mut self, range: Range<u32>) -> u32 {
        if range.start <= self.first_missing() {
            return self.insert_below(range.end);
        }
        // A receiver repeats its ranges: mostly nothing is new, or only the end.
        let mut next = range.start;
        let mut new = 0;
        while next < range.end {
            new += u32::from(self.insert(next));
            next = self.next_missing_after(next);
        }
        new
    }

    /// Inserts `0..end`, as for a cumulative acknowledgement, and returns how many of its numbers are new.
    pub fn insert_below(&mut self, end: u32) -> u32 {
        if end <= self.first_missing() {
            return 0;
        }
        let before = self.len;
        // Ranges that begin at or below `end` are merged; the last of them may reach beyond it.
        let swallowed = self.rest.partition_point(|(start, _)| *start <= end);
        let reach = if swallowed > 0 {
            self.rest[swallowed - 1].1
        } else if self.start <= end {
            self.end
        } else {
            0
        };
        if self.len > 0 && self.start > end {
            self.rest.insert(0, (self.start, self.end));
        } else {
            self.rest.drain(..swallowed);
        }
        (self.start, self.end) = (0, end.max(reach));
        self.len = self.end + self.rest.iter().map(|(start, end)| end - start).sum::<u32>();
        self.len - before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn agrees(set: &RangeSet, model: &BTreeSet<u32>) -> Result<(), TestCaseError> {
        let numbers: Vec<u32> = set.ranges().flatten().collect();
        prop_assert_eq!(numbers, model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(set.len() as usize, model.len());
        prop_assert_eq!(set.is_empty(), model.is_empty());
        let ranges: Vec<_> = set.ranges().collect();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", ranges);
        prop_assert_eq!(set.first_missing(), (0..).find(|n| !model.contains(n)).unwrap());
        for n in 0..70 {
            prop_assert_eq!(set.contains(n), model.contains(&n));
            prop_assert_eq!(set.next_missing_after(n), (n + 1..).find(|m| !model.contains(m)).unwrap());
            prop_assert_eq!(set.is_complete(n), (0..n).all(|m| model.contains(&m)));
            prop_assert_eq!(set.count_in(n / 2..n) as usize, model.range(n / 2..n).count());
            let above = model.iter().rev().copied().filter(|m| *m > set.first_missing()).nth(n as usize);
            prop_assert_eq!(set.highest(n + 1), above);
        }
        let mut islands: Vec<_> = set.islands().collect();
        islands.reverse();
        prop_assert_eq!(islands, ranges.into_iter().filter(|range| range.start > 0).collect::<Vec<_>>());
        Ok(())
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(steps in prop::collection::vec((0_u8..12, 0_u32..64), 0..120)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (what, n) in steps {
                if what == 1 {
                    let range = n / 3 * 2..n;
                    let new = range.clone().filter(|m| model.insert(*m)).count();
                    prop_assert_eq!(set.insert_range(range) as usize, new);
                } else if what == 0 {
                    let new = (0..n).filter(|m| model.insert(*m)).count();
                    prop_assert_eq!(set.insert_below(n) as usize, new);
                } else {
                    prop_assert_eq!(set.insert(n), model.insert(n));
                }
                agrees(&set, &model)?;
            }
        }
    }

    #[test]
    fn arrival_in_order_takes_no_heap() {
        let mut set = RangeSet::default();
        assert!((0..1_000_000).all(|n| set.insert(n)));
        assert_eq!(set.rest.capacity(), 0);
        assert!(set.is_complete(1_000_000));
        assert!(size_of::<RangeSet>() <= 40);
    }

    #[test]
    fn memory_follows_the_holes() {
        let mut set = RangeSet::default();
        for n in (0..100_000).filter(|n| n % 10_000 != 5_000) {
            set.insert(n);
        }
        assert_eq!(set.ranges().count(), 11);
        assert_eq!(set.next_missing_after(4_999), 5_000);
        assert_eq!(set.next_missing_after(5_000), 5_001 + 9_999);
    }
}
