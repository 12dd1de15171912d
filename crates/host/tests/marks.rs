//! The kernel keeps classes and ECN fields: every TOS byte arrives as it was sent.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flowloom_core::{Bytes, Ecn, NodeId};
use flowloom_host::{Arrival, Cluster, Datagrams, InMemory, Node, Profile, Udp, marking};
use flowloom_transports::phost::PHost;

/// The time limit of a test that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Receives the next datagram, which has been sent.
fn next(socket: &mut Udp, buffer: &mut [u8]) -> Arrival {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(arrival) = socket.receive(buffer).unwrap() {
            return arrival;
        }
        assert!(Instant::now() < deadline, "no datagram arrived within {TIME_LIMIT:?}");
        socket.wait(Duration::from_secs(1)).unwrap();
    }
}

/// Sends one datagram with each TOS byte, and one with each class and ECN field, between two sockets at `address`.
fn every_byte_arrives(address: &str) {
    let address: SocketAddr = address.parse().unwrap();
    let (mut from, mut to) = (Udp::bind(address).unwrap(), Udp::bind(address).unwrap());
    let (source, destination) = (from.local_address().unwrap(), to.local_address().unwrap());
    let mut buffer = [0; 100];
    for tos in 0..=u8::MAX {
        from.send(destination, tos, &[tos, 1, 2]).unwrap();
        assert_eq!(from.flush().unwrap(), 0);
        let arrival = next(&mut to, &mut buffer);
        assert_eq!(arrival, Arrival { from: source, bytes: 3, tos });
        assert_eq!(buffer[..3], [tos, 1, 2]);
    }
    for class in 0..8 {
        for ecn in [Ecn::NotCapable, Ecn::Capable, Ecn::Marked] {
            from.send(destination, marking::to_tos(class, ecn), b"").unwrap();
            from.flush().unwrap();
            assert_eq!(marking::from_tos(next(&mut to, &mut buffer).tos), (class, ecn));
        }
    }
    assert_eq!(to.receive(&mut buffer).unwrap(), None);
}

#[test]
fn every_tos_byte_arrives_over_ipv4() {
    every_byte_arrives("127.0.0.1:0");
}

#[test]
fn every_traffic_class_byte_arrives_over_ipv6() {
    match Udp::bind("[::1]:0".parse().unwrap()) {
        Ok(_) => every_byte_arrives("[::1]:0"),
        Err(error) => eprintln!("this machine has no IPv6 loopback ({error}); IPv6 was not tested"),
    }
}

/// A socket that records the TOS bytes of received datagrams.
struct Recording {
    inner: Udp,
    seen: BTreeSet<u8>,
}

impl Datagrams for Recording {
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<()> {
        self.inner.send(to, tos, datagram)
    }
    fn flush(&mut self) -> io::Result<u64> {
        self.inner.flush()
    }
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        let arrival = self.inner.receive(buffer)?;
        self.seen.extend(arrival.map(|arrival| arrival.tos));
        Ok(arrival)
    }
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.inner.wait(timeout)
    }
}

/// pHost sends control in class 0, short flows' data in class 1 and long flows' data in class 2 (§3.3 of the paper).
#[test]
fn a_transport_s_classes_arrive_as_dscp() {
    let sockets: Vec<Udp> = (0..2).map(|_| Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap()).collect();
    let addresses = sockets.iter().map(|socket| socket.local_address().unwrap()).collect();
    let cluster = Cluster::new(addresses, Profile::LOOPBACK).unwrap();
    let mut nodes: Vec<_> = (0..)
        .zip(sockets)
        .map(|(me, inner)| {
            let recording = Recording { inner, seen: BTreeSet::new() };
            let store = Box::new(InMemory::new(Bytes::new(1 << 20)));
            Node::<PHost, _>::over(recording, store, &Default::default(), &cluster, NodeId(me)).unwrap()
        })
        .collect();
    let (mut b, mut a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    a.send(NodeId(1), vec![1; 100]).unwrap();
    a.send(NodeId(1), vec![2; 100_000]).unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    while a.unacknowledged() > 0 {
        assert!(Instant::now() < deadline, "the two flows were not complete after {TIME_LIMIT:?}");
        // One thread runs both nodes, so neither may wait for long.
        a.step(Duration::from_micros(100)).unwrap();
        b.step(Duration::from_micros(100)).unwrap();
    }
    // The destination receives CS7, CS6 and CS5. The source receives tokens and acknowledgements, which are CS7.
    assert_eq!(b.network().seen, BTreeSet::from([56 << 2, 48 << 2, 40 << 2]));
    assert_eq!(a.network().seen, BTreeSet::from([56 << 2]));
}
