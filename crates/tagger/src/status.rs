//! What the programs in the kernel have counted.

use std::fmt;

use flowloom_core::Bytes;
use serde::Serialize;

use crate::Rules;

/// The number of classes.
pub(crate) const CLASSES: usize = 8;
/// The number of words of the map `counters`.
pub(crate) const COUNTERS: usize = 2 * CLASSES + 4;
/// The number of bins of the map `sizes`.
pub(crate) const BINS: u32 = 8 * 46;

/// The packets of a class, after segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Class {
    /// Packets.
    pub packets: u64,
    /// Their bytes, Ethernet headers included.
    pub bytes: u64,
}

/// Messages of about one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bin {
    /// The largest size of the bin before, bytes.
    pub above: u64,
    /// The largest size of the bin, bytes.
    pub bytes: u64,
    /// Messages that have ended.
    pub count: u64,
}

/// The rules of a tagger, and what it has counted since it was attached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Status {
    /// The device.
    pub device: String,
    /// Bytes, ascending.
    pub thresholds_bytes: Vec<u64>,
    /// The idle gap between messages.
    pub idle_gap_us: u64,
    /// Consecutive timeouts after which a flow counts as new; 0: never.
    pub timeouts: u64,
    /// Whether all packets of TCP connections with ECN become ECN-capable.
    pub ecn: bool,
    /// Whether bursts of TCP are single packets.
    pub exact: bool,
    /// How the programs are attached: `tcx` or `clsact`.
    pub attached: &'static str,
    /// Entries of the table of flows.
    pub table_size: u32,
    /// Flows that are in the table.
    pub known: u64,
    /// By class, from the highest.
    pub classes: Vec<Class>,
    /// Flows that were entered into the table.
    pub flows: u64,
    /// Messages that began, the first of each flow included.
    pub messages: u64,
    /// Times that a flow counted as new after timeouts.
    pub aged: u64,
    /// Flows that left the table because others needed the place.
    pub evicted: u64,
    /// Packets that are neither TCP nor UDP over IP.
    pub untagged: u64,
    /// Messages that have ended, by size.
    pub sizes: Vec<Bin>,
}

impl Status {
    pub(crate) fn count(&mut self, words: &[u64; COUNTERS]) {
        let (packets, rest) = words.split_at(CLASSES);
        let (bytes, rest) = rest.split_at(CLASSES);
        self.classes = packets.iter().zip(bytes).map(|(&packets, &bytes)| Class { packets, bytes }).collect();
        [self.flows, self.messages, self.aged, self.untagged] = std::array::from_fn(|at| rest[at]);
        self.evicted = self.flows.saturating_sub(self.known);
    }

    pub(crate) fn new(device: &str, rules: &Rules) -> Status {
        Status {
            device: device.into(),
            thresholds_bytes: rules.thresholds.iter().map(|threshold| threshold.get()).collect(),
            idle_gap_us: rules.idle_gap.as_ps() / 1_000_000,
            timeouts: rules.timeouts,
            ecn: !rules.keep_ecn,
            exact: false,
            attached: "",
            table_size: 0,
            known: 0,
            classes: vec![Class::default(); CLASSES],
            flows: 0,
            messages: 0,
            aged: 0,
            evicted: 0,
            untagged: 0,
            sizes: Vec::new(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = if self.exact { ", one packet per burst" } else { "" };
        writeln!(f, "{}: attached by {}{exact}", self.device, self.attached)?;
        writeln!(f, "class  DSCP       beyond        packets              bytes")?;
        for (class, counted) in self.classes.iter().enumerate().take(self.thresholds_bytes.len() + 1) {
            let beyond = class.checked_sub(1).map_or(String::new(), |at| Bytes::new(self.thresholds_bytes[at]).to_string());
            let dscp = 8 * (CLASSES - 1 - class);
            writeln!(f, "{class:>5}  {dscp:>4} {beyond:>12} {:>14} {:>18}", counted.packets, counted.bytes)?;
        }
        let timeouts = if self.timeouts == 0 { "off".into() } else { self.timeouts.to_string() };
        let ecn = if self.ecn { "ECT(0) where TCP has negotiated ECN" } else { "unchanged" };
        writeln!(f, "idle gap {} us; timeouts until a flow counts as new: {timeouts}; ECN field {ecn}", self.idle_gap_us)?;
        writeln!(
            f,
            "flows: {} seen, {} in the table of {}, {} evicted; {} messages, {} aged; {} packets of other protocols",
            self.flows, self.known, self.table_size, self.evicted, self.messages, self.aged, self.untagged
        )
    }
}

/// The bin of a size, as the programs compute it: eight bins to an octave.
pub fn bin_of(bytes: u64) -> u32 {
    if bytes < 8 {
        return bytes as u32;
    }
    let octave = bytes.ilog2();
    (8 * (octave - 2) + (bytes >> (octave - 3) & 7) as u32).min(BINS - 1)
}

/// The largest size in a bin. The last bin has all sizes beyond it, too.
pub fn last_of_bin(bin: u32) -> u64 {
    if bin < 8 {
        return u64::from(bin);
    }
    let (octave, part) = (bin / 8 + 2, u64::from(bin % 8));
    ((8 + part + 1) << (octave - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_in_the_bin_whose_edges_are_around_it() {
        assert_eq!([bin_of(0), bin_of(7), bin_of(8), bin_of(15), bin_of(16), bin_of(17)], [0, 7, 8, 15, 16, 16]);
        // By hand: 1460 = 1024 + 3 · 128 + 52 is in the fourth eighth of its octave, which ends at 1024 + 4 · 128 - 1.
        assert_eq!(last_of_bin(bin_of(1460)), 1535);
        for bin in 1..BINS {
            assert_eq!(bin_of(last_of_bin(bin)), bin);
            assert_eq!(bin_of(last_of_bin(bin - 1) + 1), bin);
        }
        assert_eq!(bin_of(u64::MAX), BINS - 1);
    }
}
