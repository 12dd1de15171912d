//! What became of flows, as lines of JSON.

use std::collections::HashMap;
use std::io::{self, Write};

use flowloom_core::{Bytes, FlowId, Time};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::driver::Notice;
use crate::transfers::Sent;

/// Writes a line for each flow that is planned, and one for each end of a flow, with times in nanoseconds after the common start. A flow has its number at the sender only, so that
/// lines of the two ends are joined by its id.
pub struct Records<'a, W> {
    out: W,
    cluster: &'a Cluster,
    start: Time,
    numbers: HashMap<FlowId, u64>,
}

impl<'a, W: Write> Records<'a, W> {
    /// Records of flows between nodes of `cluster`. `start` is the common start, in the time of the node.
    pub fn new(out: W, cluster: &'a Cluster, start: Time) -> Records<'a, W> {
        Records { out, cluster, start, numbers: HashMap::new() }
    }

    /// Notes the number of a flow from this node.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn planned(&mut self, flow: FlowId, number: u64) -> io::Result<()> {
        self.numbers.insert(flow, number);
        self.line("planned", flow, json!({}))
    }

    /// Notes the end of a flow, of which the application was told at `at`. The clock must be read after the datagram that ended it was received: the time that the
    /// endpoint saw may be earlier than the flow's start, where the processor was taken away between the two.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn take(&mut self, at: Time, notice: &Notice) -> io::Result<()> {
        let at_ns = self.ns(at);
        match notice {
            Notice::Acknowledged { flow, sent } => {
                let mut line = self.sent(sent);
                line["at_ns"] = json!(at_ns);
                self.line("acknowledged", *flow, line)
            }
            Notice::Aborted { flow, sent, cause } => {
                let mut line = self.sent(sent);
                line["at_ns"] = json!(at_ns);
                line["cause"] = json!(cause.name());
                line["why"] = json!(cause.to_string());
                self.line("aborted", *flow, line)
            }
            Notice::Received { flow, size, .. } => self.line("received", *flow, json!({ "at_ns": at_ns, "bytes": size.get() })),
            Notice::Incomplete { flow, arrived, cause, .. } => {
                let line = json!({ "at_ns": at_ns, "bytes": arrived.get(), "cause": cause.name(), "why": cause.to_string() });
                self.line("incomplete", *flow, line)
            }
            Notice::Differs { .. } => Ok(()),
        }
    }

    /// Notes a flow from this node that has not ended.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(&mut self, flow: FlowId, sent: &Sent) -> io::Result<()> {
        let line = self.sent(sent);
        self.line("open", flow, line)
    }

    /// Notes a flow to this node that has not ended, and how many bytes of it have arrived.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn unfinished(&mut self, flow: FlowId, arrived: Bytes) -> io::Result<()> {
        self.line("unfinished", flow, json!({ "bytes": arrived.get() }))
    }

    /// Writes what has been noted so far.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn ns(&self, at: Time) -> u64 {
        at.saturating_since(self.start).as_ps() / 1000
    }

    fn sent(&self, sent: &Sent) -> Value {
        json!({
            "started_ns": sent.started.map(|at| self.ns(at)),
            "packets": sent.packets,
            "retransmissions": sent.retransmissions,
            "timeouts": sent.timeouts,
            "second_timeouts": sent.second_timeouts,
        })
    }

    fn line(&mut self, event: &str, flow: FlowId, more: Value) -> io::Result<()> {
        let source = self.cluster.id_space().source_of(flow);
        let mut line = json!({ "event": event, "id": flow.0, "from": self.cluster.members()[source.index()].name });
        if let Some(number) = self.numbers.get(&flow) {
            line["flow"] = json!(number);
        }
        if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
            line.extend(more);
        }
        writeln!(self.out, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Duration, NodeId};

    use super::*;
    use crate::{Cause, Profile};

    #[test]
    fn each_end_is_a_line() {
        let addresses = (7000..7002).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let cluster = Cluster::new(addresses, Profile::LOOPBACK).unwrap();
        let start = Time::ZERO + Duration::from_ms(10);
        let (mine, other) = (FlowId(5), FlowId(1 << 31));
        let mut text = Vec::new();
        let mut records = Records::new(&mut text, &cluster, start);
        records.planned(mine, 12).unwrap();
        let sent = Sent {
            started: Some(start + Duration::from_us(2)),
            packets: 9,
            retransmissions: 3,
            timeouts: 2,
            second_timeouts: 1,
        };
        let at = start + Duration::from_us(7);
        let size = Bytes::new(40);
        let notices = [
            Notice::Acknowledged { flow: mine, sent },
            Notice::Aborted { flow: mine, sent: Sent::default(), cause: Cause::Silent },
            Notice::Received { flow: other, src: NodeId(1), size, data: Vec::new() },
            Notice::Incomplete { flow: other, src: NodeId(1), arrived: size, cause: Cause::Restarted },
            Notice::Differs { peer: NodeId(1), what: String::new() },
        ];
        notices.iter().for_each(|notice| records.take(at, notice).unwrap());
        records.open(mine, &Sent::default()).unwrap();
        records.unfinished(other, size).unwrap();
        let lines: Vec<Value> =
            String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (id, from) = (1_u32 << 31, "1");
        let expected = [
            json!({ "event": "planned", "flow": 12, "id": 5, "from": "0" }),
            json!({
                "event": "acknowledged", "flow": 12, "id": 5, "from": "0", "at_ns": 7000, "started_ns": 2000, "packets": 9, "retransmissions": 3,
                "timeouts": 2, "second_timeouts": 1
            }),
            json!({
                "event": "aborted", "flow": 12, "id": 5, "from": "0", "at_ns": 7000, "started_ns": null, "packets": 0, "retransmissions": 0,
                "timeouts": 0, "second_timeouts": 0, "cause": "silent", "why": "the other node does not answer"
            }),
            json!({ "event": "received", "id": id, "from": from, "at_ns": 7000, "bytes": 40 }),
            json!({
                "event": "incomplete", "id": id, "from": from, "at_ns": 7000, "bytes": 40, "cause": "restarted", "why": "the other node was restarted"
            }),
            json!({
                "event": "open", "flow": 12, "id": 5, "from": "0", "started_ns": null, "packets": 0, "retransmissions": 0, "timeouts": 0,
                "second_timeouts": 0
            }),
            json!({ "event": "unfinished", "id": id, "from": from, "bytes": 40 }),
        ];
        assert_eq!(lines, expected);
    }
}
