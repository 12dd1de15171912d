//! Random faults and random input.

use proptest::prelude::*;

use super::super::Thresholds;
use super::*;
use crate::toolkit::Reassembly;
use crate::trial::{assail, attacks, flow, trials, wire_format_holds};

fn any_config() -> impl Strategy<Value = Config> {
    let by = [Priority::Size, Priority::Remaining, Priority::Attained, Priority::Deadline, Priority::Coflow];
    let form = (prop::sample::select(FORMS.to_vec()), prop::sample::select(by.to_vec()), any::<[bool; 2]>());
    (form, 1_u8..=5, 0_u32..8, 1_u32..10, 0.5..20.0, 0.0..0.5).prop_map(
        |((switch, priority, [light, one_to_one]), levels, unscheduled, queue, lifetime, jitter)| Config {
            switch,
            priority,
            thresholds: if light { Thresholds::LightTail } else { Thresholds::HeavyTail },
            one_to_one,
            levels,
            unscheduled: if priority == Priority::Attained { 0 } else { unscheduled },
            ideal_queue: queue,
            // With less, all tokens of a full queue are too old for the remedy's senders.
            lifetime: if switch == SwitchForm::Remedy { lifetime + f64::from(queue) } else { lifetime },
            credits: expresspass::Config { jitter, credit_queue: queue, ..constant().credits },
            ..constant()
        },
    )
}

fn any_header() -> impl Strategy<Value = Header> {
    let number = || prop_oneof![0_u32..12, any::<u32>()];
    let word = || prop_oneof![0_u64..10_000_000, any::<u64>()];
    let sync = (number(), number(), number(), word());
    prop_oneof![
        sync.prop_map(|(packets, remaining, unscheduled, urgency)| Header::Sync { packets, remaining, unscheduled, urgency }),
        (number(), word(), word()).prop_map(|(token, sent, key)| Header::Token { token, sent: Time::from_ps(sent), key }),
        (number(), number(), number(), word()).prop_map(|(number, packets, token, sent)| Header::Data {
            number,
            packets,
            token,
            sent: Time::from_ps(sent)
        }),
        (number(), any::<bool>()).prop_map(|(packets, again)| Header::Fin { packets, again }),
        number().prop_map(|number| Header::Nack { number }),
        Just(Header::Ack),
    ]
}

fn makes_sense(header: &Header) -> bool {
    match *header {
        Header::Sync { packets, remaining, unscheduled, .. } => packets > 0 && remaining <= packets && unscheduled <= packets,
        Header::Data { number, packets, .. } => number < packets,
        Header::Fin { packets, .. } => packets > 0 && packets != Reassembly::OPEN,
        _ => true,
    }
}

#[test]
fn the_wire_format_holds() {
    wire_format_holds(any_header().prop_filter("senseless", makes_sense));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every flow completes, and no byte is delivered twice (which the harness asserts), whichever packets are lost, late or duplicated.
    #[test]
    fn flows_survive_loss_reordering_and_duplication(config in any_config(), trial in trials()) {
        trial.survive::<Top>(&config);
    }

    /// On a real network any header may arrive at any time: for a flow that is sent, received or neither. A step has an answer of at most some
    /// dozen packets.
    #[test]
    fn no_header_breaks_a_host(config in any_config(), packets in attacks(WIRE, 2000, any_header())) {
        let sent = assail::<Top>(&config, WIRE, &[flow(0, 0, 1, 14_600, Time::ZERO, None)], packets)?;
        prop_assert!(sent.most <= 200, "{}", sent.most);
    }
}
