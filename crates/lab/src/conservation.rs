//! What to change where a run has violated conservation.

use flowloom_fabric::{Fault, Violation};

use crate::faults::highest_probability;
use crate::plan::Setup;

/// What a violation says, and the keys of faults that can be its cause.
pub(crate) fn explain(violation: &Violation, setup: &Setup) -> String {
    let faults = || setup.faults.iter().flatten().map(|aimed| aimed.fault);
    let delay = faults().filter_map(|fault| if let Fault::Reorder(_, delay) = fault { Some(delay) } else { None }).max();
    let stands = faults().any(|fault| matches!(fault, Fault::Down(..) | Fault::Cut(..))) || !setup.storms.is_empty();
    let causes = [
        delay.map(|delay| format!("lower fault.delay ({delay})")),
        stands.then(|| "end faults earlier (fault.to), since packets wait until then".to_owned()),
        highest_probability(faults()).map(|probability| format!("lower fault.probability ({probability})")),
        remembered(&setup.parameters.to_table()).map(|(key, span)| {
            format!("raise transport.{}.{key} ({span}), for which receivers remember", setup.transport.name)
        }),
        Some(format!(
            "raise the rates of links, or lower fabric.buffer ({}), so that packets wait for less long",
            setup.memory.bytes()
        )),
    ];
    let causes: Vec<String> = causes.into_iter().flatten().collect();
    match violation {
        Violation::Forgotten(_) => format!("{violation}\n  likely: {}", causes.join("; ")),
        _ => violation.to_string(),
    }
}

/// The parameter, at whatever depth, that says how long a receiver remembers finished flows, if the transport has it: its dotted key, and its value.
fn remembered(parameters: &toml::Table) -> Option<(String, String)> {
    parameters.iter().find_map(|(key, value)| match value {
        toml::Value::Table(inner) => remembered(inner).map(|(rest, span)| (format!("{key}.{rest}"), span)),
        toml::Value::String(span) => (key == "time_wait").then(|| (key.clone(), span.clone())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::spec::Scenario;

    const SCENARIO: &str = "[topology]\nkind = \"single_switch\"\n[workload]\nkind = \"permutation\"\nsizes = { fixed = \"1kB\" }\n[transport]\nname = \"phost\"\n";

    fn explained(violation: Violation, faults: &str) -> String {
        let scenario = Scenario::load(SCENARIO, "scenario.toml", &[format!("fault=[{faults}]")]).unwrap();
        explain(&violation, &Plan::new(&scenario.validate().unwrap()).unwrap().setup)
    }

    #[test]
    fn a_forgotten_flow_has_its_likely_causes() {
        let forgotten = |faults: &str| explained(Violation::Forgotten("flow 0 again".to_owned()), faults);
        let loss = "{ kind = \"loss\", where = \"all\", probability = 0.3 }, { kind = \"corrupt\", where = \"all\", probability = 0.5 }";
        let reorder = "{ kind = \"reorder\", where = \"host-switch\", probability = 1, delay = \"10s\" }";
        let down = "{ kind = \"link_down\", where = \"all\", from = \"1ms\", to = \"2s\" }";
        let start = "conservation violated: flow 0 again\n  likely: ";
        let always = "raise the rates of links, or lower fabric.buffer (36.864kB), so that packets wait for less long";
        assert_eq!(forgotten(""), format!("{start}{always}"));
        assert_eq!(forgotten(loss), format!("{start}lower fault.probability (0.5); {always}"));
        assert_eq!(
            forgotten(&[loss, reorder].join(", ")),
            format!("{start}lower fault.delay (10s); lower fault.probability (0.5); {always}")
        );
        let waits = "end faults earlier (fault.to), since packets wait until then";
        assert_eq!(forgotten(down), format!("{start}{waits}; {always}"));
        let lost = explained(Violation::Bytes("1 byte is lost".to_owned()), loss);
        assert_eq!(lost, "conservation violated: 1 byte is lost", "no fault excuses it");
    }
}
