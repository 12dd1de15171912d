//! Flowloom's programs for the kernel (BPF), which only Linux runs.
//!
//! **The tagger**, for programs that know nothing of it, after PIAS (Bai et al., ToN 2017, §IV-A1): it counts the bytes of each flow that
//! leaves a device, and writes the packet's class into its IP header. [`Tagger`] attaches it, changes its [`Rules`] while it runs, reads
//! its [`Status`], and detaches it. [`agent`] does the same for a controller on another host.
//!
//! **The marks of a switch port**, by the real backlog of its queues: [`port`].

#![cfg(target_os = "linux")]

pub mod agent;
mod bpffs;
mod device;
pub mod port;
mod programs;
mod rules;
mod status;
mod tagger;
#[cfg(test)]
mod testing;

pub use device::enter_namespace;
pub use programs::load_program;
pub use rules::{Rules, THRESHOLDS_MAX};
pub use status::{Bin, Class, Status, bin_of, last_of_bin};
pub use tagger::{OBJECT, Options, Tagger, detach_all, devices};

use std::fmt;

/// Why something could not be done.
#[derive(Debug)]
pub enum Error {
    /// What was asked for is wrong.
    Input(String),
    /// The system refuses.
    System(String),
}

/// A result with this crate's errors.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Input(why) | Error::System(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Error {}

/// Makes an error of the system, which says what was tried.
fn failed<E: std::error::Error>(what: &str) -> impl FnOnce(E) -> Error + '_ {
    move |error| {
        let mut text = format!("cannot {what}: {error}");
        // Errors of the loader hide the kernel's reason behind each other.
        let mut source = error.source();
        while let Some(inner) = source {
            let why = inner.to_string();
            if !text.contains(&why) {
                text = format!("{text}: {why}");
            }
            source = inner.source();
        }
        Error::System(shortened(text))
    }
}

/// Leaves out the middle of a long text: the kernel's verifier says what is wrong at the end of pages.
fn shortened(text: String) -> String {
    const HEAD: usize = 200;
    const TAIL: usize = 300;
    let count = text.chars().count();
    if count <= HEAD + TAIL {
        return text;
    }
    let (head, tail): (String, String) = (text.chars().take(HEAD).collect(), text.chars().skip(count - TAIL).collect());
    format!("{head} … {tail}")
}
