//! Packet buffer memory.

use crate::{Bytes, NodeKind};

/// How much buffer memory there is, and which ports share it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Memory {
    /// Each port has its own memory of this size.
    PerPort(Bytes),
    /// All ports of a switch share one memory under dynamic thresholds, as the ports of a switch chip do: no queue may hold more than
    /// `alpha` times the free memory. A host's port has its own memory of the same size.
    PerSwitch {
        /// The size of the memory.
        bytes: Bytes,
        /// The factor of the threshold, above 0. With 1, a single queue can take half of the memory; with a larger factor, more.
        alpha: f64,
    },
}

impl Memory {
    /// The size of a port's own memory, or of the memory that all ports of its switch share.
    pub const fn bytes(self) -> Bytes {
        match self {
            Memory::PerPort(bytes) | Memory::PerSwitch { bytes, .. } => bytes,
        }
    }

    /// The memory of the ports of a node of this kind: only the ports of a switch share one.
    pub fn at(self, kind: NodeKind) -> Memory {
        if kind == NodeKind::Switch { self } else { Memory::PerPort(self.bytes()) }
    }
}
