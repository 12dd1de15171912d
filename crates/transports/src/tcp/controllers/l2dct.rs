//! DCTCP with growth and cuts that depend on the bytes sent.

use super::dctcp::{Dctcp, DctcpVariant};
use super::{Config, Progress};
use crate::tcp::WeightOn;

/// L2DCT (A. Munir et al., *Minimizing Flow Completion Times in Data Centers*, INFOCOM 2013): a flow's weight w falls with the bytes it
/// has sent. The penalty is α^w, and in congestion avoidance the window grows by w/w_max packets per round trip, or by one: see
/// [`WeightOn`]. The bytes of the flow count, not those of the connection.
pub type L2dct = Dctcp<Youth>;

/// The difference between L2DCT and DCTCP.
#[derive(Clone, Copy, Debug)]
pub struct Youth;

fn weight(config: &Config, sent_bytes: u64) -> f64 {
    let (young, old) = (config.young.get(), config.old.get());
    let past_youth = sent_bytes.clamp(young, old) - young;
    let age = past_youth as f64 / (old - young) as f64;
    config.weight_max - age * (config.weight_max - config.weight_min)
}

impl DctcpVariant for Youth {
    fn penalty(alpha: f64, config: &Config, progress: &Progress) -> f64 {
        libm::pow(alpha, weight(config, progress.sent_bytes))
    }
    fn growth(config: &Config, sent_bytes: u64) -> f64 {
        match config.weight_on {
            WeightOn::GrowthAndCuts => weight(config, sent_bytes) / config.weight_max,
            WeightOn::Cuts => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::controllers::Controller;

    #[test]
    fn the_weight_falls_linearly_from_200_kib_to_1_mib() {
        let config = Config::default();
        for (sent, expected) in
            [(0, 2.5), (204_800, 2.5), (204_800 + (1_048_576 - 204_800) / 2, 1.3125), (1_048_576, 0.125), (10_485_760, 0.125)]
        {
            assert!((weight(&config, sent) - expected).abs() < 1e-12, "{sent}");
        }
    }

    #[test]
    fn old_flows_grow_slowly_and_keep_little() {
        let config = Config { initial_alpha: 0.25, ..Config::default() };
        let controller = L2dct::new(&config);
        assert!((controller.growth(&config, 0) - 1.0).abs() < 1e-12);
        assert!((controller.growth(&config, 1 << 30) - 0.05).abs() < 1e-12);
        let cuts = Config { weight_on: WeightOn::Cuts, ..config.clone() };
        assert!((controller.growth(&cuts, 1 << 30) - 1.0).abs() < 1e-12);
        let keeps = |sent_bytes| {
            let (now, rtt) = (flowloom_core::Time::ZERO, flowloom_core::Duration::from_us(100));
            let progress = Progress { now, window: 10.0, sent_bytes, left_bytes: 1, packet_bytes: 1460, rtt, deadline: None };
            controller.keeps(&config, &progress)
        };
        assert!((keeps(0) - (1.0 - 0.03125 / 2.0)).abs() < 1e-12); // 0.25^2.5 = 1/32
        assert!((keeps(1 << 30) - (1.0 - 0.840_896_415_253_714_6 / 2.0)).abs() < 1e-12); // 0.25^(1/8) = 2^(-1/4)
    }
}
