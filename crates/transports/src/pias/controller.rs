//! The central controller: it collects the hosts' reports and distributes thresholds (§III-B1).

use flowloom_core::{Endpoint, Event, Flow, FlowId, NodeId, Packet, Site, Time};

use super::config::{MOST_THRESHOLDS, Update};
use super::fit::idle_bytes;
use super::optimum::{Objective, thresholds};
use super::sizes::{BINS, Sizes};
use super::{Config, Header};
use crate::toolkit::{Framing, Outbox};

/// The highest load that thresholds are computed for. Reported loads may be higher, since reports come in bursts and name bins instead
/// of bytes.
const LOAD_MAX: f64 = 0.95;

/// The controller. All hosts report at the same instants, once a period. `delay` later the controller evaluates the reports that have
/// arrived, and sends the new thresholds to all hosts.
pub struct Controller {
    framing: Framing,
    update: Update,
    hosts: u32,
    /// What all hosts can send in a period, in bytes.
    capacity: f64,
    /// [`Objective::idle`].
    idle: f64,
    next: Time,
    /// The reports of this period.
    reported: Sizes,
    /// Flows per period, smoothed.
    traffic: Sizes,
    /// Whether anything was reported yet.
    begun: bool,
    out: Outbox<Header>,
}

impl Controller {
    /// A controller for all hosts of the site's network.
    pub fn new(config: &Config, site: &Site<'_>) -> Controller {
        let update = config.update.clone();
        let hosts = site.network.nics() as u32;
        let bytes = |host| site.network.nic_rate(NodeId(host)).bytes_in(update.period).get() as f64;
        let capacity = (0..hosts).map(bytes).sum();
        Controller {
            framing: Framing::new(site.node, &site.wire),
            next: Time::ZERO + update.period + update.delay,
            update,
            hosts,
            capacity,
            idle: idle_bytes(site.network, &site.wire),
            reported: Sizes::default(),
            traffic: Sizes::default(),
            begun: false,
            out: Outbox::default(),
        }
    }

    fn distribute(&mut self) {
        let weight = if self.begun { self.update.smoothing } else { 1.0 };
        self.traffic.scale(1.0 - weight);
        self.reported.scale(weight);
        self.traffic.take_in(&mut self.reported);
        self.begun = self.traffic.counts().next().is_some();
        if !self.begun {
            return;
        }
        let load = (self.traffic.bytes() / self.capacity).min(LOAD_MAX);
        let objective = Objective { reading: self.update.reading, load, idle: self.idle };
        let found = thresholds(&self.traffic, MOST_THRESHOLDS + 1, objective);
        let mut bins = [0; MOST_THRESHOLDS];
        bins[..found.len()].copy_from_slice(&found);
        let header = Header::Update { count: found.len() as u8, bins };
        for host in 0..self.hosts {
            self.out.packets.push_back(self.framing.control(FlowId::default(), NodeId(host), header));
        }
    }
}

impl Endpoint for Controller {
    type Header = Header;

    fn open(&mut self, _: Time, flow: &Flow) {
        panic!("flow {} starts at the controller, which takes no part in the workload", flow.id.0);
    }

    fn handle_packet(&mut self, _: Time, packet: &Packet<Header>) {
        if let Header::Report { bin, count } = packet.header
            && usize::from(bin) < BINS
        {
            self.reported.add(usize::from(bin), f64::from(count));
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if now >= self.next {
            // A controller that has come back has missed some periods.
            while self.next <= now {
                self.next += self.update.period;
            }
            self.distribute();
        }
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next)
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
