//! The estimated share of marked packets that DCTCP and its descendants act on.

/// α of RFC 8257 §3.3. It counts packets instead of bytes; the two differ only in a flow's last packet.
#[derive(Clone, Copy, Debug)]
pub struct Alpha {
    estimate: f64,
    acknowledged: u32,
    marked: u32,
}

impl Alpha {
    /// The estimate of a new connection.
    pub fn new(initial: f64) -> Alpha {
        Alpha { estimate: initial, acknowledged: 0, marked: 0 }
    }

    /// The estimate, from 0 to 1.
    pub fn get(&self) -> f64 {
        self.estimate
    }

    /// See [`Controller::acknowledged`](super::Controller::acknowledged). Selective acknowledgements do not count (RFC 8257 §3.3, step 1).
    #[inline]
    pub fn acknowledged(&mut self, packets: u32, echo: bool) {
        self.acknowledged += packets;
        self.marked += if echo { packets } else { 0 };
    }

    /// Steps 4 to 7: the estimate moves by `gain` towards the share of the round that ends. It decays in rounds without marks.
    pub fn round_ends(&mut self, gain: f64) {
        if self.acknowledged > 0 {
            let share = f64::from(self.marked) / f64::from(self.acknowledged);
            self.estimate = (1.0 - gain) * self.estimate + gain * share;
            (self.acknowledged, self.marked) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8257 §3.3: after n rounds with a share f of marks, α = f + (α₀ - f)(1 - g)ⁿ.
    #[test]
    fn the_estimate_approaches_a_constant_share_at_the_rate_of_the_gain() {
        for share in [0, 3, 5, 20] {
            let mut alpha = Alpha::new(1.0);
            let f = f64::from(share) / 20.0;
            for round in 1..=100 {
                for packet in 0..20 {
                    alpha.acknowledged(1, packet < share);
                }
                alpha.round_ends(1.0 / 16.0);
                let expected = f + (1.0 - f) * (15.0_f64 / 16.0).powi(round);
                assert!((alpha.get() - expected).abs() < 1e-12, "{share} {round}: {} {expected}", alpha.get());
            }
            assert!((alpha.get() - f).abs() < 0.02);
        }
    }

    #[test]
    fn a_round_without_acknowledgements_says_nothing() {
        let mut alpha = Alpha::new(0.5);
        alpha.round_ends(1.0 / 16.0);
        assert!((alpha.get() - 0.5).abs() < 1e-15);
    }
}
