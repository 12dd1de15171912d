//! Plans under a transport that sends each flow back to back and acknowledges its last packet.

#[allow(dead_code)]
#[path = "../../../fabric/tests/common/blast.rs"]
mod blast;

use flowloom_fabric::{Report, Sim};
use flowloom_lab::Plan;

use self::blast::{Blast, Plain};

/// Runs a plan, which can be divided into regions.
pub fn blasted(plan: &Plan, regions: usize) -> Report {
    let flows = plan.flows.own.clone();
    let sim = Sim::<Blast<Plain>>::over_regions(&(), plan.setup.routed(), flows, vec![(); regions], |port, _| port);
    let mut sim = sim.with_tasks(plan.flows.tasks.clone());
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation").0
}
