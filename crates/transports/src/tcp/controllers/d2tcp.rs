//! DCTCP with cuts that depend on the deadline.

use super::dctcp::{Dctcp, DctcpVariant};
use super::{Config, Progress};

/// D2TCP (B. Vamanan et al., *Deadline-Aware Datacenter TCP*, SIGCOMM 2012): the penalty is α^d instead of α. d is the urgency: the
/// time that the rest of the flow takes at the current window, over the time that is left. A flow without a deadline has d = 1, as
/// under DCTCP. A flow that has missed its deadline has the least d.
pub type D2tcp = Dctcp<Urgency>;

/// The difference between D2TCP and DCTCP.
#[derive(Clone, Copy, Debug)]
pub struct Urgency;

fn urgency(config: &Config, progress: &Progress) -> f64 {
    let Some(deadline) = progress.deadline else { return 1.0 };
    if deadline <= progress.now {
        return config.urgency_min;
    }
    // A window that is cut and grows back is three quarters of its peak on average.
    let per_round_trip = 0.75 * progress.window * progress.packet_bytes as f64;
    let needed_s = progress.left_bytes as f64 / per_round_trip * progress.rtt.as_secs_f64();
    let left_s = (deadline - progress.now).as_secs_f64();
    (needed_s / left_s).clamp(config.urgency_min, config.urgency_max)
}

impl DctcpVariant for Urgency {
    fn penalty(alpha: f64, config: &Config, progress: &Progress) -> f64 {
        // libm's power function gives the same result on every machine, and is exact for the exponent 1.
        libm::pow(alpha, urgency(config, progress))
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Duration, Time};

    use super::*;
    use crate::tcp::controllers::Controller;

    fn progress(left_bytes: u64, deadline_us: Option<u64>) -> Progress {
        Progress {
            now: Time::ZERO + Duration::from_us(1000),
            window: 10.0,
            sent_bytes: 0,
            left_bytes,
            packet_bytes: 1460,
            rtt: Duration::from_us(100),
            deadline: deadline_us.map(|at| Time::ZERO + Duration::from_us(at)),
        }
    }

    /// 7.5 packets of 1460 B per 100 µs: 109.5 kB take 1 ms.
    #[test]
    fn urgency_is_time_needed_over_time_left_within_its_limits() {
        let config = Config::default();
        for (deadline_us, expected) in [
            (None, 1.0),
            (Some(2000), 1.0),
            (Some(1800), 1.25),
            (Some(1010), 2.0),
            (Some(3000), 0.5),
            (Some(90_000), 0.5),
            (Some(1000), 0.5),
            (Some(500), 0.5),
        ] {
            let found = urgency(&config, &progress(109_500, deadline_us));
            assert!((found - expected).abs() < 1e-9, "{deadline_us:?}: {found}");
        }
    }

    #[test]
    fn urgent_flows_keep_more_of_their_window() {
        let config = Config { initial_alpha: 0.36, ..Config::default() };
        let keeps = |deadline_us| D2tcp::new(&config).keeps(&config, &progress(109_500, deadline_us));
        assert!((keeps(Some(90_000)) - 0.7).abs() < 1e-12); // 0.36^0.5 = 0.6
        assert!((keeps(None) - 0.82).abs() < 1e-12);
        assert!((keeps(Some(1010)) - (1.0 - 0.1296 / 2.0)).abs() < 1e-12);
    }

    #[test]
    fn to_the_power_of_one_is_the_same_number() {
        for n in 0..=10_000 {
            let alpha = f64::from(n) / 10_000.0;
            assert_eq!(libm::pow(alpha, 1.0).to_bits(), alpha.to_bits());
        }
    }
}
