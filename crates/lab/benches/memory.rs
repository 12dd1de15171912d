//! What is kept in memory, byte by byte. `benches/bench.py` calls it; it prints lines of JSON.
//!
//! * `memory open TRANSPORT`: what an open flow takes at each of its ends.
//! * `memory done SCENARIO.toml [key=value…]`: what a run holds each time another tenth of its flows is done.

use std::collections::VecDeque;

use flowloom_core::{
    Duration, Endpoint, Flow, FlowId, NodeId, Packet, Placement, Rate, Site, Switching, Time, Transport, WireProfile, topology,
};
use flowloom_lab::observe::Nowhere;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Plan, simulate};
use flowloom_transports::for_each_transport;

#[path = "../../transports/src/trial/live.rs"]
mod live;

use live::live;

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["open", transport] => open(transport),
        ["done", path, ..] => done(path, &arguments[2..]),
        _ => {
            eprintln!("usage: memory open TRANSPORT, or memory done SCENARIO.toml [key=value…]");
            std::process::exit(2);
        }
    }
}

fn done(path: &str, overrides: &[String]) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let scenario = Scenario::load(&text, path, overrides).unwrap_or_else(|error| panic!("{error}"));
    let plan = scenario.validate().and_then(|spec| Plan::new(&spec)).unwrap_or_else(|error| panic!("{error}"));
    let mut tenths = 1;
    let mut progress = |share: f64, _, packet_hops| {
        if share * 10.0 >= f64::from(tenths) {
            println!("{}", serde_json::json!({ "done": share, "packet_hops": packet_hops, "bytes": live() }));
            tenths += 1;
        }
        true
    };
    let ran = simulate(plan, Execution::new(&mut progress, &mut Nowhere));
    ran.expect("the run balances its books");
}

macro_rules! open_by_name {
    ($($transport:ty),* $(,)?) => {
        fn open(name: &str) {
            $(if name == <$transport>::NAME {
                return Ends::<$transport>::new().measure();
            })*
            panic!("no transport is called {name}");
        }
    };
}
for_each_transport!(open_by_name);

/// How many flows are open at the end.
const FLOWS: u32 = 4000;
/// Bytes per flow count from this many flows on. They include the memory of a node without flows.
const FLOWS_MIN: u32 = 500;
/// A flow opens this long after the one before it: the time of some sixteen packets.
const PERIOD: Duration = Duration::from_us(20);
/// Of each flow only the first packets arrive, and of these every third is lost: none is ever complete, and all have holes.
const ARRIVE: u64 = 12;
/// Each flow has this many packets less than the one before, so that schemes that prefer the shortest flow serve each one when it opens.
const LESS: u64 = 20;

/// An endpoint, and how many bytes it has allocated.
struct Node<E> {
    endpoint: E,
    bytes: isize,
}

impl<E: Endpoint> Node<E> {
    fn call<R>(&mut self, run: impl FnOnce(&mut E) -> R) -> R {
        let before = live();
        let result = run(&mut self.endpoint);
        self.bytes = self.bytes + live() - before;
        result
    }
    fn due(&self) -> Time {
        self.endpoint.poll_timeout().unwrap_or(Time::MAX)
    }
    /// Lets the timer fire if it is due, and takes out what the endpoint wants to send.
    fn attend(&mut self, now: Time, packets: &mut VecDeque<Packet<E::Header>>) {
        if self.due() <= now {
            self.call(|endpoint| endpoint.handle_timeout(now));
        }
        while self.call(E::poll_event).is_some() {}
        while let Some(packet) = self.call(|endpoint| endpoint.poll_transmit(now)) {
            packets.push_back(packet);
        }
    }
}

/// A source, a destination and, if the transport has one, a control node, in a network without delay.
struct Ends<T: Transport> {
    source: Node<T::Host>,
    destination: Node<T::Host>,
    control: Option<(NodeId, Node<T::Control>)>,
    packets: VecDeque<Packet<T::Header>>,
}

impl<T: Transport<Config: Default>> Ends<T> {
    fn new() -> Self {
        let (wire, config) = (WireProfile::IP_1500, T::Config::default());
        let (rate, delay) = (Rate::from_gbps(10), Duration::from_ns(200));
        let mut network = topology::single_switch(2, rate, delay, Switching::StoreAndForward);
        let control = (T::placement(&config) == Placement::ExtraHost).then(|| network.add_control_host("control"));
        let site = |node| Site { node, network: &network, wire, seed: 1, reorders: false, paths: None };
        let host = |node| Node { endpoint: T::host(&config, &site(NodeId(node))), bytes: 0 };
        Ends {
            source: host(0),
            destination: host(1),
            control: control.map(|node| (node, Node { endpoint: T::control(&config, &site(node)), bytes: 0 })),
            packets: VecDeque::new(),
        }
    }

    fn measure(mut self) {
        let mut most = [0, 0];
        for id in 0..FLOWS {
            let start = Time::ZERO + PERIOD * u64::from(id);
            self.run_until(start);
            let (src, dst) = (NodeId(0), NodeId(1));
            let size = WireProfile::IP_1500.payload() * (LESS * u64::from(FLOWS - id));
            let flow =
                Flow { id: FlowId(id), src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: false };
            self.source.call(|source| source.open(start, &flow));
            self.settle(start);
            if id + 1 >= FLOWS_MIN {
                most[0] = most[0].max(self.source.bytes / (id as isize + 1));
                most[1] = most[1].max(self.destination.bytes / (id as isize + 1));
            }
        }
        println!("{}", serde_json::json!({ "transport": T::NAME, "source_bytes": most[0], "destination_bytes": most[1] }));
    }

    /// Lets timers fire, one at a time.
    fn run_until(&mut self, limit: Time) {
        loop {
            let control = self.control.as_ref().map_or(Time::MAX, |(_, control)| control.due());
            let next = self.source.due().min(self.destination.due()).min(control);
            if next > limit {
                return;
            }
            self.settle(next);
        }
    }

    /// Hands packets over until there are none.
    fn settle(&mut self, now: Time) {
        loop {
            self.source.attend(now, &mut self.packets);
            self.destination.attend(now, &mut self.packets);
            if let Some((_, control)) = &mut self.control {
                control.attend(now, &mut self.packets);
            }
            let Some(packet) = self.packets.pop_front() else { return };
            let number = packet.offset.get() / WireProfile::IP_1500.payload().get();
            if packet.payload_bytes > 0 && (number >= ARRIVE || number % 3 == 1) {
                continue;
            }
            match &mut self.control {
                Some((node, control)) if packet.dst == *node => control.call(|control| control.handle_packet(now, &packet)),
                _ if packet.dst == NodeId(0) => self.source.call(|source| source.handle_packet(now, &packet)),
                _ => self.destination.call(|destination| destination.handle_packet(now, &packet)),
            }
        }
    }
}
