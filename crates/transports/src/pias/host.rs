//! A host under PIAS: TCP, and a shim that tags packets and reports flow sizes.

use flowloom_core::{Duration, Endpoint, Event, Flow, FlowId, Gauge, NodeId, Packet, Readings, Site, Time};

use super::sizes::{Sizes, edge};
use super::tagger::Tagger;
use super::{Config, Header};
use crate::tcp;
use crate::toolkit::{FlowTable, Framing, Outbox};

/// One node's flows, in both directions.
pub struct Host {
    tcp: tcp::Host,
    tagger: Tagger,
    /// `None` if thresholds do not change.
    reporter: Option<Reporter>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        Host {
            tcp: tcp::Host::new(&config.tcp, config.controller, site),
            tagger: Tagger::new(config.thresholds.list(), config.aging),
            reporter: site.network.control_host().map(|controller| Reporter::new(config, controller, site)),
        }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        if let Some(reporter) = &mut self.reporter {
            reporter.open.insert(flow.id, flow.size.get());
        }
        self.tcp.open(now, flow);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        match packet.header {
            Header::Tcp { header } => self.tcp.handle_packet(now, &packet.with_header(header)),
            Header::Update { count, bins } if self.reporter.as_ref().is_some_and(|it| it.controller == packet.src) => {
                self.tagger.set_thresholds(bins[..usize::from(count)].iter().map(|bin| edge(usize::from(*bin))));
            }
            Header::Update { .. } | Header::Report { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.tcp.poll_timeout().is_some_and(|due| due <= now) {
            self.tcp.handle_timeout(now);
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.handle_timeout(now);
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        if let Some(reporter) = &mut self.reporter
            && let Some(report) = reporter.out.packets.pop_front()
        {
            return Some(report);
        }
        let packet = self.tcp.poll_transmit(now)?;
        let mut tagged = packet.with_header(Header::Tcp { header: packet.header });
        tagged.class = self.tagger.class(packet.flow, packet.offset.get());
        Some(tagged)
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        self.tcp.may_transmit() || self.reporter.as_ref().is_some_and(|reporter| !reporter.out.packets.is_empty())
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        let tcp = self.tcp.poll_timeout();
        match &self.reporter {
            Some(reporter) => Some(tcp.map_or(reporter.next, |at| at.min(reporter.next))),
            None => tcp,
        }
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.tcp.poll_event()?;
        self.tagger.observe(&event);
        if let Some(reporter) = &mut self.reporter {
            reporter.observe(&event);
        }
        Some(event)
    }

    fn gauge(&self, now: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.tcp.gauge(now, flow, readings);
        if let Some(offset) = self.tcp.unsent_from(flow) {
            readings.tell(Gauge::PRIORITY, self.tagger.class_at(flow, offset).into());
        }
    }
}

/// Counts finished flows by size, and reports to the controller once a period.
struct Reporter {
    controller: NodeId,
    framing: Framing,
    period: Duration,
    /// When the next report is due.
    next: Time,
    /// The sizes of flows in progress, as they will be counted when the flows end.
    open: FlowTable<u64>,
    ended: Sizes,
    out: Outbox<Header>,
}

impl Reporter {
    fn new(config: &Config, controller: NodeId, site: &Site<'_>) -> Reporter {
        Reporter {
            controller,
            framing: Framing::new(site.node, &site.wire),
            period: config.update.period,
            next: Time::ZERO + config.update.period,
            open: FlowTable::default(),
            ended: Sizes::default(),
            out: Outbox::default(),
        }
    }

    #[inline]
    fn observe(&mut self, event: &Event) {
        if let Event::Acknowledged { flow } = event
            && let Some(slot) = self.open.slot_of(*flow)
        {
            let bin = self.ended.bin(self.open.remove(slot));
            self.ended.add(bin, 1.0);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if now < self.next {
            return;
        }
        // A host that has come back has missed some periods.
        while self.next <= now {
            self.next += self.period;
        }
        for (bin, count) in self.ended.counts() {
            let header = Header::Report { bin: bin as u8, count: count as u32 };
            self.out.packets.push_back(self.framing.control(FlowId::default(), self.controller, header));
        }
        self.ended = Sizes::default();
    }
}
