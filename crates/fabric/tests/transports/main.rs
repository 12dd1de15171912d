//! Tests of the transports on simulated networks: properties that a test of two hosts cannot show.

#[path = "../common/mod.rs"]
mod common;
mod d3;
mod dcqcn;
mod deadlines;
mod equals;
mod expresspass;
mod fastpass;
mod homa;
mod hpcc;
mod ndp;
mod pdq;
mod pfabric;
mod phost;
mod pias;
mod survival;
mod tcp;
mod top;
