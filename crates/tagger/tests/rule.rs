//! The tagger in the kernel against a model of the rule, on packets that no network needs to carry (`BPF_PROG_TEST_RUN`).

#![cfg(target_os = "linux")]

mod packets;
mod testbed;

use std::collections::HashMap;

use aya::Ebpf;
use aya::maps::{HashMap as Table, PerCpuArray};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use flowloom_tagger::load_program;
use packets::{ETHERNET, Packet, TCP, UDP};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const THRESHOLDS: [u64; 3] = [2_000, 10_000, 60_000];
const NEVER_NS: u64 = u64::MAX / 2;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

struct Tag(Ebpf);

impl Tag {
    /// Loads the program; None if this process may not.
    fn load(idle_gap_ns: u64) -> Option<Tag> {
        let mut programs = packets::load(flowloom_tagger::OBJECT, "flowloom_tag")?;
        let mut words = [u64::MAX; 10];
        words[..3].copy_from_slice(&THRESHOLDS);
        words[7..].copy_from_slice(&[idle_gap_ns, 2, 0]);
        packets::set(&mut programs, words);
        Some(Tag(programs))
    }

    /// What leaves the device in place of a frame. A burst has more than one segment.
    fn run(&self, frame: &[u8], segments: u32) -> Vec<u8> {
        packets::run(&self.0, "flowloom_tag", frame, segments)
    }

    fn counters(&self) -> [u64; 20] {
        packets::counters(&self.0)
    }

    /// Changes the time at which the last packet of each flow left, as another processor might.
    fn set_last_ns(&mut self, change: impl Fn(u64) -> u64) {
        let mut flows: Table<_, [u8; 40], [u8; 48]> = self.0.map_mut("flows").unwrap().try_into().unwrap();
        let keys: Vec<[u8; 40]> = flows.keys().map(Result::unwrap).collect();
        for key in keys {
            let mut flow = flows.get(&key, 0).unwrap();
            // struct flow: last_ns follows two words.
            let last_ns = u64::from_ne_bytes(flow[16..24].try_into().unwrap());
            flow[16..24].copy_from_slice(&change(last_ns).to_ne_bytes());
            flows.insert(key, flow, 0).unwrap();
        }
    }

    /// Ends the messages of flows that are silent; returns how many messages have ended.
    fn sweep(&mut self) -> u64 {
        let program: &mut SchedClassifier = self.0.program_mut("flowloom_sweep").unwrap().try_into().unwrap();
        if program.fd().is_err() {
            load_program(program).unwrap();
        }
        program.test_run(TestRunOptions { data_in: Some(&[0; 64]), ..TestRunOptions::default() }).unwrap();
        let sizes: PerCpuArray<_, u64> = self.0.map("sizes").unwrap().try_into().unwrap();
        (0..sizes.len()).map(|bin| sizes.get(&bin, 0).unwrap().iter().sum::<u64>()).sum()
    }
}

/// The frame with a class. No connection of this host sends it, so its ECN field stays.
fn expected(packet: &Packet, class: usize) -> Vec<u8> {
    Packet { tos: ((7 - class) << 5) as u8 | packet.tos & 3, ..packet.clone() }.frame()
}

/// What the README says of a packet's class, in the simplest form: every byte of a flow has a number, and new ones are counted up.
#[derive(Default)]
struct Model {
    flows: HashMap<(u8, u8, u16, u8, bool), Flow>,
}

#[derive(Default)]
struct Flow {
    /// The number of the byte with each sequence number that was sent, by the first and the last of each packet.
    sent: u64,
    first: Option<u32>,
}

impl Model {
    fn class(&mut self, packet: &Packet) -> usize {
        let control = packet.protocol == TCP && !packet.fragment;
        if packet.payload == 0 && !packet.fragment && (!control || packet.flags & (SYN | FIN | RST) == 0) {
            return 0;
        }
        let port = if packet.fragment { 0 } else { packet.port };
        let key = (packet.version, packet.host, port, packet.protocol, packet.fragment);
        let ends = control && packet.flags & (FIN | RST) != 0;
        if packet.payload == 0 && ends && !self.flows.contains_key(&key) {
            return 0;
        }
        let flow = self.flows.entry(key).or_default();
        let offset = if control {
            if packet.flags & SYN != 0 {
                *flow = Flow { sent: packet.payload as u64, first: Some(packet.sequence.wrapping_add(1)) };
                return 0;
            }
            let first = *flow.first.get_or_insert(packet.sequence);
            // No test sends more than 4 GB, so the number of a byte is its sequence number less the first.
            let offset = u64::from(packet.sequence.wrapping_sub(first));
            flow.sent = flow.sent.max(offset + packet.payload as u64);
            offset
        } else {
            let header = if packet.protocol == TCP { 32 } else { 8 };
            let offset = flow.sent;
            flow.sent += (packet.payload + if packet.fragment { header } else { 0 }) as u64;
            offset
        };
        THRESHOLDS.iter().filter(|&&threshold| offset > threshold).count()
    }
}

#[test]
fn the_kernel_does_what_the_model_says_with_random_packets() {
    for seed in 0..4 {
        let Some(tag) = Tag::load(NEVER_NS) else { return };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = move |below: u64| random.next_u64() % below;
        let (mut model, mut next) = (Model::default(), HashMap::new());
        let mut by_class = [0; 8];
        for number in 0..20_000 {
            let mut packet = Packet::new([4, 6][draw(2) as usize], [TCP, UDP][draw(2) as usize], 0);
            packet.host = draw(2) as u8;
            packet.port = draw(2) as u16;
            packet.tos = draw(256) as u8;
            packet.extras = draw(3) as usize;
            packet.fragment = draw(20) == 0;
            packet.payload = [0, 1, 100, 1448][draw(4) as usize];
            packet.padding = if draw(8) == 0 { draw(20) as usize } else { 0 };
            // Each flow's next sequence number; new connections begin just before the numbers wrap around.
            let place = next.entry((packet.version, packet.host, packet.port)).or_insert(u32::MAX - 5_000);
            packet.sequence = *place;
            match draw(40) {
                0 => packet.flags = SYN,
                1 => packet.flags |= FIN,
                2 => packet.flags |= RST,
                // A retransmission, of up to 100 bytes more than were sent.
                3..8 => packet.sequence = place.wrapping_sub(draw(packet.payload as u64 + 100) as u32),
                _ => {}
            }
            if packet.protocol == TCP && !packet.fragment {
                if packet.flags & SYN != 0 {
                    *place = packet.sequence.wrapping_add(1 + packet.payload as u32);
                } else {
                    let first =
                        model.flows.get(&(packet.version, packet.host, packet.port, TCP, false)).and_then(|flow| flow.first);
                    if first.is_some_and(|first| packet.sequence.wrapping_sub(first) > u32::MAX / 2) || first.is_none() {
                        // Before the first byte there is none to send again.
                        packet.sequence = *place;
                    }
                    let end = packet.sequence.wrapping_add(packet.payload as u32);
                    if end.wrapping_sub(*place) < u32::MAX / 2 {
                        *place = end;
                    }
                }
            }
            let class = model.class(&packet);
            by_class[class] += 1;
            let frame = packet.frame();
            assert_eq!(tag.run(&frame, 1), expected(&packet, class), "packet {number} of seed {seed}: {packet:?}");
        }
        let counted = tag.counters();
        assert_eq!(counted[..8], by_class);
        assert_eq!(counted[16], model.flows.len() as u64);
        assert!(by_class[..4].iter().all(|&count| count > 500), "{by_class:?}");
    }
}

#[test]
fn what_is_neither_tcp_nor_udp_stays_as_it_is() {
    let Some(tag) = Tag::load(NEVER_NS) else { return };
    let icmp = Packet::new(4, 1, 60).frame();
    let mut arp = icmp.clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let six = Packet { extras: 4, fragment: true, ..Packet::new(6, UDP, 60) }.frame();
    for frame in [icmp, arp, six] {
        assert_eq!(tag.run(&frame, 1), frame);
    }
    assert_eq!(tag.counters()[19], 3);
}

#[test]
fn a_header_that_is_cut_off_stays_as_it_is() {
    let Some(tag) = Tag::load(NEVER_NS) else { return };
    for version in [4, 6] {
        let whole = Packet { extras: 1, ..Packet::new(version, TCP, 0) }.frame();
        // The kernel refuses test packets without an IP header.
        for length in ETHERNET + if version == 4 { 20 } else { 40 }..whole.len() - 20 {
            let frame = &whole[..length];
            assert_eq!(tag.run(frame, 1), frame, "version {version}, {length} bytes");
        }
    }
}

#[test]
fn a_burst_has_one_class_and_counts_as_its_packets() {
    let Some(tag) = Tag::load(NEVER_NS) else { return };
    for (sequence, class) in [(0, 0), (3_000, 1), (6_000, 1), (9_000, 1), (12_000, 2)] {
        let packet = Packet { sequence, ..Packet::new(4, TCP, 3_000) };
        assert_eq!(tag.run(&packet.frame(), 3), expected(&packet, class));
    }
    assert_eq!(tag.counters()[..4], [3, 9, 3, 0]);
}

#[test]
fn a_message_of_datagrams_ends_with_a_pause() {
    let Some(tag) = Tag::load(50_000_000) else { return };
    let packet = Packet::new(6, UDP, 1_500);
    let classes = |tag: &Tag| [(); 3].map(|()| tag.run(&packet.frame(), 1));
    let [first, second, third] = [0, 0, 1].map(|class| expected(&packet, class));
    // The offsets are 0, 1500 and 3000, of which the last is beyond 2000. A slow machine may pause on its own, so this may take more tries.
    let tried = (0..20).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        classes(&tag) == [first.clone(), second.clone(), third.clone()]
    });
    assert!(tried);
}

#[test]
fn a_time_that_another_processor_has_noted_later_is_no_pause() {
    let Some(mut tag) = Tag::load(NEVER_NS) else { return };
    let packet = Packet::new(4, UDP, 1_500);
    for class in [0, 0, 1, 1] {
        assert_eq!(tag.run(&packet.frame(), 1), expected(&packet, class));
        tag.set_last_ns(|last_ns| last_ns + 1_000_000_000_000);
    }
    assert_eq!(tag.counters()[17], 1, "one message has begun");
    assert_eq!(tag.sweep(), 0, "and it goes on");
    tag.set_last_ns(|_| 0);
    assert_eq!(tag.sweep(), 1);
}
