//! The message by which two processes learn of each other.
//!
//! | bytes | field |
//! |---|---|
//! | 0–1, 2, 3 | `FH`, the version, 1 for a greeting |
//! | 4–7, 8–11 | source and destination node |
//! | 12–15 | the id of the sender's key |
//! | 16–27 | a random number, for the cipher |
//! | encrypted: 8, 8 | the sender's incarnation; the destination's, as far as the sender knows it, or 0 |
//! | 1 | 1 if the sender wants an answer |
//! | 8, 8, 1– | digests of the transport's parameters and of the cluster, the length of the transport's name, the name |
//! | 16 | the tag |

use aes_gcm::Tag;
use aes_gcm::aead::AeadInOut;
use flowloom_core::NodeId;

use super::key::Key;
use super::{Kind, MAGIC, VERSION};

/// What is not encrypted.
const CLEAR_BYTES: usize = 28;
/// What is encrypted, without the transport's name.
const FIXED_BYTES: usize = 8 + 8 + 1 + 8 + 8 + 1;
const TAG_BYTES: usize = 16;

/// What the nodes of a cluster must have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The transport's name.
    pub transport: String,
    /// A digest of its parameters.
    pub parameters: u64,
    /// A digest of the addresses, in order, and of the network that endpoints see.
    pub cluster: u64,
}

/// What an authentic greeting says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The sender's incarnation.
    pub incarnation: u64,
    /// The destination's incarnation, if the sender knows it.
    pub echo: u64,
    /// Whether the sender wants an answer.
    pub asks: bool,
    /// What the sender runs.
    pub identity: Identity,
}

/// Why a greeting tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It is no greeting, or not between these two nodes.
    Foreign,
    /// Its sender has another version.
    Version(u8),
    /// Its sender has another key, or somebody says so.
    Key,
    /// It is not authentic.
    Forged,
}

impl Greeting {
    /// The greeting as a datagram.
    pub fn write(&self, key: &Key, src: NodeId, dst: NodeId) -> Vec<u8> {
        let mut bytes = super::head(Kind::Greeting, src, dst).to_vec();
        bytes.extend(key.id().to_be_bytes());
        let mut nonce = [0; 12];
        // Without randomness a number could repeat, and the cipher would fail. A system that runs processes has it.
        getrandom::fill(&mut nonce).expect("the system has random numbers");
        bytes.extend(nonce);
        bytes.extend(self.incarnation.to_be_bytes());
        bytes.extend(self.echo.to_be_bytes());
        bytes.push(self.asks.into());
        bytes.extend(self.identity.parameters.to_be_bytes());
        bytes.extend(self.identity.cluster.to_be_bytes());
        bytes.push(self.identity.transport.len() as u8);
        bytes.extend(self.identity.transport.as_bytes());
        let (clear, body) = bytes.split_at_mut(CLEAR_BYTES);
        let tag = key.greetings().encrypt_inout_detached(&nonce.into(), clear, body.into()).expect("a greeting is short");
        bytes.extend(tag);
        bytes
    }

    /// Reads a datagram from `src` to `dst`.
    ///
    /// # Errors
    /// Why it tells nothing.
    pub fn read(datagram: &[u8], key: &Key, src: NodeId, dst: NodeId) -> Result<Greeting, Unread> {
        let (clear, rest) = datagram.split_first_chunk::<CLEAR_BYTES>().ok_or(Unread::Foreign)?;
        if clear[..2] != MAGIC || super::parse_head(clear) != Some((Kind::Greeting as u8, src, dst)) {
            return Err(Unread::Foreign);
        }
        if clear[2] != VERSION {
            return Err(Unread::Version(clear[2]));
        }
        if clear[12..16] != key.id().to_be_bytes() {
            return Err(Unread::Key);
        }
        let (body, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(Unread::Forged)?;
        let nonce: [u8; 12] = clear[16..].try_into().expect("12 bytes");
        let mut body = body.to_vec();
        let opened = key.greetings().decrypt_inout_detached(&nonce.into(), clear, body.as_mut_slice().into(), &Tag::from(*tag));
        opened.map_err(|_| Unread::Forged)?;
        Greeting::parse(&body).ok_or(Unread::Forged)
    }

    fn parse(body: &[u8]) -> Option<Greeting> {
        let (fixed, name) = body.split_first_chunk::<FIXED_BYTES>()?;
        let number = |at: usize| u64::from_be_bytes(fixed[at..at + 8].try_into().expect("8 bytes"));
        let transport = std::str::from_utf8(name).ok()?.to_owned();
        let whole = usize::from(fixed[FIXED_BYTES - 1]) == name.len();
        let identity = Identity { transport, parameters: number(17), cluster: number(25) };
        whole.then(|| Greeting { incarnation: number(0), echo: number(8), asks: fixed[16] == 1, identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: (NodeId, NodeId) = (NodeId(3), NodeId(5));

    fn greeting() -> Greeting {
        let identity = Identity { transport: "phost".into(), parameters: 7, cluster: 9 };
        Greeting { incarnation: 1, echo: u64::MAX, asks: true, identity }
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        let datagram = greeting().write(&Key::PUBLIC, NODES.0, NODES.1);
        assert_eq!(Greeting::read(&datagram, &Key::PUBLIC, NODES.0, NODES.1), Ok(greeting()));
        assert!(!datagram.windows(5).any(|part| part == b"phost"), "the body is encrypted");
        assert_ne!(datagram, greeting().write(&Key::PUBLIC, NODES.0, NODES.1), "no two are alike");
    }

    #[test]
    fn another_sender_version_or_key_is_told_apart() {
        let datagram = greeting().write(&Key::PUBLIC, NODES.0, NODES.1);
        let read = |datagram: &[u8], key: &Key| Greeting::read(datagram, key, NODES.0, NODES.1);
        assert_eq!(Greeting::read(&datagram, &Key::PUBLIC, NODES.1, NODES.0), Err(Unread::Foreign));
        let other = Key::random().unwrap();
        assert_eq!(read(&datagram, &other), Err(Unread::Key));
        let with = |at: usize, value: u8| {
            let mut changed = datagram.clone();
            changed[at] = value;
            changed
        };
        assert_eq!(read(&with(2, 9), &Key::PUBLIC), Err(Unread::Version(9)));
        assert_eq!(read(&with(0, b'X'), &Key::PUBLIC), Err(Unread::Foreign));
        assert_eq!(read(&datagram[..CLEAR_BYTES + 3], &Key::PUBLIC), Err(Unread::Forged));
        for (at, byte) in datagram.iter().enumerate().skip(16) {
            assert_eq!(read(&with(at, byte ^ 1), &Key::PUBLIC), Err(Unread::Forged), "byte {at}");
        }
    }
}
