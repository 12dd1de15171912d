//! The transports, one folder each, and what they share.
//!
//! * [`toolkit`]: containers, framing and timers.
//! * [`disciplines`]: disciplines of switch ports.
//! * [`roce`]: reliable flows at a rate, for transports over RoCE.
//! * [`quantity`]: quantities with units in configurations.

pub mod d3;
pub mod dcqcn;
pub mod disciplines;
pub mod expresspass;
pub mod fastpass;
pub mod homa;
pub mod hpcc;
pub mod las;
pub mod ndp;
pub mod pase;
pub mod pdq;
pub mod pfabric;
pub mod pfc;
pub mod phost;
pub mod pias;
#[cfg(test)]
mod profiles;
pub mod quantity;
pub mod roce;
pub mod tcp;
pub mod toolkit;
pub mod top;
#[cfg(test)]
mod trial;

use flowloom_core::{Bytes, Duration, Network, Rate, Time, WireProfile};

use disciplines::CreditSchedule;

/// The network and the traffic that a configuration is checked against.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The network, without the nodes that a transport adds.
    pub network: &'a Network,
    /// Packet sizes on the wire.
    pub wire: WireProfile,
    /// Memory of each port, or of each switch with all its ports.
    pub buffer: Bytes,
    /// Whether ports pause their neighbours before they are full (priority flow control), so that they lose nothing.
    pub pauses: bool,
    /// Whether senders choose the paths of packets, by labels.
    pub senders_choose_paths: bool,
    /// The latest deadline of any flow, if there is one.
    pub last_deadline: Option<Time>,
    /// The size of the largest flow; zero if flows are not known in advance.
    pub largest_flow: Bytes,
    /// The payload of the largest coflow, of which a flow without one is one; zero if flows are not known in advance.
    pub largest_coflow: Bytes,
}

impl<'a> Conditions<'a> {
    /// Those of a network of which no more is known: nothing pauses, switches choose paths, and flows are not known in advance.
    pub fn new(network: &'a Network, wire: WireProfile, buffer: Bytes) -> Conditions<'a> {
        Conditions {
            network,
            wire,
            buffer,
            pauses: false,
            senders_choose_paths: false,
            last_deadline: None,
            largest_flow: Bytes::ZERO,
            largest_coflow: Bytes::ZERO,
        }
    }

    /// The rates of the slowest and of the fastest host.
    fn host_rates(&self) -> [Rate; 2] {
        let rates = || self.network.nic_ids().map(|nic| self.network.nic_rate(nic));
        [rates().min(), rates().max()].map(Option::unwrap_or_default)
    }

    /// What is wrong with a fixed timeout that expires on an idle network before an answer can come, if this one does.
    fn early_timeout(&self, key: &str, timeout: Duration) -> Option<String> {
        let round_trip = self.network.base_rtt(&self.wire);
        (timeout < round_trip).then(|| {
            format!(
                "{key}: {timeout} is less than a round trip, which takes {round_trip} in the idle network, so packets are sent again \
                 although none is lost; raise it above a round trip through full queues"
            )
        })
    }

    /// What is wrong with a window that does not fill the link of the fastest host, if this one does not.
    fn small_window(&self, key: &str, packets: u32) -> Option<String> {
        let product = self.bandwidth_delay_product(&self.wire).get() / self.wire.full.get();
        (u64::from(packets) < product).then(|| {
            format!(
                "{key}: {packets} packets are less than a bandwidth-delay product, which is {product} full packets here, so a flow \
                 alone cannot fill its link; raise it to at least {product}"
            )
        })
    }

    /// What is wrong with a first window that does not fit into the port of its own host, which holds this much, if this one does not.
    fn large_window(&self, key: &str, packets: u32, port: Bytes) -> Option<String> {
        let longest = if self.largest_flow == Bytes::ZERO { u64::MAX } else { self.wire.packets(self.largest_flow) };
        let (packets, full) = (u64::from(packets).min(longest), self.wire.full);
        // The first packet is under way while the others wait.
        (full * packets.saturating_sub(1) > port && !self.pauses).then(|| {
            format!(
                "{key}: the first {packets} packets of a flow are {}, but a port holds {port}, so a flow alone loses some of them at its own host; \
                 lower it to at most {}, or raise fabric.buffer",
                full * packets,
                port.get() / full.get() + 1
            )
        })
    }

    /// What is wrong with leaving out bad paths, if nobody chooses any.
    fn unchosen_paths(&self, key: &str, avoids: bool) -> Option<String> {
        (avoids && !self.senders_choose_paths).then(|| {
            format!("{key}: it has no effect, because switches choose the paths; with fabric.routing = \"spray_labelled\", senders do")
        })
    }

    /// The queue above which a port marks where the configuration does not say. It is the larger of two: DCTCP's values, 20 packets of 1500 B at hosts of up to 1 Gb/s and 65 at
    /// 10 Gb/s and more, on a line in between, since bursts of a host need more than the theory says; and DCTCP's lower bound, a seventh of the bandwidth-delay product
    /// (RFC 8257), below which links run idle.
    fn marking_threshold(&self) -> Bytes {
        const AT_1_GBPS: f64 = 30_000.0;
        const AT_10_GBPS: f64 = 97_500.0;
        let [_, fastest] = self.host_rates();
        let between = ((fastest.as_bps() as f64 / 1e9 - 1.0) / 9.0).clamp(0.0, 1.0);
        let bursts = Bytes::new((AT_1_GBPS + between * (AT_10_GBPS - AT_1_GBPS)).round() as u64);
        bursts.max(Bytes::new(self.bandwidth_delay_product(&self.wire).get().div_ceil(7)))
    }

    /// The bandwidth-delay product of the fastest host and the longest round trip, of packets of these sizes on the idle network.
    fn bandwidth_delay_product(&self, wire: &WireProfile) -> Bytes {
        let (fastest, rtt) = self.largest_product(wire);
        fastest.bytes_in(rtt)
    }

    /// The fastest host and the longest round trip, in the part of the network where their product is largest.
    fn largest_product(&self, wire: &WireProfile) -> (Rate, Duration) {
        let products = self.network.rates_and_rtts(wire).map(|([_, fastest], rtt)| (fastest, rtt));
        products.max_by_key(|(fastest, rtt)| fastest.bytes_in(*rtt)).unwrap_or_default()
    }

    /// Checks something at the rates of the slowest and of the fastest host and the longest round trip, in each part of the network.
    fn check_at_host_rates<T>(&self, mut check: impl FnMut(Rate, Duration) -> Result<T, String>) -> Result<(), String> {
        let mut parts = self.network.rates_and_rtts(&self.wire);
        parts.try_for_each(|(rates, rtt)| rates.into_iter().try_for_each(|rate| check(rate, rtt).map(drop)))
    }
}

/// A design under which full ports lose no data, as long as they have enough memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoLoss {
    /// How it excludes losses: the end of a sentence that begins with the transport's name.
    pub how: &'static str,
    /// What fills ports all the same, and what helps.
    pub advice: String,
}

/// How much memory a port needs so that a transport works as it is meant to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortMemory {
    /// The memory of one port.
    pub bytes: Bytes,
    /// What it holds: the end of a sentence that begins with "it is".
    pub holds: String,
}

/// The sizes of some of the flows of a workload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeShare {
    /// The smallest size.
    pub low: Bytes,
    /// The largest size. Sizes are spread evenly between the two.
    pub high: Bytes,
    /// The share of these flows in all flows, or their number: only ratios of shares count.
    pub share: f64,
}

/// A configuration that can be wrong in ways that its types do not show.
pub trait Checked {
    /// Checks each key on its own.
    ///
    /// # Errors
    /// One sentence that starts with the key's name. It says what was found and what would be right.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
    /// Checks the keys against the network and the traffic: each span that follows from a key is above 0 and at most
    /// [`Duration::LONGEST`], a port's memory holds a packet, and deadlines fit the header. With a configuration that passes, no sum in
    /// a run overflows.
    ///
    /// # Errors
    /// One sentence that starts with the key's name. It says what was found and what would be right.
    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let _ = conditions;
        Ok(())
    }
    /// The longest time for which a flow on an otherwise idle network may be silent before it tries again. The configuration has passed
    /// [`Checked::check_under`] with these conditions.
    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let _ = conditions;
        Duration::ZERO
    }
    /// Values with which the transport runs, but not as it was designed, because they do not suit the network: a timeout that is shorter
    /// than a round trip, or a window that is less than a bandwidth-delay product. Most transports' defaults suit the network of their
    /// paper. Each is a sentence that starts with the key's name, and says what follows from the value and what would be right.
    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let _ = conditions;
        Vec::new()
    }
    /// The same for values that do not suit the sizes of the workload's flows. `sizes` takes time, so only configurations that need the
    /// sizes call it. It returns nothing if the workload has no flows.
    fn misfits_of_sizes(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Vec<String> {
        let _ = (conditions, sizes);
        Vec::new()
    }
    /// How ports limit the credits that schedule all data of this transport, if it has such credits. The lab then shows how long queues of data can
    /// become ([`disciplines::data_queue_bounds`]), and checks it after each run. Signals, which nobody schedules, are packets of class 0
    /// without payload.
    fn credit_schedule(&self, wire: &WireProfile) -> Option<CreditSchedule> {
        let _ = wire;
        None
    }
    /// How much memory a port needs, if that follows from the configuration and the network. Ports have it where the scenario does not say how much they have.
    /// `conditions.buffer` does not count.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let _ = conditions;
        None
    }
    /// How the design keeps full ports from losing data, if it does so with this configuration. Users are warned where data is lost, and where ports have less
    /// memory than [`Checked::port_memory`]. The configuration has passed [`Checked::check_under`] with these conditions.
    fn no_loss(&self, conditions: &Conditions<'_>) -> Option<NoLoss> {
        let _ = conditions;
        None
    }
    /// The configuration to run with, if some keys follow from the network and from the sizes of the workload's flows. `sizes` takes time,
    /// so only configurations that need the sizes call it. It returns nothing if the workload has no flows.
    fn fitted(&self, conditions: &Conditions<'_>, sizes: &dyn Fn() -> Vec<SizeShare>) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = (conditions, sizes);
        None
    }
}

/// Checks a span that follows from `key`: it must be above 0 and at most [`Duration::LONGEST`].
fn span_of(key: &str, span: Option<Duration>) -> Result<Duration, String> {
    match span {
        Some(Duration::ZERO) => {
            Err(format!("{key}: the span that follows from it on this network is less than a picosecond; raise it"))
        }
        Some(span) => Ok(span),
        None => {
            Err(format!("{key}: the span that follows from it on this network is more than {}; lower it", Duration::LONGEST))
        }
    }
}

/// Checks that deadlines fit a header field of 32 bits, in microseconds.
fn check_deadline(key: &str, last: Option<Time>) -> Result<(), String> {
    const MOST: Duration = Duration::from_us(u32::MAX as u64 - 1);
    match last {
        Some(last) if last > Time::ZERO + MOST => Err(format!(
            "{key}: found \"deadline\", but the last deadline is at {last}, and packets carry deadlines of up to {MOST} only"
        )),
        _ => Ok(()),
    }
}

/// Calls the macro `$apply` with the types of the TCP family and those that follow.
#[doc(hidden)]
#[macro_export]
macro_rules! with_tcp_family {
    ($apply:ident, $($others:tt)*) => {
        $apply! {
            $crate::tcp::Tcp,
            $crate::tcp::Dctcp,
            $crate::tcp::D2tcp,
            $crate::tcp::L2dct,
            $crate::tcp::EcnStar,
            $($others)*
        }
    };
}

/// Lists all transports: calls the macro `$apply` with their types. A new transport takes a folder and two lines in this file: its
/// module, and its type in this list.
#[macro_export]
macro_rules! for_each_transport {
    ($apply:ident) => {
        $crate::with_tcp_family! {
            $apply,
            $crate::pias::Pias,
            $crate::las::Las,
            $crate::pase::Pase,
            $crate::pfabric::PFabric,
            $crate::phost::PHost,
            $crate::fastpass::Fastpass,
            $crate::ndp::Ndp,
            $crate::pdq::Pdq,
            $crate::d3::D3,
            $crate::expresspass::ExpressPass,
            $crate::top::Top,
            $crate::homa::Homa,
            $crate::hpcc::Hpcc,
            $crate::dcqcn::Dcqcn,
        }
    };
}

/// Lists the transports that can run over priority flow control: calls the macro `$apply` with their types. Each implements
/// [`pfc::PausableTransport`]. A transport that is not listed costs nothing to compile.
#[macro_export]
macro_rules! for_each_pausable_transport {
    ($apply:ident) => {
        $crate::with_tcp_family! {
            $apply,
            $crate::hpcc::Hpcc,
            $crate::dcqcn::Dcqcn,
        }
    };
}

/// Lists the transports whose data is scheduled by credits: calls the macro `$apply` with their types. Each has a [`Checked::credit_schedule`], and the
/// lab gives their ports ([`disciplines::WatchesData`]) the bounds on their queues of data that follow. A transport that is not listed costs nothing to compile.
#[macro_export]
macro_rules! for_each_credit_transport {
    ($apply:ident) => {
        $apply! {
            $crate::expresspass::ExpressPass,
            $crate::top::Top,
        }
    };
}
