//! Flows in the background.

use flowloom_core::{Bytes, Duration, Flow, FlowId, Network, NodeId, Time, WireProfile};
use flowloom_fabric::seed::Purpose;

use super::hosts::find_host;
use super::matrix::Matrix;
use super::mix::in_order;
use super::{Context, Workload};
use crate::random::Stream;
use crate::spec::{Background, FLOWS_MAX, HostRef, MatrixKind};
use crate::{ScenarioError, limits};

/// Adds background flows to a workload. `matrix` is the workload's, if it has one.
///
/// # Errors
/// Hosts that do not exist, or more flows than a run can have.
pub(super) fn add(
    mut workload: Workload,
    specs: &[Background],
    matrix: Option<MatrixKind>,
    context: &Context<'_>,
) -> Result<Workload, ScenarioError> {
    if specs.is_empty() {
        return Ok(workload);
    }
    let first = workload.flows.len();
    for (index, spec) in specs.iter().enumerate() {
        let key = format!("workload.background.{index}");
        for (src, dst) in ends(spec, index, matrix, context, &key)? {
            let size = spec.size.map_or_else(|| endless(context.network, context.wire), |size| size.0);
            let id = FlowId(workload.flows.len() as u32);
            let start = Time::ZERO + spec.start.0;
            workload.flows.push(Flow { id, src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: true });
        }
        if workload.flows.len() > FLOWS_MAX as usize {
            let count = workload.flows.len();
            return Err(ScenarioError::at_key(key, format!("with these, there are {count} flows; the limit is {FLOWS_MAX}")));
        }
    }
    limits::check_flows(&workload.flows[first..], context.network, context.wire)
        .map_err(|error| error.moved("workload", "workload.background"))?;
    Ok(in_order(workload))
}

/// The ends of each flow.
fn ends(
    spec: &Background,
    index: usize,
    matrix: Option<MatrixKind>,
    context: &Context<'_>,
    key: &str,
) -> Result<Vec<(NodeId, NodeId)>, ScenarioError> {
    if let (Some(src), Some(dst)) = (&spec.src, &spec.dst) {
        let find = |host: &HostRef, name: &str| find_host(host, context.network, &format!("{key}.{name}"));
        let (src, dst) = (find(src, "src")?, find(dst, "dst")?);
        if src == dst {
            let name = &context.network.node(src).name;
            return Err(ScenarioError::at_key(
                format!("{key}.dst"),
                format!("found {name}, which is src as well; give another host"),
            ));
        }
        return Ok(vec![(src, dst)]);
    }
    let kind = spec.matrix.or(matrix).unwrap_or_default();
    let matrix = Matrix::new(kind, context.network, context.seed);
    let mut sum = 0.0;
    let running = matrix.weights().iter().map(|weight| {
        sum += weight;
        sum
    });
    let running: Vec<f64> = running.collect();
    let mut stream = Stream::new(context.seed, Purpose::Background, index as u64);
    let pair = |_| {
        let src = stream.weighted(&running) as u32;
        (NodeId(src), matrix.destination(src, &mut stream))
    };
    Ok((0..spec.pairs.unwrap_or(0)).map(pair).collect())
}

/// A size that no run transmits, and that every transport can count: see [`limits::check_flows`].
fn endless(network: &Network, wire: &WireProfile) -> Bytes {
    let slowest = network.links().iter().map(|link| link.rate).min().expect("a checked network has links");
    // A tenth of the longest time, so that the fastest link does not transmit more bytes than a number can hold.
    let packets = slowest.bytes_in(Duration::LONGEST / 10).get() / wire.full.get();
    // Half of what can be counted, because the headers of some transports leave less room for payload in a packet.
    wire.payload() * packets.clamp(1, u64::from(u32::MAX / 2))
}
