//! Injected faults, as a wrapper around a network: what a node without faults runs is not touched.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::datagrams::{Arrival, Datagrams};

/// What goes wrong with datagrams on their way to a node, each of them on its own.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Share of datagrams that are lost.
    pub loss: f64,
    /// Share that arrive a second time, after up to `delay_max`.
    pub duplicate: f64,
    /// Share that are held back for up to `delay_max`, so that others overtake them.
    pub reorder: f64,
    /// The longest time a datagram is held back.
    pub delay_max: Duration,
}

/// How often each fault happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams doubled.
    pub duplicated: u64,
    /// Datagrams held back.
    pub reordered: u64,
}

/// A network on which datagrams to this node are lost, doubled and held back.
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    faults: Faults,
    random: Xoshiro256PlusPlus,
    /// Datagrams held back, by when they are due and a number that tells equals apart.
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

    /// How often each fault happened so far.
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
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<bool> {
        self.inner.send(to, tos, datagram)
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
