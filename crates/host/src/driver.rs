//! What a host does around an endpoint, without a clock: time and network are lent to each call.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use flowloom_core::{
    Bytes, Duration, Endpoint, Event, Flow, FlowId, Nic, NodeId, Packet, Placement, Site, Time, Transport, WireProfile,
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

/// Datagrams received between two looks at the clock.
const RECEIVE_BATCH: usize = 64;
/// Instants caught up with between two looks at the network. More than a catch-up of 16 slots of control packets has.
const INSTANTS_BATCH: usize = 1024;
/// No datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// What became of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// All of a flow to this node has arrived.
    Received {
        /// The flow.
        flow: FlowId,
        /// Who sent it.
        src: NodeId,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// All of a flow from this node has arrived, and its destination said so.
    Acknowledged {
        /// The flow.
        flow: FlowId,
    },
}

/// One node: endpoint, NIC, and the bytes of its flows.
pub struct Driver<T: Transport> {
    me: NodeId,
    addresses: Vec<SocketAddr>,
    wire: WireProfile,
    host: T::Host,
    nic: EmulatedNic<T>,
    /// The present of the endpoint and the NIC; behind the clock while missed instants are made up for.
    now: Time,
    /// How far behind the clock that may be.
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
    /// Where there is no such node, packets have no room, or the transport needs control nodes.
    pub fn new(config: &T::Config, cluster: &Cluster, me: NodeId, seed: u64) -> io::Result<Driver<T>> {
        if me.index() >= cluster.addresses().len() {
            return Err(invalid(format!("node {} of {} nodes", me.0, cluster.addresses().len())));
        }
        if T::placement(config) != Placement::Nowhere {
            return Err(invalid(format!("{} has control nodes, which are not run on hosts yet", T::NAME)));
        }
        let (network, wire) = (cluster.network(), cluster.wire::<T>()?);
        let site = Site { node: me, network: &network, wire, seed, reorders: false };
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

    /// The next thing to tell, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Opens a flow. Its packets leave in the next calls of [`Driver::advance`].
    ///
    /// # Errors
    /// Where `dst` is no other node, or a million flows are open.
    pub fn open(&mut self, clock: Time, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        if dst == self.me || dst.index() >= self.addresses.len() {
            return Err(invalid(format!("no flow goes from node {} to node {}", self.me.0, dst.0)));
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

    /// When [`Driver::advance`] is wanted next.
    pub fn next_instant(&self) -> Option<Time> {
        let service = self.nic.next_service(self.now, self.host.may_transmit());
        [self.host.poll_timeout(), service].into_iter().flatten().min()
    }

    /// Makes happen what the endpoint and the NIC wanted to happen until `clock`, each at its own instant, so that a late wake-up
    /// costs some delay and no rate: a NIC would have sent in the meantime. What is older than the catch-up limit happens at the limit.
    ///
    /// # Errors
    /// What the network reports.
    pub fn advance(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.serve(network)?;
        let limit = Time::from_ps(clock.as_ps().saturating_sub(self.lag_max.as_ps()));
        for _ in 0..INSTANTS_BATCH {
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

    /// Hands waiting datagrams to the endpoint, at `clock`.
    ///
    /// # Errors
    /// What the network reports.
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

    /// False if there was none.
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

    /// A datagram that is a packet from one of the nodes to this one, about a flow between the two.
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
            // Payload comes from the flow's source.
            (false, true) if !frame.payload.is_empty() => Err(Refusal::Malformed),
            _ => Ok(frame),
        }
    }

    fn handle(&mut self, frame: &Frame<'_, T::Header>) {
        self.stats.received(frame);
        self.host.handle_packet(self.now, &frame.packet);
        self.take_events(Some(frame));
    }

    /// Acts on what the endpoint reports after a call; `frame` is what it handled in that call.
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

    /// Takes packets from the endpoint for as long as the NIC wants them, and puts on the wire what the NIC sends.
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
        // A link frame has no address, and what was acknowledged while it was queued has no bytes any more.
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
