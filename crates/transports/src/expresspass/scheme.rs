//! What transports whose senders answer each credit with one packet have in common, and what each adds.

use flowloom_core::{Bytes, Site, Time};

use super::config::{Config, Spans};
use super::feedback;
use crate::toolkit::Framing;

/// A transport whose senders answer each credit with one packet: ExpressPass, or TOP, which adds priorities. [`Sender`](super::sender::Sender)
/// and [`Credits`](super::credits::Credits) are written for any of them.
pub(crate) trait Scheme: Sized + 'static {
    /// The header of its packets.
    type Header: Copy + Send;
    /// What its nodes know besides the rules of credits.
    type Node: Send;
    /// What a sender knows of a flow.
    type Outbound: Outbound;
    /// What a receiver knows of a flow for which it sends credits.
    type Inbound: Send;

    /// The class of data.
    fn data_class(rules: &Rules<Self>) -> u8;
    /// Asks for credits.
    fn request(flow: &Self::Outbound) -> Self::Header;
    /// Stops the credits. If the sender does so `again`, it has sent all packets, and the acknowledgement is late.
    fn stop(flow: &Self::Outbound, again: bool) -> Self::Header;
    /// Packet `number` of the flow, which answers the credit that has number `credit` and was sent at `sent`.
    fn data(flow: &Self::Outbound, number: u32, credit: u32, sent: Time) -> Self::Header;
    /// The credit with this number, and its class.
    fn credit(rules: &Rules<Self>, flow: &Self::Inbound, now: Time, credit: u32) -> (Self::Header, u8);
    /// How many packets the receiver misses, if it sends no more credits than that.
    #[inline(always)]
    fn missing(rules: &Rules<Self>, flow: &Self::Inbound) -> Option<u32> {
        let _ = (rules, flow);
        None
    }
    /// Whether the sender may answer a credit that was sent at `sent`.
    #[inline(always)]
    fn is_valid(rules: &Rules<Self>, flow: &Self::Outbound, now: Time, sent: Time) -> bool {
        let _ = (rules, flow, now, sent);
        true
    }
}

/// Which packets of a flow are still to be sent.
pub(crate) trait Outbound: Send {
    /// How many there are.
    fn left(&self) -> u32;
    /// The next one, and whether it was sent before. There is one.
    fn take(&mut self) -> (u32, bool);
    /// The receiver misses this packet. Returns whether it was sent before.
    fn miss(&mut self, number: u32) -> bool;
}

/// The configuration in the units of one node.
pub(crate) struct Rules<S: Scheme> {
    pub framing: Framing,
    pub spans: Spans,
    pub feedback: feedback::Rules,
    pub jitter: f64,
    pub credit_spread: u32,
    pub early_stop: bool,
    pub silence_rtts: f64,
    /// Whether packets of one flow may overtake each other, so that credits are not answered in their order.
    pub reorders: bool,
    pub node: S::Node,
}

impl<S: Scheme> Rules<S> {
    /// `slot` is what a credit and the packet that it asks for take of the link.
    pub fn new(config: &Config, slot: Bytes, node: S::Node, site: &Site<'_>) -> Rules<S> {
        let spans = Spans::new(config, slot, site.line_rate(), site.base_rtt(&site.wire));
        Rules {
            framing: Framing::new(site.node, &site.wire),
            spans: spans.expect("the configuration suits the network"),
            feedback: feedback::Rules::new(config),
            jitter: config.jitter,
            credit_spread: config.credit_spread.get() as u32,
            early_stop: config.early_stop,
            silence_rtts: config.silence_rtts,
            reorders: site.reorders,
            node,
        }
    }
}
