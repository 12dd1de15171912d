//! A node with a clock and a network.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{Duration, Instant};

use flowloom_core::{FlowId, NodeId, Time, Transport};

use crate::cluster::{Cluster, invalid};
use crate::datagrams::{Datagrams, Udp};
use crate::driver::{Driver, Notice};
use crate::stats::Stats;

/// Time since the process made its node, from the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    /// # Panics
    /// After 213 days, the range of [`Time`].
    fn now(&self) -> Time {
        let ps = self.0.elapsed().as_nanos() * 1000;
        Time::from_ps(u64::try_from(ps).expect("a node runs for less than 213 days"))
    }

    /// How long until `time`, rounded up so that waiting for it does not end just before.
    fn until(&self, time: Time) -> Duration {
        Duration::from_nanos(time.saturating_since(self.now()).as_ps().div_ceil(1000))
    }
}

/// One node of a [`Cluster`] that runs transport `T`: sends and receives flows of bytes over UDP. Nothing happens between calls:
/// the caller keeps calling [`Node::step`] or [`Node::run_until`], also for flows that others send.
///
/// ```no_run
/// use flowloom_core::NodeId;
/// use flowloom_host::{Cluster, Node, Notice, Profile};
/// use flowloom_transports::phost::PHost;
///
/// # fn main() -> std::io::Result<()> {
/// let nodes = vec!["127.0.0.1:7000".parse().unwrap(), "127.0.0.1:7001".parse().unwrap()];
/// let cluster = Cluster::new(nodes, Profile::LOOPBACK)?;
/// let mut node = Node::<PHost>::bind(&Default::default(), &cluster, NodeId(0))?;
/// let flow = node.send(NodeId(1), b"hello".to_vec())?;
/// while node.unacknowledged() > 0 {
///     node.step(std::time::Duration::from_millis(100))?;
///     while let Some(notice) = node.poll_notice() {
///         println!("{notice:?}");
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Node<T: Transport, D: Datagrams = Udp> {
    driver: Driver<T>,
    network: D,
    clock: Clock,
}

impl<T: Transport> Node<T> {
    /// Node `me` of `cluster`, on a socket at its address.
    ///
    /// # Errors
    /// Where there is no such node, the address cannot be bound, the MTU has no room for payload, or the transport has control nodes.
    pub fn bind(config: &T::Config, cluster: &Cluster, me: NodeId) -> io::Result<Node<T>> {
        let address = cluster.addresses().get(me.index()).ok_or_else(|| invalid(format!("there is no node {}", me.0)))?;
        Node::over(Udp::bind(*address)?, config, cluster, me)
    }
}

impl<T: Transport, D: Datagrams> Node<T, D> {
    /// Node `me` of `cluster` over any network.
    ///
    /// # Errors
    /// As [`Node::bind`].
    pub fn over(network: D, config: &T::Config, cluster: &Cluster, me: NodeId) -> io::Result<Node<T, D>> {
        let seed = RandomState::new().build_hasher().finish();
        Ok(Node { driver: Driver::new(config, cluster, me, seed)?, network, clock: Clock(Instant::now()) })
    }

    /// Begins to send `data` to `dst` as one flow. Its first packets leave in the next [`Node::step`].
    ///
    /// # Errors
    /// Where `dst` is no other node, or 2^20 flows from here are open.
    pub fn send(&mut self, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        self.driver.open(self.clock.now(), dst, data)
    }

    /// Sends and receives what is due, waits until something comes or is due, at most for `timeout`, and handles that.
    ///
    /// # Errors
    /// What the network reports, other than that a datagram was lost.
    pub fn step(&mut self, timeout: Duration) -> io::Result<()> {
        self.driver.advance(self.clock.now(), &mut self.network)?;
        let patience = self.driver.next_instant().map_or(timeout, |due| timeout.min(self.clock.until(due)));
        self.network.wait(patience)?;
        let now = self.clock.now();
        self.driver.advance(now, &mut self.network)?;
        self.driver.receive(now, &mut self.network)
    }

    /// Steps until `done` says so, or `deadline`; returns whether it was done.
    ///
    /// # Errors
    /// As [`Node::step`].
    pub fn run_until(&mut self, deadline: Instant, mut done: impl FnMut(&mut Self) -> bool) -> io::Result<bool> {
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.step(left)?;
        }
        Ok(true)
    }

    /// What became of flows, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.driver.poll_notice()
    }

    /// How many flows from here are not yet acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.driver.unacknowledged()
    }

    /// Counters since the node was made.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// What it sends and receives by.
    pub fn network(&self) -> &D {
        &self.network
    }
}
