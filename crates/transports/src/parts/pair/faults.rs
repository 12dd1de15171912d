//! What happens to packets on their way.

use flowloom_core::{Duration, Packet, Time};

/// What becomes of a packet between its sender's NIC and the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes its way.
    Pass,
    /// It is lost.
    Drop,
    /// It comes this much later; packets sent after it may overtake it.
    Delay(Duration),
    /// It goes its way, and a copy of it comes this much later.
    Duplicate(Duration),
}

/// A packet that left a NIC.
#[derive(Clone, Copy, Debug)]
pub struct Sent<H> {
    /// When its first bit left.
    pub at: Time,
    /// What it was.
    pub packet: Packet<H>,
    /// What became of it.
    pub fate: Fate,
}

/// Independent random faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The share of packets that are lost.
    pub loss: f64,
    /// The share of packets that come twice.
    pub duplicate: f64,
    /// The share of packets that are late.
    pub reorder: f64,
    /// Late packets and copies come uniformly up to this much later.
    pub late: Duration,
}

impl Faults {
    /// A hook for [`Pair::on_packet`](super::Pair::on_packet): the same seed, the same faults.
    pub fn hook<H>(self, seed: u64) -> impl FnMut(&Sent<H>) -> Fate + use<H> {
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
