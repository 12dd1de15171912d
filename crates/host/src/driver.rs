//! The driver of one endpoint on a real host. It has no clock and no socket: each call passes the time and the network.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;

use flowloom_core::driver::{self, Attachment};
use flowloom_core::{
    AbortReason, Bytes, Duration, Ecn, Endpoint, Event, Flow, FlowId, Nic, NodeId, NodeKind, Packet, Paths, Placement, Routing,
    Site, Time, Transport, WireProfile,
};

use crate::cluster::{Cluster, digest, invalid};
use crate::datagrams::{Arrival, Datagrams};
use crate::flow_ids::{FlowIds, IdSpace, NO_FLOW};
use crate::frame::{self, Frame};
use crate::marking;
use crate::nic::EmulatedNic;
use crate::stats::Stats;
use crate::store::Store;
use crate::transfers::{Admission, Incoming, Outgoing, Payload, Sent};
use crate::trust::{self, Affair, Identity, Kind, Need, Peers, Rejection};

#[cfg(test)]
mod tests;

/// The largest number of datagrams received between two readings of the clock.
const RECEIVE_BATCH: usize = 64;
/// The largest number of missed events handled before the network is read again. It exceeds those of a catch-up of 16 slots full of control
/// packets.
const EVENTS_BATCH: usize = 1024;
/// How long a node that was told of the end of a flow has to confirm it, before it is told again.
const CONFIRM: Duration = Duration::from_ms(100);
/// Of how many flows a node is told again at once.
const ENDS_BATCH: usize = 64;
/// The largest size of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Why a flow ended before it was complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The transport gave it up.
    Transport(AbortReason),
    /// Its destination could not keep it, for this reason.
    Refused(String),
    /// Its source has given it up, for the cause of this name.
    GivenUp(String),
    /// The other node was restarted, and knows nothing of the flow.
    Restarted,
    /// The other node has said nothing for [`Profile::silence`](crate::Profile::silence).
    Silent,
    /// The other node cannot work with this one, for this reason.
    Differs(String),
}

impl Cause {
    /// Its name in records.
    pub const fn name(&self) -> &'static str {
        match self {
            Cause::Transport(reason) => reason.name(),
            Cause::Refused(_) => "refused",
            Cause::GivenUp(_) => "given_up",
            Cause::Restarted => "restarted",
            Cause::Silent => "silent",
            Cause::Differs(_) => "differs",
        }
    }
}

/// What it means, as the end of a sentence about a flow.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Transport(reason) => write!(f, "its transport gave it up ({})", reason.name()),
            Cause::Refused(reason) => write!(f, "its destination did not keep it: {reason}"),
            Cause::GivenUp(cause) => write!(f, "its source gave it up ({cause})"),
            Cause::Restarted => write!(f, "the other node was restarted"),
            Cause::Silent => write!(f, "the other node does not answer"),
            Cause::Differs(what) => write!(f, "the other node {what}"),
        }
    }
}

/// News for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// All of a flow to this node has arrived, and is kept.
    Received {
        /// The flow.
        flow: FlowId,
        /// The node that sent it.
        src: NodeId,
        /// How many bytes it has.
        size: Bytes,
        /// Its bytes, if the store keeps flows in memory.
        data: Vec<u8>,
    },
    /// A flow to this node has ended before all of it arrived, or could not be kept.
    Incomplete {
        /// The flow.
        flow: FlowId,
        /// The node that sent it.
        src: NodeId,
        /// How many bytes of it have arrived.
        arrived: Bytes,
        /// Why.
        cause: Cause,
    },
    /// All of a flow from this node has arrived, and its destination keeps it.
    Acknowledged {
        /// The flow.
        flow: FlowId,
        /// What it took.
        sent: Sent,
    },
    /// A flow from this node has ended before its destination had all of it.
    Aborted {
        /// The flow.
        flow: FlowId,
        /// What was sent of it.
        sent: Sent,
        /// Why.
        cause: Cause,
    },
    /// A node cannot work with this one. The flows between them end, if it is certain that the node said so; without a common key it is not.
    Differs {
        /// The node.
        peer: NodeId,
        /// What is different, as the end of a sentence about that node.
        what: String,
    },
}

/// What a node runs: the endpoint of a host, or the control endpoint of a switch or of the controller.
enum Role<T: Transport> {
    Host(T::Host),
    Control(T::Control),
}

/// Passes a call on to the endpoint.
macro_rules! delegate {
    ($role:expr, $endpoint:ident => $call:expr) => {
        match $role {
            Role::Host($endpoint) => $call,
            Role::Control($endpoint) => $call,
        }
    };
}

impl<T: Transport> Endpoint for Role<T> {
    type Header = T::Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        delegate!(self, endpoint => endpoint.open(now, flow));
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<T::Header>) {
        delegate!(self, endpoint => endpoint.handle_packet(now, packet));
    }
    fn handle_timeout(&mut self, now: Time) {
        delegate!(self, endpoint => endpoint.handle_timeout(now));
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<T::Header>> {
        delegate!(self, endpoint => endpoint.poll_transmit(now))
    }
    fn may_transmit(&self) -> bool {
        delegate!(self, endpoint => endpoint.may_transmit())
    }
    fn poll_timeout(&self) -> Option<Time> {
        delegate!(self, endpoint => endpoint.poll_timeout())
    }
    fn poll_event(&mut self) -> Option<Event> {
        delegate!(self, endpoint => endpoint.poll_event())
    }
}

/// One node: its endpoint, and what surrounds it.
pub struct Driver<T: Transport> {
    role: Role<T>,
    around: Surroundings<T>,
    wire: WireProfile,
    /// How far the time may be behind the clock.
    lag_max: Duration,
    flow_ids: FlowIds,
    /// Flows that start later, in order of their starts.
    planned: BTreeMap<(Time, FlowId), Flow>,
    /// Flows that have started, and whose destination has no session with this process yet.
    waiting: Vec<Flow>,
    receive_buffer: Box<[u8]>,
}

/// What surrounds a node's endpoint: its NIC, and the data of its flows.
struct Surroundings<T: Transport> {
    me: NodeId,
    ids: IdSpace,
    /// Where the other nodes are; `None` for switches without a process.
    addresses: Vec<Option<SocketAddr>>,
    /// How many of the nodes are hosts, which come first.
    hosts: usize,
    peers: Peers,
    nic: EmulatedNic<T>,
    /// The time of the clock, as far as it is known.
    clock: Time,
    /// The time that the endpoint and the NIC see. It is behind the clock while missed events are handled.
    now: Time,
    /// When the endpoint wants to be called.
    timer: Option<Time>,
    outgoing: Outgoing,
    incoming: Incoming,
    store: Box<dyn Store>,
    /// How many open flows there are with each node, and how many of them are planned for later.
    open_with: Vec<usize>,
    planned_with: Vec<usize>,
    /// The ends of flows that the other ends of these are to be told, and why.
    ends: Vec<(FlowId, NodeId, String)>,
    /// The flows from here that were given up, until their destinations have confirmed that they know.
    farewells: HashMap<NodeId, Farewells>,
    /// For how long a node is told again that has not confirmed.
    silence: Duration,
    notices: VecDeque<Notice>,
    stats: Stats,
    send_buffer: Box<[u8]>,
    /// The first error of the network in this call.
    error: Option<io::Error>,
}

/// The flows to one node that were given up here, with their causes.
struct Farewells {
    flows: BTreeMap<FlowId, &'static str>,
    /// When the node was last told.
    told: Time,
    /// Until when it is told again and again. Later, it is told when it says something.
    until: Time,
}

impl Farewells {
    /// When the node is told again although it says nothing.
    fn next(&self) -> Option<Time> {
        Some(self.told + CONFIRM).filter(|next| *next < self.until)
    }
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

    fn set_clock(&mut self, clock: Time) {
        self.clock = self.clock.max(clock);
    }

    /// Handles an event of the endpoint. `frame` is the frame that the endpoint handled in this call.
    fn take_event(&mut self, event: &Event, frame: Option<&Frame<'_, T::Header>>) {
        match *event {
            Event::Delivered { flow: here, offset, bytes } => {
                let Some(flow) = self.incoming.there(here) else { return };
                let new = frame.filter(|frame| frame.packet.flow == here).and_then(|frame| {
                    let start = offset.get().checked_sub(frame.packet.offset.get())? as usize;
                    frame.payload.get(start..)?.get(..bytes.get() as usize)
                });
                self.keep(flow, offset.get(), new);
            }
            Event::Received { flow: here } => {
                if let Some(flow) = self.incoming.there(here) {
                    self.complete(flow);
                }
            }
            Event::TimedOut { flow, in_a_row } => self.outgoing.time_out(flow, in_a_row),
            Event::Acknowledged { flow } => {
                if let Some((dst, sent)) = self.outgoing.remove(flow) {
                    self.close(dst);
                    self.notices.push_back(Notice::Acknowledged { flow, sent });
                }
            }
            Event::Aborted { flow, reason } => self.give_up(flow, Cause::Transport(reason)),
        }
    }

    /// Stores new bytes of a flow.
    fn keep(&mut self, flow: FlowId, offset: u64, new: Option<&[u8]>) {
        let open = self.incoming.insert(flow, new.map(|bytes| (offset, offset + bytes.len() as u64)));
        let Some(bytes) = new.filter(|_| open) else { return };
        self.stats.payload_bytes_delivered += bytes.len() as u64;
        if let Err(error) = self.store.write(flow, offset, bytes) {
            self.refuse(flow, &error);
        }
    }

    /// Publishes a flow of which everything has arrived. This happens before the endpoint's acknowledgement is sent.
    fn complete(&mut self, flow: FlowId) {
        if !self.incoming.is_open(flow) {
            return;
        }
        let src = self.ids.source_of(flow);
        let Some(size) = self.incoming.size(flow) else {
            self.stats.broken_flows += 1;
            self.refuse(flow, &io::Error::other("its packets contradict each other"));
            return;
        };
        match self.store.finish(flow, size) {
            Ok(data) => {
                self.incoming.end(flow, None);
                self.close(src);
                self.notices.push_back(Notice::Received { flow, src, size: Bytes::new(size), data });
            }
            Err(error) => self.refuse(flow, &error),
        }
    }

    /// Ends a flow to this node that cannot be kept. Its source is told now, and whenever it goes on.
    fn refuse(&mut self, flow: FlowId, error: &io::Error) {
        self.lose(flow, Cause::Refused(error.to_string()), error.to_string());
        self.ends.push((flow, self.ids.source_of(flow), error.to_string()));
    }

    /// Ends a flow to this node that is not complete. `reason` is what its source hears, if it goes on.
    fn lose(&mut self, flow: FlowId, cause: Cause, reason: String) {
        let arrived = self.incoming.end(flow, Some(reason));
        self.note_loss(flow, arrived, cause);
    }

    /// Forgets the data of a flow to this node that has ended before it was complete, if it was open.
    fn note_loss(&mut self, flow: FlowId, arrived: Option<u64>, cause: Cause) {
        if let Some(arrived) = arrived {
            self.store.discard(flow);
            let src = self.ids.source_of(flow);
            self.close(src);
            self.notices.push_back(Notice::Incomplete { flow, src, arrived: Bytes::new(arrived), cause });
        }
    }

    /// Gives up a flow from this node.
    fn give_up(&mut self, flow: FlowId, cause: Cause) {
        let by_transport = matches!(cause, Cause::Transport(_));
        let ended = if by_transport { self.outgoing.remove(flow) } else { self.outgoing.cut_off(flow) };
        let Some((dst, sent)) = ended else { return };
        self.close(dst);
        // Otherwise, the destination has ended the flow itself, or its process has.
        if sent.started.is_some() && (by_transport || cause == Cause::Silent) {
            self.ends.push((flow, dst, cause.name().to_owned()));
            let clock = self.clock;
            let farewells =
                self.farewells.entry(dst).or_insert_with(|| Farewells { flows: BTreeMap::new(), told: clock, until: clock });
            farewells.flows.insert(flow, cause.name());
            // A node that is silent would not confirm.
            if by_transport {
                farewells.until = clock + self.silence;
            }
        }
        self.notices.push_back(Notice::Aborted { flow, sent, cause });
    }

    /// Tells a node the ends of flows that it has not confirmed.
    fn repeat_farewells(&mut self, peer: NodeId) {
        let Some(farewells) = self.farewells.get_mut(&peer).filter(|farewells| self.clock >= farewells.told + CONFIRM) else {
            return;
        };
        farewells.told = self.clock;
        self.ends.extend(farewells.flows.iter().take(ENDS_BATCH).map(|(flow, cause)| (*flow, peer, (*cause).to_owned())));
    }

    /// Tells the nodes again for which it is time.
    fn repeat_due_farewells(&mut self) {
        let due = |farewells: &Farewells| farewells.next().is_some_and(|next| next <= self.clock);
        let peers: Vec<NodeId> = self.farewells.iter().filter(|(_, farewells)| due(farewells)).map(|(peer, _)| *peer).collect();
        peers.into_iter().for_each(|peer| self.repeat_farewells(peer));
    }

    /// A flow's destination knows that it has ended.
    fn confirm(&mut self, peer: NodeId, flow: FlowId) {
        if let Some(farewells) = self.farewells.get_mut(&peer) {
            farewells.flows.remove(&flow);
            // Who confirms one is there to confirm the others.
            farewells.until = farewells.until.max(self.clock + self.silence);
            if farewells.flows.is_empty() {
                self.farewells.remove(&peer);
            }
        }
    }

    /// Ends all flows from a node.
    fn lose_all(&mut self, peer: NodeId, cause: &Cause) {
        for flow in self.incoming.from(peer) {
            self.lose(flow, cause.clone(), cause.to_string());
        }
    }

    /// Notes that there is one more open flow with a node.
    fn open(&mut self, peer: NodeId) {
        self.open_with[peer.index()] += 1;
        self.note_need(peer);
    }

    /// Notes that there is one open flow less with a node.
    fn close(&mut self, peer: NodeId) {
        self.open_with[peer.index()] -= 1;
        self.note_need(peer);
    }

    /// Notes that one more flow to a node is planned for later.
    fn plan(&mut self, peer: NodeId) {
        self.planned_with[peer.index()] += 1;
        self.open(peer);
    }

    /// Notes that an open flow is no longer planned for later.
    fn unplan(&mut self, peer: NodeId) {
        self.planned_with[peer.index()] -= 1;
        self.note_need(peer);
    }

    fn note_need(&mut self, peer: NodeId) {
        let need = match (self.open_with[peer.index()], self.planned_with[peer.index()]) {
            (0, _) => Need::None,
            (open, planned) if open == planned => Need::Later,
            _ => Need::Now,
        };
        self.peers.set_need(self.clock, peer, need);
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
        let dst = packet.dst;
        // A link frame has no address, and the data of a flow that ended while the packet was queued is gone.
        let (Some(to), Some(payload), Some(flow)) =
            (self.address(dst), self.outgoing.payload(packet), self.name_there(packet.flow))
        else {
            self.stats.unsendable += 1;
            return Ok(());
        };
        let length = frame::write::<T>(&Packet { flow, ..*packet }, payload, &mut self.send_buffer);
        let Some(length) = self.peers.seal(self.clock, dst, &mut self.send_buffer, length, payload.len()) else {
            self.stats.unsendable += 1;
            return Ok(());
        };
        let tos = marking::to_tos(packet.class, packet.ecn);
        self.stats.sent(packet);
        self.outgoing.count(packet);
        network.send(to, tos, &self.send_buffer[..length])
    }

    /// What other nodes call a flow about which the endpoint speaks. `None` if the driver has ended it, which endpoints do not know: it may not be acknowledged then.
    fn name_there(&self, flow: FlowId) -> Option<FlowId> {
        if self.is_control(self.me) || flow == NO_FLOW {
            return Some(flow);
        }
        if self.ids.source_of(flow) == self.me {
            return Some(flow).filter(|flow| !self.outgoing.is_cut_off(*flow));
        }
        self.incoming.there(flow).filter(|flow| self.incoming.is_answered(*flow))
    }

    /// Sends what the network has kept.
    fn flush(&mut self, network: &mut dyn Datagrams) -> io::Result<()> {
        self.stats.send_failures += network.flush()?;
        self.outcome()
    }

    /// Sends the greetings and signs of life that are due.
    fn greet(&mut self, network: &mut dyn Datagrams) -> io::Result<()> {
        while let Some((peer, message)) = self.peers.poll_transmit() {
            if let Some(to) = self.address(peer) {
                network.send(to, marking::to_tos(0, Ecn::NotCapable), &message)?;
            }
        }
        Ok(())
    }

    /// Tells the other ends of flows which have ended here.
    fn send_ends(&mut self, network: &mut dyn Datagrams) -> io::Result<()> {
        for (flow, peer, reason) in std::mem::take(&mut self.ends) {
            self.send_end(flow, peer, &reason, network)?;
        }
        Ok(())
    }

    fn send_end(&mut self, flow: FlowId, dst: NodeId, reason: &str, network: &mut dyn Datagrams) -> io::Result<()> {
        let secret = [&flow.0.to_be_bytes(), reason.as_bytes()].concat();
        let head = trust::head(Kind::End, self.me, dst);
        let length = head.len() + secret.len();
        self.send_buffer[..head.len()].copy_from_slice(&head);
        self.send_buffer[head.len()..length].copy_from_slice(&secret);
        let sealed = self.peers.seal(self.clock, dst, &mut self.send_buffer, length, secret.len());
        if let (Some(length), Some(to)) = (sealed, self.address(dst)) {
            network.send(to, marking::to_tos(0, Ecn::NotCapable), &self.send_buffer[..length])?;
        }
        Ok(())
    }

    /// Where a node's process is, if it exists and has one.
    fn address(&self, node: NodeId) -> Option<SocketAddr> {
        *self.addresses.get(node.index())?
    }

    /// Whether a node is a switch or the controller.
    fn is_control(&self, node: NodeId) -> bool {
        node.index() >= self.hosts
    }

    /// The node that a datagram claims to come from, if it comes from that node's address.
    fn peer(&self, src: NodeId, arrival: &Arrival) -> Result<NodeId, Refusal> {
        let known = src != self.me && self.address(src) == Some(arrival.from);
        known.then_some(src).ok_or(Refusal::Foreign)
    }

    /// Notes an error of the network, which ends this call.
    fn fail(&mut self, error: io::Error) -> Refusal {
        self.error.get_or_insert(error);
        Refusal::Foreign
    }

    /// The first error of the network since the last call.
    fn outcome(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl<T: Transport> Driver<T> {
    /// Node `me` of `cluster`, which keeps in `store` what it receives.
    ///
    /// # Errors
    /// If there is no such node, the MTU has no room for payload, or the transport needs control nodes.
    pub fn new(config: &T::Config, cluster: &Cluster, me: NodeId, seed: u64, store: Box<dyn Store>) -> io::Result<Driver<T>> {
        let network = cluster.network();
        if me.index() >= network.len() {
            return Err(invalid(format!("there is no node {}; the cluster has {} nodes, counted from 0", me.0, network.len())));
        }
        let placement = T::placement(config);
        if placement == Placement::ExtraHost && network.control_host().is_none() {
            return Err(invalid(format!("{} needs a controller, and the cluster has none", T::NAME)));
        }
        let identity = Identity {
            transport: T::NAME.to_owned(),
            parameters: digest(format!("{config:?}").as_bytes()),
            cluster: cluster.digest(),
        };
        let nodes = network.len();
        let peers = Peers::new(me, nodes, cluster.key().clone(), identity, cluster.profile().silence)?;
        let wire = cluster.wire::<T>()?;
        // All nodes must agree on the path of a flow.
        let paths = Paths::new(network.clone(), Routing::EcmpSymmetric, cluster.digest());
        let site = Site { node: me, network, wire, seed, reorders: false, paths: Some(&paths) };
        let role = match (network.node(me).kind, placement) {
            (NodeKind::Host, _) => Role::Host(T::host(config, &site)),
            (NodeKind::Switch, Placement::Switches) | (NodeKind::ControlHost, Placement::ExtraHost) => {
                Role::Control(T::control(config, &site))
            }
            _ => {
                let name = &cluster.members()[me.index()].name;
                return Err(invalid(format!("{}, as configured, has nothing to run at \"{name}\"", T::NAME)));
            }
        };
        let profile = cluster.profile();
        let around = Surroundings {
            me,
            ids: cluster.id_space(),
            addresses: cluster.members().iter().map(|member| member.address).collect(),
            hosts: network.hosts(),
            peers,
            nic: EmulatedNic::new(config, &site, profile.nic_memory::<T>(config)),
            clock: Time::ZERO,
            now: Time::ZERO,
            timer: None,
            outgoing: Outgoing::default(),
            incoming: Incoming::new(cluster.id_space(), me),
            store,
            open_with: vec![0; nodes],
            planned_with: vec![0; nodes],
            ends: Vec::new(),
            farewells: HashMap::new(),
            silence: profile.silence,
            notices: VecDeque::new(),
            stats: Stats::default(),
            send_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
            error: None,
        };
        let mut driver = Driver {
            role,
            around,
            wire,
            lag_max: profile.lag_max(site.line_rate(), wire.full),
            flow_ids: FlowIds::new(cluster.id_space(), me, seed),
            planned: BTreeMap::new(),
            waiting: Vec::new(),
            receive_buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
        };
        driver::start(&driver.role, Attached { around: &mut driver.around, network: None, frame: None });
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

    /// Flows from here that were given up, and whose destinations are told so again until they confirm it, or have confirmed nothing for [`Profile::silence`](crate::Profile::silence).
    pub fn unconfirmed(&self) -> usize {
        let told = self.around.farewells.values().filter(|farewells| farewells.until > self.around.clock);
        told.map(|farewells| farewells.flows.len()).sum()
    }

    /// Flows from here that are neither acknowledged nor given up, and what was sent of each.
    pub fn open_flows(&self) -> Vec<(FlowId, Sent)> {
        self.around.outgoing.open()
    }

    /// Flows to this node that are not complete, and how many bytes of each have arrived.
    pub fn unfinished(&self) -> Vec<(FlowId, Bytes)> {
        self.around.incoming.open().into_iter().map(|(flow, arrived)| (flow, Bytes::new(arrived))).collect()
    }

    /// The next notice for the application, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.around.notices.pop_front()
    }

    /// Opens a flow. Its packets leave in the next calls of [`Driver::advance`], when there is a session with its destination.
    ///
    /// # Errors
    /// If `dst` is this node or does not exist, or this process has used all its flow ids, of which there are 2^20 or more.
    pub fn open(&mut self, clock: Time, dst: NodeId, data: Vec<u8>) -> io::Result<FlowId> {
        let start = self.around.now.max(clock);
        let flow = Flow {
            id: FlowId::default(),
            src: self.around.me,
            dst,
            size: Bytes::new(data.len() as u64),
            start,
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        };
        let flow = self.admit(clock, flow, Payload::Data(data))?;
        self.around.open(dst);
        self.around.set_now(start);
        self.begin(flow, None);
        Ok(flow.id)
    }

    /// Plans a flow of zeros. It begins at its start, in a call of [`Driver::advance`], or later, when there is a session with its destination; the two greet each
    /// other now. The destination may be silent until the start, and for [`Profile::silence`](crate::Profile::silence) after it. If other flows wait for it already, the time counts from
    /// the start of the first one. The flow's id and its source are chosen here.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn plan(&mut self, clock: Time, flow: Flow) -> io::Result<FlowId> {
        let flow = self.admit(clock, flow, Payload::Zeros(flow.size.get()))?;
        self.around.plan(flow.dst);
        self.planned.insert((flow.start, flow.id), flow);
        Ok(flow.id)
    }

    /// Gives a flow an id and a place among those from here.
    fn admit(&mut self, clock: Time, flow: Flow, payload: Payload) -> io::Result<Flow> {
        let Driver { around, flow_ids, .. } = self;
        let (src, dst) = (around.me, flow.dst);
        if dst == src || around.is_control(dst) || around.is_control(src) {
            return Err(invalid(format!(
                "node {} cannot send to node {}: both must be hosts of the cluster, and not the same",
                src.0, dst.0
            )));
        }
        let used_up = "this process has sent a flow with each of its ids, and must be restarted before it can send more";
        let id = flow_ids.next().ok_or_else(|| invalid(used_up.into()))?;
        around.set_clock(clock);
        around.outgoing.insert(id, dst, payload);
        Ok(Flow { id, src, ..flow })
    }

    /// Gives a flow to the endpoint, or lets it wait for a session with its destination.
    fn begin<'a>(&'a mut self, flow: Flow, network: Option<&'a mut dyn Datagrams>) {
        let Driver { around, role, waiting, .. } = self;
        if around.peers.has_session(flow.dst) {
            around.outgoing.start(flow.id, around.now);
            driver::open(role, Attached { around, network, frame: None }, &flow);
        } else {
            waiting.push(flow);
        }
    }

    /// Begins the planned flows that are due.
    fn begin_planned(&mut self, network: &mut impl Datagrams) {
        while let Some(next) = self.planned.first_entry().filter(|next| next.key().0 <= self.around.now) {
            let flow = next.remove();
            self.around.unplan(flow.dst);
            self.begin(flow, Some(&mut *network));
        }
    }

    /// When [`Driver::advance`] must be called next.
    pub fn next_instant(&self) -> Option<Time> {
        let farewells = self.around.farewells.values().filter_map(Farewells::next);
        self.next_event().into_iter().chain(self.around.peers.poll_timeout()).chain(farewells).min()
    }

    /// When the endpoint or the NIC has something to do, or a flow starts.
    fn next_event(&self) -> Option<Time> {
        let start = self.planned.first_key_value().map(|((start, _), _)| *start);
        [self.around.timer, self.around.nic.next_service(), start].into_iter().flatten().min()
    }

    /// Handles all timeouts and NIC services that are due by `clock`, each at its own time. So a late wake-up adds delay but does not
    /// reduce the rate: a real NIC would have sent in the meantime. Events older than the catch-up limit are handled at the limit.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn advance(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.around.set_clock(clock);
        self.around.peers.handle_timeout(clock);
        self.take_affairs(network)?;
        self.refill(network);
        let limit = Time::from_ps(clock.as_ps().saturating_sub(self.lag_max.as_ps()));
        for _ in 0..EVENTS_BATCH {
            self.around.outcome()?;
            let Some(due) = self.next_event().filter(|due| *due <= clock) else { break };
            let now = self.around.now.max(due).max(limit);
            self.around.set_now(now);
            self.begin_planned(network);
            if self.around.timer.is_some_and(|due| due <= now) {
                self.around.timer = None;
                driver::wake(&mut self.role, Attached { around: &mut self.around, network: Some(network), frame: None });
            }
            if self.around.nic.next_service().is_some_and(|due| due <= now) {
                self.around.nic.serve();
                self.around.transmit(network);
                self.refill(network);
            }
        }
        self.around.repeat_due_farewells();
        self.around.send_ends(network)?;
        self.around.greet(network)?;
        self.around.flush(network)
    }

    /// Handles what happened to peers.
    fn take_affairs(&mut self, network: &mut impl Datagrams) -> io::Result<()> {
        while let Some(affair) = self.around.peers.poll_affair() {
            match affair {
                Affair::Met { peer, again } => self.meet(peer, again),
                Affair::Silent { peer } => self.end_begun(peer, &Cause::Silent),
                Affair::Differs { peer, what, proven } => {
                    self.around.notices.push_back(Notice::Differs { peer, what: what.clone() });
                    if proven {
                        self.forget_planned(peer);
                        self.end_begun(peer, &Cause::Differs(what));
                    }
                }
            }
        }
        self.around.greet(network)
    }

    /// Ends all flows from and to a node, but for those that are planned for later.
    fn end_begun(&mut self, peer: NodeId, cause: &Cause) {
        self.waiting.retain(|flow| flow.dst != peer);
        let planned: HashSet<FlowId> = self.planned.values().map(|flow| flow.id).collect();
        for flow in self.around.outgoing.to(peer).into_iter().filter(|flow| !planned.contains(flow)) {
            self.around.give_up(flow, cause.clone());
        }
        self.around.lose_all(peer, cause);
    }

    /// Plans no flow to a node any more.
    fn forget_planned(&mut self, peer: NodeId) {
        let Driver { around, planned, .. } = self;
        planned.retain(|_, flow| {
            let stays = flow.dst != peer;
            if !stays {
                around.unplan(peer);
            }
            stays
        });
    }

    /// Begins the flows that waited for a session with a node. If the node was restarted, those that have begun cannot go on.
    fn meet(&mut self, peer: NodeId, again: bool) {
        if again {
            for flow in self.around.outgoing.begun(peer) {
                self.around.give_up(flow, Cause::Restarted);
            }
            self.around.lose_all(peer, &Cause::Restarted);
            self.around.incoming.forget(peer);
            self.around.farewells.remove(&peer);
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (ready, waiting): (Vec<Flow>, Vec<Flow>) = waiting.into_iter().partition(|flow| flow.dst == peer);
        self.waiting = waiting;
        for flow in ready {
            self.begin(Flow { start: self.around.now, ..flow }, None);
        }
    }

    fn refill(&mut self, network: &mut impl Datagrams) {
        driver::refill(&mut self.role, Attached { around: &mut self.around, network: Some(network), frame: None });
    }

    /// Receives waiting datagrams, which the endpoint handles at time `clock`.
    ///
    /// # Errors
    /// Errors of the network.
    pub fn receive(&mut self, clock: Time, network: &mut impl Datagrams) -> io::Result<()> {
        self.around.set_clock(clock);
        self.around.set_now(self.around.now.max(clock));
        for _ in 0..RECEIVE_BATCH {
            if !self.receive_one(network)? {
                break;
            }
            self.around.outcome()?;
        }
        self.around.flush(network)
    }

    /// Receives one datagram. Returns false if there was none.
    fn receive_one(&mut self, network: &mut impl Datagrams) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.receive_buffer);
        let arrival = network.receive(&mut buffer);
        let taken = match &arrival {
            Ok(Some(arrival)) => self.take_datagram(&mut buffer[..arrival.bytes], arrival, network),
            _ => Ok(()),
        };
        self.receive_buffer = buffer;
        taken?;
        Ok(arrival?.is_some())
    }

    fn take_datagram(&mut self, datagram: &mut [u8], arrival: &Arrival, network: &mut impl Datagrams) -> io::Result<()> {
        if let Err(refusal) = self.open_datagram(datagram, arrival, network) {
            self.around.stats.refused(refusal);
        }
        self.around.send_ends(network)?;
        self.take_affairs(network)
    }

    /// Handles a datagram, if it is authentic.
    fn open_datagram(&mut self, datagram: &mut [u8], arrival: &Arrival, network: &mut impl Datagrams) -> Result<(), Refusal> {
        let magic = datagram.first_chunk::<2>();
        let secret = frame::payload_bytes(datagram);
        let clock = self.around.clock;
        if magic == Some(&frame::MAGIC)
            && let (Some(src), Some(secret)) = (frame::source(datagram), secret)
        {
            let peer = self.around.peer(src, arrival)?;
            let length = self.around.peers.open(clock, peer, datagram, secret)?;
            // A session may begin with this datagram.
            self.take_affairs(network).map_err(|error| self.around.fail(error))?;
            self.around.repeat_farewells(peer);
            return self.take_frame(&datagram[..length], arrival, network);
        }
        let (kind, src, dst) = trust::parse_head(datagram).filter(|_| magic == Some(&trust::MAGIC)).ok_or(Refusal::Foreign)?;
        if kind == Kind::End as u8 || kind == Kind::Sign as u8 {
            let peer = self.around.peer(src, arrival)?;
            let body = datagram.len().checked_sub(trust::HEAD_BYTES + trust::SEAL_BYTES).ok_or(Refusal::Foreign)?;
            let secret = if kind == Kind::End as u8 { body } else { 0 };
            let length = self.around.peers.open(clock, peer, datagram, secret)?;
            self.take_affairs(network).map_err(|error| self.around.fail(error))?;
            self.around.repeat_farewells(peer);
            let message = &datagram[trust::HEAD_BYTES..length];
            if kind == Kind::End as u8 {
                return self.take_end(peer, message);
            }
            self.around.peers.handle_sign(peer, message);
            return Ok(());
        }
        if let Some(index) = self.around.addresses.iter().position(|address| *address == Some(arrival.from)) {
            let here = NodeId(index as u32);
            self.around.peers.check_places(here, src, dst);
        }
        let peer = self.around.peer(src, arrival)?;
        Ok(self.around.peers.handle_greeting(clock, peer, datagram)?)
    }

    /// Handles an authentic packet.
    fn take_frame(&mut self, datagram: &[u8], arrival: &Arrival, network: &mut impl Datagrams) -> Result<(), Refusal> {
        let mut frame = self.accept(datagram, arrival)?;
        let Packet { flow, src, .. } = frame.packet;
        let owner = self.around.ids.source_of(flow);
        if self.around.is_control(self.around.me) || owner == self.around.me || flow == NO_FLOW {
            // All nodes call the flow so.
        } else if owner != src {
            // A control node speaks about a flow to this node.
            frame.packet.flow = self.around.incoming.here(flow).ok_or(Refusal::Foreign)?;
        } else {
            match self.around.incoming.admit(flow) {
                Admission::Taken { here, new } => {
                    frame.packet.flow = here;
                    if new {
                        self.around.open(src);
                    }
                }
                Admission::Full => {
                    self.around.stats.over_limit += 1;
                    return Ok(());
                }
                Admission::Refused(reason) => {
                    let reason = reason.to_owned();
                    self.around.ends.push((flow, src, reason));
                    return Ok(());
                }
            }
        }
        let attached = Attached { around: &mut self.around, network: Some(network), frame: Some(&frame) };
        driver::deliver(&mut self.role, attached, &frame);
        Ok(())
    }

    /// Handles an authentic message that a flow has ended: its source has given it up, or its destination does not take it, or knows that it was given up.
    fn take_end(&mut self, peer: NodeId, message: &[u8]) -> Result<(), Refusal> {
        let around = &mut self.around;
        let (flow, reason) = message.split_first_chunk::<4>().ok_or(Refusal::Malformed)?;
        let flow = FlowId(u32::from_be_bytes(*flow));
        let reason = String::from_utf8_lossy(reason).chars().filter(|c| !c.is_control()).collect();
        let source = around.ids.source_of(flow);
        if source == peer && !around.is_control(around.me) {
            let arrived = around.incoming.give_up(flow);
            around.note_loss(flow, arrived, Cause::GivenUp(reason));
            around.ends.push((flow, peer, "its source gave it up".to_owned()));
        } else if source == around.me {
            around.confirm(peer, flow);
            if around.outgoing.destination(flow) == Some(peer) {
                around.give_up(flow, Cause::Refused(reason));
            }
        }
        Ok(())
    }

    /// Accepts a datagram only if it is a packet from another node to this one, about a flow between the two.
    fn accept<'a>(&self, datagram: &'a [u8], arrival: &Arrival) -> Result<Frame<'a, T::Header>, Refusal> {
        let frame = frame::parse::<T>(datagram, arrival.tos, &self.wire)?;
        let Packet { flow, src, dst, .. } = frame.packet;
        if dst != self.around.me {
            return Err(Refusal::Foreign);
        }
        // Control nodes speak about flows between any hosts, and have no data.
        if self.around.is_control(src) || self.around.is_control(dst) {
            return if frame.payload.is_empty() { Ok(frame) } else { Err(Refusal::Malformed) };
        }
        let owner = self.around.ids.source_of(flow);
        let answers_me = owner == self.around.me && self.around.outgoing.destination(flow).is_none_or(|peer| peer == src);
        match (owner == src, answers_me) {
            (false, false) => Err(Refusal::Foreign),
            // Only the flow's source sends payload.
            (false, true) if !frame.payload.is_empty() => Err(Refusal::Malformed),
            _ => Ok(frame),
        }
    }
}

/// Why a datagram is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It is no packet of this cluster.
    Foreign,
    /// It is authentic, and its fields contradict each other.
    Malformed,
    /// It is not authentic.
    Rejected(Rejection),
}

impl From<frame::Refusal> for Refusal {
    fn from(refusal: frame::Refusal) -> Refusal {
        match refusal {
            frame::Refusal::Foreign => Refusal::Foreign,
            frame::Refusal::Malformed => Refusal::Malformed,
        }
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        Refusal::Rejected(rejection)
    }
}
