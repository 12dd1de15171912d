//! Where datagrams go and come from.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::sys;

/// What the kernel is asked to hold of datagrams not yet received. It must bridge the time for which a busy machine does not
/// run the process: 1 MiB is some 450 packets of 1500 B as Linux counts them.
const RECEIVE_BUFFER_BYTES: i32 = 1 << 20;

/// A received datagram, without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub from: SocketAddr,
    /// How many bytes it has.
    pub bytes: usize,
    /// Its TOS (IPv4) or traffic class (IPv6) byte.
    pub tos: u8,
}

/// Sends and receives datagrams, without blocking. [`Udp`] is the real one; what goes wrong, what is traced or recorded is a
/// wrapper around another one ([`Faulty`](crate::Faulty)).
pub trait Datagrams {
    /// Sends a datagram. `false` where it was lost at once, for lack of room or of a route: the network may do that.
    ///
    /// # Errors
    /// What makes further sending pointless.
    fn send(&mut self, to: SocketAddr, tos: u8, datagram: &[u8]) -> io::Result<bool>;
    /// Receives the next datagram into the front of `buffer`, if there is one.
    ///
    /// # Errors
    /// What makes further receiving pointless.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Arrival>>;
    /// Returns when there may be something to receive, at the latest after `timeout`.
    ///
    /// # Errors
    /// What makes further waiting pointless.
    fn wait(&mut self, timeout: Duration) -> io::Result<()>;
}

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
}

impl Udp {
    /// Binds a socket; port 0 lets the system choose.
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

    /// Where others reach it.
    ///
    /// # Errors
    /// What the system reports.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Errors that a datagram network may answer to any one datagram: it is lost, the next one may do.
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
