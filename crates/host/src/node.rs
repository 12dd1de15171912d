//! A driver with a clock and a network: what an application uses.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{Duration, Instant};

use flowloom_core::{Bytes, Flow, FlowId, NodeId, Time, Transport};

use crate::cluster::{Cluster, invalid};
use crate::datagrams::{Datagrams, Udp};
use crate::driver::{Driver, Notice};
use crate::stats::Stats;
use crate::store::{InMemory, Store};
use crate::sys::monotonic_time;
use crate::transfers::Sent;

/// How much of unfinished flows a node keeps in memory.
const MEMORY: Bytes = Bytes::new(1 << 30);

/// How far in the future and in the past a common start may be.
const AHEAD_MAX: Duration = Duration::from_secs(3600);
const AGO_MAX: Duration = Duration::from_secs(100 * 24 * 3600);
/// The common start in the time of nodes that have one ([`Node::set_start`]). Their time begins ten seconds before it, so that there is time for greetings. That is not
/// longer because some headers have 32 bits for a time.
pub const START: Time = Time::from_ps(LEAD.as_nanos() as u64 * 1000);
const LEAD: Duration = Duration::from_secs(10);

/// The time since an instant of the monotonic clock; zero before it.
#[derive(Clone, Copy, Debug)]
struct Clock {
    zero: Duration,
}

impl Clock {
    /// # Panics
    /// After 213 days, the range of [`Time`].
    fn now(&self) -> Time {
        let ps = monotonic_time().saturating_sub(self.zero).as_nanos() * 1000;
        Time::from_ps(u64::try_from(ps).expect("a node runs for less than 213 days"))
    }

    /// The duration until `time`, rounded up so that a wait does not end too early.
    fn until(&self, time: Time) -> Duration {
        Duration::from_nanos(time.saturating_since(self.now()).as_ps().div_ceil(1000))
    }
}

/// One node of a [`Cluster`]. It runs transport `T`, and sends and receives flows of bytes over UDP. It works only during calls: the
/// caller must keep calling [`Node::step`] or [`Node::run_until`], also to receive flows.
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
    busy: bool,
    grain: Duration,
}

impl<T: Transport> Node<T> {
    /// Node `me` of `cluster`, on a socket at its address. It keeps the flows that it receives in memory, of which unfinished ones take 1 GiB at most.
    ///
    /// # Errors
    /// If there is no such node, the address cannot be bound, the MTU has no room for payload, or the transport needs control nodes.
    pub fn bind(config: &T::Config, cluster: &Cluster, me: NodeId) -> io::Result<Node<T>> {
        let member = cluster.members().get(me.index()).ok_or_else(|| invalid(format!("there is no node {}", me.0)))?;
        let address = member.address.ok_or_else(|| invalid(format!("\"{}\" has no address", member.name)))?;
        Node::over(Udp::bind(address)?, Box::new(InMemory::new(MEMORY)), config, cluster, me)
    }
}

impl<T: Transport, D: Datagrams> Node<T, D> {
    /// Node `me` of `cluster` over any network, which keeps in `store` what it receives.
    ///
    /// # Errors
    /// As [`Node::bind`].
    pub fn over(
        network: D,
        store: Box<dyn Store>,
        config: &T::Config,
        cluster: &Cluster,
        me: NodeId,
    ) -> io::Result<Node<T, D>> {
        let seed = RandomState::new().build_hasher().finish();
        let grain = Duration::from_nanos(cluster.profile().grain.as_ps() / 1000);
        Ok(Node {
            driver: Driver::new(config, cluster, me, seed, store)?,
            network,
            clock: Clock { zero: monotonic_time() },
            busy: false,
            grain,
        })
    }

    /// Makes this node's time that of all nodes of the machine that are told the same start, an instant of `CLOCK_MONOTONIC`. In this time, the start is [`START`]; more than
    /// ten seconds before it, the time stands still. So nodes can compare their times, and flows can be planned relative to the start. This must come before the first flow
    /// and the first step.
    ///
    /// # Errors
    /// If the start is more than an hour from now, or a hundred days ago or more.
    pub fn set_start(&mut self, start: Duration) -> io::Result<()> {
        let now = monotonic_time();
        let zero = start.checked_sub(LEAD).filter(|_| start <= now + AHEAD_MAX && start + AGO_MAX >= now);
        let zero = zero.ok_or_else(|| {
            invalid(format!(
                "a start at {} ns of CLOCK_MONOTONIC, which is at {} ns now; it must be at most an hour from now, and less than a hundred days ago",
                start.as_nanos(),
                now.as_nanos()
            ))
        })?;
        self.clock = Clock { zero };
        Ok(())
    }

    /// Starts to send `data` to `dst` as one flow. Its first packets are sent in the next [`Node::step`].
    ///
    /// # Errors
    /// If `dst` is this node or does not exist, or this process has used all its flow ids, of which there are 2^20 or more.
    pub fn send(&mut self, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        self.driver.open(self.clock.now(), dst, data)
    }

    /// Plans to send a flow of zeros, which begins at its start, in the time of this node, or when its destination is there. It is given up if that takes longer than
    /// [`Profile::silence`](crate::Profile::silence) after the start of the first flow that waits for the destination. Its id and its source are chosen here.
    ///
    /// # Errors
    /// As [`Node::send`].
    pub fn plan(&mut self, flow: Flow) -> io::Result<FlowId> {
        self.driver.plan(self.clock.now(), flow)
    }

    /// Handles the events that are due. Then waits for a datagram or the next event, for `timeout` at most, and handles what came.
    ///
    /// # Errors
    /// Errors of the network, except the loss of a datagram.
    pub fn step(&mut self, timeout: Duration) -> io::Result<()> {
        self.driver.advance(self.clock.now(), &mut self.network)?;
        let wait_max = self.driver.next_instant().map_or(timeout, |due| timeout.min(self.clock.until(due)));
        if self.busy {
            // It never sleeps.
        } else if wait_max < self.grain {
            std::thread::sleep(self.grain);
        } else {
            self.network.wait(wait_max)?;
        }
        let now = self.clock.now();
        self.driver.advance(now, &mut self.network)?;
        self.driver.receive(now, &mut self.network)
    }

    /// Says whether the node never sleeps. It then takes a core for itself, and no wake-up is late.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Repeats [`Node::step`] until `done` returns true or `deadline` has passed. Returns whether `done` returned true.
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

    /// The next notice of a flow, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.driver.poll_notice()
    }

    /// The time of this node.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Flows from this node that are neither acknowledged nor given up, and what was sent of each.
    pub fn open_flows(&self) -> Vec<(FlowId, Sent)> {
        self.driver.open_flows()
    }

    /// Flows to this node that are not complete, and how many bytes of each have arrived.
    pub fn unfinished(&self) -> Vec<(FlowId, Bytes)> {
        self.driver.unfinished()
    }

    /// How many flows from this node are not yet acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.driver.unacknowledged()
    }

    /// How many flows from this node were given up, and their destinations may not know it yet. They are told until they confirm it, or have confirmed nothing
    /// for [`Profile::silence`](crate::Profile::silence). If the node ends earlier, they notice only that it is gone.
    pub fn unconfirmed(&self) -> usize {
        self.driver.unconfirmed()
    }

    /// Counters since the node was created.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    /// The network that it sends and receives datagrams on.
    pub fn network(&self) -> &D {
        &self.network
    }
}
