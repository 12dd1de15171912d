//! The other nodes of the cluster: sessions with their processes, and whether they are alive.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use flowloom_core::{Duration, NodeId, Time};

use super::greeting::{Greeting, Identity, Unread};
use super::key::{Key, Process};
use super::seal::{SEAL_BYTES, Session};
use super::{Kind, Rejection, VERSION};

/// How often this node looks at the peers that it needs.
const TICK: Duration = Duration::from_ms(50);
/// When a greeting without an answer is repeated first. The time doubles up to `GREETING_INTERVAL_MAX`.
const GREETING_INTERVAL: Duration = Duration::from_ms(100);
const GREETING_INTERVAL_MAX: Duration = Duration::from_ms(1000);
/// How many greetings a peer gets at most in one `GREETING_INTERVAL`. Opening a session takes two. Whoever replays greetings gets no more than these.
const GREETINGS_MAX: u32 = 4;
/// A peer that is needed is asked whether it is alive after this part of the time after which it counts as gone.
const ASKS_PER_SILENCE: u64 = 8;

/// After a greeting, a peer that greets unreadably is not greeted again for so long, which is longer than any round trip: its greeting may be the answer.
const UNREADABLE_INTERVAL: Duration = GREETING_INTERVAL_MAX;

/// How many claims that are not proven are reported of one peer.
const CLAIMS_MAX: usize = 4;

/// News about a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Affair {
    /// There is a session with it. If it is not the first, the peer was restarted and knows nothing of what was before.
    Met {
        /// The peer.
        peer: NodeId,
        /// Whether there was a session with an earlier process of it.
        again: bool,
    },
    /// It cannot work with this node.
    Differs {
        /// The peer.
        peer: NodeId,
        /// What is different.
        what: String,
        /// Whether it is known that the peer said so. Without a common key it is not.
        proven: bool,
    },
    /// Something waits for it, and it has said nothing for too long.
    Silent {
        /// The peer.
        peer: NodeId,
    },
}

/// What depends on a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// Nothing.
    #[default]
    None,
    /// Something will. The peer is greeted and asked for signs of life, and may be silent.
    Later,
    /// Something does now. The peer counts as gone if it is silent for too long.
    Now,
}

/// What this node knows of another one.
#[derive(Default)]
struct Peer {
    session: Option<Session>,
    /// The session that begins with the first datagram of it: the peer may not yet know this process, or an old greeting was replayed.
    candidate: Option<Session>,
    /// The incarnations before the present one. Their datagrams can only be recordings.
    retired: Vec<u64>,
    /// The incarnations since then that cannot work with this node. The next session retires them.
    differing: Vec<u64>,
    /// When it was known to be alive, in the time of [`Peers::awake`].
    heard: Time,
    need: Need,
    /// Since when something depends on it, in the same time.
    needed: Time,
    /// When it was greeted last.
    greeted: Option<Time>,
    /// When a greeting asked it for an answer last, and the time after which an unanswered greeting is repeated.
    asked: Option<Time>,
    interval: Duration,
    /// When it was asked for a sign of life last. Greetings do not count: anybody can cause one, and an answer to it does not show that the peer is alive.
    sign_asked: Option<Time>,
    /// The start of the interval in which greetings are counted, and their count.
    counted_from: Time,
    greetings: u32,
    /// What it, or somebody in its name, has claimed since there was a session with it.
    claims: Vec<String>,
}

impl Peer {
    fn knows(&self, incarnation: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.peer.incarnation == incarnation)
    }
}

/// The other nodes, as this process sees them. It has no clock and sends nothing itself: [`Peers::poll_transmit`] has the messages to be sent.
pub struct Peers {
    me: Process,
    key: Key,
    identity: Identity,
    peers: Vec<Peer>,
    /// The peers that are needed.
    needed: BTreeSet<usize>,
    next_tick: Option<Time>,
    /// For how long this node did not look at its peers although it was time.
    held_up: Duration,
    /// After how long a peer that is needed counts as gone.
    silence: Duration,
    /// Greetings and signs of life that are to be sent.
    messages: VecDeque<(NodeId, Vec<u8>)>,
    affairs: VecDeque<Affair>,
}

impl Peers {
    /// The peers of node `me` in a cluster of `nodes`.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(me: NodeId, nodes: usize, key: Key, identity: Identity, silence: Duration) -> io::Result<Peers> {
        // 0 stands for an incarnation that is not known.
        let incarnation = getrandom::u64().map_err(io::Error::other)?.max(1);
        Ok(Peers {
            me: Process { node: me, incarnation },
            key,
            identity,
            peers: (0..nodes).map(|_| Peer::default()).collect(),
            needed: BTreeSet::new(),
            next_tick: None,
            held_up: Duration::ZERO,
            silence,
            messages: VecDeque::new(),
            affairs: VecDeque::new(),
        })
    }

    /// Whether there is a session with a peer.
    pub fn has_session(&self, peer: NodeId) -> bool {
        self.peers[peer.index()].session.is_some()
    }

    /// The time without that in which this node was held up, by a slow disk or because nobody ran it. Meanwhile it has asked for nothing and read nothing, so no silence is the fault of
    /// others.
    fn awake(&self, now: Time) -> Time {
        let now = self.next_tick.map_or(now, |tick| tick.min(now));
        Time::ZERO + now.saturating_since(Time::ZERO + self.held_up)
    }

    /// Says what depends on a peer. If something does, it is greeted if it is not known, and must give signs of life.
    pub fn set_need(&mut self, now: Time, peer: NodeId, need: Need) {
        let before = std::mem::replace(&mut self.peers[peer.index()].need, need);
        if before == need {
            return;
        }
        if need == Need::None {
            self.needed.remove(&peer.index());
            return;
        }
        self.needed.insert(peer.index());
        self.next_tick.get_or_insert(now + TICK);
        self.peers[peer.index()].needed = self.awake(now);
        if before == Need::None && !self.has_session(peer) {
            self.greet(now, peer, true);
        }
    }

    /// Seals a datagram to a peer as [`Session::seal`] does. Returns `None` if there is no session with it; it is then greeted.
    pub fn seal(&mut self, now: Time, peer: NodeId, buffer: &mut [u8], length: usize, secret: usize) -> Option<usize> {
        match &mut self.peers[peer.index()].session {
            Some(session) => Some(session.seal(buffer, length, secret)),
            None => {
                self.greet(now, peer, true);
                None
            }
        }
    }

    /// Opens a datagram from a peer as [`Session::open`] does.
    ///
    /// # Errors
    /// Why it is not accepted. If there is no session, the peer is greeted.
    pub fn open(&mut self, now: Time, peer: NodeId, datagram: &mut [u8], secret: usize) -> Result<usize, Rejection> {
        let awake = self.awake(now);
        let state = &mut self.peers[peer.index()];
        if let Some(session) = state.session.as_mut().filter(|session| session.is_named_by(datagram)) {
            let length = session.open(datagram, secret)?;
            state.heard = awake;
            return Ok(length);
        }
        if let Some(candidate) = state.candidate.as_mut().filter(|session| session.is_named_by(datagram)) {
            let length = candidate.open(datagram, secret)?;
            let session = state.candidate.take().expect("it has opened the datagram");
            self.establish(now, session);
            return Ok(length);
        }
        self.greet(now, peer, true);
        Err(Rejection::Stranger)
    }

    /// Handles a message between drivers that is not sealed: a greeting.
    ///
    /// # Errors
    /// Why it is ignored.
    pub fn handle_greeting(&mut self, now: Time, peer: NodeId, datagram: &[u8]) -> Result<(), Rejection> {
        let greeting = match Greeting::read(datagram, &self.key, peer, self.me.node) {
            Ok(greeting) => greeting,
            Err(Unread::Forged) => return Err(Rejection::Forged),
            Err(Unread::Foreign) => return Err(Rejection::Stranger),
            Err(other) => {
                let what = match other {
                    Unread::Version(version) => format!("has version {version} of sessions, this node version {VERSION}"),
                    _ => "has another key".to_owned(),
                };
                self.differs(peer, what, false);
                // So that it learns the same. Whether its greeting asks for an answer cannot be read, so two such nodes could answer each other without end.
                if self.peers[peer.index()].greeted.is_none_or(|at| now >= at + UNREADABLE_INTERVAL) {
                    self.greet(now, peer, false);
                }
                return Err(Rejection::Stranger);
            }
        };
        if self.peers[peer.index()].retired.contains(&greeting.incarnation) {
            return Err(Rejection::Replayed);
        }
        // Only who has seen this process's incarnation speaks since it began. Everything else can be a recording of before. It can still be a recording of this session's
        // beginning, so it shows that there is a session, and not that the peer is still alive.
        let fresh = greeting.echo == self.me.incarnation;
        let known = self.peers[peer.index()].knows(greeting.incarnation);
        if greeting.asks || !fresh {
            self.answer(now, peer, greeting.incarnation, !fresh && !known);
        }
        let theirs = Process { node: peer, incarnation: greeting.incarnation };
        match self.difference(&greeting.identity) {
            Some(what) if fresh => {
                let differing = &mut self.peers[peer.index()].differing;
                if !differing.contains(&greeting.incarnation) {
                    differing.push(greeting.incarnation);
                }
                self.differs(peer, what, true);
            }
            Some(_) => {}
            None if known => {}
            None if fresh => self.establish(now, Session::new(&self.key, self.me, theirs)),
            None => self.peers[peer.index()].candidate = Some(Session::new(&self.key, self.me, theirs)),
        }
        Ok(())
    }

    /// Compares the places that a greeting from the address of node `here` gives its sender and its destination.
    pub fn check_places(&mut self, here: NodeId, src: NodeId, dst: NodeId) {
        if (src, dst) != (here, self.me.node) {
            let what = format!(
                "calls itself node {} and this node {}, so its addresses have another order (here: {} and {})",
                src.0, dst.0, here.0, self.me.node.0
            );
            self.differs(here, what, false);
        }
    }

    /// What a node does not have in common with this one.
    fn difference(&self, theirs: &Identity) -> Option<String> {
        let ours = &self.identity;
        if theirs.transport != ours.transport {
            Some(format!("runs {}, this node {}", theirs.transport, ours.transport))
        } else if theirs.parameters != ours.parameters {
            Some(format!("has other parameters of {}", ours.transport))
        } else if theirs.cluster != ours.cluster {
            Some("has other addresses, another order of them, or another line rate, delay or MTU".to_owned())
        } else {
            None
        }
    }

    /// Reports that a peer cannot work with this node. What is not proven anybody can claim, so it is reported a few times only, and not about a peer that has
    /// a session.
    fn differs(&mut self, peer: NodeId, what: String, proven: bool) {
        let state = &mut self.peers[peer.index()];
        let credible = proven || state.session.is_none() && state.claims.len() < CLAIMS_MAX;
        if !credible || state.claims.contains(&what) && !(proven && state.need != Need::None) {
            return;
        }
        if !proven {
            state.claims.push(what.clone());
        }
        self.affairs.push_back(Affair::Differs { peer, what, proven });
    }

    fn establish(&mut self, now: Time, session: Session) {
        let peer = session.peer.node;
        let awake = self.awake(now);
        let state = &mut self.peers[peer.index()];
        let before = state.session.replace(session).map(|session| session.peer.incarnation);
        state.retired.extend(before);
        state.retired.append(&mut state.differing);
        state.candidate = None;
        state.claims.clear();
        state.heard = awake;
        self.affairs.push_back(Affair::Met { peer, again: before.is_some() });
    }

    /// Greets a peer whose incarnation may be known.
    fn greet(&mut self, now: Time, peer: NodeId, asks: bool) {
        let state = &self.peers[peer.index()];
        let theirs = state.session.as_ref().or(state.candidate.as_ref()).map_or(0, |session| session.peer.incarnation);
        self.answer(now, peer, theirs, asks);
    }

    /// Sends a greeting to this incarnation of a peer, if it has not had too many.
    fn answer(&mut self, now: Time, peer: NodeId, incarnation: u64, asks: bool) {
        let state = &mut self.peers[peer.index()];
        if now >= state.counted_from + GREETING_INTERVAL {
            (state.counted_from, state.greetings) = (now, 0);
        }
        if state.greetings == GREETINGS_MAX {
            return;
        }
        state.greetings += 1;
        state.greeted = Some(now);
        if asks {
            state.asked = Some(now);
        }
        let identity = self.identity.clone();
        let greeting = Greeting { incarnation: self.me.incarnation, echo: incarnation, asks, identity };
        self.messages.push_back((peer, greeting.write(&self.key, self.me.node, peer)));
    }

    /// Gives a sign of life to a peer with which there is a session, and perhaps asks for one.
    fn give_sign(&mut self, peer: NodeId, asks: bool) {
        if let Some(session) = &mut self.peers[peer.index()].session {
            let mut bytes = super::head(Kind::Sign, self.me.node, peer).to_vec();
            bytes.push(asks.into());
            let length = bytes.len();
            bytes.resize(length + SEAL_BYTES, 0);
            session.seal(&mut bytes, length, 0);
            self.messages.push_back((peer, bytes));
        }
    }

    /// Handles a sign of life that [`Peers::open`] has opened.
    pub fn handle_sign(&mut self, peer: NodeId, message: &[u8]) {
        if message == [1] {
            self.give_sign(peer, false);
        }
    }

    /// When [`Peers::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_tick
    }

    /// Looks at the peers that are needed, if it is time.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some(tick) = self.next_tick.filter(|tick| *tick <= now) else { return };
        self.held_up += now.saturating_since(tick);
        self.next_tick = Some(now + TICK);
        for index in self.needed.clone() {
            self.look_at(now, NodeId(index as u32));
        }
        self.next_tick = self.next_tick.filter(|_| !self.needed.is_empty());
    }

    fn look_at(&mut self, now: Time, peer: NodeId) {
        let awake = self.awake(now);
        let state = &mut self.peers[peer.index()];
        let quiet_for = awake.saturating_since(state.heard.max(state.needed));
        if state.need == Need::Now && quiet_for >= self.silence {
            state.need = Need::None;
            self.needed.remove(&peer.index());
            self.affairs.push_back(Affair::Silent { peer });
            return;
        }
        let since = |at: Option<Time>| at.map_or(Duration::LONGEST, |at| now.saturating_since(at));
        if state.session.is_some() {
            state.interval = GREETING_INTERVAL;
            if quiet_for.min(since(state.sign_asked)) >= self.silence / ASKS_PER_SILENCE {
                state.sign_asked = Some(now);
                self.give_sign(peer, true);
            }
        } else if since(state.asked) >= state.interval.max(GREETING_INTERVAL) {
            state.interval = (state.interval.max(GREETING_INTERVAL) * 2).min(GREETING_INTERVAL_MAX);
            self.greet(now, peer, true);
        }
    }

    /// The next greeting or sign of life to be sent, oldest first.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Vec<u8>)> {
        self.messages.pop_front()
    }

    /// The next news, oldest first.
    pub fn poll_affair(&mut self) -> Option<Affair> {
        self.affairs.pop_front()
    }
}
