//! The transports, one folder each, and what they share.
//!
//! * [`toolkit`]: containers, framing, and the [`Pair`](toolkit::Pair) test harness.
//! * [`disciplines`]: disciplines of switch ports.
//! * [`quantity`]: quantities with units in configurations.

pub mod disciplines;
pub mod fastpass;
pub mod las;
pub mod pfabric;
pub mod phost;
pub mod pias;
pub mod quantity;
pub mod tcp;
pub mod toolkit;
#[cfg(test)]
mod trial;

use flowloom_core::{Bytes, Duration, Network, NodeId, Rate, Time, WireProfile};

/// What a configuration is to be used for.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The shape, with the scenario's own nodes only.
    pub network: &'a Network,
    /// Bytes on the wire.
    pub wire: WireProfile,
    /// Memory of each port, or of each switch with all its ports.
    pub buffer: Bytes,
    /// The latest deadline of any flow, if there is one.
    pub last_deadline: Option<Time>,
}

impl Conditions<'_> {
    /// The rates of the slowest and of the fastest host.
    fn host_rates(&self) -> [Rate; 2] {
        let rates = || (0..self.network.hosts() as u32).map(|host| self.network.host_rate(NodeId(host)));
        [rates().min(), rates().max()].map(Option::unwrap_or_default)
    }
}

/// A configuration that can be wrong in ways that its types do not show.
pub trait Checked {
    /// Says which key is wrong, what was found and what would be right.
    ///
    /// # Errors
    /// One sentence that starts with the key's name.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
    /// Says which key is wrong under these conditions: spans that follow from a key and the network are beyond
    /// [`Duration::LONGEST`] or too short, memory does not hold a packet, deadlines do not fit a header. What passes makes no sum in
    /// a run overflow.
    ///
    /// # Errors
    /// One sentence that starts with the key's name.
    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let _ = conditions;
        Ok(())
    }
    /// The longest that a flow of an otherwise idle network may be silent before it tries again. The configuration has passed
    /// [`Checked::check_under`] these conditions.
    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        let _ = conditions;
        Duration::ZERO
    }
}

/// The span that `key` makes, if it is one that a run can have.
fn span_of(key: &str, span: Option<Duration>) -> Result<Duration, String> {
    match span {
        Some(Duration::ZERO) => Err(format!("{key}: what follows from it on this network is less than a picosecond; raise it")),
        Some(span) => Ok(span),
        None => Err(format!("{key}: what follows from it on this network is more than {}; lower it", Duration::LONGEST)),
    }
}

/// Deadlines that travel in a header of 32 bits, in microseconds.
fn check_deadline(key: &str, last: Option<Time>) -> Result<(), String> {
    const MOST: Duration = Duration::from_us(u32::MAX as u64 - 1);
    match last {
        Some(last) if last > Time::ZERO + MOST => Err(format!(
            "{key}: found \"deadline\", but the last deadline is at {last}, and packets carry deadlines of up to {MOST} only"
        )),
        _ => Ok(()),
    }
}

/// Every transport: calls the macro `$apply` with their types. Adding a transport takes its folder and a line here.
#[macro_export]
macro_rules! for_each_transport {
    ($apply:ident) => {
        $apply! {
            $crate::tcp::Tcp,
            $crate::tcp::Dctcp,
            $crate::tcp::D2tcp,
            $crate::tcp::L2dct,
            $crate::tcp::EcnStar,
            $crate::pias::Pias,
            $crate::las::Las,
            $crate::pfabric::PFabric,
            $crate::phost::PHost,
            $crate::fastpass::Fastpass,
        }
    };
}
