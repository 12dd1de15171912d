//! The memory in which packets wait for their links.

use crate::{Bytes, NodeKind};

/// How much memory there is for waiting packets, and which ports share it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Memory {
    /// Each port has this much for itself.
    PerPort(Bytes),
    /// All ports of a switch share one memory under dynamic thresholds, as the ports of a switch chip do: no queue may hold more than
    /// `alpha` times what is free. A host's port has as much for itself.
    PerSwitch {
        /// The size of the memory.
        bytes: Bytes,
        /// The factor of the threshold, above 0. With 1, a single queue can take half of the memory; larger factors leave it more.
        alpha: f64,
    },
}

impl Memory {
    /// How much a port has for itself, or shares with the other ports of its switch.
    pub const fn bytes(self) -> Bytes {
        match self {
            Memory::PerPort(bytes) | Memory::PerSwitch { bytes, .. } => bytes,
        }
    }

    /// The memory of the ports of one node: only the ports of a switch share theirs.
    pub fn at(self, kind: NodeKind) -> Memory {
        if kind == NodeKind::Switch { self } else { Memory::PerPort(self.bytes()) }
    }
}
