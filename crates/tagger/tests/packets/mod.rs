//! Runs a program of the kernel on packets that no network needs to carry (`BPF_PROG_TEST_RUN`).

use aya::maps::{Array, PerCpuArray};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use flowloom_tagger::load_program;

use crate::testbed;

pub const ETHERNET: usize = 14;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const ACK: u8 = 16;

/// Loads a program; None if this process may not.
pub fn load(object: &[u8], name: &str) -> Option<Ebpf> {
    let mut programs = match EbpfLoader::new().load(object) {
        Ok(programs) => programs,
        Err(error) => {
            testbed::skip(&format!("the kernel takes no BPF maps from this process (is it root?): {error}"));
            return None;
        }
    };
    let program: &mut SchedClassifier = programs.program_mut(name).unwrap().try_into().unwrap();
    load_program(program).unwrap();
    Some(programs)
}

/// Gives a program its rules.
pub fn set<const N: usize>(programs: &mut Ebpf, words: [u64; N]) {
    let mut rules: Array<_, [u64; N]> = programs.map_mut("rules_map").unwrap().try_into().unwrap();
    rules.set(0, words, 0).unwrap();
}

/// What leaves the device in place of a frame. A burst has more than one segment.
pub fn run(programs: &Ebpf, name: &str, frame: &[u8], segments: u32) -> Vec<u8> {
    let mut out = vec![0; frame.len() + 64];
    // struct __sk_buff (linux/bpf.h): wire_len is at 160, gso_segs at 164.
    let mut context = [0_u8; 192];
    context[160..164].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
    context[164..168].copy_from_slice(&segments.to_ne_bytes());
    let program: &SchedClassifier = programs.program(name).unwrap().try_into().unwrap();
    let options =
        TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ctx_in: Some(&context), ..TestRunOptions::default() };
    let result = program.test_run(options).unwrap();
    assert_eq!(result.return_value, u32::MAX, "other programs come next: TCX_NEXT is -1");
    out.truncate(frame.len());
    out
}

/// What a program has counted.
pub fn counters<const N: usize>(programs: &Ebpf) -> [u64; N] {
    let map: PerCpuArray<_, [u64; N]> = programs.map("counters").unwrap().try_into().unwrap();
    let mut total = [0; N];
    for words in map.get(&0, 0).unwrap().iter() {
        for (sum, word) in total.iter_mut().zip(words) {
            *sum += word;
        }
    }
    total
}

/// A packet as a test describes it.
#[derive(Clone, Debug)]
pub struct Packet {
    pub version: u8,
    pub host: u8,
    pub port: u16,
    pub protocol: u8,
    pub sequence: u32,
    pub flags: u8,
    pub payload: usize,
    pub tos: u8,
    /// Words of options in the IPv4 header; extension headers of IPv6.
    pub extras: usize,
    /// Whether it is a part of a larger packet.
    pub fragment: bool,
    /// Bytes after the IP packet: short frames are padded.
    pub padding: usize,
}

impl Packet {
    pub fn new(version: u8, protocol: u8, payload: usize) -> Packet {
        Packet {
            version,
            host: 1,
            port: 7,
            protocol,
            sequence: 0,
            flags: ACK,
            payload,
            tos: 0,
            extras: 0,
            fragment: false,
            padding: 0,
        }
    }

    pub fn frame(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.port.to_be_bytes());
        body.extend(80_u16.to_be_bytes());
        if self.protocol == TCP {
            body.extend(self.sequence.to_be_bytes());
            body.extend([0, 0, 0, 0, 8 << 4, self.flags, 1, 0, 0, 0, 0, 0]);
            body.extend([1; 12]); // options
        } else {
            body.extend(((8 + self.payload) as u16).to_be_bytes());
            body.extend([0, 0]);
        }
        body.extend((0..self.payload).map(|at| at as u8));
        let mut ip = if self.version == 4 { self.ipv4(body.len()) } else { self.ipv6(body.len()) };
        ip.extend(body);
        ip.extend(vec![0; self.padding]);
        let kind: [u8; 2] = if self.version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        [vec![2; 12], kind.to_vec(), ip].concat()
    }

    fn ipv4(&self, body: usize) -> Vec<u8> {
        let header = 20 + 4 * self.extras;
        let mut ip = vec![0x40 | (header / 4) as u8, self.tos];
        ip.extend(((header + body) as u16).to_be_bytes());
        ip.extend([0, 1, if self.fragment { 0x20 } else { 0x40 }, 0, 64, self.protocol, 0, 0]);
        ip.extend([10, 0, 0, self.host, 10, 0, 0, 200]);
        ip.extend(vec![1; 4 * self.extras]);
        mend_checksum(&mut ip);
        ip
    }

    fn ipv6(&self, body: usize) -> Vec<u8> {
        let extensions = 8 * (self.extras + usize::from(self.fragment));
        let mut ip = vec![0x60 | self.tos >> 4, self.tos << 4 | 0xa, 0xbc, 0xde];
        ip.extend(((extensions + body) as u16).to_be_bytes());
        // Destination options (60), then a fragment header (44).
        let mut kinds = vec![60; self.extras];
        kinds.extend(self.fragment.then_some(44));
        kinds.push(self.protocol);
        ip.extend([kinds[0], 64]);
        ip.extend([0xfd; 15]);
        ip.push(self.host);
        ip.extend([0xfd; 16]);
        for next in &kinds[1..] {
            ip.extend([*next, 0, 1, 4, 0, 0, 0, 0]);
        }
        ip
    }
}

/// Computes the checksum of an IPv4 header anew, as RFC 791 defines it.
fn mend_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
