//! A test kit: endpoints of one transport in a small simulated network, driven by hand.

use std::sync::{Arc, Mutex};

use flowloom_core::{Bytes, DropReason, Event, Flow, FlowId, Network, NodeId, Time, Transport};

use crate::{Faulty, Sim};

mod delivery;
mod hook;
mod log;
mod setup;

pub use crate::fault::Fate;
pub use delivery::Delivery;
pub use hook::{Faults, SentPacket};
use hook::{Hook, Tap};
pub use log::Log;
pub use setup::PairSetup;

/// A transport's port with the hook of a pair.
type HookedPort<T> = Faulty<<T as Transport>::Port, Hook<<T as Transport>::Header>>;

/// Two or more endpoints of one transport around one switch, or on any network, with the transport's control endpoints. It is a [`Sim`]
/// to which flows are added as the test goes on. Every port runs the transport's discipline. The switch of the default network forwards
/// at the first bit, so on an idle network a packet arrives one transmission time plus [`PairSetup::delay`] after it was sent. A hook
/// may drop, delay or duplicate packets when they leave the node that created them.
///
/// It asserts that no byte is delivered twice or beyond the flow's end, that [`Event::Received`] comes once, at the
/// destination and after all bytes, and that [`Event::Acknowledged`] comes once, at the source and after that.
pub struct Pair<T: Transport> {
    sim: Sim<T, HookedPort<T>, Log>,
    tap: Arc<Mutex<Tap<T::Header>>>,
    sent: Vec<SentPacket<T::Header>>,
}

impl<T: Transport> Pair<T> {
    /// Makes all endpoints and ports.
    pub fn new(config: &T::Config, setup: PairSetup) -> Pair<T> {
        let tap = Arc::new(Mutex::new(Tap { hook: Box::new(|_| Fate::Pass), log: setup.log, sent: Vec::new() }));
        let sim = Sim::with_ports(config, setup.sim(), Vec::new(), Log::new(T::shortest(config, &setup.wire)), |port, site| {
            let node = site.network.link(site.link).from;
            Faulty::with_injector(port, Hook { node, tap: tap.clone() })
        });
        Pair { sim: sim.with_outages(&setup.outages).until_idle(), tap, sent: Vec::new() }
    }

    fn tap(&self) -> std::sync::MutexGuard<'_, Tap<T::Header>> {
        self.tap.lock().expect("the hook has not panicked")
    }

    /// Calls `hook` for every packet that leaves the node that created it, from now on. The hook sees [`SentPacket::fate`] as
    /// [`Fate::Pass`]. Packets that it delays or copies are not shown to it again when they leave.
    pub fn on_packet(&mut self, hook: impl FnMut(&SentPacket<T::Header>) -> Fate + Send + 'static) {
        self.tap().hook = Box::new(hook);
    }

    /// Opens a flow of `size` bytes now. Ids are assigned from 0.
    pub fn open(&mut self, src: u32, dst: u32, size: u64) -> FlowId {
        let id = FlowId(self.sim.observer().flows.len() as u32);
        self.open_flow(Flow {
            id,
            src: NodeId(src),
            dst: NodeId(dst),
            size: Bytes::new(size),
            start: self.now(),
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        });
        id
    }

    /// Opens a flow at its start, now or later.
    ///
    /// # Panics
    /// If its id is not the number of flows so far, or its start is in the past.
    pub fn open_flow(&mut self, flow: Flow) {
        self.sim.add_flow(flow);
        self.sim.observer_mut().flows.insert(flow.id, Delivery::new(flow));
    }

    /// Runs until no event is left, or until `limit`, and returns the time of the last event.
    pub fn run(&mut self, limit: Time) -> Time {
        self.sim.pause_at(limit);
        loop {
            self.sim.skip_void_events(limit);
            if !self.sim.step(1) {
                break;
            }
        }
        let sent = std::mem::take(&mut self.tap().sent);
        self.sent.extend(sent);
        self.now()
    }

    /// Runs until no event is left, and asserts that every flow was delivered and acknowledged, or aborted, that no packet is left, and
    /// that the network has lost no byte without counting it.
    ///
    /// # Panics
    /// If that does not hold by `limit`.
    pub fn run_to_end(&mut self, limit: Time) -> Time {
        let end = self.run(limit);
        for delivery in self.sim.observer().flows.values().filter(|delivery| delivery.aborted.is_none()) {
            assert!(delivery.received.is_some(), "by {end}, of {:?} only {} came", delivery.flow, delivery.bytes);
            assert!(delivery.acknowledged.is_some(), "by {end}, its source does not know that {:?} came", delivery.flow);
        }
        assert_eq!(self.sim.packets(), 0, "packets are left at {end}");
        self.sim.check_conservation().expect("conservation");
        end
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.sim.now()
    }
    /// The network as the endpoints see it; its closed forms apply.
    pub fn network(&self) -> &Network {
        self.sim.network()
    }
    /// The delivery of a flow.
    pub fn flow(&self, id: FlowId) -> &Delivery {
        &self.sim.observer().flows[&id]
    }
    /// A host's endpoint.
    pub fn host(&self, index: usize) -> &T::Host {
        self.sim.host(index)
    }
    /// The control endpoint on a node.
    ///
    /// # Panics
    /// If there is none.
    pub fn control(&self, node: NodeId) -> &T::Control {
        self.sim.control(node).expect("the node has a control endpoint")
    }
    /// Every packet that left the node that created it, oldest first.
    pub fn sent(&self) -> &[SentPacket<T::Header>] {
        &self.sent
    }
    /// Every packet that a port dropped, oldest first; those that the hook dropped are in [`Pair::sent`].
    pub fn dropped(&self) -> &[(Time, FlowId, DropReason)] {
        &self.sim.observer().dropped
    }
    /// Every event, oldest first.
    pub fn events(&self) -> &[(Time, NodeId, Event)] {
        &self.sim.observer().events
    }
}
