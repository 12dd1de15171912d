//! The time that a flow takes if it is alone in the network.

use std::collections::HashMap;

use flowloom_core::{Duration, Flow, LinkId, Network, NodeId, Rate, WireProfile};

/// Closed forms of the times that flows take alone in the network.
///
/// The path is looked up once per class of host pairs. Pairs of a class have the same first and last switch, and access links of the
/// same rate and delay. If equally short paths differ (custom topologies), the path of [`Network::path`] counts.
pub struct UnloadedTimes<'a> {
    network: &'a Network,
    wire: &'a WireProfile,
    paths: HashMap<Class, Vec<LinkId>>,
}

/// How a host is attached: its switch, and the rate and delay of its link.
type Place = (NodeId, Rate, Duration);
type Class = (Place, Place);

/// The demand of one flow on the access link of one of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The time that the link takes for all packets of the flow, each rounded up to a picosecond as links do.
    pub service: Duration,
    /// The time that propagation and storing at the other hops take. It is the time of the first packet without its service here, or the
    /// time of the whole flow without its service here, whichever is less.
    pub latency: Duration,
}

impl<'a> UnloadedTimes<'a> {
    /// Closed forms for which no path has been looked up yet.
    pub fn new(network: &'a Network, wire: &'a WireProfile) -> UnloadedTimes<'a> {
        UnloadedTimes { network, wire, paths: HashMap::new() }
    }

    fn place(&self, host: NodeId) -> Place {
        let link = self.network.link(self.network.ports(host)[0]);
        (link.to, link.rate, link.delay)
    }

    /// A path between hosts of the same class.
    ///
    /// # Panics
    /// If both are the same host.
    fn path(&mut self, src: NodeId, dst: NodeId) -> &[LinkId] {
        assert_ne!(src, dst, "a flow needs two hosts");
        let class = (self.place(src), self.place(dst));
        self.paths.entry(class).or_insert_with(|| self.network.path(src, dst))
    }

    /// The time from the start until the last byte is at the receiver: [`Network::flow_time`], which is `OPT` of the pHost paper, §4.1.
    pub fn received(&mut self, flow: &Flow) -> Duration {
        let (network, wire) = (self.network, self.wire);
        network.flow_time(self.path(flow.src, flow.dst), flow.size, wire)
    }

    /// The time from the last byte's arrival until a control packet that acknowledges it is at the sender.
    pub fn acknowledgement(&mut self, flow: &Flow) -> Duration {
        let (network, control) = (self.network, self.wire.control);
        network.packet_time(self.path(flow.dst, flow.src), control)
    }

    /// The time in which a control packet goes from the sender to the receiver, and another one comes back.
    pub fn handshake(&mut self, flow: &Flow) -> Duration {
        let (network, control) = (self.network, self.wire.control);
        network.packet_time(self.path(flow.src, flow.dst), control) + self.acknowledgement(flow)
    }

    /// The demand of the flow on its sender's link.
    pub fn at_sender(&mut self, flow: &Flow) -> Access {
        let rate = self.network.nic_rate(flow.src);
        self.access(flow, rate)
    }

    /// The demand of the flow on its receiver's link.
    pub fn at_receiver(&mut self, flow: &Flow) -> Access {
        let link = self.network.ports(flow.dst)[0];
        let rate = self.network.link(link.reverse()).rate;
        self.access(flow, rate)
    }

    fn access(&mut self, flow: &Flow, rate: Rate) -> Access {
        let (network, wire) = (self.network, self.wire);
        let path = self.path(flow.src, flow.dst);
        let others = wire.packets(flow.size) - 1;
        let first = wire.data_size(wire.payload_of(flow.size, 0));
        let last = wire.data_size(wire.payload_of(flow.size, others));
        let service = rate.transmit_time(wire.full) * others + rate.transmit_time(last);
        let of_first = network.packet_time(path, first) - rate.transmit_time(first);
        let of_all = network.flow_time(path, flow.size, wire) - service;
        Access { service, latency: of_first.min(of_all) }
    }
}
