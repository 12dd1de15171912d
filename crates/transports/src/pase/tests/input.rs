//! Whatever arrives at PASE's nodes on the paper's tree.

use std::sync::Arc;

use flowloom_core::{Duration, Endpoint, NodeId, Packet, Paths, Routing, Time, Transport, WireProfile};
use proptest::prelude::*;

use super::tree::tree;
use super::{Arbitration, Config, Header, Pase, Probing};
use crate::pase::Host;
use crate::pase::header::tests::headers;
use crate::trial::{assail_endpoint, attacks, flow, site};

const WIRE: WireProfile = WireProfile::NS2_1000;

fn paths() -> Paths {
    Paths::new(Arc::new(tree()), Routing::Ecmp, 1)
}

fn any_config() -> impl Strategy<Value = Config> {
    let arbitration = prop::sample::select(vec![Arbitration::EndToEnd, Arbitration::SourceHalf, Arbitration::Local]);
    let probing = prop::sample::select(vec![Probing::OnTimeout, Probing::EveryRtt, Probing::Never]);
    let rest = (2_u8..9, 1_u8..4, any::<bool>(), any::<bool>());
    (arbitration, probing, rest).prop_map(|(arbitration, probing, (queues, pruning_depth, delegation, late_last))| Config {
        arbitration,
        probing,
        queues,
        pruning_depth,
        delegation,
        late_last,
        ..Config::default()
    })
}

/// Packets from hosts, from the switches above them, and from a node that does not exist.
fn from_anywhere() -> impl Strategy<Value = Vec<(Duration, Packet<Header>)>> {
    let sources = prop::sample::select(vec![0, 1, 7, 8, 9, 12, 13, 14, u32::MAX]);
    (attacks(WIRE, 2000, headers()), prop::collection::vec(sources, 100)).prop_map(|(packets, sources)| {
        let sent_by = |((pause, packet), src)| (pause, Packet { src: NodeId(src), ..packet });
        packets.into_iter().zip(sources).map(sent_by).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither. Flow 0 crosses the core. In the end,
    /// the host's arbitrators know at most this flow.
    #[test]
    fn no_header_breaks_a_host(config in any_config(), packets in from_anywhere()) {
        let (paths, own) = (paths(), flow(0, 0, 7, 96_000, Time::ZERO, None));
        let mut host = Pase::host(&config, &site(&paths, NodeId(0), WIRE));
        let sent = assail_endpoint(&mut host, &[own], packets)?;
        prop_assert!(sent.most <= 200, "{} packets in answer to one", sent.most);
        let [up, down] = Host::known_flows(&mut host, Time::LAST);
        prop_assert!(up <= 1 && down == 0, "{up} and {down} flows");
    }

    /// Nor does it break the arbitrators of any switch. For each link, they know no more than the three flows.
    #[test]
    fn no_header_breaks_an_arbitrator(config in any_config(), packets in from_anywhere()) {
        let paths = paths();
        let links = paths.network().links().len();
        for switch in paths.network().switches() {
            let mut control = Pase::control(&config, &site(&paths, switch, WIRE));
            let sent = assail_endpoint(&mut control, &[], packets.iter().copied())?;
            prop_assert!(sent.most <= 8, "{} messages in answer to one", sent.most);
            prop_assert!(control.known_flows() <= 3 * links, "{} flows", control.known_flows());
        }
    }
}
