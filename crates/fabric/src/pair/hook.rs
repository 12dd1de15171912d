//! A hook that decides the fate of each packet when it leaves its sender.

use std::sync::{Arc, Mutex};

use flowloom_core::{Duration, NodeId, Packet, Time};

use crate::fault::{Fate, Injector};

/// A packet that left the node that created it.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket<H> {
    /// When its first bit left.
    pub at: Time,
    /// The packet.
    pub packet: Packet<H>,
    /// Its fate.
    pub fate: Fate,
}

/// Decides the fate of each packet that is sent.
pub(super) type Decide<H> = Box<dyn FnMut(&SentPacket<H>) -> Fate + Send>;

/// What all ports of a pair share: the hook, and what was sent since this was last read.
pub(super) struct Tap<H> {
    pub hook: Decide<H>,
    pub log: bool,
    pub sent: Vec<SentPacket<H>>,
}

/// The injector of one port. It asks the hook about the packets that its own node creates. Of the others it drops those that were lost on
/// their way.
pub(super) struct Hook<H> {
    pub node: NodeId,
    pub tap: Arc<Mutex<Tap<H>>>,
}

impl<H: Copy + Send> Injector<H> for Hook<H> {
    fn ignores(&self, packet: &Packet<H>) -> bool {
        packet.src != self.node && !packet.corrupt
    }

    fn on_arrival(&mut self, _: Time, packet: &mut Packet<H>) -> Fate {
        if packet.corrupt { Fate::Drop } else { Fate::Pass }
    }

    fn on_departure(&mut self, now: Time, packet: &Packet<H>) -> Fate {
        if packet.src != self.node || packet.dst == NodeId::LINK {
            return Fate::Pass;
        }
        let mut tap = self.tap.lock().expect("the hook has not panicked");
        let mut sent = SentPacket { at: now, packet: *packet, fate: Fate::Pass };
        sent.fate = (tap.hook)(&sent);
        if tap.log {
            tap.sent.push(sent);
        }
        sent.fate
    }
}

/// Independent random faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that are duplicated.
    pub duplicate: f64,
    /// The share of packets that are delayed.
    pub reorder: f64,
    /// The largest delay of late packets and copies; delays are uniform.
    pub late: Duration,
}

impl Faults {
    /// A hook for [`Pair::on_packet`](super::Pair::on_packet). The same seed gives the same faults.
    pub fn hook<H>(self, seed: u64) -> impl FnMut(&SentPacket<H>) -> Fate + Send + use<H> {
        let mut state = seed;
        // SplitMix64, uniform on [0, 1).
        let mut uniform = move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        };
        move |_| {
            let (die, late) = (uniform(), self.late.scale(uniform()));
            if die < self.loss {
                Fate::Drop
            } else if die < self.loss + self.duplicate {
                Fate::Duplicate(late)
            } else if die < self.loss + self.duplicate + self.reorder {
                Fate::Delay(late)
            } else {
                Fate::Pass
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Bytes, Ecn, FlowId};

    use super::*;

    #[test]
    fn faults_come_in_their_shares_and_again_with_the_same_seed() {
        let faults = Faults { loss: 0.1, duplicate: 0.2, reorder: 0.3, late: Duration::from_us(10) };
        let packet = Packet {
            flow: FlowId(0),
            src: NodeId(0),
            dst: NodeId(1),
            size_bytes: 40,
            payload_bytes: 0,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            offset: Bytes::ZERO,
            header: (),
        };
        let sent = SentPacket { at: Time::ZERO, packet, fate: Fate::Pass };
        let fates = |seed| {
            let mut hook = faults.hook(seed);
            (0..100_000).map(|_| hook(&sent)).collect::<Vec<_>>()
        };
        let once = fates(7);
        assert!(once == fates(7));
        assert!(once != fates(8));
        let share = |of: fn(&Fate) -> bool| once.iter().filter(|fate| of(fate)).count() as f64 / 100_000.0;
        // Five standard deviations of a share of 100,000 are below 0.008.
        assert!((share(|fate| *fate == Fate::Drop) - 0.1).abs() < 0.008);
        assert!((share(|fate| matches!(fate, Fate::Duplicate(_))) - 0.2).abs() < 0.008);
        assert!((share(|fate| matches!(fate, Fate::Delay(_))) - 0.3).abs() < 0.008);
        let late = |fate: &Fate| match fate {
            Fate::Delay(by) | Fate::Duplicate(by) => Some(by.as_us_f64()),
            _ => None,
        };
        let lates: Vec<f64> = once.iter().filter_map(late).collect();
        let mean = lates.iter().sum::<f64>() / lates.len() as f64;
        assert!((mean - 5.0).abs() < 0.1 && lates.iter().all(|by| (0.0..=10.0).contains(by)), "{mean}");
    }
}
