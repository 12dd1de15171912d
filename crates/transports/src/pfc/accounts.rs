//! What the ports of one node share: how much of the node's memory each neighbour uses, and which neighbours are stopped.

use flowloom_core::{FlowId, PacketId, PortNumber};

use super::limits::{Limits, NodeLimits};
use crate::disciplines::{ClassSet, MOST_CLASSES};

/// The bytes of one class that came in through one port and have not left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    /// In the memory below the threshold.
    plain: u32,
    /// In the headroom.
    headroom: u32,
}

/// One ingress port.
#[derive(Clone, Debug)]
struct Ingress {
    limits: Limits,
    accounts: [Account; MOST_CLASSES],
    /// The classes that the neighbour was told, or is about to be told, to stop.
    stopped: ClassSet,
    /// The pause frame that waits to be sent through this port.
    frame: PacketId,
    /// The flow for which the last one was ordered, if there was any.
    cause: Option<FlowId>,
}

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    /// Whether there is room for it, possibly in the headroom.
    pub fits: bool,
    /// Whether its class must be stopped now.
    pub stops: bool,
}

/// The accounts of a node, by ingress port and class.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    ingress: Vec<Ingress>,
    /// The memory that all ingress ports share besides their headrooms, and the factor of its threshold.
    shared: Option<Shared>,
    hysteresis: u64,
}

/// Memory under a dynamic threshold.
#[derive(Clone, Copy, Debug)]
struct Shared {
    free: u64,
    alpha: f64,
}

impl Accounts {
    pub fn new(limits: &NodeLimits) -> Accounts {
        let ingress = |limits: &Limits| Ingress {
            limits: *limits,
            accounts: [Account::default(); MOST_CLASSES],
            stopped: ClassSet::NONE,
            frame: PacketId::NONE,
            cause: None,
        };
        Accounts {
            ingress: limits.ingress.iter().map(ingress).collect(),
            shared: limits.shared.map(|(free, alpha)| Shared { free: free.get(), alpha }),
            hysteresis: limits.hysteresis.get(),
        }
    }

    /// The most bytes that a class of this port may have below the threshold now.
    #[inline]
    fn threshold(&self, port: usize) -> u64 {
        match self.shared {
            None => u64::from(self.ingress[port].limits.xoff),
            Some(Shared { free, alpha }) => (alpha * free as f64) as u64,
        }
    }

    /// Stores a packet of a class.
    #[inline]
    pub fn arrive(&mut self, port: PortNumber, class: usize, size: u32) -> Arrival {
        let port = usize::from(port.0);
        let threshold = self.threshold(port);
        let ingress = &mut self.ingress[port];
        let account = &mut ingress.accounts[class];
        let room = threshold.saturating_sub(u64::from(account.plain));
        let room = self.shared.map_or(room, |shared| room.min(shared.free));
        let was_stopped = ingress.stopped.has(class);
        if !was_stopped && u64::from(size) <= room {
            account.plain += size;
            if let Some(shared) = &mut self.shared {
                shared.free -= u64::from(size);
            }
            return Arrival { fits: true, stops: false };
        }
        let held = account.headroom.saturating_add(size);
        let fits = held <= ingress.limits.headroom;
        if fits {
            account.headroom = held;
        }
        // A class of which nothing is stored must not be stopped: no packet of it could leave, so it could never go on.
        let stops = !was_stopped && *account != Account::default();
        ingress.stopped.set(class, was_stopped || stops);
        Arrival { fits, stops }
    }

    /// Frees the memory of a packet that leaves. Returns whether its class may go on, which was stopped until now.
    #[inline]
    pub fn leave(&mut self, port: PortNumber, class: usize, size: u32) -> bool {
        let port = usize::from(port.0);
        let account = &mut self.ingress[port].accounts[class];
        let from_headroom = size.min(account.headroom);
        let plain = size - from_headroom;
        account.headroom -= from_headroom;
        account.plain -= plain;
        let Account { plain: held, headroom } = *account;
        if let Some(shared) = &mut self.shared {
            shared.free += u64::from(plain);
        }
        let low = held == 0 || u64::from(held) + self.hysteresis <= self.threshold(port);
        let stopped = &mut self.ingress[port].stopped;
        if !(stopped.has(class) && headroom == 0 && low) {
            return false;
        }
        stopped.set(class, false);
        true
    }

    /// The classes that the neighbour at a port must not send.
    pub fn stopped(&self, port: PortNumber) -> ClassSet {
        self.ingress[usize::from(port.0)].stopped
    }

    /// The pause frame that waits to be sent through a port; [`PacketId::NONE`] if there is none.
    #[inline]
    pub fn frame(&mut self, port: PortNumber) -> &mut PacketId {
        &mut self.ingress[usize::from(port.0)].frame
    }

    /// The flow for which the last pause frame to a neighbour was ordered, if there was any.
    pub fn cause(&mut self, port: PortNumber) -> &mut Option<FlowId> {
        &mut self.ingress[usize::from(port.0)].cause
    }

    /// All bytes stored.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        let all = self.ingress.iter().flat_map(|ingress| ingress.accounts);
        all.map(|account| u64::from(account.plain) + u64::from(account.headroom)).sum()
    }
}
