//! Threads that simulate one region each, in windows of time in which no region can affect another.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::thread;

use flowloom_core::{Duration, Time};

use super::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SPINS, spin_loop};
use super::{Message, Outbox};

/// A region, as its thread sees it.
pub(crate) trait Worker: Send {
    /// The header of packets.
    type Header: Send;
    /// Takes messages of another region out of a list.
    fn take(&mut self, messages: &mut Vec<Message<Self::Header>>);
    /// Handles its events up to an instant.
    fn work(&mut self, until: Time);
    /// What the other regions must know.
    fn report(&mut self) -> Report;
    /// What it has sent to the others.
    fn outbox(&mut self) -> &mut Outbox<Self::Header>;
}

/// What regions tell each other between windows. Those of all regions are added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// When the next event is, or a message that is under way is due.
    pub next: Time,
    /// Flows that are not over.
    pub unfinished: u64,
    /// When a flow was last over.
    pub over_at: Time,
    /// Flows that have started and are not over.
    pub open: u64,
    /// Events that were handled.
    pub events: u64,
}

impl Report {
    fn join(self, other: Report) -> Report {
        Report {
            next: self.next.min(other.next),
            unfinished: self.unfinished + other.unfinished,
            over_at: self.over_at.max(other.over_at),
            open: self.open + other.open,
            events: self.events + other.events,
        }
    }
}

/// How far threads go before they return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    /// How long after the first event of a window its last one may be: less than the time between an event in one region and its effect on another.
    pub reach: Duration,
    /// Events after this instant are not handled.
    pub until: Time,
    /// How long the run goes on when all flows are over; at least `reach`. `None` if it does not end then.
    pub grace: Option<Duration>,
    /// No window begins when this many events have been handled.
    pub events: u64,
}

impl Crew {
    /// The end of the window that follows these reports of all regions together; `None` if there is none. When the last flow is over, no region is beyond the end of the run, because
    /// a window is no longer than the run goes on after that.
    fn next_window(&self, all: Report) -> Option<Time> {
        let end = self.grace.filter(|_| all.unfinished == 0).map_or(Time::MAX, |grace| all.over_at + grace);
        let until = self.until.min(end);
        let goes_on = all.next <= until && all.next < Time::MAX && all.events < self.events;
        goes_on.then(|| (all.next + self.reach).min(until))
    }

    /// Runs windows as [`Crew::run`] does, one region after the other.
    pub fn run_in_turn<W: Worker>(&self, workers: &mut [W], mut after: impl FnMut(Report)) {
        loop {
            let all = workers.iter_mut().map(Worker::report).reduce(Report::join).expect("a run has a region");
            after(all);
            for from in 0..workers.len() {
                for to in 0..workers.len() {
                    let mut messages = std::mem::take(&mut workers[from].outbox().messages()[to]);
                    workers[to].take(&mut messages);
                    // The list is empty now, and has room for the next ones.
                    workers[from].outbox().messages()[to] = messages;
                }
            }
            let Some(until) = self.next_window(all) else { return };
            workers.iter_mut().for_each(|worker| worker.work(until));
        }
    }

    /// Runs windows, each region in a thread, and calls `after` with the reports of all regions together before each window. All messages have been taken when it returns.
    pub fn run<W: Worker>(&self, workers: &mut [W], mut after: impl FnMut(Report)) {
        let shared = Shared::new(workers.len());
        let (first, others) = workers.split_first_mut().expect("a run has a region");
        thread::scope(|scope| {
            for (number, worker) in (1..).zip(others) {
                let shared = &shared;
                scope.spawn(move || self.shift(number, worker, shared, &mut |_| {}));
            }
            self.shift(0, first, &shared, &mut after);
        });
        if let Some(payload) = shared.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(payload);
        }
    }

    /// The work of one thread.
    pub(super) fn shift<W: Worker>(
        &self,
        number: usize,
        worker: &mut W,
        shared: &Shared<W::Header>,
        after: &mut dyn FnMut(Report),
    ) {
        shared.tell(0, number, worker.report());
        for turn in 0.. {
            shared.barrier.wait();
            if turn >= shared.fails_at.load(Ordering::Acquire) {
                return;
            }
            let all = shared.hear(turn);
            after(all);
            let window = self.next_window(all);
            let done = catch_unwind(AssertUnwindSafe(|| {
                for slot in &shared.mail[turn % 2][number] {
                    worker.take(&mut lock(slot));
                }
                let Some(until) = window else { return };
                worker.work(until);
                shared.tell(turn + 1, number, worker.report());
                for (to, messages) in worker.outbox().messages().iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
                    std::mem::swap(messages, &mut lock(&shared.mail[(turn + 1) % 2][to][number]));
                }
            }));
            // Whoever panics goes to the next barrier all the same, or the others would wait for it. Nobody returns before that barrier, or it would wait for them.
            if let Err(payload) = done {
                *lock(&shared.panic) = Some(payload);
                shared.fails_at.store(turn + 1, Ordering::Release);
            }
            if window.is_none() {
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The messages from one region to another.
type Mailbox<H> = Mutex<Vec<Message<H>>>;

/// What threads share. Of everything that they write for each other there are two, used in turn: what is read after a barrier is not written before the next one.
pub(super) struct Shared<H> {
    barrier: Barrier,
    boards: [Vec<Board>; 2],
    /// By the receiver, and then by the sender.
    mail: [Vec<Vec<Mailbox<H>>>; 2],
    /// The turn at whose barrier all return, because a region has panicked.
    pub(super) fails_at: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The report of a region, in a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Board {
    next_ps: AtomicU64,
    unfinished: AtomicU64,
    over_at_ps: AtomicU64,
    open: AtomicU64,
    events: AtomicU64,
}

impl<H> Shared<H> {
    pub(super) fn new(regions: usize) -> Shared<H> {
        let board = || (0..regions).map(|_| Board::default()).collect();
        let mail = || (0..regions).map(|_| (0..regions).map(|_| Mutex::default()).collect()).collect();
        Shared {
            barrier: Barrier::new(regions),
            boards: [board(), board()],
            mail: [mail(), mail()],
            fails_at: AtomicUsize::new(usize::MAX),
            panic: Mutex::new(None),
        }
    }

    /// Writes a region's report before the barrier of a turn, whose order is enough.
    fn tell(&self, turn: usize, number: usize, report: Report) {
        let board = &self.boards[turn % 2][number];
        board.next_ps.store(report.next.as_ps(), Ordering::Relaxed);
        board.unfinished.store(report.unfinished, Ordering::Relaxed);
        board.over_at_ps.store(report.over_at.as_ps(), Ordering::Relaxed);
        board.open.store(report.open, Ordering::Relaxed);
        board.events.store(report.events, Ordering::Relaxed);
    }

    /// Reads the reports of all regions after the barrier of a turn.
    fn hear(&self, turn: usize) -> Report {
        let reports = self.boards[turn % 2].iter().map(|board| Report {
            next: Time::from_ps(board.next_ps.load(Ordering::Relaxed)),
            unfinished: board.unfinished.load(Ordering::Relaxed),
            over_at: Time::from_ps(board.over_at_ps.load(Ordering::Relaxed)),
            open: board.open.load(Ordering::Relaxed),
            events: board.events.load(Ordering::Relaxed),
        });
        reports.reduce(Report::join).expect("a run has a region")
    }
}

/// A barrier whose threads look for the others for a short time before they sleep. Windows are short: a few microseconds of work.
struct Barrier {
    threads: usize,
    waiting: AtomicUsize,
    generation: AtomicUsize,
    sleepers: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    fn new(threads: usize) -> Barrier {
        Barrier {
            threads,
            waiting: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            sleepers: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Waits until all threads have called it.
    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            // Under the lock, so that nobody falls asleep between the look at the generation and the call that wakes all.
            let guard = lock(&self.sleepers);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            drop(guard);
            self.wake.notify_all();
            return;
        }
        for _ in 0..SPINS {
            if self.generation.load(Ordering::Acquire) != generation {
                return;
            }
            spin_loop();
        }
        let mut guard = lock(&self.sleepers);
        while self.generation.load(Ordering::Acquire) == generation {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
