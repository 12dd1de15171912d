//! What became of one flow.

use flowloom_core::{Bytes, Duration, Flow, Time};
use flowloom_fabric::Abort;

/// One flow's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The flow.
    pub flow: Flow,
    /// When it ended, `None` if the run ended first or it was aborted.
    pub finish: Option<Time>,
    /// When and why it was aborted, if it was. Such a flow has no finish.
    pub aborted: Option<Abort>,
    /// How long the flow takes when it is alone in the network, to the same kind of end, plus the request's delay. More than zero.
    pub optimum: Duration,
    /// The time before the flow's start that is not simulated: the delay of the request and the time of the application.
    pub request_delay: Duration,
    /// Payload that reached the receiver for the first time.
    pub delivered: Bytes,
    /// Data packets that were sent again.
    pub retransmissions: u32,
    /// How often its retransmission timer expired.
    pub timeouts: u32,
    /// How many of these timeouts came directly after another one without progress, as the second of a series.
    pub second_timeouts: u32,
}

impl Row {
    /// Flow completion time: the time from the start to the finish, plus the request's delay.
    pub fn fct(&self) -> Option<Duration> {
        self.finish.map(|finish| finish - self.flow.start + self.request_delay)
    }
    /// Slowdown: flow completion time over optimum (pHost, §4.1).
    pub fn slowdown(&self) -> Option<f64> {
        self.fct().map(|fct| fct.as_ps() as f64 / self.optimum.as_ps() as f64)
    }
    /// Whether it finished by its deadline; `None` if it has none. A flow that is unfinished or aborted is late.
    pub fn on_time(&self) -> Option<bool> {
        self.flow.deadline.map(|deadline| self.finish.is_some_and(|finish| finish <= deadline))
    }
}
