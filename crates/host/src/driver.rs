//! The driver of one endpoint on a real host. It has no clock and no socket: each call passes the time and the network.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use flowloom_core::{
    Bytes, Duration, Endpoint, Event, Flow, FlowId, Nic, NodeId, Packet, Paths, Placement, Routing, Site, Time, Transport,
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

/// The completion of a flow, for the application.
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
}

/// One node: its endpoint, its NIC, and the data of its flows.
pub struct Driver<T: Transport> {
    me: NodeId,
    addresses: Vec<SocketAddr>,
    wire: WireProfile,
    host: T::Host,
    nic: EmulatedNic<T>,
    /// The time that the endpoint and the NIC see. It is behind the clock while missed events are handled.
    now: Time,
    /// How far `now` may be behind the clock.
    lag_max: Duration,
    flow_ids: FlowIds,
    outgoing: Outgoing,
    incoming: Incoming,
    notices: VecDeque<Notice>,
    stats: Stats,
    receive_buffer: Box<[u8]>,
    send_buffer: Box<[u8]>,
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
        Ok(Driver {
            me,
            addresses: cluster.addresses().to_vec(),
            wire,
            host: T::host(config, &site),
            nic: EmulatedNic::new(config, &site, profile.nic_buffer),
            now: Time::ZERO,
            lag_max: profile.line_rate.transmit_time(wire.full) * profile.catch_up_slots,
            flow_ids: FlowIds::new(me, seed),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            notices: VecDeque::new(),
            stats: Stats::default(),
            receive_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
            send_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
        })
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        Stats { nic_drops: self.nic.dropped, ..self.stats }
    }

    /// Flows from here that are not yet acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.outgoing.len()
    }

    /// The next notice for the application, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Opens a flow. Its packets leave in the next calls of [`Driver::advance`].
    ///
    /// # Errors
    /// If `dst` is this node or does not exist, or 2^20 flows are open.
    pub fn open(&mut self, clock: Time, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        if dst == self.me || dst.index() >= self.addresses.len() {
            return Err(invalid(format!(
                "node {} cannot send to node {}: the destination must be another node of the cluster",
                self.me.0, dst.0
            )));
        }
        let id = self
            .flow_ids
            .next(|id| self.outgoing.destination(id).is_some())
            .ok_or_else(|| invalid("too many open flows".into()))?;
        self.now = self.now.max(clock);
        let size = Bytes::new(data.len() as u64);
        self.outgoing.insert(id, dst, data);
        self.host
            .open(self.now, &Flow { id, src: self.me, dst, size, start: self.now, deadline: None, tenant: 0, coflow: None });
        self.take_events(None);
        Ok(id)
    }

    /// When [`Driver::advance`] must be called next.
    pub fn next_instant(&self) -> Option<Time> {
        let service = self.nic.next_service(self.now, self.host.may_transmit());
        [self.host.poll_timeout(), service].into_iter().flatten().min()
    }

    /// Handles all timeouts and NIC services that are due by `clock`, each at its own time. So a late wake-up adds delay but does not
    /// reduce the rate: a real NIC would have sent in the meantime. Events older than the catch-up limit are handled at the limit.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn advance(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.serve(network)?;
        let limit = Time::from_ps(clock.as_ps().saturating_sub(self.lag_max.as_ps()));
        for _ in 0..EVENTS_BATCH {
            let Some(due) = self.next_instant().filter(|due| *due <= clock) else { break };
            self.now = self.now.max(due).max(limit);
            if self.host.poll_timeout().is_some_and(|due| due <= self.now) {
                self.host.handle_timeout(self.now);
                self.take_events(None);
            }
            self.serve(network)?;
        }
        Ok(())
    }

    /// Receives waiting datagrams, which the endpoint handles at time `clock`.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn receive(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.now = self.now.max(clock);
        for _ in 0..RECEIVE_BATCH {
            if !self.receive_one(network)? {
                break;
            }
            self.serve(network)?;
        }
        Ok(())
    }

    /// Receives one datagram. Returns false if there was none.
    fn receive_one(&mut self, network: &mut impl Datagrams) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.receive_buffer);
        let arrival = network.receive(&mut buffer);
        if let Ok(Some(arrival)) = &arrival {
            match self.accept(&buffer[..arrival.bytes], arrival) {
                Ok(frame) => self.handle(&frame),
                Err(Refusal::Foreign) => self.stats.foreign += 1,
                Err(Refusal::Malformed) => self.stats.malformed += 1,
            }
        }
        self.receive_buffer = buffer;
        Ok(arrival?.is_some())
    }

    /// Accepts a datagram only if it is a packet from another node to this one, about a flow between the two.
    fn accept<'a>(&self, datagram: &'a [u8], arrival: &Arrival) -> Result<Frame<'a, T::Header>, Refusal> {
        let frame = frame::parse::<T>(datagram, arrival.tos, &self.wire)?;
        let Packet { flow, src, dst, .. } = frame.packet;
        if dst != self.me || src == self.me || self.addresses.get(src.index()) != Some(&arrival.from) {
            return Err(Refusal::Foreign);
        }
        let owner = flow_ids::source_of(flow);
        let answers_me = owner == self.me && self.outgoing.destination(flow).is_none_or(|peer| peer == src);
        match (owner == src, answers_me) {
            (false, false) => Err(Refusal::Foreign),
            // Only the flow's source sends payload.
            (false, true) if !frame.payload.is_empty() => Err(Refusal::Malformed),
            _ => Ok(frame),
        }
    }

    fn handle(&mut self, frame: &Frame<'_, T::Header>) {
        self.stats.received(frame);
        self.host.handle_packet(self.now, &frame.packet);
        self.take_events(Some(frame));
    }

    /// Handles the endpoint's events after a call. `frame` is the frame that the endpoint handled in that call.
    fn take_events(&mut self, frame: Option<&Frame<'_, T::Header>>) {
        while let Some(event) = self.host.poll_event() {
            match event {
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
            }
        }
    }

    /// Takes packets from the endpoint for as long as the NIC takes them, and sends what the NIC sends.
    fn serve(&mut self, network: &mut impl Datagrams) -> io::Result<()> {
        while T::NIC == Nic::Queued || self.nic.wants_packet(self.now) {
            let Some(packet) = self.host.poll_transmit(self.now) else { break };
            self.nic.enqueue(self.now, packet);
            self.drain(network)?;
        }
        self.drain(network)
    }

    fn drain(&mut self, network: &mut impl Datagrams) -> io::Result<()> {
        while self.nic.is_idle(self.now) {
            let Some(packet) = self.nic.dequeue(self.now) else { break };
            self.transmit(&packet, network)?;
        }
        Ok(())
    }

    fn transmit(&mut self, packet: &Packet<T::Header>, network: &mut impl Datagrams) -> io::Result<()> {
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
}
