//! System calls that std does not offer: batches of datagrams with a TOS byte, a wait with a timeout in nanoseconds, and a new name that replaces no file.
//!
//! A batch goes through the kernel as one packet, which it or the network card cuts into datagrams (`UDP_SEGMENT`); what arrives is put together in the same way
//! (`UDP_GRO`). The path of a packet through the kernel costs several times what the system call does, so this is where the time is.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libc::{c_int, c_void};

/// Space for two control messages with an `int` each, aligned as the kernel requires.
#[derive(Clone, Copy)]
#[repr(C)]
union Control {
    _align: libc::cmsghdr,
    bytes: [u8; CONTROL_BYTES],
}
// SAFETY: CMSG_SPACE is arithmetic on its argument.
const CONTROL_BYTES: usize = 2 * unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;

/// A socket address in the kernel's representation.
#[derive(Clone, Copy)]
struct Address {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Address {
    fn empty() -> Address {
        // SAFETY: sockaddr_storage is plain integers, for which all zeros is a value.
        let storage = unsafe { MaybeUninit::<libc::sockaddr_storage>::zeroed().assume_init() };
        Address { storage, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn new(address: &SocketAddr) -> Address {
        let mut new = Address::empty();
        let place = &raw mut new.storage;
        match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is at least as large as, and aligned for, every socket address.
                unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
                new.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
                new.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        new
    }

    fn get(&self) -> io::Result<SocketAddr> {
        let place = &raw const self.storage;
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family determines which address the storage holds, and it is large enough and aligned for that.
                let raw = unsafe { place.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let raw = unsafe { place.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                Ok(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), raw.sin6_flowinfo, raw.sin6_scope_id).into())
            }
            family => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a datagram from an address of family {family}, which is neither IPv4 nor IPv6"),
            )),
        }
    }
}

/// Sends `bytes` with this TOS or traffic class byte, as datagrams of `segment` bytes, of which the last may be shorter.
///
/// # Errors
/// The error of `sendmsg`.
pub fn send(fd: BorrowedFd<'_>, to: &SocketAddr, tos: u8, bytes: &[u8], segment: usize) -> io::Result<()> {
    let mut address = Address::new(to);
    let mut control = Control { bytes: [0; CONTROL_BYTES] };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = message(&mut address, &mut part, &mut control);
    let tos_option = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    // SAFETY: `control` is aligned for cmsghdr and has room for two headers with an int each, so both headers exist and their data is within `control`. The
    // kernel reads 16 bits of the second, which are at the front of the int on every machine that stores a u16 there. `message` points at locals that outlive
    // the call; sendmsg writes to none of them.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        put(header, tos_option, &c_int::from(tos).to_ne_bytes());
        if segment < bytes.len() {
            let header = libc::CMSG_NXTHDR(&raw const message, header);
            put(header, (libc::SOL_UDP, libc::UDP_SEGMENT), &(segment as u16).to_ne_bytes());
        } else {
            message.msg_controllen = (CONTROL_BYTES / 2) as _;
        }
        libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes a control message.
///
/// # Safety
/// `header` must have room for it.
unsafe fn put(header: *mut libc::cmsghdr, (level, kind): (c_int, c_int), value: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe {
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(value.len() as u32) as _;
        std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(header), value.len());
    }
}

/// What came with one call: datagrams of one sender with one TOS or traffic class byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Their sender.
    pub from: SocketAddr,
    /// Their TOS or traffic class byte; 0 if the kernel did not report it.
    pub tos: u8,
    /// The length of all together.
    pub bytes: usize,
    /// The length of each but the last, which may be shorter.
    pub segment: usize,
}

/// How many batches [`Inbox::receive`] takes at most.
pub const BATCHES: usize = 8;
/// The longest batch.
pub const BATCH_BYTES: usize = 1 << 16;

/// Where batches of datagrams are received.
pub struct Inbox {
    buffer: Box<[u8]>,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox { buffer: vec![0; BATCHES * BATCH_BYTES].into() }
    }
}

impl Inbox {
    /// The bytes of batch number `batch`.
    pub fn bytes(&self, batch: usize) -> &[u8] {
        &self.buffer[batch * BATCH_BYTES..][..BATCH_BYTES]
    }

    /// Receives all batches that wait, up to [`BATCHES`], and adds what they are to `out`.
    ///
    /// # Errors
    /// The error of `recvmmsg`; [`io::ErrorKind::WouldBlock`] if there is none. An address that is neither IPv4 nor IPv6.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, out: &mut Vec<Received>) -> io::Result<()> {
        let mut addresses = [Address::empty(); BATCHES];
        let mut controls = [Control { bytes: [0; CONTROL_BYTES] }; BATCHES];
        let mut parts: [libc::iovec; BATCHES] = std::array::from_fn(|batch| libc::iovec {
            iov_base: self.buffer[batch * BATCH_BYTES..].as_mut_ptr().cast(),
            iov_len: BATCH_BYTES,
        });
        let mut messages: [libc::mmsghdr; BATCHES] = std::array::from_fn(|batch| libc::mmsghdr {
            msg_hdr: message(&mut addresses[batch], &mut parts[batch], &mut controls[batch]),
            msg_len: 0,
        });
        // SAFETY: each message points at a part of the buffer, an address and control messages of its own, with their sizes. All outlive the call.
        let received = unsafe {
            let messages = messages.as_mut_ptr();
            libc::recvmmsg(fd.as_raw_fd(), messages, BATCHES as u32, libc::MSG_DONTWAIT as _, std::ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (message, address) in messages.iter().zip(&addresses).take(received) {
            let (bytes, (tos, segment)) = (message.msg_len as usize, options_of(&message.msg_hdr));
            out.push(Received { from: address.get()?, tos, bytes, segment: segment.unwrap_or(bytes) });
        }
        Ok(())
    }
}

/// A message with one part, an address and control messages. It holds pointers to its arguments.
fn message(address: &mut Address, part: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: msghdr consists of pointers and integers, for which all zeros is a valid value. On some systems it has private padding, so
    // it cannot be initialised field by field.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_name = (&raw mut address.storage).cast::<c_void>();
    message.msg_namelen = address.length;
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *control).cast::<c_void>();
    message.msg_controllen = CONTROL_BYTES as _;
    message
}

/// The TOS byte of a received message, 0 if the kernel did not report it, and the length of its datagrams, if there may be more than one.
fn options_of(message: &libc::msghdr) -> (u8, Option<usize>) {
    let (mut tos, mut segment) = (0, None);
    // SAFETY: recvmmsg has set msg_control and msg_controllen to the control messages it wrote, which the macros walk; the data of
    // an IP_TOS message is one byte, that of the others an int.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => tos = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => tos = data.cast::<c_int>().read_unaligned() as u8,
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    segment = usize::try_from(data.cast::<c_int>().read_unaligned()).ok().filter(|bytes| *bytes > 0);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (tos, segment)
}

/// Makes the kernel report the TOS or traffic class byte of each received datagram.
///
/// # Errors
/// What `setsockopt` reports.
pub fn report_tos(fd: BorrowedFd<'_>, family: &SocketAddr) -> io::Result<()> {
    match family {
        SocketAddr::V4(_) => set_option(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
        SocketAddr::V6(_) => set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
    }
}

/// Lets the kernel put datagrams together that arrive together.
///
/// # Errors
/// What `setsockopt` reports, also where the kernel cannot do this.
pub fn receive_batches(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Requests a receive buffer of this size. The kernel may grant less, unless the process may administer the network.
///
/// # Errors
/// What `setsockopt` reports.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}

/// Makes an IPv6 socket take its routes for ones with this MTU.
#[cfg(test)]
pub fn set_mtu(fd: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU, bytes)
}

fn set_option(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the option's value is the int pointed at, which outlives the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until there is a datagram to receive, `timeout` has passed, or a signal arrives.
///
/// # Errors
/// The error of `ppoll`.
pub fn wait(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the entry and the timespec are locals that outlive the call, and there is no signal mask.
    let result = unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
    match io::Error::last_os_error() {
        error if result < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Gives a file another name, which no file may have yet.
///
/// # Errors
/// The error of `renameat2`, also where the file system cannot do this.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
    let (from, to) = (text(from)?, text(to)?);
    // SAFETY: both texts end with a zero and outlive the call, which only reads them.
    let result = unsafe {
        libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::RENAME_NOREPLACE)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The processor time that this process has used.
pub fn processor_time() -> Duration {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time of `CLOCK_MONOTONIC`, which is the same for all processes of a machine.
pub fn monotonic_time() -> Duration {
    read_clock(libc::CLOCK_MONOTONIC)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to the local. Both clocks exist, so the call does not fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
