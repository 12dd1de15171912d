//! Who sends what to whom in one iteration of a collective, and what waits for what.
//!
//! Sends are numbered from 0. All that a send waits for happens at its rank, so no news leaves a host. The rules are formulas: a pattern of a million sends is a few numbers.

use flowloom_fabric::End;

/// One send of one rank to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Send {
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
    /// The step that it belongs to.
    pub step: u32,
}

/// What waits for a send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Waiter {
    /// Another send of this iteration.
    Send(u32),
    /// The end of the iteration at a rank.
    End(u32),
}

/// The sends of one iteration.
pub(super) trait Pattern {
    /// How many there are.
    fn sends(&self) -> u64;
    /// One of them.
    fn send(&self, number: u32) -> Send;
    /// How many things must have happened before a send begins, of which one may be that its rank begins the iteration.
    fn needs(&self, number: u32) -> usize;
    /// How many things must have happened before the iteration is over at a rank.
    fn needs_at_end(&self, rank: u32) -> usize;
    /// Calls `visit` with each send that waits for its rank to begin the iteration.
    fn each_first(&self, rank: u32, visit: &mut dyn FnMut(u32));
    /// Calls `visit` with all that waits for a send, and what must have happened to that.
    fn each_next(&self, number: u32, visit: &mut dyn FnMut(Waiter, End));
}

/// Bytes that are cut into so many blocks of equal sizes. The first ones have a byte more if it does not come out even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    pub bytes: u64,
    pub count: u32,
}

impl Blocks {
    /// The bytes of `count` blocks from number `first` on.
    pub fn of(self, first: u32, count: u32) -> u64 {
        let (whole, rest) = (self.bytes / u64::from(self.count), self.bytes % u64::from(self.count));
        whole * u64::from(count) + rest.saturating_sub(first.into()).min(count.into())
    }

    /// The bytes of one block.
    pub fn one(self, number: u32) -> u64 {
        self.of(number, 1)
    }
}

/// To whom ranks send in each step, and what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    /// To the next rank in a ring: the block that came in the step before.
    Ring,
    /// To the rank whose number differs in one bit, from the lowest on: everything.
    Exchange,
    /// To the rank whose number differs in one bit, from the lowest on: all blocks that the sender has so far.
    Doubling,
    /// To the rank whose number differs in one bit, from the highest on: those of the sender's blocks that the other one will have.
    Halving,
    /// To another rank in each step: the block of the other one.
    Scatter,
    /// To another rank in each step: the block of the sender.
    Gather,
    /// First [`Round::Scatter`], and then [`Round::Gather`].
    ScatterGather,
}

/// Every rank sends in every step. It begins a step when it has begun the step before, or this send was acknowledged, and has received what was sent to it in that. Each send is
/// cut into parts: those of the first step follow one another, and each of them goes on by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rounds {
    pub ranks: u32,
    pub round: Round,
    pub steps: u32,
    /// One block for each rank.
    pub bytes: u64,
    pub parts: u32,
    /// Whether a rank may begin a send before the one in the step before is acknowledged.
    pub overlap: bool,
}

impl Rounds {
    fn number(&self, step: u32, part: u32, rank: u32) -> u32 {
        (step * self.parts + part) * self.ranks + rank
    }

    /// The receiver of a send, and its bytes.
    fn target(&self, step: u32, rank: u32) -> (u32, u64) {
        let n = self.ranks;
        let blocks = Blocks { bytes: self.bytes, count: n };
        let ahead = |steps: u32| ((u64::from(rank) + u64::from(steps)) % u64::from(n)) as u32;
        match self.round {
            Round::Ring => (ahead(1), blocks.one(ahead(2 * n - step))),
            Round::Exchange => (rank ^ 1 << step, self.bytes),
            Round::Doubling => (rank ^ 1 << step, blocks.of(rank >> step << step, 1 << step)),
            Round::Halving => {
                let distance = n >> (step + 1);
                let to = rank ^ distance;
                (to, blocks.of(to / distance * distance, distance))
            }
            Round::Scatter => (ahead(step + 1), blocks.one(ahead(step + 1))),
            Round::Gather => (ahead(step + 1), blocks.one(rank)),
            Round::ScatterGather if step < n - 1 => Rounds { round: Round::Scatter, ..*self }.target(step, rank),
            Round::ScatterGather => Rounds { round: Round::Gather, ..*self }.target(step - (n - 1), rank),
        }
    }
}

impl Pattern for Rounds {
    fn sends(&self) -> u64 {
        u64::from(self.steps) * u64::from(self.parts) * u64::from(self.ranks)
    }

    fn send(&self, number: u32) -> Send {
        let (rank, place) = (number % self.ranks, number / self.ranks);
        let (part, step) = (place % self.parts, place / self.parts);
        let (to, bytes) = self.target(step, rank);
        Send { from: rank, to, bytes: Blocks { bytes, count: self.parts }.one(part), step }
    }

    fn needs(&self, number: u32) -> usize {
        if self.send(number).step == 0 { 1 } else { 2 }
    }

    /// It has begun the last step, or done that, and so received what was sent to it in all steps before that.
    fn needs_at_end(&self, _: u32) -> usize {
        2 * self.parts as usize
    }

    fn each_first(&self, rank: u32, visit: &mut dyn FnMut(u32)) {
        visit(self.number(0, 0, rank));
    }

    fn each_next(&self, number: u32, visit: &mut dyn FnMut(Waiter, End)) {
        let Send { from, to, step, .. } = self.send(number);
        let part = number / self.ranks % self.parts;
        let own = if self.overlap { End::Begun } else { End::Acknowledged };
        if step + 1 < self.steps {
            visit(Waiter::Send(self.number(step + 1, part, from)), own);
            visit(Waiter::Send(self.number(step + 1, part, to)), End::Received);
        } else {
            visit(Waiter::End(from), own);
            visit(Waiter::End(to), End::Received);
        }
        if step == 0 && part + 1 < self.parts {
            visit(Waiter::Send(self.number(0, part + 1, from)), End::Acknowledged);
        }
    }
}

/// Every rank sends to each other one, all at once: the receiver's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Direct {
    pub ranks: u32,
    pub bytes: u64,
}

impl Pattern for Direct {
    fn sends(&self) -> u64 {
        u64::from(self.ranks) * u64::from(self.ranks - 1)
    }

    fn send(&self, number: u32) -> Send {
        let (from, ahead) = (number % self.ranks, 1 + number / self.ranks);
        let to = (from + ahead) % self.ranks;
        Send { from, to, bytes: Blocks { bytes: self.bytes, count: self.ranks }.one(to), step: 0 }
    }

    fn needs(&self, _: u32) -> usize {
        1
    }

    fn needs_at_end(&self, _: u32) -> usize {
        self.ranks as usize - 1
    }

    fn each_first(&self, rank: u32, visit: &mut dyn FnMut(u32)) {
        (0..self.ranks - 1).for_each(|ahead| visit(ahead * self.ranks + rank));
    }

    fn each_next(&self, number: u32, visit: &mut dyn FnMut(Waiter, End)) {
        visit(Waiter::End(self.send(number).to), End::Received);
    }
}

/// How the ranks of a [`Tree`] are joined. Rank 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// The parent of a rank has the rank's number without its lowest bit.
    Binomial,
    /// The parent of a rank is the rank before it.
    Chain,
}

/// What all ranks have goes up to the root and is added on the way, if `up` says so; then it goes down from the root to all. A rank sends one part at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tree {
    pub ranks: u32,
    pub shape: Shape,
    pub up: bool,
    pub bytes: u64,
    pub parts: u32,
}

impl Tree {
    fn parent(&self, rank: u32) -> u32 {
        match self.shape {
            Shape::Binomial => rank & (rank - 1),
            Shape::Chain => rank - 1,
        }
    }

    /// The first child of a rank: that with the most ranks below it.
    fn first_child(&self, rank: u32) -> Option<u32> {
        match self.shape {
            Shape::Chain => Some(rank + 1).filter(|child| *child < self.ranks),
            Shape::Binomial => {
                let bits = if rank == 0 { 32 } else { rank.trailing_zeros() };
                let reach = (self.ranks - rank).checked_sub(1).filter(|reach| *reach > 0)?;
                let bit = bits.min(reach.ilog2() + 1).checked_sub(1)?;
                Some(rank + (1 << bit))
            }
        }
    }

    /// The child that comes after this one.
    fn next_child(&self, child: u32) -> Option<u32> {
        let parent = self.parent(child);
        match self.shape {
            Shape::Chain => None,
            Shape::Binomial => Some((child - parent) / 2).filter(|ahead| *ahead > 0).map(|ahead| parent + ahead),
        }
    }

    fn children(&self, rank: u32) -> usize {
        std::iter::successors(self.first_child(rank), |child| self.next_child(*child)).count()
    }

    fn is_first(&self, child: u32) -> bool {
        self.first_child(self.parent(child)) == Some(child)
    }

    /// How many links the tree has.
    fn links(&self) -> u32 {
        self.ranks - 1
    }

    /// The send of a part from a rank to its parent.
    fn ascent(&self, part: u32, rank: u32) -> u32 {
        part * self.links() + rank - 1
    }

    /// The send of a part from a rank's parent to the rank.
    fn descent(&self, part: u32, rank: u32) -> u32 {
        let below = if self.up { self.parts * self.links() } else { 0 };
        below + part * self.links() + rank - 1
    }

    /// Whether a send goes up, with its part, and the lower one of its ranks.
    fn place(&self, number: u32) -> (bool, u32, u32) {
        let half = self.parts * self.links();
        let up = self.up && number < half;
        let place = if self.up && !up { number - half } else { number };
        (up, place / self.links(), place % self.links() + 1)
    }

    /// How many steps it takes from the root to all ranks.
    fn depth(&self) -> u32 {
        match self.shape {
            Shape::Binomial => (self.ranks - 1).ilog2() + 1,
            Shape::Chain => self.links(),
        }
    }
}

impl Pattern for Tree {
    fn sends(&self) -> u64 {
        u64::from(self.parts) * u64::from(self.links()) * if self.up { 2 } else { 1 }
    }

    fn send(&self, number: u32) -> Send {
        let (up, part, child) = self.place(number);
        let parent = self.parent(child);
        let bytes = Blocks { bytes: self.bytes, count: self.parts }.one(part);
        // In which step the link is used on the way down.
        let down = match self.shape {
            Shape::Binomial => self.depth() - 1 - child.trailing_zeros(),
            Shape::Chain => parent,
        };
        match (up, self.up) {
            (true, _) => Send { from: child, to: parent, bytes, step: self.depth() - 1 - down },
            (false, true) => Send { from: parent, to: child, bytes, step: self.depth() + down },
            (false, false) => Send { from: parent, to: child, bytes, step: down },
        }
    }

    fn needs(&self, number: u32) -> usize {
        let (up, part, child) = self.place(number);
        let parent = self.parent(child);
        if up {
            // What the children have sent, and the beginning or the part before.
            return self.children(child) + 1;
        }
        if !self.is_first(child) {
            return 1; // the send to the child before
        }
        let data = if parent > 0 { 1 } else { usize::from(self.up) * self.children(0) };
        // The part before, or the beginning where that does not follow from the data.
        let turn = usize::from(part > 0 || !self.up || parent == 0);
        data + turn
    }

    fn needs_at_end(&self, rank: u32) -> usize {
        if rank == 0 { 1 } else { self.parts as usize }
    }

    fn each_first(&self, rank: u32, visit: &mut dyn FnMut(u32)) {
        if self.up && rank > 0 {
            visit(self.ascent(0, rank));
        } else if let Some(child) = self.first_child(rank) {
            visit(self.descent(0, child));
        }
    }

    fn each_next(&self, number: u32, visit: &mut dyn FnMut(Waiter, End)) {
        let (up, part, child) = self.place(number);
        let parent = self.parent(child);
        let send = Waiter::Send;
        if up {
            match (parent, self.first_child(0)) {
                (0, Some(first)) => visit(send(self.descent(part, first)), End::Received),
                _ => visit(send(self.ascent(part, parent)), End::Received),
            }
            if part + 1 < self.parts {
                visit(send(self.ascent(part + 1, child)), End::Acknowledged);
            }
            return;
        }
        visit(Waiter::End(child), End::Received);
        if let Some(below) = self.first_child(child) {
            visit(send(self.descent(part, below)), End::Received);
        }
        match self.next_child(child) {
            Some(next) => visit(send(self.descent(part, next)), End::Acknowledged),
            None if part + 1 < self.parts => {
                let first = self.first_child(parent).expect("it has this child");
                visit(send(self.descent(part + 1, first)), End::Acknowledged);
            }
            None if parent == 0 => visit(Waiter::End(0), End::Acknowledged),
            None => {}
        }
    }
}
