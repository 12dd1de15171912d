//! The relaxation that keeps the access links of one side, senders or receivers, and ignores all other links.

use flowloom_core::{Duration, Flow, Network, NodeId, Time, WireProfile};

use super::link::{Job, earlier, serve};
use super::{Order, UnloadedTimes};

/// Completion times under the relaxation with the largest mean: it keeps receivers' links, senders' links, or none.
pub(super) fn run(network: &Network, wire: &WireProfile, flows: &[Flow], order: Order) -> Vec<Time> {
    let mut unloaded = UnloadedTimes::new(network, wire);
    let unhindered = flows.iter().map(|flow| flow.start + unloaded.received(flow)).collect();
    let at_receivers = flows.iter().map(|flow| {
        let access = unloaded.at_receiver(flow);
        Job { release: flow.start + access.latency, service: access.service, due: earlier(flow.deadline, Duration::ZERO) }
    });
    let receivers = on_links(network, flows, &at_receivers.collect::<Vec<_>>(), |flow| flow.dst, order);
    let at_senders = flows.iter().map(|flow| {
        let access = unloaded.at_sender(flow);
        Job { release: flow.start, service: access.service, due: earlier(flow.deadline, access.latency) }
    });
    let mut senders = on_links(network, flows, &at_senders.collect::<Vec<_>>(), |flow| flow.src, order);
    for (finish, flow) in senders.iter_mut().zip(flows) {
        *finish += unloaded.at_sender(flow).latency;
    }
    let sum = |finish: &Vec<Time>| finish.iter().map(|at| u128::from(at.as_ps())).sum::<u128>();
    [unhindered, senders, receivers].into_iter().max_by_key(sum).expect("three relaxations")
}

/// Serves each host's jobs on its own link.
fn on_links(network: &Network, flows: &[Flow], jobs: &[Job], host: impl Fn(&Flow) -> NodeId, order: Order) -> Vec<Time> {
    let mut members = vec![Vec::new(); network.nics()];
    for (index, flow) in flows.iter().enumerate() {
        members[host(flow).index()].push(index);
    }
    let mut finish = vec![Time::MAX; flows.len()];
    for members in members {
        let own: Vec<Job> = members.iter().map(|index| jobs[*index]).collect();
        for (index, at) in members.into_iter().zip(serve(&own, order)) {
            finish[index] = at;
        }
    }
    finish
}
