//! `[topology]`: numbers that must fit each other, and networks that are too large.

use crate::ScenarioError;
use crate::spec::Topology;

const HOSTS_MAX: u64 = 100_000;
/// The simulator numbers the two directions of each link with 21 bits.
const LINKS_MAX: u64 = 1_000_000;
/// Every switch has a route to every node, of four bytes each.
const ROUTES_MAX: u64 = 1_000_000_000;

/// How many there are of each.
struct Size {
    hosts: u64,
    switches: u64,
    links: u64,
}

pub(super) fn check(topology: &Topology) -> Result<(), ScenarioError> {
    let wrong = |key: &str, message: String| Err(ScenarioError::at_key(key, message));
    if let Topology::ThreeTier(t) = topology
        && !t.racks.is_multiple_of(t.aggregations)
    {
        let message = format!("found {}; it is a multiple of aggregations, {}", t.racks, t.aggregations);
        return wrong("topology.racks", message);
    }
    if let Topology::FatTree(t) = topology
        && !t.k.is_multiple_of(2)
    {
        return wrong("topology.k", format!("found {}; a fat-tree's k is even", t.k));
    }
    let Some(Size { hosts, switches, links }) = size(topology) else { return Ok(()) };
    if hosts > HOSTS_MAX {
        return wrong("topology.hosts_per_rack", format!("this makes {hosts} hosts; the limit is {HOSTS_MAX}"));
    }
    if links > LINKS_MAX {
        return wrong("topology", format!("this makes {links} links; the limit is {LINKS_MAX}"));
    }
    let routes = switches * (hosts + switches);
    if routes > ROUTES_MAX {
        let nodes = hosts + switches;
        let message =
            format!("{switches} switches with a route to each of {nodes} nodes make {routes}; the limit is {ROUTES_MAX}");
        return wrong("topology", message);
    }
    Ok(())
}

/// How large the network will be, unless a file says that.
fn size(topology: &Topology) -> Option<Size> {
    Some(match topology {
        Topology::SingleSwitch(t) => {
            let hosts = t.hosts.into();
            Size { hosts, switches: 1, links: hosts }
        }
        Topology::Dumbbell(t) => {
            let hosts = 2 * u64::from(t.hosts_per_side);
            Size { hosts, switches: 2, links: hosts + 1 }
        }
        Topology::LeafSpine(t) => {
            let [racks, hosts_per_rack, spines] = [t.racks, t.hosts_per_rack, t.spines].map(u64::from);
            Size { hosts: racks * hosts_per_rack, switches: racks + spines, links: racks * (hosts_per_rack + spines) }
        }
        Topology::ThreeTier(t) => {
            let [racks, hosts_per_rack, aggregations] = [t.racks, t.hosts_per_rack, t.aggregations].map(u64::from);
            let links = racks * (hosts_per_rack + 1) + aggregations;
            Size { hosts: racks * hosts_per_rack, switches: racks + aggregations + 1, links }
        }
        Topology::FatTree(t) => {
            let k = u64::from(t.k);
            Size { hosts: k.pow(3) / 4, switches: k * k * 5 / 4, links: k.pow(3) * 3 / 4 }
        }
        Topology::Custom(_) => return None,
    })
}
