//! Counters of one node.

use std::fmt;

use flowloom_core::{Ecn, Packet};

use crate::driver::Refusal;
use crate::frame::Frame;
use crate::trust::Rejection;

/// Counts of what happened since the node was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Datagrams given to the kernel.
    pub packets_sent: u64,
    /// Payload bytes in them.
    pub payload_bytes_sent: u64,
    /// Sent datagrams whose payload had been sent before.
    pub retransmissions: u64,
    /// Those of them that the kernel did not send: it has no room, or a route, a firewall or an MTU is against it. The transport sees them as lost packets.
    pub send_failures: u64,
    /// Packets that the emulated NIC dropped.
    pub nic_drops: u64,
    /// Packets that were not sent as datagrams: link frames, packets to nodes without a session, data of flows that ended while it was queued, and what the endpoint says
    /// about flows that the driver has ended or refused, such as acknowledgements and tokens.
    pub unsendable: u64,
    /// Datagrams that the endpoint received.
    pub packets_received: u64,
    /// Received datagrams that were marked with congestion experienced.
    pub packets_marked: u64,
    /// Payload bytes of open flows that arrived for the first time.
    pub payload_bytes_delivered: u64,
    /// Datagrams ignored because they are not packets of this network.
    pub foreign: u64,
    /// Datagrams ignored because their seal is wrong: they are forged or damaged.
    pub forged: u64,
    /// Datagrams ignored because they were accepted before.
    pub replayed: u64,
    /// Datagrams ignored because they belong to a session that this process does not have, such as one with an earlier process of this node.
    pub strangers: u64,
    /// Authentic datagrams ignored because they contradict themselves.
    pub malformed: u64,
    /// Packets ignored because their source has too many open flows to this node.
    pub over_limit: u64,
    /// Flows discarded because the byte ranges that the endpoint reported were inconsistent.
    pub broken_flows: u64,
}

impl Stats {
    pub(crate) fn sent<H>(&mut self, packet: &Packet<H>) {
        self.packets_sent += 1;
        self.payload_bytes_sent += u64::from(packet.payload_bytes);
        self.retransmissions += u64::from(packet.retransmission);
    }

    pub(crate) fn refused(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Foreign => &mut self.foreign,
            Refusal::Malformed => &mut self.malformed,
            Refusal::Rejected(Rejection::Forged) => &mut self.forged,
            Refusal::Rejected(Rejection::Replayed) => &mut self.replayed,
            Refusal::Rejected(Rejection::Stranger) => &mut self.strangers,
        } += 1;
    }

    pub(crate) fn received<H>(&mut self, frame: &Frame<'_, H>) {
        self.packets_received += 1;
        self.packets_marked += u64::from(frame.packet.ecn == Ecn::Marked);
    }
}

/// Every counter as `name=value`, on one line.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = [
            ("packets_sent", self.packets_sent),
            ("payload_bytes_sent", self.payload_bytes_sent),
            ("retransmissions", self.retransmissions),
            ("send_failures", self.send_failures),
            ("nic_drops", self.nic_drops),
            ("unsendable", self.unsendable),
            ("packets_received", self.packets_received),
            ("packets_marked", self.packets_marked),
            ("payload_bytes_delivered", self.payload_bytes_delivered),
            ("foreign", self.foreign),
            ("forged", self.forged),
            ("replayed", self.replayed),
            ("strangers", self.strangers),
            ("malformed", self.malformed),
            ("over_limit", self.over_limit),
            ("broken_flows", self.broken_flows),
        ];
        for (index, (name, value)) in counters.into_iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
