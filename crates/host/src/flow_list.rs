//! The flows that a node is to send, as a file lists them.

use flowloom_core::{Bytes, Coflow, Duration, Flow, FlowId, NodeId, Time};
use serde::Deserialize;

use crate::cluster::Cluster;

/// A flow of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Its number, which records repeat.
    pub number: u64,
    /// The flow, for [`Node::plan`](crate::Node::plan).
    pub flow: Flow,
}

/// One line of the file. Times are in nanoseconds after the common start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    flow: u64,
    to: String,
    bytes: u64,
    start_ns: u64,
    deadline_ns: Option<u64>,
    #[serde(default)]
    tenant: u16,
    coflow: Option<CoflowEntry>,
    #[serde(default)]
    background: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoflowEntry {
    number: u32,
    bytes: u64,
    start_ns: u64,
}

/// Reads the flows of node `me` from a text with an object of JSON in each line (see the crate's README). `start` is the common start, in the time of nodes.
///
/// # Errors
/// The number of the first line that is wrong, and what would be right.
pub fn parse(text: &str, cluster: &Cluster, me: NodeId, start: Time) -> Result<Vec<Planned>, String> {
    let lines = (1_usize..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| parse_line(line, cluster, me, start).map_err(|error| format!("line {number}: {error}")))
        .collect()
}

fn parse_line(text: &str, cluster: &Cluster, me: NodeId, start: Time) -> Result<Planned, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| {
        // The line of the message would be that of this text alone.
        let said = error.to_string();
        let what = said.split(" at line ").next().unwrap_or(&said);
        format!(
            "{what} (column {}); a flow is {{\"flow\": 7, \"to\": \"h2\", \"bytes\": 30000, \"start_ns\": 150000}}, and may have \"deadline_ns\", \"tenant\", \
             \"coflow\" and \"background\"",
            error.column()
        )
    })?;
    let hosts = cluster.network().hosts();
    let dst = cluster.find(&line.to).filter(|dst| dst.index() < hosts && *dst != me);
    let dst = dst.ok_or_else(|| format!("\"to\": {:?} is no other host of the cluster", line.to))?;
    let at = |key: &str, ns: u64| {
        let span = ns.checked_mul(1000).map(Duration::from_ps).filter(|span| *span <= Duration::LONGEST);
        span.map(|span| start + span).ok_or_else(|| format!("\"{key}\": {ns} ns are more than {}", Duration::LONGEST))
    };
    let coflow = line.coflow.map(|coflow| {
        let CoflowEntry { number, bytes, start_ns } = coflow;
        Ok::<_, String>(Coflow { number, size: Bytes::new(bytes), start: at("start_ns", start_ns)? })
    });
    let flow = Flow {
        id: FlowId::default(),
        src: me,
        dst,
        size: Bytes::new(line.bytes),
        start: at("start_ns", line.start_ns)?,
        deadline: line.deadline_ns.map(|ns| at("deadline_ns", ns)).transpose()?,
        tenant: line.tenant,
        coflow: coflow.transpose()?,
        background: line.background,
    };
    Ok(Planned { number: line.flow, flow })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn read(text: &str) -> Result<Vec<Planned>, String> {
        let addresses = (7000..7003).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let cluster = Cluster::new(addresses, Profile::LOOPBACK).unwrap();
        parse(text, &cluster, NodeId(1), Time::ZERO + Duration::from_ms(10))
    }

    #[test]
    fn a_line_is_a_flow() {
        let text = "{\"flow\": 7, \"to\": \"2\", \"bytes\": 30000, \"start_ns\": 1500}\n\n{\"flow\": 9, \"to\": \"0\", \"bytes\": 0, \"start_ns\": 0, \
                    \"deadline_ns\": 2000000, \"tenant\": 3, \"coflow\": {\"number\": 4, \"bytes\": 99, \"start_ns\": 1000}, \"background\": true}\n";
        let at_us = |us| Time::ZERO + Duration::from_ms(10) + Duration::from_us(us);
        let first = Flow {
            id: FlowId(0),
            src: NodeId(1),
            dst: NodeId(2),
            size: Bytes::new(30_000),
            start: Time::from_ps(10_001_500_000),
            deadline: None,
            tenant: 0,
            coflow: None,
            background: false,
        };
        let second = Flow {
            dst: NodeId(0),
            size: Bytes::ZERO,
            start: at_us(0),
            deadline: Some(at_us(2000)),
            tenant: 3,
            coflow: Some(Coflow { number: 4, size: Bytes::new(99), start: at_us(1) }),
            background: true,
            ..first
        };
        assert_eq!(read(text), Ok(vec![Planned { number: 7, flow: first }, Planned { number: 9, flow: second }]));
        assert_eq!(read("\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let good = "{\"flow\": 7, \"to\": \"2\", \"bytes\": 30000, \"start_ns\": 1500}";
        let cases = [
            (good.replace("bytes", "byte"), "line 2: unknown field `byte`, expected one of `flow`, `to`, `bytes`"),
            (good.replace(", \"start_ns\": 1500", ""), "line 2: missing field `start_ns`"),
            (good.replace("30000", "-1"), "line 2: invalid value: integer `-1`, expected u64"),
            (good.replace("\"2\"", "\"1\""), "line 2: \"to\": \"1\" is no other host of the cluster"),
            (good.replace("\"2\"", "\"switch\""), "line 2: \"to\": \"switch\" is no other host"),
            (good.replace("1500", "99999999999999999"), "line 2: \"start_ns\": 99999999999999999 ns are more than"),
            ("7 2 30000".to_owned(), "a flow is {\"flow\": 7,"),
        ];
        for (line, expected) in cases {
            let error = read(&format!("{good}\n{line}\n")).unwrap_err();
            assert!(error.contains(expected) && error.starts_with("line 2"), "{expected}: {error}");
        }
    }
}
