//! Connections between pairs of hosts. They outlive flows.

use std::collections::BTreeMap;

use flowloom_core::{NodeId, Time};

use super::Config;
use super::config::Reuse;
use super::controllers::{Any, Kind};
use super::rtt::RttEstimator;

/// The state of a connection that its next flow inherits.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The congestion window, in packets.
    pub window: f64,
    /// The slow-start threshold, in packets.
    pub threshold: f64,
    /// Round-trip time and timeout.
    pub rtt: RttEstimator,
    /// The congestion control.
    pub controller: Any,
    /// When it last had something to send.
    idle_since: Time,
}

impl Connection {
    fn new(kind: Kind, config: &Config) -> Connection {
        Connection {
            window: f64::from(config.initial_window),
            threshold: f64::INFINITY,
            rtt: RttEstimator::NEW,
            controller: Any::new(kind, config),
            idle_since: Time::ZERO,
        }
    }

    /// Prepares the connection for its next flow. Estimators keep their state in any case: the path is the same.
    fn resume(&mut self, now: Time, config: &Config) {
        let initial = f64::from(config.initial_window);
        match config.reuse {
            Reuse::Keep => {}
            Reuse::Restart => {
                if self.rtt.due(self.idle_since, &config.timeouts()) < now {
                    self.window = self.window.min(initial);
                }
            }
            Reuse::Decay => {
                let timeouts = (now - self.idle_since).as_ps() / self.rtt.timeout(&config.timeouts()).as_ps();
                if timeouts > 0 {
                    self.threshold = self.threshold.max(0.75 * self.window);
                    // A window has at most 2¹⁶ packets.
                    let decayed = self.window / f64::from(1_u32 << timeouts.min(16));
                    self.window = decayed.max(self.window.min(initial));
                }
            }
            Reuse::Reset => (self.window, self.threshold) = (initial, f64::INFINITY),
        }
    }
}

/// The connections of one host to one other.
#[derive(Debug, Default)]
struct Peer {
    idle: Vec<Connection>,
    opened: u32,
}

/// The connections of one host. A flow takes the most recently used idle connection, or a new one if all are busy.
#[derive(Debug)]
pub struct Connections {
    kind: Kind,
    peers: BTreeMap<NodeId, Peer>,
}

impl Connections {
    /// The initial state: all hosts are connected, and nothing was sent yet.
    pub fn new(kind: Kind) -> Connections {
        Connections { kind, peers: BTreeMap::new() }
    }

    /// A connection for a flow, and whether it needs a handshake first.
    pub fn take(&mut self, now: Time, peer: NodeId, config: &Config) -> (Connection, bool) {
        let peer = self.peers.entry(peer).or_default();
        if let Some(mut connection) = peer.idle.pop() {
            connection.resume(now, config);
            return (connection, false);
        }
        peer.opened += 1;
        (Connection::new(self.kind, config), config.handshake && peer.opened > config.connections)
    }

    /// Takes back the connection of a complete flow.
    pub fn release(&mut self, now: Time, peer: NodeId, mut connection: Connection, config: &Config) {
        if !config.persistent {
            return;
        }
        connection.idle_since = now;
        self.peers.entry(peer).or_default().idle.push(connection);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::Duration;

    use super::*;
    use crate::tcp::config::RtoRule;

    const PEER: NodeId = NodeId(7);

    fn at_us(us: u64) -> Time {
        Time::ZERO + Duration::from_us(us)
    }

    #[test]
    fn the_pool_grows_when_all_are_busy_and_what_it_grows_by_needs_a_handshake() {
        let config = Config { connections: 2, handshake: true, ..Config::default() };
        let mut pool = Connections::new(Kind::Dctcp);
        let fresh: Vec<bool> = (0..3).map(|_| pool.take(at_us(0), PEER, &config).1).collect();
        assert_eq!(fresh, [false, false, true]);
        assert!(!pool.take(at_us(0), NodeId(8), &config).1, "other peers have connections of their own");
        let (connection, _) = pool.take(at_us(0), PEER, &config);
        pool.release(at_us(5), PEER, connection, &config);
        assert!(!pool.take(at_us(6), PEER, &config).1, "there is an idle connection");
    }

    #[test]
    fn a_connection_that_does_not_persist_serves_one_flow() {
        let config = Config { connections: 0, handshake: true, persistent: false, ..Config::default() };
        let mut pool = Connections::new(Kind::Dctcp);
        for _ in 0..2 {
            let (mut connection, fresh) = pool.take(at_us(0), PEER, &config);
            assert!(fresh && connection.window == f64::from(config.initial_window));
            connection.window = 2.0;
            pool.release(at_us(1), PEER, connection, &config);
        }
    }

    #[test]
    fn a_window_lasts_for_a_timeout_and_falls_back_to_the_initial_one() {
        let after = reused(Reuse::Restart);
        assert_eq!(after(40.0, 100), (40.0, 20.0));
        assert_eq!(after(40.0, 101), (10.0, 20.0));
        assert_eq!(after(4.0, 1000), (4.0, 20.0));
    }

    #[test]
    fn without_a_restart_a_window_lasts_for_ever() {
        let after = reused(Reuse::Keep);
        assert_eq!(after(40.0, 1_000_000), (40.0, 20.0));
        assert_eq!(after(4.0, 1_000_000), (4.0, 20.0));
    }

    /// RFC 2861 §3.1. The second case is that of Linux's own test of it (packetdrill's slow-start-after-idle): a window of 36 packets that
    /// idles for long is the initial one of 10.
    #[test]
    fn a_decaying_window_halves_per_timeout_and_the_threshold_remembers_it() {
        let after = reused(Reuse::Decay);
        assert_eq!(after(36.0, 99), (36.0, 20.0));
        assert_eq!(after(36.0, 1_000_000), (10.0, 27.0));
        assert_eq!(after(48.0, 150), (24.0, 36.0));
        assert_eq!(after(48.0, 250), (12.0, 36.0));
        assert_eq!(after(48.0, 350), (10.0, 36.0));
        // A window that is below the initial one stays, and so does a threshold above it.
        assert_eq!(after(4.0, 1000), (4.0, 20.0));
    }

    #[test]
    fn a_reset_connection_is_as_a_new_one() {
        let after = reused(Reuse::Reset);
        assert_eq!(after(40.0, 1), (10.0, f64::INFINITY));
        assert_eq!(after(4.0, 1), (10.0, f64::INFINITY));
    }

    /// Window and threshold after one flow left a window and a threshold of 20, and the next one came some microseconds later. The initial
    /// window is 10, the timeout 100 µs.
    fn reused(reuse: Reuse) -> impl Fn(f64, u64) -> (f64, f64) {
        let rto_min = Duration::from_us(100);
        let config = Config { initial_window: 10, reuse, rto_rule: RtoRule::Fixed, rto_min, ..Config::default() };
        move |window, idle_us| {
            let mut pool = Connections::new(Kind::NewReno);
            let (mut connection, _) = pool.take(at_us(0), PEER, &config);
            (connection.window, connection.threshold) = (window, 20.0);
            pool.release(at_us(1000), PEER, connection, &config);
            let (connection, _) = pool.take(at_us(1000 + idle_us), PEER, &config);
            (connection.window, connection.threshold)
        }
    }
}
