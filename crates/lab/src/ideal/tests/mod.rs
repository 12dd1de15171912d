//! Independent checks of the oracle: closed forms, answers by hand, exhaustive search, and the M/G/1 queue.

mod exhaustive;
mod known;
mod mg1;

use flowloom_core::{Bytes, Duration, Flow, FlowId, Network, NodeId, Rate, Switching, Time, topology};

pub(super) const CUT_THROUGH: Switching = Switching::CutThrough { header: Bytes::new(40) };

pub(super) fn flow(id: u32, src: u32, dst: u32, bytes: u64, start: Time) -> Flow {
    Flow {
        id: FlowId(id),
        src: NodeId(src),
        dst: NodeId(dst),
        size: Bytes::new(bytes),
        start,
        deadline: None,
        tenant: 0,
        coflow: None,
        background: false,
    }
}

/// Any two hosts here are alike.
pub(super) fn single_switch(hosts: usize) -> Network {
    topology::single_switch(hosts, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward)
}

/// Two racks of two hosts under two spines: pairs within a rack are nearer than others.
pub(super) fn leaf_spine(switching: Switching) -> Network {
    topology::leaf_spine(2, 2, 2, Rate::from_gbps(10), Rate::from_gbps(40), Duration::from_ns(200), switching)
}

pub(super) fn sum_ps(finish: &[Time]) -> u128 {
    finish.iter().map(|at| u128::from(at.as_ps())).sum()
}
