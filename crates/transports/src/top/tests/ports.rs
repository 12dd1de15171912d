//! TOP's ports against their rules, through TOP's own configuration.

use flowloom_core::{DropReason, Memory, Network, NodeId, Packet, PortSite, Switching, topology};
use proptest::prelude::*;

use super::super::Port;
use super::*;
use crate::disciplines::rig::{Rig, with_header};

const CLASSES: u8 = 6;
const DATA: u8 = 7;

/// A packet, and when it comes or leaves.
type Timed = (Time, Packet<Header>);

fn network() -> Network {
    topology::single_switch(2, Rate::from_gbps(10), DELAY, Switching::StoreAndForward)
}

/// The port of the switch to host 0.
fn port(config: &Config) -> Port {
    let network = network();
    let link = network.ports(NodeId(0))[0].reverse();
    let memory = Memory::PerPort(Bytes::new(100_000));
    Port::new(config, &PortSite { link, network: &network, wire: WIRE, memory, seed: 1 })
}

fn form(switch: SwitchForm) -> Config {
    Config { switch, ..Config::default() }
}

/// A token whose flow is its number.
fn token(number: u32, class: u8, key: u64, size: u32) -> Packet<Header> {
    with_header(number, class, size, Header::Token { token: number, sent: Time::ZERO, key })
}

fn data(number: u32, class: u8, size: u32) -> Packet<Header> {
    with_header(number, class, size, Header::Data { number, packets: u32::MAX, token: 0, sent: Time::ZERO })
}

fn at(ps: u64) -> Time {
    Time::from_ps(ps)
}

/// What leaves a port in front of a free link, and when, of packets that come at these times.
fn departures(config: &Config, arrivals: &[Timed]) -> (Vec<Timed>, Vec<(u32, DropReason)>) {
    let (mut rig, mut sent, mut next) = (Rig::new(port(config)), Vec::new(), 0);
    let (mut wake, mut free) = (Time::MAX, Time::ZERO);
    while next < arrivals.len() || wake < Time::MAX {
        if next < arrivals.len() && arrivals[next].0 <= wake {
            let (now, packet) = arrivals[next];
            next += 1;
            rig.now = now;
            rig.enqueue(packet);
            wake = free.max(now);
            continue;
        }
        rig.now = wake;
        wake = match rig.serve() {
            Ok(packet) => {
                sent.push((rig.now, packet));
                free = rig.now + Rate::from_gbps(10).transmit_time(packet.size());
                free
            }
            Err(at) => {
                assert!(at > rig.now, "it asks again at once");
                at
            }
        };
    }
    let dropped = rig.dropped();
    assert_eq!(rig.packets(), 0, "every packet leaves or is dropped");
    (sent, dropped)
}

/// Tokens of all classes.
fn tokens() -> impl Strategy<Value = Vec<Timed>> {
    let one = (prop_oneof![Just(0_u64), 1_u64..400_000, 1_u64..4_000_000], 1..=CLASSES);
    prop::collection::vec(one, 1..150).prop_map(|all| {
        let mut now = Time::ZERO;
        let numbered = (0..).zip(all);
        let tokens = numbered.map(|(number, (gap, class))| {
            now += Duration::from_ps(gap);
            (now, token(number, class, u64::from(class), 84))
        });
        tokens.collect()
    })
}

/// The same tokens in one class where ports sort them by key.
fn suited(config: &Config, tokens: &[Timed]) -> Vec<Timed> {
    let class = |packet: &Packet<Header>| if config.switch == SwitchForm::Ideal { 1 } else { packet.class };
    tokens.iter().map(|(time, packet)| (*time, Packet { class: class(packet), ..*packet })).collect()
}

proptest! {
    /// In any window, all tokens together have at most 84 of 1622 B of the link, and two tokens more. With a share of 5 %, they have that.
    #[test]
    fn all_tokens_together_keep_to_one_share_in_any_window(tokens in tokens(), switch in prop::sample::select(FORMS.to_vec()), five in any::<bool>()) {
        let config = Config { token_share: if five { 0.05 } else { 0.0 }, ..form(switch) };
        let (sent, _) = departures(&config, &suited(&config, &tokens));
        let slot = if five { 1680 } else { 1622 };
        for first in 0..sent.len() {
            let mut bytes = 0;
            for (time, packet) in &sent[first..] {
                bytes += u128::from(packet.size_bytes);
                // 10 Gb/s is a byte in 800 ps.
                let window = u128::from((*time - sent[first].0).as_ps());
                // Two passes give a time that is rounded up by a picosecond.
                prop_assert!(bytes * slot * 800 <= (window + 1) * 84 + 168 * slot * 800, "{bytes} B in {window} ps");
            }
        }
    }

    /// A token that leaves is the most urgent of those that have come, and none waits for longer than 8 slots where switches drop old ones.
    #[test]
    fn the_most_urgent_token_leaves_before_it_expires(tokens in tokens(), ideal in any::<bool>()) {
        let config = form(if ideal { SwitchForm::Ideal } else { SwitchForm::Hypothetical });
        let (sent, dropped) = departures(&config, &suited(&config, &tokens));
        let lost = |number: u32| dropped.iter().any(|(flow, _)| *flow == number);
        for (index, (time, packet)) in sent.iter().enumerate() {
            let came = tokens[packet.flow.0 as usize].0;
            prop_assert!(*time - came <= SLOT * 8);
            let later = &sent[index + 1..];
            let overtaken = later.iter().filter(|(_, other)| tokens[other.flow.0 as usize].0 < *time && !lost(other.flow.0));
            let urgency = |packet: &Packet<Header>| (packet.header.key(), packet.flow);
            prop_assert!(overtaken.into_iter().all(|(_, other)| urgency(packet) < urgency(other)));
        }
        let full = |reason| matches!(reason, DropReason::Overflow | DropReason::PushedOut);
        prop_assert!(dropped.iter().all(|(_, reason)| full(*reason) || *reason == DropReason::Expired));
    }
}

/// A token that has waited for exactly 8 slots of 1297.6 ns leaves, and a picosecond later it is dropped. The remedy's waits for as long as it
/// takes.
#[test]
fn a_port_drops_a_token_that_waited_for_too_long_to_the_picosecond() {
    for switch in [SwitchForm::Hypothetical, SwitchForm::Ideal] {
        for (late, leaves) in [(0, true), (1, false)] {
            let mut rig = Rig::new(port(&form(switch)));
            rig.enqueue(token(0, 1, 7, 84));
            rig.now = at(8 * 1_297_600 + late);
            assert_eq!(rig.serve().is_ok(), leaves, "{switch:?}");
            assert_eq!(rig.dropped().len(), usize::from(!leaves));
        }
    }
    let mut rig = Rig::new(port(&form(SwitchForm::Remedy)));
    rig.enqueue(token(0, 3, 7, 84));
    rig.now = at(1_000_000_000);
    assert!(rig.serve().is_ok());
}

/// Three tokens at once through the remedy's port. The first two leave the sub-port at 2.5 Gb/s back to back, the third when the bucket allows. Each
/// is on its way for two transmissions of 268.8 ns and 500 ns. Data does not wait for them.
#[test]
fn tokens_of_the_remedy_cross_the_switch_twice() {
    let arrivals = [(1, 84), (1, 84), (2, 84)].map(|(class, size)| (Time::ZERO, token(class.into(), class, 0, size)));
    let arrivals = [&arrivals[..], &[(Time::ZERO, data(9, DATA, 1538))]].concat();
    let (sent, dropped) = departures(&form(SwitchForm::Remedy), &arrivals);
    let found: Vec<(u64, u32)> = sent.iter().map(|(time, packet)| (time.as_ps(), packet.flow.0)).collect();
    let way = WAY.as_ps();
    // The data occupies the link until 1230.4 ns, when the first token has come back and the second will have in 76 ns.
    assert_eq!(found, [(0, 9), (1_230_400, 1), (268_800 + way, 1), (1_297_600 + way, 2)]);
    assert_eq!(dropped, []);
}

/// The sub-port works while data occupies the port: a better token that comes later does not overtake one that has left the sub-port.
#[test]
fn the_sub_port_orders_tokens_and_the_port_does_not() {
    let arrivals = [
        (at(0), token(0, 4, 0, 84)),
        (at(1), token(1, 3, 0, 84)),
        (at(2), token(2, 2, 0, 84)),
        (at(100_000), token(3, 1, 0, 84)),
    ];
    let (sent, _) = departures(&form(SwitchForm::Remedy), &arrivals);
    let found: Vec<(u64, u32)> = sent.iter().map(|(time, packet)| (time.as_ps(), packet.flow.0)).collect();
    // Token 0 leaves at once. At 268.8 ns, token 3 is the best of the others; then the bucket is empty.
    let way = WAY.as_ps();
    assert_eq!(found, [(way, 0), (268_800 + way, 3), (1_297_600 + way, 2), (2_595_200 + way, 1)]);
}

/// A full ideal port drops the least urgent token, and the newest of equal ones. Tokens leave by their keys, whatever their class.
#[test]
fn an_ideal_port_sorts_by_key() {
    let mut rig = Rig::new(port(&Config { ideal_queue: 4, ..form(SwitchForm::Ideal) }));
    for (number, key) in [(0, 50), (1, 9), (2, 50), (3, 30), (4, 20), (5, 50)] {
        rig.enqueue(token(number, 1, key, 84));
    }
    assert_eq!(rig.dropped(), [(2, DropReason::PushedOut), (5, DropReason::Overflow)]);
    let order: Vec<u32> = (0..4)
        .map(|slot: u64| {
            rig.now = at(slot * 1_297_600);
            rig.serve().unwrap().flow.0
        })
        .collect();
    assert_eq!(order, [1, 4, 3, 0]);
    assert_eq!(rig.serve().unwrap_err(), Time::MAX);
}

/// Tokens of one key are a queue of 8 for an ideal port, however many others there are. Of nine, one is dropped: any of them.
#[test]
fn an_ideal_port_has_a_queue_for_each_key() {
    let mut victims = std::collections::BTreeSet::new();
    let mut rig = Rig::new(port(&form(SwitchForm::Ideal)));
    for round in 0..200_u64 {
        rig.now = at(round * 100_000_000);
        rig.enqueue(token(20, 1, 5, 84));
        (0..9).for_each(|number| rig.enqueue(token(number, 1, 7, 84)));
        rig.enqueue(token(21, 1, 9, 84));
        let dropped = rig.dropped();
        assert!(rig.packets() == 10 && dropped.len() == 1, "{dropped:?}");
        victims.insert(dropped[0].0);
        // All of them expire before the next round.
        rig.now = at((round + 1) * 100_000_000 - 1);
        assert!(rig.serve().is_err());
        assert_eq!(rig.dropped().len(), 10);
    }
    assert_eq!(victims.into_iter().collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
}

/// A cut also loses tokens that may not leave yet, and those of the remedy that are on their way back. A token that comes later finds an empty port.
#[test]
fn a_cut_loses_everything() {
    for switch in FORMS {
        let data_class = if switch == SwitchForm::Ideal { 2 } else { DATA };
        let mut rig = Rig::new(port(&form(switch)));
        (0..5).for_each(|number| rig.enqueue(token(number, 1, number.into(), 84)));
        rig.enqueue(data(5, data_class, 1538));
        rig.enqueue(with_header(6, 0, 84, Header::Ack));
        rig.now = at(300_000);
        rig.lose_all();
        let mut dropped = rig.dropped();
        dropped.sort_unstable_by_key(|(number, _)| *number);
        assert_eq!(dropped, [0, 1, 2, 3, 4, 5, 6].map(|number| (number, DropReason::LinkDown)), "{switch:?}");
        assert_eq!((rig.packets(), rig.serve().unwrap_err()), (0, Time::MAX), "{switch:?}");
        rig.now = at(100_000_000);
        rig.enqueue(token(7, 1, 7, 84));
        if switch == SwitchForm::Remedy {
            assert_eq!(rig.serve().unwrap_err(), rig.now + WAY);
            rig.now += WAY;
        }
        assert_eq!(rig.serve().unwrap().flow.0, 7, "{switch:?}");
    }
}

/// Signals leave before tokens, and data after them, in every form. An unscheduled packet leaves last, and there is room for one.
#[test]
fn signals_come_first_and_unscheduled_packets_last() {
    for switch in FORMS {
        let config = Config { unscheduled: 4, ..form(switch) };
        let (scheduled, unscheduled) = if switch == SwitchForm::Ideal { (2, 3) } else { (6, 7) };
        let mut rig = Rig::new(port(&config));
        rig.enqueue(data(0, unscheduled, 1538));
        rig.enqueue(data(1, unscheduled, 1538));
        rig.enqueue(data(2, scheduled, 1538));
        rig.enqueue(token(3, 1, 0, 84));
        rig.enqueue(with_header(4, 0, 84, Header::Ack));
        assert_eq!(rig.dropped(), [(1, DropReason::Overflow)]);
        rig.now = at(2_000_000);
        let order: Vec<u32> = std::iter::from_fn(|| rig.serve().ok()).map(|packet| packet.flow.0).collect();
        assert_eq!(order, [4, 3, 2, 0], "{switch:?}");
    }
}
