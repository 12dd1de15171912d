//! Which path each packet takes where senders choose (NDP paper, §3): a random permutation of all paths, one packet each, and a new permutation when all have had one. Paths that trim or
//! lose more than others can be left out.

use flowloom_core::{NodeId, Paths, Site};

use super::RandomStream;

/// What became of packets.
#[derive(Clone, Copy, Default, Debug)]
struct Score {
    arrived: u32,
    /// Trimmed, returned or lost.
    failed: u32,
}

impl Score {
    fn count(&mut self, arrived: bool) {
        *(if arrived { &mut self.arrived } else { &mut self.failed }) += 1;
    }
    fn halve(&mut self) {
        self.arrived /= 2;
        self.failed /= 2;
    }
    fn packets(self) -> u64 {
        u64::from(self.arrived) + u64::from(self.failed)
    }
}

/// A path is judged once this many packets have been heard of.
const JUDGED: u64 = 4;
/// A path is bad if the share of its packets that failed is more than this times the share of all.
const BAD: u64 = 2;

/// The path labels of one flow. The permutation is drawn as the flow goes on: each draw is uniform among the labels that have not come in
/// this round.
#[derive(Clone, Debug, Default)]
pub struct PathDeck {
    /// Those before `next` have come in this round. Empty if the sender does not choose paths.
    labels: Vec<u16>,
    next: usize,
    /// By label; empty if no path is left out. All are halved from time to time, so that a path which is left out is tried again when too little is known of it.
    scores: Vec<Score>,
    /// Of all paths.
    all: Score,
    /// What is known is halved once it is of more packets than this for each path.
    remembered: u64,
}

impl PathDeck {
    /// The labels `0..count`. Where up to `remembered` packets of each path are remembered, bad ones are left out; with 0, none is.
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub fn new(count: u32, remembered: u64) -> PathDeck {
        let label = |label| u16::try_from(label).expect("at most 65,536 labels");
        let scores = if remembered > 0 { vec![Score::default(); count as usize] } else { Vec::new() };
        PathDeck { labels: (0..count).map(label).collect(), next: 0, scores, all: Score::default(), remembered }
    }

    /// The label of the next packet.
    pub fn draw(&mut self, random: &mut RandomStream) -> Option<u16> {
        for _ in 1..self.labels.len() {
            let label = self.any(random)?;
            if !self.is_bad(label) {
                return Some(label);
            }
        }
        self.any(random)
    }

    fn any(&mut self, random: &mut RandomStream) -> Option<u16> {
        let left = self.labels.len() - self.next;
        if left == 0 {
            return None;
        }
        let (place, taken) = (self.next, self.next + random.below(left as u32) as usize);
        self.labels.swap(place, taken);
        self.next = place + 1;
        if left == 1 {
            self.next = 0;
            if self.all.packets() > self.remembered * self.labels.len() as u64 {
                self.scores.iter_mut().chain([&mut self.all]).for_each(Score::halve);
            }
        }
        Some(self.labels[place])
    }

    /// Notes whether a packet on a path has arrived whole.
    pub fn tell(&mut self, path: Option<u16>, arrived: bool) {
        if let Some(score) = path.and_then(|label| self.scores.get_mut(usize::from(label))) {
            score.count(arrived);
            self.all.count(arrived);
        }
    }

    fn is_bad(&self, label: u16) -> bool {
        let Some(score) = self.scores.get(usize::from(label)) else { return false };
        let (failed, packets) = (u64::from(score.failed), score.packets());
        packets >= JUDGED && failed * self.all.packets() > BAD * u64::from(self.all.failed) * packets
    }
}

/// Deals the path labels of all flows that a node sends.
pub struct PathDealer {
    source: NodeId,
    /// Where labels choose paths, the network's paths.
    paths: Option<Paths>,
    remembered: u64,
    random: RandomStream,
}

impl PathDealer {
    /// For a sender at `site`. Where up to `remembered` packets of each path are remembered, bad paths are left out.
    pub fn new(site: &Site<'_>, remembered: Option<u64>) -> PathDealer {
        let random = RandomStream::new(site.seed);
        PathDealer { source: site.node, paths: site.paths.cloned(), remembered: remembered.unwrap_or(0), random }
    }

    /// The deck of a flow to `dst`, if the sender chooses its paths.
    pub fn deck(&self, dst: NodeId) -> Option<PathDeck> {
        let labels = self.paths.as_ref()?.labels(self.source, dst)?;
        Some(PathDeck::new(labels, self.remembered))
    }

    /// The label of the next packet of a flow.
    pub fn draw(&mut self, deck: &mut PathDeck) -> Option<u16> {
        deck.draw(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_comes_once_per_round_in_a_random_order() {
        let (mut deck, mut random) = (PathDeck::new(6, 0), RandomStream::new(3));
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
        let mut only = PathDeck::new(1, 16);
        assert_eq!((0..3).filter_map(|_| only.draw(&mut RandomStream::new(1))).collect::<Vec<_>>(), [0, 0, 0]);
    }

    /// Path 2 fails always, and is left out but for tries. Where all paths fail alike, none is.
    #[test]
    fn a_path_that_fails_more_than_others_is_left_out() {
        let uses = |fails: fn(u16) -> bool| {
            let (mut deck, mut random) = (PathDeck::new(4, 16), RandomStream::new(3));
            let mut uses = [0; 4];
            for _ in 0..4000 {
                let label = deck.draw(&mut random).unwrap();
                uses[usize::from(label)] += 1;
                deck.tell(Some(label), !fails(label));
            }
            uses
        };
        let [a, b, bad, c] = uses(|label| label == 2);
        assert!(bad < 400 && [a, b, c].iter().all(|count| *count > 1100), "{a} {b} {bad} {c}");
        let even = uses(|_| true);
        assert!(even.iter().all(|count| (995..=1005).contains(count)), "{even:?}");
    }
}
