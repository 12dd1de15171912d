//! A timeline in Perfetto's format: a track for each port and each flow.
//!
//! On a port's track, each slice is one transmission, so the slices of a port add up to the time in which it was busy. Below it are the packets that wait for the port, on as
//! many tracks as packets wait at once. A flow's track has a slice from its start until its last byte is there, and what its endpoints report.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;

use flowloom_core::{Flow, FlowId, LinkId, Time};
use prost::Message;

use super::Seen;
use crate::changing::ChangingNetwork;

/// The part of Perfetto's `Trace` message that is used. The numbers are those of its schema.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// All events come from one writer.
const SEQUENCE: u32 = 1;

/// A track of the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Track {
    Ports,
    Flows,
    Port(LinkId),
    /// One of those on which packets wait for a port.
    Waits(LinkId, u32),
    Flow(FlowId),
}

/// Writes a timeline.
pub(super) struct Timeline {
    network: ChangingNetwork,
    out: Vec<u8>,
    /// The tracks that were described, with their ids.
    tracks: HashMap<Track, u64>,
    /// By port, the tracks of waiting packets: when the last packet on it stopped waiting, and the track's number.
    waits: HashMap<LinkId, BinaryHeap<Reverse<(Time, u32)>>>,
}

impl Timeline {
    pub fn new(network: ChangingNetwork) -> Timeline {
        Timeline { network, out: Vec::new(), tracks: HashMap::new(), waits: HashMap::new() }
    }

    /// A flow was handed to its source.
    pub fn open(&mut self, now: Time, flow: &Flow) {
        let [src, dst] = [flow.src, flow.dst].map(|node| self.network.last().node(node).name.clone());
        let name = format!("{src} to {dst}, {}", flow.size);
        self.event(now, Track::Flow(flow.id), SLICE_BEGIN, Some(name), &[("bytes", flow.size.get())]);
    }

    /// A port begins to send a packet, which has waited there since it was queued.
    pub fn send(&mut self, now: Time, link: LinkId, number: u64, seen: &Seen<'_>, queued: Option<Time>) {
        let packet = &seen.packet;
        let name = format!("{} of flow {}", seen.kind, packet.flow.0);
        let more = [
            ("packet", number),
            ("bytes", u64::from(packet.size_bytes)),
            ("offset", packet.offset.get()),
            ("class", packet.class.into()),
        ];
        if let Some(since) = queued.filter(|since| *since < now) {
            let track = Track::Waits(link, self.waiting(link, since, now));
            self.event(since, track, SLICE_BEGIN, Some(name.clone()), &more);
            self.event(now, track, SLICE_END, None, &[]);
        }
        let end = now + self.network.at(now).link(link).rate.transmit_time(packet.size());
        self.event(now, Track::Port(link), SLICE_BEGIN, Some(name), &more);
        self.event(end, Track::Port(link), SLICE_END, None, &[]);
    }

    /// Something else happens to a packet at a port.
    pub fn happen(&mut self, now: Time, link: LinkId, seen: &Seen<'_>, what: &str) {
        let name = format!("{} of flow {} {what}", seen.kind, seen.packet.flow.0);
        self.event(now, Track::Port(link), INSTANT, Some(name), &[]);
        let name = format!("{} {what} at {}", seen.kind, self.network.last().link_name(link));
        self.event(now, Track::Flow(seen.packet.flow), INSTANT, Some(name), &[("offset", seen.packet.offset.get())]);
    }

    /// An endpoint reports something of a flow.
    pub fn note(&mut self, now: Time, flow: FlowId, what: &str) {
        self.event(now, Track::Flow(flow), INSTANT, Some(what.to_owned()), &[]);
        if what == "received" {
            self.event(now, Track::Flow(flow), SLICE_END, None, &[]);
        }
    }

    /// The bytes since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The number of a track on which nothing waits from one time to the other.
    fn waiting(&mut self, link: LinkId, from: Time, to: Time) -> u32 {
        let tracks = self.waits.entry(link).or_default();
        let number = match tracks.peek() {
            Some(Reverse((free, number))) if *free <= from => {
                let number = *number;
                tracks.pop();
                number
            }
            _ => tracks.len() as u32,
        };
        tracks.push(Reverse((to, number)));
        number
    }

    fn event(&mut self, at: Time, track: Track, kind: i32, name: Option<String>, more: &[(&str, u64)]) {
        let uuid = self.uuid(track);
        let more = more.iter();
        let event = TrackEvent {
            debug_annotations: more
                .map(|(name, value)| DebugAnnotation { uint_value: Some(*value), name: Some((*name).to_owned()) })
                .collect(),
            r#type: Some(kind),
            track_uuid: Some(uuid),
            name,
        };
        let timestamp = Some(at.as_ps() / 1000);
        self.put(TracePacket { timestamp, track_event: Some(event), ..TracePacket::default() });
    }

    /// The id of a track, which is described before it is used.
    fn uuid(&mut self, track: Track) -> u64 {
        if let Some(uuid) = self.tracks.get(&track) {
            return *uuid;
        }
        let (name, parent) = match track {
            Track::Ports => ("ports".to_owned(), None),
            Track::Flows => ("flows".to_owned(), None),
            Track::Port(link) => (self.network.last().link_name(link), Some(Track::Ports)),
            Track::Waits(link, _) => ("waiting".to_owned(), Some(Track::Port(link))),
            Track::Flow(flow) => (format!("flow {}", flow.0), Some(Track::Flows)),
        };
        let parent_uuid = parent.map(|parent| self.uuid(parent));
        let uuid = 1 + self.tracks.len() as u64;
        self.tracks.insert(track, uuid);
        let track_descriptor = Some(TrackDescriptor { uuid: Some(uuid), name: Some(name), parent_uuid });
        self.put(TracePacket { track_descriptor, ..TracePacket::default() });
        uuid
    }

    fn put(&mut self, packet: TracePacket) {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        Trace { packet: vec![packet] }.encode(&mut self.out).expect("memory takes all that is written");
    }
}
