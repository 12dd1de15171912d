//! Which path each packet takes (§3): a random permutation of all paths, one packet each, and a new permutation when all have had one.

use crate::toolkit::RandomStream;

/// The path labels of one flow. The permutation is drawn as the flow goes on: each draw is uniform among the labels that have not come in
/// this round.
#[derive(Clone, Debug, Default)]
pub(super) struct PathDeck {
    /// Those before `next` have come in this round. Empty if the sender does not choose paths.
    labels: Vec<u16>,
    next: usize,
}

impl PathDeck {
    /// The labels `0..count`.
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub fn new(count: u32) -> PathDeck {
        let label = |label| u16::try_from(label).expect("at most 65,536 labels");
        PathDeck { labels: (0..count).map(label).collect(), next: 0 }
    }

    /// The label of the next packet.
    pub fn draw(&mut self, random: &mut RandomStream) -> Option<u16> {
        let left = self.labels.len() - self.next;
        if left == 0 {
            return None;
        }
        let (place, taken) = (self.next, self.next + random.below(left as u32) as usize);
        self.labels.swap(place, taken);
        self.next = if left == 1 { 0 } else { place + 1 };
        Some(self.labels[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_comes_once_per_round_in_a_random_order() {
        let (mut deck, mut random) = (PathDeck::new(6), RandomStream::new(3));
        let mut firsts = [0; 6];
        for _ in 0..6000 {
            let round: Vec<u16> = (0..6).map(|_| deck.draw(&mut random).unwrap()).collect();
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            firsts[usize::from(round[0])] += 1;
        }
        // Five standard deviations are 145.
        assert!(firsts.iter().all(|count: &i32| (count - 1000).abs() < 145), "{firsts:?}");
    }

    #[test]
    fn without_labels_there_is_none() {
        assert_eq!(PathDeck::default().draw(&mut RandomStream::new(1)), None);
        let mut only = PathDeck::new(1);
        assert_eq!((0..3).filter_map(|_| only.draw(&mut RandomStream::new(1))).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
