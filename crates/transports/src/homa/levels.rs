//! Which level a packet has (§3.4).

use super::config::{Assignment, Config};

/// The levels of the switches. Level 0 is the highest. Unscheduled packets have the first ones, scheduled packets the others.
pub(super) struct Levels {
    cutoffs: Vec<u64>,
    all: u8,
    /// The highest level of scheduled packets.
    first_scheduled: u8,
    assignment: Assignment,
}

impl Levels {
    pub fn new(config: &Config) -> Levels {
        let unscheduled = config.unscheduled_levels_or_one();
        Levels {
            cutoffs: config.cutoffs.iter().map(|cutoff| cutoff.get()).collect(),
            all: config.levels,
            first_scheduled: unscheduled.min(config.levels - 1),
            assignment: config.assignment,
        }
    }

    /// How many levels scheduled packets have.
    pub fn scheduled_levels(&self) -> u8 {
        self.all - self.first_scheduled
    }

    /// The level of a message, or of what is left of it.
    #[inline]
    pub fn of_bytes(&self, bytes: u64) -> u8 {
        self.cutoffs.partition_point(|cutoff| *cutoff < bytes) as u8
    }

    /// Whether a packet's level follows from what is left of its message.
    #[inline]
    pub fn by_remaining(&self) -> bool {
        self.assignment == Assignment::Remaining
    }

    /// The level of the message at `place` among `count` messages that are granted to. They have the lowest levels, so that a shorter
    /// message that comes later finds a higher one free (§3.4).
    #[inline]
    pub fn scheduled(&self, place: usize, count: usize) -> u8 {
        let free = usize::from(self.all).saturating_sub(count);
        ((free + place) as u8).clamp(self.first_scheduled, self.all - 1)
    }
}
