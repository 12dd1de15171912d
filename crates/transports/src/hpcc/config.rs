//! Parameters of HPCC.

use flowloom_core::{Bytes, Duration, Network, Rate, Site, WireProfile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::window::Rules;
use crate::disciplines::{LinkRates, Telemetry};
use crate::roce::{Recovery, Reliability, Spans};
use crate::{Checked, Conditions, NoLoss, PortMemory, quantity};

/// Parameters of HPCC. The defaults are the paper's where it gives a value, else those of its authors' simulator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The utilisation at which windows aim (η; the paper: 95 %).
    #[schemars(range(min = 0.01, max = 1))]
    pub target: f64,
    /// After this many additive increases of the reference window in a row, its next change is multiplicative (maxStage; the paper: 5). With 0,
    /// every change is multiplicative, as in the configurations that come with the authors' simulator: a flow takes up free capacity within a
    /// round trip, and does not probe for it slowly first.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub max_stage: u32,
    /// The additive increase of a window (W_AI; the paper: 80 B). It decides how fast flows become equal. As long as the increases of all flows
    /// of a link together stay below 1 - η of its bandwidth-delay product, they make no queue.
    #[serde(with = "quantity::bytes")]
    #[schemars(schema_with = "quantity::bytes::schema", extend("x-min" = "0B", "x-max" = "1GB"))]
    pub w_ai: Bytes,
    /// Whether each acknowledgement changes the window, on the basis of a reference that changes once per round trip. If not, the window
    /// changes once per round trip.
    pub fast_reaction: bool,
    /// The base round-trip time of all flows (T). By default, it is that of the most distant hosts, with a full packet and its acknowledgement.
    #[serde(with = "quantity::duration::option", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub base_rtt: Option<Duration>,
    /// The least rate of a flow, as a share of its NIC's (the authors' simulator: 100 Mb/s or 1 Gb/s, with NICs of 25 to 100 Gb/s).
    #[schemars(range(min = 0.000_001, max = 1))]
    pub min_rate: f64,
    /// The number of records for which each data packet and acknowledgement has room: 2 B, and 8 B for each. This room is always taken, as
    /// in the paper, whose five records take 42 B. Full packets stay as long as they are and carry less payload.
    #[schemars(range(min = 1, max = 5))]
    pub records: u8,
    /// Whether acknowledgements have a class of their own, which leaves every port before data. If not, they queue with the data, as by
    /// default in the authors' simulator.
    pub ack_first: bool,
    /// What becomes of packets after a gap: `go_back_n` (the receiver throws them away, and the sender sends everything again from the gap on) or `selective` (the receiver
    /// keeps and reports them, and the sender repeats what is missing: IRN, SIGCOMM 2018).
    pub recovery: Recovery,
    /// Every n-th packet asks for an acknowledgement, and the last one of a flow (the paper: 1, and its authors' simulator can have more). Windows change only with acknowledgements.
    #[schemars(range(min = 1, max = 65536))]
    pub ack_every: u32,
    /// A receiver that throws packets away reports a gap at once, and again after this time at the earliest if it is still there (500 us in the authors' simulator).
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1ns", "x-max" = "100s"))]
    pub nack_interval: Duration,
    /// The least retransmission timeout. The paper has none, because its network does not lose packets.
    #[serde(with = "quantity::duration")]
    #[schemars(schema_with = "quantity::duration::schema", extend("x-min" = "1us", "x-max" = "100s"))]
    pub rto_min: Duration,
    /// The retransmission timeout in base round-trip times. It must exceed a round trip through full queues. It doubles with each timeout in a
    /// row, up to 64 times.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rto_rtts: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target: 0.95,
            max_stage: 5,
            w_ai: Bytes::new(80),
            fast_reaction: true,
            base_rtt: None,
            min_rate: 0.01,
            records: Telemetry::HOPS as u8,
            ack_first: true,
            recovery: Recovery::GoBackN,
            ack_every: 1,
            nack_interval: Duration::from_us(500),
            rto_min: Duration::from_ms(1),
            rto_rtts: 10.0,
        }
    }
}

impl Config {
    /// The classes of a port: acknowledgements and data.
    pub const CLASSES: u8 = 2;
    pub(super) const DATA_CLASS: u8 = 1;

    /// How losses are found and mended.
    pub fn reliability(&self) -> Reliability {
        Reliability {
            recovery: self.recovery,
            ack_every: self.ack_every,
            nack_interval: self.nack_interval,
            base_rtt: self.base_rtt,
            rto_rtts: self.rto_rtts,
            rto_min: self.rto_min,
        }
    }

    pub(super) fn spans(&self, idle_rtt: Duration) -> Result<Spans, String> {
        Spans::new(&self.reliability(), idle_rtt)
    }

    /// The sizes of packets with room for records.
    pub fn wire(&self, wire: &WireProfile) -> WireProfile {
        let room = Telemetry::bytes(self.records);
        WireProfile { overhead: wire.overhead + room, control: wire.control + room, ..*wire }
    }

    /// The rules of windows at a host.
    ///
    /// # Panics
    /// If the configuration does not suit the network.
    pub(super) fn rules(&self, spans: &Spans, site: &Site<'_>) -> Rules {
        let rates = LinkRates::new(site.network).expect("the configuration suits the network");
        let fastest = *rates.rates().last().expect("a network has links");
        let most = site.line_rate().as_bps() as f64 / 8.0 * spans.rtt.as_secs_f64();
        Rules {
            target: self.target,
            stages: self.max_stage,
            increase: self.w_ai.get() as f64,
            fast_reaction: self.fast_reaction,
            rtt: spans.rtt.as_ps() as f64 / 1e3,
            most,
            least: most * self.least_share(site.line_rate(), site.wire.full, Rules::lifetime(fastest)),
            byte_time: Rules::byte_times(&rates),
            lifetime: Rules::lifetime(fastest),
        }
    }
}

impl Checked for Config {
    fn check(&self) -> Result<(), String> {
        for (name, value, least, most) in [("target", self.target, 0.01, 1.0), ("min_rate", self.min_rate, 1e-6, 1.0)] {
            if !(least..=most).contains(&value) {
                return Err(format!("{name}: found {value}; it must be from {least} to {most}"));
            }
        }
        if !(1..=Telemetry::HOPS as u8).contains(&self.records) {
            return Err(format!("records: found {}; it must be from 1 to {}", self.records, Telemetry::HOPS));
        }
        self.reliability().check()
    }

    fn check_under(&self, conditions: &Conditions<'_>) -> Result<(), String> {
        let Conditions { network, wire, .. } = conditions;
        let (room, full) = (Telemetry::bytes(self.records), wire.full);
        if wire.overhead + room >= full {
            return Err(format!(
                "records: found {}, which take {room} and leave no payload in a packet of {full}",
                self.records
            ));
        }
        if conditions.largest_flow.pieces(full - wire.overhead - room) >= u64::from(u32::MAX) {
            let flow = conditions.largest_flow;
            return Err(format!("records: found {}; a flow of {flow} would have more than 2^32 - 2 packets", self.records));
        }
        self.check_records(network)?;
        let spans = self.spans(network.base_rtt(&self.wire(wire)))?;
        let [slowest, _] = conditions.host_rates();
        let lifetime = Rules::lifetime(fastest(network));
        // Whatever `min_rate` is, a flow that has its NIC for itself must be able to compare records.
        for (key, what, span) in
            [("min_rate", "a full packet", slowest.transmit_time(full) * 2), ("base_rtt", "a round trip", spans.rtt)]
        {
            if span >= lifetime {
                return Err(format!("{key}: {what} takes {span} here, but records can be compared for {lifetime} only"));
            }
        }
        Ok(())
    }

    fn misfits(&self, conditions: &Conditions<'_>) -> Vec<String> {
        let ([slowest, _], full) = (conditions.host_rates(), conditions.wire.full);
        let lifetime = Rules::lifetime(fastest(conditions.network));
        let least = self.least_share(slowest, full, lifetime);
        if least == self.min_rate {
            return Vec::new();
        }
        let slower = slowest.transmit_time(full).scale(1.0 / self.min_rate);
        vec![format!(
            "min_rate: {} of {slowest} is so little that a full packet takes {slower}, but records can be compared for {lifetime} only; \
             {least:.4} is used instead",
            self.min_rate
        )]
    }

    /// Each flow starts with a window of a round trip at the rate of its host. Ports hear of a second flow a round trip later.
    fn port_memory(&self, conditions: &Conditions<'_>) -> Option<PortMemory> {
        let (fastest, rtt) = conditions.largest_product(&self.wire(&conditions.wire));
        let spans = self.spans(rtt).ok()?;
        let holds = "what each flow sends before the first answer".to_owned();
        Some(PortMemory { bytes: fastest.bytes_in(spans.rtt), holds })
    }

    fn no_loss(&self, _: &Conditions<'_>) -> Option<NoLoss> {
        Some(NoLoss {
            how: "keeps the queues of ports nearly empty",
            advice: "flows that started together filled ports before the first answers came; raise fabric.buffer, or add [fabric.pfc], which the \
                     design assumes"
                .to_owned(),
        })
    }

    fn longest_pause(&self, conditions: &Conditions<'_>) -> Duration {
        self.spans(conditions.network.base_rtt(&self.wire(&conditions.wire))).map_or(Duration::LONGEST, |spans| spans.rto_max())
    }
}

impl Config {
    /// The least rate of a flow as a share of `rate`, its NIC's: `min_rate`, or as much as it takes to compare the records of two packets in a row.
    fn least_share(&self, rate: Rate, full: Bytes, lifetime: Duration) -> f64 {
        let comparable = rate.transmit_time(full).as_secs_f64() / lifetime.as_secs_f64();
        if self.min_rate > comparable { self.min_rate } else { comparable / 0.9 }
    }

    /// Every switch of a path must find room for its record, and a record must be able to name the rate of every link.
    fn check_records(&self, network: &Network) -> Result<(), String> {
        let switches = network.longest_path().saturating_sub(1);
        if switches > usize::from(self.records) {
            return Err(format!("records: found {}; there are paths with {switches} switches", self.records));
        }
        match LinkRates::new(network) {
            Ok(_) => Ok(()),
            Err(rates) => Err(format!(
                "records: the links have {rates} different rates, and a record tells {} apart; give links fewer rates",
                LinkRates::MOST
            )),
        }
    }
}

/// The rate of the fastest link.
fn fastest(network: &Network) -> Rate {
    network.links().iter().map(|link| link.rate).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flowloom_core::{NodeId, Switching, topology};

    use super::*;
    use crate::trial::{default_text, refused};

    #[test]
    fn the_default_reads_back_and_what_could_not_run_is_refused_by_name() {
        let text = default_text::<Config>();
        assert!(text.contains("w_ai = \"80B\"") && text.contains("nack_interval = \"500us\""), "{text}");
        assert_eq!(refused::<Config>("max_stage = 0\nbase_rtt = \"9us\""), Ok(()));
        for (text, key) in [
            ("target = 0.0", "target"),
            ("target = nan", "target"),
            ("target = 1.1", "target"),
            ("min_rate = 0.0", "min_rate"),
            ("min_rate = inf", "min_rate"),
            ("rto_rtts = 0.5", "rto_rtts"),
            ("records = 0", "records"),
            ("records = 6", "records"),
            ("base_rtt = \"0s\"", "base_rtt"),
            ("nack_interval = \"0s\"", "nack_interval"),
            ("rto_min = \"0s\"", "rto_min"),
        ] {
            assert_eq!(refused::<Config>(text), Err(key.to_owned()), "{text}");
        }
    }

    fn conditions(network: &Network) -> Conditions<'_> {
        let plain = Conditions::new(network, WireProfile::IP_1500, Bytes::new(100_000));
        Conditions { largest_flow: Bytes::new(1_000_000), ..plain }
    }

    fn check(config: &Config, network: &Network) -> Result<(), String> {
        config.check_under(&conditions(network))
    }

    fn star(rate: Rate) -> Network {
        topology::single_switch(2, rate, Duration::from_us(1), Switching::StoreAndForward)
    }

    /// A chain of switches, with a link of 1, 2, 3 … Gb/s behind each.
    fn chain(switches: u64) -> Network {
        let mut network = Network::new(2, Switching::StoreAndForward);
        let switches: Vec<NodeId> = (0..switches).map(|_| network.add_switch(1, "switch", "s")).collect();
        let ends = [&[NodeId(0)], &switches[..], &[NodeId(1)]].concat();
        for (gbps, link) in (1..).zip(ends.windows(2)) {
            network.connect(link[0], link[1], Rate::from_gbps(gbps), Duration::from_us(1));
        }
        network
    }

    #[test]
    fn paths_without_room_for_their_records_are_refused() {
        let config = |records| Config { records, ..Config::default() };
        assert_eq!(check(&config(5), &chain(5)), Ok(()));
        assert_eq!(check(&config(4), &chain(5)).unwrap_err(), "records: found 4; there are paths with 5 switches");
        assert!(check(&config(5), &chain(6)).unwrap_err().starts_with("records: found 5"));
    }

    #[test]
    fn rates_that_a_record_cannot_name_are_refused() {
        let mut network = chain(5);
        for gbps in [7, 8] {
            assert_eq!(check(&Config::default(), &network), Ok(()));
            let stub = network.add_switch(1, "switch", "stub");
            network.connect(NodeId(2), stub, Rate::from_gbps(gbps), Duration::ZERO);
        }
        assert_eq!(check(&Config::default(), &network), Ok(()));
        let stub = network.add_switch(1, "switch", "stub");
        network.connect(NodeId(2), stub, Rate::from_gbps(9), Duration::ZERO);
        assert!(check(&Config::default(), &network).unwrap_err().contains("9 different rates"));
    }

    /// The clock of a record wraps after 16.8 ms, and two records can be compared for half of that. A full packet takes 12 us at 1 Gb/s.
    #[test]
    fn a_rate_at_which_records_come_too_rarely_is_raised() {
        let (slow, fast) = (star(Rate::from_gbps(1)), star(Rate::from_gbps(10)));
        let config = |min_rate| Config { min_rate, ..Config::default() };
        let misfits = |min_rate, network: &Network| config(min_rate).misfits(&conditions(network));
        assert!(misfits(0.0015, &slow).is_empty() && misfits(0.0014, &fast).is_empty());
        // 12 us / 0.0014 are 8.57 ms, and 12 us / 8.39 ms / 0.9 is 0.00159.
        let [said] = &misfits(0.0014, &slow)[..] else { panic!("it is too low") };
        assert!(said.contains("takes 8.57") && said.ends_with("0.0016 is used instead"), "{said}");
        assert_eq!(check(&config(0.0014), &slow), Ok(()));
        // A full packet takes 6 ms at 2 Mb/s.
        assert!(
            check(&config(1.0), &star(Rate::from_bps(2_000_000)))
                .unwrap_err()
                .starts_with("min_rate: a full packet takes 12ms")
        );
        // At the least rate, a counter of bytes takes longer to wrap than a run can last, and that of time counts.
        let slowest = Rate::from_bps(8);
        assert_eq!(Rules::lifetime(slowest), Rules::lifetime(Rate::from_gbps(1)));
        assert!(check(&config(1.0), &star(slowest)).is_err());
        let distant = Config { base_rtt: Some(Duration::from_ms(9)), ..Config::default() };
        assert!(check(&distant, &fast).unwrap_err().starts_with("base_rtt: a round trip takes 9ms"));
    }
}
