//! What a scenario can run with, but not as it is meant: users are warned before the run and with its results.

use std::collections::BTreeSet;

use flowloom_core::{Attribute, Need};
use flowloom_transports::{NoLoss, PortMemory};

use crate::plan::Setup;
use crate::spec::FlowChoice;
use crate::workload::Flows;
use crate::{dead_links, workload};

/// A sentence for each key of a plan with these flows whose value does not suit the rest of it. It starts with the whole key, and says what follows from the value and what would be
/// right.
pub(crate) fn of(setup: &Setup, flows: &Flows) -> Vec<String> {
    let sizes = || workload::shares_of_flows(flows);
    let misfits = setup.parameters.misfits(&setup.conditions(), &sizes);
    let misfits = misfits.into_iter().map(|misfit| format!("transport.{}.{misfit}", setup.transport.name));
    let dead = dead_links::foreseen(setup, flows);
    let others =
        unmet(setup, flows).into_iter().chain(small_memory(setup)).chain(dead).chain(unknown_flows(setup, flows.ids()));
    misfits.chain(others).collect()
}

/// What is wrong with the flows that are to be recorded, if there are no such flows.
fn unknown_flows(setup: &Setup, flows: usize) -> Vec<String> {
    let traced = setup.trace.as_ref().map(|trace| ("trace.flows", &trace.flows));
    let chosen = [("observe.flows", &setup.observation.flows)].into_iter().chain(traced);
    let unknown = |(key, choice): (&str, &FlowChoice)| {
        let FlowChoice::Ids(ids) = choice else { return None };
        let beyond = ids.iter().find(|id| **id as usize >= flows)?;
        Some(format!(
            "{key}: no flow has the number {beyond}, so nothing is recorded of it; the flows have the numbers from 0 to {}",
            flows.saturating_sub(1)
        ))
    };
    chosen.filter_map(unknown).collect()
}

/// What is wrong with the memory of ports if the transport's design excludes losses and needs more for it. Under flow control, ports lose nothing.
fn small_memory(setup: &Setup) -> Option<String> {
    let conditions = setup.conditions();
    let NoLoss { how, .. } = setup.parameters.no_loss(&conditions)?;
    let PortMemory { bytes: memory, holds } = setup.parameters.port_memory(&conditions)?;
    if memory <= setup.memory.bytes() || setup.pfc.is_some() {
        return None;
    }
    let (found, name) = (setup.memory.bytes(), setup.transport.name);
    Some(format!(
        "fabric.buffer: {found} are less than {memory}, which is {holds}, so ports will lose data, although {name} {how}; raise it to {memory} or \
         more"
    ))
}

/// What is wrong if the transport goes by something that no flow has.
fn unmet(setup: &Setup, flows: &Flows) -> Option<String> {
    let Need { key, of, without } = (setup.transport.need)(&setup.parameters)?;
    if is_met(of, flows) {
        return None;
    }
    let (lack, add) = match of {
        Attribute::Deadline => (
            "deadlines, but no flow has one",
            "give flows deadlines ([workload.deadline], or the column deadline_s of a trace)",
        ),
        Attribute::Tenant => (
            "tenants, but there is only one",
            "share flows out to tenants ([[workload.tenant]], the parts of a mix, or the column tenant of a trace)",
        ),
        Attribute::Coflow => {
            ("coflows, but no flow belongs to one", "use a workload of coflows or requests, or the column coflow of a trace")
        }
    };
    let name = setup.transport.name;
    let (key, what, other) = match key {
        Some(key) => {
            let value = setup.parameters.to_table().get(key).map(ToString::to_string).unwrap_or_default();
            (format!("transport.{name}.{key}"), value, "value")
        }
        None => ("transport.name".to_owned(), name.to_owned(), "transport"),
    };
    Some(format!("{key}: {what} goes by {lack}, so {without}; {add}, or choose another {other}"))
}

/// Whether flows have what a policy goes by. Nobody waits for background flows, so they do not count.
fn is_met(need: Attribute, flows: &Flows) -> bool {
    let mut flows = flows.iter().filter(|flow| !flow.background);
    match need {
        Attribute::Deadline => flows.any(|flow| flow.deadline.is_some()),
        Attribute::Tenant => flows.map(|flow| flow.tenant).collect::<BTreeSet<u16>>().len() > 1,
        Attribute::Coflow => flows.any(|flow| flow.coflow.is_some()),
    }
}
