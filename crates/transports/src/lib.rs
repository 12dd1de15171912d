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

/// A configuration that can be wrong in ways that its types do not show.
pub trait Checked {
    /// Says which key is wrong, what was found and what would be right.
    ///
    /// # Errors
    /// One sentence that starts with the key's name.
    fn check(&self) -> Result<(), String> {
        Ok(())
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
