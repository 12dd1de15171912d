//! The rate of one flow (the DCQCN paper, §3.1, and QCN, IEEE 802.1Qau, from which the increases are).

use flowloom_core::{Duration, Time};

use super::{Header, Windowed};
use crate::roce::Controller;

/// What the rates of all flows of a host have in common. Rates are shares of the rate of the NIC.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The weight of a report in the estimate (g).
    pub gain: f64,
    /// After this time without a report, the estimate falls.
    pub alpha_timer: Duration,
    /// After this time, and after as many bytes, the rate rises.
    pub rate_timer: Duration,
    /// See `rate_timer`.
    pub byte_counter: u64,
    /// Rises of each kind that only approach the rate before the last cut (F).
    pub fast_rises: u32,
    /// What later rises add to the target.
    pub additive: f64,
    /// What rises add to it when both the timer and the counter have passed F: this once for the first such rise, twice for the second and so on.
    pub hyper: f64,
    /// The least rate.
    pub least: f64,
    /// Whether there is a window.
    pub windowed: Windowed,
    /// What the NIC sends in a round trip, in bytes.
    pub round_trip: f64,
}

/// The rate of one flow, as a share of that of the NIC.
#[derive(Clone, Debug)]
pub struct SendingRate {
    /// R_C.
    current: f64,
    /// The rate before the last cut, which rises approach (R_T).
    target: f64,
    /// The estimate of congestion (α).
    alpha: f64,
    /// Bytes since the counter has last made the rate rise.
    bytes: u64,
    /// How often the timer and the counter have made the rate rise since the last cut (T and BC).
    rises: [u32; 2],
    /// When the estimate falls next, and when the timer makes the rate rise; `None` before the first report.
    due: Option<[Time; 2]>,
}

impl SendingRate {
    /// Cuts the rate (equation 1).
    fn cut(&mut self, rules: &Rules, now: Time) {
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(rules.least);
        self.alpha = (1.0 - rules.gain) * self.alpha + rules.gain;
        self.bytes = 0;
        self.rises = [0, 0];
        self.due = Some([now + rules.alpha_timer, now + rules.rate_timer]);
    }

    /// Lets the rate rise: first to half of the way to the rate before the cut, and then also beyond it (equations 3 and 4, figure 7).
    fn rise(&mut self, rules: &Rules, which: usize) {
        self.rises[which] = self.rises[which].saturating_add(1);
        let [fewer, more] = [self.rises[0].min(self.rises[1]), self.rises[0].max(self.rises[1])];
        if fewer > rules.fast_rises {
            self.target += f64::from(fewer - rules.fast_rises) * rules.hyper;
        } else if more > rules.fast_rises {
            self.target += rules.additive;
        }
        self.target = self.target.min(1.0);
        self.current = (self.current + self.target) / 2.0;
    }
}

const TIMER: usize = 0;
const COUNTER: usize = 1;

impl Controller for SendingRate {
    type Rules = Rules;
    type Header = Header;
    const TIMED: bool = true;

    /// A flow begins at the rate of the NIC, with the estimate at 1 (§3.1).
    fn new(_: &Rules) -> SendingRate {
        SendingRate { current: 1.0, target: 1.0, alpha: 1.0, bytes: 0, rises: [0, 0], due: None }
    }

    #[inline]
    fn window(&self, rules: &Rules) -> f64 {
        match rules.windowed {
            Windowed::Off => f64::INFINITY,
            Windowed::Fixed => rules.round_trip,
            Windowed::ByRate => rules.round_trip * self.current,
        }
    }

    #[inline]
    fn gap(&self, _: &Rules, line: Duration) -> Duration {
        Duration::from_ps((line.as_ps() as f64 / self.current) as u64)
    }

    /// Acknowledgements only tell what has arrived.
    #[inline]
    fn on_ack(&mut self, _: &Rules, _: Time, _: u32, _: u32, (): &()) {}

    #[inline]
    fn on_sent(&mut self, rules: &Rules, bytes: u32) {
        if self.due.is_none() {
            return;
        }
        self.bytes += u64::from(bytes);
        if self.bytes >= rules.byte_counter {
            self.bytes -= rules.byte_counter;
            self.rise(rules, COUNTER);
        }
    }

    fn on_congestion(&mut self, rules: &Rules, now: Time) {
        self.cut(rules, now);
    }

    fn timer(&self) -> Option<Time> {
        self.due.map(|[alpha, rise]| alpha.min(rise))
    }

    fn on_timer(&mut self, rules: &Rules, now: Time) {
        let Some([mut alpha, mut rise]) = self.due else { return };
        if alpha <= now {
            self.alpha *= 1.0 - rules.gain;
            alpha += rules.alpha_timer;
        }
        if rise <= now {
            self.rise(rules, TIMER);
            rise += rules.rate_timer;
        }
        self.due = Some([alpha, rise]);
    }
}
