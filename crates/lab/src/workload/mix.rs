//! Several workloads at the same time.

use flowloom_core::{Flow, FlowId, Time};
use flowloom_fabric::Successor;
use flowloom_fabric::calendar::PAYLOADS_MAX;
use flowloom_fabric::seed::{Purpose, stream_seed};

use super::{CoflowWorkload, Context, Workload, of_kind};
use crate::ScenarioError;
use crate::spec::{FLOWS_MAX, Part};

/// The flows of all parts, in order of (start, part). A part's number is the tenant of its flows. Numbers of coflows go on from part to
/// part.
pub(super) fn workload(parts: &[Part], context: &Context<'_>) -> Result<Workload, ScenarioError> {
    let mut all = Workload::from(Vec::new());
    let mut coflows = 0;
    for (index, part) in parts.iter().enumerate() {
        let key = format!("workload.part.{index}");
        let seed = stream_seed(context.seed, Purpose::Parts, index as u64);
        let own = of_kind(&part.kind, &Context { seed, ..*context }).map_err(|error| error.moved("workload", &key))?;
        if own.flows.iter().any(|flow| flow.tenant != 0) {
            let message = "a part has no tenants of its own, since each part is a tenant; make a part of each";
            return Err(ScenarioError::at_key(format!("{key}.file"), message));
        }
        let before = all.flows.len();
        append(&mut all, own, index as u16);
        coflows = place(&mut all.flows[before..], part, index as u16, coflows)
            .ok_or_else(|| ScenarioError::at_key(&key, "with this part, the mix has more than 2^32 coflow numbers"))?;
        if all.flows.len() > FLOWS_MAX as usize {
            let count = all.flows.len();
            return Err(ScenarioError::at_key(
                key,
                format!("with this part, the mix has {count} flows; the limit is {FLOWS_MAX}"),
            ));
        }
    }
    let waiting = all.flows.iter().filter(|flow| flow.start == Time::MAX).count();
    if waiting > PAYLOADS_MAX {
        let message = format!("{waiting} flows of closed loops wait for others; the limit is {PAYLOADS_MAX}");
        return Err(ScenarioError::at_key("workload.part", message));
    }
    Ok(in_order(all))
}

/// Adds a part's flows. Their ids go on from those before them.
fn append(all: &mut Workload, own: Workload, tenant: u16) {
    let before = all.flows.len() as u32;
    let moved = |successor: Successor| Successor { flow: FlowId(successor.flow.0 + before), ..successor };
    if !own.successors.is_empty() {
        all.successors.resize(before as usize, None);
        all.successors.extend(own.successors.into_iter().map(|successor| successor.map(moved)));
    }
    all.coflows.extend(own.coflows.into_iter().map(|coflows| CoflowWorkload { tenant, ..coflows }));
    all.flows.extend(own.flows.into_iter().map(|flow| Flow { id: FlowId(flow.id.0 + before), ..flow }));
}

/// Sorts flows by start and renumbers them. Flows with the same start keep their order.
pub(super) fn in_order(Workload { mut flows, mut successors, coflows }: Workload) -> Workload {
    flows.sort_by_key(|flow| flow.start);
    if !successors.is_empty() {
        successors.resize(flows.len(), None);
        let mut places = vec![FlowId(0); flows.len()];
        flows.iter().zip(0..).for_each(|(flow, place)| places[flow.id.0 as usize] = FlowId(place));
        let moved = |successor: Successor| Successor { flow: places[successor.flow.0 as usize], ..successor };
        successors = flows.iter().map(|flow| successors[flow.id.0 as usize].map(moved)).collect();
    }
    flows.iter_mut().zip(0..).for_each(|(flow, id)| flow.id = FlowId(id));
    Workload { flows, successors, coflows }
}

/// Moves a part's flows to the part's start, tenant and coflows. Returns the first coflow number of the next part; `None` if there is no
/// such number.
fn place(flows: &mut [Flow], part: &Part, tenant: u16, first_coflow: u32) -> Option<u32> {
    let mut next_coflow = first_coflow;
    for flow in flows {
        if flow.start < Time::MAX {
            flow.start += part.start.0;
        }
        flow.deadline = flow.deadline.map(|deadline| deadline + part.start.0);
        flow.tenant = tenant;
        if let Some(coflow) = &mut flow.coflow {
            coflow.number = first_coflow.checked_add(coflow.number)?;
            coflow.start += part.start.0;
            next_coflow = next_coflow.max(coflow.number.checked_add(1)?);
        }
    }
    Some(next_coflow)
}
