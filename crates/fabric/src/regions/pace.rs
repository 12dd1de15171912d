//! The choice between threads and turns.

use std::time::Duration;

/// How often the way that was slower is tried again.
const TRIAL_EVERY: u32 = 16;

/// Tells whether regions had better run in threads or in turn. With threads, all regions wait at each barrier for the last one, which takes long where other programs
/// keep the cores busy. This changes how long a run takes, and nothing else.
#[derive(Default)]
pub(crate) struct Pace {
    /// The seconds that an event took, at the last time, in threads and in turn.
    last_s: [Option<f64>; 2],
    steps: u32,
}

impl Pace {
    /// Whether the next step is in threads. The first is, and the second is not, to compare them.
    pub fn choose(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        match self.last_s {
            [None, _] => true,
            [_, None] => false,
            [in_threads, in_turn] => (in_threads <= in_turn) != self.steps.is_multiple_of(TRIAL_EVERY),
        }
    }

    /// Notes how long a step took. One without events tells nothing.
    pub fn note(&mut self, in_threads: bool, taken: Duration, events: u64) {
        if events > 0 {
            self.last_s[usize::from(!in_threads)] = Some(taken.as_secs_f64() / events as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 1600 steps are in threads if these are the microseconds that an event takes.
    fn in_threads(threads_us: u64, turns_us: u64) -> usize {
        let mut pace = Pace::default();
        let mut step = |_: &usize| {
            let chosen = pace.choose();
            pace.note(chosen, Duration::from_micros(if chosen { threads_us } else { turns_us }), 1);
            chosen
        };
        (0..1600).filter(&mut step).count()
    }

    #[test]
    fn the_faster_way_is_taken_but_for_trials() {
        assert_eq!(in_threads(1, 2), 1600 - 100 - 1);
        assert_eq!(in_threads(2, 1), 100 + 1);
    }
}
