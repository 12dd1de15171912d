//! Threads that simulate one region each, in windows of time in which no region can affect another.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;
use std::thread;

use flowloom_core::{Duration, Time};

use super::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SPINS, fence, spin_loop};
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
    /// Events that were handled since the last report; of all regions together, those of the region with the most.
    pub latest: u64,
    /// Messages that were sent to other regions since then.
    pub sent: u64,
}

impl Report {
    fn join(self, other: Report) -> Report {
        Report {
            next: self.next.min(other.next),
            unfinished: self.unfinished + other.unfinished,
            over_at: self.over_at.max(other.over_at),
            open: self.open + other.open,
            events: self.events + other.events,
            latest: self.latest.max(other.latest),
            sent: self.sent + other.sent,
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
        let mut report = worker.report();
        for turn in 0.. {
            shared.tell(turn, number, report);
            let all = shared.hear(turn);
            if turn >= shared.fails_at.load(Ordering::Relaxed) {
                return;
            }
            after(all);
            let window = self.next_window(all);
            let done = catch_unwind(AssertUnwindSafe(|| {
                for mailbox in &shared.mail[turn % 2][number] {
                    mailbox.empty(|messages| worker.take(messages));
                }
                worker.work(window?);
                for (to, messages) in worker.outbox().messages().iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
                    shared.mail[(turn + 1) % 2][to][number].fill(messages);
                }
                Some(worker.report())
            }));
            match done {
                Ok(Some(next)) => report = next,
                Ok(None) => return,
                // Whoever panics tells the others something all the same, or they would wait for it. All return then.
                Err(payload) => {
                    *lock(&shared.panic) = Some(payload);
                    shared.fails_at.store(turn + 1, Ordering::Relaxed);
                    if window.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

/// What `work` makes of each item, each in a thread of its own if there are several: in a network of 65,536 hosts, a region takes a third of a second to build.
pub(crate) fn each<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    if items.len() == 1 {
        return items.into_iter().map(work).collect();
    }
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(|| work(item))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload))).collect()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The messages from one region to another.
struct Mailbox<H> {
    /// Whether there are messages. Most of the time there are none, and this takes less time than the lock.
    is_full: AtomicBool,
    messages: Mutex<Vec<Message<H>>>,
}

impl<H> Default for Mailbox<H> {
    fn default() -> Mailbox<H> {
        Mailbox { is_full: AtomicBool::new(false), messages: Mutex::default() }
    }
}

impl<H> Mailbox<H> {
    /// Exchanges an empty list for messages. That the region tells its report afterwards is order enough.
    fn fill(&self, messages: &mut Vec<Message<H>>) {
        std::mem::swap(messages, &mut lock(&self.messages));
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Lets `take` take the messages out, if there are any.
    fn empty(&self, take: impl FnOnce(&mut Vec<Message<H>>)) {
        if self.is_full.load(Ordering::Relaxed) {
            self.is_full.store(false, Ordering::Relaxed);
            take(&mut lock(&self.messages));
        }
    }
}

/// What threads share. Of everything that they write for each other there are two, used in turn: who writes for a turn has heard that all have read what was written for the turn before the last.
pub(super) struct Shared<H> {
    boards: [Vec<Board>; 2],
    /// By the receiver, and then by the sender.
    mail: [Vec<Vec<Mailbox<H>>>; 2],
    /// The turn in which all return, because a region has panicked.
    pub(super) fails_at: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The report of a region, in cache lines of its own: processors fetch two at a time.
#[derive(Default)]
#[repr(align(128))]
struct Board {
    /// One more than the turn of the report.
    told: AtomicUsize,
    next_ps: AtomicU64,
    unfinished: AtomicU64,
    over_at_ps: AtomicU64,
    open: AtomicU64,
    events: AtomicU64,
    latest: AtomicU64,
    sent: AtomicU64,
    /// How many threads sleep until it is written.
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    wake: Condvar,
}

impl Board {
    fn write(&self, turn: usize, report: Report) {
        self.next_ps.store(report.next.as_ps(), Ordering::Relaxed);
        self.unfinished.store(report.unfinished, Ordering::Relaxed);
        self.over_at_ps.store(report.over_at.as_ps(), Ordering::Relaxed);
        self.open.store(report.open, Ordering::Relaxed);
        self.events.store(report.events, Ordering::Relaxed);
        self.latest.store(report.latest, Ordering::Relaxed);
        self.sent.store(report.sent, Ordering::Relaxed);
        self.told.store(turn + 1, Ordering::Release);
        // Either this sees the sleeper, or the sleeper sees the report.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // Nobody is between the look at the board and sleep when the lock is taken.
            drop(lock(&self.bed));
            self.wake.notify_all();
        }
    }

    /// Waits for the report of a turn, and looks for it at most this many times before it sleeps.
    fn read(&self, turn: usize, looks: &mut u32) -> Report {
        while self.told.load(Ordering::Acquire) <= turn {
            if *looks == 0 {
                self.sleep_until(turn);
                break;
            }
            *looks -= 1;
            spin_loop();
        }
        Report {
            next: Time::from_ps(self.next_ps.load(Ordering::Relaxed)),
            unfinished: self.unfinished.load(Ordering::Relaxed),
            over_at: Time::from_ps(self.over_at_ps.load(Ordering::Relaxed)),
            open: self.open.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            latest: self.latest.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }

    #[cold]
    fn sleep_until(&self, turn: usize) {
        let mut guard = lock(&self.bed);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.told.load(Ordering::Acquire) <= turn {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H> Shared<H> {
    pub(super) fn new(regions: usize) -> Shared<H> {
        let board = || (0..regions).map(|_| Board::default()).collect();
        let mail = || (0..regions).map(|_| (0..regions).map(|_| Mailbox::default()).collect()).collect();
        Shared {
            boards: [board(), board()],
            mail: [mail(), mail()],
            fails_at: AtomicUsize::new(usize::MAX),
            panic: Mutex::new(None),
        }
    }

    /// Writes a region's report for a turn.
    fn tell(&self, turn: usize, number: usize, report: Report) {
        self.boards[turn % 2][number].write(turn, report);
    }

    /// Waits until all regions have told their reports for a turn, and adds them up. What they did before is visible then.
    fn hear(&self, turn: usize) -> Report {
        // Windows are short: a few microseconds of work.
        let mut looks = SPINS;
        let reports = self.boards[turn % 2].iter().map(|board| board.read(turn, &mut looks));
        reports.reduce(Report::join).expect("a run has a region")
    }
}
