//! What a plan means for real switches and hosts: their queues, marks, memory and flow control, as data.

use std::collections::BTreeMap;

use flowloom_core::{
    Bytes, Division, Feature, HostProfile, Knob, LimiterProfile, LinkId, MarkProfile, Memory, MemoryProfile, NodeId, NodeKind,
    PathNeed, Placement, PortProfile, PortSite, QueueLimit, QueueProfile, Routing, Tagging, WireProfile, frame,
};
use flowloom_transports::pfc::ClassLimits;
use serde_json::{Value, json};

use crate::catalogue::{Profiles, classes_to_pause};
use crate::plan::Setup;
use crate::spec::Scenario;
use crate::{ScenarioError, headroom};

/// Describes the switches and hosts of a plan of this scenario. Switches that are alike are listed once, with their number, and so are
/// NICs. Bytes are integers, rates are in bits per second. If the ports are for datagrams of `flowloom-node`, their limits are those for packets of its sizes, and not of
/// the scenario's.
///
/// # Errors
/// If the plan's transport is none that could run on a network.
pub fn describe(setup: &Setup, scenario: &Scenario, for_datagrams: bool) -> Result<Value, ScenarioError> {
    // It has the control host, too.
    let network = setup.paths.network();
    let Some(profiles) = &setup.transport.profiles else {
        let message =
            format!("{} is a bound and no transport, so switches and hosts cannot be configured for it", setup.transport.name);
        return Err(scenario.place(ScenarioError::at_key("transport.name", message)));
    };
    let wire = if for_datagrams { frame::wire_on_ethernet(setup.wire.mtu(), setup.transport.header_bytes) } else { None };
    let ports = Ports { setup, profiles, wire: wire.unwrap_or(setup.wire) };
    Ok(json!({
        "transport": setup.transport.name,
        "label": setup.transport.profile.label,
        "about": setup.transport.about,
        "parameters": setup.parameters.to_table(),
        "placement": placement((setup.transport.placement)(&setup.parameters)),
        "paths": paths(setup.transport.paths),
        "multipath": setup.paths.is_multipath(),
        "choice": choice(setup.paths.routing()),
        "wire": { "name": setup.wire.name, "full": setup.wire.full.get(), "control": setup.wire.control.get(), "mtu": setup.wire.mtu().get() },
        "memory": memory(setup.memory),
        "pfc": pfc(setup),
        "host": host(&(profiles.host)(&setup.parameters)),
        "switches": switches(&ports),
        "nics": nics(&ports),
        "hosts": network.endpoints().map(|node| &network.node(node).name).collect::<Vec<_>>(),
    }))
}

fn memory(memory: Memory) -> Value {
    match memory {
        Memory::PerPort(bytes) => json!({ "bytes": bytes.get(), "alpha": null }),
        Memory::PerSwitch { bytes, alpha } => json!({ "bytes": bytes.get(), "alpha": alpha }),
    }
}

fn placement(placement: Placement) -> &'static str {
    match placement {
        Placement::Nowhere => "nowhere",
        Placement::ExtraHost => "extra_host",
        Placement::Switches => "switches",
    }
}

fn paths(need: PathNeed) -> &'static str {
    match need {
        PathNeed::Any => "any",
        PathNeed::One => "one",
        PathNeed::Symmetric => "symmetric",
        PathNeed::SymmetricOrSprayed => "symmetric_or_sprayed",
    }
}

/// For what a switch chooses one of several next hops.
fn choice(routing: Routing) -> &'static str {
    match routing {
        Routing::SprayRandom | Routing::SprayLabelled | Routing::SprayRoundRobin => "packet",
        Routing::LeastQueue | Routing::Drill(_) => "queue",
        Routing::Flowlet(_) => "flowlet",
        Routing::Ecmp | Routing::EcmpSymmetric => "flow",
    }
}

/// Flow control, if the plan has it: how many classes can be paused, and the hysteresis.
fn pfc(setup: &Setup) -> Value {
    let Some((pfc, classes)) = setup.pfc.as_ref().zip(classes_to_pause(setup.transport.name)) else { return Value::Null };
    let hysteresis = pfc.hysteresis.unwrap_or(setup.wire.full * 2);
    json!({ "classes": classes(&setup.parameters), "hysteresis": hysteresis.get() })
}

/// Each kind of switch: its name is that of its tier, or of its first switch if its tier has several kinds.
fn switches(ports: &Ports<'_>) -> Value {
    let setup = ports.setup;
    let network = setup.paths.network();
    let mut kinds: Vec<(Vec<NodeId>, Vec<Value>)> = Vec::new();
    for node in network.switches() {
        let limits = headroom::of(setup, node);
        let port = |link: &LinkId| {
            let port = network.link(*link);
            let to = &network.node(port.to).tier;
            let limits = limits.as_ref().map(|limits| limits.of(port.from_port));
            json!({
                "to": to, "rate_bps": port.rate.as_bps(), "delay_ps": port.delay.as_ps(), "profile": ports.profile(*link),
                "headroom": limits.map(|ClassLimits { headroom, .. }| headroom.get()),
                "xoff": limits.and_then(|ClassLimits { xoff, .. }| xoff).map(Bytes::get),
            })
        };
        let described: Vec<Value> = network.ports(node).iter().map(port).collect();
        let tier = &network.node(node).tier;
        match kinds.iter_mut().find(|(alike, others)| network.node(alike[0]).tier == *tier && *others == described) {
            Some((alike, _)) => alike.push(node),
            None => kinds.push((vec![node], described)),
        }
    }
    let mut of_tier: BTreeMap<&str, usize> = BTreeMap::new();
    kinds.iter().for_each(|(alike, _)| *of_tier.entry(&network.node(alike[0]).tier).or_default() += 1);
    let kind = |(alike, ports): &(Vec<NodeId>, Vec<Value>)| {
        let node = network.node(alike[0]);
        let name = if of_tier[node.tier.as_str()] == 1 { &node.tier } else { &node.name };
        let shared = headroom::of(setup, alike[0]).and_then(|limits| limits.shared()).map(Bytes::get);
        let members: Vec<Value> = alike.iter().map(|switch| member(setup, *switch)).collect();
        json!({ "name": name, "members": members, "shared": shared, "ports": ports })
    };
    kinds.iter().map(kind).collect()
}

/// A switch with the names of the nodes at the other ends of its ports, in their order.
fn member(setup: &Setup, switch: NodeId) -> Value {
    let network = setup.paths.network();
    let name = |node: NodeId| &network.node(node).name;
    let neighbours: Vec<&String> = network.ports(switch).iter().map(|link| name(network.link(*link).to)).collect();
    json!({ "name": name(switch), "neighbours": neighbours })
}

/// What the ports of a plan are made from.
struct Ports<'a> {
    setup: &'a Setup,
    profiles: &'a Profiles,
    wire: WireProfile,
}

impl Ports<'_> {
    /// The port of a link in a run.
    fn profile(&self, link: LinkId) -> Value {
        let Ports { setup, profiles, wire } = *self;
        let network = setup.paths.network();
        let kind = network.node(network.link(link).from).kind;
        let site = PortSite { link, network, wire, memory: setup.memory.at(kind), seed: setup.seed };
        port(&(profiles.port)(&setup.parameters, &site))
    }
}

/// The NICs of each rate.
fn nics(ports: &Ports<'_>) -> Value {
    let network = ports.setup.paths.network();
    let mut kinds: Vec<(u64, Value, u64)> = Vec::new();
    for host in network.node_ids().filter(|node| network.node(*node).kind == NodeKind::Host) {
        let link = network.ports(host)[0];
        let (rate, profile) = (network.link(link).rate.as_bps(), ports.profile(link));
        match kinds.iter_mut().find(|(other, like, _)| *other == rate && *like == profile) {
            Some((.., count)) => *count += 1,
            None => kinds.push((rate, profile, 1)),
        }
    }
    kinds.into_iter().map(|(rate, profile, count)| json!({ "rate_bps": rate, "profile": profile, "count": count })).collect()
}

fn port(port: &PortProfile) -> Value {
    let limit = |limit: QueueLimit| json!({ "bytes": limit.bytes.get(), "key": limit.key });
    let queue = |QueueProfile { holds, limit: most }: &QueueProfile| json!({ "holds": holds, "limit": most.map(limit) });
    let feature = |feature: &Feature| {
        let Feature { ability, what, without, essential, key } = *feature;
        json!({ "ability": ability.name(), "what": what, "without": without, "essential": essential, "key": key })
    };
    json!({
        "queues": port.queues.iter().map(queue).collect::<Value>(),
        "queues_key": port.queues_key,
        "marks": port.marks.map(|MarkProfile { above, all_above, share, by_queue, at_dequeue, table }| {
            json!({ "above": above.get(), "all_above": all_above.get(), "share": share, "by_queue": by_queue, "at_dequeue": at_dequeue, "table": table })
        }),
        "memory": port.memory.as_ref().map(port_memory),
        "limiter": port.limiter.as_ref().map(limiter),
        "features": port.features.iter().map(feature).collect::<Value>(),
    })
}

fn port_memory(memory: &MemoryProfile) -> Value {
    let (division, alpha) = match memory.division {
        Division::Whole => ("whole", None),
        Division::PushOut => ("push_out", None),
        Division::PerQueue => ("per_queue", None),
        Division::Dynamic(alpha) => ("dynamic", Some(alpha)),
    };
    json!({
        "bytes": memory.bytes.get(), "bytes_key": memory.bytes_key, "division": division, "division_key": memory.division_key, "alpha": alpha
    })
}

fn limiter(limiter: &LimiterProfile) -> Value {
    let LimiterProfile { first, queues, part, whole, burst, share_key, burst_key } = limiter;
    json!({
        "first": first, "queues": queues, "part": part.get(), "whole": whole.get(), "burst": burst.get(), "share_key": share_key,
        "burst_key": burst_key
    })
}

fn host(host: &HostProfile) -> Value {
    let knob = |(knob, key): &(Knob, String)| {
        let (name, value) = match knob {
            Knob::InitialWindow(packets) => ("initial_window", json!(packets)),
            Knob::RtoMin(span) => ("rto_min_us", json!(span.as_us_f64())),
            Knob::Sack(on) => ("sack", json!(on)),
            Knob::SlowStartAfterIdle(on) => ("slow_start_after_idle", json!(on)),
            Knob::Reordering(packets) => ("reordering", json!(packets)),
            Knob::Gain(weight) => ("gain", json!(weight)),
            Knob::InitialAlpha(share) => ("initial_alpha", json!(share)),
        };
        json!({ "name": name, "value": value, "key": key })
    };
    json!({
        "ecn": host.ecn,
        "in_nics": host.in_nics,
        "kernel": host.kernel.as_ref().map(|kernel| {
            json!({ "control": kernel.control, "lacks": kernel.lacks, "knobs": kernel.knobs.iter().map(knob).collect::<Value>() })
        }),
        "tagger": host.tagger.as_ref().map(|Tagging { thresholds, key, command }| {
            json!({ "thresholds": thresholds.iter().map(|bytes| bytes.get()).collect::<Value>(), "key": key, "command": command })
        }),
    })
}
