//! Crews of two threads in each order in which these can run, with all values that weakly ordered memory lets them read: loom tries them out.

#[expect(dead_code, reason = "loom has threads of its own")]
#[allow(clippy::duplicate_mod, reason = "the same code with other threads")]
#[path = "crew.rs"]
mod crew;

mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex, MutexGuard};

    pub const SPINS: u32 = 1;
}

use std::panic::{AssertUnwindSafe, catch_unwind};

use flowloom_core::{Duration, FlowId, Time};
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;

use self::crew::{Crew, Report, Shared, Worker};
use super::{Matter, Message, Outbox};
use crate::tasks::End;

const REACH: Duration = Duration::from_ns(10);

/// A region that sends a message to the other one in each window, until it has sent three.
struct Toy {
    number: u16,
    outbox: Outbox<()>,
    next: Time,
    sent: u32,
    taken: Vec<u32>,
    panics: bool,
}

impl Toy {
    fn new(number: u16, panics: bool) -> Toy {
        Toy { number, outbox: Outbox::new(2), next: Time::ZERO, sent: 0, taken: Vec::new(), panics }
    }
}

impl Worker for Toy {
    type Header = ();

    fn take(&mut self, messages: &mut Vec<Message<()>>) {
        for message in messages.drain(..) {
            let Matter::Over { task: FlowId(number), .. } = message.what else { unreachable!("no packets are sent here") };
            self.taken.push(number);
            self.next = self.next.min(message.due);
        }
    }

    fn work(&mut self, until: Time) {
        assert!(!self.panics, "as it should");
        assert_eq!(self.taken.len() as u32, self.sent, "what the other has sent in the windows before is here");
        self.next = Time::MAX;
        if self.sent < 3 {
            let over = (FlowId(0), End::Received);
            let message = Message { due: until + REACH, what: Matter::Over { task: FlowId(self.sent), over } };
            self.outbox.send(1 - self.number, message);
            self.sent += 1;
        }
    }

    fn report(&mut self) -> Report {
        let (first_due, sent) = self.outbox.take_news();
        let next = self.next.min(first_due);
        Report { next, unfinished: 1, over_at: Time::ZERO, open: 1, events: u64::from(self.sent), latest: 1, sent }
    }

    fn outbox(&mut self) -> &mut Outbox<()> {
        &mut self.outbox
    }
}

/// Runs a check of two regions in all orders with at most two preemptions.
fn in_any_order(check: impl Fn(&Crew, [Toy; 2], Arc<Shared<()>>) + Sync + Send + 'static, panics: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let crew = Crew { reach: REACH, until: Time::MAX, grace: None, events: u64::MAX };
        check(&crew, [Toy::new(0, false), Toy::new(1, panics)], Arc::new(Shared::new(2)));
    });
}

fn both(crew: Crew, [mut first, mut second]: [Toy; 2], shared: &Arc<Shared<()>>) -> [Toy; 2] {
    let other = {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            crew.shift(1, &mut second, &shared, &mut |_| {});
            second
        })
    };
    crew.shift(0, &mut first, shared, &mut |_| {});
    [first, other.join().expect("it does not panic")]
}

#[test]
fn each_message_comes_once_and_before_the_next_window() {
    let check = |crew: &Crew, toys, shared| {
        for toy in both(*crew, toys, &shared) {
            assert_eq!((toy.sent, &toy.taken[..]), (3, &[0, 1, 2][..]));
        }
    };
    in_any_order(check, false);
}

/// If one region panics, the other one returns.
#[test]
fn a_panic_ends_all_threads() {
    let check = |crew: &Crew, toys, shared: Arc<Shared<()>>| {
        let ended = catch_unwind(AssertUnwindSafe(|| both(*crew, toys, &shared)));
        assert!(ended.is_ok() && shared.fails_at.load(Ordering::Relaxed) == 1);
    };
    in_any_order(check, true);
}
