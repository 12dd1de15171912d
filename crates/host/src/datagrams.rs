//! The interface for sending and receiving datagrams, and its UDP implementation.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys;

/// The requested size of the kernel's receive buffer. It must hold what arrives while a busy machine does not run the process: 1 MiB is
/// about 450 packets of 1500 B as Linux counts them.
const RECEIVE_BUFFER_BYTES: i32 = 1 << 20;

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
    /// Sends a datagram. Returns `false` if the datagram was lost at once, for lack of buffer space or of a route.
    ///
    /// # Errors
    /// Errors after which sending cannot succeed any more.
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<bool>;
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

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
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
        Ok(Udp { socket })
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// What the system reports.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Whether an error is the loss of one datagram, after which the next one may succeed.
fn is_loss(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || matches!(
            error.raw_os_error(),
            Some(libc::ENOBUFS | libc::ENOMEM | libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN)
        )
}

impl Datagrams for Udp {
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<bool> {
        loop {
            match sys::send(self.socket.as_fd(), &to, tos, datagram) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_loss(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        loop {
            match sys::receive(self.socket.as_fd(), buffer) {
                Ok((from, bytes, tos)) => return Ok(Some(Arrival { from, bytes, tos })),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_loss(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        sys::wait(self.socket.as_fd(), timeout)
    }
}
