//! What tests of this crate share that attach programs.

use std::ops::RangeInclusive;

use crate::device::{enter_namespace, run};
use crate::{Error, Result};

/// A network namespace whose loopback device carries nothing. It and what is attached to the device end with the test.
pub struct Namespace {
    name: String,
    detach: fn(&str) -> Result<()>,
}

impl Namespace {
    /// Moves this thread into a new namespace; an error if this user may not.
    pub fn enter(what: &str, detach: fn(&str) -> Result<()>) -> Result<Namespace> {
        let name = format!("flowloom-{what}-{}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let namespace = Namespace { name, detach };
        enter_namespace(&namespace.name)?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = (self.detach)("lo");
        let _ = run("ip", &["netns", "delete", &self.name]);
    }
}

/// Says why a test is skipped. Where `TESTBED=require` says that it can run, this is a failure.
pub fn skip(reason: &Error) {
    assert!(std::env::var("TESTBED").as_deref() != Ok("require"), "TESTBED=require, but {reason}");
    println!("skipped: {reason}");
}

/// A compiled program of another version: its first number in this range is larger by 1.
pub fn altered(object: &[u8], range: RangeInclusive<u32>) -> Vec<u8> {
    let mut other = object.to_vec();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let at = other.windows(4).position(|bytes| range.contains(&number(bytes))).expect("the number");
    let larger = number(&other[at..at + 4]) + 1;
    other[at..at + 4].copy_from_slice(&larger.to_le_bytes());
    other
}
