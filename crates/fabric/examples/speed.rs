use flowloom_core::*;
use flowloom_fabric::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
fn unit(r: &mut Xoshiro256PlusPlus) -> f64 {
    (r.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
const WS: [(f64, f64); 11] = [
    (6., 0.15),
    (13., 0.2),
    (19., 0.3),
    (33., 0.4),
    (53., 0.53),
    (133., 0.6),
    (667., 0.7),
    (1333., 0.8),
    (3333., 0.9),
    (6667., 0.97),
    (20000., 1.0),
];
fn size(r: &mut Xoshiro256PlusPlus) -> u64 {
    let u = unit(r);
    let mut prev = (6.0, 0.0);
    for (x, p) in WS {
        if u <= p {
            if p == 0.15 {
                return 6 * 1460;
            }
            return ((prev.0 + (x - prev.0) * (u - prev.1) / (p - prev.1)) * 1460.0) as u64;
        }
        prev = (x, p);
    }
    20000 * 1460
}
fn main() {
    let n: usize = std::env::args().nth(1).map_or(2000, |a| a.parse().unwrap());
    let load: f64 = std::env::args().nth(2).map_or(0.6, |a| a.parse().unwrap());
    let net = topology::leaf_spine(
        9,
        16,
        4,
        Rate::from_gbps(10),
        Rate::from_gbps(40),
        Duration::from_ns(200),
        Switching::CutThrough { header: Bytes::new(40) },
    );
    let mut r = Xoshiro256PlusPlus::seed_from_u64(1);
    let lambda = 144.0 * load * 1e10 / (8.0 * 1665831.0 * 1500.0 / 1460.0);
    let mut t = 0.0;
    let flows: Vec<Flow> = (0..n)
        .map(|i| {
            t += -unit(&mut r).max(1e-18).ln() / lambda;
            let src = (r.next_u64() % 144) as u32;
            let dst = (src + 1 + (r.next_u64() % 143) as u32) % 144;
            Flow {
                id: FlowId(i as u32),
                src: NodeId(src),
                dst: NodeId(dst),
                size: Bytes::new(size(&mut r)),
                start: Time::from_ps((t * 1e12) as u64),
                deadline: None,
                tenant: 0,
                coflow: None,
            }
        })
        .collect();
    let setup = Setup {
        network: net.clone(),
        wire: WireProfile::IP_1500,
        buffer: Bytes::new(36_000),
        routing: Routing::SprayRoundRobin,
        seed: 1,
        time_limit: Time::MAX,
    };
    let name = std::env::args().nth(3).unwrap_or("phost".into());
    match name.as_str() {
        "phost" => go::<flowloom_transports::phost::PHost>(setup, flows),
        "pfabric" => go::<flowloom_transports::pfabric::PFabric>(setup, flows),
        "fastpass" => go::<flowloom_transports::fastpass::Fastpass>(setup, flows),
        _ => panic!(),
    }
}
fn go<T: Transport>(setup: Setup, flows: Vec<Flow>) {
    let wire = setup.wire;
    let start = std::time::Instant::now();
    let mut sim = Sim::<T>::new(&T::Config::default(), setup, flows, ());
    while sim.step(1_000_000) {
        if std::env::var("V").is_ok() {
            eprintln!("{:?}", sim.progress());
        }
    }
    let (report, ()) = sim.finish().unwrap();
    let wall = start.elapsed().as_secs_f64();
    let net = &report.network;
    let (mut sum, mut done) = (0.0, 0);
    let mut slow = vec![];
    for (f, rec) in report.flows.iter().zip(&report.records) {
        if rec.acknowledged == Time::MAX {
            continue;
        }
        let path = net.path(f.src, f.dst);
        let opt = net.flow_time(&path, f.size, &wire) + net.packet_time(&net.path(f.dst, f.src), wire.control);
        let s = (rec.acknowledged - f.start).as_secs_f64() / opt.as_secs_f64();
        sum += s;
        done += 1;
        slow.push(s);
    }
    slow.sort_by(f64::total_cmp);
    let drops: u64 = report.ports.iter().map(|p| p.drops()).sum();
    let retx: u32 = report.records.iter().map(|r| r.retransmissions).sum();
    println!(
        "flows {done}/{} mean slowdown {:.3} p99 {:.3} sim {:?} hops {} events {} ({:.2}/hop) data {} retx {retx} drops {drops} wall {:.2}s => {:.2} M hops/s",
        report.flows.len(),
        sum / done as f64,
        slow[slow.len() * 99 / 100],
        report.end,
        report.packet_hops,
        report.events,
        report.events as f64 / report.packet_hops as f64,
        report.data_packets,
        wall,
        report.packet_hops as f64 / wall / 1e6
    );
}
