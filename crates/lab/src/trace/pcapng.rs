//! The blocks of a pcapng file, in little endian (the draft "PCAP Next Generation Capture File Format"). The libraries at hand write neither the number of a packet nor the
//! names of addresses.

use std::net::Ipv4Addr;

use flowloom_core::Rate;

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const PACKET: u32 = 6;

const COMMENT: u16 = 1;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_SPEED: u16 = 8;
const TIME_RESOLUTION: u16 = 9;
const PACKET_ID: u16 = 5;
/// The name of an IPv4 address.
const IPV4: u16 = 1;

const ETHERNET: u16 = 1;
/// Times are in units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Begins a file.
pub(super) fn section(out: &mut Vec<u8>) {
    let mut body = Vec::new();
    body.extend(0x1A2B_3C4D_u32.to_le_bytes());
    body.extend([1, 0, 0, 0]); // version 1.0
    body.extend(u64::MAX.to_le_bytes()); // of unknown length
    block(out, SECTION, &body);
}

/// Gives names to addresses.
pub(super) fn names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = (Ipv4Addr, &'a str)>) {
    let mut body = Vec::new();
    for (address, name) in names {
        let mut record = address.octets().to_vec();
        record.extend_from_slice(name.as_bytes());
        record.push(0);
        entry(&mut body, IPV4, &record);
    }
    entry(&mut body, 0, &[]);
    block(out, NAMES, &body);
}

/// Describes the next interface; interfaces have the numbers 0, 1, 2 …
pub(super) fn interface(out: &mut Vec<u8>, name: &str, speed: Rate) {
    let mut body = Vec::new();
    body.extend(ETHERNET.to_le_bytes());
    body.extend([0; 6]); // no limit on what is captured of a packet
    entry(&mut body, INTERFACE_NAME, name.as_bytes());
    entry(&mut body, INTERFACE_SPEED, &speed.as_bps().to_le_bytes());
    entry(&mut body, TIME_RESOLUTION, &[NANOSECONDS]);
    entry(&mut body, 0, &[]);
    block(out, INTERFACE, &body);
}

/// Writes a packet: the bytes that were captured of it and its length, its number, and a comment, if it is not empty.
pub(super) fn packet(out: &mut Vec<u8>, interface: u32, at_ns: u64, captured: &[u8], length: u32, number: u64, comment: &str) {
    let mut body = Vec::with_capacity(captured.len() + comment.len() + 64);
    body.extend(interface.to_le_bytes());
    body.extend(((at_ns >> 32) as u32).to_le_bytes());
    body.extend((at_ns as u32).to_le_bytes());
    body.extend((captured.len() as u32).to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend_from_slice(captured);
    pad(&mut body);
    if !comment.is_empty() {
        entry(&mut body, COMMENT, comment.as_bytes());
    }
    entry(&mut body, PACKET_ID, &number.to_le_bytes());
    entry(&mut body, 0, &[]);
    block(out, PACKET, &body);
}

/// An option, or a record of names: its code, its length and its value. What is longer than can be said, such as a name, is cut.
fn entry(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (body.len() + 12) as u32;
    out.extend(kind.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend_from_slice(body);
    out.extend(length.to_le_bytes());
}

/// Everything in a block begins at a multiple of four bytes.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}
