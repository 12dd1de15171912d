//! Algorithm 2: the congestion window.

/// Where a flow's queue lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// q1.
    Top,
    /// q2 to q(k-1).
    Intermediate,
    /// qk.
    Bottom,
}

impl Place {
    /// The place of `queue`, where `lowest` is the last one. A single queue is the top queue.
    pub fn of(queue: u8, lowest: u8) -> Place {
        match queue {
            0 => Place::Top,
            queue if queue >= lowest => Place::Bottom,
            _ => Place::Intermediate,
        }
    }
}

/// What guides a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Guide {
    /// Algorithm 2, with the reference rate times the round-trip time, in packets.
    Reference(Place, u32),
    /// Nothing: DCTCP's laws alone, with slow start.
    Nothing,
}

/// A congestion window, in packets. It is never less than one packet (A24).
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    packets: f64,
    /// Slow start ends here.
    threshold: f64,
    /// Whether the flow was in an intermediate queue at the last acknowledgement: `isInterQueue`.
    is_intermediate: bool,
    most: f64,
    /// Whether the window doubles per round trip in the intermediate queues at first.
    slow_start: bool,
}

impl Window {
    /// The window of a flow that has not started.
    pub fn new(most: u32, slow_start: bool) -> Window {
        Window { packets: 1.0, threshold: f64::INFINITY, is_intermediate: false, most: f64::from(most), slow_start }
    }

    /// Packets that may be in the network.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.packets as u32
    }

    fn set(&mut self, packets: f64) {
        self.packets = packets.clamp(1.0, self.most);
    }

    /// The flow starts: the reference rate in the top queue, and one packet in all others (§3.2).
    pub fn start(&mut self, guide: Guide, initial: u32) {
        match guide {
            Guide::Reference(Place::Top, reference) => self.set(f64::from(reference)),
            Guide::Reference(..) => self.set(1.0),
            Guide::Nothing => self.set(f64::from(initial)),
        }
    }

    /// The flow loses its guide: it goes on from the window that it has, but with no less than `initial`.
    pub fn lose_guide(&mut self, initial: u32) {
        self.threshold = self.packets;
        self.is_intermediate = false;
        self.set(self.packets.max(f64::from(initial)));
    }

    /// An acknowledgement without a mark, of `packets` packets. A cut is held while `held`.
    #[inline]
    pub fn grow(&mut self, guide: Guide, packets: u32, held: bool) {
        match guide {
            Guide::Reference(Place::Top, reference) => {
                if !held {
                    self.set(f64::from(reference));
                }
                self.is_intermediate = false;
            }
            Guide::Reference(Place::Intermediate, _) if self.is_intermediate => {
                let doubles = self.slow_start && self.packets < self.threshold;
                self.set(self.packets + if doubles { f64::from(packets) } else { 1.0 / self.packets });
            }
            Guide::Reference(Place::Intermediate, _) => {
                self.is_intermediate = true;
                self.set(1.0);
            }
            Guide::Reference(Place::Bottom, _) => {
                self.set(1.0);
                self.is_intermediate = false;
            }
            Guide::Nothing if self.packets < self.threshold => self.set(self.packets + f64::from(packets)),
            Guide::Nothing => self.set(self.packets + f64::from(packets) / self.packets),
        }
    }

    /// A mark, with the estimated share of marked packets.
    pub fn cut(&mut self, alpha: f64) {
        self.set(self.packets * (1.0 - alpha / 2.0));
        self.threshold = self.packets;
    }

    /// A loss that acknowledgements show (RFC 5681 §3.2, as DCTCP).
    pub fn halve(&mut self) {
        self.cut(1.0);
    }

    /// A timeout (RFC 5681 §3.1).
    pub fn collapse(&mut self) {
        self.threshold = (self.packets / 2.0).max(2.0);
        self.set(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: Guide = Guide::Reference(Place::Top, 40);
    const MIDDLE: Guide = Guide::Reference(Place::Intermediate, 1);
    const BOTTOM: Guide = Guide::Reference(Place::Bottom, 1);

    #[test]
    fn queues_have_their_places() {
        let places = |lowest| (0..=lowest).map(|queue| Place::of(queue, lowest)).collect::<Vec<_>>();
        assert_eq!(places(0), [Place::Top]);
        assert_eq!(places(1), [Place::Top, Place::Bottom]);
        assert_eq!(places(2), [Place::Top, Place::Intermediate, Place::Bottom]);
        assert_eq!(places(7)[1..7], [Place::Intermediate; 6]);
    }

    /// Algorithm 2 line by line: each step is an acknowledgement without a mark in a queue, or a cut, and the window after it.
    #[test]
    fn the_window_follows_algorithm_2() {
        let mut window = Window::new(1000, false);
        window.start(TOP, 10);
        assert_eq!(window.packets, 40.0);
        let mut steps = |steps: &[(Option<Guide>, f64)]| {
            for (number, (step, expected)) in steps.iter().enumerate() {
                match step {
                    Some(guide) => window.grow(*guide, 1, false),
                    None => window.cut(0.5),
                }
                assert!((window.packets - expected).abs() < 1e-12, "step {number}: {}, not {expected}", window.packets);
            }
        };
        // Top queue: a mark cuts by α/2, and the next acknowledgement without one sets the reference rate again.
        steps(&[(None, 30.0), (None, 22.5), (Some(TOP), 40.0), (Some(Guide::Reference(Place::Top, 7)), 7.0)]);
        // To an intermediate queue: one packet, then 1/cwnd per acknowledgement; another intermediate queue keeps the window.
        steps(&[(Some(MIDDLE), 1.0), (Some(MIDDLE), 2.0), (Some(MIDDLE), 2.5), (Some(MIDDLE), 2.9), (None, 2.175)]);
        // To the bottom queue: always one packet, marked or not.
        steps(&[(Some(BOTTOM), 1.0), (Some(BOTTOM), 1.0), (None, 1.0), (Some(BOTTOM), 1.0)]);
        // Back to an intermediate queue: it begins again at one packet. Via the top queue as well.
        steps(&[(Some(MIDDLE), 1.0), (Some(MIDDLE), 2.0), (Some(TOP), 40.0), (Some(MIDDLE), 1.0), (Some(MIDDLE), 2.0)]);
    }

    #[test]
    fn outside_the_top_queue_a_flow_starts_with_one_packet_and_without_a_guide_with_the_initial_window() {
        for (guide, expected) in [(MIDDLE, 1), (BOTTOM, 1), (TOP, 40), (Guide::Nothing, 10)] {
            let mut window = Window::new(1000, false);
            window.start(guide, 10);
            assert_eq!(window.packets(), expected);
        }
        // The first acknowledgement in an intermediate queue sets one packet, though there was one before (A25).
        let mut window = Window::new(1000, false);
        window.start(MIDDLE, 10);
        window.grow(MIDDLE, 1, false);
        window.grow(MIDDLE, 1, false);
        assert_eq!(window.packets(), 2);
    }

    #[test]
    fn a_held_cut_outlasts_acknowledgements_in_the_top_queue_only() {
        let mut window = Window::new(1000, false);
        window.start(TOP, 10);
        window.cut(0.5);
        window.grow(TOP, 1, true);
        assert_eq!(window.packets(), 30);
        window.grow(TOP, 1, false);
        assert_eq!(window.packets(), 40);
    }

    /// DCTCP: slow start to the first mark, then one packet per window.
    #[test]
    fn without_a_guide_the_window_is_dctcps() {
        let mut window = Window::new(50, false);
        window.start(Guide::Nothing, 10);
        window.grow(Guide::Nothing, 10, false);
        assert_eq!(window.packets, 20.0);
        window.cut(0.5);
        window.grow(Guide::Nothing, 1, false);
        assert_eq!(window.packets, 15.0 + 1.0 / 15.0);
        window.collapse();
        assert_eq!(window.packets, 1.0);
        for _ in 0..7 {
            window.grow(Guide::Nothing, 1, false);
        }
        assert_eq!(window.packets, 8.0); // the threshold is 7.53
        window.grow(Guide::Nothing, 1, false);
        assert_eq!(window.packets, 8.125);
        window.grow(Guide::Reference(Place::Top, 500), 1, false);
        assert_eq!(window.packets, 50.0);
    }

    #[test]
    fn a_flow_that_loses_its_guide_goes_on_from_its_window() {
        let mut window = Window::new(1000, false);
        window.start(TOP, 10);
        window.lose_guide(10);
        window.grow(Guide::Nothing, 1, false);
        assert_eq!(window.packets, 40.0 + 1.0 / 40.0);
        let mut window = Window::new(1000, false);
        window.start(BOTTOM, 10);
        window.lose_guide(10);
        assert_eq!(window.packets, 10.0);
    }
}
