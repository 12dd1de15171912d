//! One link, served preemptively.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{Duration, Time};

use super::Order;

/// The demand of one flow on one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// When it may be served.
    pub release: Time,
    /// How long it takes.
    pub service: Duration,
    /// The instant by which its service must end for the flow to be on time; [`Time::MAX`] without a deadline.
    pub due: Time,
}

/// The instant that is `span` before the deadline; [`Time::MAX`] without one.
pub(super) fn earlier(deadline: Option<Time>, span: Duration) -> Time {
    deadline.map_or(Time::MAX, |at| Time::from_ps(at.as_ps().saturating_sub(span.as_ps())))
}

/// The order of service: the least key first, then the shorter job, then the one that comes first in the list.
pub(super) type Key = (Time, Duration, u32);

impl Job {
    /// The job's key while `remaining` is left of it.
    pub(super) fn key(&self, order: Order, remaining: Duration, index: u32) -> Key {
        match order {
            Order::Srpt => (Time::ZERO, remaining, index),
            Order::Edf => (self.due, remaining, index),
        }
    }
}

/// When each job is done on a link that always serves the first one in `order`. This takes O(n log n): a job that is being served is
/// taken off the heap and put back at most once for each arrival.
pub(super) fn serve(jobs: &[Job], order: Order) -> Vec<Time> {
    let mut arrivals: Vec<u32> = (0..jobs.len() as u32).collect();
    arrivals.sort_by_key(|index| jobs[*index as usize].release);
    let mut done = vec![Time::MAX; jobs.len()];
    let mut ready = BinaryHeap::new();
    let mut now = Time::ZERO;
    for index in arrivals {
        let job = &jobs[index as usize];
        work(&mut ready, &mut now, job.release, &mut done);
        ready.push(Reverse(job.key(order, job.service, index)));
    }
    work(&mut ready, &mut now, Time::MAX, &mut done);
    done
}

/// Serves what is ready from `now` to `until`, or until nothing is.
fn work(ready: &mut BinaryHeap<Reverse<Key>>, now: &mut Time, until: Time, done: &mut [Time]) {
    while let Some(Reverse((due, remaining, index))) = ready.pop() {
        let finish = *now + remaining;
        if finish > until {
            ready.push(Reverse((due, finish - until, index)));
            break;
        }
        done[index as usize] = finish;
        *now = finish;
    }
    *now = until;
}
