//! Each transport's description of its ports says what the ports do: packets go through a port, and what happens must be what the description predicts.

use std::fmt::Debug;
use std::sync::Arc;

use flowloom_core::{
    Ability, Bytes, Division, DropReason, Duration, Ecn, Memory, Network, NodeId, Packet, PortProfile, PortSite, Rate, Site,
    Switching, Time, Transport, WireProfile, topology,
};

use crate::disciplines::rig::{Rig, with_header};
use crate::disciplines::{CreditDrop, EcnConfig, MarkAt, Marking, Split};

const WIRE: WireProfile = WireProfile::IP_1500;
const FULL: u32 = 1500;
const CONTROL: u32 = 40;
const MEMORY: Bytes = Bytes::new(400_000);
/// The first port of a switch, and that of a host.
const PLACES: [&str; 2] = ["switch", "host"];

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Control,
    Data,
}

/// Makes the header of a packet. Where ports order packets by a number, it is this one.
type Headers<T> = fn(Kind, u32) -> <T as Transport>::Header;

/// A port and what is said about it.
struct Bench<T: Transport> {
    rig: Rig<T::Header, T::Port>,
    profile: PortProfile,
    headers: Headers<T>,
}

impl<T: Transport<Header: PartialEq + Debug>> Bench<T> {
    fn new(config: &T::Config, headers: Headers<T>, place: &str, memory: Memory) -> Bench<T> {
        let network = topology::single_switch(3, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
        let network: Arc<Network> = Arc::new(network);
        let node = if place == "host" { NodeId(0) } else { network.switches().next().expect("a switch") };
        let link = network.ports(node)[0];
        let memory = memory.at(network.node(node).kind);
        let port = PortSite { link, network: &network, wire: WIRE, memory, seed: 7 };
        let site = Site { node, network: &network, wire: WIRE, seed: 7, reorders: false, paths: None };
        let mut rig = Rig::new(T::port(config, &port));
        rig.shared = T::shared(config, &site);
        Bench { rig, profile: T::port_profile(config, &port), headers }
    }

    fn has(&self, ability: Ability) -> bool {
        self.profile.features.iter().any(|feature| feature.ability == ability)
    }

    /// Whether packets of a queue are short: credits and what leaves before them, and headers.
    fn is_small(&self, queue: usize) -> bool {
        let limited = self.profile.limiter.is_some_and(|limiter| queue < usize::from(limiter.first + limiter.queues));
        limited || self.profile.memory.is_none() && queue == 0
    }

    /// Whether the limiter applies to a queue.
    fn is_limited(&self, queue: usize) -> bool {
        self.profile
            .limiter
            .is_some_and(|limiter| (usize::from(limiter.first)..usize::from(limiter.first + limiter.queues)).contains(&queue))
    }

    fn packet(&self, flow: u32, queue: usize) -> Packet<T::Header> {
        let small = self.is_small(queue);
        let (size, kind) = if small { (CONTROL, Kind::Control) } else { (FULL, Kind::Data) };
        Packet { ecn: Ecn::Capable, ..with_header(flow, queue as u8, size, (self.headers)(kind, flow)) }
    }

    fn enqueue(&mut self, flow: u32, queue: usize) {
        let packet = self.packet(flow, queue);
        self.rig.enqueue(packet);
    }

    /// The next packet, whenever it leaves.
    fn next(&mut self) -> Option<u32> {
        loop {
            match self.rig.serve() {
                Ok(packet) => return Some(packet.flow.0),
                Err(Time::MAX) => return None,
                Err(at) => self.rig.now = at,
            }
        }
    }

    /// How many packets of a queue come in until one is dropped or trimmed.
    fn room(&mut self, queue: usize) -> u32 {
        let fits = |bench: &mut Self, flow| {
            bench.enqueue(flow, queue);
            bench.rig.dropped().is_empty() && bench.rig.trimmed().is_empty() && bench.rig.handed_over().is_empty()
        };
        (0..5000).find(|flow| !fits(self, *flow)).unwrap_or(u32::MAX)
    }
}

/// Makes fresh ports of one configuration.
struct Ports<'a, T: Transport> {
    config: &'a T::Config,
    headers: Headers<T>,
    place: &'static str,
    memory: Memory,
}

impl<T: Transport<Header: PartialEq + Debug>> Ports<'_, T> {
    fn fresh(&self) -> Bench<T> {
        Bench::new(self.config, self.headers, self.place, self.memory)
    }

    /// Queues in the order of the profile, and each in order of arrival.
    fn order(&self) {
        let bench = self.fresh();
        let (queues, detour) = (bench.profile.queues.len(), bench.has(Ability::TwoPasses));
        for (first, second) in (0..queues).flat_map(|first| (first..queues).map(move |second| (first, second))) {
            if detour && (bench.is_limited(first) || bench.is_limited(second)) {
                continue;
            }
            let mut bench = self.fresh();
            if first == second {
                let size = if bench.is_small(first) { CONTROL } else { FULL };
                let limit = bench.profile.queues[first].limit.map_or(u64::MAX, |limit| limit.bytes.get() / u64::from(size));
                let flows: Vec<u32> = (0..limit.min(3) as u32).collect();
                flows.iter().for_each(|flow| bench.enqueue(*flow, first));
                assert_eq!(std::iter::from_fn(|| bench.next()).collect::<Vec<_>>(), flows, "queue {first}");
            } else {
                bench.enqueue(1, second);
                bench.enqueue(0, first);
                assert_eq!([bench.next(), bench.next()], [Some(0), Some(1)], "queues {first} and {second}");
            }
        }
        if bench.profile.memory.is_some() && bench.profile.queues[queues - 1].limit.is_none() {
            let (mut bench, last) = (self.fresh(), queues - 1);
            let beyond = Packet { class: 9, ..bench.packet(0, last) };
            bench.rig.enqueue(beyond);
            bench.enqueue(1, last);
            assert_eq!([bench.next(), bench.next()], [Some(0), Some(1)], "classes beyond the last count as the last");
        }
    }

    /// ECN marks: how many of some packets are marked, and whose bytes count.
    fn marks(&self) {
        const SOME: u64 = 200;
        let last = self.fresh().profile.queues.len() - 1;
        let marked = |fill: &dyn Fn(&mut Bench<T>)| {
            let mut bench = self.fresh();
            fill(&mut bench);
            let before = bench.rig.marked();
            while bench.next().is_some() {}
            (before, bench.rig.marked())
        };
        let (at_enqueue, all) = marked(&|bench| (0..SOME as u32).for_each(|flow| bench.enqueue(flow, last)));
        let Some(marks) = self.fresh().profile.marks else {
            return assert_eq!(all, 0, "nothing is marked");
        };
        let [unmarked, random] = [marks.above, marks.all_above].map(|bytes| bytes.get() / u64::from(FULL));
        // Of those in between, half of the share are marked.
        let (sure, between) = (SOME - random, (random - unmarked) as f64 * marks.share / 2.0);
        let spread = 5.0 * between.sqrt();
        let chance = all as f64 - sure as f64;
        assert!(
            (chance - between).abs() <= spread,
            "{chance} packets above {} are marked, {between} were expected",
            marks.above
        );
        assert_eq!(at_enqueue, if marks.at_dequeue { 0 } else { all });
        if last > 0 {
            let (_, all) = marked(&|bench| {
                (0..unmarked as u32).for_each(|flow| bench.enqueue(flow, 0));
                bench.enqueue(unmarked as u32, last);
            });
            assert_eq!(all, u64::from(!marks.by_queue), "by queue: {}", marks.by_queue);
        }
    }

    /// Limits of queues, the memory, and who gives way when it is full.
    fn room(&self) {
        let bench = self.fresh();
        let PortProfile { queues, memory, .. } = &bench.profile;
        for (queue, limit) in queues.iter().enumerate().filter_map(|(queue, held)| Some((queue, held.limit?))) {
            if self.fresh().has(Ability::TwoPasses) && bench.is_limited(queue) {
                continue; // its first token leaves for the sub-port at once
            }
            let size = if bench.is_small(queue) { CONTROL } else { FULL };
            assert_eq!(u64::from(self.fresh().room(queue)), limit.bytes.get() / u64::from(size), "queue {queue}");
        }
        let Some(memory) = memory else { return };
        let of_data = queues.iter().rposition(|held| held.limit.is_none()).expect("data has no limit of its own");
        let size = if bench.is_small(of_data) { CONTROL } else { FULL };
        let mut bench = self.fresh();
        let held = u64::from(bench.room(of_data));
        match memory.division {
            Division::Dynamic(alpha) => {
                let most = alpha * memory.bytes.get() as f64 / (1.0 + alpha) / f64::from(size);
                assert!((most..=most + 1.0).contains(&(held as f64)), "{held} packets of {most}");
            }
            Division::Whole | Division::PushOut | Division::PerQueue => assert_eq!(held, memory.bytes.get() / u64::from(size)),
        }
        if bench.has(Ability::Trim) {
            return;
        }
        // The best queue, or the best number.
        let mut urgent = bench.packet(0, 0);
        (urgent.flow.0, urgent.size_bytes) = (9999, size);
        if of_data == 0 && memory.division != Division::PushOut {
            return;
        }
        bench.rig.enqueue(urgent);
        let reasons: Vec<_> = bench.rig.dropped().into_iter().map(|(flow, why)| (flow == 9999, why)).collect();
        match memory.division {
            Division::Whole => assert_eq!(reasons, [(true, DropReason::Overflow)]),
            Division::PushOut => assert_eq!(reasons, [(false, DropReason::PushedOut)]),
            Division::PerQueue | Division::Dynamic(_) => assert_eq!(reasons, []),
        }
    }

    /// The bucket of credits: what leaves at once, at which pace the rest follows, and which queues share it.
    fn limiter(&self) {
        let bench = self.fresh();
        let Some(limiter) = bench.profile.limiter.filter(|_| !bench.has(Ability::TwoPasses)) else { return };
        let (first, last) = (usize::from(limiter.first), usize::from(limiter.first + limiter.queues) - 1);
        let burst = limiter.burst.get() / limiter.part.get();
        for others in [first, last] {
            let mut bench = self.fresh();
            (0..burst as u32).for_each(|flow| bench.enqueue(flow, first));
            (0..burst).for_each(|_| assert!(bench.rig.serve().is_ok(), "a burst leaves at once"));
            bench.enqueue(100, others);
            let at = bench.rig.serve().expect_err("the bucket is empty").saturating_since(Time::ZERO);
            let slot = Rate::from_gbps(10).transmit_time(limiter.whole);
            assert!(at.as_ps().abs_diff(slot.as_ps()) < 2000, "{at} instead of {slot}");
        }
        let mut bench = self.fresh();
        (0..burst as u32 + 1).for_each(|flow| bench.enqueue(flow, first));
        (0..burst).for_each(|_| assert!(bench.rig.serve().is_ok()));
        bench.enqueue(200, last + 1);
        assert_eq!(bench.rig.serve().map(|packet| packet.flow.0), Ok(200), "data is not limited");
    }

    /// Each ability is seen if and only if the profile has it.
    fn abilities(&self) {
        let bench = self.fresh();
        let queues = bench.profile.queues.len();
        let data = bench.profile.queues.iter().rposition(|held| held.limit.is_none()).unwrap_or(queues - 1);
        let limited = bench.profile.limiter.map(|limiter| usize::from(limiter.first));
        let seen = [
            (Ability::Trim, self.trims(data)),
            (Ability::OrderByNumber, self.orders(limited.unwrap_or(data))),
            (Ability::Expire, limited.is_some_and(|queue| self.expires(queue))),
            (Ability::DropAtRandom, self.draws(limited.unwrap_or(data))),
            (Ability::Interleave, queues > 1 && self.takes_turns(queues - 1)),
            (Ability::ReturnToSender, self.returns()),
            (Ability::TwoPasses, limited.is_some_and(|queue| self.detours(queue))),
        ];
        for (ability, seen) in seen {
            assert_eq!(bench.has(ability), seen, "{}", ability.name());
        }
        let writes = bench.has(Ability::Telemetry) || bench.has(Ability::ComputeRates);
        assert_eq!(writes, self.writes(data), "it writes into packets");
    }

    fn trims(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        (0..400).for_each(|flow| bench.enqueue(flow, queue));
        !bench.rig.trimmed().is_empty()
    }

    fn orders(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        // The first one takes the link.
        [1, 5, 3].into_iter().for_each(|flow| bench.enqueue(flow, queue));
        bench.next();
        bench.next() == Some(3)
    }

    fn expires(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        (0..4).for_each(|flow| bench.enqueue(flow, queue));
        bench.rig.now = Time::ZERO + Duration::from_ms(1000);
        let _ = bench.rig.serve();
        bench.rig.dropped().iter().any(|(_, why)| *why == DropReason::Expired)
    }

    /// Whether a full queue loses others than the arrival and the packet with the largest number.
    fn draws(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        let mut hit = false;
        for flow in 0..400 {
            bench.enqueue(flow, queue);
            hit |= bench.rig.dropped().iter().any(|(lost, _)| *lost != flow);
            hit |= bench.rig.trimmed().iter().any(|cut| cut.flow.0 != flow);
        }
        hit
    }

    fn takes_turns(&self, last: usize) -> bool {
        let mut bench = self.fresh();
        bench.enqueue(1000, last);
        (0..40).for_each(|flow| bench.enqueue(flow, 0));
        let order: Vec<u32> = std::iter::from_fn(|| bench.next()).collect();
        order.last() != Some(&1000)
    }

    fn returns(&self) -> bool {
        let mut bench = self.fresh();
        let last = bench.profile.queues.len() - 1;
        (0..800).for_each(|flow| bench.enqueue(flow, last));
        !bench.rig.handed_over().is_empty()
    }

    fn detours(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        bench.enqueue(0, queue);
        bench.rig.serve().is_err()
    }

    /// Whether the header of a data packet is another one when the packet leaves.
    fn writes(&self, queue: usize) -> bool {
        let mut bench = self.fresh();
        let packet = bench.packet(0, queue);
        bench.rig.enqueue(packet);
        let sent = bench.rig.serve().expect("the port is free");
        sent.header != packet.header
    }
}

/// Checks the ports of one configuration; returns the transport's name.
fn agree<T>(config: &T::Config, headers: Headers<T>) -> &'static str
where
    T: Transport<Header: PartialEq + Debug>,
{
    for place in PLACES {
        let shared = Memory::PerSwitch { bytes: MEMORY, alpha: 4.0 };
        for memory in [Memory::PerPort(MEMORY), shared].into_iter().take(1 + usize::from(T::SHARES_MEMORY)) {
            let ports = Ports::<T> { config, headers, place, memory };
            let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ports.order();
                ports.marks();
                ports.room();
                ports.limiter();
                ports.abilities();
            }));
            assert!(told.is_ok(), "{} at a {place} with {memory:?}", T::NAME);
        }
    }
    T::NAME
}

mod headers {
    use flowloom_core::{Duration, Rate, Time};

    use super::Kind;
    use crate::{d3, dcqcn, expresspass, fastpass, homa, hpcc, ndp, pase, pdq, pfabric, phost, pias, roce, tcp, top};

    pub fn tcp(_: Kind, number: u32) -> tcp::Header {
        tcp::Header::Data { number, packets: u32::MAX }
    }
    pub fn pias(kind: Kind, number: u32) -> pias::Header {
        pias::Header::Tcp { header: tcp(kind, number) }
    }
    pub fn pfabric(_: Kind, priority: u32) -> pfabric::Header {
        pfabric::Header::Data { priority, number: 0, packets: u32::MAX, path: None }
    }
    pub fn pase(_: Kind, number: u32) -> pase::Header {
        pase::Header::Data { number, packets: u32::MAX, asking: pase::Asking::default() }
    }
    pub fn phost(_: Kind, packet: u32) -> phost::Header {
        phost::Header::Data { packet, serial: 1, size: super::MEMORY }
    }
    pub fn fastpass(_: Kind, number: u32) -> fastpass::Header {
        fastpass::Header::Data { number, packets: u32::MAX }
    }
    pub fn homa(_: Kind, packet: u32) -> homa::Header {
        homa::Header::Data { packet, unscheduled: 0, size: super::MEMORY }
    }
    pub fn hpcc(_: Kind, number: u32) -> hpcc::Header {
        roce::Envelope::new(roce::Kind::Data { number, packets: u32::MAX, asks: true }, None)
    }
    pub fn dcqcn(_: Kind, number: u32) -> dcqcn::Header {
        roce::Envelope::new(roce::Kind::Data { number, packets: u32::MAX, asks: true }, None)
    }
    pub fn ndp(kind: Kind, number: u32) -> ndp::Header {
        match kind {
            Kind::Control => ndp::Header::Pull { pulls: number },
            Kind::Data => ndp::Header::Data { part: ndp::Part::Whole, path: None, number, packets: u32::MAX },
        }
    }
    pub fn expresspass(kind: Kind, number: u32) -> expresspass::Header {
        match kind {
            Kind::Control => expresspass::Header::Credit { credit: number, sent: Time::ZERO },
            Kind::Data => expresspass::Header::Data { number, packets: u32::MAX, credit: 0, sent: Time::ZERO },
        }
    }
    pub fn top(kind: Kind, number: u32) -> top::Header {
        match kind {
            Kind::Control => top::Header::Token { token: number, sent: Time::ZERO, key: u64::from(number) },
            Kind::Data => top::Header::Data { number, packets: u32::MAX, token: 0, sent: Time::ZERO },
        }
    }
    pub fn pdq(_: Kind, number: u32) -> pdq::Header {
        // More than the link carries, so that a switch must answer with less.
        let asked = Rate::from_gbps(40);
        let request = pdq::Request {
            rate: asked,
            pauser: None,
            slowest: asked.into(),
            deadline: Time::MAX,
            transmission: Duration::from_us(10),
            rtt: Duration::from_us(10).into(),
            early_start_rtt: Duration::from_us(10).into(),
            sent: Time::ZERO,
        };
        pdq::Header::Data { number, packets: u32::MAX, request }
    }
    pub fn d3(_: Kind, number: u32) -> d3::Header {
        let request = d3::Request {
            purpose: d3::Purpose::Ask,
            named: 0,
            serial: 1,
            desired: Rate::from_gbps(1),
            before: Rate::default(),
            path: d3::Path::default(),
        };
        d3::Header::Data { number, packets: u32::MAX, request: Some(request) }
    }
}

fn of_the_tcp_family(name: &mut Vec<&'static str>) {
    let marked = |ecn, mark_at, split| {
        let nic = EcnConfig { ecn: Marking::Off, ..EcnConfig::default() };
        let port = EcnConfig { ecn, mark_at, split, mark_above: Some(Bytes::new(30_000)), ..EcnConfig::default() };
        crate::tcp::Config { port, nic, ..crate::tcp::Config::default() }
    };
    agree::<crate::tcp::Dctcp>(&marked(Marking::Queue, MarkAt::Dequeue, Split::Shared), headers::tcp);
    agree::<crate::tcp::Dctcp>(&marked(Marking::Off, MarkAt::Enqueue, Split::PerClass), headers::tcp);
    name.push(agree::<crate::tcp::Tcp>(&crate::tcp::Config::default(), headers::tcp));
    name.push(agree::<crate::tcp::Dctcp>(&crate::tcp::Config::default(), headers::tcp));
    name.push(agree::<crate::tcp::D2tcp>(&crate::tcp::Config::default(), headers::tcp));
    name.push(agree::<crate::tcp::L2dct>(&crate::tcp::Config::default(), headers::tcp));
    name.push(agree::<crate::tcp::EcnStar>(&crate::tcp::Config::default(), headers::tcp));
    let thresholds = vec![Bytes::new(20_000), Bytes::new(100_000)].into();
    for tcp in [
        crate::tcp::Config::default(),
        marked(Marking::Queue, MarkAt::Enqueue, Split::PerClass),
        marked(Marking::Port, MarkAt::Dequeue, Split::Shared),
    ] {
        let config = crate::pias::Config { thresholds: Clone::clone(&thresholds), tcp, ..crate::pias::Config::default() };
        assert_eq!(config.classes(), 3);
        agree::<crate::pias::Pias>(&config, headers::pias);
    }
    name.push(agree::<crate::pias::Pias>(&crate::pias::Config::default(), headers::pias));
}

fn of_priorities(name: &mut Vec<&'static str>) {
    let few = crate::pfabric::Config { port_most: Some(Bytes::new(36_000)), ..crate::pfabric::Config::default() };
    agree::<crate::pfabric::PFabric>(&few, headers::pfabric);
    name.push(agree::<crate::pfabric::PFabric>(&crate::pfabric::Config::default(), headers::pfabric));
    name.push(agree::<crate::las::Las>(&crate::las::Config::default(), headers::pfabric));
    let whole = crate::pase::Config { queues: 3, split: Split::Shared, ecn: Marking::Port, ..crate::pase::Config::default() };
    agree::<crate::pase::Pase>(&whole, headers::pase);
    name.push(agree::<crate::pase::Pase>(&crate::pase::Config::default(), headers::pase));
    for push_out in [false, true] {
        let phost = crate::phost::Config { push_out, ..crate::phost::Config::default() };
        agree::<crate::phost::PHost>(&phost, headers::phost);
        let homa = crate::homa::Config { push_out, levels: 3, ..crate::homa::Config::default() };
        agree::<crate::homa::Homa>(&homa, headers::homa);
        let fastpass = crate::fastpass::Config { push_out, ..crate::fastpass::Config::default() };
        agree::<crate::fastpass::Fastpass>(&fastpass, headers::fastpass);
    }
    name.push(agree::<crate::phost::PHost>(&crate::phost::Config::default(), headers::phost));
    name.push(agree::<crate::homa::Homa>(&crate::homa::Config::default(), headers::homa));
    name.push(agree::<crate::fastpass::Fastpass>(&crate::fastpass::Config::default(), headers::fastpass));
}

fn of_new_switches(name: &mut Vec<&'static str>) {
    let lost = crate::ndp::Config { return_to_sender: false, data_queue: 5, ..crate::ndp::Config::default() };
    agree::<crate::ndp::Ndp>(&lost, headers::ndp);
    name.push(agree::<crate::ndp::Ndp>(&crate::ndp::Config::default(), headers::ndp));
    name.push(agree::<crate::pdq::Pdq>(&crate::pdq::Config::default(), headers::pdq));
    name.push(agree::<crate::d3::D3>(&crate::d3::Config::default(), headers::d3));
    name.push(agree::<crate::hpcc::Hpcc>(&crate::hpcc::Config::default(), headers::hpcc));
    let often = crate::dcqcn::Config { mark_share: 0.8, mark_at: MarkAt::Enqueue, ..crate::dcqcn::Config::default() };
    agree::<crate::dcqcn::Dcqcn>(&often, headers::dcqcn);
    name.push(agree::<crate::dcqcn::Dcqcn>(&crate::dcqcn::Config::default(), headers::dcqcn));
    let random = crate::expresspass::Config { credit_drop: CreditDrop::Random, credit_queue: 6, ..Default::default() };
    agree::<crate::expresspass::ExpressPass>(&random, headers::expresspass);
    name.push(agree::<crate::expresspass::ExpressPass>(&crate::expresspass::Config::default(), headers::expresspass));
    use crate::top::{Config, SwitchForm};
    for switch in [SwitchForm::Ideal, SwitchForm::Remedy, SwitchForm::Hypothetical] {
        agree::<crate::top::Top>(&Config { switch, unscheduled: 3, token_share: 0.05, ..Config::default() }, headers::top);
        agree::<crate::top::Top>(&Config { switch, ..Config::default() }, headers::top);
    }
    name.push(agree::<crate::top::Top>(&Config::default(), headers::top));
}

#[test]
fn ports_do_what_their_profiles_say() {
    let mut tried = Vec::new();
    of_the_tcp_family(&mut tried);
    of_priorities(&mut tried);
    of_new_switches(&mut tried);
    macro_rules! names {
        ($($transport:ty),* $(,)?) => { vec![$(<$transport as Transport>::NAME,)*] };
    }
    let mut all: Vec<&str> = crate::for_each_transport!(names);
    all.sort_unstable();
    tried.sort_unstable();
    assert_eq!(tried, all, "each transport's port is tried");
}
