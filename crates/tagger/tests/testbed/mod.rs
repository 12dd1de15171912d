//! Skips tests that this machine cannot run.

/// Says why a test is skipped. Where `TESTBED=require` says that it can run, this is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var("TESTBED").as_deref() != Ok("require"), "TESTBED=require, but {reason}");
    println!("skipped: {reason}");
}
