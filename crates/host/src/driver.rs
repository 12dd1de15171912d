//! The driver of one endpoint on a real host. It has no clock and no socket: each call passes the time and the network.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use flowloom_core::driver::{self, Attachment};
use flowloom_core::{
    AbortReason, Bytes, Duration, Event, Flow, FlowId, Nic, NodeId, Packet, Paths, Placement, Routing, Site, Time, Transport,
    WireProfile,
};

use crate::cluster::{Cluster, invalid};
use crate::datagrams::{Arrival, Datagrams};
use crate::flow_ids::{self, FlowIds};
use crate::frame::{self, Frame, Refusal};
use crate::marking;
use crate::nic::EmulatedNic;
use crate::stats::Stats;
use crate::transfers::{Incoming, Outgoing};

#[cfg(test)]
mod tests;

/// The largest number of datagrams received between two readings of the clock.
const RECEIVE_BATCH: usize = 64;
/// The largest number of missed events handled before the network is read again. It exceeds those of a catch-up of 16 slots full of control
/// packets.
const EVENTS_BATCH: usize = 1024;
/// The largest size of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// The end of a flow, for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// All of a flow to this node has arrived.
    Received {
        /// The flow.
        flow: FlowId,
        /// The node that sent it.
        src: NodeId,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// All of a flow from this node has arrived, and its destination has acknowledged it.
    Acknowledged {
        /// The flow.
        flow: FlowId,
    },
    /// The transport has given up a flow from this node.
    Aborted {
        /// The flow.
        flow: FlowId,
        /// Why.
        reason: AbortReason,
    },
}

/// One node: its endpoint, and what surrounds it.
pub struct Driver<T: Transport> {
    host: T::Host,
    around: Surroundings<T>,
    wire: WireProfile,
    /// How far the time may be behind the clock.
    lag_max: Duration,
    flow_ids: FlowIds,
    receive_buffer: Box<[u8]>,
}

/// What surrounds a node's endpoint: its NIC, and the data of its flows.
struct Surroundings<T: Transport> {
    me: NodeId,
    addresses: Vec<SocketAddr>,
    nic: EmulatedNic<T>,
    /// The time that the endpoint and the NIC see. It is behind the clock while missed events are handled.
    now: Time,
    /// When the endpoint wants to be called.
    timer: Option<Time>,
    outgoing: Outgoing,
    incoming: Incoming,
    notices: VecDeque<Notice>,
    stats: Stats,
    send_buffer: Box<[u8]>,
    /// The first error of the network in this call.
    error: Option<io::Error>,
}

/// A node's surroundings during a call on its endpoint.
struct Attached<'a, T: Transport> {
    around: &'a mut Surroundings<T>,
    /// `None` while the network may not be used; packets then wait in the endpoint.
    network: Option<&'a mut dyn Datagrams>,
    /// The frame that the endpoint handles in this call.
    frame: Option<&'a Frame<'a, T::Header>>,
}

impl<'a, T: Transport> Attachment<T::Header> for Attached<'a, T> {
    type Arrival = &'a Frame<'a, T::Header>;

    fn now(&self) -> Time {
        self.around.now
    }

    fn packet(&self, arrival: Self::Arrival) -> &Packet<T::Header> {
        &arrival.packet
    }

    fn consume(&mut self, arrival: Self::Arrival) {
        self.around.stats.received(arrival);
    }

    fn report(&mut self, event: &Event) {
        self.around.take_event(event, self.frame);
    }

    fn takes_packet(&mut self) -> bool {
        self.network.is_some() && self.around.error.is_none() && (T::NIC == Nic::Queued || self.around.nic.takes_packet())
    }

    fn send(&mut self, packet: Packet<T::Header>) {
        self.around.nic.enqueue(packet);
        if let Some(network) = &mut self.network {
            self.around.transmit(*network);
        }
    }

    fn set_timer(&mut self, wanted: Option<Time>) {
        self.around.timer = wanted;
    }
}

impl<T: Transport> Surroundings<T> {
    fn set_now(&mut self, now: Time) {
        self.now = now;
        self.nic.set_now(now);
    }

    /// Handles an event of the endpoint. `frame` is the frame that the endpoint handled in this call.
    fn take_event(&mut self, event: &Event, frame: Option<&Frame<'_, T::Header>>) {
        match *event {
            Event::Delivered { flow, offset, bytes } => {
                let new = frame.filter(|frame| frame.packet.flow == flow).and_then(|frame| {
                    let start = offset.get().checked_sub(frame.packet.offset.get())? as usize;
                    frame.payload.get(start..)?.get(..bytes.get() as usize)
                });
                self.stats.payload_bytes_delivered += new.map_or(0, |bytes| bytes.len() as u64);
                self.incoming.insert(flow, offset.get(), new);
            }
            Event::Received { flow } => {
                let src = flow_ids::source_of(flow);
                match self.incoming.finish(flow).filter(|_| src != self.me) {
                    Some(data) => self.notices.push_back(Notice::Received { flow, src, data }),
                    None => self.stats.broken_flows += 1,
                }
            }
            Event::TimedOut { .. } => {}
            Event::Acknowledged { flow } => {
                self.outgoing.remove(flow);
                self.notices.push_back(Notice::Acknowledged { flow });
            }
            Event::Aborted { flow, reason } => {
                self.outgoing.remove(flow);
                self.notices.push_back(Notice::Aborted { flow, reason });
            }
        }
    }

    /// Writes to the network what the NIC has sent.
    fn transmit(&mut self, network: &mut dyn Datagrams) {
        while let Some(packet) = self.nic.poll_sent() {
            if let Err(error) = self.transmit_one(&packet, network) {
                self.error.get_or_insert(error);
            }
        }
    }

    fn transmit_one(&mut self, packet: &Packet<T::Header>, network: &mut dyn Datagrams) -> io::Result<()> {
        // A link frame has no address, and the data of a flow that was acknowledged while the packet was queued is gone.
        let (Some(to), Some(payload)) = (self.addresses.get(packet.dst.index()), self.outgoing.payload(packet)) else {
            self.stats.unsendable += 1;
            return Ok(());
        };
        let length = frame::write::<T>(packet, payload, &mut self.send_buffer);
        let tos = marking::to_tos(packet.class, packet.ecn);
        if network.send(*to, tos, &self.send_buffer[..length])? {
            self.stats.sent(packet);
        } else {
            self.stats.send_failures += 1;
        }
        Ok(())
    }

    /// The first error of the network since the last call.
    fn outcome(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl<T: Transport> Driver<T> {
    /// Node `me` of `cluster`.
    ///
    /// # Errors
    /// If there is no such node, the MTU has no room for payload, or the transport needs control nodes.
    pub fn new(config: &T::Config, cluster: &Cluster, me: NodeId, seed: u64) -> io::Result<Driver<T>> {
        if me.index() >= cluster.addresses().len() {
            return Err(invalid(format!(
                "there is no node {}; the cluster has {} nodes, counted from 0",
                me.0,
                cluster.addresses().len()
            )));
        }
        if T::placement(config) != Placement::Nowhere {
            return Err(invalid(format!("{} has control nodes, which are not run on hosts yet", T::NAME)));
        }
        let (network, wire) = (Arc::new(cluster.network()), cluster.wire::<T>()?);
        let paths = Paths::new(network.clone(), Routing::EcmpSymmetric, seed);
        let site = Site { node: me, network: &network, wire, seed, reorders: false, paths: Some(&paths) };
        let profile = cluster.profile();
        let around = Surroundings {
            me,
            addresses: cluster.addresses().to_vec(),
            nic: EmulatedNic::new(config, &site, profile.nic_buffer),
            now: Time::ZERO,
            timer: None,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            notices: VecDeque::new(),
            stats: Stats::default(),
            send_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
            error: None,
        };
        let mut driver = Driver {
            host: T::host(config, &site),
            around,
            wire,
            lag_max: profile.line_rate.transmit_time(wire.full) * profile.catch_up_slots,
            flow_ids: FlowIds::new(me, seed),
            receive_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
        };
        driver::start(&driver.host, Attached { around: &mut driver.around, network: None, frame: None });
        Ok(driver)
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        Stats { nic_drops: self.around.nic.dropped(), ..self.around.stats }
    }

    /// Flows from here that are neither acknowledged nor given up.
    pub fn unacknowledged(&self) -> usize {
        self.around.outgoing.len()
    }

    /// The next notice for the application, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.around.notices.pop_front()
    }

    /// Opens a flow. Its packets leave in the next calls of [`Driver::advance`].
    ///
    /// # Errors
    /// If `dst` is this node or does not exist, or 2^20 flows are open.
    pub fn open(&mut self, clock: Time, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        let Driver { host, around, flow_ids, .. } = self;
        if dst == around.me || dst.index() >= around.addresses.len() {
            return Err(invalid(format!(
                "node {} cannot send to node {}: the destination must be another node of the cluster",
                around.me.0, dst.0
            )));
        }
        let id = flow_ids
            .next(|id| around.outgoing.destination(id).is_some())
            .ok_or_else(|| invalid("too many open flows".into()))?;
        around.set_now(around.now.max(clock));
        let (src, size, start) = (around.me, Bytes::new(data.len() as u64), around.now);
        around.outgoing.insert(id, dst, data);
        let flow = Flow { id, src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: false };
        driver::open(host, Attached { around, network: None, frame: None }, &flow);
        Ok(id)
    }

    /// When [`Driver::advance`] must be called next.
    pub fn next_instant(&self) -> Option<Time> {
        [self.around.timer, self.around.nic.next_service()].into_iter().flatten().min()
    }

    /// Handles all timeouts and NIC services that are due by `clock`, each at its own time. So a late wake-up adds delay but does not
    /// reduce the rate: a real NIC would have sent in the meantime. Events older than the catch-up limit are handled at the limit.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn advance(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.refill(network);
        let limit = Time::from_ps(clock.as_ps().saturating_sub(self.lag_max.as_ps()));
        for _ in 0..EVENTS_BATCH {
            self.around.outcome()?;
            let Some(due) = self.next_instant().filter(|due| *due <= clock) else { break };
            let now = self.around.now.max(due).max(limit);
            self.around.set_now(now);
            if self.around.timer.is_some_and(|due| due <= now) {
                self.around.timer = None;
                driver::wake(&mut self.host, Attached { around: &mut self.around, network: Some(network), frame: None });
            }
            if self.around.nic.next_service().is_some_and(|due| due <= now) {
                self.around.nic.serve();
                self.around.transmit(network);
                self.refill(network);
            }
        }
        self.around.outcome()
    }

    fn refill(&mut self, network: &mut impl Datagrams) {
        driver::refill(&mut self.host, Attached { around: &mut self.around, network: Some(network), frame: None });
    }

    /// Receives waiting datagrams, which the endpoint handles at time `clock`.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn receive(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.around.set_now(self.around.now.max(clock));
        for _ in 0..RECEIVE_BATCH {
            if !self.receive_one(network)? {
                break;
            }
            self.around.outcome()?;
        }
        Ok(())
    }

    /// Receives one datagram. Returns false if there was none.
    fn receive_one(&mut self, network: &mut impl Datagrams) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.receive_buffer);
        let arrival = network.receive(&mut buffer);
        if let Ok(Some(arrival)) = &arrival {
            match self.accept(&buffer[..arrival.bytes], arrival) {
                Ok(frame) => {
                    let attached = Attached { around: &mut self.around, network: Some(network), frame: Some(&frame) };
                    driver::deliver(&mut self.host, attached, &frame);
                }
                Err(Refusal::Foreign) => self.around.stats.foreign += 1,
                Err(Refusal::Malformed) => self.around.stats.malformed += 1,
            }
        }
        self.receive_buffer = buffer;
        Ok(arrival?.is_some())
    }

    /// Accepts a datagram only if it is a packet from another node to this one, about a flow between the two.
    fn accept<'a>(&self, datagram: &'a [u8], arrival: &Arrival) -> Result<Frame<'a, T::Header>, Refusal> {
        let frame = frame::parse::<T>(datagram, arrival.tos, &self.wire)?;
        let Packet { flow, src, dst, .. } = frame.packet;
        if dst != self.around.me || src == self.around.me || self.around.addresses.get(src.index()) != Some(&arrival.from) {
            return Err(Refusal::Foreign);
        }
        let owner = flow_ids::source_of(flow);
        let answers_me = owner == self.around.me && self.around.outgoing.destination(flow).is_none_or(|peer| peer == src);
        match (owner == src, answers_me) {
            (false, false) => Err(Refusal::Foreign),
            // Only the flow's source sends payload.
            (false, true) if !frame.payload.is_empty() => Err(Refusal::Malformed),
            _ => Ok(frame),
        }
    }
}
