//! Several workloads at the same time.

use std::collections::HashSet;

use flowloom_core::{Flow, FlowId};
use flowloom_fabric::seed::{Purpose, stream_seed};

use super::arrivals::{FLOWS_MAX, START_S_MAX};
use super::{Context, of_kind};
use crate::ScenarioError;
use crate::spec::Part;

/// The flows of all parts, in order of (start, part). A part's number is its flows' tenant; coflows are numbered on from part to part.
pub(super) fn flows(parts: &[Part], context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    check_names(parts)?;
    let mut flows = Vec::new();
    let mut coflows = 0;
    for (index, part) in parts.iter().enumerate() {
        let key = format!("workload.part.{index}");
        let seed = stream_seed(context.seed, Purpose::Parts, index as u64);
        let mut own = of_kind(&part.kind, &Context { seed, ..*context }).map_err(|error| error.moved("workload", &key))?;
        check(part, &own, &key)?;
        coflows = place(&mut own, part, index as u16, coflows)
            .ok_or_else(|| ScenarioError::at_key(&key, "with this part, the mix has more than 2^32 coflow numbers"))?;
        flows.append(&mut own);
        if flows.len() > FLOWS_MAX as usize {
            return Err(ScenarioError::at_key(
                key,
                format!("with this part, the mix has {} flows; the limit is {FLOWS_MAX}", flows.len()),
            ));
        }
    }
    flows.sort_by_key(|flow| flow.start);
    flows.iter_mut().zip(0..).for_each(|(flow, id)| flow.id = FlowId(id));
    Ok(flows)
}

fn check_names(parts: &[Part]) -> Result<(), ScenarioError> {
    let mut names = HashSet::new();
    match parts.iter().position(|part| !names.insert(&part.name)) {
        Some(index) => {
            let message = format!("a second part is called \"{}\"", parts[index].name);
            Err(ScenarioError::at_key(format!("workload.part.{index}.name"), message))
        }
        None => Ok(()),
    }
}

fn check(part: &Part, flows: &[Flow], key: &str) -> Result<(), ScenarioError> {
    if part.start.0.as_secs_f64() > START_S_MAX {
        let message = format!("found {}; the limit is {START_S_MAX:e} s", part.start.0);
        return Err(ScenarioError::at_key(format!("{key}.start"), message));
    }
    if !part.kind.tenants().is_empty() || flows.iter().any(|flow| flow.tenant != 0) {
        let message = "a part has no tenants of its own, since each part is a tenant; make a part of each";
        let tenants = if part.kind.tenants().is_empty() { "file" } else { "tenant" };
        return Err(ScenarioError::at_key(format!("{key}.{tenants}"), message));
    }
    Ok(())
}

/// Moves a part's flows to where they belong among all, and gives the number of its next coflow; `None` if there is no such number.
fn place(flows: &mut [Flow], part: &Part, tenant: u16, first_coflow: u32) -> Option<u32> {
    let mut next_coflow = first_coflow;
    for flow in flows {
        flow.start += part.start.0;
        flow.deadline = flow.deadline.map(|deadline| deadline + part.start.0);
        flow.tenant = tenant;
        if let Some(own) = flow.coflow {
            let coflow = first_coflow.checked_add(own)?;
            next_coflow = next_coflow.max(coflow.checked_add(1)?);
            flow.coflow = Some(coflow);
        }
    }
    Some(next_coflow)
}
