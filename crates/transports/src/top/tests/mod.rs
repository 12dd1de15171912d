//! TOP by hand, and under random faults and input.

mod forms;
mod input;
mod ports;
mod priorities;
mod recovery;
mod unscheduled;

use flowloom_core::{Bytes, Duration, Rate, Time, WireProfile};
use flowloom_fabric::pair::{Pair, PairSetup, SentPacket};

use super::{Config, Header, Priority, SwitchForm, Top};
use crate::expresspass;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// A control packet or a token: 84 B at 10 Gb/s.
const CONTROL: Duration = Duration::from_ps(67_200);
/// A full packet: 1538 B.
const FULL: Duration = Duration::from_ps(1_230_400);
/// The gap between tokens at full rate: 84 B and 1538 B.
const SLOT: Duration = Duration::from_ps(1_297_600);
const DELAY: Duration = Duration::from_us(1);
/// A token's way through the assistant switch: twice 84 B at 2.5 Gb/s, and 500 ns.
const WAY: Duration = Duration::from_ps(2 * 268_800 + 500_000);
const WIRE: WireProfile = WireProfile::ETHERNET_1538;
const FORMS: [SwitchForm; 3] = [SwitchForm::Hypothetical, SwitchForm::Ideal, SwitchForm::Remedy];

/// Tokens of one size at equal gaps, at a constant rate: that of the link. Clocks agree.
fn constant() -> Config {
    let credits = expresspass::Config {
        feedback: expresspass::Feedback::Released,
        alpha: 1.0,
        jitter: 0.0,
        credit_spread: Bytes::ZERO,
        ..expresspass::Config::default()
    };
    Config { credits, clock_error: Duration::ZERO, ..Config::default() }
}

/// Four hosts around a switch.
fn setup() -> PairSetup {
    PairSetup { hosts: 4, wire: WIRE, ..PairSetup::default() }
}

fn pair(config: &Config) -> Pair<Top> {
    Pair::new(config, setup())
}

fn is_sync(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Sync { .. })
}
fn is_token(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Token { .. })
}
fn is_data(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Data { .. })
}
fn is_fin(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Fin { .. })
}
fn is_nack(sent: &SentPacket<Header>) -> bool {
    matches!(sent.packet.header, Header::Nack { .. })
}
fn is_ack(sent: &SentPacket<Header>) -> bool {
    sent.packet.header == Header::Ack
}

fn count(pair: &Pair<Top>, kind: fn(&SentPacket<Header>) -> bool) -> usize {
    pair.sent().iter().filter(|sent| kind(sent)).count()
}

/// A SYNC, a token, and then one packet per slot; the last one may be shorter.
fn alone(size: u64) -> Duration {
    let packets = WIRE.packets(Bytes::new(size));
    let last = WIRE.data_size(WIRE.payload_of(Bytes::new(size), packets - 1));
    (CONTROL + DELAY) * 2 + SLOT * (packets - 1) + Rate::from_gbps(10).transmit_time(last) + DELAY
}
