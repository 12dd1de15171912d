//! The seal of one datagram, and the two ciphers of a session.

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Nonce, Tag};

use super::Rejection;
use super::key::{Key, Process};
use super::replay::Seen;

const TAG_BYTES: usize = 16;
pub use flowloom_core::frame::SEAL_BYTES;
const _: () = assert!(SEAL_BYTES == 4 + 8 + TAG_BYTES);

/// The ciphers of two processes, seen from one of them.
pub struct Session {
    /// The other process.
    pub peer: Process,
    seal: Aes128Gcm,
    seal_id: u32,
    /// The number of the next datagram to be sealed. Numbers never repeat, which the cipher depends on.
    next: u64,
    open: Aes128Gcm,
    open_id: u32,
    seen: Seen,
}

impl Session {
    pub fn new(key: &Key, me: Process, peer: Process) -> Session {
        let ((seal, seal_id), (open, open_id)) = (key.direction(me, peer), key.direction(peer, me));
        Session { peer, seal, seal_id, next: 0, open, open_id, seen: Seen::default() }
    }

    /// Seals a datagram: encrypts its last `secret` bytes, protects the others, and adds the seal. `buffer` holds the datagram in its first `length` bytes,
    /// and has room for the seal. Returns the new length.
    pub fn seal(&mut self, buffer: &mut [u8], length: usize, secret: usize) -> usize {
        let number = self.next;
        self.next += 1;
        let (clear, rest) = buffer.split_at_mut(length - secret);
        let (body, seal) = rest.split_at_mut(secret);
        seal[..4].copy_from_slice(&self.seal_id.to_be_bytes());
        seal[4..12].copy_from_slice(&number.to_be_bytes());
        let tag = self.seal.encrypt_inout_detached(&nonce(number), clear, body.into()).expect("a datagram is short");
        seal[12..SEAL_BYTES].copy_from_slice(&tag);
        length + SEAL_BYTES
    }

    /// Whether a sealed datagram names this session.
    pub fn is_named_by(&self, datagram: &[u8]) -> bool {
        datagram.len().checked_sub(SEAL_BYTES).is_some_and(|end| datagram[end..end + 4] == self.open_id.to_be_bytes())
    }

    /// Opens a sealed datagram that names this session: checks it and decrypts its last `secret` bytes before the seal. Returns the length without the seal.
    ///
    /// # Errors
    /// Why it is not accepted; `datagram` may then be garbled.
    pub fn open(&mut self, datagram: &mut [u8], secret: usize) -> Result<usize, Rejection> {
        let end = datagram.len() - SEAL_BYTES;
        let (message, seal) = datagram.split_at_mut(end);
        let number = u64::from_be_bytes(seal[4..12].try_into().expect("8 bytes"));
        let tag: [u8; TAG_BYTES] = seal[12..SEAL_BYTES].try_into().expect("16 bytes");
        let start = end.checked_sub(secret).ok_or(Rejection::Forged)?;
        if number == u64::MAX || !self.seen.is_new(number) {
            return Err(Rejection::Replayed);
        }
        let (clear, body) = message.split_at_mut(start);
        let opened = self.open.decrypt_inout_detached(&nonce(number), clear, body.into(), &Tag::from(tag));
        opened.map_err(|_| Rejection::Forged)?;
        self.seen.note(number);
        Ok(end)
    }
}

/// The number of a datagram as the cipher wants it. A session's key seals one direction only, so a number is enough.
fn nonce(number: u64) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

#[cfg(test)]
mod tests {
    use flowloom_core::NodeId;
    use proptest::prelude::*;

    use super::*;

    fn pair(key: &Key) -> (Session, Session) {
        let process = |node| Process { node: NodeId(node), incarnation: 100 + u64::from(node) };
        (Session::new(key, process(0), process(1)), Session::new(key, process(1), process(0)))
    }

    fn sealed(from: &mut Session, message: &[u8], secret: usize) -> Vec<u8> {
        let mut datagram = [message, &[0; SEAL_BYTES]].concat();
        assert_eq!(from.seal(&mut datagram, message.len(), secret), datagram.len());
        datagram
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened_once_and_by_the_other_process_only(
            message in prop::collection::vec(any::<u8>(), 0..200), share in 0.0..1.0, damaged in 0_usize..300, bit in 0_u8..8,
        ) {
            let (mut a, mut b) = pair(&Key::PUBLIC);
            let secret = (message.len() as f64 * share) as usize;
            let datagram = sealed(&mut a, &message, secret);
            prop_assert_eq!(&datagram[..message.len() - secret], &message[..message.len() - secret], "what is clear stays readable");
            let mut wrong = datagram.clone();
            let at = damaged % wrong.len();
            wrong[at] ^= 1 << bit;
            let named = b.is_named_by(&wrong);
            prop_assert!(!named || b.open(&mut wrong, secret).is_err(), "byte {} is damaged", at);
            let mut own = datagram.clone();
            prop_assert!(!a.is_named_by(&own) && a.open(&mut own, secret).is_err(), "a node does not accept what it sent itself");
            for expected in [Ok(message.len()), Err(Rejection::Replayed)] {
                let mut arrived = datagram.clone();
                prop_assert!(b.is_named_by(&arrived));
                prop_assert_eq!(b.open(&mut arrived, secret), expected);
                prop_assert!(expected.is_err() || arrived[..message.len()] == message[..]);
            }
        }
    }

    #[test]
    fn another_key_or_another_process_does_not_open() {
        let (mut a, _) = pair(&Key::PUBLIC);
        let datagram = sealed(&mut a, b"secret of a packet", 6);
        assert!(!datagram.windows(6).any(|part| part == b"packet"));
        let (_, mut stranger) = pair(&Key::random().unwrap());
        assert_eq!(stranger.open(&mut datagram.clone(), 6), Err(Rejection::Forged));
        let process = |node, incarnation| Process { node: NodeId(node), incarnation };
        let restarted = Session::new(&Key::PUBLIC, process(1, 102), process(0, 100));
        assert!(!restarted.is_named_by(&datagram));
        assert_eq!(restarted.peer.node, NodeId(0));
    }
}
