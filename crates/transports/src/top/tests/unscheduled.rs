//! Short flows that do not wait for tokens (§4.4).

use flowloom_core::FlowId;
use flowloom_fabric::pair::Fate;

use super::*;

fn unscheduled(m: u32) -> Config {
    Config { unscheduled: m, ..constant() }
}

fn short(packets: u64) -> Duration {
    CONTROL + FULL * packets + DELAY
}

/// The packets follow the SYNC. No token is sent. A flow of one packet more waits for tokens.
#[test]
fn short_flows_save_a_round_trip() {
    for switch in FORMS {
        for packets in 1..=4 {
            let mut pair = pair(&Config { switch, ..unscheduled(4) });
            let id = pair.open(0, 1, packets * 1460);
            pair.run_to_end(SECOND);
            assert_eq!(pair.flow(id).fct(), short(packets), "{switch:?}");
            assert_eq!([is_token, is_data, is_nack].map(|kind| count(&pair, kind)), [0, packets as usize, 0]);
        }
        let mut pair = pair(&Config { switch, ..unscheduled(4) });
        let id = pair.open(0, 1, 5 * 1460);
        pair.run_to_end(SECOND);
        let way = if switch == SwitchForm::Remedy { WAY } else { Duration::ZERO };
        assert_eq!(pair.flow(id).fct(), alone(5 * 1460) + way);
    }
}

/// The receiver asks for what has not come in the time of the packets and a round trip, and each of these packets gets a token.
#[test]
fn lost_packets_are_asked_for() {
    for lost in [&[0_u32][..], &[3], &[1, 2], &[0, 1, 2, 3]] {
        let mut pair = pair(&unscheduled(4));
        pair.on_packet(move |sent| match sent.packet.header {
            Header::Data { number, .. } if lost.contains(&number) && sent.at < Time::ZERO + Duration::from_us(8) => Fate::Drop,
            _ => Fate::Pass,
        });
        let id = pair.open(0, 1, 4 * 1460);
        pair.run_to_end(SECOND);
        assert_eq!([is_data, is_nack].map(|kind| count(&pair, kind)), [4 + lost.len(), lost.len()]);
        let rtt = pair.network().base_rtt(&WIRE);
        let waited = rtt + SLOT * 4;
        // A NACK for each, a token behind them, and then the packets.
        let expected = CONTROL
            + DELAY
            + waited
            + CONTROL * (lost.len() as u64 + 1)
            + DELAY
            + SLOT * (lost.len() as u64 - 1)
            + FULL
            + DELAY;
        let found = pair.flow(id).fct();
        assert!(found <= expected && found + CONTROL * 4 >= expected, "{lost:?}: {found}, {expected}");
    }
}

/// Ten short flows come to a host that receives a long one. Their packets find the port busy, so most are dropped, but none of the long flow's is,
/// and all flows complete.
#[test]
fn they_do_not_harm_scheduled_packets() {
    let mut pair = Pair::<Top>::new(&unscheduled(4), setup());
    let long = pair.open(0, 2, 500 * 1460);
    for round in 0..10 {
        pair.run(Time::ZERO + Duration::from_us(100 + 20 * round));
        pair.open(1, 2, 4 * 1460);
    }
    pair.run_to_end(SECOND);
    assert!(pair.dropped().iter().any(|(_, flow, _)| *flow != long));
    let of_long = |kind: fn(&SentPacket<Header>) -> bool| {
        pair.sent().iter().filter(|sent| kind(sent) && sent.packet.flow == long).count()
    };
    assert_eq!([is_data, is_nack].map(of_long), [500, 0]);
    let late = (1..=10).filter(|id| pair.flow(FlowId(*id)).fct() > short(4)).count();
    assert!(late > 0, "some were lost");
}
