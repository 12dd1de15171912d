//! What lets nodes trust each other's datagrams: the cluster's key, sessions between two processes, and the greetings that open them.
//!
//! A node is known by its address and its place in the cluster; a process by its *incarnation*, a random number that it draws when it starts. Two processes
//! have a *session* when each knows that the other has seen its incarnation. A session has a key of its own for each direction, so a datagram of an earlier
//! process, of another cluster or of nobody is not accepted, and an acknowledgement comes from the process that has the data.

use flowloom_core::NodeId;

mod greeting;
mod key;
mod peers;
mod replay;
mod seal;

pub use greeting::Identity;
pub use key::Key;
pub use peers::{Affair, Need, Peers};
pub use seal::SEAL_BYTES;

/// The first bytes of messages between drivers. Packets begin with [`frame::MAGIC`](flowloom_core::frame::MAGIC).
pub const MAGIC: [u8; 2] = *b"FH";
/// The version of sessions and greetings. Nodes of different versions do not understand each other.
pub const VERSION: u8 = 2;

/// The messages between drivers. All begin with [`MAGIC`], [`VERSION`], the kind, and the source and destination node in four bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A process tells who it is.
    Greeting = 1,
    /// One end of a flow has ended it. The message is sealed.
    End = 2,
    /// A process is alive. The message is sealed, so it is no recording.
    Sign = 3,
}

/// Why a datagram is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// Its seal is not that of its sender: it is forged, damaged, or sealed with another key.
    Forged,
    /// It has been accepted before, or is so old that this is not known.
    Replayed,
    /// It belongs to no session that this process has.
    Stranger,
}

/// The length of what all messages between drivers begin with.
pub const HEAD_BYTES: usize = 12;

/// What a message between drivers begins with.
pub fn head(kind: Kind, src: NodeId, dst: NodeId) -> [u8; HEAD_BYTES] {
    let mut head = [MAGIC[0], MAGIC[1], VERSION, kind as u8, 0, 0, 0, 0, 0, 0, 0, 0];
    head[4..8].copy_from_slice(&src.0.to_be_bytes());
    head[8..].copy_from_slice(&dst.0.to_be_bytes());
    head
}

/// The kind, the source and the destination of a message between drivers.
pub fn parse_head(datagram: &[u8]) -> Option<(u8, NodeId, NodeId)> {
    let head = datagram.first_chunk::<HEAD_BYTES>()?;
    let node = |at: usize| NodeId(u32::from_be_bytes(head[at..at + 4].try_into().expect("4 bytes")));
    Some((head[3], node(4), node(8)))
}
