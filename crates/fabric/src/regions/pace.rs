//! The choice between threads and turns.

use std::time::Duration;

/// A trial has this many steps: one slow step is mostly chance, and the first one finds nothing in the caches.
const TRIAL_STEPS: usize = 2;
/// The most events of a step of a trial, in threads and in turn. Turns may take as many times as long as there are regions.
const TRIAL_EVENTS: [u64; 2] = [100_000, 20_000];
/// The most events of the first step after a change. Each step has twice as many as the one before, so that a wrong choice does not last.
const FIRST_EVENTS: u64 = 100_000;
/// The most steps from one trial to the next. There is one at first, and there are twice as many after each trial that changes nothing.
const TRIAL_AFTER_MAX: u32 = 64;
/// Turns are used if they are faster by more than this factor, and threads if turns are not.
const ADVANTAGE: f64 = 1.1;

/// Tells whether regions had better run in threads or in turn. With threads, all regions wait for the last one in each window, which takes long where other programs
/// keep the cores busy. This changes how long a run takes, and nothing else.
pub(crate) struct Pace {
    in_threads: bool,
    /// The seconds that an event took in the last steps of the way that is used, the latest first.
    used_s: [f64; TRIAL_STEPS],
    /// Those of the trial that goes on, in their order.
    trial_s: Vec<f64>,
    /// Steps until the next trial.
    until_trial: u32,
    /// Steps from the last trial to the next one.
    trial_after: u32,
    /// The most events of the next step, unless it is one of a trial.
    events_max: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::starting_with(true, [f64::INFINITY; TRIAL_STEPS])
    }
}

impl Pace {
    fn starting_with(in_threads: bool, used_s: [f64; TRIAL_STEPS]) -> Pace {
        let trial_s = Vec::with_capacity(TRIAL_STEPS);
        Pace { in_threads, used_s, trial_s, until_trial: 1, trial_after: 1, events_max: FIRST_EVENTS }
    }

    /// Whether the next step is in threads, and how many events it may have.
    pub fn choose(&self, budget: u64) -> (bool, u64) {
        let in_threads = self.in_threads != self.is_trial();
        let most = if self.is_trial() { TRIAL_EVENTS[usize::from(!in_threads)] } else { self.events_max };
        (in_threads, budget.min(most))
    }

    fn is_trial(&self) -> bool {
        self.until_trial == 0
    }

    /// Notes how long the step took that [`Pace::choose`] has chosen. One without events tells nothing.
    pub fn note(&mut self, taken: Duration, events: u64) {
        if events == 0 {
            return;
        }
        let each_s = taken.as_secs_f64() / events as f64;
        if self.is_trial() {
            self.trial_s.push(each_s);
            if self.trial_s.len() == TRIAL_STEPS {
                self.judge();
            }
            return;
        }
        self.used_s.rotate_right(1);
        self.used_s[0] = each_s;
        self.until_trial -= 1;
        self.events_max = self.events_max.saturating_mul(2);
    }

    /// Ends a trial.
    fn judge(&mut self) {
        let best = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let (used_s, trial_s) = (best(&self.used_s), best(&self.trial_s));
        let changes = if self.in_threads { trial_s * ADVANTAGE < used_s } else { trial_s <= used_s * ADVANTAGE };
        if changes {
            *self = Pace::starting_with(!self.in_threads, [trial_s; TRIAL_STEPS]);
            return;
        }
        self.trial_s.clear();
        self.trial_after = (2 * self.trial_after).min(TRIAL_AFTER_MAX);
        self.until_trial = self.trial_after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs 100 million events, of which each takes `ns(in threads, step)`. Returns the share of them that are handled in threads.
    fn in_threads(ns: impl Fn(bool, u64) -> u64) -> f64 {
        let (mut pace, mut all, mut threaded) = (Pace::default(), 0, 0);
        for step in 0.. {
            let (chosen, events) = pace.choose(200_000);
            pace.note(Duration::from_nanos(events * ns(chosen, step)), events);
            all += events;
            threaded += u64::from(chosen) * events;
            if all > 100_000_000 {
                break;
            }
        }
        threaded as f64 / all as f64
    }

    #[test]
    fn the_faster_way_is_taken_but_for_trials() {
        assert!(in_threads(|threads, _| if threads { 50 } else { 100 }) > 0.99);
        assert!(in_threads(|threads, _| if threads { 100 } else { 95 }) > 0.99, "turns that are hardly faster");
        assert!(in_threads(|threads, _| if threads { 100 } else { 50 }) < 0.1);
    }

    #[test]
    fn a_slow_step_now_and_then_changes_nothing() {
        let slow = |step| if step % 7 == 0 { 10 } else { 1 };
        assert!(in_threads(|threads, step| slow(step) * if threads { 50 } else { 100 }) > 0.99);
    }

    #[test]
    fn a_change_of_what_is_faster_is_found() {
        let share = in_threads(|threads, step| if threads == (step < 250) { 50 } else { 100 });
        assert!((0.45..0.65).contains(&share), "{share}");
    }
}
