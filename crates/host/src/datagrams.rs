//! The interface for sending and receiving datagrams, and its UDP implementation.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::sys;

/// The requested size of the kernel's receive buffer. It must hold what arrives while a busy machine does not run the process, in bursts: 8 MiB is
/// about 3600 packets of 1500 B as Linux counts them. Without privileges, `net.core.rmem_max` is the limit (212,992 B by default, about 180 packets).
const RECEIVE_BUFFER_BYTES: i32 = 1 << 23;

/// A received datagram, without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The address of its sender.
    pub from: SocketAddr,
    /// Its length.
    pub bytes: usize,
    /// Its TOS (IPv4) or traffic class (IPv6) byte.
    pub tos: u8,
}

/// Sends and receives datagrams without blocking. [`Udp`] is the real implementation. Fault injection ([`Faulty`](crate::Faulty)),
/// tracing and recording are wrappers around another implementation.
pub trait Datagrams {
    /// Sends a datagram, or keeps it until [`Datagrams::flush`].
    ///
    /// # Errors
    /// Errors after which sending cannot succeed any more.
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<()>;
    /// Sends what was kept. Returns how many datagrams since the last call were lost at once, because the system did not take them.
    ///
    /// # Errors
    /// Errors after which sending cannot succeed any more.
    fn flush(&mut self) -> io::Result<u64>;
    /// Receives the next datagram into the front of `buffer`, if there is one.
    ///
    /// # Errors
    /// Errors after which receiving cannot succeed any more.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>>;
    /// Waits until there may be a datagram to receive, for `timeout` at most.
    ///
    /// # Errors
    /// Errors after which waiting cannot succeed any more.
    fn wait(&mut self, timeout: Duration) -> io::Result<()>;
}

/// How many datagrams the kernel cuts out of one batch at most; older kernels allow no more.
const SEGMENTS_MAX: usize = 64;
/// How many bytes fit into one batch: what an IP packet can hold.
const BATCH_BYTES_MAX: usize = 65_535 - 40 - 8;
/// How many batches are open at once. A node that sends data and tokens to a few peers in turn keeps a batch for each.
const OPEN_BATCHES: usize = 8;

/// Datagrams of one length, to one address, with one TOS byte, that wait to be sent together. The last may be shorter.
#[derive(Debug)]
struct Batch {
    to: SocketAddr,
    tos: u8,
    segment: usize,
    bytes: Vec<u8>,
}

impl Batch {
    fn is_to(&self, to: SocketAddr, tos: u8) -> bool {
        (self.to, self.tos) == (to, tos)
    }

    /// Whether a datagram of this length can be added.
    fn takes(&self, length: usize) -> bool {
        let whole = self.bytes.len().is_multiple_of(self.segment);
        whole
            && (1..=self.segment).contains(&length)
            && self.bytes.len() + length <= BATCH_BYTES_MAX
            && self.bytes.len() / self.segment < SEGMENTS_MAX
    }
}

/// The system call that sends a batch: socket, address, TOS byte, bytes, length of a datagram.
type SendBatch = fn(BorrowedFd<'_>, &SocketAddr, u8, &[u8], usize) -> io::Result<()>;

/// A UDP socket. It collects datagrams of one kind and gives them to the kernel together, and takes together what has arrived.
pub struct Udp {
    socket: UdpSocket,
    batches: Vec<Batch>,
    /// Where batches do not go: a device on the way cannot cut them, or a datagram of them is longer than its MTU.
    uncut: HashSet<SocketAddr>,
    /// The system call that sends. A test can let it refuse.
    system: SendBatch,
    lost: u64,
    inbox: sys::Inbox,
    /// What is in the inbox, and the first batch and byte that was not yet handed out.
    arrived: Vec<sys::Received>,
    next: (usize, usize),
    calls: u64,
}

impl std::fmt::Debug for Udp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Udp({:?})", self.socket)
    }
}

impl Udp {
    /// Binds a socket. With port 0 the system chooses the port.
    ///
    /// # Errors
    /// What the system reports.
    pub fn bind(address: SocketAddr) -> io::Result<Udp> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        sys::report_tos(socket.as_fd(), &address)?;
        sys::set_receive_buffer(socket.as_fd(), RECEIVE_BUFFER_BYTES)?;
        // A kernel before 5.0 gives one datagram at a time.
        let _ = sys::receive_batches(socket.as_fd());
        let inbox = sys::Inbox::default();
        Ok(Udp {
            socket,
            batches: Vec::new(),
            uncut: HashSet::new(),
            system: sys::send,
            lost: 0,
            inbox,
            arrived: Vec::new(),
            next: (0, 0),
            calls: 0,
        })
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// What the system reports.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// How many system calls it has made to send, receive and wait.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Gives a batch to the kernel.
    fn send_batch(&mut self, batch: &Batch) -> io::Result<()> {
        let datagrams = batch.bytes.len().div_ceil(batch.segment);
        let whole = datagrams <= 1 || !self.uncut.contains(&batch.to);
        if whole {
            match self.send_now(batch, &batch.bytes)? {
                Outcome::Sent => return Ok(()),
                // Datagrams that do not go together may go one by one: to a device that cannot cut, or with an MTU below their length.
                Outcome::Unfit if datagrams > 1 => {}
                Outcome::Unfit | Outcome::Refused | Outcome::Full => {
                    self.lost += datagrams as u64;
                    return Ok(());
                }
            }
        }
        let mut sent = false;
        for datagram in batch.bytes.chunks(batch.segment) {
            match self.send_now(batch, datagram)? {
                Outcome::Sent => sent = true,
                Outcome::Unfit | Outcome::Refused | Outcome::Full => self.lost += 1,
            }
        }
        if whole && sent {
            self.uncut.insert(batch.to);
        }
        Ok(())
    }

    fn send_now(&mut self, Batch { to, tos, segment, .. }: &Batch, bytes: &[u8]) -> io::Result<Outcome> {
        loop {
            self.calls += 1;
            match (self.system)(self.socket.as_fd(), to, *tos, bytes, *segment) {
                Ok(()) => return Ok(Outcome::Sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_full(&error) => return Ok(Outcome::Full),
                Err(error) if is_broken(&error) => return Err(error),
                Err(error) if is_unfit(&error) => return Ok(Outcome::Unfit),
                Err(_) => return Ok(Outcome::Refused),
            }
        }
    }

    /// Fills the inbox. Returns false if nothing has arrived.
    fn fill(&mut self) -> io::Result<bool> {
        self.arrived.clear();
        self.next = (0, 0);
        loop {
            self.calls += 1;
            match self.inbox.receive(self.socket.as_fd(), &mut self.arrived) {
                Ok(()) => return Ok(!self.arrived.is_empty()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_broken(&error) => return Err(error),
                // There is none, or what the system reports is about a datagram that was sent.
                Err(_) => return Ok(false),
            }
        }
    }
}

/// What the kernel did with what it was given to send.
enum Outcome {
    Sent,
    /// It cannot send it in this form: nobody on the way can cut it, or it is too long.
    Unfit,
    /// It does not send to this address now. A route or a firewall is against it, or the network is down.
    Refused,
    /// It has no room for it now.
    Full,
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Whether an error may be about the form of what is sent. A route can also give some of these.
fn is_unfit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

/// Whether an error is about the socket or this program. Every other one is about a datagram, and after it others can be sent and received: there are many such errors, and
/// each address has its own.
fn is_broken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), None | Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT))
}

impl Datagrams for Udp {
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<()> {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.is_to(to, tos) && batch.takes(datagram.len())) {
            batch.bytes.extend_from_slice(datagram);
            return Ok(());
        }
        // Datagrams of one class to one address stay in order.
        let full = self.batches.iter().position(|batch| batch.is_to(to, tos));
        if let Some(index) = full.or((self.batches.len() == OPEN_BATCHES).then_some(0)) {
            let batch = self.batches.remove(index);
            self.send_batch(&batch)?;
        }
        self.batches.push(Batch { to, tos, segment: datagram.len().max(1), bytes: datagram.to_vec() });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<u64> {
        for batch in std::mem::take(&mut self.batches) {
            self.send_batch(&batch)?;
        }
        Ok(std::mem::take(&mut self.lost))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        let (mut batch, mut at) = self.next;
        if batch == self.arrived.len() {
            // Fewer batches than there is room for were all that there was.
            let drained = batch > 0 && batch < sys::BATCHES;
            self.arrived.clear();
            self.next = (0, 0);
            if drained || !self.fill()? {
                return Ok(None);
            }
            (batch, at) = (0, 0);
        }
        let sys::Received { from, tos, bytes, segment } = self.arrived[batch];
        let end = bytes.min(at + segment);
        buffer[..end - at].copy_from_slice(&self.inbox.bytes(batch)[at..end]);
        self.next = if end == bytes { (batch + 1, 0) } else { (batch, end) };
        Ok(Some(Arrival { from, bytes: end - at, tos }))
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        // What is in the inbox need not be waited for.
        if self.next.0 < self.arrived.len() {
            return Ok(());
        }
        self.calls += 1;
        sys::wait(self.socket.as_fd(), timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length, the TOS byte, and which of two destinations.
    fn plan() -> Vec<(usize, u8, usize)> {
        let full = |tos, to, count: usize| std::iter::repeat_n((1400, tos, to), count);
        // More than a batch, a short end, two more full ones, two destinations and two classes in turn, different lengths, and nothing at all.
        let mut plan: Vec<_> = full(0xE0, 0, 150).collect();
        plan.push((77, 0xE0, 0));
        plan.extend(full(0xE0, 0, 2));
        (0..40).for_each(|n| plan.push((100, [0xE0, 0xC2][n % 2], n / 2 % 2)));
        (0..30).for_each(|n| plan.push((200 + n % 7, 0x20, 1)));
        plan.push((0, 0x20, 0));
        plan
    }

    fn exchange(cuts: bool) -> u64 {
        let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (mut from, mut to) = (bind(), [bind(), bind()]);
        let addresses = [0, 1].map(|index: usize| to[index].local_address().unwrap());
        if !cuts {
            from.uncut.extend(addresses);
        }
        for (number, (length, tos, dst)) in plan().into_iter().enumerate() {
            let datagram: Vec<u8> = (0..length).map(|at| (number + at) as u8).collect();
            from.send(addresses[dst], tos, &datagram).unwrap();
        }
        assert_eq!(from.flush().unwrap(), 0);
        let mut buffer = vec![0; 1 << 16];
        for (dst, socket) in to.iter_mut().enumerate() {
            // Datagrams of one class to one address arrive in order.
            let mut all = std::collections::HashMap::new();
            for class in [0xE0, 0xC2, 0x20] {
                let mut expected: Vec<(usize, Vec<u8>)> = Vec::new();
                for (number, (length, tos, to)) in plan().into_iter().enumerate() {
                    if (tos, to) == (class, dst) {
                        expected.push((length, (0..length).map(|at| (number + at) as u8).collect()));
                    }
                }
                all.insert(class, std::collections::VecDeque::from(expected));
            }
            let mut left: usize = plan().iter().filter(|(_, _, to)| *to == dst).count();
            while left > 0 {
                let Some(arrival) = socket.receive(&mut buffer).unwrap() else {
                    socket.wait(Duration::from_secs(10)).unwrap();
                    continue;
                };
                let (length, bytes) = all.get_mut(&arrival.tos).unwrap().pop_front().unwrap();
                assert_eq!((arrival.bytes, arrival.from), (length, from.local_address().unwrap()));
                assert_eq!(buffer[..length], bytes[..]);
                left -= 1;
            }
        }
        from.calls()
    }

    #[test]
    fn batches_arrive_as_single_datagrams_in_order() {
        let (together, single) = (exchange(true), exchange(false));
        assert_eq!(single, plan().len() as u64);
        assert!(together < single / 4, "{together} calls for {single} datagrams");
    }

    /// Receives this many datagrams of this length.
    fn receives(socket: &mut Udp, count: usize, length: usize) {
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..count {
            let arrival = loop {
                match socket.receive(&mut buffer).unwrap() {
                    Some(arrival) => break arrival,
                    None => socket.wait(Duration::from_secs(10)).unwrap(),
                }
            };
            assert_eq!(arrival.bytes, length);
        }
    }

    #[test]
    fn what_the_system_does_not_send_is_lost_and_nothing_else() {
        let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (mut from, mut to) = (bind(), bind());
        let good = to.local_address().unwrap();
        // Without permission to broadcast, EACCES; without a port, EINVAL; and 65,530 B are too many for an IP packet: EMSGSIZE.
        for (bad, length) in [("127.255.255.255:9", 100), ("127.0.0.1:0", 100), ("127.0.0.1:9", 65_530)] {
            for count in [1, 3] {
                (0..count).for_each(|_| from.send(bad.parse().unwrap(), 0, &vec![1; length]).unwrap());
                (0..3).for_each(|_| from.send(good, 0, &[2; 50]).unwrap());
                assert_eq!(from.flush().unwrap(), count, "{bad}");
                receives(&mut to, 3, 50);
            }
        }
        assert!(from.uncut.is_empty(), "nothing was sent singly");
    }

    /// A datagram above the MTU is sent in fragments, but not in a batch. The socket option stands for a device with this MTU.
    #[test]
    fn a_batch_that_does_not_fit_the_mtu_is_sent_one_by_one() {
        let bind = || Udp::bind("[::1]:0".parse().unwrap()).unwrap();
        let (mut from, mut to, mut other) = (bind(), bind(), bind());
        sys::set_mtu(from.socket.as_fd(), 1280).unwrap();
        let small = other.local_address().unwrap();
        for calls in [1 + 4, 4] {
            let before = from.calls();
            (0..4).for_each(|_| from.send(to.local_address().unwrap(), 0, &[7; 1400]).unwrap());
            assert_eq!((from.flush().unwrap(), from.calls() - before), (0, calls));
            receives(&mut to, 4, 1400);
        }
        let before = from.calls();
        (0..4).for_each(|_| from.send(small, 0, &[7; 100]).unwrap());
        assert_eq!((from.flush().unwrap(), from.calls() - before), (0, 1), "other addresses get batches");
        receives(&mut other, 4, 100);
    }

    /// A firewall may refuse one call and allow the next. That says nothing about batches.
    #[test]
    fn a_batch_that_is_refused_once_is_no_reason_against_batches() {
        thread_local!(static REFUSES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        let bind = || Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (mut from, mut to) = (bind(), bind());
        from.system = |socket, to, tos, bytes, segment| {
            let left = REFUSES.get();
            REFUSES.set(left.saturating_sub(1));
            if left > 0 { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { sys::send(socket, to, tos, bytes, segment) }
        };
        for (refused, lost) in [(1, 4), (0, 0)] {
            REFUSES.set(refused);
            let before = from.calls();
            (0..4).for_each(|_| from.send(to.local_address().unwrap(), 0, &[7; 100]).unwrap());
            assert_eq!((from.flush().unwrap(), from.calls() - before), (lost, 1));
        }
        receives(&mut to, 4, 100);
    }
}
