//! The marks of a port against a model, on packets that find no others at the device. `tests/python/test_port.py` has those that do.

#![cfg(target_os = "linux")]

mod packets;
mod testbed;

use aya::Ebpf;
use packets::{ETHERNET, Packet, TCP, UDP};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const ABOVE: u64 = 600;
const NOT_ECT: u8 = 0;
const CE: u8 = 3;

/// Loads the program; None if this process may not.
fn load(by_queue: bool, queues: u64) -> Option<Ebpf> {
    let mut port = packets::load(flowloom_tagger::port::OBJECT, "flowloom_port")?;
    packets::set(&mut port, [ABOVE, u64::from(by_queue), queues]);
    Some(port)
}

fn run(port: &Ebpf, frame: &[u8], segments: u32) -> Vec<u8> {
    packets::run(port, "flowloom_port", frame, segments)
}

#[test]
fn the_kernel_marks_what_the_model_says_with_random_packets() {
    for queues in [1, 3, 8] {
        let Some(port) = load(false, queues) else { return };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(queues);
        let mut draw = move |below: u64| random.next_u64() % below;
        // By queue: packets, bytes, ECN-capable ones and marks; then packets without a queue.
        let mut expected = [0; 33];
        for number in 0..20_000 {
            let mut packet = Packet::new([4, 6][draw(2) as usize], [TCP, UDP][draw(2) as usize], 0);
            packet.tos = draw(256) as u8;
            packet.extras = draw(3) as usize;
            packet.fragment = draw(20) == 0;
            packet.payload = draw(1_200) as usize;
            packet.padding = if draw(8) == 0 { draw(20) as usize } else { 0 };
            let (frame, dscp, ecn) = (packet.frame(), packet.tos >> 2, packet.tos & 3);
            let queue = if dscp % 8 == 0 { u64::from(7 - dscp / 8).min(queues - 1) } else { queues - 1 } as usize;
            let is_marked = ecn != NOT_ECT && ecn != CE && frame.len() as u64 > ABOVE;
            let leaves = Packet { tos: if is_marked { packet.tos | CE } else { packet.tos }, ..packet.clone() };
            assert_eq!(run(&port, &frame, 1), leaves.frame(), "packet {number}, {queues} queues: {packet:?}");
            expected[queue] += 1;
            expected[8 + queue] += frame.len() as u64;
            expected[16 + queue] += u64::from(ecn != NOT_ECT);
            expected[24 + queue] += u64::from(is_marked);
        }
        assert_eq!(packets::counters(&port), expected);
        assert!(expected[24..24 + queues as usize].iter().all(|&marks| marks > 30), "{expected:?}");
    }
}

#[test]
fn a_burst_is_marked_as_one_and_counts_as_its_packets() {
    let Some(port) = load(false, 8) else { return };
    let packet = Packet { tos: 6 << 5 | 1, ..Packet::new(4, UDP, 3_000) };
    let frame = packet.frame();
    assert_eq!(run(&port, &frame, 3), Packet { tos: packet.tos | CE, ..packet }.frame());
    let counted: [u64; 33] = packets::counters(&port);
    assert_eq!([counted[1], counted[9], counted[17], counted[25]], [3, frame.len() as u64, 3, 3]);
}

#[test]
fn what_is_not_ip_stays_as_it_is_and_is_in_the_last_queue() {
    let Some(port) = load(false, 2) else { return };
    let mut arp = Packet { tos: 7 << 5 | 2, ..Packet::new(4, TCP, 1_000) }.frame();
    arp[ETHERNET - 2..ETHERNET].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(run(&port, &arp, 1), arp);
    let counted: [u64; 33] = packets::counters(&port);
    assert_eq!([counted[0], counted[1], counted[17], counted[25]], [0, 1, 0, 0]);
}

#[test]
fn without_its_queue_no_packet_is_marked_but_it_is_counted() {
    let Some(port) = load(true, 8) else { return };
    for ecn in 0..4 {
        let frame = Packet { tos: 7 << 5 | ecn, ..Packet::new(6, UDP, 1_000) }.frame();
        assert_eq!(run(&port, &frame, 1), frame);
    }
    let counted: [u64; 33] = packets::counters(&port);
    assert_eq!([counted[0], counted[16], counted[24], counted[32]], [4, 3, 0, 2]);
}
