//! Fault injection, as a wrapper around a network. A node without faults does not need it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::datagrams::{Arrival, Datagrams};

/// The faults of datagrams on their way to a node. Each datagram is affected independently.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// The share of datagrams that are lost.
    pub loss: f64,
    /// The share of datagrams that arrive a second time, up to `delay_max` later.
    pub duplicate: f64,
    /// The share of datagrams that are held back for up to `delay_max`, so that others overtake them.
    pub reorder: f64,
    /// The longest time a datagram is held back.
    pub delay_max: Duration,
}

/// How often each fault happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams duplicated.
    pub duplicated: u64,
    /// Datagrams held back.
    pub reordered: u64,
}

/// A network that loses, duplicates and reorders the datagrams that this node receives.
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    faults: Faults,
    random: Xoshiro256PlusPlus,
    /// The datagrams that are held back, by their release time and a number that makes the key unique.
    held: BTreeMap<(Instant, u64), (Arrival, Vec<u8>)>,
    held_ever: u64,
    counts: FaultCounts,
}

impl<D: Datagrams> Faulty<D> {
    /// `inner` with `faults`.
    pub fn new(inner: D, faults: Faults, seed: u64) -> Faulty<D> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Faulty { inner, faults, random, held: BTreeMap::new(), held_ever: 0, counts: FaultCounts::default() }
    }

    /// The network below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// How often each fault has happened.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn happens(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    fn hold(&mut self, arrival: Arrival, datagram: &[u8]) {
        let due = Instant::now() + self.faults.delay_max.mul_f64(self.unit());
        self.held_ever += 1;
        self.held.insert((due, self.held_ever), (arrival, datagram[..arrival.bytes].to_vec()));
    }
}

impl<D: Datagrams> Datagrams for Faulty<D> {
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<()> {
        self.inner.send(to, tos, datagram)
    }

    fn flush(&mut self) -> io::Result<u64> {
        self.inner.flush()
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        if let Some(held) = self.held.first_entry()
            && held.key().0 <= Instant::now()
        {
            let (arrival, datagram) = held.remove();
            buffer[..arrival.bytes].copy_from_slice(&datagram);
            return Ok(Some(arrival));
        }
        while let Some(arrival) = self.inner.receive(buffer)? {
            if self.happens(self.faults.loss) {
                self.counts.lost += 1;
            } else if self.happens(self.faults.reorder) {
                self.counts.reordered += 1;
                self.hold(arrival, buffer);
            } else {
                if self.happens(self.faults.duplicate) {
                    self.counts.duplicated += 1;
                    self.hold(arrival, buffer);
                }
                return Ok(Some(arrival));
            }
        }
        Ok(None)
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let held = self.held.first_key_value().map(|((due, _), _)| due.saturating_duration_since(Instant::now()));
        self.inner.wait(held.map_or(timeout, |held| timeout.min(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::MemoryNetwork;

    /// Sends 1000 datagrams, numbered 0 to 249 over and over in their first byte. Returns the first bytes of those that arrive.
    fn arrivals(faults: Faults) -> (Vec<u8>, FaultCounts) {
        let from = SocketAddr::from(([127, 0, 0, 1], 7000));
        let arriving = (0..1000).map(|n| (from, 0, vec![(n % 250) as u8, 1, 2])).collect();
        let mut faulty = Faulty::new(MemoryNetwork { arriving, ..MemoryNetwork::default() }, faults, 7);
        let mut buffer = [0; 10];
        let mut arrived = Vec::new();
        loop {
            match faulty.receive(&mut buffer).unwrap() {
                Some(arrival) => {
                    assert_eq!((arrival.from, arrival.bytes, &buffer[1..3]), (from, 3, &[1, 2][..]));
                    arrived.push(buffer[0]);
                }
                // A datagram is held back for a time of zero and arrives at the next call.
                None if !faulty.held.is_empty() => {}
                None => break,
            }
        }
        (arrived, faulty.counts())
    }

    #[test]
    fn without_faults_all_arrive_in_order() {
        let (arrived, counts) = arrivals(Faults::default());
        assert_eq!(counts, FaultCounts::default());
        assert!(arrived.iter().zip(0..).all(|(byte, n)| usize::from(*byte) == n % 250) && arrived.len() == 1000);
    }

    #[test]
    fn lost_datagrams_do_not_arrive_and_duplicated_ones_arrive_twice() {
        let (arrived, counts) = arrivals(Faults { loss: 0.3, duplicate: 0.3, reorder: 0.3, delay_max: Duration::ZERO });
        // 30 % are lost, 30 % of the others are held back, and 30 % of the rest are duplicated. The bounds are five standard
        // deviations.
        assert!(counts.lost.abs_diff(300) < 73 && counts.reordered.abs_diff(210) < 65 && counts.duplicated.abs_diff(147) < 56);
        assert_eq!(arrived.len() as u64, 1000 - counts.lost + counts.duplicated);
    }

    #[test]
    fn with_a_loss_of_one_nothing_arrives() {
        assert!(arrivals(Faults { loss: 1.0, ..Faults::default() }).0.is_empty());
    }

    /// A datagram that is held back arrives after later ones, and limits how long a node waits.
    #[test]
    fn what_is_held_back_is_overtaken_and_ends_a_wait() {
        let from = SocketAddr::from(([127, 0, 0, 1], 7000));
        let mut network = MemoryNetwork::default();
        network.arriving.push_back((from, 0, vec![1]));
        let hour = Duration::from_secs(3600);
        let faults = Faults { reorder: 1.0, delay_max: hour, ..Faults::default() };
        let mut faulty = Faulty::new(network, faults, 7);
        let mut buffer = [0; 10];
        assert_eq!(faulty.receive(&mut buffer).unwrap(), None);
        faulty.faults.reorder = 0.0;
        faulty.inner.arriving.push_back((from, 0, vec![2]));
        assert!(faulty.receive(&mut buffer).unwrap().is_some());
        assert_eq!(buffer[0], 2);
        faulty.wait(hour).unwrap();
        assert!(faulty.inner.waited.is_some_and(|waited| waited < hour));
    }
}
