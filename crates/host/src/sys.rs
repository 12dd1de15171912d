//! System calls that std does not offer: datagrams with a TOS byte, and a wait with a timeout in nanoseconds.

#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, c_void};

/// Space for one control message with an `int`, aligned as the kernel requires.
#[repr(C)]
union Control {
    _align: libc::cmsghdr,
    bytes: [u8; CONTROL_BYTES],
}
// SAFETY: CMSG_SPACE is arithmetic on its argument.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;

/// A socket address in the kernel's representation.
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

/// Sends one datagram with this TOS or traffic class byte.
///
/// # Errors
/// The error of `sendmsg`.
pub fn send(fd: BorrowedFd<'_>, to: &SocketAddr, tos: u8, bytes: &[u8]) -> io::Result<()> {
    let mut address = Address::new(to);
    let mut control = Control { bytes: [0; CONTROL_BYTES] };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = message(&mut address, &mut part, &mut control);
    let (level, kind) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    // SAFETY: `control` is aligned for cmsghdr and has room for a header and an int, so that the first header exists and its
    // data is within `control`. `message` points at locals that outlive the call; sendmsg writes to none of them.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(c_int::from(tos));
        libc::sendmsg(fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one datagram. Returns its sender, its length and its TOS or traffic class byte. Bytes that do not fit into `buffer` are
/// lost.
///
/// # Errors
/// The error of `recvmsg`; [`io::ErrorKind::WouldBlock`] if there is no datagram.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(SocketAddr, usize, u8)> {
    let mut address = Address::empty();
    let mut control = Control { bytes: [0; CONTROL_BYTES] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = message(&mut address, &mut part, &mut control);
    // SAFETY: `message` points at `buffer`, `address` and `control`, with their sizes, all borrowed mutably for the call.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((address.get()?, received, tos_of(&message)))
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

/// The TOS byte of a received message; 0 if the kernel did not report it.
fn tos_of(message: &libc::msghdr) -> u8 {
    // SAFETY: recvmsg has set msg_control and msg_controllen to the control messages it wrote, which the macros walk; the data of
    // an IP_TOS message is one byte, that of an IPV6_TCLASS message an int.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => return libc::CMSG_DATA(header).read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() as u8;
                }
                _ => header = libc::CMSG_NXTHDR(message, header),
            }
        }
    }
    0
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

/// Requests a receive buffer of this size; the kernel may grant less.
///
/// # Errors
/// What `setsockopt` reports.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: c_int) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
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
