//! Credit feedback control: how fast a receiver sends the credits of one flow.

use flowloom_core::Duration;

use super::config::{Config, Feedback};

/// The parameters of the control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    form: Feedback,
    alpha: f64,
    ramp_packets: u32,
    w_init: f64,
    w_min: f64,
    w_max: f64,
    w_step: f64,
    target_loss: f64,
    target_loss_scale: f64,
}

impl Rules {
    pub fn new(config: &Config) -> Rules {
        Rules {
            form: config.feedback,
            alpha: config.alpha,
            ramp_packets: config.ramp_packets,
            w_init: config.w_init,
            w_min: config.w_min,
            w_max: config.w_max,
            w_step: config.w_step,
            target_loss: config.target_loss,
            target_loss_scale: config.target_loss_scale,
        }
    }

    /// The largest rate of credits.
    fn rate_max(&self) -> f64 {
        match self.form {
            Feedback::Paper => 1.0 + self.target_loss,
            Feedback::Released => 1.0,
        }
    }
}

/// What became of a flow's credits in one update period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcomes {
    /// Credits that were answered or lost; at least one.
    pub credits: u32,
    /// Of these, how many were lost.
    pub lost: u32,
    /// The length of the period.
    pub elapsed: Duration,
}

/// The credit rate of one flow, in parts of the rate that its receiver's link can carry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Control {
    rate: f64,
    weight: f64,
    /// Whether the last change was an increase.
    rising: bool,
}

impl Control {
    /// The control of a flow that asks for credits for `packets` packets.
    pub fn new(rules: &Rules, packets: u32) -> Control {
        let ramp = (f64::from(packets.max(1)) / f64::from(rules.ramp_packets)).min(1.0);
        Control { rate: rules.alpha * ramp, weight: rules.w_init, rising: false }
    }

    #[inline]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Changes the rate at the end of an update period. `slot` is the gap between credits at a rate of 1. The rate is at least one credit
    /// per round trip.
    pub fn update(&mut self, rules: &Rules, outcomes: Outcomes, slot: Duration, rtt: Duration) {
        let loss = f64::from(outcomes.lost) / f64::from(outcomes.credits);
        let target = match rules.form {
            Feedback::Paper => rules.target_loss,
            Feedback::Released => rules.target_loss_scale * (1.0 - self.rate),
        };
        let most = rules.rate_max();
        let rate = if loss <= target {
            self.weigh_up(rules);
            (1.0 - self.weight) * self.rate + self.weight * most
        } else {
            self.weight = (self.weight / 2.0).max(rules.w_min);
            self.rising = false;
            // Algorithm 1 multiplies the rate by 1 - loss, which is the rate at which credits come through. The loss is known a round trip
            // later, when the rate has changed: their product would lower the rate twice for one loss. So the rate at which credits came
            // through is measured, as in the authors' simulator.
            let through = f64::from(outcomes.credits - outcomes.lost) * ratio(slot, outcomes.elapsed);
            (through * (1.0 + target)).min(self.rate)
        };
        self.rate = rate.max(ratio(slot, rtt)).min(most);
    }

    /// The second increase in a row and those after it have more weight than the one before.
    fn weigh_up(&mut self, rules: &Rules) {
        if self.rising {
            self.weight = match rules.form {
                Feedback::Paper => (self.weight + rules.w_max) / 2.0,
                Feedback::Released => (self.weight + rules.w_step).min(rules.w_max),
            };
        }
        self.rising = true;
    }
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_ps() as f64 / b.as_ps().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Duration = Duration::from_ns(1000);
    const RTT: Duration = Duration::from_us(100);

    fn rules(form: Feedback) -> Rules {
        Rules::new(&Config { feedback: form, ..Config::default() })
    }

    fn update(control: &mut Control, rules: &Rules, credits: u32, lost: u32) {
        control.update(rules, Outcomes { credits, lost, elapsed: RTT }, SLOT, RTT);
    }

    fn assert_near(found: Control, rate: f64, weight: f64) {
        assert!((found.rate - rate).abs() < 1e-12 && (found.weight - weight).abs() < 1e-12, "{found:?}: {rate}, {weight}");
    }

    /// By hand: from 0.5, half of the way to 1.1, and again; then 30 % of the credits are lost; then the way up starts at a lower weight.
    #[test]
    fn the_paper_s_algorithm_by_hand() {
        let rules = rules(Feedback::Paper);
        let mut control = Control::new(&rules, 1000);
        assert_near(control, 0.5, 0.5);
        update(&mut control, &rules, 50, 0);
        assert_near(control, 0.8, 0.5);
        update(&mut control, &rules, 80, 8); // a loss of 10 % is on target
        assert_near(control, 0.95, 0.5);
        update(&mut control, &rules, 100, 30); // 70 of 100 slots
        assert_near(control, 0.7 * 1.1, 0.25);
        let rate = 0.7 * 1.1;
        update(&mut control, &rules, 70, 0);
        assert_near(control, 0.75 * rate + 0.25 * 1.1, 0.25);
        let rate = 0.75 * rate + 0.25 * 1.1;
        update(&mut control, &rules, 80, 0);
        assert_near(control, 0.625 * rate + 0.375 * 1.1, 0.375);
    }

    /// By hand: half of the way to 1; a target loss of 0.125 × (1 − 0.75), which 3 of 100 keep and 4 of 100 do not.
    #[test]
    fn the_released_algorithm_by_hand() {
        let rules = rules(Feedback::Released);
        let mut control = Control::new(&rules, 1000);
        update(&mut control, &rules, 50, 0);
        assert_near(control, 0.75, 0.5);
        let at = control;
        update(&mut control, &rules, 100, 3);
        assert_near(control, 0.875, 0.5);
        let mut control = at;
        // 48 of 50 came through in a hundred slots.
        update(&mut control, &rules, 50, 2);
        assert_near(control, 0.48 * (1.0 + 0.125 * 0.25), 0.25);
        let rate = control.rate;
        update(&mut control, &rules, 50, 0);
        assert_near(control, 0.75 * rate + 0.25, 0.25);
        let rate = control.rate;
        update(&mut control, &rules, 50, 0);
        assert_near(control, 0.7 * rate + 0.3, 0.3);
        // More came through than the rate allows, because they had been queued.
        let rate = control.rate;
        update(&mut control, &rules, 1000, 500);
        assert_near(control, rate, 0.15);
    }

    /// When all credits are lost, one per round trip is left, and the weight falls to its minimum.
    #[test]
    fn the_rate_never_falls_below_a_credit_per_round_trip_nor_rises_above_its_maximum() {
        for (form, most) in [(Feedback::Paper, 1.1), (Feedback::Released, 1.0)] {
            let rules = rules(form);
            let mut control = Control::new(&rules, 1000);
            for _ in 0..10 {
                update(&mut control, &rules, 7, 7);
            }
            assert_near(control, 0.01, 0.01);
            for _ in 0..100 {
                update(&mut control, &rules, 7, 0);
            }
            assert!((most - 1e-9..=most).contains(&control.rate), "{control:?}");
            control.update(&rules, Outcomes { credits: 1, lost: 1, elapsed: RTT }, SLOT, SLOT / 2);
            assert_near(control, most, control.weight);
        }
    }

    #[test]
    fn a_short_flow_starts_slower() {
        let rules = Rules::new(&Config { ramp_packets: 40, ..Config::default() });
        for (packets, rate) in [(1, 0.5 / 40.0), (20, 0.25), (40, 0.5), (4000, 0.5)] {
            assert_near(Control::new(&rules, packets), rate, 0.5);
        }
    }
}
