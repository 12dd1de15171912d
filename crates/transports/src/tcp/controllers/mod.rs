//! Congestion control of the window. Each algorithm is a small file that implements one trait.

mod alpha;
mod d2tcp;
mod dctcp;
mod ecn_star;
mod l2dct;
mod newreno;

use flowloom_core::{Attribute, Duration, Need, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::alpha::Alpha;
use self::d2tcp::D2tcp;
use self::dctcp::Dctcp;
use self::ecn_star::EcnStar;
use self::l2dct::L2dct;
use self::newreno::NewReno;
use super::Config;

/// What a controller may read of its flow.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The present time.
    pub now: Time,
    /// The window, in packets.
    pub window: f64,
    /// Bytes of the flow that were sent, each counted once.
    pub sent_bytes: u64,
    /// Bytes of the flow that are not acknowledged.
    pub left_bytes: u64,
    /// Payload of a full packet, in bytes.
    pub packet_bytes: u64,
    /// The smoothed round-trip time, zero if unknown.
    pub rtt: Duration,
    /// The flow's deadline.
    pub deadline: Option<Time>,
}

/// How the window answers acknowledgements and marks. Slow start and the answer to losses are the same for all (RFC 5681). A controller
/// belongs to a connection and outlives its flows.
pub trait Controller {
    /// Whether packets are sent ECN-capable, and marks are answered.
    fn reacts_to_marks(&self) -> bool;
    /// An acknowledgement covered `packets` more packets, with or without an echo of congestion experienced.
    fn acknowledged(&mut self, packets: u32, echo: bool) {
        let _ = (packets, echo);
    }
    /// All that was outstanding at the last call has been acknowledged. This happens about once per round trip.
    fn round_ends(&mut self, config: &Config) {
        let _ = config;
    }
    /// The share of the window that a mark leaves. It is called once per window.
    fn keeps(&self, config: &Config, progress: &Progress) -> f64;
    /// The estimated share of marked packets, if it has one.
    fn alpha(&self) -> Option<f64> {
        None
    }
    /// How many packets the window grows by in a round trip of congestion avoidance.
    fn growth(&self, config: &Config, sent_bytes: u64) -> f64 {
        let _ = (config, sent_bytes);
        1.0
    }
}

/// The controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// RFC 5681: halves on loss and ignores marks.
    #[serde(rename = "newreno")]
    NewReno,
    /// RFC 8257: cuts by the share of marked packets.
    Dctcp,
    /// DCTCP with smaller cuts for flows with more urgent deadlines.
    D2tcp,
    /// DCTCP that favours flows that have sent little.
    L2dct,
    /// Halves on a mark; switches mark by the instantaneous queue (ECN*).
    EcnStar,
}

impl Kind {
    /// What the controller goes by besides acknowledgements and marks.
    pub(crate) fn need(self) -> Option<Need> {
        (self == Kind::D2tcp).then_some(Need { key: None, of: Attribute::Deadline, without: "it does what DCTCP does" })
    }
    /// The congestion control of the Linux kernel that is closest to it, and what that lacks.
    pub(crate) fn in_the_kernel(self) -> (&'static str, Option<&'static str>) {
        match self {
            // The kernel's Reno also answers marks, as RFC 3168 says.
            Kind::NewReno | Kind::EcnStar => ("reno", None),
            Kind::Dctcp => ("dctcp", None),
            Kind::D2tcp => ("dctcp", Some("it knows no deadlines, so all flows cut their windows alike")),
            Kind::L2dct => ("dctcp", Some("it does not weigh flows by what they have sent")),
        }
    }
}

/// Any controller. The dispatch is a branch that goes the same way throughout a run.
#[derive(Clone, Copy, Debug)]
pub enum Any {
    /// See [`Kind::NewReno`].
    NewReno(NewReno),
    /// See [`Kind::Dctcp`].
    Dctcp(Dctcp),
    /// See [`Kind::D2tcp`].
    D2tcp(D2tcp),
    /// See [`Kind::L2dct`].
    L2dct(L2dct),
    /// See [`Kind::EcnStar`].
    EcnStar(EcnStar),
}

impl Any {
    /// The controller of a new connection.
    pub fn new(kind: Kind, config: &Config) -> Any {
        match kind {
            Kind::NewReno => Any::NewReno(NewReno),
            Kind::Dctcp => Any::Dctcp(Dctcp::new(config)),
            Kind::D2tcp => Any::D2tcp(D2tcp::new(config)),
            Kind::L2dct => Any::L2dct(L2dct::new(config)),
            Kind::EcnStar => Any::EcnStar(EcnStar),
        }
    }
}

macro_rules! each {
    ($any:expr, $controller:ident => $call:expr) => {
        match $any {
            Any::NewReno($controller) => $call,
            Any::Dctcp($controller) => $call,
            Any::D2tcp($controller) => $call,
            Any::L2dct($controller) => $call,
            Any::EcnStar($controller) => $call,
        }
    };
}

impl Controller for Any {
    #[inline]
    fn reacts_to_marks(&self) -> bool {
        each!(self, controller => controller.reacts_to_marks())
    }
    #[inline]
    fn acknowledged(&mut self, packets: u32, echo: bool) {
        each!(self, controller => controller.acknowledged(packets, echo));
    }
    fn round_ends(&mut self, config: &Config) {
        each!(self, controller => controller.round_ends(config));
    }
    fn keeps(&self, config: &Config, progress: &Progress) -> f64 {
        each!(self, controller => controller.keeps(config, progress))
    }
    fn alpha(&self) -> Option<f64> {
        each!(self, controller => controller.alpha())
    }
    #[inline]
    fn growth(&self, config: &Config, sent_bytes: u64) -> f64 {
        each!(self, controller => controller.growth(config, sent_bytes))
    }
}
