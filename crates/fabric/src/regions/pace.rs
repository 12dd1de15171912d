//! The choice between threads and turns.

use std::time::Duration;

/// After how many steps one way is tried again while the other is used.
const TRIAL_AFTER: u32 = 10;
/// The most events of a trial.
const TRIAL_EVENTS: u64 = 20_000;
/// Turns are used if they are faster by more than this factor: one slow step is mostly chance.
const ADVANTAGE: f64 = 1.1;

/// Tells whether regions had better run in threads or in turn. With threads, all regions wait at each barrier for the last one, which takes long where other programs
/// keep the cores busy. This changes how long a run takes, and nothing else.
#[derive(Default)]
pub(crate) struct Pace {
    /// The seconds that an event took, at the last time, in threads and in turn.
    last_s: [Option<f64>; 2],
    /// Steps since the last trial.
    steps: u32,
}

impl Pace {
    /// Whether the next step is in threads, and how many events it may have. The first two try threads and turns.
    pub fn choose(&mut self, budget: u64) -> (bool, u64) {
        let [Some(in_threads), Some(in_turn)] = self.last_s else {
            return (self.last_s[0].is_none(), budget.min(TRIAL_EVENTS));
        };
        let prefers_threads = in_threads <= in_turn * ADVANTAGE;
        self.steps += 1;
        if self.steps <= TRIAL_AFTER {
            return (prefers_threads, budget);
        }
        self.steps = 0;
        (!prefers_threads, budget.min(TRIAL_EVENTS))
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

    /// The share of a million events that are handled in threads if these are the nanoseconds that an event takes.
    fn in_threads(threads_ns: u64, turns_ns: u64) -> f64 {
        let (mut pace, mut all, mut threaded) = (Pace::default(), 0, 0);
        while all < 100_000_000 {
            let (chosen, events) = pace.choose(200_000);
            pace.note(chosen, Duration::from_nanos(events * if chosen { threads_ns } else { turns_ns }), events);
            all += events;
            threaded += u64::from(chosen) * events;
        }
        threaded as f64 / all as f64
    }

    #[test]
    fn the_faster_way_is_taken_but_for_trials() {
        assert!(in_threads(50, 100) > 0.985);
        assert!(in_threads(100, 95) > 0.985, "turns that are hardly faster");
        assert!(in_threads(100, 50) < 0.015);
    }
}
