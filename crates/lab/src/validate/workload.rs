//! `[workload]`: which keys go together, and in which order sizes and spans come.

use std::collections::HashSet;

use flowloom_fabric::calendar::PAYLOADS_MAX;

use crate::ScenarioError;
use crate::spec::{
    Background, Bimodal, Burst, ClosedLoop, CoflowTrace, Deadline, FLOWS_MAX, Incast, Mix, Part, PayloadOf, Permutation,
    Poisson, Receivers, Sizes, Tenant, Uniform, WorkloadKind, WorkloadSpec, WorkloadTable,
};

pub(super) fn check(table: &WorkloadTable) -> Result<(), ScenarioError> {
    match &table.spec {
        WorkloadSpec::One(kind) => check_kind(kind)?,
        WorkloadSpec::Several(Mix::Mix(mix)) => check_parts(&mix.parts)?,
    }
    table.background.iter().enumerate().try_for_each(|(index, flows)| {
        check_background(flows)
            .map_err(|(key, message)| ScenarioError::at_key(format!("workload.background.{index}.{key}"), message))
    })
}

/// Either `src` and `dst`, or `pairs`. An error has the key at fault, and what would be right.
fn check_background(flows: &Background) -> Result<(), (&'static str, &'static str)> {
    match (&flows.src, &flows.dst, flows.pairs, flows.matrix) {
        (Some(_), Some(_), None, None) | (None, None, Some(_), _) => Ok(()),
        (Some(_), None, None, _) => Err(("dst", "missing; give the host that receives the flow")),
        (None, Some(_), None, _) => Err(("src", "missing; give the host that sends the flow")),
        (None, None, None, _) => {
            Err(("pairs", "missing; give src and dst for one flow, or pairs = 2 for two between random hosts"))
        }
        (_, _, Some(_), _) => Err(("pairs", "src or dst is given too; give either both of them or pairs")),
        (Some(_), Some(_), None, Some(_)) => Err(("matrix", "it has no effect where src and dst are given; leave it out")),
    }
}

fn check_parts(parts: &[Part]) -> Result<(), ScenarioError> {
    if let Some(index) = first_repeated(parts.iter().map(|part| &part.name)) {
        let message = format!("a second part is called \"{}\"", parts[index].name);
        return Err(ScenarioError::at_key(format!("workload.part.{index}.name"), message));
    }
    for (index, part) in parts.iter().enumerate() {
        let key = format!("workload.part.{index}");
        if !part.kind.tenants().is_empty() {
            let message = "a part has no tenants of its own, since each part is a tenant; make a part of each";
            return Err(ScenarioError::at_key(format!("{key}.tenant"), message));
        }
        check_kind(&part.kind).map_err(|error| error.moved("workload", &key))?;
    }
    Ok(())
}

fn check_kind(kind: &WorkloadKind) -> Result<(), ScenarioError> {
    match kind {
        WorkloadKind::Incast(incast) => check_incast(incast)?,
        WorkloadKind::ClosedLoop(closed_loop) => check_closed_loop(closed_loop)?,
        WorkloadKind::Poisson(Poisson { sizes, .. })
        | WorkloadKind::Permutation(Permutation { sizes, .. })
        | WorkloadKind::Burst(Burst { sizes, .. }) => check_sizes(sizes, "workload.sizes")?,
        WorkloadKind::CoflowTrace(trace) => check_window(trace)?,
        WorkloadKind::Trace(_) | WorkloadKind::CoflowSynthetic(_) => {}
    }
    check_tenants(kind.tenants())?;
    kind.deadline().map_or(Ok(()), check_deadline)
}

fn check_sizes(sizes: &Sizes, key: &str) -> Result<(), ScenarioError> {
    let ([low, high], key) = match sizes {
        Sizes::Uniform(Uniform { uniform }) => (uniform, format!("{key}.uniform")),
        Sizes::Bimodal(Bimodal { bimodal, .. }) => (bimodal, format!("{key}.bimodal")),
        Sizes::Table(_) | Sizes::Fixed(_) | Sizes::Cdf(_) => return Ok(()),
    };
    if low <= high {
        return Ok(());
    }
    Err(ScenarioError::at_key(key, format!("{} comes before the smaller {}; give the smaller size first", low.0, high.0)))
}

fn check_tenants(tenants: &[Tenant]) -> Result<(), ScenarioError> {
    if tenants.is_empty() {
        return Ok(());
    }
    let total: f64 = tenants.iter().map(|tenant| tenant.share).sum();
    if (total - 1.0).abs() > 1e-6 {
        return Err(ScenarioError::at_key("workload.tenant", format!("the tenants' shares add up to {total}, not 1")));
    }
    if let Some(index) = first_repeated(tenants.iter().map(|tenant| &tenant.name)) {
        let message = format!("a second tenant is called \"{}\"", tenants[index].name);
        return Err(ScenarioError::at_key(format!("workload.tenant.{index}.name"), message));
    }
    for (index, tenant) in tenants.iter().enumerate() {
        if let Some(sizes) = &tenant.sizes {
            check_sizes(sizes, &format!("workload.tenant.{index}.sizes"))?;
        }
    }
    Ok(())
}

/// The index of the first name that was there before.
fn first_repeated<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<usize> {
    let mut seen = HashSet::new();
    names.position(|name| !seen.insert(name))
}

fn check_incast(incast: &Incast) -> Result<(), ScenarioError> {
    let senders = incast.senders;
    match incast.request_sizes()? {
        PayloadOf::Request(bytes) if bytes.get() < u64::from(senders) => {
            let message = format!("{bytes} is less than a byte for each of {senders} senders");
            return Err(ScenarioError::at_key("workload.bytes", message));
        }
        PayloadOf::Request(_) => {}
        PayloadOf::Flow(sizes) => check_sizes(sizes, "workload.sizes")?,
    }
    if incast.receiver.is_some() && incast.receivers != Receivers::Random {
        let message = "it has no effect where receiver names the receiver of all requests; leave one of them out";
        return Err(ScenarioError::at_key("workload.receivers", message));
    }
    let flow_count = u64::from(incast.requests) * u64::from(senders);
    if flow_count > u64::from(FLOWS_MAX) {
        let message = format!("{} requests of {senders} flows make {flow_count}; the limit is {FLOWS_MAX}", incast.requests);
        return Err(ScenarioError::at_key("workload.requests", message));
    }
    incast.request_starts().map(drop)
}

fn check_closed_loop(closed_loop: &ClosedLoop) -> Result<(), ScenarioError> {
    let loop_count = closed_loop.from.len() as u64 * u64::from(closed_loop.loops);
    let flow_count = loop_count * u64::from(closed_loop.requests);
    if flow_count > PAYLOADS_MAX as u64 {
        let requests = closed_loop.requests;
        let message = format!("{loop_count} loops of {requests} flows make {flow_count}; the limit is {PAYLOADS_MAX}");
        return Err(ScenarioError::at_key("workload.requests", message));
    }
    check_sizes(&closed_loop.sizes, "workload.sizes")
}

fn check_window(trace: &CoflowTrace) -> Result<(), ScenarioError> {
    match trace.until {
        Some(until) if until <= trace.from => {
            let message = format!("found {}; it must be after from, {}", until.0, trace.from.0);
            Err(ScenarioError::at_key("workload.until", message))
        }
        _ => Ok(()),
    }
}

fn check_deadline(deadline: &Deadline) -> Result<(), ScenarioError> {
    match deadline {
        Deadline::Uniform(spec) if spec.max < spec.min => {
            let message = format!("found {}, which is before min, {}", spec.max.0, spec.min.0);
            Err(ScenarioError::at_key("workload.deadline.max", message))
        }
        Deadline::Exponential(_) | Deadline::Uniform(_) => Ok(()),
    }
}
